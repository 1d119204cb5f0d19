# ember_test(<name> SOURCES <file>... [LIBRARIES <target>...] [DEVICES none|sim|cuda|both]
#            [INTERNALS] [OPTIMIZED] [ALONE])
#
# Links the library as users have it; with INTERNALS its objects, for what it does not export.
# OPTIMIZED: of tests that compare many numbers, with a sanitizer, too. ALONE: ember_test_on_gpus.
# Builds bin/test_<name> with GoogleTest and registers it with ctest: as <name> (none, the default),
# as <name>.sim on four simulated devices, as <name>.cuda on the machine's own. The latter exists
# only with a CUDA object, and is skipped where there is no GPU.
#
# ember_script(<name> <command>...) registers a test that is no GoogleTest program. Exit status 77
# and a line "skipped: <why>" skip it.
#
# ember_test_exact(<name> [EXCEPT <pattern>...]) registers such a program again, as <name>.exact: on
# simulated devices without caching, where every access is checked against exactly what was
# allocated, and those of kernels against what their launches declare. The patterns are of tests that
# compile much and touch no other memory for it, or that are not about memory of devices.
#
# ember_test_seeded(<name>) registers it three times more, as <name>.random, <name>.pct and
# <name>.model: on simulated devices whose order a seed, or a device model, decides (docs/order.md).
#
# ember_test_growing(<name> [SANITIZED] [EXCEPT <pattern>...]) registers it again, as <name>.growing:
# on simulated devices with segments of memory that grow (expandable_segments:True). The patterns are
# of tests of what others reserve. SANITIZED: with the address sanitizer, too, for suites of memory
# itself.
#
# ember_test_watched(<name> [EXCEPT <pattern>...]) registers it again, as <name>.watched: on
# simulated devices under the stream sanitizer (docs/sanitizer.md), which must find nothing, and
# leave nothing unchecked. For suites whose main function is that of ember_test_main. The patterns are
# of tests whose work is a race on purpose, or says on purpose not what it touches, or that compile
# much, or are not about work of devices. Not watched are the suites that use no device; runtime, faults and ipc, whose work runs in child processes that
# fail, are reset or killed in the middle of it; order, explore, races and sanitizer, whose subject is what
# nothing orders; and linalg.own_loops, which enqueues what linalg does.
#
# `./dev test` counts the test cases in build/<preset>/results/<ctest name>.xml; a test registered
# by hand gets that file, its time limit and its environment from ember_test_properties.

set(EMBER_TEST_GPU_SLOTS 0 CACHE STRING
  "how many tests share a GPU where ctest is given the GPUs with --resource-spec-file; 0: it is not")

find_package(GTest QUIET)
if(NOT GTest_FOUND)
  message(STATUS "Tests left out: GoogleTest was not found")
endif()

# Stop at the first finding; leaks count.
set(ember_test_environment
  "ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1"
  "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:atexit_sleep_ms=0"
  "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1")
# The threads of a BLAS are not instrumented, so what they write would look like races.
if(EMBER_SANITIZE MATCHES "thread")
  list(APPEND ember_test_environment EMBER_BLAS=none)
endif()
# The tests' own code is not searched for null and misaligned pointers, access by access: it would
# take twice as long to compile.
add_library(ember_test_searches INTERFACE)
if(EMBER_SANITIZE MATCHES "undefined")
  target_compile_options(ember_test_searches INTERFACE -fno-sanitize=null,alignment)
endif()
# What is tested is the library, which is optimised as the preset says. Tests at -O3 took half of the
# time of a build. With a sanitizer optimising them takes three times as long as all else, so there
# only those are that compare many numbers (OPTIMIZED), which would run for minutes.
add_library(ember_test_flags INTERFACE)
target_link_libraries(ember_test_flags INTERFACE ember_test_searches)
target_compile_options(ember_test_flags INTERFACE -O1)
add_library(ember_test_flags_unoptimized INTERFACE)
target_link_libraries(ember_test_flags_unoptimized INTERFACE ember_test_searches)
target_compile_options(ember_test_flags_unoptimized INTERFACE -O0)
# What nearly every test includes takes clang half of the time of a small one, which in the builds with
# sanitizers is read once. Elsewhere a change of one header would have every test compiled again.
function(ember_test_headers test flags)
  if(NOT (EMBER_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang"))
    return()
  endif()
  set(headers ember_headers_of_${flags})
  if(NOT TARGET ${headers})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/no_source.cpp CONTENT "")
    add_library(${headers} OBJECT ${PROJECT_BINARY_DIR}/no_source.cpp)
    target_link_libraries(${headers} PRIVATE ember_flags ${flags} GTest::gtest)
    target_precompile_headers(${headers} PRIVATE <gtest/gtest.h> ${PROJECT_SOURCE_DIR}/ember/ember.h)
  endif()
  target_precompile_headers(${test} REUSE_FROM ${headers})
endfunction()

set(ember_test_timeout 300)
if(EMBER_SANITIZE)
  set(ember_test_timeout 1500)
endif()

function(ember_test name)
  cmake_parse_arguments(arg "INTERNALS;OPTIMIZED;ALONE" "DEVICES" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT arg_DEVICES)
    set(arg_DEVICES none)
  elseif(NOT arg_DEVICES MATCHES "^(none|sim|cuda|both)$")
    message(FATAL_ERROR
      "ember_test(${name}): DEVICES ${arg_DEVICES}, expected none, sim, cuda or both")
  endif()
  if(NOT GTest_FOUND)
    return()
  endif()
  add_executable(test_${name} ${arg_SOURCES})
  set_target_properties(test_${name} PROPERTIES
    UNITY_BUILD ${EMBER_UNITY} UNITY_BUILD_BATCH_SIZE 10)
  set(library ember::ember)
  if(arg_INTERNALS)
    set(library ember_internals)
  endif()
  set(flags ember_test_flags)
  if(EMBER_SANITIZE AND NOT arg_OPTIMIZED)
    set(flags ember_test_flags_unoptimized)
  endif()
  target_link_libraries(test_${name} PRIVATE
    ${arg_LIBRARIES} ${library} ember_flags ${flags} GTest::gtest_main)
  ember_test_headers(test_${name} ${flags})

  set(program $<TARGET_FILE:test_${name}>)
  if(arg_DEVICES STREQUAL "none")
    add_test(NAME ${name} COMMAND ${program})
    ember_test_properties(${name} "EMBER_DEVICES=unset:;CUDA_VISIBLE_DEVICES=unset:")
  endif()
  if(arg_DEVICES MATCHES "sim|both")
    add_test(NAME ${name}.sim COMMAND ${program})
    ember_test_properties(${name}.sim
      "EMBER_DEVICES=set:sim:4@1GiB;CUDA_VISIBLE_DEVICES=unset:")
  endif()
  if(arg_DEVICES MATCHES "cuda|both" AND EMBER_BUILD_CUDA)
    add_test(NAME ${name}.cuda COMMAND ${PROJECT_SOURCE_DIR}/tests/on_gpu.sh ${program})
    ember_test_properties(${name}.cuda "EMBER_DEVICES=set:cuda")
    # Bringing up and resetting a device takes a second each time, and a test does so in each child.
    set_tests_properties(${name}.cuda PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
    set(alone)
    if(arg_ALONE)
      set(alone ALONE)
    endif()
    ember_test_on_gpus(${name}.cuda ${alone})
  endif()
endfunction()

# ember_test_on_gpus(<test> [ALONE]): a test that uses GPUs. ctest runs them one after the other, or,
# given the GPUs (--resource-spec-file, tools/gpu.sh, tests/on_gpu.sh), as many beside each other as
# share one; ALONE is for what compares how much memory the device has free, or how busy it is.
function(ember_test_on_gpus test)
  if(NOT EMBER_TEST_GPU_SLOTS)
    set_tests_properties(${test} PROPERTIES RESOURCE_LOCK gpu)
  elseif("ALONE" IN_LIST ARGN)
    set_tests_properties(${test} PROPERTIES RESOURCE_GROUPS gpus:${EMBER_TEST_GPU_SLOTS} COST 2)
  else()  # after those, but before what needs no GPU
    set_tests_properties(${test} PROPERTIES RESOURCE_GROUPS gpus:1 COST 1)
  endif()
endfunction()

function(ember_test_exact name)
  # Simulated devices check the bounds themselves; the sanitizers have seen the same code with caching.
  if(NOT TARGET test_${name} OR EMBER_SANITIZE)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "EXCEPT" ${ARGN})
  list(JOIN arg_EXCEPT ":" except)
  add_test(NAME ${name}.exact COMMAND test_${name})
  ember_test_properties(${name}.exact
    "EMBER_DEVICES=set:sim:4@1GiB;CUDA_VISIBLE_DEVICES=unset:;PYTORCH_NO_CUDA_MEMORY_CACHING=set:1;EMBER_SIM_CHECK_ACCESSES=set:1;EMBER_TEST_EXCEPT=set:${except}")
endfunction()

function(ember_test_seeded name)
  if(NOT TARGET test_${name})
    return()
  endif()
  # One thread runs all, so that the sanitizers see the same in each order.
  set(schedules random:1)
  if(NOT EMBER_SANITIZE)
    list(APPEND schedules pct:1:3 model)
  endif()
  foreach(schedule IN LISTS schedules)
    string(REGEX MATCH "^[a-z]+" kind ${schedule})
    add_test(NAME ${name}.${kind} COMMAND test_${name})
    ember_test_properties(${name}.${kind}
      "EMBER_DEVICES=set:sim:4@1GiB;CUDA_VISIBLE_DEVICES=unset:;EMBER_SIM_SCHEDULE=set:${schedule}")
  endforeach()
endfunction()

function(ember_test_growing name)
  cmake_parse_arguments(arg "SANITIZED" "" "EXCEPT" ${ARGN})
  # Which threads touch what does not depend on how a segment gets its memory.
  if(NOT TARGET test_${name} OR EMBER_SANITIZE MATCHES "thread" OR
     (EMBER_SANITIZE AND NOT arg_SANITIZED))
    return()
  endif()
  list(JOIN arg_EXCEPT ":" except)
  add_test(NAME ${name}.growing COMMAND test_${name})
  ember_test_properties(${name}.growing
    "EMBER_DEVICES=set:sim:4@1GiB;CUDA_VISIBLE_DEVICES=unset:;EMBER_ALLOC_CONF=set:expandable_segments:True;EMBER_TEST_EXCEPT=set:${except}")
endfunction()

function(ember_test_watched name)
  # Which work is ordered does not depend on how the library was compiled.
  if(NOT TARGET test_${name} OR EMBER_SANITIZE)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "EXCEPT" ${ARGN})
  list(JOIN arg_EXCEPT ":" except)
  add_test(NAME ${name}.watched COMMAND test_${name})
  ember_test_properties(${name}.watched
    "EMBER_DEVICES=set:sim:4@1GiB;CUDA_VISIBLE_DEVICES=unset:;EMBER_SANITIZER=set:continue;EMBER_SANITIZER_EXITCODE=set:23;EMBER_TEST_EXCEPT=set:${except}")
endfunction()

# `environment`: changes in the form of ENVIRONMENT_MODIFICATION.
function(ember_test_properties test environment)
  set(results GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/results/${test}.xml)
  set_tests_properties(${test} PROPERTIES
    TIMEOUT ${ember_test_timeout}
    ENVIRONMENT "${ember_test_environment};${results}"
    ENVIRONMENT_MODIFICATION "${environment};CUDA_LAUNCH_BLOCKING=unset:")
  # The long ones first, so that the last one does not run alone.
  if(test MATCHES "^(comm|fuse|memory|ops|python|random|reduce|sort|sweep)($|[.])")
    set_tests_properties(${test} PROPERTIES COST 100)
  endif()
endfunction()

function(ember_script name)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES
    LABELS script SKIP_RETURN_CODE 77 TIMEOUT ${ember_test_timeout}
    ENVIRONMENT "${ember_test_environment}")
endfunction()
