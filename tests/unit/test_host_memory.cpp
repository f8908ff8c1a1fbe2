// SPDX-License-Identifier: Apache-2.0
//
// Granules, reservations and mappings of the host backend: aliasing, remapping, running out, what
// is refused, and that refusals and frees leave nothing behind.
#include "backends/host/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

// Last: CMocka defines a macro named fail.
#include "tests/unit/host_backend.hpp"

namespace {

using weir::test::Backend;
using weir::test::bytes_at;
using weir::test::invalid;
using weir::test::kib64;

/// Whether the CPU can read there, asked of the kernel so that the answer is no crash.
bool readable(uint64_t address) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  const bool yes = write(ends[1], bytes_at(address), 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return yes;
}

void start_refuses_wrong_options(void **) {
  const weir_backend_table &t = *weir_host_backend_query(WEIR_BACKEND_ABI_MAJOR);
  assert_null(weir_host_backend_query(WEIR_BACKEND_ABI_MAJOR + 1));
  assert_string_equal(t.name, "host");
  weir_be_start desc{};
  desc.struct_size = sizeof desc;
  desc.options = "granul=2M";
  weir_be_state *state = nullptr;
  const char *reason = nullptr;
  assert_int_equal(t.start(&desc, &state, &reason), invalid);
  assert_null(state);
  assert_non_null(reason);
  assert_non_null(std::strstr(reason, "\"granul\""));
}

void devices_are_as_configured(void **) {
  const Backend b("devices=3");
  uint32_t count = 0;
  assert_int_equal(b.t.device_count(b.s, &count), WEIR_SUCCESS);
  assert_int_equal(count, 3);
  const weir_be_device first = b.describe(0);
  const weir_be_device third = b.describe(2);
  assert_int_equal(first.memory_total, uint64_t{4} << 20U);
  assert_int_equal(first.granule, kib64);
  assert_string_equal(first.pci_address, "");
  assert_memory_not_equal(first.uuid, third.uuid, sizeof first.uuid);
  assert_memory_equal(first.uuid, b.describe(0).uuid, sizeof first.uuid);
  weir_be_device description{};
  description.struct_size = sizeof description;
  assert_int_equal(b.t.device_describe(b.s, 3, &description), invalid);
}

/// Of three devices of 4 MiB the first two have them together.
void devices_may_have_one_memory(void **) {
  const Backend b("devices=3;memory_with=0,0,2");
  const auto expect_free = [&](uint64_t one, uint64_t third) {
    for (const uint32_t device : {0U, 1U, 2U}) {
      uint64_t available = 0, total = 0;
      assert_int_equal(b.t.device_memory(b.s, device, &available, &total), WEIR_SUCCESS);
      assert_int_equal(available, device == 2 ? third : one);
      assert_int_equal(total, uint64_t{4} << 20U);
    }
  };
  const uint64_t mib = uint64_t{1} << 20U;
  weir_be_granule first = 0, second = 0, none = 0;
  assert_int_equal(b.t.granule_create(b.s, 0, 3 * mib, 0, &first), WEIR_SUCCESS);
  expect_free(mib, 4 * mib);
  assert_int_equal(b.t.granule_create(b.s, 1, 2 * mib, 0, &none), WEIR_ERROR_DEVICE_OOM);
  assert_non_null(std::strstr(b.t.error_text(b.s, b.t.last_error_code(b.s)), "others"));
  uint64_t plain = 0;
  assert_int_equal(b.t.plain_allocate(b.s, 1, 2 * mib, 4096, &plain), WEIR_ERROR_DEVICE_OOM);
  assert_int_equal(b.t.granule_create(b.s, 2, 4 * mib, 0, &none), WEIR_SUCCESS);
  assert_int_equal(b.t.granule_create(b.s, 1, mib, 0, &second), WEIR_SUCCESS);
  expect_free(0, 0);
  // Bytes are each device's own.
  assert_int_equal(b.t.granule_destroy(b.s, 0, first), WEIR_SUCCESS);
  expect_free(3 * mib, 0);
  assert_int_equal(b.t.plain_allocate(b.s, 1, 3 * mib, 4096, &plain), WEIR_SUCCESS);
  assert_int_equal(b.t.plain_free(b.s, 1, plain, 3 * mib), WEIR_SUCCESS);
  assert_int_equal(b.t.granule_destroy(b.s, 1, second), WEIR_SUCCESS);
  expect_free(4 * mib, 0);
}

void the_same_bytes_at_two_addresses(void **) {
  const Backend b;
  const weir_be_granule granule = b.granule();
  const uint64_t range = b.range(4 * kib64);
  assert_int_equal(b.map(range, granule), WEIR_SUCCESS);
  assert_int_equal(b.map(range + 2 * kib64, granule), WEIR_SUCCESS);
  bytes_at(range)[5] = 42;
  assert_int_equal(bytes_at(range + 2 * kib64)[5], 42);
  bytes_at(range + 3 * kib64 - 1)[0] = 43;
  assert_int_equal(bytes_at(range + kib64 - 1)[0], 43);
}

void remapping_keeps_the_bytes(void **) {
  const Backend b;
  const weir_be_granule granule = b.granule();
  const uint64_t here = b.range(kib64);
  const uint64_t there = b.range(2 * kib64);
  assert_int_equal(b.map(here, granule), WEIR_SUCCESS);
  for (uint64_t i = 0; i < kib64; ++i) bytes_at(here)[i] = static_cast<unsigned char>(i * 7);
  assert_int_equal(b.unmap(here), WEIR_SUCCESS);
  assert_int_equal(b.map(there + kib64, granule), WEIR_SUCCESS);
  for (uint64_t i = 0; i < kib64; ++i) {
    if (bytes_at(there + kib64)[i] != static_cast<unsigned char>(i * 7))
      fail_msg("byte %u", static_cast<unsigned>(i));
  }
  const weir_be_granule other = b.granule();
  assert_int_equal(b.map(here, other), WEIR_SUCCESS);
  bytes_at(here)[0] = 1;
  assert_int_equal(bytes_at(there + kib64)[0], 0);
}

void a_part_of_a_granule_is_mapped(void **) {
  const Backend b;
  const weir_be_granule granule = b.granule(4 * kib64);
  const uint64_t range = b.range(8 * kib64);
  assert_int_equal(b.map(range, granule, 4 * kib64), WEIR_SUCCESS);
  assert_int_equal(b.map(range + 4 * kib64, granule, kib64, 2 * kib64), WEIR_SUCCESS);
  bytes_at(range + 2 * kib64)[9] = 77;
  assert_int_equal(bytes_at(range + 4 * kib64)[9], 77);
  assert_int_equal(b.map(range + 5 * kib64, granule, 2 * kib64, 3 * kib64), invalid);
  assert_int_equal(b.map(range + 5 * kib64, granule, kib64, 4 * kib64), invalid);
}

void map_refuses_what_it_must(void **) {
  const Backend b("devices=2;shared_range=0");
  const weir_be_granule granule = b.granule();
  const weir_be_granule foreign = b.granule(kib64, 1);
  const uint64_t range = b.range(4 * kib64);
  const uint64_t other = b.range(kib64, kib64, 1);
  assert_int_equal(b.map(range + 4096, granule), invalid);
  assert_true(b.why().find("granule") != std::string::npos);
  assert_int_equal(b.map(range, granule, 4096), invalid);
  assert_int_equal(b.map(range, granule, 0), invalid);
  const weir_be_granule wide = b.granule(2 * kib64);
  assert_int_equal(b.map(range, wide, kib64, 4096), invalid);
  assert_int_equal(b.map(range + 3 * kib64, wide, 2 * kib64), invalid);  // half of it past the end
  assert_int_equal(b.map(range, granule, 2 * kib64), invalid);           // more than the granule
  assert_int_equal(b.map(range + 4 * kib64, granule), invalid);          // past the end
  assert_int_equal(b.map(range - kib64, granule), invalid);
  assert_int_equal(b.map(0, granule), invalid);
  assert_int_equal(b.map(range, 0), invalid);
  assert_int_equal(b.map(range, granule + 1000), invalid);
  assert_int_equal(b.map(range, foreign), invalid);  // another device's granule
  assert_int_equal(b.map(other, granule), invalid);  // another device's range
  assert_int_equal(b.t.map(b.s, 2, range, kib64, granule, 0, nullptr, 0), invalid);
  const uint32_t no_peer = 9;
  assert_int_equal(b.t.map(b.s, 0, range, kib64, granule, 0, &no_peer, 1), invalid);
  const uint32_t peer = 1;
  assert_int_equal(b.t.map(b.s, 0, range, kib64, granule, 0, &peer, 1), WEIR_SUCCESS);
  assert_int_equal(b.map(range, granule), invalid);  // something is there
  assert_int_equal(b.unmap(range), WEIR_SUCCESS);
}

void nothing_is_mapped_over_a_mapping(void **) {
  const Backend b;
  const weir_be_granule wide = b.granule(2 * kib64);
  const weir_be_granule narrow = b.granule();
  const uint64_t range = b.range(4 * kib64);
  assert_int_equal(b.map(range + kib64, wide, 2 * kib64), WEIR_SUCCESS);
  assert_int_equal(b.map(range, wide, 2 * kib64), invalid);
  assert_int_equal(b.map(range + 2 * kib64, wide, 2 * kib64), invalid);
  assert_int_equal(b.map(range + 2 * kib64, narrow), invalid);
  assert_int_equal(b.map(range, narrow), WEIR_SUCCESS);
  const weir_be_granule last = b.granule();
  assert_int_equal(b.map(range + 3 * kib64, last), WEIR_SUCCESS);
}

void unmap_is_exact(void **) {
  const Backend b;
  const weir_be_granule wide = b.granule(2 * kib64);
  const uint64_t range = b.range(4 * kib64);
  assert_int_equal(b.map(range, wide, 2 * kib64), WEIR_SUCCESS);
  assert_int_equal(b.unmap(range, kib64), invalid);
  assert_int_equal(b.unmap(range + kib64, kib64), invalid);
  assert_int_equal(b.unmap(range, 4 * kib64), invalid);
  assert_int_equal(b.unmap(range + 2 * kib64, 2 * kib64), invalid);
  bytes_at(range)[0] = 3;  // still there
  assert_true(readable(range + kib64));
  assert_int_equal(b.unmap(range, 2 * kib64), WEIR_SUCCESS);
  assert_false(readable(range));
  assert_false(readable(range + kib64));
  assert_int_equal(b.unmap(range, 2 * kib64), invalid);
}

void mapped_things_are_not_destroyed(void **) {
  const Backend b;
  const weir_be_granule granule = b.granule();
  const uint64_t range = b.range(2 * kib64);
  assert_int_equal(b.map(range, granule), WEIR_SUCCESS);
  assert_int_equal(b.map(range + kib64, granule), WEIR_SUCCESS);
  assert_int_equal(b.t.granule_destroy(b.s, 0, granule), invalid);
  assert_int_equal(b.t.range_free(b.s, 0, range, 2 * kib64), invalid);
  assert_int_equal(b.unmap(range), WEIR_SUCCESS);
  assert_int_equal(b.t.granule_destroy(b.s, 0, granule), invalid);
  assert_int_equal(b.unmap(range + kib64), WEIR_SUCCESS);
  assert_int_equal(b.t.range_free(b.s, 0, range, kib64), invalid);
  assert_int_equal(b.t.range_free(b.s, 0, range + kib64, kib64), invalid);
  assert_int_equal(b.t.range_free(b.s, 0, range, 2 * kib64), WEIR_SUCCESS);
  assert_int_equal(b.t.range_free(b.s, 0, range, 2 * kib64), invalid);
  assert_int_equal(b.t.granule_destroy(b.s, 0, granule), WEIR_SUCCESS);
  assert_int_equal(b.t.granule_destroy(b.s, 0, granule), invalid);
}

void reserve_refuses_what_it_must(void **) {
  const Backend b;
  uint64_t address = 1;
  assert_int_equal(b.t.range_reserve(b.s, 0, 0, kib64, &address), invalid);
  assert_int_equal(b.t.range_reserve(b.s, 0, 4096, kib64, &address), invalid);
  assert_int_equal(b.t.range_reserve(b.s, 0, kib64, 4096, &address), invalid);
  assert_int_equal(b.t.range_reserve(b.s, 0, kib64, 3 * kib64, &address), invalid);
  assert_int_equal(b.t.range_reserve(b.s, 0, kib64, 0, &address), invalid);
  assert_int_equal(b.t.range_reserve(b.s, 1, kib64, kib64, &address), invalid);
  assert_int_equal(b.t.range_reserve(b.s, 0, uint64_t{1} << 62U, kib64, &address),
                   WEIR_ERROR_OUT_OF_HOST_MEMORY);
  assert_int_equal(b.t.last_error_code(b.s), ENOMEM);
  assert_true(b.why().find("memory") != std::string::npos);
  assert_int_equal(address, 1);
  const uint64_t huge = b.range(uint64_t{1} << 32U, uint64_t{1} << 30U);
  assert_int_equal(b.t.range_free(b.s, 0, huge, uint64_t{1} << 32U), WEIR_SUCCESS);
}

void memory_runs_out_and_comes_back(void **) {
  const Backend b;  // 64 granules
  std::vector<weir_be_granule> all;
  for (int i = 0; i < 64; ++i) all.push_back(b.granule());
  assert_int_equal(b.available(), 0);
  weir_be_granule more = 0;
  assert_int_equal(b.t.granule_create(b.s, 0, kib64, 0, &more), WEIR_ERROR_DEVICE_OOM);
  uint64_t plain = 0;
  assert_int_equal(b.t.plain_allocate(b.s, 0, 4096, 4096, &plain), WEIR_ERROR_DEVICE_OOM);
  assert_int_equal(more, 0);
  // Freed in an order that merges holes on either side and on both.
  for (const size_t i : {1U, 3U, 2U, 0U})
    assert_int_equal(b.t.granule_destroy(b.s, 0, all[i]), WEIR_SUCCESS);
  assert_int_equal(b.available(), 4 * kib64);
  const weir_be_granule wide = b.granule(4 * kib64);
  assert_int_equal(b.available(), 0);
  assert_int_equal(b.t.granule_destroy(b.s, 0, wide), WEIR_SUCCESS);
  for (size_t i = 4; i < 64; ++i)
    assert_int_equal(b.t.granule_destroy(b.s, 0, all[i]), WEIR_SUCCESS);
  assert_int_equal(b.available(), 64 * kib64);
  (void)b.granule(64 * kib64);
}

void granule_create_refuses_odd_sizes(void **) {
  const Backend b;
  weir_be_granule granule = 0;
  assert_int_equal(b.t.granule_create(b.s, 0, 0, 0, &granule), invalid);
  assert_int_equal(b.t.granule_create(b.s, 0, 4096, 0, &granule), invalid);
  assert_int_equal(b.t.granule_create(b.s, 0, kib64 + 1, 0, &granule), invalid);
  assert_int_equal(b.t.granule_create(b.s, 1, kib64, 0, &granule), invalid);
  assert_int_equal(b.t.granule_create(b.s, 0, UINT64_MAX / kib64 * kib64, 0, &granule),
                   WEIR_ERROR_DEVICE_OOM);
}

void freed_memory_goes_back_unless_kept(void **) {
  for (const bool keep : {false, true}) {
    const Backend b(keep ? "punch_hole=0" : "");
    const uint64_t range = b.range(kib64);
    const weir_be_granule granule = b.granule();
    assert_int_equal(b.map(range, granule), WEIR_SUCCESS);
    bytes_at(range)[0] = 5;
    assert_int_equal(b.unmap(range), WEIR_SUCCESS);
    assert_int_equal(b.t.granule_destroy(b.s, 0, granule), WEIR_SUCCESS);
    assert_int_equal(b.map(range, b.granule()), WEIR_SUCCESS);  // the lowest place: the same memory
    assert_int_equal(bytes_at(range)[0], keep ? 5 : 0);
  }
}

void extents_know_their_past_and_place(void **) {
  weir::host::DeviceMemory memory;
  assert_int_equal(memory.open(0, 4 * kib64, true), WEIR_SUCCESS);
  std::shared_ptr<weir::host::Extent> extent;
  assert_int_equal(memory.take_low(kib64, kib64, &extent), WEIR_SUCCESS);
  assert_false(extent->mapped_before());
  assert_true(extent->mapped_before());
  // Plain memory comes from the other end, and a large alignment of granules skips to where it
  // fits.
  std::shared_ptr<weir::host::Extent> high;
  std::shared_ptr<weir::host::Extent> aligned;
  assert_int_equal(memory.take_high(4096, &high), WEIR_SUCCESS);
  assert_int_equal(high->offset(), 4 * kib64 - 4096);
  assert_int_equal(memory.take_low(kib64, 2 * kib64, &aligned), WEIR_SUCCESS);
  assert_int_equal(aligned->offset(), 2 * kib64);
  assert_int_equal(memory.available(), 2 * kib64 - 4096);
}

void threads_share_the_tables(void **) {
  const Backend b;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned char who = 1; who <= 4; ++who) {
    threads.emplace_back([&b, &wrong, who] {
      for (int round = 0; round < 50; ++round) {
        uint64_t range = 0;
        weir_be_granule granule = 0;
        bool good = b.t.range_reserve(b.s, 0, 2 * kib64, kib64, &range) == WEIR_SUCCESS &&
                    b.t.granule_create(b.s, 0, kib64, 0, &granule) == WEIR_SUCCESS &&
                    b.map(range, granule) == WEIR_SUCCESS &&
                    b.map(range + kib64, granule) == WEIR_SUCCESS;
        if (good) {
          bytes_at(range)[0] = who;
          good = bytes_at(range + kib64)[0] == who;
        }
        good = good && b.unmap(range) == WEIR_SUCCESS && b.unmap(range + kib64) == WEIR_SUCCESS &&
               b.t.granule_destroy(b.s, 0, granule) == WEIR_SUCCESS &&
               b.t.range_free(b.s, 0, range, 2 * kib64) == WEIR_SUCCESS;
        if (!good) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  assert_int_equal(wrong.load(), 0);
  assert_int_equal(b.available(), uint64_t{4} << 20U);
}

size_t open_descriptors() {
  size_t count = 0;
  for (int fd = 0; fd < 256; ++fd) count += fcntl(fd, F_GETFD) >= 0 ? 1U : 0U;
  return count;
}

void stop_frees_what_is_left(void **) {
  const size_t before = open_descriptors();
  uint64_t range = 0;
  {
    const Backend b("devices=2");
    range = b.range(2 * kib64);
    assert_int_equal(b.map(range, b.granule()), WEIR_SUCCESS);
    bytes_at(range)[0] = 1;
    uint64_t plain = 0;
    void *host = nullptr;
    assert_int_equal(b.t.plain_allocate(b.s, 1, 4096, 4096, &plain), WEIR_SUCCESS);
    assert_int_equal(b.t.host_allocate(b.s, 4096, &host), WEIR_SUCCESS);
  }
  assert_int_equal(open_descriptors(), before);
  unsigned char resident = 0;
  assert_int_equal(mincore(bytes_at(range), 4096, &resident),
                   -1);  // nothing is mapped there any more
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(start_refuses_wrong_options),
      cmocka_unit_test(devices_are_as_configured),
      cmocka_unit_test(devices_may_have_one_memory),
      cmocka_unit_test(the_same_bytes_at_two_addresses),
      cmocka_unit_test(remapping_keeps_the_bytes),
      cmocka_unit_test(a_part_of_a_granule_is_mapped),
      cmocka_unit_test(map_refuses_what_it_must),
      cmocka_unit_test(nothing_is_mapped_over_a_mapping),
      cmocka_unit_test(unmap_is_exact),
      cmocka_unit_test(mapped_things_are_not_destroyed),
      cmocka_unit_test(reserve_refuses_what_it_must),
      cmocka_unit_test(memory_runs_out_and_comes_back),
      cmocka_unit_test(granule_create_refuses_odd_sizes),
      cmocka_unit_test(freed_memory_goes_back_unless_kept),
      cmocka_unit_test(extents_know_their_past_and_place),
      cmocka_unit_test(threads_share_the_tables),
      cmocka_unit_test(stop_frees_what_is_left),
  };
  return cmocka_run_group_tests_name("host memory", tests, nullptr, nullptr);
}
