// SPDX-License-Identifier: Apache-2.0
//
// Events: what each adds to which counter, rings that listen, and that a pool's counters are its events and nothing else: a listener that
// listened from the start and counts again gets the same sums.

#include "tests/unit/event_ring.hpp"
#include "tests/unit/neighbours.hpp"

#include "core/base/events.hpp"

namespace {

using namespace weir;
using namespace weir::test;

uint64_t after(const Event &event, Counter counter) {
  Counters counters;
  count(event, &counters);
  return counters[counter];
}

Event filled(uint8_t how) { return Event{What::filled, how, 0, 1, 2, 100, 0}; }

// ---- the table ----

void an_event_counts_by_what_it_is(void **) {
  assert_int_equal(after({What::hit}, Counter::hits), 1);
  assert_int_equal(after({What::hit}, Counter::misses), 0);
  assert_int_equal(after({What::remote_use, 0, 0, 1, 2, 3, 0}, Counter::remote_uses), 3);
  assert_int_equal(after({What::recoded, 0, 0, 1, 2, 100, 40}, Counter::recompressed_bytes), 100);
  assert_int_equal(after({What::recoded, 0, 0, 1, 2, 100, 40}, Counter::recompressed_won_bytes),
                   40);
  assert_int_equal(after({What::moved, 0, 0, 1, 2, 100, 0}, Counter::defragment_moves), 1);
  assert_int_equal(after({What::moved, 0, 0, 1, 2, 100, 0}, Counter::defragment_moved_bytes), 100);
}

void a_fill_counts_by_where_it_came_from(void **) {
  assert_int_equal(after(filled(Event::from_device), Counter::peer_bytes), 100);
  assert_int_equal(after(filled(Event::from_device), Counter::promoted_bytes), 0);
  assert_int_equal(after(filled(Event::from_host), Counter::promoted_bytes), 100);
  assert_int_equal(after(filled(Event::from_host), Counter::lifted_bytes), 0);
  const Event from_below = filled(Event::from_host | Event::from_below | Event::ahead);
  assert_int_equal(after(from_below, Counter::lifted_bytes), 100);
  assert_int_equal(after(from_below, Counter::prefetched_bytes), 100);
  assert_int_equal(after(from_below, Counter::refaulted_bytes), 0);
  assert_int_equal(after(filled(0), Counter::promoted_bytes), 0);
}

void a_copy_down_counts_once(void **) {
  const Event cached{What::demoted, Event::cached | Event::ahead, 0, 1, 2, 100, 0};
  assert_int_equal(after(cached, Counter::cached_bytes), 100);
  assert_int_equal(after(cached, Counter::demoted_bytes), 0);
  assert_int_equal(after(cached, Counter::background_demoted_bytes), 0);
  const Event ahead{What::demoted, Event::ahead, 0, 1, 2, 100, 0};
  assert_int_equal(after(ahead, Counter::demoted_bytes), 100);
  assert_int_equal(after(ahead, Counter::background_demoted_bytes), 100);
}

// ---- rings ----

void a_ring_gets_what_it_asked_for_in_order(void **) {
  EventRing ring(EventRing::bit_of(What::hit) | EventRing::bit_of(What::sunk), 4,
                 std::pmr::get_default_resource());
  Log log;
  PoolLock lock(log);
  const Locked held(lock);
  Events events;
  assert_true(events.listen(&ring));
  events.tell(What::hit);
  events.tell(What::miss);
  events.tell(What::sunk, 7);
  Event event;
  assert_true(ring.take(&event));
  assert_int_equal(event.what, What::hit);
  assert_true(ring.take(&event));
  assert_int_equal(event.what, What::sunk);
  assert_int_equal(event.amount, 7);
  assert_false(ring.take(&event));
  events.ignore(&ring);
  events.tell(What::hit);
  assert_false(ring.take(&event));
  assert_int_equal(events.counters()[Counter::hits], 2);
}

void a_full_ring_loses_the_new_and_says_so(void **) {
  EventRing ring(EventRing::all, 4, std::pmr::get_default_resource());
  for (uint64_t round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < 6; ++i) ring.put({What::sunk, 0, 0, 0, 0, i, 0});
    assert_int_equal(ring.lost(), 2 * (round + 1));
    Event event;
    for (uint64_t i = 0; i < 4; ++i) {
      assert_true(ring.take(&event));
      assert_int_equal(event.amount, i);
    }
    assert_false(ring.take(&event));
  }
}

void as_many_rings_listen_as_can(void **) {
  Log log;
  PoolLock lock(log);
  const Locked held(lock);
  Events events;
  std::deque<EventRing> rings;
  for (uint32_t i = 0; i < 5; ++i)
    rings.emplace_back(EventRing::all, 2, std::pmr::get_default_resource());
  for (uint32_t i = 0; i < 4; ++i) assert_true(events.listen(&rings[i]));
  assert_false(events.listen(&rings[4]));
  events.ignore(&rings[1]);
  assert_true(events.listen(&rings[4]));
  events.tell(What::hit);
  Event event;
  assert_false(rings[1].take(&event));
  assert_true(rings[4].take(&event));
}

// ---- a pool ----

/// Six buffers for the memory of four, written, read in turns, discarded and trimmed.
void use_up(World &world, uint64_t size, uint32_t devices) {
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 6; ++i) {
    buffers.push_back(world.buffer(size, i % devices));
    world.fill(buffers[i], size, 1 + i, i % devices);
  }
  for (uint32_t round = 0; round < 2; ++round)
    for (uint32_t i = 0; i < 6; ++i) world.check(buffers[i], size, 1 + i, i % devices);
  for (uint32_t i = 0; i < 6; ++i) world.check(buffers[i], size, 1 + i, (i + 1) % devices);
  want(world, buffers[0]);
  engine_of(world).wait_idle();
  ok(weir_discard(world.pool, buffers[5], 0, WEIR_WHOLE));
  ok(trim_all(world));
  for (uint32_t i = 0; i < 5; ++i) world.check_read(buffers[i], size, 1 + i);
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
}

uint64_t counter_of(const weir_pool_stats &stats, Counter counter) {
  uint64_t value = 0;
#define WEIR_READ_COUNTER(name, meaning) \
  if (counter == Counter::name) value = stats.name;
  WEIR_POOL_STATS_FIELDS(WEIR_READ_COUNTER)
#undef WEIR_READ_COUNTER
  return value;
}

/// All counters that events make, but for the hits, of which the hit path has its own.
void the_sums_are_the_pools(const Setup &setup, uint64_t size,
                            std::initializer_list<Counter> seen) {
  World world(setup);
  EventRing ring(EventRing::all, 1U << 12U, std::pmr::get_default_resource());
  ok(engine_of(world).listen(&ring).code());
  use_up(world, size, setup.devices);
  const weir_pool_stats stats = world.stats();
  engine_of(world).ignore(&ring);
  assert_int_equal(ring.lost(), 0);
  Counters counters;
  for (Event event; ring.take(&event);) count(event, &counters);
  for (const Effect &effect : effects) {
    if (effect.counter != Counter::hits)
      assert_int_equal(counters[effect.counter], counter_of(stats, effect.counter));
  }
  for (const Counter counter : seen) assert_true(counters[counter] > 0);
  for (uint32_t device = 1; device < setup.devices; ++device)
    ok(weir_pool_trim(world.pool, device, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

void a_pool_counts_its_events(void **) {
  the_sums_are_the_pools({.device_pages = 8, .host_pages = 64}, 2 * page_bytes,
                         {Counter::misses, Counter::promoted_bytes, Counter::demoted_bytes,
                          Counter::evictions, Counter::refaulted_bytes});
}

void a_pool_with_all_tiers_counts_its_events(void **) {
  the_sums_are_the_pools(
      {.device_pages = 8, .host_pages = 4, .compressed_pages = 6, .storage_pages = 64},
      2 * page_bytes, {Counter::sunk_bytes, Counter::lifted_bytes, Counter::demoted_bytes});
}

void neighbours_count_their_events(void **) {
  the_sums_are_the_pools(neighbours(8), 3 * page_bytes,
                         {Counter::peer_bytes, Counter::evictions, Counter::zero_filled_bytes});
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(an_event_counts_by_what_it_is),
      cmocka_unit_test(a_fill_counts_by_where_it_came_from),
      cmocka_unit_test(a_copy_down_counts_once),
      cmocka_unit_test(a_ring_gets_what_it_asked_for_in_order),
      cmocka_unit_test(a_full_ring_loses_the_new_and_says_so),
      cmocka_unit_test(as_many_rings_listen_as_can),
      cmocka_unit_test(a_pool_counts_its_events),
      cmocka_unit_test(a_pool_with_all_tiers_counts_its_events),
      cmocka_unit_test(neighbours_count_their_events),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
