// SPDX-License-Identifier: Apache-2.0
//
// Which threads a pool's calls wake: each by what there is for it to do, and none by operations that find everything there. The
// pool's own threads are stopped; in their places are tasks that count how often they are woken.
//
// A rest may end for no reason, and two wakes may be taken for one: that a task is woken is waited for (the test hangs
// where it is not), and that none is means once in ten operations at most.

#include "tests/unit/hand_driven.hpp"

#include <thread>

namespace {

using namespace weir::test;

constexpr uint32_t held = 64;  // pages of the device

class Sleeper final : public weir::Task {
 public:
  bool step(weir::Releasable &) override {
    ++steps;
    return false;
  }
  uint64_t rest_ns() noexcept override { return UINT64_MAX; }
  const char *name() const noexcept override { return "a sleeper's thread"; }
  std::atomic<uint64_t> steps{0};
};

/// In the places of the pool's threads, until the pool ends with them.
struct Sleepers {
  explicit Sleepers(World &world_) : world(world_), engine(engine_of(world_)) {
    weir::Wakes &wakes = engine.sync().wakes;
    put(evictor, wakes.evictor);
    put(prefetcher, wakes.prefetcher);
    put(planner, wakes.planner);
    put(cleaner, wakes.cleaner);
    put(host_room, wakes.host_room);
  }
  ~Sleepers() {
    engine.background().stop();
    world.close();
  }
  void put(Sleeper &sleeper, weir::PoolSignal &wake) {
    ok(engine.background().start(sleeper, weir::numa::unknown, &wake).code());
    await_rest(sleeper, wake);
  }
  /// What it was woken for before is over.
  void await_rest(Sleeper &sleeper, const weir::PoolSignal &wake) {
    while (!rests(wake)) std::this_thread::yield();
    sleeper.steps = 0;
  }
  bool rests(const weir::PoolSignal &signal) {
    const weir::Locked lock(engine.sync().lock);
    return signal.awaited();
  }
  static void await(const Sleeper &sleeper) {
    while (sleeper.steps == 0) std::this_thread::yield();
  }

  World &world;
  weir::pool::Engine &engine;
  Sleeper evictor, prefetcher, planner, cleaner, host_room;
};

World pool_of(const char *policy) {
  return learning({.device_pages = held, .host_pages = 4 * held, .policy = policy});
}

void announce(World &world, weir_buffer buffer) {
  const weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
  const weir_operation operation = {nullptr, &use, 1, 0, {0, 0}};
  ok(weir_announce(world.pool, world.streams[0], &operation, 1, 0));
}

void who_finds_all_there_wakes_nobody(void **) {
  for (const char *policy : {"lru-window", "auto"}) {
    World world = pool_of(policy);
    std::vector<weir_buffer> buffers;
    for (uint32_t i = 0; i < 8; ++i) {
      buffers.push_back(world.buffer(page_bytes));
      world.fill(buffers[i], page_bytes, i);
    }
    constexpr uint32_t operations = 1000, ahead = 16;
    for (uint32_t i = 0; i < ahead; ++i) announce(world, buffers[i % 8]);
    Sleepers sleepers(world);
    for (uint32_t i = 0; i < operations; ++i) {
      announce(world, buffers[(i + ahead) % 8]);
      use(world, buffers[i % 8]);
    }
    // A planner that would not rest by its own wish hears of what comes the slow way, as announced operations do.
    for (const Sleeper *each :
         {&sleepers.evictor, &sleepers.prefetcher, &sleepers.cleaner, &sleepers.host_room})
      assert_in_range(each->steps, 0, operations / 10);
  }
}

void what_is_announced_and_not_there_wakes_the_prefetcher(void **) {
  World world = pool_of("lru-window");
  const weir_buffer buffer = world.buffer(page_bytes);
  world.fill(buffer, page_bytes, 1);
  ok(trim_all(world));
  Sleepers sleepers(world);
  announce(world, buffer);
  Sleepers::await(sleepers.prefetcher);
}

/// No other thread has looked at the plan since.
void who_gives_up_what_is_dirty_wakes_the_cleaner(void **) {
  World world = learning({.device_pages = loop_pages, .host_pages = 512});
  Loop loop(world);
  assert_true(loop.begin());
  Sleepers sleepers(world);
  for (uint32_t i = 0; i < looped; ++i) loop.step();
  Sleepers::await(sleepers.cleaner);
  assert_true(planned(world));
}

void who_leaves_little_room_wakes_the_evictor(void **) {
  World world = pool_of("lru-window");
  Sleepers sleepers(world);
  for (uint32_t i = 0; i < held; ++i) world.fill(world.buffer(page_bytes), page_bytes, i);
  Sleepers::await(sleepers.evictor);
}

/// Fills the device.
std::vector<weir_buffer> filled(World &world) {
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < held; ++i) {
    buffers.push_back(world.buffer(page_bytes));
    world.fill(buffers[i], page_bytes, i);
  }
  return buffers;
}

/// An announced use waits for the pages that are evicted; each acquire may be what makes one of them wait no longer.
void an_announced_acquire_in_a_full_device_wakes_the_evictor(void **) {
  World world = pool_of("lru-window");
  const std::vector<weir_buffer> buffers = filled(world);
  Sleepers sleepers(world);
  announce(world, buffers[held - 1]);
  use(world, buffers[held - 1]);
  Sleepers::await(sleepers.evictor);
}

/// So may announcements that are taken back.
void announcements_taken_back_wake_the_evictor(void **) {
  World world = pool_of("lru-window");
  const std::vector<weir_buffer> buffers = filled(world);
  announce(world, buffers[held - 1]);
  Sleepers sleepers(world);
  ok(weir_announce(world.pool, world.streams[0], nullptr, 0, WEIR_ANNOUNCE_REPLACE));
  Sleepers::await(sleepers.evictor);
}

/// What one stream has announced finds no room. An operation of another may be what it waits for.
void a_refused_use_is_tried_again_when_another_stream_acquires(void **) {
  World world = pool_of("lru-window");
  const weir_buffer out = world.buffer(page_bytes);
  world.fill(out, page_bytes, 1);
  ok(trim_all(world));
  const std::vector<weir_buffer> buffers = filled(world);
  weir_stream other = nullptr;
  ok(weir_stream_create(world.context, 0, 0, &other));
  std::vector<weir_lease> leases(held);
  weir_use use = WEIR_USE(nullptr, WEIR_READ);
  for (uint32_t i = 0; i < held; ++i) {
    use.buffer = buffers[i];
    ok(weir_acquire(world.pool, other, &use, 1, nullptr, &leases[i]));
  }
  announce(world, out);
  weir::move::Prefetcher &prefetcher = engine_of(world).prefetcher();
  {
    weir::Locked lock(engine_of(world).sync().lock);
    while (prefetcher.lanes()[0].step(lock)) continue;
  }
  Sleepers sleepers(world);
  const weir_operation operation = {nullptr, &use, 1, 0, {0, 0}};
  weir_lease again = nullptr;
  ok(weir_announce(world.pool, other, &operation, 1, 0));
  ok(weir_acquire(world.pool, other, &use, 1, nullptr, &again));
  Sleepers::await(sleepers.prefetcher);
  ok(weir_release(again, other));
  for (const weir_lease lease : leases) ok(weir_release(lease, other));
  ok(weir_stream_close(other));
}

void the_end_of_a_plan_wakes_who_acts_without_one(void **) {
  World world = pool_of("auto");
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < held + held / 2; ++i) buffers.push_back(world.buffer(page_bytes));
  loop_until_planned(world, buffers, 0);
  Sleepers sleepers(world);
  {
    const weir::Locked lock(engine_of(world).sync().lock);
    plans_of(world).close();
  }
  Sleepers::await(sleepers.evictor);
  Sleepers::await(sleepers.prefetcher);
}

void a_plan_wakes_who_carries_it_out(void **) {
  World world = pool_of("auto");
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < held + held / 2; ++i) buffers.push_back(world.buffer(page_bytes));
  Sleepers sleepers(world);
  loop_until_planned(world, buffers, 0);
  Sleepers::await(sleepers.cleaner);
  Sleepers::await(sleepers.prefetcher);
  Sleepers::await(sleepers.evictor);
}

void an_acquire_wakes_a_planner_that_looks_rarely(void **) {
  World world = pool_of("auto");
  const weir_buffer buffer = world.buffer(page_bytes);
  use(world, buffer);
  for (int looks = 0; looks < 8; ++looks)
    learn_all(world);  // nothing comes, and it doubles its rests
  Sleepers sleepers(world);
  use(world, world.buffer(page_bytes));
  Sleepers::await(sleepers.planner);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(who_finds_all_there_wakes_nobody),
      cmocka_unit_test(what_is_announced_and_not_there_wakes_the_prefetcher),
      cmocka_unit_test(who_gives_up_what_is_dirty_wakes_the_cleaner),
      cmocka_unit_test(who_leaves_little_room_wakes_the_evictor),
      cmocka_unit_test(an_announced_acquire_in_a_full_device_wakes_the_evictor),
      cmocka_unit_test(announcements_taken_back_wake_the_evictor),
      cmocka_unit_test(a_refused_use_is_tried_again_when_another_stream_acquires),
      cmocka_unit_test(the_end_of_a_plan_wakes_who_acts_without_one),
      cmocka_unit_test(a_plan_wakes_who_carries_it_out),
      cmocka_unit_test(an_acquire_wakes_a_planner_that_looks_rarely),
  };
  return cmocka_run_group_tests_name("wakes", tests, nullptr, nullptr);
}
