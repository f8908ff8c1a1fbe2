# SPDX-License-Identifier: Apache-2.0
#
# Checks of the tree (layers, documents, exported symbols) and runs of whole programs.

set(scripts ${PROJECT_SOURCE_DIR}/scripts)
weir_register_test(layers tree ${Python3_EXECUTABLE} ${scripts}/check-layers)
weir_register_test(layers_self_test tree ${Python3_EXECUTABLE} ${scripts}/check-layers --self-test)
weir_register_test(readme tree ${Python3_EXECUTABLE} ${scripts}/check-readme)
if(TARGET weir)
  weir_register_test(exports abi ${Python3_EXECUTABLE} ${scripts}/check-exports --nm ${CMAKE_NM} $<TARGET_FILE:weir>)
endif()

if(TARGET example_quickstart)
  weir_register_test(example_quickstart tree example_quickstart)
endif()

if(TARGET example_heat_stencil)
  weir_register_test(example_heat_stencil tree example_heat_stencil)
  weir_register_test(example_heat_stencil_compressed tree example_heat_stencil --host 1M --compressed 14M --storage-size 0)
  weir_register_test(example_heat_stencil_stored tree example_heat_stencil --host 0 --compressed 0 --device 2M)
endif()
if(TARGET example_mesh_cache)
  weir_register_test(example_mesh_cache tree example_mesh_cache)
  weir_register_test(example_mesh_cache_in_memory tree example_mesh_cache --host 64M --compressed 0 --storage-size 0)
endif()

if(TARGET weir_command)
  weir_register_test(weir_info tool weir_command info)
  weir_register_test(weir_devices tool weir_command devices --json)
  # A sixteenth of the recorded sizes: seconds under a sanitizer too, with the same order of operations.
  set(trace ${PROJECT_SOURCE_DIR}/examples/traces/graphsage_train.vmt.zst)
  if(EXISTS ${trace})
    weir_register_test(weir_replay tool weir_command replay ${trace} --scale 16 --device-memory 50% --json)
    weir_register_test(weir_replay_all_tiers tool weir_command replay ${trace} --scale 64 --device-memory 35%
      --host-memory 15% --compressed-memory 15% --storage ${CMAKE_BINARY_DIR} --data tensor --json)
    weir_register_test(weir_replay_no_vmm tool weir_command replay ${trace} --scale 16 --device-memory 50% --no-vmm --json)
  endif()
  weir_register_test(weir_replay_missing_file tool weir_command replay ${CMAKE_BINARY_DIR}/no-such-trace.vmt)
  set_tests_properties(weir_replay_missing_file PROPERTIES WILL_FAIL TRUE)
endif()
