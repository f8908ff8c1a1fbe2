// SPDX-License-Identifier: Apache-2.0
//
// A fault sweep over backend calls and allocations, with virtual memory and without, whose scenario leaves its pool empty in the end.
#pragma once

#include "tests/unit/fault_sweep.hpp"

namespace weir::test {

/// The base of a scenario. `open(balance, options)`, `work()` and `end()` are the scenario's own.
struct Emptied : Subject {
  /// A pool of so many pages without background threads. What is made before it has sweeps of its own.
  void open_pages(Balance *balance, const char *options, uint64_t pages, uint64_t host_pages = 32) {
    faults.armed.store(false);
    open_context(balance, options);
    const weir_pool_device device{0, 0, pages * page_bytes, {0, 0}};
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = 1;
    desc.devices = &device;
    desc.flags = WEIR_POOL_NO_BACKGROUND;
    desc.host_budget = host_pages * page_bytes;
    desc.page_size = desc.large_page_size = page_bytes;
    open_pool(desc);
  }
  void validate() {
    const bool armed = faults.armed.exchange(false);
    const std::string wrong = reinterpret_cast<weir::pool::Pool *>(pool)->engine().validate();
    assert_string_equal(wrong.c_str(), "");
    faults.armed.store(armed);
  }
  /// All that was made is destroyed, and no longer failed: nothing of it is anywhere.
  void trim_to_nothing() {
    faults.armed.store(false);
    ok(weir_pool_trim(pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    ok(weir_pool_trim(pool, WEIR_DEVICE_HOST, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    validate();
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    ok(weir_pool_stats_get(pool, &stats));
    assert_int_equal(stats.buffers, 0);
    assert_int_equal(stats.slabs, 0);
    assert_int_equal(stats.pages, 0);
    assert_int_equal(stats.device_held_bytes, 0);
    assert_int_equal(stats.device_bytes, stats.device_free_bytes);
    assert_int_equal(stats.host_used_bytes, 0);
  }
};

inline constexpr const char *with_vmm = "host.memory=4M;host.granule=16K;host.granule_large=0";
inline constexpr const char *without_vmm =
    "host.memory=4M;host.granule=16K;host.granule_large=0;host.vmm=0;host.batch_copy=0";

template <class Scenario>
void sweep_with(Kind kind, const char *options) {
  sweep(kind, 0, 2, [options](Balance *balance) {
    Scenario scenario;
    scenario.open(balance, options);
    scenario.work();
    scenario.end();
  });
}

template <class Scenario>
struct Sweeps {
  static void every_backend_call_fails_once(void **) {
    sweep_with<Scenario>(Kind::backend, with_vmm);
  }
  static void every_backend_call_fails_once_without_vmm(void **) {
    sweep_with<Scenario>(Kind::backend, without_vmm);
  }
  static void every_allocation_fails_once(void **) {
    sweep_with<Scenario>(Kind::allocator, with_vmm);
  }
  static void every_allocation_fails_once_without_vmm(void **) {
    sweep_with<Scenario>(Kind::allocator, without_vmm);
  }
  static int run() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(every_backend_call_fails_once),
        cmocka_unit_test(every_backend_call_fails_once_without_vmm),
        cmocka_unit_test(every_allocation_fails_once),
        cmocka_unit_test(every_allocation_fails_once_without_vmm),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
  }
};

}  // namespace weir::test
