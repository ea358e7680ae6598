# Headers that nearly every file includes, parsed once per preset instead of once per file: for the sanitized builds, which
# take longest. The others do without, so that a file that forgets an include is found out.
option(TOMBOLO_PRECOMPILE "Precompile the headers that nearly every file includes" OFF)

# tombolo_precompiled(TARGET [TESTS|HOT]): lets a target use them, compiled with the flags that it has. A compiler that finds
# them unfit (other flags) reads the headers themselves.
function(tombolo_precompiled target)
  if(NOT TOMBOLO_PRECOMPILE)
    return()
  endif()
  set(name tombolo_precompiled_headers)
  set(headers <fmt/format.h> <algorithm> <array> <functional> <map> <memory> <optional> <set> <span> <string> <string_view>
              <tuple> <unordered_map> <variant> <vector> "${PROJECT_SOURCE_DIR}/src/base/fields.h")
  set(libraries fmt::fmt tl::expected)
  if("HOT" IN_LIST ARGN)
    string(APPEND name _hot)
  elseif("TESTS" IN_LIST ARGN)
    set(name tombolo_precompiled_test_headers)
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
    if("HOT" IN_LIST ARGN)
      target_compile_options(${name} PRIVATE -O1)  # as in tombolo_module
    endif()
    target_precompile_headers(${name} PRIVATE ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${name})
endfunction()
