# SPDX-License-Identifier: Apache-2.0
#
# Benchmarks and examples. bench/bench_*.cpp -> bin/bench_* (static library, so that a number does not
# depend on symbol lookup); examples/*.c -> bin/example_* (libweir.so, as a user's program).

if(WEIR_BUILD_BENCH AND TARGET weir_static)
  weir_glob(weir_bench_sources "bench/bench_*.cpp")
  foreach(source IN LISTS weir_bench_sources)
    cmake_path(GET source STEM name)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE weir_static weir_build)
  endforeach()
endif()

if(WEIR_BUILD_EXAMPLES AND TARGET weir)
  weir_glob(weir_example_sources "examples/*.c")
  foreach(source IN LISTS weir_example_sources)
    cmake_path(GET source STEM name)
    add_executable(example_${name} ${source})
    target_link_libraries(example_${name} PRIVATE weir weir_build m)
  endforeach()
endif()
