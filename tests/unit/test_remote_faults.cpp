// SPDX-License-Identifier: Apache-2.0
//
// The fault sweep of sets that are used on another device's memory in part: whichever backend call or allocation fails,
// the bytes are right, nothing stays leased, and what was used where it lies can leave.

#include "tests/unit/fault_sweep.hpp"

namespace {

using namespace weir::test;

constexpr uint32_t buffer_count = 4;
const uint64_t sizes[buffer_count] = {2 * page_bytes, 2 * page_bytes + 100, 600, 3 * page_bytes};
constexpr const char *near_devices =
    "host.memory=4M;host.granule=16K;host.granule_large=0;host.devices=2;"
    "host.links=0-1:nvlink:150G,h-0:pcie:16G,h-1:pcie:16G";

struct Scenario : Subject {
  weir_stream there = nullptr;

  void open(Balance *balance) {
    open_context(balance, near_devices);
    const weir_pool_device both[2] = {{0, 0, 5 * page_bytes, {0, 0}},
                                      {1, 0, 8 * page_bytes, {0, 0}}};
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = 2;
    desc.devices = both;
    desc.flags = WEIR_POOL_NO_BACKGROUND;
    desc.host_budget = 24 * page_bytes;
    desc.page_size = desc.large_page_size = page_bytes;
    open_pool(desc);
    twice("weir_stream_create", [&] { return weir_stream_create(context, 1, 0, &there); });
    for (uint32_t i = 0; i < buffer_count; ++i) add(sizes[i]);
  }

  /// All of them in one set; some lie on the other device.
  bool use_all(uint32_t mode, uint32_t seed, weir_stream on) {
    weir_use uses[buffer_count];
    Kernel kernels[buffer_count];
    const uint64_t fits = on == stream ? 2 : buffer_count;
    for (uint32_t i = 0; i < fits; ++i) {
      uses[i] = WEIR_USE(contents[i].buffer, mode);
      uses[i].flags = WEIR_USE_ALLOW_REMOTE;
    }
    weir_lease lease = nullptr;
    if (!twice("weir_acquire", [&] { return weir_acquire(pool, on, uses, fits, nullptr, &lease); }))
      return false;
    for (uint32_t i = 0; i < fits; ++i) {
      kernels[i] =
          Kernel{uses[i].address, sizes[i], mode == WEIR_READ ? contents[i].seed : seed, 0};
      ok(kernels[i].launch(on, mode == WEIR_READ ? Kernel::compare : Kernel::write));
    }
    sensible(weir_release(lease, on), "weir_release");
    looking = true;
    ok(weir_stream_synchronize(on));
    looking = false;
    for (uint32_t i = 0; i < fits; ++i) {
      if (mode != WEIR_READ) contents[i].seed = seed;
      if (kernels[i].wrong != 0) lost(i, "used where it lies", kernels[i].wrong);
    }
    return true;
  }

  void work() {
    for (uint32_t i = 0; i < buffer_count; ++i) fill(i, i + 1);
    (void)use_all(WEIR_READ_WRITE, 5, there);  // brings some of them there
    (void)use_all(WEIR_READ, 0, stream);
    (void)use_all(WEIR_READ_WRITE, 6, stream);
    uint64_t freed = 0;
    twice("weir_pool_trim",
          [&] { return weir_pool_trim(pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, &freed); });
    (void)use_all(WEIR_READ, 0, there);
    for (uint32_t i = 0; i < buffer_count; ++i) check(i, "last look");
    for (uint32_t i = 0; i < buffer_count; ++i) check_read(i);
  }

  void end() {
    destroy_buffers();
    const bool used = faults.struck() || remote_uses() >= 4;
    faults.armed.store(false);
    assert_true(used);
    for (uint32_t i = 0; i < 2; ++i)
      ok(weir_pool_trim(pool, i, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    assert_int_equal(reinterpret_cast<weir::pool::Pool *>(pool)->engine().validate().size(), 0);
    ok(weir_stream_close(there));
    close();
  }

  uint64_t remote_uses() const {
    weir_pool_stats stats{};
    stats.struct_size = sizeof stats;
    ok(weir_pool_stats_get(pool, &stats));
    return stats.remote_uses;
  }
};

void sweep_of(Kind kind, int64_t least) {
  sweep(kind, 0, least, [](Balance *balance) {
    Scenario scenario;
    scenario.open(balance);
    scenario.work();
    scenario.end();
  });
}

void each_backend_call(void **) { sweep_of(Kind::backend, 100); }
void each_refusal_of_memory(void **) { sweep_of(Kind::device_oom, 5); }
void each_allocation(void **) { sweep_of(Kind::allocator, 100); }

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(each_backend_call),
      cmocka_unit_test(each_refusal_of_memory),
      cmocka_unit_test(each_allocation),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
