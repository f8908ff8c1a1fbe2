# SPDX-License-Identifier: Apache-2.0
#
# Checks of the tree (layers, documents, exported symbols) and runs of whole programs.

set(scripts ${PROJECT_SOURCE_DIR}/scripts)
weir_register_test(layers tree ${Python3_EXECUTABLE} ${scripts}/check-layers)
weir_register_test(layers_self_test tree ${Python3_EXECUTABLE} ${scripts}/check-layers --self-test)
find_program(weir_clang NAMES clang++-14 clang++)
if(weir_clang)
  weir_register_test(locks_self_test tree ${Python3_EXECUTABLE} ${scripts}/check-locks --self-test)
  weir_register_test(structure_self_test tree ${Python3_EXECUTABLE} ${scripts}/check-structure --self-test)
endif()
weir_register_test(environment tree ${Python3_EXECUTABLE} ${scripts}/check-environment)
weir_register_test(environment_self_test tree ${Python3_EXECUTABLE} ${scripts}/check-environment --self-test)
weir_register_test(advice tree ${Python3_EXECUTABLE} ${scripts}/check-advice)
weir_register_test(advice_self_test tree ${Python3_EXECUTABLE} ${scripts}/check-advice --self-test)
weir_register_test(readme tree ${Python3_EXECUTABLE} ${scripts}/check-readme)
weir_register_test(trace_format tree ${Python3_EXECUTABLE} ${scripts}/check-trace-format)
weir_register_test(run_doc_self_test tree ${Python3_EXECUTABLE} ${scripts}/run-doc --self-test)
weir_register_test(docs_links_self_test tree ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/docs/site/check_links.py --self-test)
weir_register_test(gpu_check_self_test tree ${Python3_EXECUTABLE} -B -m unittest gpu_check.self_test)
set_tests_properties(gpu_check_self_test PROPERTIES WORKING_DIRECTORY ${scripts})
if(TARGET weir)
  weir_register_test(exports abi ${Python3_EXECUTABLE} ${scripts}/check-exports --nm ${CMAKE_NM} $<TARGET_FILE:weir>)
endif()

# What is run by hand on a machine with a GPU, here on the simulated drivers: the script and the benchmark are what is tested.
if(weir_vendors AND TARGET bench_device AND TARGET weir_command AND NOT WEIR_SANITIZE)
  weir_register_test(gpu_check_simulated tool ${Python3_EXECUTABLE} ${scripts}/gpu-check --simulated --quick
    --tree ${CMAKE_BINARY_DIR} --json ${CMAKE_BINARY_DIR}/gpu_check_simulated.json)
  set_tests_properties(gpu_check_simulated PROPERTIES TIMEOUT 600)  # its own limit is less
  weir_outer(gpu_check_simulated)
  # A device that another process keeps busy: each barrier takes longer than a query of a shared list waits for it.
  if(TARGET weir_backend_level_zero AND NOT WEIR_SANITIZE)
    weir_register_test(conformance_level_zero_slow conformance weir_conformance $<TARGET_FILE:weir_backend_level_zero>
      --filter "ST-02*" --jobs 2 --timeout 120)
    set_tests_properties(conformance_level_zero_slow PROPERTIES TIMEOUT 600 ENVIRONMENT
      "${weir_test_environment};${weir_environment_level_zero};WEIR_SIM=devices=2\;memory=256M\;mode=strict;WEIR_SIM_ZE=barrier_us=3000\;hold_us=200")
  endif()
  # A driver in which a process is stuck for good: the step is told as such, with the call.
  set(result ${CMAKE_BINARY_DIR}/gpu_check_stuck.json)
  weir_register_test(gpu_check_stuck tool sh -c "! ${Python3_EXECUTABLE} ${scripts}/gpu-check --simulated --quick --tree ${CMAKE_BINARY_DIR} \
--json ${result} --steps test_lease --limit test_lease=8 --patience 1 && ${Python3_EXECUTABLE} -B ${scripts}/gpu_check/judge.py ${result} stuck test_lease")
  set_tests_properties(gpu_check_stuck PROPERTIES TIMEOUT 120 ENVIRONMENT "${weir_test_environment};WEIR_SIM_STUCK=test_lease:*:260:60")
endif()

if(TARGET example_quickstart)
  weir_register_test(example_quickstart tree example_quickstart)
endif()
if(TARGET example_quickstart_cpp)
  weir_register_test(example_quickstart_cpp tree example_quickstart_cpp)
  set_tests_properties(example_quickstart_cpp PROPERTIES PASS_REGULAR_EXPRESSION "^right: all 16 MiB; moved [0-9]+ MiB up to \".*\" and [0-9]+ MiB down\n$")
endif()

if(TARGET example_heat_stencil)
  weir_register_test(example_heat_stencil tree example_heat_stencil)
  weir_register_test(example_heat_stencil_compressed tree example_heat_stencil --host 1M --compressed 14M --storage-size 0)
  weir_register_test(example_heat_stencil_stored tree example_heat_stencil --host 0 --compressed 0 --device 2M)
endif()
# tests/vulkan: the C ABI on the driver for the CPU. One is about a queue that the program submits to, the other counts calls in the shim.
foreach(name IN ITEMS test_vulkan_queue test_vulkan_counts)
  if(NOT TARGET weir_backend_vulkan)
    weir_register_skip(${name} backend "Vulkan has no headers here, libvulkan-dev is not on this machine")
  elseif(NOT WEIR_LAVAPIPE)
    weir_register_skip(${name} backend "no Vulkan driver for the CPU, mesa-vulkan-drivers is not on this machine")
  elseif(WEIR_SANITIZE STREQUAL thread)
    weir_register_skip(${name} backend "the driver that it runs on is not made for ThreadSanitizer")
  elseif(TARGET weir)
    weir_test_program(${PROJECT_SOURCE_DIR}/tests/vulkan/${name}.cpp backend weir)
    target_include_directories(${name} SYSTEM PRIVATE ${WEIR_VULKAN_HEADERS})
    add_dependencies(${name} weir_backend_vulkan weir_vulkan_shim)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${weir_test_environment};${weir_environment_vulkan}")
  endif()
endforeach()
if(TARGET test_vulkan_counts)
  set_tests_properties(test_vulkan_counts PROPERTIES ENVIRONMENT
    "${weir_test_environment};${weir_environment_vulkan_shim};WEIR_VULKAN_LIBRARY=${weir_drivers}/libweir_vulkan_shim.so")
endif()

# Examples for Vulkan run on the driver for the CPU; they are told apart here, as all need the same.
function(weir_vulkan_example_test name program)
  if(NOT TARGET ${program})
    weir_register_skip(${name} tree "it is not built without libvulkan-dev, glslang-tools and libpng-dev")
  elseif(NOT WEIR_LAVAPIPE)
    weir_register_skip(${name} tree "no Vulkan driver for the CPU, mesa-vulkan-drivers is not on this machine")
  elseif(WEIR_SANITIZE STREQUAL thread)
    weir_register_skip(${name} tree "the driver that it runs on is not made for ThreadSanitizer")
  else()
    weir_register_test(${name} tree ${program} ${ARGN})
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${weir_test_environment};${weir_environment_vulkan}")
  endif()
endfunction()
weir_vulkan_example_test(example_vulkan_stencil example_vulkan_stencil)
weir_vulkan_example_test(example_vulkan_stencil_uneven example_vulkan_stencil --size 90 --planes 3 --steps 5)
# What draws without a cache is seen to be wrong: all at once is refused, nothing at all is another picture.
weir_vulkan_example_test(example_vulkan_scene example_vulkan_scene)
weir_vulkan_example_test(example_vulkan_scene_everything example_vulkan_scene --cache everything)
weir_vulkan_example_test(example_vulkan_scene_nothing example_vulkan_scene --cache nothing)
if(TARGET example_vulkan_scene AND WEIR_LAVAPIPE AND NOT WEIR_SANITIZE STREQUAL thread)
  set_tests_properties(example_vulkan_scene_everything PROPERTIES PASS_REGULAR_EXPRESSION "the scene was not drawn: over budget")
  set_tests_properties(example_vulkan_scene_nothing PROPERTIES PASS_REGULAR_EXPRESSION " [1-9][0-9]* wrong pixels")
endif()
if(TARGET example_mesh_cache)
  weir_register_test(example_mesh_cache tree example_mesh_cache)
  weir_register_test(example_mesh_cache_in_memory tree example_mesh_cache --host 64M --compressed 0 --storage-size 0)
endif()

# The whole is arithmetic for the most part, of which a sanitizer makes minutes.
if(TARGET example_matmul)
  if(NOT WEIR_SANITIZE)
    weir_register_test(example_matmul tree example_matmul)
    set_tests_properties(example_matmul PROPERTIES
      PASS_REGULAR_EXPRESSION "^matmul N=768 tile=128: device holds 25 % of the matrices, moved [0-9.]+ MiB to the device, 0 wrong elements\n$")
  endif()
  weir_register_test(example_matmul_small tree example_matmul --size 400 --tile 100)
  weir_register_test(example_matmul_uneven tree example_matmul --size 100 --tile 7)
  set_tests_properties(example_matmul_uneven PROPERTIES WILL_FAIL TRUE)
endif()

# On the system's OpenCL, which under a sanitizer would show its own faults and not the example's.
if(TARGET example_opencl_matmul AND NOT WEIR_SANITIZE)
  weir_register_test(example_opencl_matmul tree example_opencl_matmul)
  weir_register_test(example_opencl_matmul_small tree example_opencl_matmul --size 400 --tile 100)
  set_tests_properties(example_opencl_matmul example_opencl_matmul_small PROPERTIES ENVIRONMENT "${weir_test_environment};${weir_environment_opencl}")
endif()

if(TARGET example_suballocator)
  weir_register_test(example_suballocator tree example_suballocator)
endif()

if(TARGET weir_command)
  weir_register_test(weir_info tool weir_command info)
  weir_register_test(weir_devices tool weir_command devices --json)
  weir_register_on_vendors(weir_devices tool alias weir_command devices)
  foreach(vendor IN LISTS weir_vendors)
    set_tests_properties(weir_devices.${vendor} PROPERTIES PASS_REGULAR_EXPRESSION "${vendor} .*: 1 device")
  endforeach()
  # A sixteenth of the recorded sizes: seconds under a sanitizer too, with the same order of operations.
  set(trace ${PROJECT_SOURCE_DIR}/examples/traces/graphsage_train.vmt.zst)
  if(EXISTS ${trace})
    weir_register_test(weir_replay tool weir_command replay ${trace} --scale 16 --device-memory 50% --json)
    weir_register_test(weir_replay_all_tiers tool weir_command replay ${trace} --scale 64 --device-memory 35%
      --host-memory 15% --compressed-memory 15% --storage ${CMAKE_BINARY_DIR} --data tensor --json)
    weir_register_test(weir_replay_no_vmm tool weir_command replay ${trace} --scale 16 --device-memory 50% --no-vmm --json)
  endif()
  # The traces that docs/trace-format.md shows.
  weir_register_test(weir_replay_plain_text tool weir_command replay ${PROJECT_SOURCE_DIR}/examples/traces/two_layers.vmt
    --device-memory 90% --granule 64K)
  set_tests_properties(weir_replay_plain_text PROPERTIES PASS_REGULAR_EXPRESSION "4 operations, 11 uses.*wrong words +0")
  weir_register_test(weir_replay_recorded tool weir_command replay ${PROJECT_SOURCE_DIR}/examples/traces/two_streams.vmt)
  set_tests_properties(weir_replay_recorded PROPERTIES
    PASS_REGULAR_EXPRESSION "2 acquires, 4 uses.*wrong words +0.*promoted_bytes +8.00 MiB, recorded 8.00 MiB .equal.")
  weir_register_test(weir_replay_missing_file tool weir_command replay ${CMAKE_BINARY_DIR}/no-such-trace.vmt)
  set_tests_properties(weir_replay_missing_file PROPERTIES WILL_FAIL TRUE)
endif()

# The host backend as its own proof, with everything and with nothing; and the list of requirements as it is checked in.
# weir_conformance_run(NAME PLUGIN OPTIONS argument...): the suite on one plugin. Some 260 processes, which under a
# sanitizer take their time to start: the suite's own limits find what hangs.
function(weir_conformance_run name plugin options)
  weir_register_test(${name} conformance weir_conformance $<TARGET_FILE:${plugin}> --options "${options}" --jobs 2
    --timeout 120 ${weir_conformance_filter} ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 1200)
endfunction()
# The sanitizers make each of these runs several times as long. They see the vendors' backends with all their freedoms: without
# them it is the plain build's, and the tests of one backend (tests/backends), which every build has, start it both ways.
# ThreadSanitizer sees the requirements in which several threads or streams take part, nothing else.
set(weir_conformance_kinds all bare)
set(weir_conformance_filter)
if(WEIR_SANITIZE)
  set(weir_conformance_kinds all)
  # Tens of thousands of everything are the plain build's.
  set(weir_conformance_filter --filter "-LI-*")
endif()
if(WEIR_SANITIZE STREQUAL thread)
  set(weir_conformance_filter --filter "TH-*,ST-*,FE-*,CP-*,PE-*,HM-*,FA-*")
endif()
if(TARGET weir_conformance)
  set(small "memory=64M\;granule=64K\;granule_large=0\;devices=2")
  set(bare "vmm=0\;peer=0\;batch_copy=0\;export_fd=0\;host_call=0\;any_thread=0\;register=0\;multi_map=0\;transfer_stream=0")
  weir_conformance_run(conformance_host weir_backend_host "${small}" --junit ${CMAKE_BINARY_DIR}/conformance_host.xml)
  if(NOT WEIR_SANITIZE STREQUAL thread)
    weir_conformance_run(conformance_host_bare weir_backend_host "${small}\;${bare}")
    # The second device, with what the first run has not: a large unit, and none of the freedoms of mapping and streams.
    weir_conformance_run(conformance_host_second weir_backend_host
      "memory=64M\;granule=16K\;granule_large=256K\;devices=2\;multi_map=0\;map_any_thread=0\;any_thread=0\;map_may_block=1\;map_part=0\;peer=0\;map_run=0" --device 1)
    weir_outer_if_sanitized(conformance_host_bare conformance_host_second)
  endif()
  # What only shows on other machines: between more than two devices, in a crowd of them, and on ones of many GiB, of which next
  # to nothing is touched.
  if(NOT WEIR_SANITIZE)
    weir_conformance_run(conformance_host_many weir_backend_host "memory=64M\;granule=64K\;granule_large=0\;devices=4"
      --filter "PE-*,AR-018,DV-02*,HM-018,RT-03*")
    weir_conformance_run(conformance_host_crowd weir_backend_host "memory=16M\;granule=64K\;granule_large=0\;devices=40"
      --filter "DV-0*,PE-029,PE-03*")
    weir_conformance_run(conformance_host_large weir_backend_host
      "memory=96G\;granule=2M\;granule_large=32M\;devices=2\;prefault=0" --filter "PL-019,PM-023,VM-048,AR-016,AR-019")
  endif()
  # The vendors' backends on simulated machines: every freedom they have, and as bare as they can be made.
  foreach(vendor IN LISTS weir_vendors)
    foreach(kind IN LISTS weir_conformance_kinds)
      set(name conformance_${vendor}_${kind})
      set(options_all "peer=1")
      if(NOT vendor STREQUAL level_zero)
        set(options_all "peer=1\;batch_copy=1")  # off unless asked for, or where the driver is trusted
      endif()
      set(options_bare "vmm=0\;peer=0\;register=0")
      weir_conformance_run(${name} weir_backend_${vendor} "${options_${kind}}")
      set_tests_properties(${name} PROPERTIES ENVIRONMENT
        "${weir_test_environment};${weir_environment_${vendor}};WEIR_SIM=devices=2\;memory=256M\;mode=strict\;links=nvlink;WEIR_SIM_ZE=tiles=2")
      if(NOT vendor STREQUAL cuda AND (WEIR_SANITIZE OR kind STREQUAL bare))
        weir_outer(${name})
      endif()
    endforeach()
  endforeach()
  # Vulkan on a driver of others; the requirements of order that apply are all but those for what it has not: memory that is mapped, and
  # peers. No driver is made for ThreadSanitizer, which would see races in it.
  if(NOT TARGET weir_backend_vulkan)
    weir_register_skip(conformance_vulkan conformance "Vulkan has no headers here, libvulkan-dev is not on this machine")
  elseif(NOT WEIR_LAVAPIPE)
    weir_register_skip(conformance_vulkan conformance "no Vulkan driver for the CPU, mesa-vulkan-drivers is not on this machine")
  elseif(WEIR_SANITIZE STREQUAL thread)
    weir_register_skip(conformance_vulkan conformance "the driver that it runs on is not made for ThreadSanitizer")
  else()
    set(weir_order 37)
    if(WEIR_SANITIZE)
      set(weir_order 36)  # sanitizers leave LI-* out, one of which holds a stream up
    endif()
    weir_conformance_run(conformance_vulkan weir_backend_vulkan "cpu=1" --seed 1 --order ${weir_order})
    set_tests_properties(conformance_vulkan PROPERTIES ENVIRONMENT "${weir_test_environment};${weir_environment_vulkan}")
    # With virtual memory and granules that leave the process, by the shim in front of the driver, in as many addresses as the driver has.
    math(EXPR weir_order "${weir_order} + 1")
    weir_conformance_run(conformance_vulkan_sparse weir_backend_vulkan "cpu=1\;granule=64K\;memory=512M" --seed 1 --order ${weir_order})
    set_tests_properties(conformance_vulkan_sparse PROPERTIES ENVIRONMENT
      "${weir_test_environment};${weir_environment_vulkan_sparse}")
    weir_outer_if_sanitized(conformance_vulkan_sparse)
    # Two devices, each a VkDevice alone: host memory of both, and streams that wait for each other.
    weir_conformance_run(conformance_vulkan_two weir_backend_vulkan "cpu=1"
      --filter "DV-*,HM-*,FE-019,FE-014,LI-012,LI-013,AR-018,RT-024,RT-025,TH-0*")
    set_tests_properties(conformance_vulkan_two PROPERTIES ENVIRONMENT "${weir_test_environment};${weir_environment_vulkan_two}")
  endif()
  # Simulated machines of more devices, of many GiB, and on a fabric.
  if(NOT WEIR_SANITIZE)
    foreach(vendor IN LISTS weir_vendors)
      weir_conformance_run(conformance_${vendor}_many weir_backend_${vendor} "peer=1" --filter "PE-010,PE-02[2468],PE-029,PE-03*,DV-027")
      weir_conformance_run(conformance_${vendor}_large weir_backend_${vendor} "peer=1" --filter "PL-019,PM-023,VM-048,AR-016,AR-019")
      foreach(kind IN ITEMS many large)
        set(machine_many "devices=4\;memory=256M")
        set(machine_large "memory=96G")
        set_tests_properties(conformance_${vendor}_${kind} PROPERTIES ENVIRONMENT
          "${weir_test_environment};${weir_environment_${vendor}};WEIR_SIM=${machine_${kind}}\;mode=strict\;links=nvlink")
      endforeach()
    endforeach()
    if(cuda IN_LIST weir_vendors)
      weir_conformance_run(conformance_cuda_fabric weir_backend_cuda "peer=1" --filter "EX-*,CA-003,PM-0*")
      set_tests_properties(conformance_cuda_fabric PROPERTIES ENVIRONMENT
        "${weir_test_environment};${weir_environment_cuda};WEIR_SIM=devices=2\;memory=256M\;mode=strict\;export_fabric=1")
    endif()
  endif()
  # OpenCL's on the system's driver; and with unified shared memory, which the shim makes where the driver has none. Where the system
  # has no driver they skip. What a sanitizer finds in the backend it finds in its own tests and in scripts/test-opencl.
  file(GLOB weir_opencl_drivers /etc/OpenCL/vendors/*.icd)
  if(NOT TARGET weir_backend_opencl OR NOT WEIR_OPENCL_LOADER OR NOT weir_opencl_drivers)
    weir_register_skip(conformance_opencl_svm conformance "no OpenCL backend, loader or driver on this machine")
  elseif(NOT WEIR_SANITIZE)
    weir_conformance_run(conformance_opencl_svm weir_backend_opencl "usm=0")
    weir_conformance_run(conformance_opencl_usm weir_backend_opencl "usm=1")
    set_tests_properties(conformance_opencl_svm PROPERTIES ENVIRONMENT "${weir_test_environment};${weir_environment_opencl}")
    set_tests_properties(conformance_opencl_usm PROPERTIES ENVIRONMENT
      "${weir_test_environment};${weir_environment_opencl};WEIR_OPENCL_LIBRARY=${weir_drivers}/libweir_opencl_shim.so;WEIR_OPENCL_SHIM=usm=1")
    weir_outer(conformance_opencl_usm)
  endif()
  # A driver in which a process is stuck for good costs one requirement: the suite ends, and says where.
  if(TARGET weir_sim_cuda AND TARGET weir_backend_cuda AND NOT WEIR_SANITIZE)
    weir_register_test(conformance_stuck conformance weir_conformance $<TARGET_FILE:weir_backend_cuda> --filter "VM-*" --jobs 2 --timeout 3)
    set_tests_properties(conformance_stuck PROPERTIES TIMEOUT 60
      ENVIRONMENT "${weir_test_environment};${weir_environment_cuda};WEIR_SIM=mode=strict;WEIR_SIM_STUCK=*:cuMemMap:2:120"
      PASS_REGULAR_EXPRESSION "killed, and does not end: it is stuck in its driver.*not run: a process before it")
  endif()
  weir_test_program(${PROJECT_SOURCE_DIR}/tests/conformance/test_conformance_parts.cpp conformance weir_conformance_suite)
  if(TARGET weir_backend_faulty)
    weir_register_test(test_conformance_program conformance ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tests/conformance/test_conformance_program.py)
  endif()
  weir_test_program(${PROJECT_SOURCE_DIR}/tests/conformance/test_conformance_told.cpp conformance weir_conformance_suite)
  weir_register_test(conformance_list conformance
    sh -c "$<TARGET_FILE:weir_conformance> --list | diff -u ${PROJECT_SOURCE_DIR}/conformance/requirements.txt -")
  weir_register_test(conformance_sentences conformance ${Python3_EXECUTABLE} ${scripts}/check-sentences ${PROJECT_SOURCE_DIR})
endif()

# Seeds after the list are counted, and each that fails is a result of its own.
if(TARGET weir_conformance AND NOT WEIR_SANITIZE)
  weir_register_test(conformance_soak conformance weir_conformance $<TARGET_FILE:weir_backend_host> --options
    "memory=64M\;granule=64K\;granule_large=0\;devices=2" --filter FA-007 --seed 5 --soak 1)
  set_tests_properties(conformance_soak PROPERTIES TIMEOUT 300
    PASS_REGULAR_EXPRESSION "\nok 1 - FA-007 .*# soak: [0-9]+ seeds from 5 on, [1-9][0-9]* steps, 0 failed\n1\\.\\.1\n")
  if(TARGET weir_backend_mutant)
    weir_register_test(conformance_soak_fails conformance weir_conformance $<TARGET_FILE:weir_backend_mutant> --options
      "memory=64M\;granule=64K\;granule_large=0\;devices=2" --filter FA-007 --seed 5 --soak 1)
    set_tests_properties(conformance_soak_fails PROPERTIES TIMEOUT 300
      ENVIRONMENT "${weir_test_environment};WEIR_MUTANT=function_skips_wait"
      PASS_REGULAR_EXPRESSION "\nnot ok 2 - FA-007 seed 5 .*# soak: [0-9]+ seeds from 5 on, [0-9]+ steps, [1-9][0-9]* failed\n1\\.\\.[0-9]+\n")
  endif()
endif()

# The template must pass what it claims, and no planted fault may pass: each tenth here, all of them in the outer ring.
if(TARGET weir_conformance AND TARGET weir_backend_template AND NOT WEIR_SANITIZE STREQUAL thread)
  weir_register_test(conformance_template conformance weir_conformance $<TARGET_FILE:weir_backend_template> --jobs 2)
endif()
# weir_told_test(NAME FAULT FILTER TEXT): what the suite says of a fault. No ';' in the text, which would make it two.
function(weir_told_test name fault filter text)
  weir_register_test(conformance_told_${name} conformance weir_conformance $<TARGET_FILE:weir_backend_mutant>
    --options "devices=2\;memory=48M\;granule=64K\;granule_large=1M" --filter ${filter} --timeout 3)
  set_tests_properties(conformance_told_${name} PROPERTIES TIMEOUT 120 ENVIRONMENT "${weir_test_environment};WEIR_MUTANT=${fault}"
    PASS_REGULAR_EXPRESSION "${text}")
endfunction()
if(TARGET weir_conformance AND TARGET weir_mutants)
  weir_told_test(crash crash_in_fence_wait FE-007
    "# crash: killed by signal 11 .Segmentation fault., in fence_wait.[0-9a-fx]+, [0-9a-fx]+., called at group_fences.cpp:[0-9]+")
  weir_told_test(hang hang_in_fence_poll FE-001
    "# timeout: not ended after 3 s, in fence_poll.[0-9a-fx]+., called at group_fences.cpp:[0-9]+, for [23] s")
  weir_told_test(taken_down crash_when_taken_down CP-009
    "# crash: fail: [a-z_]+.cpp:[0-9]+: .*byte [0-9]+ of [0-9]+ is .*. then killed by signal 11 .Segmentation fault. while it was taken down, in plain_free.0, [0-9a-fx]+, [0-9a-fx]+., called at fixtures.hpp:")
  weir_told_test(stop crash_in_stop ST-001
    "# crash: killed by signal 11 .Segmentation fault. when nothing had failed and the state was stopped, in stop.0x[0-9a-f]+., called at session.cpp:")
  # The copy is under way when the test fails: no memory goes before it has ended, so that the failure is all that is told.
  weir_told_test(rest free_amid_work_crashes FE-002 "# fail: group_fences.cpp:[0-9]+: at the moment fence 1 passed: byte 0 of [0-9a-fx]+ is 238 .nothing was copied., not 1")
  weir_told_test(bytes map_ignores_offset VM-006 "# fail: .*the bytes of seed [0-9]+, written before")
endif()
if(TARGET weir_conformance AND TARGET weir_mutants)
  weir_register_test(conformance_mutants conformance ${Python3_EXECUTABLE} ${scripts}/check-mutants ${CMAKE_BINARY_DIR}
    --every 10)
endif()

# In virtual time, so on every machine the same: on two recorded programs "auto" is no slower than "lru-window".
if(TARGET weir_command AND NOT WEIR_SANITIZE AND NOT WEIR_COVERAGE)
  weir_register_test(policy_table tree ${Python3_EXECUTABLE} ${scripts}/policy_table.py --weir $<TARGET_FILE:weir_command>
    --traces ${PROJECT_SOURCE_DIR}/examples/traces --only gpt2s_train_varlen --only graphsage_train --percent 50
    --policy lru-window --policy auto --no-slower 2)
  # That real time is measured beside it: what it comes to is the machine's affair.
  weir_register_test(policy_table_real tree ${Python3_EXECUTABLE} ${scripts}/policy_table.py --weir $<TARGET_FILE:weir_command>
    --traces ${PROJECT_SOURCE_DIR}/examples/traces --only graphsage_train --percent 50 --real 20 --limit 200)
  # That the traces that mislead a policy can be written and replayed: too short to judge one by.
  weir_register_test(adversarial_traces tree ${Python3_EXECUTABLE} ${scripts}/adversarial_traces.py --weir $<TARGET_FILE:weir_command>
    --operations 4000)
endif()
