# Headers that nearly every file includes, parsed once per preset instead of once per file: for the sanitized builds, which
# take longest. The others do without, so that a file that forgets an include is found out.
option(TOMBOLO_PRECOMPILE "Precompile the headers that nearly every file includes" OFF)

# tombolo_precompiled(TARGET [TESTS]): lets a target use them. A compiler that finds them unfit (other flags) reads the
# headers themselves.
function(tombolo_precompiled target)
  if(NOT TOMBOLO_PRECOMPILE)
    return()
  endif()
  set(name tombolo_precompiled_headers)
  set(headers <fmt/format.h> <algorithm> <array> <functional> <map> <memory> <optional> <set> <span> <string> <string_view>
              <tuple> <unordered_map> <variant> <vector> "${PROJECT_SOURCE_DIR}/src/base/fields.h")
  set(libraries fmt::fmt tl::expected)
  if("TESTS" IN_LIST ARGN)
    set(name tombolo_precompiled_test_headers)
    list(APPEND headers <gmock/gmock.h> <gtest/gtest.h>)
    list(APPEND libraries GTest::gtest GTest::gmock)
  endif()
  if(NOT TARGET ${name})
    file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/${name}.cc CONTENT "")
    add_library(${name} STATIC ${PROJECT_BINARY_DIR}/${name}.cc)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${name} PRIVATE ${libraries})
    if("TESTS" IN_LIST ARGN AND TOMBOLO_SANITIZE)
      target_compile_options(${name} PRIVATE -O0)  # as in tombolo_test
    endif()
    target_precompile_headers(${name} PRIVATE ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${name})
endfunction()
