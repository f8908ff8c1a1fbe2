# SPDX-License-Identifier: Apache-2.0
#
# Settings every target shares: where outputs go, language standards, warnings, instrumentation, and the
# two helpers the other modules are written with. Nothing here names a source file.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Programs find libweir.so beside themselves, in the build tree as in an installation. The same path in both
# also keeps CMake from padding it with empty entries, which the loader reads as the current directory.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib" "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
list(REMOVE_DUPLICATES CMAKE_INSTALL_RPATH)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# Warnings, linked privately by every target of ours and never exported. Sources that are compiled together see each other's
# anonymous namespaces, so two warnings mean nothing there (weir_batches below).
add_library(weir_warnings INTERFACE)
set(weir_batched $<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>)
target_compile_options(weir_warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion
  $<$<NOT:${weir_batched}>:-Wshadow> $<$<AND:${weir_batched},$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wno-subobject-linkage>
  $<$<BOOL:${WEIR_WERROR}>:-Werror>)

# Sanitizers and coverage hold for everything in the build: a half-instrumented program gives false reports.
add_library(weir_instrumentation INTERFACE)
# What a fuzzer has reached is seen in the library's own code.
if(WEIR_LIBFUZZER)
  target_compile_options(weir_instrumentation INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(WEIR_SANITIZE)
  target_compile_options(weir_instrumentation INTERFACE
    -fsanitize=${WEIR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # A null pointer that is followed is AddressSanitizer's find too: to ask before each access makes compiling an eighth longer.
  if(WEIR_SANITIZE MATCHES "address.*undefined")
    target_compile_options(weir_instrumentation INTERFACE -fno-sanitize=null)
  endif()
  target_link_options(weir_instrumentation INTERFACE -fsanitize=${WEIR_SANITIZE})
  target_compile_definitions(weir_instrumentation INTERFACE WEIR_DEBUG_CHECKS=1)
endif()
if(WEIR_COVERAGE)
  target_compile_options(weir_instrumentation INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(weir_instrumentation INTERFACE --coverage)
  target_compile_definitions(weir_instrumentation INTERFACE WEIR_DEBUG_CHECKS=1)
endif()

# What our own code needs to compile: the public headers, the repository root, threads, POSIX names in C.
add_library(weir_build INTERFACE)
target_include_directories(weir_build INTERFACE ${PROJECT_SOURCE_DIR}/api/include ${PROJECT_SOURCE_DIR})
target_compile_definitions(weir_build INTERFACE $<$<COMPILE_LANGUAGE:C>:_POSIX_C_SOURCE=200809L>)
target_link_libraries(weir_build INTERFACE weir_warnings weir_instrumentation Threads::Threads ${CMAKE_DL_LIBS})

# weir_glob(OUT pattern...): sources of the repository matching the patterns, re-globbed at each build.
function(weir_glob out)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE patterns)
  file(GLOB found CONFIGURE_DEPENDS ${patterns})
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# weir_batches(TARGET [APART source...]): compiles a library's sources several to a unit where WEIR_BATCH says so, but those
# named, whose names of their own clash with others'.
function(weir_batches target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "APART")
  if(WEIR_BATCH GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${WEIR_BATCH})
    set_source_files_properties(${arg_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# Of a sanitized build's time little is the library's own: what tests, drives or shows it there is compiled without
# optimisation, in half the time. What a build takes that is not in batches is not the point of it.
set(weir_hasty OFF)
if(WEIR_SANITIZE AND WEIR_BATCH GREATER 1)
  set(weir_hasty ON)
endif()
function(weir_hastily target)
  if(weir_hasty)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# weir_object_library(NAME source...): position-independent objects with hidden visibility.
function(weir_object_library name)
  add_library(${name} OBJECT ${ARGN})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(${name} PRIVATE weir_build)
endfunction()
