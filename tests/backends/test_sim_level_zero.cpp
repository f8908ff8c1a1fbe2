// SPDX-License-Identifier: Apache-2.0
//
// The simulated Level Zero driver behind the real loader: how it starts, and what it tells of devices. Its memory, and its
// commands and events, have tests of their own.
#include "tests/backends/level_zero_rig.hpp"

#include <level_zero/ze_ddi.h>

namespace {

using namespace weir::test;

constexpr size_t K = 1024, M = 1024 * K;

void loader_finds_one_driver(void **) {
  Rig rig("devices=3;memory=32M;granule=64K");
  uint32_t count = 0;
  assert_ok(ze.zeDriverGet(&count, nullptr));
  assert_int_equal(count, 1);
  // Asking for more than there is gets what there is; asking for fewer gets as many.
  ze_device_handle_t devices[5] = {};
  count = 5;
  assert_ok(ze.zeDeviceGet(rig.driver, &count, devices));
  assert_int_equal(count, 3);
  assert_null(devices[3]);
  count = 1;
  devices[1] = nullptr;
  assert_ok(ze.zeDeviceGet(rig.driver, &count, devices));
  assert_int_equal(count, 1);
  assert_null(devices[1]);
  // The first word of a handle is the loader's.
  assert_null(*reinterpret_cast<void **>(devices[0]));
}

void version_is_an_option(void **) {
  ze_api_version_t version{};
  {
    Rig rig;
    assert_ok(ze.zeDriverGetApiVersion(rig.driver, &version));
    assert_int_equal(version, ZE_API_VERSION_1_4);
    ze_command_list_handle_t list = nullptr;
    assert_ze(ZE_RESULT_ERROR_INVALID_ENUMERATION,
              rig.list({ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, nullptr, 0, 0, 2,
                        ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS, ZE_COMMAND_QUEUE_PRIORITY_NORMAL},
                       &list));
    rig.expect_misuse("flags");
  }
  Rig rig("memory=32M;version=1009");
  assert_ok(ze.zeDriverGetApiVersion(rig.driver, &version));
  assert_int_equal(version, ZE_MAKE_VERSION(1, 9));
  assert_ok(ze.zeCommandListDestroy(rig.list(0, 0, 2)));
}

void tables_are_never_overrun(void **) {
  // An older loader's tables may be shorter than ours, so they stay untouched.
  const std::string path = driver_path();
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  assert_non_null(library);
  ze_pfnGetDeviceProcAddrTable_t get = nullptr;
  void *symbol = dlsym(library, "zeGetDeviceProcAddrTable");
  assert_non_null(symbol);
  std::memcpy(&get, &symbol, sizeof get);
  ze_device_dditable_t table;
  std::memset(&table, 0x5a, sizeof table);
  const ze_device_dditable_t before = table;
  assert_int_equal(get(ZE_API_VERSION_1_0, &table), ZE_RESULT_ERROR_UNSUPPORTED_VERSION);
  assert_memory_equal(&table, &before, sizeof table);
  assert_int_equal(get(ZE_API_VERSION_CURRENT, nullptr), ZE_RESULT_ERROR_INVALID_NULL_POINTER);
  assert_int_equal(get(static_cast<ze_api_version_t>(ZE_MAKE_VERSION(1, 14)), &table),
                   ZE_RESULT_SUCCESS);
  assert_non_null(reinterpret_cast<void *>(table.pfnGet));
  assert_null(reinterpret_cast<void *>(table.pfnGetImageProperties));
  for (const char *name : {"zetGetMetricProcAddrTable", "zesGetFanProcAddrTable"}) {
    assert_non_null(dlsym(library, name));
  }
}

void devices_are_described(void **) {
  Rig rig("devices=2;memory=64M;granule=64K;link_bandwidth=16G", "max_alloc=16M");
  ze_device_properties_t properties[2] = {};
  for (uint32_t i = 0; i < 2; ++i) {
    properties[i].stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES;
    assert_ok(ze.zeDeviceGetProperties(rig.devices[i], &properties[i]));
  }
  assert_int_equal(properties[0].type, ZE_DEVICE_TYPE_GPU);
  assert_int_equal(properties[0].maxMemAllocSize, 16 * M);
  assert_memory_not_equal(&properties[0].uuid, &properties[1].uuid, sizeof properties[0].uuid);
  ze_device_memory_properties_t memory{};
  memory.stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES;
  uint32_t count = 1;
  assert_ok(ze.zeDeviceGetMemoryProperties(rig.devices[0], &count, &memory));
  assert_int_equal(memory.totalSize, 64 * M);
  ze_pci_ext_properties_t pci[2] = {};
  for (uint32_t i = 0; i < 2; ++i) {
    pci[i].stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES;
    assert_ok(ze.zeDevicePciGetPropertiesExt(rig.devices[i], &pci[i]));
  }
  assert_int_not_equal(pci[0].address.bus, pci[1].address.bus);
  zes_pci_properties_t same{};
  same.stype = ZES_STRUCTURE_TYPE_PCI_PROPERTIES;
  assert_ok(ze.zesDevicePciGetProperties(rig.devices[1], &same));
  assert_int_equal(same.address.bus, pci[1].address.bus);
  assert_int_equal(same.maxSpeed.maxBandwidth, pci[1].maxSpeed.maxBandwidth);
  // A structure of another type is a mistake.
  properties[0].stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC;
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT,
            ze.zeDeviceGetProperties(rig.devices[0], &properties[0]));
  rig.expect_misuse("stype");
}

void queue_groups_differ(void **) {
  Rig rig;
  uint32_t count = 0;
  assert_ok(ze.zeDeviceGetCommandQueueGroupProperties(rig.devices[0], &count, nullptr));
  assert_int_equal(count, 2);
  ze_command_queue_group_properties_t groups[2] = {};
  assert_ok(ze.zeDeviceGetCommandQueueGroupProperties(rig.devices[0], &count, groups));
  assert_true((groups[0].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE) != 0);
  assert_int_equal(groups[1].flags, ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY);
  assert_int_equal(groups[1].maxMemoryFillPatternSize, 1);
  char *memory = rig.plain(64 * K);
  const uint32_t pattern = 0x01020304;
  const auto copy_only = rig.list(0, 1);
  assert_ze(
      ZE_RESULT_ERROR_INVALID_SIZE,
      ze.zeCommandListAppendMemoryFill(copy_only, memory, &pattern, 4, 64, nullptr, 0, nullptr));
  rig.expect_misuse("pattern");
  assert_ok(ze.zeCommandListDestroy(copy_only));
  // A queue other than the first is chosen by whoever says so, and only then.
  ze_command_list_handle_t chosen = nullptr;
  for (const uint32_t flags : {0U, uint32_t{ZE_COMMAND_QUEUE_FLAG_EXPLICIT_ONLY}}) {
    assert_ze(flags == 0 ? ZE_RESULT_ERROR_INVALID_ARGUMENT : ZE_RESULT_SUCCESS,
              rig.list({ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, nullptr, 0, 3, flags,
                        ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS, ZE_COMMAND_QUEUE_PRIORITY_NORMAL},
                       &chosen));
    if (flags == 0) rig.expect_misuse();
  }
  assert_ok(ze.zeCommandListDestroy(chosen));
  ze_command_list_handle_t list = nullptr;
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT,
            rig.list({ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, nullptr, 2, 0, 0,
                      ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS, ZE_COMMAND_QUEUE_PRIORITY_NORMAL},
                     &list));
  rig.expect_misuse();
  rig.free(memory);
}

ze_device_p2p_bandwidth_exp_properties_t bandwidth_between(const Rig &rig, uint32_t a, uint32_t b,
                                                           uint32_t *flags) {
  ze_device_p2p_bandwidth_exp_properties_t bandwidth{};
  bandwidth.stype = ZE_STRUCTURE_TYPE_DEVICE_P2P_BANDWIDTH_EXP_PROPERTIES;
  ze_device_p2p_properties_t properties{};
  properties.stype = ZE_STRUCTURE_TYPE_DEVICE_P2P_PROPERTIES;
  properties.pNext = &bandwidth;
  assert_ok(ze.zeDeviceGetP2PProperties(rig.devices[a], rig.devices[b], &properties));
  *flags = properties.flags;
  return bandwidth;
}

void links_have_units(void **) {
  uint32_t flags = 0;
  {
    Rig rig("devices=4;memory=32M;links=ring;peer_bandwidth=53G;link_latency_ns=700");
    const auto near = bandwidth_between(rig, 0, 1, &flags);
    assert_int_equal(near.bandwidthUnit, ZE_BANDWIDTH_UNIT_BYTES_PER_NANOSEC);
    assert_in_range(near.logicalBandwidth, 53, 57);  // G may be 2^30
    assert_int_equal(near.latencyUnit, ZE_LATENCY_UNIT_NANOSEC);
    assert_int_equal(near.logicalLatency, 700);
    assert_int_equal(flags,
                     ZE_DEVICE_P2P_PROPERTY_FLAG_ACCESS | ZE_DEVICE_P2P_PROPERTY_FLAG_ATOMICS);
    bandwidth_between(rig, 0, 2, &flags);
    assert_int_equal(flags, ZE_DEVICE_P2P_PROPERTY_FLAG_ACCESS);
  }
  {
    Rig rig("devices=2;memory=32M;links=nvlink;peer_bandwidth=53G", "units=clock");
    const auto clock = bandwidth_between(rig, 0, 1, &flags);
    assert_int_equal(clock.bandwidthUnit, ZE_BANDWIDTH_UNIT_BYTES_PER_CLOCK);
    assert_in_range(clock.logicalBandwidth, 33, 35);  // at 1600 MHz
  }
  Rig rig("devices=2;memory=32M;links=none");
  assert_int_equal(bandwidth_between(rig, 0, 1, &flags).bandwidthUnit, ZE_BANDWIDTH_UNIT_UNKNOWN);
  assert_int_equal(flags, 0);
  ze_bool_t can = 1;
  assert_ok(ze.zeDeviceCanAccessPeer(rig.devices[0], rig.devices[1], &can));
  assert_false(can);
  assert_ok(ze.zeDeviceCanAccessPeer(rig.devices[0], rig.devices[0], &can));
  assert_true(can);
}

void fabric_ports_lead_to_neighbours(void **) {
  Rig rig("devices=4;memory=32M;links=ring;peer_bandwidth=1G");
  std::vector<zes_fabric_port_id_t> own, remote;
  for (const ze_device_handle_t device : rig.devices) {
    uint32_t count = 0;
    assert_ok(ze.zesDeviceEnumFabricPorts(device, &count, nullptr));
    assert_int_equal(count, 2);
    zes_fabric_port_handle_t ports[2] = {};
    assert_ok(ze.zesDeviceEnumFabricPorts(device, &count, ports));
    for (const zes_fabric_port_handle_t port : ports) {
      zes_fabric_port_properties_t properties{};
      properties.stype = ZES_STRUCTURE_TYPE_FABRIC_PORT_PROPERTIES;
      assert_ok(ze.zesFabricPortGetProperties(port, &properties));
      zes_fabric_port_state_t state{};
      state.stype = ZES_STRUCTURE_TYPE_FABRIC_PORT_STATE;
      assert_ok(ze.zesFabricPortGetState(port, &state));
      assert_int_equal(state.status, ZES_FABRIC_PORT_STATUS_HEALTHY);
      assert_true(state.rxSpeed.bitRate >= 8'000'000'000);
      own.push_back(properties.portId);
      remote.push_back(state.remotePortId);
    }
  }
  // Every port's other end is a port whose other end it is.
  const auto equal = [](const auto &a, const auto &b) {
    return a.fabricId == b.fabricId && a.attachId == b.attachId && a.portNumber == b.portNumber;
  };
  for (size_t i = 0; i < own.size(); ++i) {
    size_t found = own.size();
    for (size_t k = 0; k < own.size(); ++k) {
      if (equal(own[k], remote[i])) found = k;
    }
    assert_true(found < own.size() && found / 2 != i / 2);
    assert_true(equal(remote[found], own[i]));
  }
}

void free_memory_is_told(void **) {
  Rig rig;
  zes_mem_handle_t module = nullptr;
  uint32_t count = 1;
  assert_ok(ze.zesDeviceEnumMemoryModules(rig.devices[0], &count, &module));
  const auto free_bytes = [&] {
    zes_mem_state_t state{};
    state.stype = ZES_STRUCTURE_TYPE_MEM_STATE;
    assert_ok(ze.zesMemoryGetState(module, &state));
    assert_int_equal(state.size, 32 * M);
    return state.free;
  };
  assert_int_equal(free_bytes(), 32 * M);
  char *memory = rig.plain(4 * M);
  const auto physical = rig.physical(2 * M);
  assert_int_equal(free_bytes(), 26 * M);
  rig.free(memory);
  assert_ok(ze.zePhysicalMemDestroy(rig.context, physical));
  assert_int_equal(free_bytes(), 32 * M);
}

/// First of all: a loader that stays in the process says it once, for all machines.
void nothing_works_before_init(void **) {
  if (ze.weir_sim_configure("memory=32M") != 0) fail_msg("%s", ze.weir_sim_complaint());
  uint32_t count = 0;
  assert_ze(ZE_RESULT_ERROR_UNINITIALIZED, ze.zeDriverGet(&count, nullptr));
}

void system_management_is_asked_for_at_init(void **) {
  unsetenv("ZES_ENABLE_SYSMAN");
  {
    Rig rig;
    zes_mem_handle_t module = nullptr;
    uint32_t count = 1;
    assert_ze(ZE_RESULT_ERROR_UNINITIALIZED,
              ze.zesDeviceEnumMemoryModules(rig.devices[0], &count, &module));
  }
  setenv("ZES_ENABLE_SYSMAN", "1", 1);
}

int group() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(nothing_works_before_init),
      cmocka_unit_test(loader_finds_one_driver),
      cmocka_unit_test(version_is_an_option),
      cmocka_unit_test(tables_are_never_overrun),
      cmocka_unit_test(devices_are_described),
      cmocka_unit_test(queue_groups_differ),
      cmocka_unit_test(links_have_units),
      cmocka_unit_test(fabric_ports_lead_to_neighbours),
      cmocka_unit_test(free_memory_is_told),
      cmocka_unit_test(system_management_is_asked_for_at_init),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

}  // namespace

int main() { return weir::test::run("test_sim_level_zero", group); }
