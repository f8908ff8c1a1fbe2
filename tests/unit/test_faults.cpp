// SPDX-License-Identifier: Apache-2.0
//
// The fault sweep: one scenario (create, fill, evict by pressure, refill, verify, destroy) is run once for
// every n, and the n-th fallible backend call, or the n-th allocation, fails. It ends with the run in which
// nothing was left to fail. Whatever failed: no crash, an error the headers know, every byte that a lease
// or write was granted for is right afterwards, counters and budgets end at 0, and so does the allocator's
// balance. test_faults_below.cpp is the same for the tiers below HOST.

#include "tests/unit/fault_sweep.hpp"

namespace {

using namespace weir::test;

constexpr uint32_t buffer_count = 4;
constexpr uint32_t scrubbed = 3;  ///< zeroed on the device whenever it leaves it
const uint64_t sizes[buffer_count] = {3 * page_bytes, 2 * page_bytes + 100, 600, 3 * page_bytes};

struct Scenario : Subject {
  uint32_t devices = 1;  ///< the second lends its memory to the first

  void open(Balance *balance, const char *options) {
    open_context(balance, options);
    const weir_pool_device both[2] = {{0, 0, 6 * page_bytes, {0, 0}},
                                      {1, 0, 6 * page_bytes, {0, 0}}};
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = devices;
    desc.devices = both;
    desc.flags = WEIR_POOL_NO_BACKGROUND | WEIR_POOL_CHECKSUM_HOST;
    desc.host_budget = 24 * page_bytes;
    desc.page_size = desc.large_page_size = page_bytes;
    open_pool(desc);
    for (uint32_t i = 0; i < buffer_count; ++i)
      add(sizes[i], i == scrubbed ? WEIR_BUFFER_SCRUB : 0);
  }

  void work() {
    for (uint32_t i = 0; i < buffer_count; ++i) fill(i, i + 1);
    for (uint32_t i = 0; i < buffer_count; ++i) check(i, "first look");
    fill(1, 9);
    std::vector<uint8_t> bytes_of_2(sizes[2]);
    for (uint64_t i = 0; i < sizes[2]; ++i) bytes_of_2[i] = pattern(8, i);
    twice("weir_buffer_write", [&] {
      return weir_buffer_write(pool, contents[2].buffer, 0, sizes[2], bytes_of_2.data());
    });
    contents[2].seed = 8;
    uint64_t address = 0;
    if (twice("weir_hold", [&] { return weir_hold(pool, contents[0].buffer, 0, &address); }))
      ok(weir_unhold(pool, contents[0].buffer));
    uint64_t freed = 0;
    twice("weir_pool_trim",
          [&] { return weir_pool_trim(pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, &freed); });
    for (uint32_t i = 0; i < buffer_count; ++i) check(i, "second look");
    for (uint32_t i = 0; i < buffer_count; ++i) check_read(i);
  }

  void end(bool vmm) {
    destroy_buffers();
    faults.armed.store(false);
    for (uint32_t i = 0; i < devices; ++i)
      ok(weir_pool_trim(pool, i, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    assert_int_equal(reinterpret_cast<weir::pool::Pool *>(pool)->engine().validate().size(), 0);
    ok(weir_pool_trim(pool, WEIR_DEVICE_HOST, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    weir_pool_stats stats{};
    stats.struct_size = sizeof(stats);
    ok(weir_pool_stats_get(pool, &stats));
    assert_int_equal(stats.buffers, 0);
    assert_int_equal(stats.slabs, 0);
    assert_int_equal(stats.device_held_bytes, 0);
    if (vmm) {  // without it, memory of dead buffers is kept for later ones until the pool's end
      assert_int_equal(stats.pages, 0);
      assert_int_equal(stats.device_bytes, 0);
    }
    assert_int_equal(stats.host_used_bytes, 0);
    close();
  }
};

constexpr const char *with_vmm = "host.memory=4M;host.granule=16K;host.granule_large=0";
constexpr const char *without_vmm =
    "host.memory=4M;host.granule=16K;host.granule_large=0;host.vmm=0;host.batch_copy=0";

constexpr const char *neighbours =
    "host.memory=4M;host.granule=16K;host.granule_large=0;host.devices=2;"
    "host.links=0-1:nvlink:150G,h-0:pcie:16G,h-1:pcie:16G";

void sweep_with(Kind kind, const char *options) {
  uint64_t lent = 0;
  sweep(kind, 0, 2, [options, &lent](Balance *balance) {
    Scenario scenario;
    scenario.devices = options == neighbours ? 2 : 1;
    scenario.open(balance, options);
    scenario.work();
    weir_pool_stats stats{};
    stats.struct_size = sizeof(stats);
    ok(weir_pool_stats_get(scenario.pool, &stats));
    lent = std::max(lent, stats.lent_bytes);
    scenario.end(options != without_vmm);
  });
  assert_int_equal(lent != 0, options == neighbours);
}

void every_backend_call_fails_once(void **) { sweep_with(Kind::backend, with_vmm); }
void every_backend_call_fails_once_without_vmm(void **) { sweep_with(Kind::backend, without_vmm); }
void device_memory_is_refused_once(void **) { sweep_with(Kind::device_oom, with_vmm); }
void every_allocation_fails_once(void **) { sweep_with(Kind::allocator, with_vmm); }
void every_allocation_fails_once_without_vmm(void **) { sweep_with(Kind::allocator, without_vmm); }
/// Only the host backend is told what its links are like.
void sweep_beside_a_neighbour(Kind kind) {
  if (!Target::get().host()) skip();
  sweep_with(kind, neighbours);
}
void every_backend_call_fails_once_beside_a_neighbour(void **) {
  sweep_beside_a_neighbour(Kind::backend);
}
void device_memory_is_refused_once_beside_a_neighbour(void **) {
  sweep_beside_a_neighbour(Kind::device_oom);
}
void every_allocation_fails_once_beside_a_neighbour(void **) {
  sweep_beside_a_neighbour(Kind::allocator);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_backend_call_fails_once),
      cmocka_unit_test(every_backend_call_fails_once_without_vmm),
      cmocka_unit_test(device_memory_is_refused_once),
      cmocka_unit_test(every_allocation_fails_once),
      cmocka_unit_test(every_allocation_fails_once_without_vmm),
      cmocka_unit_test(every_backend_call_fails_once_beside_a_neighbour),
      cmocka_unit_test(device_memory_is_refused_once_beside_a_neighbour),
      cmocka_unit_test(every_allocation_fails_once_beside_a_neighbour),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
