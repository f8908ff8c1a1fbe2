// SPDX-License-Identifier: Apache-2.0
//
// Memory of the Level Zero backend over the real loader and the simulated driver: granules and their mappings, plain and pinned
// memory, memory that the caller registers.

#include "tests/backends/level_zero_fixture.hpp"

#include <sys/mman.h>

using namespace level_zero_test;

namespace {

/// Copies and waits. Both sides as the ABI wants them.
void copy(const Backend &backend, weir_be_stream stream, uint64_t destination, uint64_t source,
          uint64_t bytes) {
  const weir_be_copy what{destination, source, bytes};
  assert_ok(backend, backend->copy_async(backend.state, stream, &what));
  assert_ok(backend, backend->stream_synchronize(backend.state, stream));
}

void mapping_keeps_content(void **) {
  machine("devices=1;memory=64M;mode=strict");
  {
    Backend backend;
    weir_be_granule a = 0, b = 0;
    uint64_t base = 0, host = 0;
    void *memory = nullptr;
    weir_be_stream stream = nullptr;
    assert_ok(backend, backend->stream_create(backend.state, 0, 0, &stream));
    assert_ok(backend, backend->host_allocate(backend.state, 4 * MiB, &memory));
    host = reinterpret_cast<uintptr_t>(memory);
    assert_int_equal(host % 4096, 0);
    auto *bytes = static_cast<unsigned char *>(memory);
    assert_ok(backend, backend->granule_create(backend.state, 0, 2 * MiB, 0, &a));
    assert_ok(backend, backend->granule_create(backend.state, 0, 4 * MiB, 0, &b));
    assert_ok(backend, backend->range_reserve(backend.state, 0, 64 * MiB, 16 * MiB, &base));
    assert_int_equal(base % (16 * MiB), 0);
    assert_ok(backend, backend->map(backend.state, 0, base, 2 * MiB, a, 0, nullptr, 0));
    assert_ok(backend, backend->map(backend.state, 0, base + 4 * MiB, 4 * MiB, b, 0, nullptr, 0));
    std::memset(bytes, 'a', 2 * MiB);
    copy(backend, stream, base, host, 2 * MiB);
    std::memset(bytes, 'b', 2 * MiB);
    copy(backend, stream, base + 6 * MiB, host, 2 * MiB);
    assert_ok(backend, backend->unmap(backend.state, 0, base, 2 * MiB));
    assert_ok(backend, backend->unmap(backend.state, 0, base + 4 * MiB, 4 * MiB));
    // The granules change places.
    assert_ok(backend, backend->map(backend.state, 0, base, 4 * MiB, b, 0, nullptr, 0));
    assert_ok(backend, backend->map(backend.state, 0, base + 4 * MiB, 2 * MiB, a, 0, nullptr, 0));
    copy(backend, stream, host, base + 2 * MiB, 2 * MiB);
    assert_int_equal(bytes[0], 'b');
    assert_int_equal(bytes[2 * MiB - 1], 'b');
    copy(backend, stream, host, base + 4 * MiB, 2 * MiB);
    assert_int_equal(bytes[0], 'a');
    assert_int_equal(bytes[2 * MiB - 1], 'a');
    assert_ok(backend, backend->unmap(backend.state, 0, base, 4 * MiB));
    assert_ok(backend, backend->unmap(backend.state, 0, base + 4 * MiB, 2 * MiB));
    assert_ok(backend, backend->range_free(backend.state, 0, base, 64 * MiB));
    assert_ok(backend, backend->granule_destroy(backend.state, 0, a));
    assert_ok(backend, backend->granule_destroy(backend.state, 0, b));
    assert_ok(backend, backend->host_free(backend.state, memory, 4 * MiB));
    assert_ok(backend, backend->stream_destroy(backend.state, stream));
  }
  assert_clean();
}

void reservations_are_aligned(void **) {
  machine("devices=1;memory=64M");
  {
    Backend backend;
    uint64_t addresses[4] = {};
    const uint64_t alignment = uint64_t{1} << 30U;
    for (uint64_t &each : addresses) {
      assert_ok(backend, backend->range_reserve(backend.state, 0, 2 * MiB, alignment, &each));
      assert_int_equal(each % alignment, 0);
    }
    for (const uint64_t each : addresses) {
      assert_ok(backend, backend->range_free(backend.state, 0, each, 2 * MiB));
    }
  }
  assert_clean();
}

void granules_are_counted(void **) {
  machine("devices=1;memory=64M");
  {
    Backend backend;
    uint64_t available = 0, total = 0;
    // More in all than the device has.
    for (int i = 0; i < 5; ++i) {
      weir_be_granule granule = 0;
      assert_ok(backend, backend->granule_create(backend.state, 0, 32 * MiB, 0, &granule));
      assert_ok(backend, backend->device_memory(backend.state, 0, &available, &total));
      assert_int_equal(available, 32 * MiB);
      assert_ok(backend, backend->granule_destroy(backend.state, 0, granule));
    }
    sim().fail("zePhysicalMemCreate", 1, abi::error_out_of_device_memory);
    weir_be_granule granule = 0;
    assert_refused(backend, WEIR_ERROR_DEVICE_OOM, "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
                   backend->granule_create(backend.state, 0, 2 * MiB, 0, &granule));
    assert_int_equal(backend->last_error_code(backend.state), abi::error_out_of_device_memory);
    assert_ok(backend, backend->device_memory(backend.state, 0, &available, &total));
    assert_int_equal(available, 64 * MiB);
  }
  assert_clean();
}

void mapping_misuse(void **) {
  machine("devices=2;memory=64M");
  Backend backend;
  weir_be_granule granule = 0, other = 0, number = 0;
  uint64_t base = 0;
  const auto &b = backend;
  const auto refused = [&](const char *part, weir_result result) {
    assert_int_equal(result, WEIR_ERROR_INVALID_ARGUMENT);
    assert_says(b.why(), part);
  };
  refused("bytes=0x1000", b->granule_create(b.state, 0, 4096, 0, &number));
  refused("bytes=0", b->granule_create(b.state, 0, 0, 0, &number));
  assert_int_equal(b->granule_create(b.state, 0, 2 * MiB, WEIR_BE_GRANULE_EXPORT_FD, &number),
                   WEIR_ERROR_NOT_SUPPORTED);
  assert_refused(b, WEIR_ERROR_DEVICE_OOM, "67108864 left",
                 b->granule_create(b.state, 0, 66 * MiB, 0, &number));
  refused("alignment=0x600000", b->range_reserve(b.state, 0, 8 * MiB, 6 * MiB, &base));
  assert_ok(b, b->granule_create(b.state, 0, 4 * MiB, 0, &granule));
  assert_ok(b, b->granule_create(b.state, 0, 2 * MiB, 0, &other));
  assert_ok(b, b->range_reserve(b.state, 0, 8 * MiB, 2 * MiB, &base));
  refused("is none of device 1", b->granule_destroy(b.state, 1, granule));
  refused("not inside one reservation",
          b->map(b.state, 0, base + 6 * MiB, 4 * MiB, granule, 0, nullptr, 0));
  refused("beyond the granule", b->map(b.state, 0, base, 4 * MiB, granule, 2 * MiB, nullptr, 0));
  assert_refused(b, WEIR_ERROR_NOT_SUPPORTED, "is mapped whole",
                 b->map(b.state, 0, base, 2 * MiB, granule, 0, nullptr, 0));
  assert_refused(b, WEIR_ERROR_NOT_SUPPORTED, "is mapped whole",
                 b->map(b.state, 0, base, 2 * MiB, granule, 2 * MiB, nullptr, 0));
  assert_ok(b, b->map(b.state, 0, base, 4 * MiB, granule, 0, nullptr, 0));
  assert_refused(b, WEIR_ERROR_NOT_SUPPORTED, "is mapped already",
                 b->map(b.state, 0, base + 4 * MiB, 4 * MiB, granule, 0, nullptr, 0));
  refused("something is mapped", b->map(b.state, 0, base, 2 * MiB, other, 0, nullptr, 0));
  refused("still mapped", b->granule_destroy(b.state, 0, granule));
  refused("is mapped", b->range_free(b.state, 0, base, 8 * MiB));
  refused("no one map call", b->unmap(b.state, 0, base + 2 * MiB, 2 * MiB));
  refused("is no reservation", b->range_free(b.state, 0, base, 6 * MiB));
  assert_ok(b, b->unmap(b.state, 0, base, 4 * MiB));
  refused("no one map call", b->unmap(b.state, 0, base, 4 * MiB));
  assert_ok(b, b->granule_destroy(b.state, 0, granule));
  refused("is none of device 0", b->granule_destroy(b.state, 0, granule));
  backend.stop();  // with what is left: a granule and a reservation
  assert_clean();
}

void peers(void **) {
  machine("devices=2;memory=64M;links=nvlink;mode=strict", "tiles=2");
  {
    Backend backend;
    weir_be_granule granule = 0;
    uint64_t base = 0, far = 0;
    void *host = nullptr;
    weir_be_stream stream = nullptr;
    const uint32_t peer = 1;
    assert_ok(backend, backend->granule_create(backend.state, 0, 2 * MiB, 0, &granule));
    assert_ok(backend, backend->range_reserve(backend.state, 0, 2 * MiB, 2 * MiB, &base));
    assert_ok(backend, backend->map(backend.state, 0, base, 2 * MiB, granule, 0, &peer, 1));
    assert_ok(backend, backend->plain_allocate(backend.state, 1, MiB, 4096, &far));
    assert_ok(backend, backend->host_allocate(backend.state, MiB, &host));
    assert_ok(backend, backend->stream_create(backend.state, 1, 0, &stream));
    const uint64_t near = reinterpret_cast<uintptr_t>(host);
    std::memset(host, 'p', MiB);
    copy(backend, stream, far, near, MiB);
    copy(backend, stream, base, far, MiB);
    std::memset(host, 0, MiB);
    copy(backend, stream, near, base, MiB);
    assert_int_equal(static_cast<char *>(host)[MiB - 1], 'p');
  }
  assert_clean();
  machine("devices=2;memory=64M;links=none;peer=0");
  {
    Backend backend;
    assert_int_equal(describe(backend, 0).capabilities & WEIR_CAP_PEER, 0);
    uint64_t far = 0;
    weir_be_stream stream = nullptr;
    assert_ok(backend, backend->plain_allocate(backend.state, 1, MiB, 4096, &far));
    assert_ok(backend, backend->stream_create(backend.state, 0, 0, &stream));
    weir_be_granule granule = 0;
    uint64_t base = 0;
    const uint32_t peer = 1, nobody = 2;
    assert_ok(backend, backend->granule_create(backend.state, 0, 2 * MiB, 0, &granule));
    assert_ok(backend, backend->range_reserve(backend.state, 0, 2 * MiB, 2 * MiB, &base));
    assert_refused(backend, WEIR_ERROR_NOT_SUPPORTED, "device 1 cannot reach memory of device 0",
                   backend->map(backend.state, 0, base, 2 * MiB, granule, 0, &peer, 1));
    assert_refused(backend, WEIR_ERROR_INVALID_ARGUMENT, "device 2 of 2",
                   backend->map(backend.state, 0, base, 2 * MiB, granule, 0, &nobody, 1));
    assert_refused(backend, WEIR_ERROR_NOT_SUPPORTED, "device 0 cannot reach",
                   backend->fill_async(backend.state, stream, far, 1, MiB));
  }
  assert_clean();
}

void plain_and_pinned(void **) {
  machine("devices=1;memory=64M");
  Backend backend;
  uint64_t address = 0, available = 0, total = 0;
  void *memory = nullptr;
  assert_ok(backend, backend->plain_allocate(backend.state, 0, 3 * MiB, 2 * MiB, &address));
  assert_int_equal(address % (2 * MiB), 0);
  assert_ok(backend, backend->device_memory(backend.state, 0, &available, &total));
  assert_int_equal(available, 61 * MiB);
  assert_int_equal(total, 64 * MiB);
  assert_refused(backend, WEIR_ERROR_INVALID_ARGUMENT, "alignment=4194304",
                 backend->plain_allocate(backend.state, 0, MiB, 4 * MiB, &address));
  assert_refused(backend, WEIR_ERROR_DEVICE_OOM, "left",
                 backend->plain_allocate(backend.state, 0, 62 * MiB, 4096, &address));
  assert_refused(backend, WEIR_ERROR_INVALID_ARGUMENT, "plain_free",
                 backend->plain_free(backend.state, 0, address, MiB));
  assert_ok(backend, backend->plain_free(backend.state, 0, address, 3 * MiB));
  assert_refused(backend, WEIR_ERROR_INVALID_ARGUMENT, "plain_free",
                 backend->plain_free(backend.state, 0, address, 3 * MiB));
  assert_refused(backend, WEIR_ERROR_INVALID_ARGUMENT, "0 bytes",
                 backend->host_allocate(backend.state, 0, &memory));
  assert_ok(backend, backend->host_allocate(backend.state, 5000, &memory));
  assert_refused(backend, WEIR_ERROR_INVALID_ARGUMENT, "host_free",
                 backend->host_free(backend.state, memory, 4096));
  assert_refused(backend, WEIR_ERROR_INVALID_ARGUMENT, "host_unregister",
                 backend->host_unregister(backend.state, memory, 5000));
  backend.stop();
  assert_clean();
}

void beyond_the_allocation_limit(void **) {
  machine("devices=1;memory=8G", "max_alloc=4G");
  {
    Backend backend;
    uint64_t address = 0;
    assert_ok(backend,
              backend->plain_allocate(backend.state, 0, uint64_t{5} << 30U, 4096, &address));
    assert_ok(backend, backend->plain_free(backend.state, 0, address, uint64_t{5} << 30U));
  }
  assert_clean();
}

void registered_memory(void **) {
  const auto unregistered =
      function_of<uint64_t()>(sim().library, "weir_sim_level_zero_unregistered");
  machine("devices=1;memory=64M");
  void *mine = mmap(nullptr, MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  {
    Backend backend;
    const uint64_t address = reinterpret_cast<uintptr_t>(mine);
    uint64_t device = 0;
    weir_be_stream stream = nullptr;
    assert_ok(backend, backend->plain_allocate(backend.state, 0, MiB, 4096, &device));
    assert_ok(backend, backend->stream_create(backend.state, 0, 0, &stream));
    const weir_be_copy in{device, address, MiB};
    assert_refused(backend, WEIR_ERROR_INVALID_ARGUMENT, "the source",
                   backend->copy_async(backend.state, stream, &in));
    assert_ok(backend, backend->host_register(backend.state, mine, MiB));
    assert_refused(backend, WEIR_ERROR_INVALID_ARGUMENT, "known already",
                   backend->host_register(backend.state, mine, 4096));
    std::memset(mine, 'r', MiB);
    copy(backend, stream, device, address, MiB);
    std::memset(mine, 0, MiB);
    copy(backend, stream, address, device, MiB);
    assert_int_equal(static_cast<char *>(mine)[MiB - 1], 'r');
    assert_ok(backend, backend->host_unregister(backend.state, mine, MiB));
    assert_int_equal(backend->copy_async(backend.state, stream, &in), WEIR_ERROR_INVALID_ARGUMENT);
    assert_refused(backend, WEIR_ERROR_INVALID_ARGUMENT, "page-aligned",
                   backend->host_register(backend.state, static_cast<char *>(mine) + 8, 4096));
    assert_int_equal(unregistered(), 0);
  }
  assert_clean();
  machine("devices=1", "import=0");
  {
    Backend backend;
    assert_int_equal(describe(backend, 0).capabilities & WEIR_CAP_HOST_REGISTER, 0);
    assert_refused(backend, WEIR_ERROR_NOT_SUPPORTED, "zexDriverImportExternalPointer",
                   backend->host_register(backend.state, mine, MiB));
  }
  assert_clean();
  munmap(mine, MiB);
}

}  // namespace

int main() {
  if (!prepare("test_level_zero_memory")) return skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(mapping_keeps_content),
      cmocka_unit_test(reservations_are_aligned),
      cmocka_unit_test(granules_are_counted),
      cmocka_unit_test(mapping_misuse),
      cmocka_unit_test(peers),
      cmocka_unit_test(plain_and_pinned),
      cmocka_unit_test(beyond_the_allocation_limit),
      cmocka_unit_test(registered_memory),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
