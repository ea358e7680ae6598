# tombolo_module(NAME [USES module...] [LIBS library...]): one static library per folder of src/.
#
# Every foo.cc of the folder belongs to the module, every foo_test.cc to its test program NAME_test.
# What a module may use is written in src/README.md; tools/check holds the includes against it.
find_package(GTest REQUIRED)
include(GoogleTest)

function(tombolo_module name)
  cmake_parse_arguments(ARG "" "" "USES;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|main)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(TRANSFORM ARG_USES PREPEND "tombolo_")
  add_library(tombolo_${name} STATIC ${sources})
  target_include_directories(tombolo_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(tombolo_${name} PUBLIC ${ARG_USES} ${ARG_LIBS})
  if(tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE tombolo_${name} GTest::gtest GTest::gmock GTest::gtest_main)
    gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST TEST_PREFIX "${name}." PROPERTIES TIMEOUT 120 LABELS ${name})
  endif()
endfunction()
