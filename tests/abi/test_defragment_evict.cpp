// SPDX-License-Identifier: Apache-2.0
//
// Compaction that evicts: its bounds are those of the whole call, and what can't leave stays.

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

/// Of several devices the moves add up, evictions too: no bound is one of each device.
void evictions_of_all_devices_count_together(void **) {
  for (const uint64_t most : {uint64_t{1}, uint64_t{0}}) {
    World world({.options = std::string(small_host) + ";host.vmm=0;host.devices=2",
                 .device_pages = 8,
                 .devices = 2});
    weir_buffer stay[2][2];
    for (uint32_t device = 0; device < 2; ++device) {
      weir_buffer gone[2];
      for (uint32_t i = 0; i < 2; ++i) {
        stay[device][i] = world.buffer(3 * page_bytes, device);
        gone[i] = world.buffer(page_bytes, device);
        world.fill(stay[device][i], 3 * page_bytes, 2 * device + i, device);
        world.fill(gone[i], page_bytes, 9, device);
      }
      for (const weir_buffer each : gone) ok(weir_buffer_destroy(world.pool, each));
    }
    weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
    desc.flags = WEIR_DEFRAGMENT_WAIT | WEIR_DEFRAGMENT_EVICT;
    desc.max_cost_permille = 4000;
    desc.max_moves = most;
    weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
    ok(weir_pool_defragment(world.pool, &desc, &report));
    assert_int_equal(report.evict_moves + report.copy_moves, most == 1 ? 1 : 2);
    assert_int_equal(report.finished, most == 1 ? 0 : 1);
    for (uint32_t device = 0; device < 2; ++device)
      for (uint32_t i = 0; i < 2; ++i)
        world.check(stay[device][i], 3 * page_bytes, 2 * device + i, device);
    world.close();
  }
}

/// What has nowhere to go to stays, and that is no failure of the call.
void what_finds_no_room_below_stays(void **) {
  World world(
      {.options = std::string(small_host) + ";host.vmm=0", .device_pages = 8, .host_pages = 0});
  weir_buffer stay[2], gone[2];
  for (uint32_t i = 0; i < 2; ++i) {
    stay[i] = world.buffer(3 * page_bytes);
    gone[i] = world.buffer(page_bytes);
    world.fill(stay[i], 3 * page_bytes, i);
    world.fill(gone[i], page_bytes, 9);
  }
  for (const weir_buffer each : gone) ok(weir_buffer_destroy(world.pool, each));
  weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
  desc.flags = WEIR_DEFRAGMENT_WAIT | WEIR_DEFRAGMENT_EVICT;
  desc.max_cost_permille = 4000;
  weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
  ok(weir_pool_defragment(world.pool, &desc, &report));
  assert_int_equal(report.evict_moves, 0);
  assert_int_equal(report.evicted_bytes, 0);
  assert_true(report.no_room_bytes >= 3 * page_bytes);
  for (uint32_t i = 0; i < 2; ++i) world.check(stay[i], 3 * page_bytes, i);
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(evictions_of_all_devices_count_together),
      cmocka_unit_test(what_finds_no_room_below_stays),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
