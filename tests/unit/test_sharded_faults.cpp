// SPDX-License-Identifier: Apache-2.0
//
// The fault sweep of sharded buffers: whichever backend call or allocation fails while three devices are given their parts
// of a set, the bytes are right, nothing stays leased or claimed on any device, and the next try succeeds.

#include "tests/unit/fault_sweep.hpp"

namespace {

using namespace weir::test;

constexpr uint32_t buffer_count = 4;
const uint64_t sizes[buffer_count] = {7 * page_bytes + 100, 6 * page_bytes, 2 * page_bytes, 600};
constexpr const char *three_near =
    "host.memory=4M;host.granule=16K;host.granule_large=0;host.devices=3;"
    "host.links=0-1:nvlink:150G,0-2:nvlink:150G,1-2:nvlink:150G,h-0:pcie:16G,h-1:pcie:16G,"
    "h-2:pcie:16G";

struct Scenario : Subject {
  weir_stream streams[3] = {nullptr, nullptr, nullptr};

  void open(Balance *balance) {
    open_context(balance, three_near);
    weir_pool_device devices[3] = {};
    for (uint32_t i = 0; i < 3; ++i) devices[i] = {i, 0, 5 * page_bytes, {0, 0}};
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = 3;
    desc.devices = devices;
    desc.flags = WEIR_POOL_NO_BACKGROUND;
    desc.host_budget = 32 * page_bytes;
    desc.page_size = desc.large_page_size = page_bytes;
    open_pool(desc);
    streams[0] = stream;
    for (uint32_t i = 1; i < 3; ++i)
      twice("weir_stream_create", [&] { return weir_stream_create(context, i, 0, &streams[i]); });
    add_sharded(sizes[0], WEIR_SHARD_STRIPED);
    add_sharded(sizes[1], WEIR_SHARD_BLOCKED);
    add(sizes[2]);
    add(sizes[3]);
  }

  void add_sharded(uint64_t size, uint32_t policy) {
    const weir_device devices[3] = {1, 0, 2};
    weir_shard_desc shards = WEIR_SHARD_DESC_INIT;
    shards.policy = policy;
    shards.devices = devices;
    shards.device_count = 3;
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = size;
    desc.shards = &shards;
    Content content{nullptr, size, 0};
    twice("weir_buffer_create", [&] { return weir_buffer_create(pool, &desc, &content.buffer); });
    contents.push_back(content);
  }

  /// A sharded and an ordinary buffer in one set.
  void use_both(uint32_t sharded, uint32_t ordinary, uint32_t mode, uint32_t seed, uint32_t on) {
    const uint32_t used[2] = {sharded, ordinary};
    weir_use uses[2];
    Kernel kernels[2];
    for (uint32_t i = 0; i < 2; ++i) uses[i] = WEIR_USE(contents[used[i]].buffer, mode);
    weir_lease lease = nullptr;
    if (!twice("weir_acquire",
               [&] { return weir_acquire(pool, streams[on], uses, 2, nullptr, &lease); }))
      return;
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t had = contents[used[i]].seed;
      kernels[i] = Kernel{uses[i].address, sizes[used[i]], mode == WEIR_READ ? had : seed, 0};
      auto *look = had != 0 ? Kernel::compare : compare_zero;
      ok(kernels[i].launch(streams[on], mode == WEIR_READ ? look : Kernel::write));
    }
    sensible(weir_release(lease, streams[on]), "weir_release");
    looking = true;
    ok(weir_stream_synchronize(streams[on]));
    looking = false;
    for (uint32_t i = 0; i < 2; ++i) {
      if (mode != WEIR_READ) contents[used[i]].seed = seed;
      if (kernels[i].wrong != 0) lost(used[i], "used on several devices", kernels[i].wrong);
    }
  }

  void work() {
    use_both(0, 2, WEIR_READ, 0, 1);  // zeroes
    use_both(0, 3, WEIR_READ_WRITE, 1, 2);
    use_both(1, 2, WEIR_DISCARD_WRITE, 2, 0);  // sends the first one out
    use_both(0, 2, WEIR_READ, 0, 1);           // and this the other
    weir_use use = WEIR_USE(contents[1].buffer, WEIR_READ);
    twice("weir_prefetch", [&] { return weir_prefetch(pool, streams[2], &use, 1); });
    uint64_t address = 0;
    if (twice("weir_hold", [&] { return weir_hold(pool, contents[1].buffer, 2, &address); }))
      ok(weir_unhold(pool, contents[1].buffer));
    const auto remove = [&] { return weir_pool_remove_device(pool, 1, WEIR_INFINITE); };
    const bool gone = twice("weir_pool_remove_device", remove);
    use_both(0, 3, WEIR_READ, 0, 2);
    const weir_pool_device back = {1, 0, 5 * page_bytes, {0, 0}};
    if (gone) twice("weir_pool_add_device", [&] { return weir_pool_add_device(pool, &back); });
    use_both(1, 3, WEIR_READ_WRITE, 3, 0);
    for (uint32_t i = 0; i < buffer_count; ++i) check_read(i);
  }

  void end() {
    destroy_buffers();
    faults.armed.store(false);
    for (uint32_t i = 0; i < 3; ++i)
      (void)weir_pool_trim(pool, i, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr);
    const std::string wrong = reinterpret_cast<weir::pool::Pool *>(pool)->engine().validate();
    assert_string_equal(wrong.c_str(), "");
    weir_pool_stats stats{};
    stats.struct_size = sizeof stats;
    ok(weir_pool_stats_get(pool, &stats));
    assert_int_equal(stats.pages, 0);
    assert_int_equal(stats.device_bytes, stats.device_free_bytes);
    for (uint32_t i = 1; i < 3; ++i) ok(weir_stream_close(streams[i]));
    close();
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

void each_backend_call(void **) { sweep_of(Kind::backend, 150); }
void each_refusal_of_memory(void **) { sweep_of(Kind::device_oom, 5); }
void each_allocation(void **) { sweep_of(Kind::allocator, 150); }

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(each_backend_call),
      cmocka_unit_test(each_refusal_of_memory),
      cmocka_unit_test(each_allocation),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
