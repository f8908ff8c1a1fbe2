// SPDX-License-Identifier: Apache-2.0
//
// Announced operations that hit: most take no lock of the pool's, and are told of some together. What follows is not late: a call that
// looks finds all that is over gone, the last one ends the announcement, and what comes into sight is brought in time.

#include "tests/support/watchdog.hpp"
#include "tests/unit/lock_holder.hpp"

namespace {

using namespace weir::test;

struct Scene : World {
  std::vector<weir_buffer> buffers;

  explicit Scene(const Setup &setup, size_t count) : World(setup) {
    for (size_t i = 0; i < count; ++i) {
      buffers.push_back(buffer(page_bytes));
      fill(buffers[i], page_bytes, static_cast<uint32_t>(i));
    }
    ok(weir_stream_synchronize(streams[0]));
    // The first use after the one that wrote may go another way.
    for (weir_buffer each : buffers) ok(use(each));
  }
  void announce(weir_buffer of, size_t times, uint64_t flags = 0) {
    const weir_use use = WEIR_USE(of, WEIR_READ);
    weir_operation operation = WEIR_OPERATION_INIT;
    operation.uses = &use;
    operation.use_count = 1;
    const std::vector<weir_operation> all(times, operation);
    ok(weir_announce(pool, streams[0], all.data(), all.size(), flags));
  }
  /// Asserts nothing.
  weir_result use(weir_buffer of) {
    weir_lease lease = nullptr;
    const weir_result result = acquire(of, WEIR_READ, &lease);
    return result == WEIR_SUCCESS ? weir_release(lease, streams[0]) : result;
  }
  /// Operations that the stream has announced and not acquired, as far as the prefetcher has been told.
  size_t told() {
    const weir::Locked lock(engine_of(*this).sync().lock);
    return engine_of(*this).prefetcher().announcements().count(slot());
  }
  uint32_t slot() const { return reinterpret_cast<weir::backend::Stream *>(streams[0])->slot; }
  void end() {
    validate(*this);
    for (weir_buffer each : buffers) ok(weir_buffer_destroy(pool, each));
    close();
  }
};

void most_take_no_lock(void **) {
  Watchdog dog;
  Scene scene({.device_pages = 8}, 2);
  scene.announce(scene.buffers[0], 100);
  ok(scene.use(scene.buffers[0]));  // tells, and hears how many need not
  dog.at("announced hits beside a thread that holds the pool's lock");
  {
    const LockHolder holder(scene);
    for (int i = 0; i < 10; ++i) ok(scene.use(scene.buffers[0]));
  }
  dog.at("the end");
  for (int i = 11; i < 100; ++i) ok(scene.use(scene.buffers[0]));
  assert_int_equal(scene.told(), 0);
  // Nothing is announced any more: as many hits as there may be take none.
  {
    const LockHolder holder(scene);
    for (int i = 0; i < 100; ++i) ok(scene.use(scene.buffers[0]));
  }
  scene.end();
  dog.stop();
}

const Setup with_plans{.device_pages = 16, .host_pages = 64, .flags = 0, .policy = "auto"};

bool planned(Scene &scene) {
  const weir::Locked lock(engine_of(scene).sync().lock);
  return engine_of(scene).prefetcher().plans()->planned(0) !=
         weir::move::PlanExecutor::Planned::by_none;
}

/// Nor do they in a pool that plans, with a plan or without: nothing of it waits for them, since all has room.
void nor_where_a_plan_has_nothing_to_do(void **) {
  Watchdog dog;
  for (const size_t announced : {size_t{100}, size_t{400}}) {
    Scene scene(with_plans, 2);
    scene.announce(scene.buffers[0], announced);
    dog.at("a plan");
    while (announced > 128 && !planned(scene)) std::this_thread::yield();
    ok(scene.use(scene.buffers[0]));
    dog.at("announced hits in a pool that plans, beside a thread that holds the pool's lock");
    {
      const LockHolder holder(scene);
      for (int i = 0; i < 10; ++i) ok(scene.use(scene.buffers[0]));
    }
    dog.at("the end");
    for (size_t i = 11; i < announced; ++i) ok(scene.use(scene.buffers[0]));
    assert_int_equal(scene.told(), 0);
    scene.end();
  }
  dog.stop();
}

/// A plan that has pages to bring or to give up hears of each.
void a_plan_with_something_to_do_hears_of_each(void **) {
  Watchdog dog;
  constexpr size_t many = 24, rounds = 40;
  Scene scene(with_plans, many);
  std::vector<weir_use> uses;
  for (weir_buffer each : scene.buffers) uses.push_back(WEIR_USE(each, WEIR_READ));
  // Before the rounds many that hit one buffer: the thread is told that it need not tell, before there is a plan.
  ok(scene.use(scene.buffers[0]));
  scene.announce(scene.buffers[0], 100);
  ok(scene.use(scene.buffers[0]));
  size_t left = 99;
  std::vector<weir_operation> operations(rounds * many, WEIR_OPERATION_INIT);
  for (size_t i = 0; i < operations.size(); ++i) {
    operations[i].uses = &uses[i % many];
    operations[i].use_count = 1;
  }
  ok(weir_announce(scene.pool, scene.streams[0], operations.data(), operations.size(), 0));
  left += operations.size();
  dog.at("a plan");
  while (!planned(scene)) std::this_thread::yield();
  // With the lock the planner's thread is between two steps: what it has planned it has told.
  for (int i = 0; i < 20; ++i) {
    ok(scene.use(scene.buffers[0]));
    assert_int_equal(scene.told(), --left);
  }
  scene.announce(scene.buffers[0], 0, WEIR_ANNOUNCE_REPLACE);
  dog.at("the end");
  scene.end();
  dog.stop();
}

/// Several threads have as many each, of which none knows what the others leave.
void threads_of_one_stream_take_none_either(void **) {
  Watchdog dog;
  Scene scene({.device_pages = 8}, 1);
  scene.announce(scene.buffers[0], 100);
  const auto some = [&scene]() -> weir_result {
    for (int i = 0; i < 10; ++i)
      if (const weir_result result = scene.use(scene.buffers[0]); result != WEIR_SUCCESS)
        return result;
    return WEIR_SUCCESS;
  };
  ok(scene.use(scene.buffers[0]));
  std::atomic<int> stage{0};
  Task other([&]() -> weir_result {
    const weir_result first = scene.use(scene.buffers[0]);
    stage = 1;
    stage.notify_all();
    stage.wait(1);
    return first == WEIR_SUCCESS ? some() : first;
  });
  stage.wait(0);
  scene.announce(scene.buffers[0], 2);  // all are to tell of their next
  ok(scene.use(scene.buffers[0]));
  dog.at("announced hits of two threads beside one that holds the pool's lock");
  {
    const LockHolder holder(scene);
    ok(some());
  }
  dog.at("the other thread");
  stage = 2;
  stage.notify_all();
  ok(other.join());
  for (int i = 23; i < 102; ++i) ok(scene.use(scene.buffers[0]));
  assert_int_equal(scene.told(), 0);
  scene.end();
  dog.stop();
}

/// Each number of operations ends with its last, also where others are announced meanwhile or instead.
void the_last_one_ends_the_announcement(void **) {
  Scene scene({.device_pages = 8}, 2);
  for (size_t count = 1; count < 40; ++count) {
    scene.announce(scene.buffers[0], count);
    for (size_t i = 0; i < count; ++i) {
      assert_true(scene.told() >= count - i);
      assert_true(scene.told() <= count - i + 17);
      ok(scene.use(scene.buffers[0]));
    }
    assert_int_equal(scene.told(), 0);
  }
  for (const uint64_t flags : {uint64_t{0}, uint64_t{WEIR_ANNOUNCE_REPLACE}}) {
    for (size_t before = 1; before < 40; ++before) {
      scene.announce(scene.buffers[0], 40);
      for (size_t i = 0; i < before; ++i) ok(scene.use(scene.buffers[0]));
      scene.announce(scene.buffers[0], 5, flags);
      const size_t left = (flags == 0 ? 40 - before : 0) + 5;
      assert_int_equal(scene.told(), left);
      for (size_t i = 0; i < left; ++i) ok(scene.use(scene.buffers[0]));
      assert_int_equal(scene.told(), 0);
    }
  }
  scene.end();
}

/// Also where some of them go the slow way, so that there are less than the thread was told.
void slow_ones_count_too(void **) {
  Scene scene({.device_pages = 8}, 3);
  for (size_t slow = 1; slow < 30; ++slow) {
    scene.announce(scene.buffers[0], 30);
    for (size_t i = 0; i < 30; ++i) {
      if (i >= 1 && i < slow) ok(trim_all(scene));
      ok(scene.use(scene.buffers[0]));
    }
    assert_int_equal(scene.told(), 0);
  }
  scene.end();
}

/// A call that makes room takes what is over, and nothing that is needed next.
void what_is_over_makes_room(void **) {
  for (uint32_t hits = 1; hits < 20; ++hits) {
    Scene scene({.device_pages = 3, .host_pages = 16}, 3);
    scene.announce(scene.buffers[0], hits);
    scene.announce(scene.buffers[1], 1);
    scene.announce(scene.buffers[2], 1);
    for (uint32_t i = 0; i < hits; ++i) ok(scene.use(scene.buffers[0]));
    const weir_buffer fresh = scene.buffer(page_bytes);
    weir_use use = WEIR_USE(fresh, WEIR_DISCARD_WRITE);
    weir_lease lease = nullptr;
    ok(weir_acquire(scene.pool, scene.streams[0], &use, 1, nullptr, &lease));
    ok(weir_release(lease, scene.streams[0]));
    assert_int_equal(query(scene, scene.buffers[0]).device_bytes, 0);
    ok(weir_buffer_destroy(scene.pool, fresh));
    scene.end();
  }
}

/// Threads that acquire on one stream tell of all that they have had between them, with and without records of their own.
void threads_of_one_stream_count_together(void **) {
  Watchdog dog;
  Scene scene({.device_pages = 8}, 1);
  constexpr size_t threads = 6, each = 500;
  scene.announce(scene.buffers[0], threads * each + 3);
  dog.at("threads");
  {
    std::vector<std::unique_ptr<Task>> all;
    for (size_t i = 0; i < threads; ++i)
      all.push_back(std::make_unique<Task>([&scene]() -> weir_result {
        for (size_t n = 0; n < each; ++n)
          if (const weir_result result = scene.use(scene.buffers[0]); result != WEIR_SUCCESS)
            return result;
        return WEIR_SUCCESS;
      }));
    for (const auto &task : all) ok(task->join());
  }
  dog.at("the end");
  scene.announce(scene.buffers[0], 1);  // which settles
  assert_int_equal(scene.told(), 4);
  scene.announce(scene.buffers[0], 0, WEIR_ANNOUNCE_REPLACE);
  assert_int_equal(scene.told(), 0);
  scene.end();
  dog.stop();
}

/// What is out comes when its operation is 64 away, though the operations before it hit.
void what_comes_into_sight_is_brought(void **) {
  Watchdog dog;
  constexpr uint32_t sight = 64;
  for (const uint32_t first : {0U, 3U, 20U, 40U}) {
    Scene scene({.device_pages = 8, .flags = 0, .policy = "lru-window"}, 2);
    ok(trim_all(scene));
    ok(scene.use(scene.buffers[0]));
    assert_int_equal(query(scene, scene.buffers[1]).device_bytes, 0);
    scene.announce(scene.buffers[0], sight + first);
    scene.announce(scene.buffers[1], 1);
    scene.announce(scene.buffers[0], 60);
    dog.at("a page that comes into sight");
    for (uint32_t i = 0; i < first; ++i) {
      engine_of(scene).wait_idle();
      assert_int_equal(query(scene, scene.buffers[1]).device_bytes, 0);
      ok(scene.use(scene.buffers[0]));
    }
    ok(scene.use(scene.buffers[0]));
    while (query(scene, scene.buffers[1]).device_bytes == 0) std::this_thread::yield();
    scene.end();
  }
  dog.stop();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(most_take_no_lock),
      cmocka_unit_test(nor_where_a_plan_has_nothing_to_do),
      cmocka_unit_test(a_plan_with_something_to_do_hears_of_each),
      cmocka_unit_test(threads_of_one_stream_take_none_either),
      cmocka_unit_test(the_last_one_ends_the_announcement),
      cmocka_unit_test(slow_ones_count_too),
      cmocka_unit_test(what_is_over_makes_room),
      cmocka_unit_test(threads_of_one_stream_count_together),
      cmocka_unit_test(what_comes_into_sight_is_brought),
  };
  return cmocka_run_group_tests_name("announced hits", tests, nullptr, nullptr);
}
