// SPDX-License-Identifier: Apache-2.0
//
// What is told of plans: that one was made, that it ended and why, that what is foreseen is trusted or is not, each with the numbers that
// decided. And that a plan ends at once when it is not trusted any more. The pool is driven by hand.

#include "tests/unit/event_ring.hpp"
#include "tests/unit/hand_driven.hpp"

#include "core/base/events.hpp"

#include <random>

namespace {

using namespace weir::test;
using weir::Event;
using weir::PlanEnd;
using weir::What;
using weir::test::EventRing;

/// A pool with a listener, from the start to the end.
struct Told {
  EventRing ring{EventRing::bit_of(What::plan_made) | EventRing::bit_of(What::plan_ended) |
                     EventRing::bit_of(What::trust),
                 1024, std::pmr::get_default_resource()};
  World &world;
  uint64_t made = 0, ended = 0;

  explicit Told(World &world_) : world(world_) { ok(engine_of(world).listen(&ring).code()); }
  std::vector<Event> take() {
    std::vector<Event> events;
    for (Event event; ring.take(&event);) {
      made += event.what == What::plan_made ? 1 : 0;
      ended += event.what == What::plan_ended ? 1 : 0;
      events.push_back(event);
    }
    assert_int_equal(ring.lost(), 0);
    return events;
  }
  /// Steps with a look after each until a plan ends; nullopt: none does.
  template <class Step>
  std::optional<Event> until_end(uint32_t most, Step &&step) {
    for (uint32_t i = 0; i < most; ++i) {
      step();
      learn_all(world);
      test_clock.now += ms;
      for (const Event &event : take())
        if (event.what == What::plan_ended) return event;
    }
    return std::nullopt;
  }
  /// As many have been made as have ended and are followed, and the counters know it.
  void check(uint64_t followed) {
    (void)take();
    assert_int_equal(made, ended + followed);
    const weir_pool_stats stats = world.stats();
    assert_int_equal(stats.plans_made, made);
    assert_int_equal(
        stats.plans_ended_untrusted + stats.plans_ended_moved + stats.plans_ended_missed +
            stats.plans_ended_old + stats.plans_ended_budget + stats.plans_ended_device +
            stats.plans_ended_share + stats.plans_ended_announced + stats.plans_ended_memory,
        ended);
  }
};

World world_of(uint32_t devices = 1) {
  Setup setup{.device_pages = loop_pages, .host_pages = 512, .devices = devices};
  if (devices == 2) setup.options = std::string(small_host) + ";host.devices=2";
  return learning(setup);
}

void expect_end(const std::optional<Event> &event, PlanEnd why) {
  assert_true(event.has_value());
  assert_int_equal(event->how, static_cast<uint8_t>(why));
}

void trust_and_the_first_plan_are_told(void **) {
  World world = world_of();
  Told told(world);
  Loop loop(world);
  std::vector<Event> events;
  while (events.empty()) {
    loop.steps(1);
    events = told.take();
  }
  assert_int_equal(events.size(), 2);
  assert_int_equal(events[0].what, What::trust);
  assert_int_equal(events[0].how, 1);
  assert_int_equal(events[0].place, 0);
  assert_in_range(events[0].amount, 0, 1'000'000 / 16);  // one in 16 is the most
  assert_in_range(events[0].more, 1, 200'000);
  assert_int_equal(events[1].what, What::plan_made);
  assert_int_equal(events[1].amount, loop.done);
  assert_int_equal(events[1].more, loop_pages * page_bytes);
  told.check(1);
  assert_int_equal(world.stats().plans_made, 1);
  engine_of(world).ignore(&told.ring);
  loop.end();
}

/// The names come in their order, so nothing else would end the plan for long.
void a_plan_ends_at_once_when_it_is_not_trusted_any_more(void **) {
  World world = world_of();
  Told told(world);
  Loop loop(world);
  assert_true(loop.begin());
  told.check(1);
  std::mt19937 random(5);
  std::vector<Event> events;
  while (events.empty() && loop.done < 40 * looped) {
    loop.step(random() % 8);
    learn_all(world);
    events = told.take();
  }
  assert_int_equal(events.size(), 2);
  assert_int_equal(events[0].what, What::trust);
  assert_int_equal(events[0].how, 0);
  assert_in_range(events[0].more, 200'000, 210'000);
  expect_end(events[1], PlanEnd::untrusted);
  assert_int_equal(events[1].more & UINT32_MAX, events[0].more);
  assert_int_equal(events[1].more >> 32U, events[0].amount);
  assert_in_range(events[1].amount, 100, 4000);
  assert_false(planned(world));
  told.check(0);
  assert_int_equal(world.stats().plans_ended_untrusted, 1);
  engine_of(world).ignore(&told.ring);
  loop.end();
}

void a_plan_of_another_place_ends(void **) {
  World world = world_of();
  Told told(world);
  Loop loop(world);
  assert_true(loop.begin());
  told.check(1);
  loop.done += looped / 2;
  const std::optional<Event> event = told.until_end(2 * looped, [&] { loop.step(); });
  expect_end(event, PlanEnd::moved);
  assert_in_range(event->more, 50, 8192);  // planned that did not come
  told.check(1);
  engine_of(world).ignore(&told.ring);
  loop.end();
}

void a_plan_that_misses_much_ends(void **) {
  World world = world_of();
  Told told(world);
  Loop loop(world);
  assert_true(loop.begin());
  told.check(1);
  const std::optional<Event> event = told.until_end(4 * looped, [&] {
    ok(trim_all(world));
    loop.step();
  });
  expect_end(event, PlanEnd::missed);
  assert_in_range(event->more, 64, 66);
  told.check(1);
  engine_of(world).ignore(&told.ring);
  loop.end();
}

void a_plan_ends_of_old_age(void **) {
  World world = world_of();
  Told told(world);
  Loop loop(world);
  assert_true(loop.begin());
  told.check(1);
  const std::optional<Event> event = told.until_end(5000, [&] { loop.step(); });
  expect_end(event, PlanEnd::old);
  assert_in_range(event->amount, 4096, 4100);
  told.check(1);
  engine_of(world).ignore(&told.ring);
  loop.end();
}

void a_plan_for_another_budget_ends(void **) {
  World world = learning({.options = "host.memory=1280K;host.granule=16K;host.granule_large=0",
                          .device_pages = loop_pages,
                          .host_pages = 512});
  weir_pool_device device = {0, 0, 40 * page_bytes, {0, 0}};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = 1;
  desc.devices = &device;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = 64 * page_bytes;
  desc.page_size = desc.large_page_size = page_bytes;
  World other(world.context, nullptr);
  ok(weir_pool_create(world.context, &desc, &other.pool));
  ok(weir_stream_create(world.context, 0, 0, &other.streams[0]));
  Told told(world);
  Loop loop(world);
  assert_true(loop.begin());
  told.check(1);
  ok(trim_all(world));
  weir_buffer taken = other.buffer(36 * page_bytes);
  other.fill(taken, 36 * page_bytes, 5);
  uint32_t late = 0;  // operations with a plan for the old budget
  const std::optional<Event> event = told.until_end(2 * looped, [&] {
    late += world.stats().device_budget != loop_pages * page_bytes ? 1 : 0;
    loop.step();
  });
  expect_end(event, PlanEnd::budget);
  assert_in_range(late, 0, 1);
  assert_int_equal(event->more, world.stats().device_budget);
  assert_true(event->more < loop_pages * page_bytes);
  told.check(1);
  engine_of(world).ignore(&told.ring);
  ok(weir_buffer_destroy(other.pool, taken));
  ok(weir_pool_destroy(other.pool));
  ok(weir_stream_close(other.streams[0]));
  loop.end();
}

void a_plan_ends_with_its_device(void **) {
  World world = world_of(2);
  Told told(world);
  Loop loop(world, 1);
  assert_true(loop.begin());
  told.check(1);
  ok(weir_pool_remove_device(world.pool, 1, WEIR_INFINITE));
  learn_all(world);
  const std::vector<Event> events = told.take();
  assert_int_equal(events.size(), 1);
  expect_end(events[0], PlanEnd::device);
  assert_int_equal(events[0].place, 1);
  told.check(0);
  assert_int_equal(world.stats().plans_ended_device, 1);
  engine_of(world).ignore(&told.ring);
  loop.end();
}

void a_plan_ends_with_the_share(void **) {
  World world = world_of();
  Told told(world);
  Loop loop(world);
  assert_true(loop.begin());
  told.check(1);
  test_clock.step = 1'000 * ms;
  expect_end(told.until_end(3, [&] { loop.step(); }), PlanEnd::share);
  told.check(0);
  engine_of(world).ignore(&told.ring);
  loop.end();
}

/// What is announced takes the place of what was learned, and gives it back.
void a_plan_gives_way_to_what_is_announced(void **) {
  World world = world_of();
  Told told(world);
  Loop loop(world);
  assert_true(loop.begin());
  told.check(1);
  std::vector<weir_use> uses;
  for (uint32_t i = 0; i < 2 * looped; ++i)
    uses.push_back(WEIR_USE(loop.buffers[(loop.next() + i) % looped], WEIR_READ_WRITE));
  std::vector<weir_operation> operations(uses.size(), weir_operation WEIR_OPERATION_INIT);
  for (size_t i = 0; i < uses.size(); ++i) {
    operations[i].uses = &uses[i];
    operations[i].use_count = 1;
  }
  ok(weir_announce(world.pool, world.streams[0], operations.data(), operations.size(), 0));
  learn_all(world);
  const std::vector<Event> events = told.take();
  assert_int_equal(events.size(), 2);
  assert_int_equal(events[0].what, What::plan_made);
  expect_end(events[1], PlanEnd::announced);
  told.check(1);
  ok(weir_announce(world.pool, world.streams[0], nullptr, 0, WEIR_ANNOUNCE_REPLACE));
  const std::vector<Event> later = told.take();
  assert_int_equal(later.size(), 1);
  expect_end(later[0], PlanEnd::announced);
  loop.steps(looped);
  told.check(1);
  engine_of(world).ignore(&told.ring);
  loop.end();
}

void a_plan_ends_with_the_pool(void **) {
  World world = world_of();
  Told told(world);
  Loop loop(world);
  assert_true(loop.begin());
  told.check(1);
  loop.end();
  const std::vector<Event> events = told.take();
  assert_int_equal(events.size(), 1);
  expect_end(events[0], PlanEnd::closes);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(trust_and_the_first_plan_are_told),
      cmocka_unit_test(a_plan_ends_at_once_when_it_is_not_trusted_any_more),
      cmocka_unit_test(a_plan_of_another_place_ends),
      cmocka_unit_test(a_plan_that_misses_much_ends),
      cmocka_unit_test(a_plan_ends_of_old_age),
      cmocka_unit_test(a_plan_for_another_budget_ends),
      cmocka_unit_test(a_plan_ends_with_its_device),
      cmocka_unit_test(a_plan_ends_with_the_share),
      cmocka_unit_test(a_plan_gives_way_to_what_is_announced),
      cmocka_unit_test(a_plan_ends_with_the_pool),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
