# In the sanitized builds only what computes for long is optimised: the rest would take longer to compile than it saves.
set(TOMBOLO_HOT engine sim workload schedule_proof schedule_search astra)
# With TOMBOLO_FUZZ, the modules whose branches guide the fuzzers: those that read what others wrote.
set(TOMBOLO_FUZZED base model cluster plan graph chakra trace schedule network astra sweep trust link transport control runtime
    launch wanem)

# tombolo_module(NAME [USES module...] [LIBS library...]): one static library per module, src/GROUP/NAME/.
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
  set(variant plain)
  set(options)
  if(TOMBOLO_SANITIZE AND name IN_LIST TOMBOLO_HOT)
    string(APPEND variant _hot)
    list(APPEND options -O1)
  endif()
  if(TOMBOLO_FUZZ AND name IN_LIST TOMBOLO_FUZZED)
    string(APPEND variant _fuzzed)
    list(APPEND options -fsanitize=fuzzer-no-link)
  endif()
  tombolo_precompiled(tombolo_${name} ${variant} ${options})
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
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name}_test PRIVATE ${ARG_USES} GTest::gtest GTest::gmock GTest::gtest_main)
  if(TOMBOLO_SANITIZE)
    tombolo_precompiled(${name}_test test -g0)  # lines of the product are worth their time, those of tests are not
  else()
    tombolo_precompiled(${name}_test test)
  endif()
  # LibTorch takes seconds to load where nothing has read it yet.
  gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120 TEST_PREFIX "${name}."
                       PROPERTIES TIMEOUT 300 LABELS "${ARG_LABELS}" ENVIRONMENT "TMPDIR=${CMAKE_BINARY_DIR}/tmp")
  foreach(label ${ARG_LABELS})
    if(NOT TARGET tests_of_${label})
      add_custom_target(tests_of_${label})
    endif()
    add_dependencies(tests_of_${label} ${name}_test)
  endforeach()
endfunction()

# tombolo_python_tests(LABEL [PROPERTIES property value...]): the files *_test.py of this folder.
#
# Each method of a test class is a ctest test of its own, LABEL.Class.method, so that what is skipped is
# counted as skipped. Those marked @needs_torch or @with_torch_too, or whose class is, are labelled with_torch as well.
function(tombolo_python_tests label)
  cmake_parse_arguments(ARG "" "" "PROPERTIES" ${ARGN})
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  file(GLOB files CONFIGURE_DEPENDS *_test.py)
  foreach(file ${files})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(STRINGS ${file} lines REGEX "^class |^    def test_|^ *@(needs_torch|with_torch_too|optimised)$")
    set(mark "")
    foreach(line ${lines})
      if(line MATCHES "^class ([A-Za-z0-9_]+)")
        set(class ${CMAKE_MATCH_1})
        set(class_mark ${mark})
        set(mark "")
      elseif(line MATCHES "@optimised")
        set(mark optimised)
      elseif(line MATCHES "@")
        set(mark with_torch)
      elseif(line MATCHES "def (test_[A-Za-z0-9_]+)")
        set(name ${label}.${class}.${CMAKE_MATCH_1})
        add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${file} ${class}.${CMAKE_MATCH_1})
        set(environment "TOMBOLO_BUILD=${CMAKE_BINARY_DIR}" "TOMBOLO_TORCH=$<BOOL:${TOMBOLO_TORCH}>"
            "TOMBOLO_SANITIZE=${TOMBOLO_SANITIZE}" "PYTHONDONTWRITEBYTECODE=1" "TMPDIR=${CMAKE_BINARY_DIR}/tmp")
        set(labels ${label} ${class_mark} ${mark})
        list(REMOVE_DUPLICATES labels)
        set(mark "")
        set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 300 SKIP_REGULAR_EXPRESSION "OK .skipped=1"
          ENVIRONMENT "${environment}" ${ARG_PROPERTIES})
      endif()
    endforeach()
  endforeach()
endfunction()

if(TOMBOLO_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/tmp)  # what tests leave behind goes with the build
endif()
