// SPDX-License-Identifier: Apache-2.0
//
// The Level Zero backend's ranges in which several devices map: what shared_ranges.hpp asks, and a driver that does not
// unmap for a lost device.
#include "tests/backends/level_zero_fixture.hpp"
#include "tests/backends/shared_ranges.hpp"

using namespace level_zero_test;
using weir::test::SharedRanges;

namespace {

constexpr const char *pair = "devices=2;memory=64M;links=nvlink;mode=strict";

uint64_t capabilities(const Backend &backend) {
  weir_be_device found{};
  found.struct_size = sizeof found;
  assert_ok(backend, backend->device_describe(backend.state, 0, &found));
  return found.capabilities;
}

void devices_share_and_part(void **) {
  machine(pair, "tiles=2");
  {
    const Backend backend;
    assert_int_not_equal(capabilities(backend) & WEIR_CAP_SHARED_RANGE, 0);
    SharedRanges(table(), backend.state, 2 * MiB).share_and_part();
  }
  assert_clean();
}

void what_is_left_crossed_is_ended(void **) {
  machine(pair, "tiles=2");
  {
    const Backend backend;
    SharedRanges(table(), backend.state, 2 * MiB).leave_crossed();
  }
  assert_clean();
}

/// A driver keeps what another card imported by its address, so two cards do not meet in mapped memory unless they are
/// told to. Tiles of one card do.
void two_cards_are_apart(void **) {
  machine(pair);
  {
    const Backend backend;
    assert_int_equal(capabilities(backend) & (WEIR_CAP_PEER | WEIR_CAP_SHARED_RANGE), 0);
    assert_int_not_equal(capabilities(backend) & WEIR_CAP_VMM, 0);
    weir_be_link link{};
    link.struct_size = sizeof link;
    assert_ok(backend, backend->link_describe(backend.state, 0, 1, &link));
    assert_int_equal(link.direct, 0);
    SharedRanges(table(), backend.state, 2 * MiB).keep_apart();
  }
  assert_clean();
  // Without virtual memory nothing is mapped that could be stale; and who has tested his cards may say so.
  for (const char *options : {"vmm=0", "peer_cards=1"}) {
    machine(pair);
    const Backend backend(options);
    assert_int_not_equal(capabilities(backend) & WEIR_CAP_PEER, 0);
  }
  assert_clean();
}

void switched_off_ranges_are_apart(void **) {
  for (const char *options : {"shared_range=0", "peer=0"}) {
    machine(pair, "tiles=2");
    {
      const Backend backend(options);
      assert_int_equal(capabilities(backend) & WEIR_CAP_SHARED_RANGE, 0);
      SharedRanges(table(), backend.state, 2 * MiB).keep_apart();
    }
    assert_clean();
  }
}

void a_lost_device_holds_no_range(void **) {
  machine(pair, "tiles=2");
  {
    const Backend backend;
    SharedRanges(table(), backend.state, 2 * MiB).lose_the_guest([] { sim().lose(1); });
  }
  machine(pair, "tiles=2");
  const Backend backend;
  SharedRanges(table(), backend.state, 2 * MiB).lose_the_host([] { sim().lose(0); });
}

/// The driver may answer with the loss, to unmapping and then to freeing.
void a_driver_that_does_not_unmap_keeps_the_addresses(void **) {
  machine(pair, "tiles=2");
  const Backend backend;
  const SharedRanges scene(table(), backend.state, 2 * MiB);
  scene.ok(scene.map(1, 1));
  sim().fail("zeVirtualMemUnmap", 1, abi::error_device_lost);
  assert_int_equal(scene.unmap(1, 1), WEIR_ERROR_DEVICE_LOST);
  sim().fail("zeVirtualMemFree", 1, abi::error_device_lost);
  scene.ok(scene.free_range(0));
  scene.refused(scene.free_range(0));
}

}  // namespace

int main() {
  if (!prepare("test_level_zero_shared")) return skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(devices_share_and_part),
      cmocka_unit_test(what_is_left_crossed_is_ended),
      cmocka_unit_test(two_cards_are_apart),
      cmocka_unit_test(switched_off_ranges_are_apart),
      cmocka_unit_test(a_lost_device_holds_no_range),
      cmocka_unit_test(a_driver_that_does_not_unmap_keeps_the_addresses),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
