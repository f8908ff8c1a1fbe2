// SPDX-License-Identifier: Apache-2.0
//
// The CUDA backend's ranges in which several devices map: what shared_ranges.hpp asks, whose access a mapping has, and
// what happens where the driver does not unmap for a lost device.
#include "tests/backends/cuda_fixture.hpp"
#include "tests/backends/shared_ranges.hpp"

namespace weir::test {
namespace {

constexpr uint64_t granule_size = uint64_t{2} << 20U;
constexpr const char *machine = "devices=3;links=nvlink;memory=64M;mode=strict";

void devices_share_and_part(void **) {
  Cuda cuda(machine);
  SharedRanges(cuda.t, cuda.state, granule_size).share_and_part();
}

void what_is_left_crossed_is_ended(void **) {
  Cuda cuda(machine);
  SharedRanges(cuda.t, cuda.state, granule_size).leave_crossed();
}

void switched_off_ranges_are_apart(void **) {
  for (const char *options : {"shared_range=0", "peer=0"}) {
    Cuda cuda(machine, options);
    SharedRanges(cuda.t, cuda.state, granule_size).keep_apart();
  }
}

/// The range's own device is like any other: it has access where it is named.
void access_is_the_granules_devices_and_the_peers(void **) {
  Cuda cuda(machine);
  const SharedRanges scene(cuda.t, cuda.state, granule_size);
  const uint32_t third = 2;
  scene.ok(cuda.t.map(cuda.state, 1, scene.at(0), granule_size, scene.theirs, 0, &third, 1));
  assert_int_equal(access_of(0, scene.at(0)), abi::access_none);
  assert_int_equal(access_of(1, scene.at(0)), abi::access_read_write);
  assert_int_equal(access_of(2, scene.at(0)), abi::access_read_write);
  scene.ok(scene.unmap(1, 0));
  scene.ok(scene.map(1, 0));
  assert_int_equal(access_of(0, scene.at(0)), abi::access_read_write);
  assert_int_equal(access_of(2, scene.at(0)), abi::access_none);
}

void a_lost_device_holds_no_range(void **) {
  {
    Cuda cuda(machine);
    cuda.lost = true;
    SharedRanges(cuda.t, cuda.state, granule_size).lose_the_guest([] { sim().lose_device(1); });
  }
  Cuda cuda(machine);
  cuda.lost = true;
  SharedRanges(cuda.t, cuda.state, granule_size).lose_the_host([] { sim().lose_device(0); });
}

/// The driver keeps the mapping, and so the addresses; nobody gets them again.
void a_driver_that_does_not_unmap_keeps_the_addresses(void **) {
  Cuda cuda(machine);
  cuda.lost = true;
  const SharedRanges scene(cuda.t, cuda.state, granule_size);
  scene.ok(scene.map(1, 1));
  sim().fail("cuMemUnmap", 1, abi::result::launch_failed);
  assert_int_equal(scene.unmap(1, 1), WEIR_ERROR_DEVICE_LOST);
  scene.ok(scene.free_range(0));
  scene.refused(scene.free_range(0));
  uint64_t fresh = 0;
  scene.ok(cuda.t.range_reserve(cuda.state, 0, 3 * granule_size, granule_size, &fresh));
  assert_true(fresh >= scene.at(3) || fresh + 3 * granule_size <= scene.range);
}

/// Any other failure to unmap changes nothing.
void a_failed_unmap_keeps_the_mapping(void **) {
  Cuda cuda(machine);
  const SharedRanges scene(cuda.t, cuda.state, granule_size);
  scene.ok(scene.map(1, 1));
  sim().fail("cuMemUnmap", 1, abi::result::unknown);
  assert_int_equal(scene.unmap(1, 1), WEIR_ERROR_BACKEND);
  scene.refused(scene.free_range(0));
  scene.ok(scene.unmap(1, 1));
  scene.ok(scene.free_range(0));
}

}  // namespace
}  // namespace weir::test

int main() {
  using namespace weir::test;
  const CMUnitTest tests[] = {
      cmocka_unit_test(devices_share_and_part),
      cmocka_unit_test(what_is_left_crossed_is_ended),
      cmocka_unit_test(switched_off_ranges_are_apart),
      cmocka_unit_test(access_is_the_granules_devices_and_the_peers),
      cmocka_unit_test(a_lost_device_holds_no_range),
      cmocka_unit_test(a_driver_that_does_not_unmap_keeps_the_addresses),
      cmocka_unit_test(a_failed_unmap_keeps_the_mapping),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
