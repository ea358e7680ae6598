# What computes, or moves bytes, for long. A build that is made to be tested once optimises these alone (TOMBOLO_OPTIMISE_HOT):
# the rest takes longer to compile than it saves.
set(TOMBOLO_OPTIMISE_HOT OFF CACHE STRING "Optimise what computes for long, whatever the build type says: ON, OFF or LOOPS")
set(TOMBOLO_HOT base action model plan graph trace schedule prefill tune prefill_sim engine sim cost strand workload schedule_proof schedule_search search geo across network ledger score astra sweep
    link transport control compress update kernels exchange state stage observe join run wanem)
# Of these, with TOMBOLO_OPTIMISE_HOT=LOOPS, only the loops that a person waits for.
set(TOMBOLO_HOT_LOOPS base action graph engine sim cost strand network search compress update kernels wanem)
if(TOMBOLO_OPTIMISE_HOT STREQUAL "LOOPS")
  set(TOMBOLO_HOT ${TOMBOLO_HOT_LOOPS})
endif()
# Loops over numbers, vectors among them, which without optimisation are slower by tens: optimised under a sanitizer, too. They use
# no precompiled headers (precompiled.cmake), which would have to be compiled so as well.
set(TOMBOLO_VECTORS compress update)
# Test programs that are compiled so as well.
set(TOMBOLO_HOT_TESTS run)
# With TOMBOLO_FUZZ, the modules whose branches guide the fuzzers: those that read what others wrote.
set(TOMBOLO_FUZZED tune prefill_sim base model cluster plan graph chakra trace schedule strand network astra sweep trust link transport control compress kernels exchange state stage
    join run data text weights generate handover serve wanem)

# tombolo_module(NAME [USES module...] [LIBS library...] [OPTIMISED filter]): one static library per module, src/GROUP/NAME/.
#
# Every foo.cc of the folder belongs to the module, every foo_test.cc to its test program NAME_test (OPTIMISED: tombolo_test).
# What a module may use is written in src/README.md; tools/check holds the includes against it.
function(tombolo_module name)
  cmake_parse_arguments(ARG "" "OPTIMISED" "USES;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|main)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(TRANSFORM ARG_USES PREPEND "tombolo_")
  add_library(tombolo_${name} STATIC ${sources})
  target_include_directories(tombolo_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  target_link_libraries(tombolo_${name} PUBLIC ${ARG_USES} ${ARG_LIBS})
  set(variant plain)
  set(options)
  if(TOMBOLO_OPTIMISE_HOT AND name IN_LIST TOMBOLO_HOT)
    string(APPEND variant _hot)
    list(APPEND options -O1)
    # Of a template that is compiled both ways the linker takes the first: these stand before all others on its command line. (mold
    # looks back for what a library lacks; other linkers pass over them here.)
    target_link_options(tombolo_${name} INTERFACE $<BUILD_INTERFACE:$<TARGET_FILE:tombolo_${name}>>)
  elseif(TOMBOLO_SANITIZE AND name IN_LIST TOMBOLO_VECTORS)
    list(APPEND options -O1)
  endif()
  if(TOMBOLO_FUZZ AND name IN_LIST TOMBOLO_FUZZED)
    string(APPEND variant _fuzzed)
    list(APPEND options -fsanitize=fuzzer-no-link)
  endif()
  tombolo_precompiled(tombolo_${name} ${variant} ${options})
  if(tests)
    tombolo_test(${name} SOURCES ${tests} USES ${name} OPTIMISED "${ARG_OPTIMISED}")
  endif()
endfunction()

# tombolo_test(NAME SOURCES file... USES module... [LABELS label...] [OPTIMISED filter]): the test program NAME_test.
#
# Its tests carry the labels (left out: NAME), as in `ctest -L transport`. Those that GoogleTest's filter OPTIMISED names
# compute for long: they are labelled `optimised` as well, and ./test.sh runs them without a sanitizer. The target
# tests_of_<label> builds every test program of a label, unit_tests all that have any test for a sanitizer.
function(tombolo_test name)
  if(NOT TOMBOLO_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "OPTIMISED" "SOURCES;USES;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS ${name})
  endif()
  list(TRANSFORM ARG_USES PREPEND "tombolo_")
  add_executable(${name}_test ${ARG_SOURCES})
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name}_test PRIVATE ${ARG_USES} GTest::gtest GTest::gmock GTest::gtest_main)
  if(TOMBOLO_SANITIZE)
    tombolo_precompiled(${name}_test test -g0)  # lines of the product are worth their time, those of tests are not
  elseif(TOMBOLO_OPTIMISE_HOT AND name IN_LIST TOMBOLO_HOT_TESTS)
    tombolo_precompiled(${name}_test test_hot -O1)
  else()
    tombolo_precompiled(${name}_test test)
  endif()
  if(ARG_OPTIMISED)
    tombolo_discover(${name} "${ARG_LABELS};optimised" "${ARG_OPTIMISED}")
  endif()
  if(NOT ARG_OPTIMISED STREQUAL "*")
    tombolo_discover(${name} "${ARG_LABELS}" "-${ARG_OPTIMISED}")
    if(NOT TARGET unit_tests)
      add_custom_target(unit_tests)
    endif()
    add_dependencies(unit_tests ${name}_test)
  endif()
  if(ARG_OPTIMISED)
    list(APPEND ARG_LABELS optimised)
  endif()
  foreach(label ${ARG_LABELS})
    if(NOT TARGET tests_of_${label})
      add_custom_target(tests_of_${label})
    endif()
    add_dependencies(tests_of_${label} ${name}_test)
  endforeach()
endfunction()

# tombolo_test_program(NAME SOURCES file... USES module... FOR label): a program that Python tests start. It is built with the
# tests of that label: what ./test.sh builds from a fresh clone is what its tests find.
function(tombolo_test_program name)
  cmake_parse_arguments(ARG "" "FOR" "SOURCES;USES" ${ARGN})
  list(TRANSFORM ARG_USES PREPEND "tombolo_")
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_USES})
  if(NOT TARGET tests_of_${ARG_FOR})
    add_custom_target(tests_of_${ARG_FOR})
  endif()
  add_dependencies(tests_of_${ARG_FOR} ${name})
endfunction()

function(tombolo_discover name labels filter)
  string(MAKE_C_IDENTIFIER "tests_of_${name}_${filter}" found)
  # LibTorch takes seconds to load where nothing has read it yet.
  gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120 TEST_PREFIX "${name}." TEST_FILTER "${filter}"
                       TEST_LIST ${found} PROPERTIES TIMEOUT 300 ENVIRONMENT "TMPDIR=${CMAKE_BINARY_DIR}/tmp")
  # On the way through the line above a list of labels would become several arguments.
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/labels_of_${found}.cmake
       "if(${found})\n  set_tests_properties(\${${found}} PROPERTIES LABELS \"${labels}\")\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/labels_of_${found}.cmake)
endfunction()

# tombolo_python_tests(LABEL [PROPERTIES property value...] [OPTIMISED name...]): the files *_test.py of this folder.
#
# Each method of a test class is a ctest test of its own, LABEL.Class.method, so that what is skipped is
# counted as skipped. Those marked @needs_torch or @with_torch_too, or whose class is, are labelled with_torch as well; those of
# OPTIMISED (name: name_test.py) optimised.
function(tombolo_python_tests label)
  cmake_parse_arguments(ARG "" "" "PROPERTIES;OPTIMISED" ${ARGN})
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  file(GLOB files CONFIGURE_DEPENDS *_test.py)
  foreach(file ${files})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(STRINGS ${file} lines REGEX "^class |^    def test_|^ *@(needs_torch|with_torch_too)$")
    string(REGEX REPLACE ".*/(.*)_test.py" "\\1" part ${file})
    set(file_mark "")
    if(part IN_LIST ARG_OPTIMISED)
      set(file_mark optimised)
    endif()
    set(mark "")
    foreach(line ${lines})
      if(line MATCHES "^class ([A-Za-z0-9_]+)")
        set(class ${CMAKE_MATCH_1})
        set(class_mark ${mark})
        set(mark "")
      elseif(line MATCHES "@")
        set(mark with_torch)
      elseif(line MATCHES "def (test_[A-Za-z0-9_]+)")
        set(name ${label}.${class}.${CMAKE_MATCH_1})
        add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${file} ${class}.${CMAKE_MATCH_1})
        set(environment "TOMBOLO_BUILD=${CMAKE_BINARY_DIR}" "TOMBOLO_TORCH=$<BOOL:${TOMBOLO_TORCH}>"
            "TOMBOLO_SANITIZE=${TOMBOLO_SANITIZE}" "PYTHONDONTWRITEBYTECODE=1" "TMPDIR=${CMAKE_BINARY_DIR}/tmp")
        set(labels ${label} ${file_mark} ${class_mark} ${mark})
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
