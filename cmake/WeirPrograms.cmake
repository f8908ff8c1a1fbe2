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
  foreach(source IN LISTS weir_example_sources)
    cmake_path(GET source STEM name)
    add_executable(example_${name} ${source})
    target_link_libraries(example_${name} PRIVATE weir weir_build m)
  endforeach()
  weir_glob(weir_example_sources "examples/*.cpp")
  foreach(source IN LISTS weir_example_sources)
    cmake_path(GET source STEM name)
    add_executable(example_${name}_cpp ${source})
    target_link_libraries(example_${name}_cpp PRIVATE weir weir_build)
  endforeach()
endif()

# Programs that launch their own shaders on Weir's Vulkan device: examples/vulkan/vulkan_X.c -> bin/example_vulkan_X, with the shaders
# named here, compiled when it is built.
if(WEIR_BUILD_EXAMPLES AND TARGET weir AND TARGET weir_backend_vulkan)
  find_program(WEIR_GLSLANG NAMES glslangValidator glslang)
  find_library(WEIR_VULKAN_LOADER NAMES vulkan)
  find_package(PNG QUIET)
  # weir_vulkan_example(NAME SHADER...): a shader becomes SHADER.inc, the words of its SPIR-V in braces.
  function(weir_vulkan_example name)
    set(folder ${PROJECT_SOURCE_DIR}/examples/vulkan)
    set(made ${CMAKE_BINARY_DIR}/generated/examples/vulkan)
    file(MAKE_DIRECTORY ${made})
    set(words)
    foreach(shader IN LISTS ARGN)
      add_custom_command(OUTPUT ${made}/${shader}.inc DEPENDS ${folder}/${shader} VERBATIM
        COMMAND ${WEIR_GLSLANG} -V --target-env vulkan1.2 -x -o ${made}/${shader}.words ${folder}/${shader}
        COMMAND ${CMAKE_COMMAND} -DWORDS=${made}/${shader}.words -DOUT=${made}/${shader}.inc -P ${PROJECT_SOURCE_DIR}/cmake/shader_words.cmake)
      list(APPEND words ${made}/${shader}.inc)
    endforeach()
    add_executable(example_${name} ${folder}/${name}.c ${folder}/launch.c ${words})
    # No fused multiply-add: the CPU's result is compared with the shader's bit for bit.
    target_compile_options(example_${name} PRIVATE -ffp-contract=off)
    target_include_directories(example_${name} SYSTEM PRIVATE ${WEIR_VULKAN_HEADERS})
    target_include_directories(example_${name} PRIVATE ${made})
    target_link_libraries(example_${name} PRIVATE weir weir_build ${WEIR_VULKAN_LOADER} m)
    add_dependencies(example_${name} weir_backend_vulkan)
  endfunction()
  if(NOT WEIR_GLSLANG)
    message(STATUS "glslangValidator is not installed (glslang-tools): no examples for Vulkan")
  elseif(NOT WEIR_VULKAN_LOADER)
    message(STATUS "Vulkan's loader is not installed (libvulkan-dev): no examples for Vulkan")
  else()
    weir_vulkan_example(vulkan_stencil stencil.comp)
    if(PNG_FOUND)
      weir_vulkan_example(vulkan_scene scene.vert scene.frag scene_store.comp)
      target_sources(example_vulkan_scene PRIVATE examples/vulkan/scene_draw.c examples/vulkan/scene_world.c)
      target_link_libraries(example_vulkan_scene PRIVATE PNG::PNG)
    else()
      message(STATUS "libpng is not installed (libpng-dev): no example_vulkan_scene")
    endif()
  endif()
endif()

# A backend to start one's own from: C, and nothing of Weir but its one header.
if(WEIR_BUILD_EXAMPLES)
  weir_glob(weir_template_sources "examples/backend_template/*.c")
  if(weir_template_sources)
    weir_backend_plugin(weir_backend_template examples ${weir_template_sources})
  endif()
endif()
