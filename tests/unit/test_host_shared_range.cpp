// SPDX-License-Identifier: Apache-2.0
//
// Granules of one device in the range of another: which device may map, unmap and free, whose link a copy takes, and that
// the host backend keeps WEIR_CAP_SHARED_RANGE to those that have it. Two threads map into one range at once.
#include <time.h>

#include <atomic>
#include <thread>
#include <vector>

// Last: CMocka defines a macro named fail.
#include "tests/unit/host_backend.hpp"

namespace {

using weir::test::Backend;
using weir::test::bytes_at;
using weir::test::invalid;
using weir::test::kib64;

weir_result map_of(const Backend &b, uint32_t device, uint64_t address, weir_be_granule granule,
                   uint64_t bytes = kib64) {
  return b.t.map(b.s, device, address, bytes, granule, 0, nullptr, 0);
}

weir_result unmap_of(const Backend &b, uint32_t device, uint64_t address, uint64_t bytes = kib64) {
  return b.t.unmap(b.s, device, address, bytes);
}

void another_devices_granule_lies_in_the_range(void **) {
  const Backend b("devices=2");
  assert_true((b.describe(0).capabilities & WEIR_CAP_SHARED_RANGE) != 0);
  const weir_be_granule mine = b.granule(), theirs = b.granule(kib64, 1);
  const uint64_t range = b.range(3 * kib64), own = b.range(kib64, kib64, 1);
  assert_int_equal(map_of(b, 0, range, mine), WEIR_SUCCESS);
  assert_int_equal(map_of(b, 1, range, theirs), invalid);          // something is there
  assert_int_equal(map_of(b, 0, range + kib64, theirs), invalid);  // no granule of that device
  assert_int_equal(map_of(b, 1, range + kib64 + 4096, theirs), invalid);
  assert_int_equal(map_of(b, 1, range + kib64, theirs), WEIR_SUCCESS);
  bytes_at(range)[0] = 1;
  bytes_at(range + kib64)[0] = 2;
  // The same memory at an address of its own device.
  assert_int_equal(map_of(b, 1, own, theirs), WEIR_SUCCESS);
  assert_int_equal(bytes_at(own)[0], 2);
  assert_int_equal(unmap_of(b, 1, own), WEIR_SUCCESS);
  // Each mapping is its device's to end, and the range is its device's to free when all have ended.
  assert_int_equal(unmap_of(b, 0, range + kib64), invalid);
  assert_int_equal(unmap_of(b, 1, range), invalid);
  assert_int_equal(unmap_of(b, 0, range), WEIR_SUCCESS);
  assert_int_equal(bytes_at(range + kib64)[0], 2);
  assert_int_equal(b.t.range_free(b.s, 0, range, 3 * kib64), invalid);
  assert_int_equal(b.t.granule_destroy(b.s, 1, theirs), invalid);
  assert_int_equal(unmap_of(b, 1, range + kib64), WEIR_SUCCESS);
  assert_int_equal(b.t.range_free(b.s, 1, range, 3 * kib64), invalid);
  assert_int_equal(b.t.range_free(b.s, 0, range, 3 * kib64), WEIR_SUCCESS);
  assert_int_equal(b.t.granule_destroy(b.s, 1, theirs), WEIR_SUCCESS);
}

void plain_memory_is_never_shared(void **) {
  const Backend b("devices=2");
  uint64_t plain = 0;
  assert_int_equal(b.t.plain_allocate(b.s, 0, kib64, kib64, &plain), WEIR_SUCCESS);
  const weir_be_granule theirs = b.granule(kib64, 1);
  assert_int_equal(map_of(b, 1, plain, theirs), invalid);
  assert_int_equal(unmap_of(b, 1, plain), invalid);
  assert_int_equal(b.t.plain_free(b.s, 1, plain, kib64), invalid);
}

void without_the_capability_ranges_are_their_devices_own(void **) {
  for (const char *options :
       {"devices=2;shared_range=0", "devices=2;peer=0", "devices=2;links=0-1:pcie:1G:1:0:staged"}) {
    const Backend b(options);
    assert_int_equal(b.describe(0).capabilities & WEIR_CAP_SHARED_RANGE, 0);
    const weir_be_granule theirs = b.granule(kib64, 1);
    const uint64_t range = b.range(kib64);
    assert_int_equal(map_of(b, 1, range, theirs), invalid);
    assert_int_equal(b.t.range_free(b.s, 0, range, kib64), WEIR_SUCCESS);
    assert_int_equal(b.t.granule_destroy(b.s, 1, theirs), WEIR_SUCCESS);
  }
}

/// Of three devices the third is reached by none: both the range's device and the granule's must share.
void both_devices_must_share(void **) {
  const Backend b("devices=3;links=0-2:pcie:1G:1:0:staged,1-2:pcie:1G:1:0:staged");
  assert_true((b.describe(0).capabilities & WEIR_CAP_SHARED_RANGE) != 0);
  assert_int_equal(b.describe(2).capabilities & WEIR_CAP_SHARED_RANGE, 0);
  const uint64_t shared = b.range(kib64), alone = b.range(kib64, kib64, 2);
  const weir_be_granule of_one = b.granule(kib64, 1), of_two = b.granule(kib64, 2);
  assert_int_equal(map_of(b, 2, shared, of_two), invalid);
  assert_int_equal(map_of(b, 1, alone, of_one), invalid);
  assert_int_equal(map_of(b, 2, alone, of_two), WEIR_SUCCESS);
  assert_int_equal(map_of(b, 1, shared, of_one), WEIR_SUCCESS);
}

/// A copy within one range is one between devices where the granules are of two.
void a_copy_takes_the_link_of_the_granules_devices(void **) {
  const Backend b("devices=2;peer_bandwidth=32M");
  const weir_be_granule mine = b.granule(), theirs = b.granule(kib64, 1);
  const uint64_t range = b.range(2 * kib64);
  assert_int_equal(map_of(b, 0, range, mine), WEIR_SUCCESS);
  assert_int_equal(map_of(b, 1, range + kib64, theirs), WEIR_SUCCESS);
  weir_be_stream stream = nullptr;
  assert_int_equal(b.t.stream_create(b.s, 0, 0, &stream), WEIR_SUCCESS);
  bytes_at(range)[kib64 - 1] = 77;
  const weir_be_copy copy{range + kib64, range, kib64};
  // 64 KiB at 32 MB/s are 2 ms; within a device they would be done in some microseconds.
  timespec before{}, after{};
  clock_gettime(CLOCK_MONOTONIC, &before);
  assert_int_equal(b.t.copy_async(b.s, stream, &copy), WEIR_SUCCESS);
  assert_int_equal(b.t.stream_synchronize(b.s, stream), WEIR_SUCCESS);
  clock_gettime(CLOCK_MONOTONIC, &after);
  const int64_t took =
      (after.tv_sec - before.tv_sec) * INT64_C(1000000000) + (after.tv_nsec - before.tv_nsec);
  assert_true(took > 1000000);
  assert_int_equal(bytes_at(range + 2 * kib64 - 1)[0], 77);
  assert_int_equal(b.t.stream_destroy(b.s, stream), WEIR_SUCCESS);
}

void two_devices_map_into_one_range_at_once(void **) {
  const Backend b("devices=2");
  constexpr uint64_t places = 16;
  const uint64_t range = b.range(2 * places * kib64);
  std::atomic<int> wrong{0};
  const auto work = [&](uint32_t device) {
    std::vector<weir_be_granule> granules(places);
    for (auto &granule : granules)
      if (b.t.granule_create(b.s, device, kib64, 0, &granule) != WEIR_SUCCESS) ++wrong;
    for (int round = 0; round < 50; ++round) {
      // Neighbours belong to the other device: 0, 1, 0, 1 ...
      const auto place = [&](uint64_t i) { return range + (2 * i + device) * kib64; };
      for (uint64_t i = 0; i < places; ++i) {
        if (map_of(b, device, place(i), granules[i]) != WEIR_SUCCESS) ++wrong;
        bytes_at(place(i))[5] = static_cast<unsigned char>(device * 100 + i);
      }
      for (uint64_t i = 0; i < places; ++i) {
        if (bytes_at(place(i))[5] != device * 100 + i) ++wrong;
        if (unmap_of(b, device, place(i)) != WEIR_SUCCESS) ++wrong;
      }
    }
    for (const auto granule : granules)
      if (b.t.granule_destroy(b.s, device, granule) != WEIR_SUCCESS) ++wrong;
  };
  std::thread other([&] { work(1); });
  work(0);
  other.join();
  assert_int_equal(wrong.load(), 0);
  assert_int_equal(b.t.range_free(b.s, 0, range, 2 * places * kib64), WEIR_SUCCESS);
}

/// Each device's runs begin where the other's end: what lies behind a run may go while the run is being unmapped.
void runs_side_by_side_go_at_once(void **) {
  const Backend b("devices=2");
  constexpr uint64_t length = 4, runs = 8, stride = 2 * length * kib64;
  const uint64_t range = b.range(runs * stride);
  std::atomic<int> wrong{0};
  const auto work = [&](uint32_t device) {
    std::vector<weir_be_piece> pieces(runs * length, weir_be_piece{0, 0, kib64});
    for (auto &piece : pieces)
      if (b.t.granule_create(b.s, device, kib64, 0, &piece.granule) != WEIR_SUCCESS) ++wrong;
    for (int round = 0; round < 200; ++round) {
      const auto place = [&](uint64_t run) { return range + run * stride + device * stride / 2; };
      for (uint64_t i = 0; i < runs; ++i)
        wrong += b.t.map_run(b.s, device, place(i), &pieces[i * length], length, nullptr, 0) !=
                 WEIR_SUCCESS;
      for (uint64_t i = 0; i < runs; ++i) {
        // One thread goes up and the other down.
        const uint64_t at = place(device == 0 ? i : runs - 1 - i);
        wrong += b.t.unmap_run(b.s, device, at, length * kib64) != WEIR_SUCCESS;
      }
    }
    for (const auto &piece : pieces)
      if (b.t.granule_destroy(b.s, device, piece.granule) != WEIR_SUCCESS) ++wrong;
  };
  std::thread other([&] { work(1); });
  work(0);
  other.join();
  assert_int_equal(wrong.load(), 0);
  assert_int_equal(b.t.range_free(b.s, 0, range, runs * stride), WEIR_SUCCESS);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(another_devices_granule_lies_in_the_range),
      cmocka_unit_test(plain_memory_is_never_shared),
      cmocka_unit_test(without_the_capability_ranges_are_their_devices_own),
      cmocka_unit_test(both_devices_must_share),
      cmocka_unit_test(a_copy_takes_the_link_of_the_granules_devices),
      cmocka_unit_test(two_devices_map_into_one_range_at_once),
      cmocka_unit_test(runs_side_by_side_go_at_once),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
