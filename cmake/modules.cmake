# tombolo_module(NAME [USES module...] [LIBS library...]): one static library per folder of src/.
#
# Every foo.cc of the folder belongs to the module, every foo_test.cc to its test program NAME_test.
# What a module may use is written in src/README.md; tools/check holds the includes against it.
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
    tombolo_test(${name} SOURCES ${tests} USES ${name})
  endif()
endfunction()

# tombolo_test(NAME SOURCES file... USES module... [LABELS label...]): the test program NAME_test.
#
# Its tests carry the labels (left out: NAME), as in `ctest -L transport`. The target
# tests_of_<label> builds every test program of a label.
function(tombolo_test name)
  if(NOT TOMBOLO_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS ${name})
  endif()
  list(TRANSFORM ARG_USES PREPEND "tombolo_")
  add_executable(${name}_test ${ARG_SOURCES})
  target_link_libraries(${name}_test PRIVATE ${ARG_USES} GTest::gtest GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST TEST_PREFIX "${name}."
                       PROPERTIES TIMEOUT 300 LABELS "${ARG_LABELS}")
  foreach(label ${ARG_LABELS})
    if(NOT TARGET tests_of_${label})
      add_custom_target(tests_of_${label})
    endif()
    add_dependencies(tests_of_${label} ${name}_test)
  endforeach()
endfunction()

if(TOMBOLO_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
