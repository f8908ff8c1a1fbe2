# SPDX-License-Identifier: Apache-2.0
#
# What stands in for vendors' drivers in tests, the checks of our mirrors of their types, and the programs that
# test one backend. Drivers go to <build>/lib/drivers, and are loaded by path only:
#   tests/drivers/sim/*.cpp          -> archive weir_sim: the simulated machine, on the host backend's device model
#   tests/drivers/cuda/*.cpp         -> libweir_sim_cuda.so          the CUDA driver API
#   tests/drivers/nvml/*.cpp         -> libweir_sim_nvml.so          the few NVML calls the CUDA backend makes
#   tests/drivers/watch/*.cpp        -> libweir_watched_cuda.so      stands before a CUDA driver and notes the calls
#   tests/drivers/hip/*.cpp          -> libweir_hip_over_cuda.so     the ROCm 6 runtime over a CUDA driver, simulated or real
#   tests/drivers/hip_bare/*.cpp     -> libweir_hip_bare.so          a runtime with almost no functions
#   tests/drivers/roctx/*.cpp        -> libweir_watched_roctx.so     ROCm's roctx, which notes ranges (tests/drivers/ranges)
#   tests/drivers/nvtx/*.cpp         -> libweir_watched_nvtx.so      what a profiler gives NVTX, which notes ranges (needs NVTX's header)
#   tests/drivers/level_zero/*.cpp   -> libweir_sim_level_zero.so    a driver that the real loader accepts (needs libze-dev)
#   tests/drivers/opencl_shim/*.cpp  -> libweir_opencl_shim.so       stands before the OpenCL loader and makes failures (needs opencl-headers)
#   tests/drivers/watch_vulkan/*.cpp -> libweir_watched_vulkan.so    stands before a Vulkan loader, counts calls and notes them (needs libvulkan-dev)
#   tests/drivers/vulkan_shim/*.cpp  -> libweir_vulkan_shim.so       stands before the Vulkan loader and makes failures (needs libvulkan-dev)

weir_glob(weir_sim_sources "tests/drivers/sim/*.cpp")
if(weir_sim_sources)
  add_library(weir_sim STATIC ${weir_sim_sources})
  weir_batches(weir_sim)
  weir_hastily(weir_sim)
  set_target_properties(weir_sim PROPERTIES POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(weir_sim PRIVATE weir_build PUBLIC weir_host weir_backend_common)
endif()

# weir_driver(FOLDER TARGET library...): the shared library of one folder; its soname is never a vendor's, or it would
# answer for the vendor's library everywhere in the process.
set(weir_driver_targets)
function(weir_driver folder target)
  weir_glob(sources "tests/drivers/${folder}/*.cpp")
  if(NOT sources)
    return()
  endif()
  add_library(${target} SHARED ${sources})
  weir_batches(${target})
  weir_hastily(${target})
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/drivers
    INSTALL_RPATH "" CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(${target} PRIVATE ${ARGN} weir_build)
  target_link_options(${target} PRIVATE LINKER:-Bsymbolic)
  set(weir_driver_targets ${weir_driver_targets} ${target} PARENT_SCOPE)
endfunction()
weir_driver(cuda weir_sim_cuda weir_sim)
weir_driver(nvml weir_sim_nvml)
weir_driver(watch weir_watched_cuda)
weir_driver(hip weir_hip_over_cuda)
weir_driver(hip_bare weir_hip_bare)
weir_driver(roctx weir_watched_roctx)
if(weir_nvtx)
  weir_driver(nvtx weir_watched_nvtx)
  target_include_directories(weir_watched_nvtx SYSTEM PRIVATE ${WEIR_NVTX_HEADERS})
endif()
find_path(WEIR_LEVEL_ZERO_HEADERS level_zero/ze_api.h)
if(WEIR_LEVEL_ZERO_HEADERS)
  weir_driver(level_zero weir_sim_level_zero weir_sim)
else()
  message(STATUS "Level Zero's headers are not installed (libze-dev): no simulated Level Zero driver")
endif()
if(TARGET weir_backend_opencl)
  weir_driver(opencl_shim weir_opencl_shim weir_backend_common)
  target_include_directories(weir_opencl_shim SYSTEM PRIVATE ${WEIR_OPENCL_HEADERS})
  # Its exports have the loader's names, under which the loader finds its own.
  target_link_options(weir_opencl_shim PRIVATE LINKER:-Bsymbolic)
endif()
if(TARGET weir_backend_vulkan)
  weir_driver(vulkan_shim weir_vulkan_shim)
  target_sources(weir_vulkan_shim PRIVATE tests/drivers/sim/stuck.cpp)
  target_include_directories(weir_vulkan_shim SYSTEM PRIVATE ${WEIR_VULKAN_HEADERS})
  weir_driver(watch_vulkan weir_watched_vulkan)
  target_sources(weir_watched_vulkan PRIVATE tests/drivers/watch/notes.cpp)
  target_include_directories(weir_watched_vulkan SYSTEM PRIVATE ${WEIR_VULKAN_HEADERS})
  if(TARGET bench_vulkan)
    add_dependencies(bench_vulkan weir_watched_vulkan)  # which counts its calls
  endif()
endif()

# Mirrors. A check compiles or it does not; where the headers are missing the test says so and skips.
find_path(WEIR_CUDA_HEADERS cuda.h HINTS ${WEIR_VENDOR_HEADERS}/cuda PATHS /usr/local/cuda/include)
find_path(WEIR_HIP_HEADERS hip/hip_runtime_api.h HINTS ${WEIR_VENDOR_HEADERS}/hip PATHS /opt/rocm/include NO_CMAKE_SYSTEM_PATH NO_SYSTEM_ENVIRONMENT_PATH)
function(weir_mirror vendor headers)
  set(source ${PROJECT_SOURCE_DIR}/tests/mirrors/${vendor}.cpp)
  if(NOT EXISTS ${source})
    return()
  endif()
  if(headers)
    add_library(weir_mirror_${vendor} OBJECT ${source})
    target_include_directories(weir_mirror_${vendor} SYSTEM PRIVATE ${headers})
    target_link_libraries(weir_mirror_${vendor} PRIVATE weir_build)
    weir_register_test(mirror_${vendor} mirror ${CMAKE_COMMAND} -E echo "compiled against ${headers}")
  else()
    weir_register_skip(mirror_${vendor} mirror "the headers of ${vendor} are not on this machine")
  endif()
endfunction()
weir_mirror(cuda "${WEIR_CUDA_HEADERS}")
# What the header says of errors is in its comments.
if(WEIR_CUDA_HEADERS)
  add_executable(mirror_cuda_losses ${PROJECT_SOURCE_DIR}/tests/mirrors/cuda_losses.cpp
    ${PROJECT_SOURCE_DIR}/backends/cuda/fault.cpp ${PROJECT_SOURCE_DIR}/backends/cuda/api.cpp)
  target_link_libraries(mirror_cuda_losses PRIVATE weir_backend_common weir_build)
  weir_register_test(mirror_cuda_losses mirror mirror_cuda_losses ${WEIR_CUDA_HEADERS}/cuda.h)
else()
  weir_register_skip(mirror_cuda_losses mirror "the headers of cuda are not on this machine")
endif()
weir_mirror(hip "${WEIR_HIP_HEADERS}")
weir_mirror(level_zero "${WEIR_LEVEL_ZERO_HEADERS}")

# Tests of Level Zero talk to its simulated driver: where there is none they say so and skip. So do OpenCL's, which talk to
# the system's own; no driver of that is instrumented, so ThreadSanitizer would see races in it.
# Vulkan's are below.
weir_glob(sources "tests/backends/test_*.cpp")
list(FILTER sources EXCLUDE REGEX "/test_vulkan")
foreach(source IN LISTS sources)
  cmake_path(GET source STEM name)
  file(STRINGS ${source} of_level_zero REGEX "^#include .*level_zero")
  if(of_level_zero AND NOT TARGET weir_sim_level_zero)
    weir_register_skip(${name} backend "no simulated Level Zero driver, libze-dev is not on this machine")
  elseif(name MATCHES "^test_opencl" AND NOT TARGET weir_opencl_shim)
    weir_register_skip(${name} backend "no OpenCL backend, opencl-headers is not on this machine")
  elseif(name MATCHES "^test_opencl" AND WEIR_SANITIZE STREQUAL thread)
    weir_register_skip(${name} backend "the driver that it runs on is not made for ThreadSanitizer")
  else()
    weir_test_program(${source} backend weir_backend_common)
    add_dependencies(${name} ${weir_plugins} ${weir_driver_targets})
    if(name MATCHES "^test_opencl")
      target_include_directories(${name} SYSTEM PRIVATE ${WEIR_OPENCL_HEADERS})
      # What the system's driver keeps until the process ends is no leak of ours.
      set_tests_properties(${name} PROPERTIES ENVIRONMENT
        "${weir_test_environment};${weir_environment_opencl};LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/drivers/opencl_shim/leaks.txt:print_suppressions=0")
    endif()
  endif()
endforeach()

# The vendors' backends on their simulated drivers: what tests/support/target.hpp reads, for each backend there is.
set(weir_drivers ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/drivers)
set(weir_environment_cuda WEIR_TEST_BACKEND=cuda WEIR_TEST_DRIVER=${weir_drivers}/libweir_sim_cuda.so
  WEIR_CUDA_LIBRARY=${weir_drivers}/libweir_sim_cuda.so WEIR_NVML_LIBRARY=${weir_drivers}/libweir_sim_nvml.so)
set(weir_environment_hip WEIR_TEST_BACKEND=hip WEIR_TEST_DRIVER=${weir_drivers}/libweir_sim_cuda.so
  WEIR_HIP_LIBRARY=${weir_drivers}/libweir_hip_over_cuda.so WEIR_HIP_CUDA_LIBRARY=${weir_drivers}/libweir_sim_cuda.so)
set(weir_environment_level_zero WEIR_TEST_BACKEND=level_zero WEIR_TEST_DRIVER=${weir_drivers}/libweir_sim_level_zero.so
  ZE_ENABLE_ALT_DRIVERS=${weir_drivers}/libweir_sim_level_zero.so)
# A driver with small pages, which spares the tests most of their bytes, and little patience with commands that nothing orders.
set(weir_engine_environment_level_zero "WEIR_SIM_ZE=hold_us=200\;large_page=64K\;stale_imports=0" WEIR_TEST_PAGE=65536)
# Vulkan's runs on a driver that nobody here wrote: Mesa's for the CPU, alone, whatever else the machine has. Two threads of it do.
find_file(WEIR_LAVAPIPE NAMES lvp_icd.x86_64.json lvp_icd.aarch64.json lvp_icd.json PATHS /usr/share/vulkan/icd.d /etc/vulkan/icd.d NO_DEFAULT_PATH)
set(weir_environment_vulkan WEIR_TEST_BACKEND=vulkan VK_ICD_FILENAMES=${WEIR_LAVAPIPE} VK_DRIVER_FILES=${WEIR_LAVAPIPE} LP_NUM_THREADS=2)
# The same driver by another name is a second device.
if(WEIR_LAVAPIPE)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated)
  file(COPY_FILE ${WEIR_LAVAPIPE} ${CMAKE_BINARY_DIR}/generated/second_lavapipe.json ONLY_IF_DIFFERENT)
endif()
set(weir_two_drivers "${WEIR_LAVAPIPE}:${CMAKE_BINARY_DIR}/generated/second_lavapipe.json")
set(weir_environment_vulkan_two VK_ICD_FILENAMES=${weir_two_drivers} VK_DRIVER_FILES=${weir_two_drivers} LP_NUM_THREADS=2)
# What the driver keeps until the process ends is no leak of ours. The shim keeps it loaded, so that LeakSanitizer knows whose it is; the loader
# unloads it with the last instance, and then nobody can tell.
set(weir_environment_vulkan_shim ${weir_environment_vulkan} LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/drivers/vulkan_shim/leaks.txt)
set(weir_without_leaks "ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1:detect_stack_use_after_return=1")
foreach(kind IN ITEMS vulkan vulkan_two)
  list(APPEND weir_environment_${kind} ${weir_without_leaks})
endforeach()
# Over the shim the driver has virtual memory, with small granules, and what leaves the process can be bound; in as many addresses as it has.
set(weir_environment_vulkan_sparse ${weir_environment_vulkan_shim} WEIR_VULKAN_LIBRARY=${weir_drivers}/libweir_vulkan_shim.so
  "WEIR_VULKAN_SHIM=sparse=1\\;exports=1\\;space=3G" WEIR_TEST_PAGE=65536)
set(weir_tests_on_vulkan)
set(weir_tests_on_vulkan_sparse)
if(TARGET weir_vulkan_shim AND WEIR_LAVAPIPE AND NOT WEIR_SANITIZE STREQUAL thread)
  # Those that need no virtual memory, which this driver of Debian 12 has not, and those that do. scripts/test-vulkan runs all on a newer one.
  set(weir_tests_on_vulkan test_context test_lease test_ordering test_waiting)
  set(weir_tests_on_vulkan_sparse fuzz_pool test_buffer test_defragment test_lossy test_map test_memory test_pool test_refusals test_sharing test_tiers)
endif()
# Tests of that backend alone, over the shim. The driver is not made for ThreadSanitizer, which would see races in it.
find_file(WEIR_VULKAN_VALIDATION NAMES VkLayer_khronos_validation.json PATHS /usr/share/vulkan/explicit_layer.d NO_DEFAULT_PATH)
weir_glob(sources "tests/backends/test_vulkan*.cpp")
foreach(source IN LISTS sources)
  cmake_path(GET source STEM name)
  if(NOT TARGET weir_vulkan_shim)
    weir_register_skip(${name} backend "no Vulkan backend, libvulkan-dev is not on this machine")
  elseif(NOT WEIR_LAVAPIPE)
    weir_register_skip(${name} backend "no Vulkan driver for the CPU, mesa-vulkan-drivers is not on this machine")
  elseif(WEIR_SANITIZE STREQUAL thread)
    weir_register_skip(${name} backend "the driver that it runs on is not made for ThreadSanitizer")
  else()
    weir_test_program(${source} backend weir_backend_common)
    add_dependencies(${name} weir_backend_vulkan weir_vulkan_shim)
    target_include_directories(${name} SYSTEM PRIVATE ${WEIR_VULKAN_HEADERS})
    set_tests_properties(${name} PROPERTIES
      ENVIRONMENT "${weir_test_environment};${weir_environment_vulkan_shim}")
    # The same under Khronos' validation: no message is left.
    if(WEIR_VULKAN_VALIDATION AND name MATCHES "^test_vulkan(|_start)$")
      weir_register_test(${name}.validated backend ${name})
      set_tests_properties(${name}.validated PROPERTIES FAIL_REGULAR_EXPRESSION "VUID-;UNASSIGNED-;Validation Error"
        ENVIRONMENT "${weir_test_environment};${weir_environment_vulkan_shim};VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation")
    endif()
  endif()
endforeach()
set(weir_vendors)
foreach(vendor IN ITEMS cuda hip level_zero)
  set(driver_of_cuda weir_sim_cuda)
  set(driver_of_hip weir_hip_over_cuda)
  set(driver_of_level_zero weir_sim_level_zero)
  if(TARGET weir_backend_${vendor} AND TARGET ${driver_of_${vendor}})
    list(APPEND weir_vendors ${vendor})
  endif()
endforeach()

# weir_register_on_vendors(NAME LABEL MODE command...): the same test on every vendor's backend, as NAME.VENDOR; MODE is alias or strict.
# The outer ring runs them on other drivers too, by the list in the build folder: a line each, NAME LABEL MODE command.
set(weir_vendor_list ${CMAKE_BINARY_DIR}/vendor-tests.txt)
file(WRITE ${weir_vendor_list} "")
function(weir_register_on_vendors name label mode)
  list(JOIN ARGN " " command)
  file(APPEND ${weir_vendor_list} "${name} ${label} ${mode} ${command}\n")
  foreach(vendor IN LISTS weir_vendors)
    weir_register_test(${name}.${vendor} ${label} ${ARGN})
    set_tests_properties(${name}.${vendor} PROPERTIES
      ENVIRONMENT "${weir_test_environment};${weir_environment_${vendor}};${weir_engine_environment_${vendor}};WEIR_TEST_MODE=${mode}")
    if(NOT vendor STREQUAL cuda)
      weir_outer_if_sanitized(${name}.${vendor})
    endif()
  endforeach()
  weir_register_on_vulkan(${name} ${label} ${mode} ${ARGN})
endfunction()

# The same on Vulkan, as NAME.vulkan and NAME.vulkan_sparse, those of them that are named above. The driver computes on the CPU, so the fuzzer makes
# the first of its runs only. tests/support/target.cpp keeps one state until the process ends, which is no leak.
function(weir_register_on_vulkan name label mode)
  foreach(kind IN ITEMS vulkan vulkan_sparse)
    if(name IN_LIST weir_tests_on_${kind})
      set(command ${ARGN})
      if(label STREQUAL fuzz)
        set(command ${name} --seed 1 --runs 12 --steps 200)
      endif()
      weir_register_test(${name}.${kind} ${label} ${command})
      set_tests_properties(${name}.${kind} PROPERTIES
        ENVIRONMENT "${weir_test_environment};${weir_environment_${kind}};${weir_without_leaks};WEIR_TEST_MODE=${mode}")
      weir_outer_if_sanitized(${name}.${kind})
    endif()
  endforeach()
endfunction()
