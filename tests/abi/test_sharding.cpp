// SPDX-License-Identifier: Apache-2.0
//
// Buffers sharded over two devices, through the C ABI and on every backend that can have them: one address, bytes that
// both devices write and read, more of them than one device has, spilled and brought back. Where a device lacks
// WEIR_CAP_SHARED_RANGE, that is said.

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

constexpr const char *two_devices =
    "host.memory=16M;host.granule=16K;host.granule_large=0;host.devices=2";
constexpr weir_device both[2] = {0, 1};

Setup two(uint64_t device_pages) {
  Setup setup;
  setup.options = two_devices;
  setup.devices = 2;
  setup.device_pages = device_pages;
  return setup;
}

weir_result try_sharded(World &world, uint64_t size, uint32_t policy, weir_buffer *made) {
  weir_shard_desc shards = WEIR_SHARD_DESC_INIT;
  shards.policy = policy;
  shards.devices = both;
  shards.device_count = 2;
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = size;
  desc.shards = &shards;
  return weir_buffer_create(world.pool, &desc, made);
}

/// Skips the test where there are no such buffers, when it has seen that this is what is answered.
weir_buffer sharded(World &world, uint64_t size, uint32_t policy = WEIR_SHARD_STRIPED) {
  bool can = true;
  for (const weir_device device : both) {
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    ok(weir_device_info_get(world.context, device, &info));
    can = can && (info.capabilities & WEIR_CAP_SHARED_RANGE) != 0;
  }
  weir_buffer made = nullptr;
  const weir_result result = try_sharded(world, size, policy, &made);
  if (can) {
    ok(result);
    return made;
  }
  assert_int_equal(result, WEIR_ERROR_NOT_SUPPORTED);
  world.close();
  skip();
  return nullptr;
}

uint64_t pages_on(World &world, uint32_t device) {
  weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
  ok(weir_pool_device_stats_get(world.pool, device, &stats));
  return (stats.bytes - stats.free_bytes) / page_bytes;
}

uint64_t address_on(World &world, weir_buffer buffer, uint32_t device) {
  weir_lease lease = nullptr;
  uint64_t address = 0;
  ok(world.acquire(buffer, WEIR_READ, &lease, &address, device));
  ok(weir_release(lease, world.streams[device]));
  return address;
}

void both_use_one_memory(void **) {
  World world(two(8));
  const uint64_t size = 6 * page_bytes + 100;
  weir_buffer buffer = sharded(world, size);
  for (uint32_t device = 0; device < 2; ++device) {
    world.fill(buffer, size, device + 1, device);
    world.check(buffer, size, device + 1, 1 - device);
    world.check_read(buffer, size, device + 1);
  }
  assert_int_equal(address_on(world, buffer, 0), address_on(world, buffer, 1));
  assert_int_equal(pages_on(world, 0), 4);
  assert_int_equal(pages_on(world, 1), 3);
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.peer_bytes + stats.promoted_bytes, 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

void more_than_a_device_has(void **) {
  World world(two(4));
  const uint64_t size = 8 * page_bytes;
  weir_buffer stripes = sharded(world, size);
  weir_buffer blocks = sharded(world, size, WEIR_SHARD_BLOCKED);
  const uint64_t at = address_on(world, stripes, 0);
  world.fill(stripes, size, 1, 0);
  world.fill(blocks, size, 2, 1);
  for (uint32_t turn = 0; turn < 4; ++turn) {
    world.check(turn % 2 == 0 ? stripes : blocks, size, turn % 2 + 1, turn / 2);
    assert_int_equal(pages_on(world, 0) + pages_on(world, 1), 8);
  }
  assert_int_equal(address_on(world, stripes, 1), at);
  weir_buffer larger = sharded(world, 9 * page_bytes);
  weir_lease none = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(larger, WEIR_READ, &none));
  for (weir_buffer buffer : {stripes, blocks, larger}) ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// The layout is told, and each part can be used on its own device.
void each_computes_on_its_own(void **) {
  World world(two(8));
  const uint64_t size = 7 * page_bytes;
  weir_buffer buffer = sharded(world, size, WEIR_SHARD_BLOCKED);
  weir_shard runs[3] = {};
  size_t count = 0;
  ok(weir_buffer_shards(world.pool, buffer, 0, nullptr, 0, &count));
  assert_int_equal(count, 2);
  expect_result(WEIR_INCOMPLETE, weir_buffer_shards(world.pool, buffer, 0, runs, 1, &count));
  assert_int_equal(count, 2);
  assert_int_equal(runs[1].length, 0);
  ok(weir_buffer_shards(world.pool, buffer, 0, runs, 3, &count));
  assert_int_equal(count, 2);
  assert_int_equal(runs[0].length + runs[1].length, size);
  weir_lease leases[2] = {};
  Kernel kernels[2];
  for (uint32_t i = 0; i < 2; ++i) {
    assert_int_equal(runs[i].device, i);
    weir_use use = WEIR_USE(buffer, WEIR_DISCARD_WRITE);
    use.offset = runs[i].offset;
    use.length = runs[i].length;
    ok(weir_acquire(world.pool, world.streams[i], &use, 1, nullptr, &leases[i]));
    kernels[i] = Kernel{use.address, use.length, 5 + i, 0};
    ok(kernels[i].launch(world.streams[i], Kernel::write));
  }
  for (uint32_t i = 0; i < 2; ++i) ok(weir_release(leases[i], world.streams[i]));
  std::vector<uint8_t> bytes(size);
  ok(weir_buffer_read(world.pool, buffer, 0, size, bytes.data()));
  for (uint32_t i = 0; i < 2; ++i)
    assert_int_equal(wrong_bytes(bytes.data() + runs[i].offset, runs[i].length, PatternOf{5 + i}),
                     0);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// One device leaves: the other has all of it then, at the same address.
void one_leaves(void **) {
  for (weir_device leaves = 0; leaves < 2; ++leaves) {
    World world(two(8));
    const uint64_t size = 7 * page_bytes;
    weir_buffer buffer = sharded(world, size);
    const uint32_t stays = 1 - leaves;
    const uint64_t at = address_on(world, buffer, stays);
    world.fill(buffer, size, 1, leaves);
    ok(weir_pool_remove_device(world.pool, leaves, WEIR_INFINITE));
    world.check(buffer, size, 1, stays);
    assert_int_equal(address_on(world, buffer, stays), at);
    assert_int_equal(pages_on(world, stays), 7);
    weir_shard run{};
    size_t count = 0;
    ok(weir_buffer_shards(world.pool, buffer, 0, &run, 1, &count));
    assert_int_equal(run.device, stays);
    assert_int_equal(run.length, size);
    ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
}

}  // namespace

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_use_one_memory),
      cmocka_unit_test(more_than_a_device_has),
      cmocka_unit_test(each_computes_on_its_own),
      cmocka_unit_test(one_leaves),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
