# Headers that nearly every file includes, parsed once per preset instead of once per file. `release` does without, so that a
# file that forgets an include is found out.
option(TOMBOLO_PRECOMPILE "Precompile the headers that nearly every file includes" OFF)

# tombolo_precompiled(TARGET VARIANT [OPTION...]): compiles a target with the options, and lets it use the headers that were
# compiled with the same: one VARIANT for each list of options. `test` has GoogleTest's as well.
function(tombolo_precompiled target variant)
  target_compile_options(${target} PRIVATE ${ARGN})
  # Modules with options of their own for floats: clang finds the headers unfit.
  if(target MATCHES "^tombolo_(compress|update)(_fuzzed)?$")
    return()
  endif()
  # What LibTorch defines makes them unfit.
  if(NOT TOMBOLO_PRECOMPILE OR (TOMBOLO_TORCH AND target MATCHES "^(tombolo_)?(train|worker|numerics|strand_gain)(_test|_bench_syntax)?$"))
    return()
  endif()
  set(name tombolo_precompiled_${variant})
  set(headers <fmt/format.h> <algorithm> <array> <functional> <map> <memory> <optional> <set> <span> <string> <string_view>
              <tuple> <unordered_map> <variant> <vector> "${PROJECT_SOURCE_DIR}/src/base/fields.h")
  set(libraries fmt::fmt tl::expected)
  if(variant MATCHES "^test")
    list(APPEND headers <gmock/gmock.h> <gtest/gtest.h>)
    list(APPEND libraries GTest::gtest GTest::gmock)
  endif()
  if(NOT TARGET ${name})
    find_package(fmt REQUIRED)
    find_package(tl-expected REQUIRED)
    file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/${name}.cc CONTENT "")
    add_library(${name} STATIC ${PROJECT_BINARY_DIR}/${name}.cc)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${name} PRIVATE ${libraries})
    target_compile_options(${name} PRIVATE ${ARGN})
    target_precompile_headers(${name} PRIVATE ${headers})
  endif()
  # With TOMBOLO_PYTHON libraries are compiled with -fPIC and programs with -fPIE, and g++ takes no headers compiled with the other:
  # tests, which are programs, and their headers, which are a library, have neither; other programs do without such headers.
  get_target_property(type ${target} TYPE)
  if(variant MATCHES "^test")
    set_target_properties(${target} ${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  elseif(type STREQUAL "EXECUTABLE" AND TOMBOLO_PYTHON)
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${name})
endfunction()
