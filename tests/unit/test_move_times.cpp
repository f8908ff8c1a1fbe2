// SPDX-License-Identifier: Apache-2.0
//
// How long moves take: which tiers a bit's place is in, and that every direction whose end the host sees is counted, a page at a time.

#include "tests/unit/neighbours.hpp"

#include "core/base/move_times.hpp"

namespace {

using namespace weir;
using namespace weir::test;

enum : size_t { device, host, compressed, storage };

uint64_t counted(World &world, size_t from, size_t to) {
  const Durations &times = engine_of(world).tap.moves().of(from, to);
  uint64_t all = 0;
  for (size_t i = 0; i < Durations::buckets; ++i) all += times.count(i);
  assert_true((all == 0) == (times.sum_ns() == 0));
  return all;
}

uint64_t counted(World &world) {
  uint64_t all = 0;
  for (size_t from = 0; from < MoveTimes::tiers; ++from)
    for (size_t to = 0; to < MoveTimes::tiers; ++to) all += counted(world, from, to);
  return all;
}

void places_have_their_tiers(void **) {
  assert_int_equal(MoveTimes::tier_of(Place(uint8_t{0}).bit()), device);
  assert_int_equal(MoveTimes::tier_of(Place(uint8_t{27}).bit()), device);
  assert_int_equal(MoveTimes::tier_of(Place::host.bit()), host);
  assert_int_equal(MoveTimes::tier_of(Place::compressed.bit()), compressed);
  assert_int_equal(MoveTimes::tier_of(Place::storage.bit()), storage);
}

void every_eviction_is_timed_and_nothing_else(void **) {
  World world({.device_pages = 4, .host_pages = 64});
  const weir_buffer a = world.buffer(4 * page_bytes), b = world.buffer(4 * page_bytes);
  world.fill(a, 4 * page_bytes, 1);
  assert_int_equal(counted(world), 0);
  world.fill(b, 4 * page_bytes, 2);
  assert_int_equal(counted(world, device, host), 4);
  world.check(a, 4 * page_bytes, 1);
  assert_int_equal(counted(world, device, host), world.stats().demoted_bytes / page_bytes);
  assert_int_equal(counted(world), counted(world, device, host) + counted(world, host, device));
  ok(weir_buffer_destroy(world.pool, a));
  ok(weir_buffer_destroy(world.pool, b));
  close_clean(world);
}

void cold_tiers_are_timed_on_the_way_down_and_up(void **) {
  World world({.device_pages = 8, .host_pages = 4, .compressed_pages = 6, .storage_pages = 64});
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 8; ++i) {
    buffers.push_back(world.buffer(2 * page_bytes));
    world.fill(buffers[i], 2 * page_bytes, 1 + i);
  }
  for (uint32_t i = 0; i < 8; ++i) world.check(buffers[i], 2 * page_bytes, 1 + i);
  uint64_t sunk = 0;
  for (const size_t from : {device, host})
    for (const size_t to : {compressed, storage}) sunk += counted(world, from, to);
  sunk += counted(world, compressed, storage);
  assert_true(sunk > 0);
  assert_int_equal(sunk, world.stats().sunk_bytes / page_bytes);
  const uint64_t lifted = counted(world, compressed, device) + counted(world, storage, device);
  assert_true(lifted > 0);
  assert_int_equal(lifted, world.stats().lifted_bytes / page_bytes);
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// The clock is the test's own.
void what_is_seen_late_is_not_counted(void **) {
  PoolLock lock{Log{}};
  const Locked held(lock);
  using End = CopySamples::End;
  CopySamples copies;
  const auto answers = [](End end) { return [end](uint64_t) { return end; }; };
  uint64_t took = 0;
  assert_false(copies.watches());
  assert_true(copies.due(5));
  assert_true(copies.rest_ns(5) == UINT64_MAX);
  assert_false(copies.look(5, answers(End::passed), &took));
  // One that is looked at often enough.
  copies.watch(1'000'000, 7, 1'100'000);
  assert_true(copies.watches());
  assert_false(copies.due(UINT64_MAX));  // one at a time
  assert_int_equal(copies.rest_ns(1'100'000), CopySamples::first_look_ns);
  assert_int_equal(copies.rest_ns(9'000'000), 2'000'000);
  assert_false(copies.look(6'000'000, answers(End::not_yet), &took));
  assert_true(copies.look(
      8'000'000, [](uint64_t stamp) { return stamp == 7 ? End::passed : End::not_yet; }, &took));
  assert_int_equal(took, 7'000'000);
  assert_false(copies.watches());
  assert_false(copies.due(8'000'000 + CopySamples::pause_ns - 1));
  assert_true(copies.due(8'000'000 + CopySamples::pause_ns));
  // One that was not looked at for longer than half of what it seems to have taken.
  copies.watch(0, 8, 100);
  assert_false(copies.look(40'000'000, answers(End::passed), &took));
  assert_int_equal(copies.missed(), 1);
  assert_false(copies.watches());
  // One whose device was lost.
  copies.watch(0, 9, 100);
  assert_false(copies.look(200, answers(End::lost), &took));
  assert_int_equal(copies.missed(), 1);
}

/// Copies from HOST are watched one by one, by any thread that comes by, until some are counted.
void copies_from_host_are_sampled(void **) {
  for (const uint64_t flags : {uint64_t{0}, uint64_t{WEIR_POOL_NO_BACKGROUND}}) {
    World world({.device_pages = 4, .host_pages = 64, .flags = flags});
    const weir_buffer a = world.buffer(4 * page_bytes), b = world.buffer(4 * page_bytes);
    world.fill(a, 4 * page_bytes, 1);
    world.fill(b, 4 * page_bytes, 2);
    for (int i = 0; counted(world, host, device) < 2; ++i) {
      world.check(i % 2 == 0 ? a : b, 4 * page_bytes, i % 2 == 0 ? 1 : 2);
      size_t needed = 0;
      ok(weir_metrics_text(world.context, nullptr, 0, &needed));
    }
    assert_int_equal(counted(world), counted(world, device, host) + counted(world, host, device));
    ok(weir_buffer_destroy(world.pool, a));
    ok(weir_buffer_destroy(world.pool, b));
    close_clean(world);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(places_have_their_tiers),
      cmocka_unit_test(every_eviction_is_timed_and_nothing_else),
      cmocka_unit_test(cold_tiers_are_timed_on_the_way_down_and_up),
      cmocka_unit_test(what_is_seen_late_is_not_counted),
      cmocka_unit_test(copies_from_host_are_sampled),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
