// SPDX-License-Identifier: Apache-2.0
//
// The CUDA backend's start: every reason why it is unavailable in words, options, and what it says of devices.

#include "tests/backends/cuda_fixture.hpp"

namespace {

using namespace weir::test;

const weir_backend_table &t = cuda_table();

/// Starts the backend, which must refuse with `wanted` and a reason that has `words`.
void refuse_start(const char *options, weir_result wanted, const char *words) {
  weir_be_start desc{sizeof desc, 0, options, nullptr, nullptr, nullptr};
  weir_be_state *state = nullptr;
  const char *reason = nullptr;
  const weir_result result = t.start(&desc, &state, &reason);
  assert_int_equal(result, wanted);
  assert_non_null(reason);
  assert_null(state);
  if (std::strstr(reason, words) == nullptr) fail_msg("'%s' has no '%s'", reason, words);
}

void unavailable_libraries_are_told(void **) {
  setenv("WEIR_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
  refuse_start("", WEIR_ERROR_NOT_SUPPORTED, "/nowhere/libcuda.so.1");
  refuse_start("", WEIR_ERROR_NOT_SUPPORTED, "no CUDA driver");
  setenv("WEIR_CUDA_LIBRARY", "libc.so.6", 1);
  refuse_start("", WEIR_ERROR_NOT_SUPPORTED, "libc.so.6 has no cuGetProcAddress");
}

void bad_options_are_named(void **) {
  refuse_start("vmm=2", WEIR_ERROR_INVALID_ARGUMENT, "vmm=\"2\"");
  refuse_start("peers=1", WEIR_ERROR_INVALID_ARGUMENT, "\"peers\"");
  refuse_start("granule_large=x", WEIR_ERROR_INVALID_ARGUMENT, "granule_large=\"x\"");
  refuse_start("register", WEIR_ERROR_INVALID_ARGUMENT, "\"register\"");
}

void the_table_answers_its_version_only(void **) {
  auto *query = symbol_of<const weir_backend_table *(uint32_t)>(
      open_library(built("weir/1/libweir_backend_cuda.so")), WEIR_BACKEND_QUERY_SYMBOL);
  assert_null(query(WEIR_BACKEND_ABI_MAJOR + 1));
  assert_string_equal(t.name, "cuda");
  assert_int_equal(t.struct_size, sizeof t);
}

void unusable_drivers_are_told(void **) {
  sim().machine("version=11080");
  refuse_start("", WEIR_ERROR_NOT_SUPPORTED, "CUDA driver 11.8 found, 12.0 needed");
  sim().machine("");
  sim().fail("cuInit", 1, abi::result::no_device);
  refuse_start("", WEIR_ERROR_NOT_SUPPORTED, "no device it can use");
  sim().machine("");
  sim().fail("cuInit", 1, abi::result::system_driver_mismatch);
  refuse_start("", WEIR_ERROR_NOT_SUPPORTED, "803");
  sim().machine("");
  sim().fail("cuDriverGetVersion", 1, abi::result::stub_library);
  refuse_start("", WEIR_ERROR_NOT_SUPPORTED, "stub library");
  assert_int_equal(sim().alive(nullptr), 0);
}

void versions_are_read(void **) {
  for (const auto &[machine, text] :
       {std::pair{"version=12000", "12.0"}, {"version=12040", "12.4"}}) {
    Cuda cuda(machine);
    assert_string_equal(t.runtime_version(cuda.state), text);
  }
}

uint64_t capabilities(const char *machine, const char *options) {
  Cuda cuda(machine, options);
  weir_be_device device{};
  device.struct_size = sizeof device;
  must(cuda, t.device_describe, 0U, &device);
  assert_int_equal(sim().calls("cuDevicePrimaryCtxRetain"), 0);
  return device.capabilities;
}

void capabilities_follow_driver_and_options(void **) {
  const uint64_t all = WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP | WEIR_CAP_STREAM_ANY_THREAD |
                       WEIR_CAP_PEER | WEIR_CAP_EXPORT_FD | WEIR_CAP_MAP_ANY_THREAD |
                       WEIR_CAP_HOST_CALL | WEIR_CAP_HOST_REGISTER | WEIR_CAP_EXPORT_FABRIC |
                       WEIR_CAP_SHARED_RANGE | WEIR_CAP_MAP_RUN | WEIR_CAP_ACCESS_LATER |
                       WEIR_CAP_TRANSFER_STREAM;
  constexpr uint64_t of_peers = WEIR_CAP_PEER | WEIR_CAP_SHARED_RANGE | WEIR_CAP_ACCESS_LATER;
  const char *full = "devices=2;links=nvlink;export_fabric=1";
  assert_int_equal(capabilities(full, ""), all);
  assert_int_equal(capabilities(full, "multi_map=0"), all & ~WEIR_CAP_MULTI_MAP);
  assert_int_equal(capabilities(full, "peer=0"), all & ~of_peers);
  assert_int_equal(capabilities(full, "map_run=0"), all & ~WEIR_CAP_MAP_RUN);
  assert_int_equal(capabilities(full, "access_later=0"), all & ~WEIR_CAP_ACCESS_LATER);
  assert_int_equal(capabilities(full, "shared_range=0"), all & ~WEIR_CAP_SHARED_RANGE);
  assert_int_equal(capabilities(full, "batch_copy=1"), all | WEIR_CAP_BATCH_COPY);
  assert_int_equal(capabilities(full, "rdma=0"), all);
  assert_int_equal(capabilities(full, "export_fd=0"), all & ~WEIR_CAP_EXPORT_FD);
  assert_int_equal(capabilities(full, "export_fabric=0"), all & ~WEIR_CAP_EXPORT_FABRIC);
  assert_int_equal(capabilities(full, "host_call=0"), all & ~WEIR_CAP_HOST_CALL);
  assert_int_equal(capabilities(full, "register=0"), all & ~WEIR_CAP_HOST_REGISTER);
  const uint64_t physical = WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP | WEIR_CAP_EXPORT_FD |
                            WEIR_CAP_EXPORT_FABRIC | WEIR_CAP_SHARED_RANGE | WEIR_CAP_MAP_RUN |
                            WEIR_CAP_ACCESS_LATER | WEIR_CAP_MAP_ANY_THREAD;
  assert_int_equal(capabilities(full, "vmm=0"), all & ~physical);
  assert_int_equal(capabilities("devices=2;links=nvlink;vmm=0", ""), all & ~physical);
  assert_int_equal(capabilities("devices=1;export_fabric=1", ""), all & ~of_peers);
  assert_int_equal(capabilities("host_call=0", "") & WEIR_CAP_HOST_CALL, 0);
  assert_int_equal(capabilities("devices=2;links=nvlink;export_fabric=1;integrated=1", ""),
                   all | WEIR_CAP_INTEGRATED);
}

/// Batches crash and hang on some drivers and devices: there they are used on the program's word only.
void batches_are_trusted_to_some(void **) {
  const auto has = [](const char *machine, const char *options) {
    return (capabilities(machine, options) & WEIR_CAP_BATCH_COPY) != 0;
  };
  for (const char *doubtful :
       {"version=12080", "version=13000", "version=13010;compute=10", "version=13010;compute=12"}) {
    assert_false(has(doubtful, ""));
    assert_true(has(doubtful, "batch_copy=1"));
    assert_false(has(doubtful, "batch_copy=0"));
  }
  assert_true(has("version=13010", ""));
  assert_true(has("version=13010;compute=8", ""));
  assert_false(has("version=13010", "batch_copy=0"));
  assert_false(has("version=12000", "batch_copy=1"));
}

/// No call at the start needs a context by the documentation. A driver that wants one gets it.
void a_driver_that_wants_a_context_at_the_start_gets_it(void **) {
  Cuda cuda("export_fabric=1;vmm_context=1");
  weir_be_device device{};
  device.struct_size = sizeof device;
  must(cuda, t.device_describe, 0U, &device);
  const uint64_t all = WEIR_CAP_VMM | WEIR_CAP_EXPORT_FD | WEIR_CAP_EXPORT_FABRIC;
  assert_int_equal(device.capabilities & all, all);
  assert_int_equal(sim().calls("cuDevicePrimaryCtxRetain"), 1);
  weir_be_granule granule = 0;
  uint64_t range = 0;
  must(cuda, t.granule_create, 0U, device.granule, uint64_t{0}, &granule);
  must(cuda, t.range_reserve, 0U, device.granule, device.granule, &range);
  must(cuda, t.map, 0U, range, device.granule, granule, uint64_t{0}, nullptr, 0U);
  must(cuda, t.unmap, 0U, range, device.granule);
}

void no_granularity_is_no_reason_to_refuse_a_device(void **) {
  for (const abi::Result code : {abi::result::invalid_value, abi::result::unknown}) {
    sim().machine("devices=2;links=nvlink");
    sim().fail("cuMemGetAllocationGranularity", 1, code);
    if (code == abi::result::unknown) sim().fail("cuDevicePrimaryCtxRetain", 1, code);
    std::string told;
    const auto log = [](void *user, int32_t level, const char *line) {
      if (level == WEIR_LOG_WARNING) *static_cast<std::string *>(user) += line;
    };
    weir_be_start desc{sizeof desc, 0, "", log, &told, nullptr};
    weir_be_state *state = nullptr;
    const char *reason = nullptr;
    assert_int_equal(t.start(&desc, &state, &reason), WEIR_SUCCESS);
    weir_be_device first{}, second{};
    first.struct_size = second.struct_size = sizeof first;
    assert_int_equal(t.device_describe(state, 0, &first), WEIR_SUCCESS);
    assert_int_equal(t.device_describe(state, 1, &second), WEIR_SUCCESS);
    const uint64_t physical = WEIR_CAP_VMM | WEIR_CAP_EXPORT_FD | WEIR_CAP_SHARED_RANGE;
    assert_int_equal(first.capabilities & physical, 0);
    assert_int_equal(first.granule, 0);
    assert_int_equal(second.capabilities & physical, physical);
    assert_non_null(std::strstr(told.c_str(), "device 0 is used without virtual-memory"));
    assert_null(std::strstr(told.c_str(), "device 1"));
    uint64_t address = 0;
    assert_int_equal(t.plain_allocate(state, 0, 65536, 256, &address), WEIR_SUCCESS);
    weir_be_granule granule = 0;
    assert_int_equal(t.granule_create(state, 0, 65536, 0, &granule), WEIR_ERROR_NOT_SUPPORTED);
    t.stop(state);
    assert_int_equal(sim().alive(nullptr), 0);
  }
}

void the_fabric_is_tried_not_believed(void **) {
  sim().machine("export_fabric=1");
  sim().fail("cuMemCreate", 1, abi::result::not_permitted);
  weir_be_start desc{sizeof desc, 0, "", nullptr, nullptr, nullptr};
  weir_be_state *state = nullptr;
  const char *reason = nullptr;
  assert_int_equal(t.start(&desc, &state, &reason), WEIR_SUCCESS);
  weir_be_device device{};
  device.struct_size = sizeof device;
  assert_int_equal(t.device_describe(state, 0, &device), WEIR_SUCCESS);
  assert_int_equal(device.capabilities & WEIR_CAP_EXPORT_FABRIC, 0);
  t.stop(state);
  assert_int_equal(sim().alive(nullptr), 0);
}

void devices_are_described(void **) {
  Cuda cuda("devices=3;memory=512M;granule=2M");
  uint32_t count = 0;
  must(cuda, t.device_count, &count);
  assert_int_equal(count, 3);
  weir_be_device first{}, second{};
  first.struct_size = second.struct_size = sizeof first;
  must(cuda, t.device_describe, 0U, &first);
  must(cuda, t.device_describe, 1U, &second);
  assert_int_equal(first.memory_total, 512U << 20U);
  assert_int_equal(first.granule, 2U << 20U);
  assert_int_equal(first.granule_large, 32U << 20U);
  assert_int_not_equal(first.name[0], '\0');
  assert_int_not_equal(std::memcmp(first.uuid, second.uuid, sizeof first.uuid), 0);
  assert_string_not_equal(first.pci_address, second.pci_address);
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  assert_int_equal(
      std::sscanf(first.pci_address, "%4x:%2x:%2x.%1x", &domain, &bus, &device, &function), 4);
  assert_int_equal(std::strlen(first.pci_address), 12);
  // No more is written than there is room for.
  weir_be_device little{};
  little.struct_size = offsetof(weir_be_device, memory_total);
  must(cuda, t.device_describe, 0U, &little);
  assert_int_equal(little.memory_total, 0);
  assert_int_equal(little.capabilities, first.capabilities);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "no device 3", t.device_describe, 3U, &first);
}

void large_granules_are_used_where_they_fit(void **) {
  weir_be_device device{};
  device.struct_size = sizeof device;
  {
    Cuda cuda("memory=16M");
    must(cuda, t.device_describe, 0U, &device);
    assert_int_equal(device.granule_large, 0);
  }
  {
    Cuda cuda("memory=256M", "granule_large=8M");
    must(cuda, t.device_describe, 0U, &device);
    assert_int_equal(device.granule_large, 8U << 20U);
  }
  {
    Cuda cuda("memory=256M", "granule_large=3M");
    must(cuda, t.device_describe, 0U, &device);
    assert_int_equal(device.granule_large, 0);
  }
}

void memory_is_counted_and_contexts_are_late(void **) {
  Cuda cuda("devices=2;memory=256M");
  assert_int_equal(sim().calls("cuDevicePrimaryCtxRetain"), 0);
  uint64_t free_bytes = 0, total = 0, address = 0;
  must(cuda, t.device_memory, 0U, &free_bytes, &total);
  assert_int_equal(sim().calls("cuDevicePrimaryCtxRetain"), 1);
  assert_int_equal(total, 256U << 20U);
  must(cuda, t.plain_allocate, 0U, uint64_t{32} << 20U, uint64_t{256}, &address);
  uint64_t less = 0;
  must(cuda, t.device_memory, 0U, &less, &total);
  assert_true(less <= free_bytes - (32U << 20U));
  must(cuda, t.plain_free, 0U, address, uint64_t{32} << 20U);
}

void links_need_no_nvml(void **) {
  setenv("WEIR_NVML_LIBRARY", "/nowhere/libnvidia-ml.so.1", 1);
  Cuda cuda("devices=2;links=pcie");
  weir_be_link link{};
  link.struct_size = sizeof link;
  must(cuda, t.link_describe, 0U, 0U, &link);
  assert_int_equal(link.kind, WEIR_LINK_SAME);
  must(cuda, t.link_describe, 0U, WEIR_DEVICE_HOST, &link);
  assert_int_equal(link.kind, WEIR_LINK_PCIE);
  assert_int_equal(link.direct, 1);
  assert_int_equal(link.bandwidth, 0);
  must(cuda, t.link_describe, 0U, 1U, &link);
  assert_int_equal(link.kind, WEIR_LINK_PCIE);
  assert_int_equal(link.direct, 1);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "no device 2", t.link_describe, 0U, 2U, &link);
  unsetenv("WEIR_NVML_LIBRARY");
}

weir_be_link link_of(const Cuda &cuda, uint32_t from, uint32_t to) {
  weir_be_link link{};
  link.struct_size = sizeof link;
  must(cuda, t.link_describe, from, to, &link);
  return link;
}

void links_are_as_nvml_tells_them(void **) {
  setenv("WEIR_NVML_LIBRARY", built("drivers/libweir_sim_nvml.so").c_str(), 1);
  const char *machine = "devices=4;links=ring";
  setenv("WEIR_SIM", machine, 1);
  {
    Cuda cuda(machine);
    const weir_be_link near = link_of(cuda, 0, 1), far = link_of(cuda, 0, 2);
    assert_int_equal(near.kind, WEIR_LINK_NVLINK);
    assert_int_equal(near.bandwidth, 2 * uint64_t{26562} * 1'000'000);
    assert_int_equal(near.hops, 1);
    assert_int_equal(near.direct, 1);
    assert_int_equal(link_of(cuda, 1, 0).bandwidth, near.bandwidth);
    assert_int_equal(far.kind, WEIR_LINK_PCIE);
    assert_int_equal(far.bandwidth, 16 * uint64_t{3'938'461'538});  // PCIe 5, 16 lanes
    const weir_be_link host = link_of(cuda, WEIR_DEVICE_HOST, 3);
    assert_int_equal(host.kind, WEIR_LINK_PCIE);
    assert_int_equal(host.bandwidth, far.bandwidth);
    assert_int_equal(link_of(cuda, 3, WEIR_DEVICE_HOST).bandwidth, host.bandwidth);
  }
  unsetenv("WEIR_SIM");
  unsetenv("WEIR_NVML_LIBRARY");
}

void devices_apart_have_no_link(void **) {
  Cuda cuda("devices=2;links=none");
  weir_be_link link{};
  link.struct_size = sizeof link;
  must(cuda, t.link_describe, 0U, 1U, &link);
  assert_int_equal(link.kind, WEIR_LINK_NONE);
  assert_int_equal(link.direct, 0);
  must_refuse(cuda, WEIR_ERROR_NOT_SUPPORTED, "device 0", t.peer_enable, 0U, 1U);
}

void states_are_apart(void **) {
  Cuda cuda("devices=1");
  weir_be_start desc{sizeof desc, 0, "vmm=0", nullptr, nullptr, nullptr};
  weir_be_state *second = nullptr;
  const char *reason = nullptr;
  assert_int_equal(t.start(&desc, &second, &reason), WEIR_SUCCESS);
  uint64_t address = 0;
  assert_int_equal(t.plain_allocate(second, 0, 4096, 256, &address), WEIR_SUCCESS);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "plain memory", t.plain_free, 0U, address,
              uint64_t{4096});
  t.stop(second);
  must(cuda, t.plain_allocate, 0U, uint64_t{4096}, uint64_t{256}, &address);
}

/// Memory that can leave the process must come in the unit of all memory.
void a_unit_that_is_not_told_takes_export_away(void **) {
  Cuda cuda("devices=1");
  sim().fail("cuMemGetAllocationGranularity", 2, abi::result::invalid_value);
  weir_be_start desc{sizeof desc, 0, "", nullptr, nullptr, nullptr};
  weir_be_state *second = nullptr;
  const char *reason = nullptr;
  assert_int_equal(t.start(&desc, &second, &reason), WEIR_SUCCESS);
  weir_be_device device{};
  device.struct_size = sizeof device;
  assert_int_equal(t.device_describe(second, 0, &device), WEIR_SUCCESS);
  assert_true((device.capabilities & WEIR_CAP_VMM) != 0);
  assert_true((device.capabilities & WEIR_CAP_EXPORT_FD) == 0);
  t.stop(second);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(unavailable_libraries_are_told),
      cmocka_unit_test(bad_options_are_named),
      cmocka_unit_test(the_table_answers_its_version_only),
      cmocka_unit_test(unusable_drivers_are_told),
      cmocka_unit_test(versions_are_read),
      cmocka_unit_test(capabilities_follow_driver_and_options),
      cmocka_unit_test(batches_are_trusted_to_some),
      cmocka_unit_test(a_driver_that_wants_a_context_at_the_start_gets_it),
      cmocka_unit_test(no_granularity_is_no_reason_to_refuse_a_device),
      cmocka_unit_test(the_fabric_is_tried_not_believed),
      cmocka_unit_test(devices_are_described),
      cmocka_unit_test(large_granules_are_used_where_they_fit),
      cmocka_unit_test(memory_is_counted_and_contexts_are_late),
      cmocka_unit_test(links_need_no_nvml),
      cmocka_unit_test(links_are_as_nvml_tells_them),
      cmocka_unit_test(devices_apart_have_no_link),
      cmocka_unit_test(states_are_apart),
      cmocka_unit_test(a_unit_that_is_not_told_takes_export_away),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
