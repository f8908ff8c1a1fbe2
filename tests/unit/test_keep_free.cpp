// SPDX-License-Identifier: Apache-2.0
//
// The background's room ahead of demand, step by step: it begins below the low watermark and no sooner, goes on to the high one
// however many steps that takes, and leaves the devices alone on which a set makes room itself.

#include "tests/unit/interleaving.hpp"

namespace {

using namespace weir::test;

bool step(World &world) { return engine_of(world).upkeep().look_at_room(); }

uint64_t room_pages(World &world, uint32_t device = 0) {
  weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
  ok(weir_pool_device_stats_get(world.pool, device, &stats));
  return (stats.budget - stats.bytes + stats.free_bytes) / page_bytes;
}

/// Twenty pages, of which two are the low watermark and six the high one.
World between_watermarks() {
  weir_context context = make_context(small_host);
  weir_pool_device device{};
  device.budget = 20 * page_bytes;
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = 1;
  desc.devices = &device;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = 64 * page_bytes;
  desc.page_size = desc.large_page_size = page_bytes;
  desc.watermark_low_permille = 100;
  desc.watermark_high_permille = 300;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  World world(context, pool);
  ok(weir_stream_create(context, 0, 0, &world.streams[0]));
  return world;
}

struct Pages {
  World &world;
  std::vector<weir_buffer> all;

  void fill_until(uint64_t room) {
    while (room_pages(world) > room) {
      all.push_back(world.buffer(page_bytes));
      world.fill(all.back(), page_bytes, static_cast<uint32_t>(all.size()));
    }
  }
  void end() {
    for (uint32_t i = 0; i < all.size(); ++i) {
      world.check(all[i], page_bytes, i + 1);
      ok(weir_buffer_destroy(world.pool, all[i]));
    }
    close_clean(world);
  }
};

/// Some of a step's victims stay because they are wanted meanwhile. It is not done then, although there is more than the low
/// watermark by now.
void a_round_ends_at_the_high_watermark(void **) {
  World world = between_watermarks();
  Pages pages{world, {}};
  pages.fill_until(2);
  assert_false(step(world));
  pages.fill_until(1);
  {
    Gate gate(world.pool, "evict.claimed");
    Task round([&] { return weir_result{step(world) ? WEIR_SUCCESS : WEIR_ERROR_BUSY}; });
    gate.await();
    for (uint32_t i = 0; i < 2; ++i) want(world, pages.all[i]);
    gate.open();
    ok(round.join());
  }
  assert_int_equal(room_pages(world), 4);
  validate(world);
  assert_true(step(world));
  assert_int_equal(room_pages(world), 6);
  assert_false(step(world));
  assert_int_equal(room_pages(world), 6);
  // The next one begins below the low watermark again.
  for (const uint64_t room : {5U, 4U, 2U}) {
    pages.fill_until(room);
    assert_false(step(world));
    assert_int_equal(room_pages(world), room);
  }
  pages.fill_until(1);
  assert_true(step(world));
  assert_int_equal(room_pages(world), 6);
  assert_false(step(world));
  pages.end();
}

/// A round that could evict nothing has ended: it does not go on between the watermarks.
void a_round_that_finds_nothing_has_ended(void **) {
  World world = between_watermarks();
  Pages pages{world, {}};
  pages.fill_until(1);
  std::vector<weir_lease> leases(pages.all.size());
  for (size_t i = 0; i < leases.size(); ++i) ok(world.acquire(pages.all[i], WEIR_READ, &leases[i]));
  assert_false(step(world));
  for (weir_lease lease : leases) ok(weir_release(lease, world.streams[0]));
  ok(weir_stream_synchronize(world.streams[0]));
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_SELECTIVE, 2 * page_bytes, nullptr));
  assert_int_equal(room_pages(world), 3);
  assert_false(step(world));
  assert_int_equal(room_pages(world), 3);
  pages.end();
}

/// Both devices are full, and a set makes room on one: the background does so on the other alone.
void only_the_device_without_a_set_is_drained(void **) {
  for (const uint32_t busy : {0U, 1U}) {
    void *options = const_cast<char *>(vmm);
    World world = world_for(&options, 2);
    weir_buffer full[2], fresh = world.buffer(page_bytes, busy);
    for (uint32_t d = 0; d < 2; ++d) {
      full[d] = world.buffer(4 * page_bytes, d);
      world.fill(full[d], 4 * page_bytes, 1 + d, d);
      assert_int_equal(room_pages(world, d), 0);
    }
    const uint32_t other = 1 - busy;
    {
      Gate gate(world.pool, "evict.claimed");
      Kernel kernel{0, page_bytes, 3, 0};
      Task user([&] { return run(world, fresh, WEIR_DISCARD_WRITE, &kernel, busy); });
      gate.await();
      assert_true(step(world));
      assert_int_equal(room_pages(world, busy), 0);
      assert_int_equal(room_pages(world, other), 1);
      assert_int_equal(world.stats().background_demoted_bytes, page_bytes);
      assert_false(step(world));
      validate(world);
      gate.open();
      ok(user.join());
    }
    assert_int_equal(room_pages(world, busy), 0);
    assert_int_equal(world.stats().background_demoted_bytes, page_bytes);
    // The set has ended: the turn is this one's.
    assert_true(step(world));
    assert_int_equal(room_pages(world, busy), 1);
    assert_int_equal(room_pages(world, other), 1);
    assert_false(step(world));
    for (uint32_t d = 0; d < 2; ++d) {
      world.check_read(full[d], 4 * page_bytes, 1 + d);
      ok(weir_buffer_destroy(world.pool, full[d]));
    }
    world.check_read(fresh, page_bytes, 3);
    ok(weir_buffer_destroy(world.pool, fresh));
    ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    close_clean(world);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_round_ends_at_the_high_watermark),
      cmocka_unit_test(a_round_that_finds_nothing_has_ended),
      cmocka_unit_test(only_the_device_without_a_set_is_drained),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
