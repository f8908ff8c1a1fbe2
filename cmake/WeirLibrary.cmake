# SPDX-License-Identifier: Apache-2.0
#
# The product: libweir.so, libweir_static.a and the backend plugins.
#   core/*/*.cpp        -> objects weir_core      the manager; its placements are weir_placement_objects
#   backends/host/*.cpp -> objects weir_host      the built-in backend; plugin.cpp goes to its plugin only
#   api/src/*.cpp       -> objects weir_api       the C shim; it makes the libraries. Never in batches: a test that stands in for
#                                                 some functions takes the other files' from the archive
# libweir.so exports what api/weir.map lets through and nothing else.

set(weir_product_objects)
# What the core's objects need when they are linked: PkgConfig::WEIR_X, by names that no user's project has, since the static
# library's users meet them too (WeirInstall.cmake writes them down).
set(weir_core_libraries)

# Parts that know nothing of the rest of the core: placements, which run on no device, what memory the machine has left, the lines
# of recordings, where running programs are found, the names of their figures, and how names are shown. Objects of their own, which the weir command links too.
set(weir_placement_sources ${PROJECT_SOURCE_DIR}/core/base/memory_limit.cpp ${PROJECT_SOURCE_DIR}/core/record/vmt_line.cpp
  ${PROJECT_SOURCE_DIR}/core/live/folder.cpp ${PROJECT_SOURCE_DIR}/core/base/name.cpp)
foreach(name IN ITEMS counters numbers table text)
  list(APPEND weir_placement_sources ${PROJECT_SOURCE_DIR}/core/metrics/${name}.cpp)
endforeach()
foreach(name IN ITEMS granule_ledger room_tree shared_line)
  list(APPEND weir_placement_sources ${PROJECT_SOURCE_DIR}/core/physical/${name}.cpp)
endforeach()
weir_object_library(weir_placement_objects ${weir_placement_sources})

weir_glob(weir_core_sources "core/*/*.cpp")
list(REMOVE_ITEM weir_core_sources ${weir_placement_sources})
if(weir_core_sources)
  find_package(nlohmann_json 3.10 REQUIRED)  # headers only
  weir_object_library(weir_core ${weir_core_sources})
  # One file for each instruction set, with the same names in them; they include little.
  weir_glob(weir_apart "core/codec/*.cpp")
  weir_batches(weir_core APART ${weir_apart})
  # The checksum is compiled in: the library then needs xxhash's header to build and nothing of it to run.
  target_compile_definitions(weir_core PRIVATE XXH_INLINE_ALL)
  target_link_libraries(weir_core PRIVATE nlohmann_json::nlohmann_json)
  list(APPEND weir_product_objects weir_core weir_placement_objects)
  # Block codecs of the COMPRESSED tier.
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(WEIR_LZ4 REQUIRED IMPORTED_TARGET GLOBAL liblz4)
  pkg_check_modules(WEIR_ZSTD REQUIRED IMPORTED_TARGET GLOBAL libzstd)
  target_link_libraries(weir_core PRIVATE PkgConfig::WEIR_LZ4 PkgConfig::WEIR_ZSTD)
  # The topology of the machine.
  pkg_check_modules(WEIR_HWLOC REQUIRED IMPORTED_TARGET GLOBAL hwloc>=2.5)
  target_link_libraries(weir_core PRIVATE PkgConfig::WEIR_HWLOC)
  list(APPEND weir_core_libraries PkgConfig::WEIR_LZ4 PkgConfig::WEIR_ZSTD PkgConfig::WEIR_HWLOC)
  weir_archives(WEIR_LZ4 WEIR_ZSTD WEIR_HWLOC)
  weir_closed_hwloc()
endif()

# What the STORAGE tier uses where it is there: io_uring (else threads read and write), and a cipher (else encryption is
# refused). Each is known to one file only.
find_package(PkgConfig)
if(PkgConfig_FOUND)
  pkg_check_modules(WEIR_URING IMPORTED_TARGET GLOBAL liburing>=2.2)
  pkg_check_modules(WEIR_CRYPTO IMPORTED_TARGET GLOBAL libcrypto>=1.1.1)
  weir_archives(WEIR_URING WEIR_CRYPTO)
endif()
if(WEIR_URING_FOUND AND TARGET weir_core)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/core/tier/io_uring_lane.cpp PROPERTIES COMPILE_DEFINITIONS WEIR_HAVE_URING)
  target_include_directories(weir_core SYSTEM PRIVATE ${WEIR_URING_INCLUDE_DIRS})
  list(APPEND weir_core_libraries PkgConfig::WEIR_URING)
endif()
if(WEIR_CRYPTO_FOUND AND TARGET weir_core)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/core/codec/cipher.cpp PROPERTIES COMPILE_DEFINITIONS WEIR_HAVE_CRYPTO)
  target_include_directories(weir_core SYSTEM PRIVATE ${WEIR_CRYPTO_INCLUDE_DIRS})
  list(APPEND weir_core_libraries PkgConfig::WEIR_CRYPTO)
endif()

# Ranges for NVIDIA's profilers, where NVTX 3's headers are: headers only, for one file. They come with CUDA's toolkit and as a package of
# PyPI's, which scripts/vendor-headers fetches. Without them WEIR_NVTX=1 says so.
set(WEIR_VENDOR_HEADERS ${PROJECT_SOURCE_DIR}/build/headers CACHE PATH "Where scripts/vendor-headers puts vendors' headers: cuda/, nvtx/ and hip/ below it")
option(WEIR_NVTX "Build ranges for NVIDIA's profilers in, where nvtx3/nvToolsExt.h is found" ON)
find_path(WEIR_NVTX_HEADERS nvtx3/nvToolsExt.h HINTS ${WEIR_VENDOR_HEADERS}/nvtx PATHS /usr/local/cuda/include)
if(WEIR_NVTX AND WEIR_NVTX_HEADERS AND TARGET weir_core)
  set(weir_nvtx ON)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/core/trace/nvtx_ranges.cpp PROPERTIES COMPILE_DEFINITIONS WEIR_HAVE_NVTX)
  if(NOT WEIR_NVTX_HEADERS IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/core/trace/nvtx_ranges.cpp PROPERTIES COMPILE_OPTIONS "-isystem;${WEIR_NVTX_HEADERS}")
  endif()
else()
  set(weir_nvtx OFF)
  message(STATUS "Without ranges for NVTX: nvtx3/nvToolsExt.h is not there, or WEIR_NVTX is off")
endif()

# What every backend is written with; a copy of it is in each plugin.
weir_glob(weir_common_sources "backends/common/*.cpp")
weir_object_library(weir_backend_common ${weir_common_sources})
weir_batches(weir_backend_common)

weir_glob(weir_host_sources "backends/host/*.cpp")
list(REMOVE_ITEM weir_host_sources ${PROJECT_SOURCE_DIR}/backends/host/plugin.cpp)
if(weir_host_sources)
  weir_object_library(weir_host ${weir_host_sources})
  weir_batches(weir_host)
  list(APPEND weir_product_objects weir_host weir_backend_common)
endif()

weir_glob(weir_api_sources "api/src/*.cpp")
if(weir_api_sources)
  weir_object_library(weir_api ${weir_api_sources})
  list(APPEND weir_product_objects weir_api)
endif()

# weir_backend_plugin(NAME FOLDER source_or_library...): a plugin library that exports its entry point and nothing else.
function(weir_backend_plugin name folder)
  add_library(${name} MODULE)
  set_target_properties(${name} PROPERTIES INSTALL_RPATH ""
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${folder}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/plugin.map)
  foreach(part IN LISTS ARGN)
    if(TARGET ${part})
      target_link_libraries(${name} PRIVATE ${part})
    else()
      target_sources(${name} PRIVATE ${part})
    endif()
  endforeach()
  target_link_libraries(${name} PRIVATE weir_build)
  target_link_options(${name} PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/plugin.map)
endfunction()

# Where the library looks for plugins, seen from its own folder. The number is the backend ABI's, so that two majors can be
# installed side by side.
file(STRINGS api/include/weir/backend.h weir_backend_abi REGEX "^#define WEIR_BACKEND_ABI_MAJOR ")
string(REGEX REPLACE "[^0-9]" "" weir_backend_abi "${weir_backend_abi}")
set(weir_plugin_folder weir/${weir_backend_abi})
set(weir_plugins)
weir_backend_plugin(weir_backend_host ${weir_plugin_folder} ${PROJECT_SOURCE_DIR}/backends/host/plugin.cpp weir_host weir_backend_common)
list(APPEND weir_plugins weir_backend_host)
# The vendors' backends. None links a vendor's library: each finds its runtime when it is started.
# Vulkan's types are those of its headers; the others have mirrors of their own.
find_path(WEIR_VULKAN_HEADERS vulkan/vulkan_core.h)
set(weir_vendor_backends cuda hip level_zero)
if(WEIR_VULKAN_HEADERS)
  list(APPEND weir_vendor_backends vulkan)
else()
  message(STATUS "Vulkan's headers are not installed (libvulkan-dev): no Vulkan backend")
endif()
foreach(vendor IN LISTS weir_vendor_backends)
  weir_glob(sources "backends/${vendor}/*.cpp")
  if(sources)
    weir_backend_plugin(weir_backend_${vendor} ${weir_plugin_folder} ${sources} weir_backend_common)
    if(vendor STREQUAL vulkan)
      target_include_directories(weir_backend_vulkan SYSTEM PRIVATE ${WEIR_VULKAN_HEADERS})
    endif()
    set(weir_apart ${sources})
    list(FILTER weir_apart INCLUDE REGEX "/(stream|streams|virtual_memory)\\.cpp$")
    weir_batches(weir_backend_${vendor} APART ${weir_apart})
    list(APPEND weir_plugins weir_backend_${vendor})
  endif()
endforeach()

# OpenCL's backend needs the headers of the standard (Debian's opencl-headers), which say what cl_intel_unified_shared_memory is.
find_path(WEIR_OPENCL_HEADERS CL/cl_ext.h)
find_library(WEIR_OPENCL_LOADER NAMES OpenCL libOpenCL.so.1)  # for programs that use OpenCL themselves
if(WEIR_OPENCL_HEADERS)
  file(STRINGS ${WEIR_OPENCL_HEADERS}/CL/cl_ext.h weir_opencl_usm REGEX "clDeviceMemAllocINTEL_fn")
endif()
if(WEIR_OPENCL_HEADERS AND weir_opencl_usm)
  weir_glob(sources "backends/opencl/*.cpp")
  weir_backend_plugin(weir_backend_opencl ${weir_plugin_folder} ${sources} weir_backend_common)
  target_include_directories(weir_backend_opencl SYSTEM PRIVATE ${WEIR_OPENCL_HEADERS})
  set(weir_apart ${sources})
  list(FILTER weir_apart INCLUDE REGEX "/(stream|streams)\\.cpp$")
  weir_batches(weir_backend_opencl APART ${weir_apart})
  list(APPEND weir_plugins weir_backend_opencl)
else()
  message(STATUS "OpenCL's headers are not installed, or older than cl_intel_unified_shared_memory (opencl-headers): no OpenCL backend")
endif()

# What a user compiles with; alone, all that a backend is compiled with.
set(weir_public_headers $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/api/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
add_library(weir_backend_headers INTERFACE)
add_library(weir::backend ALIAS weir_backend_headers)
set_target_properties(weir_backend_headers PROPERTIES EXPORT_NAME backend)
target_include_directories(weir_backend_headers INTERFACE ${weir_public_headers})

# Until the shim has sources there is no library to use, but its parts can be linked by unit tests.
if(weir_product_objects)
  add_library(weir_static STATIC)
  add_library(weir::static ALIAS weir_static)
  # Their objects, not the libraries: these stay here when the archive is installed.
  foreach(part IN LISTS weir_product_objects)
    target_sources(weir_static PRIVATE $<TARGET_OBJECTS:${part}>)
  endforeach()
  set_target_properties(weir_static PROPERTIES EXPORT_NAME static LINKER_LANGUAGE CXX)
  target_link_libraries(weir_static PUBLIC Threads::Threads ${CMAKE_DL_LIBS} ${weir_core_libraries}
    $<BUILD_INTERFACE:weir_instrumentation>)
  target_include_directories(weir_static INTERFACE ${weir_public_headers})
endif()

if(weir_api_sources)
  add_library(weir SHARED)
  add_library(weir::weir ALIAS weir)
  set_target_properties(weir PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} INSTALL_RPATH ""
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/api/weir.map)
  target_link_libraries(weir PRIVATE ${weir_product_objects} Threads::Threads ${CMAKE_DL_LIBS} ${weir_core_libraries}
    $<BUILD_INTERFACE:weir_instrumentation>)
  target_include_directories(weir INTERFACE ${weir_public_headers})
  target_link_options(weir PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/api/weir.map)
  if(NOT WEIR_SANITIZE)
    target_link_options(weir PRIVATE LINKER:-z,defs)
  endif()
endif()

# Backend plugins lie beside the library and are found at run time, so nothing links them.
if(TARGET weir AND weir_plugins)
  add_dependencies(weir ${weir_plugins})
endif()
