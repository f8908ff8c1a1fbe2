# SPDX-License-Identifier: Apache-2.0
#
# Tests, by folder:
#   tests/support/*.cpp             -> archive linked to every test
#   tests/drivers/*/*.cpp           -> simulated vendor drivers, libraries of their own (WeirDrivers.cmake)
#   tests/mirrors/*.cpp             -> compiled against the vendors' own headers where those are   label mirror
#   tests/backends/test_*.cpp       -> one program each; loads a backend plugin by path    label backend
#   tests/unit/test_*.cpp           -> one program each on libweir_static.a         label unit
#   tests/conformance/test_*.cpp    -> one program each on the conformance suite's parts  label conformance
#   tests/conformance/test_*.py     -> the suite's program on a backend with faults        label conformance
#   tests/abi/test_*.{c,cpp}        -> one program each on libweir.so               label abi
#   tests/cpp/*.cpp                 -> weir.hpp, each as the translation units choose (WeirCppTests.cmake)   label abi
#   tests/fuzz/fuzz_*.cpp           -> one program each on libweir_static.a         label fuzz
#   tests/tools/test_*.cpp          -> one program each on the weir command's parts label tool
# plus the checks of the tree itself (layers, documents, exports) and runs of programs.
# Every test has a time limit; none needs another to have run.

find_package(PkgConfig REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

set(WEIR_FUZZ_ARGUMENTS "--seed;1;--runs;40;--steps;200" CACHE STRING "Arguments each fuzzer is run with by CTest")
set(weir_test_timeout 300)
set(weir_test_environment
  "ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1"
  "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
  "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1"
  "WEIR_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
  "WEIR_LIB_DIR=${CMAKE_LIBRARY_OUTPUT_DIRECTORY}"
  "WEIR_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
  "WEIR_CACHE_DIR=${CMAKE_BINARY_DIR}/no-cache"  # never made: no test sees the user's own, nor another test's
  "XDG_RUNTIME_DIR=${CMAKE_BINARY_DIR}/run")  # where what they run can be looked at, and not among the user's own
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/run)
file(CHMOD ${CMAKE_BINARY_DIR}/run PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
# Drivers of the machine that run on the CPU are devices of a context by default. A test that is not about them sees none: what it counts
# is the same everywhere, and no sanitizer looks into them. Those that are about them name their driver again.
list(APPEND weir_test_environment VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent OCL_ICD_VENDORS=/nonexistent)
set(weir_environment_opencl OCL_ICD_VENDORS=/etc/OpenCL/vendors)
# Recorded data beside the checkout. Tests that need it say that they skip where it is missing.
cmake_path(GET PROJECT_SOURCE_DIR PARENT_PATH weir_parent)
if(IS_DIRECTORY ${weir_parent}/shared)
  list(APPEND weir_test_environment "WEIR_SHARED_DIR=${weir_parent}/shared")
endif()

# weir_register_test(NAME LABEL command...)
function(weir_register_test name label)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${weir_test_timeout}
    ENVIRONMENT "${weir_test_environment}" SKIP_RETURN_CODE 77)
endfunction()

# weir_outer(NAME...): left to the outer ring (scripts/test --only rest), by this label: what takes long and says little that the inner
# ring's tests do not.
function(weir_outer)
  foreach(name IN LISTS ARGN)
    get_test_property(${name} LABELS labels)
    set_tests_properties(${name} PROPERTIES LABELS "${labels};outer")
  endforeach()
endfunction()
# The same in sanitized builds. The engine is the same on every backend: in the inner ring they see it on the host backend and, with
# streams and memory of a driver, on CUDA's.
function(weir_outer_if_sanitized)
  if(WEIR_SANITIZE)
    weir_outer(${ARGN})
  endif()
endfunction()

# weir_register_skip(NAME LABEL REASON): a test that can't be built or run here says so, and counts as skipped. No ';' in it,
# a command is a list, and no apostrophe, it is quoted.
function(weir_register_skip name label reason)
  weir_register_test(${name} ${label} sh -c "echo 'skipped: ${reason}' && exit 77")
endfunction()

# Of a sanitized build's time most went into the test programs, half of that into the same headers. There they are compiled
# hastily and with the headers that most of them have precompiled, once for unit tests and once for all others.
# Warnings are the plain build's to judge, in which every file is compiled by itself: precompiled headers bring false ones.
# Not so the tests that compute, for which the time comes back when they run.
set(weir_computing_tests test_arena_random test_calibrate_command test_codec test_codec_api test_codec_malformed test_codec_command
  test_codec_measure test_codec_plan test_compressed_store test_cpu_share test_defrag_planner test_detect test_far_matches test_fx test_fx_doubles test_granule_ledger test_idle test_mask test_narrow test_paths
  test_plane_look test_plane_methods test_planes test_recompress test_shared_line test_sparse test_storage test_storage_faults)
if(weir_hasty)
  set(weir_common_headers <algorithm> <array> <atomic> <condition_variable> <filesystem> <fstream> <functional> <map> <memory>
    <mutex> <random> <string> <thread> <vector>)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/tests/none.cpp CONTENT "// Compiled for its precompiled headers only.\n")
  # Without the option ccache takes no source that is compiled with precompiled headers.
  set(weir_hasty_options -w $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
  foreach(kind IN ITEMS plain core)
    add_library(weir_headers_of_${kind}_tests OBJECT ${CMAKE_BINARY_DIR}/generated/tests/none.cpp)
    target_link_libraries(weir_headers_of_${kind}_tests PRIVATE weir_build)
    weir_hastily(weir_headers_of_${kind}_tests)
    target_compile_options(weir_headers_of_${kind}_tests PRIVATE ${weir_hasty_options})
    target_precompile_headers(weir_headers_of_${kind}_tests PRIVATE ${weir_common_headers})
  endforeach()
  target_precompile_headers(weir_headers_of_core_tests PRIVATE ${PROJECT_SOURCE_DIR}/core/pool/pool.hpp)
endif()

# weir_test_program(SOURCE LABEL library...): a CMocka program and its CTest of the same name.
function(weir_test_program source label)
  cmake_path(GET source STEM name)
  cmake_path(GET source EXTENSION language)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE weir_test_support ${ARGN} weir_build PkgConfig::CMOCKA)
  if(weir_hasty AND language STREQUAL ".cpp" AND NOT name IN_LIST weir_computing_tests)
    weir_hastily(${name})
    target_compile_options(${name} PRIVATE ${weir_hasty_options})
    if(label STREQUAL unit)
      target_precompile_headers(${name} REUSE_FROM weir_headers_of_core_tests)
    else()
      target_precompile_headers(${name} REUSE_FROM weir_headers_of_plain_tests)
    endif()
  endif()
  weir_register_test(${name} ${label} ${name})
endfunction()

# An archive of helpers if the folder has sources, else an empty target, so that tests link it either way.
function(weir_test_archive name)
  weir_glob(sources ${ARGN})
  if(sources)
    add_library(${name} STATIC ${sources})
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(${name} PRIVATE weir_build PkgConfig::CMOCKA)
  else()
    add_library(${name} INTERFACE)
  endif()
endfunction()
weir_test_archive(weir_test_support "tests/support/*.cpp")
include(WeirDrivers)

# Bytes, numbers and files, in one thread: ThreadSanitizer has nothing to find there, and takes several times as long over it.
set(weir_single_threaded
  test_codec_plan test_compressed_store
  test_address_map test_arena test_arena_at test_arena_c test_arena_classes test_arena_random test_arena_search test_checksum test_cpu_share test_defrag_planner test_detect
  test_far_matches test_fx test_fx_doubles test_granule_ledger test_host_options test_link_cache test_mask test_memory_limit test_narrow test_pace test_packed test_plane_look test_plane_methods test_planes
  test_policy test_policy_crowds test_shared_line test_sparse test_topology test_topology_files test_topology_text fuzz_codec fuzz_policy
  test_cast test_given_up test_memory_profile test_residency_plan test_plan_upkeep test_program_log test_alignment test_program_walk
  test_learned_forecast test_learned_sizes test_learned_faults test_saved_program test_policy_blob)

# Unit tests of the engine that mean something on every backend.
set(weir_engine_tests test_faults test_remote)
if(TARGET weir_static)
  weir_glob(sources "tests/unit/test_*.cpp")
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    if(WEIR_SANITIZE STREQUAL thread AND name IN_LIST weir_single_threaded)
      continue()
    endif()
    # It searches the program's memory for bytes that should be gone: a sanitizer's own, terabytes of it, keeps copies.
    if(WEIR_SANITIZE AND name STREQUAL test_scrub)
      weir_register_skip(${name} unit "a sanitizer keeps copies of what is searched for")
      continue()
    endif()
    # Its mmap counts and refuses; ThreadSanitizer's runtime calls the program's own before the program can run.
    if(WEIR_SANITIZE STREQUAL thread AND name STREQUAL test_host_view)
      weir_register_skip(${name} unit "ThreadSanitizer itself starts by the mmap of the program")
      continue()
    endif()
    weir_test_program(${source} unit weir_static)
    # The failing calls are the engine's on every backend: ThreadSanitizer, the slowest, sees them on the host backend.
    if(name IN_LIST weir_engine_tests AND NOT WEIR_SANITIZE STREQUAL thread)
      weir_register_on_vendors(${name} unit strict ${name})
    endif()
  endforeach()
  # Under ThreadSanitizer all of the runs are made on the host backend, where the engine's threads meet as they do on any other,
  # and the first of them on the vendors'.
  set(fuzz_arguments_on_vendors ${WEIR_FUZZ_ARGUMENTS})
  if(WEIR_SANITIZE STREQUAL thread)
    set(fuzz_arguments_on_vendors --seed 1 --runs 12 --steps 200)
  endif()
  weir_glob(sources "tests/fuzz/fuzz_*.cpp")
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    if(WEIR_SANITIZE STREQUAL thread AND name IN_LIST weir_single_threaded)
      continue()
    endif()
    # What the weir command reads: of its parts, as the tests of it.
    if(name MATCHES "^fuzz_(trace|import)$")
      if(TARGET weir_tool AND NOT WEIR_SANITIZE STREQUAL thread)
        add_executable(${name} ${source})
        target_link_libraries(${name} PRIVATE weir_test_support weir_tool weir_static weir_build PkgConfig::CMOCKA)
        weir_register_test(${name} fuzz ${name} ${WEIR_FUZZ_ARGUMENTS})
      endif()
      continue()
    endif()
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE weir_test_support weir_static weir_build PkgConfig::CMOCKA)
    weir_register_test(${name} fuzz ${name} ${WEIR_FUZZ_ARGUMENTS})
    if(name STREQUAL fuzz_pool)
      # In most of these runs plans are carried out, or they would show nothing of them.
      weir_register_test(${name}.auto fuzz ${name} --seed 1001 --runs 30 --steps 200 --policy auto)
      set_tests_properties(${name}.auto PROPERTIES PASS_REGULAR_EXPRESSION " 0 failures;.* by plans alone [1-9][0-9]* bytes")
    endif()
    if(NOT name MATCHES "^fuzz_(codec|policy)$")  # which have no backend
      weir_register_on_vendors(${name} fuzz strict ${name} ${fuzz_arguments_on_vendors})
      # A runtime whose unmap waits for every stream (7.14).
      if("hip" IN_LIST weir_vendors)
        weir_register_test(${name}.waits fuzz ${name} ${fuzz_arguments_on_vendors})
        set_tests_properties(${name}.waits PROPERTIES ENVIRONMENT
          "${weir_test_environment};${weir_environment_hip};WEIR_HIP_LOOKALIKE_VERSION=71400000;WEIR_TEST_MODE=strict")
        weir_outer_if_sanitized(${name}.waits)
      endif()
      # Two cards whose driver keeps what the other imported: what is copied between them goes through the host.
      if("level_zero" IN_LIST weir_vendors)
        weir_register_test(${name}.cards fuzz ${name} ${fuzz_arguments_on_vendors})
        set_tests_properties(${name}.cards PROPERTIES ENVIRONMENT
          "${weir_test_environment};${weir_environment_level_zero};${weir_engine_environment_level_zero};WEIR_SIM_ZE=hold_us=200\;large_page=64K;WEIR_TEST_CARDS=apart;WEIR_TEST_MODE=strict")
        weir_outer_if_sanitized(${name}.cards)
      endif()
    endif()
  endforeach()
  # The same decoder under libFuzzer; no CTest, since it has no end of its own.
  if(WEIR_LIBFUZZER)
    if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
      message(FATAL_ERROR "WEIR_LIBFUZZER needs Clang")
    endif()
    add_executable(libfuzzer_codec tests/fuzz/fuzz_codec.cpp)
    target_compile_definitions(libfuzzer_codec PRIVATE WEIR_LIBFUZZER)
    target_compile_options(libfuzzer_codec PRIVATE -fsanitize=fuzzer)
    target_link_options(libfuzzer_codec PRIVATE -fsanitize=fuzzer)
    target_link_libraries(libfuzzer_codec PRIVATE weir_test_support weir_static weir_build PkgConfig::CMOCKA)
  endif()
  # What the command is made of has no threads of its own, so ThreadSanitizer finds nothing in its tests. Nor is the command
  # built there (CMakePresets.json): under it the examples and the fuzzers are the programs that use every tier.
  if(TARGET weir_tool AND NOT WEIR_SANITIZE STREQUAL thread)
    weir_glob(sources "tests/tools/test_*.cpp")
    foreach(source IN LISTS sources)
      weir_test_program(${source} tool weir_tool weir_static)
    endforeach()
    # Once more as a program that is not position-independent: its calls are at the addresses that its file has. A sanitizer's can't be such.
    if(TARGET test_recorded_stacks AND NOT WEIR_SANITIZE)
      add_executable(test_recorded_stacks_fixed tests/tools/test_recorded_stacks.cpp)
      target_link_libraries(test_recorded_stacks_fixed PRIVATE weir_test_support weir_tool weir_static weir_build PkgConfig::CMOCKA)
      target_compile_options(test_recorded_stacks_fixed PRIVATE -fno-pie)
      target_link_options(test_recorded_stacks_fixed PRIVATE -no-pie)
      target_compile_definitions(test_recorded_stacks_fixed PRIVATE WEIR_TEST_FIXED)
      set_target_properties(test_recorded_stacks_fixed PROPERTIES POSITION_INDEPENDENT_CODE OFF OUTPUT_NAME test_recorded_stacks
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/fixed)
      weir_register_test(test_recorded_stacks.fixed tool test_recorded_stacks_fixed)
    endif()
    # Whole recorded programs and files, in one thread, by code that the unit tests have under a sanitizer too.
    set(on_recorded_data test_learned_on_traces test_plan_on_traces test_trace_allocator test_codec_command)
    weir_outer_if_sanitized(${on_recorded_data})
    set_tests_properties(${on_recorded_data} PROPERTIES TIMEOUT 1200)
    target_link_libraries(test_virtual_time PRIVATE weir_virtual_time)
  endif()
endif()

# About loading and describing backends, about files, or about bytes alone: nothing of them is another backend's.
set(weir_host_only test_backends test_codec_api test_find_device test_log test_partitions test_policy_save test_pool_losses test_runtimes test_spill_failures test_struct_size test_topology_api)
# About a state into which only a simulated driver can be put: gpu-check leaves them out.
set(weir_simulated_only test_full_channel)
# The tiers below HOST, what is lost in them, and the order of prefetches are the engine's work: its threads are seen on the host
# backend.
if(WEIR_SANITIZE STREQUAL thread)
  list(APPEND weir_host_only test_lossy test_prefetch test_tiers)
endif()
# The same on a CUDA device whose channels are next to nothing (channel_depth in tests/drivers/sim/control.h), as NAME.cuda.depth_N. One
# program lets one thread put more than two entries behind work that it holds up itself, one takes its time over seconds of
# its own, and in test_ordering one thread makes hundreds of releases on a stream that it holds up: that hangs at any depth.
# ThreadSanitizer sees one depth.
set(weir_holding_up_themselves test_devices)
function(weir_register_with_full_channels name)
  if(NOT cuda IN_LIST weir_vendors OR name IN_LIST weir_simulated_only OR name MATCHES "^test_(unregistrable|ordering)$")
    return()
  endif()
  foreach(depth IN ITEMS 8 2 1)
    if(WEIR_SANITIZE STREQUAL thread AND NOT depth EQUAL 2)
      continue()
    endif()
    if(depth LESS 8 AND (name IN_LIST weir_holding_up_themselves OR name STREQUAL test_prefetch))
      continue()
    endif()
    weir_register_test(${name}.cuda.depth_${depth} abi ${name})
    set_tests_properties(${name}.cuda.depth_${depth} PROPERTIES
      ENVIRONMENT "${weir_test_environment};${weir_environment_cuda};WEIR_TEST_MODE=strict;WEIR_TEST_MACHINE=channel_depth=${depth}")
    # Who waits for a channel that is full is a thread: ThreadSanitizer's affair.
    if(NOT WEIR_SANITIZE STREQUAL thread)
      weir_outer_if_sanitized(${name}.cuda.depth_${depth})
    endif()
  endforeach()
endfunction()
if(TARGET weir)
  weir_glob(sources "tests/abi/test_*.c" "tests/abi/test_*.cpp")
  foreach(source IN LISTS sources)
    weir_test_program(${source} abi weir)
    cmake_path(GET source STEM name)
    if(NOT name IN_LIST weir_host_only)
      weir_register_on_vendors(${name} abi strict ${name})
      weir_register_with_full_channels(${name})
    endif()
  endforeach()
  if(TARGET test_profilers)
    add_dependencies(test_profilers weir_watched_roctx weir_hip_bare)
    if(weir_nvtx)
      add_dependencies(test_profilers weir_watched_nvtx)
      target_compile_definitions(test_profilers PRIVATE WEIR_TEST_NVTX)
    endif()
  endif()
endif()

include(WeirAbiTests)
include(WeirCppTests)
include(WeirHeaderChecks)
include(WeirTreeTests)
