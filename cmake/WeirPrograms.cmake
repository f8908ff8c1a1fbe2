# SPDX-License-Identifier: Apache-2.0
#
# Benchmarks and examples. bench/bench_X.cpp, with bench/X/*.cpp where there are any -> bin/bench_X (static library, so
# that a number does not depend on symbol lookup); examples/*.c -> bin/example_* and examples/*.cpp -> bin/example_*_cpp
# (libweir.so, as a user's program).

if(WEIR_BUILD_BENCH AND TARGET weir_static)
  weir_glob(weir_bench_sources "bench/bench_*.cpp")
  foreach(source IN LISTS weir_bench_sources)
    cmake_path(GET source STEM name)
    string(REGEX REPLACE "^bench_" "" folder ${name})
    weir_glob(parts "bench/${folder}/*.cpp")
    add_executable(${name} ${source} ${parts})
    target_link_libraries(${name} PRIVATE weir_static weir_build)
  endforeach()
  # What bench_arena compares with, where scripts/bench --yardsticks has had cargo build it (bench/arena/yardsticks).
  set(WEIR_BENCH_YARDSTICKS "" CACHE FILEPATH "Library with other allocators for bench_arena")
  if(WEIR_BENCH_YARDSTICKS AND EXISTS "${WEIR_BENCH_YARDSTICKS}")
    target_link_libraries(bench_arena PRIVATE "${WEIR_BENCH_YARDSTICKS}" ${CMAKE_DL_LIBS})
    target_compile_definitions(bench_arena PRIVATE WEIR_BENCH_YARDSTICKS=1)
  else()
    target_compile_definitions(bench_arena PRIVATE WEIR_BENCH_YARDSTICKS=0)
  endif()
endif()

if(WEIR_BUILD_EXAMPLES AND TARGET weir)
  weir_glob(weir_example_sources "examples/*.c")
  # Links the ICD loader, as a program of OpenCL's does.
  if(NOT WEIR_OPENCL_LOADER OR NOT TARGET weir_backend_opencl)
    list(FILTER weir_example_sources EXCLUDE REGEX "/opencl_[^/]*$")
  endif()
  foreach(source IN LISTS weir_example_sources)
    cmake_path(GET source STEM name)
    add_executable(example_${name} ${source})
    target_link_libraries(example_${name} PRIVATE weir weir_build m)
    if(name MATCHES "^opencl_")
      target_include_directories(example_${name} SYSTEM PRIVATE ${WEIR_OPENCL_HEADERS})
      target_link_libraries(example_${name} PRIVATE ${WEIR_OPENCL_LOADER})
    endif()
  endforeach()
  weir_glob(weir_example_sources "examples/*.cpp")
  foreach(source IN LISTS weir_example_sources)
    cmake_path(GET source STEM name)
    add_executable(example_${name}_cpp ${source})
    target_link_libraries(example_${name}_cpp PRIVATE weir weir_build)
  endforeach()
endif()

# A backend to start one's own from: C, and nothing of Weir but its one header.
if(WEIR_BUILD_EXAMPLES)
  weir_glob(weir_template_sources "examples/backend_template/*.c")
  if(weir_template_sources)
    weir_backend_plugin(weir_backend_template examples ${weir_template_sources})
  endif()
endif()
