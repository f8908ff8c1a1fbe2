// SPDX-License-Identifier: Apache-2.0
//
// The HIP backend: why it does not start, what it says of devices and links, what its options do, and that it leaves
// the calling thread's current device alone.

#include "tests/backends/hip_fixture.hpp"

namespace {

using namespace weir::test;

// ---- why it does not start

void test_no_library(void **) {
  const Setting library("WEIR_HIP_LIBRARY", "/nonexistent/libamdhip64.so.6");
  const std::string reason = refusal("", WEIR_ERROR_NOT_SUPPORTED);
  assert_contains(reason, "WEIR_HIP_LIBRARY");
  assert_contains(reason, "/nonexistent/libamdhip64.so.6");
}

void test_no_hip_library(void **) {
  const Setting library("WEIR_HIP_LIBRARY", library_path("drivers/libweir_sim_cuda.so"));
  assert_contains(refusal("", WEIR_ERROR_NOT_SUPPORTED), "hipRuntimeGetVersion");
}

void test_too_old(void **) {
  const Machine machine;
  const Setting version("WEIR_HIP_LOOKALIKE_VERSION", "50221153");
  const uint64_t calls = libraries().calls(nullptr);
  assert_string_equal(refusal("", WEIR_ERROR_NOT_SUPPORTED).c_str(),
                      "HIP runtime 5.2 found, 6.0 needed");
  assert_int_equal(libraries().calls(nullptr), calls);
}

void test_symbols_missing(void **) {
  const Setting library("WEIR_HIP_LIBRARY", library_path("drivers/libweir_hip_bare.so"));
  const std::string reason = refusal("", WEIR_ERROR_NOT_SUPPORTED);
  assert_contains(reason, "HIP runtime 6.2.42134 lacks ");
  assert_contains(reason, "hipGetDevice,");
  assert_contains(reason, "hipMemcpyAsync");
}

void test_no_devices(void **) {
  const Setting library("WEIR_HIP_LIBRARY", library_path("drivers/libweir_hip_over_cuda.so"));
  const Setting cuda("WEIR_HIP_CUDA_LIBRARY", "/nonexistent/libcuda.so");
  assert_string_equal(refusal("", WEIR_ERROR_NOT_SUPPORTED).c_str(),
                      "hipInit failed with 100 (no device)");
}

void test_bad_options(void **) {
  const Machine machine;
  assert_contains(refusal("granules=1", WEIR_ERROR_INVALID_ARGUMENT),
                  "unknown option \"granules\"");
  assert_contains(refusal("vmm=yes", WEIR_ERROR_INVALID_ARGUMENT), "vmm=\"yes\"");
  assert_contains(refusal("map_settle_us=2000000", WEIR_ERROR_INVALID_ARGUMENT),
                  "from 0 to 1000000");
  for (const char *granule : {"granule=0", "granule=3M", "granule=small"}) {
    assert_contains(refusal(granule, WEIR_ERROR_INVALID_ARGUMENT), "a power of two is needed");
  }
  assert_contains(refusal("granule_large=3M", WEIR_ERROR_INVALID_ARGUMENT),
                  "granule_large=3145728");
  machine.census();
}

// ---- devices

void test_description(void **) {
  const Machine machine(2);
  {
    const Backend backend;
    uint32_t count = 0;
    ASSERT_OK(backend.t->device_count(backend.state, &count));
    assert_int_equal(count, 2);
    const weir_be_device first = backend.describe(0), second = backend.describe(1);
    assert_true(first.memory_total >= 100 * mib);
    assert_int_equal(first.granule, unit);
    assert_int_equal(first.granule_large, 32 * mib);
    assert_true(std::strlen(first.name) > 0);
    assert_true(std::strcmp(first.pci_address, second.pci_address) != 0);
    assert_true(std::memcmp(first.uuid, second.uuid, sizeof first.uuid) != 0);
    assert_string_equal(backend.t->runtime_version(backend.state), "6.3.0");
    const uint64_t expected = WEIR_CAP_VMM | WEIR_CAP_MAP_MAY_BLOCK_DEVICE |
                              WEIR_CAP_STREAM_ANY_THREAD | WEIR_CAP_PEER | WEIR_CAP_SHARED_RANGE |
                              WEIR_CAP_EXPORT_FD | WEIR_CAP_HOST_CALL | WEIR_CAP_HOST_REGISTER |
                              WEIR_CAP_MAP_RUN | WEIR_CAP_TRANSFER_STREAM;
    assert_int_equal(first.capabilities, expected);
    weir_be_device cut{};
    cut.struct_size = 16;
    ASSERT_OK(backend.t->device_describe(backend.state, 0, &cut));
    assert_int_equal(cut.memory_total, 0);
    assert_int_equal(backend.t->device_describe(backend.state, 2, &cut),
                     WEIR_ERROR_INVALID_ARGUMENT);
    assert_contains(backend.sentence(), "no device 2");
  }
  machine.census();
}

void test_integrated(void **) {
  const Machine machine(1, "integrated=1");
  const Backend backend;
  assert_true(backend.can(WEIR_CAP_INTEGRATED));
}

void test_options(void **) {
  const Machine machine(2);
  {
    // They are reported to corrupt memory: only on the program's word.
    const Setting version("WEIR_HIP_LOOKALIKE_VERSION", "70125424");
    assert_false(Backend().can(WEIR_CAP_BATCH_COPY));
  }
  {
    const Setting version("WEIR_HIP_LOOKALIKE_VERSION", "70125424");
    const Backend backend("multi_map=1;granule_large=8M;batch_copy=1");
    assert_true(backend.can(WEIR_CAP_MULTI_MAP));
    assert_true(backend.can(WEIR_CAP_BATCH_COPY));
    assert_int_equal(backend.describe().granule_large, 8 * mib);
  }
  {
    const Backend backend("vmm=0;peer=0;host_call=0;register=0");
    assert_int_equal(backend.describe().capabilities,
                     WEIR_CAP_STREAM_ANY_THREAD | WEIR_CAP_TRANSFER_STREAM);
    assert_int_equal(backend.describe().granule, 0);
    weir_be_granule granule = 0;
    assert_int_equal(backend.t->granule_create(backend.state, 0, unit, 0, &granule),
                     WEIR_ERROR_NOT_SUPPORTED);
    assert_int_equal(backend.t->peer_enable(backend.state, 0, 1), WEIR_ERROR_NOT_SUPPORTED);
    assert_contains(backend.sentence(), "peer=0");
    assert_int_equal(backend.t->host_register(backend.state, &granule, 4096),
                     WEIR_ERROR_NOT_SUPPORTED);
  }
  {
    const Backend backend("export_fd=0;granule_large=0");
    assert_false(backend.can(WEIR_CAP_EXPORT_FD));
    assert_int_equal(backend.describe().granule_large, 0);
    weir_be_granule granule = 0;
    assert_int_equal(
        backend.t->granule_create(backend.state, 0, unit, WEIR_BE_GRANULE_EXPORT_FD, &granule),
        WEIR_ERROR_NOT_SUPPORTED);
  }
  machine.census();
}

/// A runtime that reports 4 KiB is not believed, unless the program does; one that wants more gets it.
void test_granularity(void **) {
  const Machine machine(1, "granule=4K");
  {
    const Backend backend;
    assert_int_equal(backend.describe().granule, unit);
  }
  {
    const Backend backend("granule=16K");
    assert_int_equal(backend.describe().granule, 16 * 1024);
    assert_int_equal(backend.describe().granule_large, 32 * mib);
    weir_be_granule granule = 0;
    ASSERT_OK(backend.t->granule_create(backend.state, 0, 16 * 1024, 0, &granule));
    ASSERT_OK(backend.t->granule_destroy(backend.state, 0, granule));
  }
  assert_contains(refusal("granule=2K", WEIR_ERROR_INVALID_ARGUMENT),
                  "granule=2048 is less than the 4096 that device 0 takes");
  {
    const Setting granularity("WEIR_HIP_LOOKALIKE_GRANULARITY", "33554432");
    const Backend backend;
    assert_int_equal(backend.describe().granule, 32 * mib);
    assert_int_equal(backend.describe().granule_large, 0);
  }
  {
    const Setting granularity("WEIR_HIP_LOOKALIKE_GRANULARITY", "3145728");
    const Backend backend;
    assert_false(backend.can(WEIR_CAP_VMM));
    assert_int_equal(backend.describe().granule, 0);
  }
  machine.census();
}

void test_no_vmm(void **) {
  const Machine machine(1, "vmm=0");
  {
    const Backend backend;
    assert_false(backend.can(WEIR_CAP_VMM));
    assert_int_equal(backend.describe().granule, 0);
  }
  machine.census();
}

/// Where released memory stays away, virtual memory would evict for nothing.
void test_probe(void **) {
  const Machine machine;
  const Setting keeps("WEIR_HIP_LOOKALIKE_KEEPS", "1");
  {
    const Backend backend;
    assert_false(backend.can(WEIR_CAP_VMM));
    assert_int_equal(backend.lines.size(), 2);
    assert_contains(backend.lines[0], "lacks hipMemcpyBatchAsync");
    assert_contains(backend.lines[1],
                    "device 0 is used without virtual memory: released memory does not come back");
  }
  {
    const Backend backend("probe=0");
    assert_true(backend.can(WEIR_CAP_VMM));
  }
  machine.census();
}

/// The same where only a reservation's first mapping can be made accessible.
void test_probe_second_mapping(void **) {
  const Machine machine;
  const Setting first_only("WEIR_HIP_LOOKALIKE_FIRST_ONLY", "1");
  {
    const Backend backend;
    assert_false(backend.can(WEIR_CAP_VMM));
    assert_contains(backend.lines.back(),
                    "without virtual memory: hipMemSetAccess: invalid value (1)");
  }
  machine.census();
}

/// Where all mappings of a range must have one size, there is one granule only.
void test_probe_one_size(void **) {
  const Machine machine;
  const Setting one_size("WEIR_HIP_LOOKALIKE_ONE_SIZE", "1");
  {
    const Backend backend;
    assert_true(backend.can(WEIR_CAP_VMM));
    assert_int_equal(backend.describe().granule, unit);
    assert_int_equal(backend.describe().granule_large, 0);
    assert_contains(backend.lines.back(), "device 0 is used without large granules");
  }
  {
    const Backend backend("granule_large=0");
    assert_true(backend.can(WEIR_CAP_VMM));
    assert_int_equal(backend.lines.size(), 1);
  }
  machine.census();
}

void test_links(void **) {
  const Machine machine(2);
  {
    const Backend backend;
    weir_be_link link{};
    link.struct_size = sizeof link;
    ASSERT_OK(backend.t->link_describe(backend.state, 0, 0, &link));
    assert_int_equal(link.kind, WEIR_LINK_SAME);
    assert_int_equal(link.hops, 0);
    ASSERT_OK(backend.t->link_describe(backend.state, 0, WEIR_DEVICE_HOST, &link));
    assert_int_equal(link.kind, WEIR_LINK_PCIE);
    assert_int_equal(link.direct, 1);
    ASSERT_OK(backend.t->link_describe(backend.state, 0, 1, &link));
    assert_int_equal(link.kind, WEIR_LINK_INFINITY_FABRIC);
    assert_int_equal(link.hops, 1);
    assert_int_equal(link.direct, 1);
    ASSERT_OK(backend.t->peer_enable(backend.state, 0, 1));
    ASSERT_OK(backend.t->peer_enable(backend.state, 0, 1));
    const Setting pcie("WEIR_HIP_LOOKALIKE_LINK", "pcie");
    ASSERT_OK(backend.t->link_describe(backend.state, 1, 0, &link));
    assert_int_equal(link.kind, WEIR_LINK_PCIE);
    assert_int_equal(link.hops, 2);
    assert_int_equal(backend.t->link_describe(backend.state, 0, 7, &link),
                     WEIR_ERROR_INVALID_ARGUMENT);
  }
  machine.census();
}

void test_no_peers(void **) {
  const Machine machine(2, "peer=0");
  {
    const Backend backend;
    assert_false(backend.can(WEIR_CAP_PEER));
    weir_be_link link{};
    link.struct_size = sizeof link;
    ASSERT_OK(backend.t->link_describe(backend.state, 0, 1, &link));
    assert_int_equal(link.direct, 0);
    assert_int_equal(backend.t->peer_enable(backend.state, 0, 1), WEIR_ERROR_NOT_SUPPORTED);
    assert_contains(backend.sentence(), "device 0 can't reach the memory of device 1");
  }
  machine.census();
}

// ---- the thread's own state

/// Everything that needs a current device, on device 0 and 1, from a thread whose current device is 1.
void test_current_device(void **) {
  const Machine machine(2);
  ASSERT_OK(libraries().set_device(1));
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    const auto same = [&] {
      int now = -1;
      ASSERT_OK(libraries().get_device(&now));
      assert_int_equal(now, 1);
    };
    same();
    for (uint32_t device = 0; device < 2; ++device) {
      uint64_t free_bytes = 0, total = 0, plain = 0, range = 0;
      weir_be_granule granule = 0;
      weir_be_stream stream = nullptr, null = nullptr;
      weir_be_fence fence = 0;
      ASSERT_OK(t.device_memory(backend.state, device, &free_bytes, &total));
      same();
      ASSERT_OK(t.plain_allocate(backend.state, device, mib, 256, &plain));
      same();
      ASSERT_OK(t.granule_create(backend.state, device, unit, 0, &granule));
      ASSERT_OK(t.range_reserve(backend.state, device, unit, unit, &range));
      ASSERT_OK(t.map(backend.state, device, range, unit, granule, 0, nullptr, 0));
      same();
      ASSERT_OK(t.stream_create(backend.state, device, 0, &stream));
      ASSERT_OK(t.stream_wrap(backend.state, device, nullptr, &null));
      ASSERT_OK(t.fill_async(backend.state, null, plain, 1, mib));
      ASSERT_OK(t.fence_record(backend.state, null, &fence));
      ASSERT_OK(t.fence_wait(backend.state, fence, UINT64_MAX));
      ASSERT_OK(t.peer_enable(backend.state, device, 1 - device));
      same();
      assert_int_equal(t.plain_allocate(backend.state, device, uint64_t{1} << 40U, 256, &plain),
                       WEIR_ERROR_DEVICE_OOM);
      same();
      ASSERT_OK(t.unmap(backend.state, device, range, unit));
      ASSERT_OK(t.range_free(backend.state, device, range, unit));
      ASSERT_OK(t.granule_destroy(backend.state, device, granule));
      ASSERT_OK(t.plain_free(backend.state, device, plain, mib));
      ASSERT_OK(t.fence_destroy(backend.state, fence));
      ASSERT_OK(t.stream_destroy(backend.state, null));
      ASSERT_OK(t.stream_destroy(backend.state, stream));
      same();
    }
  }
  int now = -1;
  ASSERT_OK(libraries().get_device(&now));
  assert_int_equal(now, 1);
  machine.census();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_no_library),
      cmocka_unit_test(test_no_hip_library),
      cmocka_unit_test(test_no_devices),
      cmocka_unit_test(test_too_old),
      cmocka_unit_test(test_symbols_missing),
      cmocka_unit_test(test_bad_options),
      cmocka_unit_test(test_description),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_integrated),
      cmocka_unit_test(test_granularity),
      cmocka_unit_test(test_no_vmm),
      cmocka_unit_test(test_probe),
      cmocka_unit_test(test_probe_second_mapping),
      cmocka_unit_test(test_probe_one_size),
      cmocka_unit_test(test_links),
      cmocka_unit_test(test_no_peers),
      cmocka_unit_test(test_current_device),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
