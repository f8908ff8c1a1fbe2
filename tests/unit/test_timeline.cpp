// SPDX-License-Identifier: Apache-2.0
//
// The fences of a stream while a call of the backend about it does not come back: a thread that looks is told "not yet", one that records
// waits for its turn, and no call is made with the lock held (each takes it: one that is made with it held never ends).

#include "core/backend/timeline.hpp"

#include "core/base/memory.hpp"
#include "tests/unit/interposed_host.hpp"

#include <algorithm>
#include <memory>
#include <memory_resource>
#include <string_view>
#include <thread>

#include "tests/support/cmocka.hpp"
#include "tests/support/watchdog.hpp"

namespace {

using weir::backend::Timeline;
using weir::test::Blocker;
using weir::test::interposed;

Timeline *about = nullptr;
std::atomic<int> recording{0}, polls{0}, fences{0};
std::atomic<Blocker *> keep_record{nullptr};  ///< at which a record stands in the backend
std::atomic<Blocker *> keep_poll{nullptr};    ///< at which the next poll does

weir_result answer(const char *entry) {
  const std::string_view name(entry);
  if (about != nullptr) const std::lock_guard free(about->lock);
  if (name == "fence_poll") {
    Blocker *const at = keep_poll.exchange(nullptr);
    ++polls;
    if (at != nullptr) Blocker::stand(at);
  }
  if (name != "fence_record") return WEIR_SUCCESS;
  ++fences;
  ++recording;
  if (Blocker *at = keep_record) Blocker::stand(at);
  --recording;
  return WEIR_SUCCESS;
}

const weir_backend_table *query(uint32_t major) {
  const weir_backend_table *table = weir::test::InterposedHost::query(major);
  if (table == nullptr) return nullptr;
  interposed.table.fence_destroy = [](weir_be_state *state, weir_be_fence fence) {
    if (about != nullptr) const std::lock_guard free(about->lock);
    --fences;
    return interposed.real->fence_destroy(state, fence);
  };
  return table;
}

void nothing(void *) {}

struct Scene {
  weir::backend::Runtime runtime{std::pmr::get_default_resource()};
  weir::backend::Device device;
  weir::Ticks ticks;
  Timeline timeline, other;
  weir_be_stream stream = nullptr, beside = nullptr;
  Blocker work;  ///< what the stream has to do
  weir::test::Watchdog dog;

  Scene() {
    interposed.interpose = answer;
    keep_record = nullptr;
    fences = 0;
    assert_true(runtime.adopt(query, "").ok());
    assert_true(runtime.start("memory=4M;granule=64K", {}, weir::Log(), 60'000'000'000).ok());
    device.runtime = &runtime;
    open(&stream, &timeline);
    open(&beside, &other);
    about = &timeline;
    assert_int_equal(
        interposed.real->stream_host_call(runtime.state(), stream, Blocker::stand, &work),
        WEIR_SUCCESS);
    polls = 0;
  }
  void open(weir_be_stream *made, Timeline *of) {
    assert_int_equal(runtime.table().stream_create(runtime.state(), 0, 0, made), WEIR_SUCCESS);
    of->open(&device, *made, &ticks);
  }
  /// The host backend's fences are numbers of what was enqueued: something is, so that they differ.
  uint64_t record() {
    uint64_t point = 0;
    assert_int_equal(interposed.real->stream_host_call(runtime.state(), stream, nothing, nullptr),
                     WEIR_SUCCESS);
    assert_true(timeline.record(&point).ok());
    return point;
  }
  /// `counted`: one thread has recorded at a time.
  void close(bool counted = true) {
    dog.at("the end");
    work.open();
    timeline.drain();
    other.drain();
    about = nullptr;
    if (counted) assert_int_equal(fences, 0);
    for (weir_be_stream each : {stream, beside})
      (void)runtime.table().stream_destroy(runtime.state(), each);
    interposed.interpose = nullptr;
    dog.stop();
  }
};

/// The stream's work has ended and its fences are gone, but a thread still polls one: the slot must not be another stream's yet.
void a_poll_keeps_the_slot(void **) {
  Scene scene;
  const uint64_t point = scene.record();
  Blocker stuck;
  keep_poll = &stuck;
  std::thread asks([&] { (void)scene.timeline.passed(point); });
  while (polls == 0) std::this_thread::yield();
  scene.dog.at("drain");
  scene.work.open();
  scene.timeline.drain();
  assert_true(scene.timeline.passed(point));
  assert_true(scene.timeline.in_use());
  stuck.open();
  asks.join();
  assert_false(scene.timeline.in_use());
  scene.close();
}

void while_one_records_nobody_is_kept(void **) {
  Scene scene;
  const uint64_t before = scene.record();
  Blocker stuck;
  keep_record = &stuck;
  uint64_t point = 0;
  std::thread recorder([&] { point = scene.record(); });
  while (recording == 0) std::this_thread::yield();
  scene.dog.at("passed");
  assert_false(scene.timeline.passed(before));
  assert_int_equal(polls, 0);
  assert_int_equal(scene.timeline.last(), before);
  scene.dog.at("wait");
  assert_int_equal(scene.timeline.wait(before, 1000).code(), WEIR_ERROR_TIMEOUT);
  scene.dog.at("enqueue_wait");
  assert_true(scene.timeline.enqueue_wait(&scene.device, scene.beside, before).ok());
  scene.dog.at("the lock");
  { const std::lock_guard free(scene.timeline.lock); }
  // What has passed long since is known without asking.
  assert_true(scene.timeline.passed(before - 1));
  keep_record = nullptr;
  stuck.open();
  recorder.join();
  assert_true(point > before);
  assert_int_equal(scene.timeline.last(), point);
  assert_false(scene.timeline.passed(point));
  assert_true(polls > 0);
  scene.close();
}

void records_take_turns(void **) {
  Scene scene;
  auto stuck = std::make_unique<Blocker>();
  keep_record = stuck.get();
  uint64_t points[4] = {};
  std::thread recorders[4];
  recorders[0] = std::thread([&] { points[0] = scene.record(); });
  while (recording == 0) std::this_thread::yield();
  for (int i = 1; i < 4; ++i) recorders[i] = std::thread([&, i] { points[i] = scene.record(); });
  for (int look = 0; look < 1000; ++look) {
    assert_int_equal(recording, 1);
    std::this_thread::yield();
  }
  keep_record = nullptr;
  stuck->open();
  for (std::thread &each : recorders) each.join();
  std::sort(std::begin(points), std::end(points));
  assert_true(std::adjacent_find(std::begin(points), std::end(points)) == std::end(points));
  for (const uint64_t point : points) assert_false(scene.timeline.passed(point));
  scene.work.open();
  assert_true(scene.timeline.wait(points[3], UINT64_MAX).ok());
  for (const uint64_t point : points) assert_true(scene.timeline.passed(point));
  scene.close(false);
}

/// More points than fences are kept, and a thread waits for one that is dropped meanwhile.
void dropped_fences_are_stood_for(void **) {
  Scene scene;
  uint64_t points[300] = {};
  points[0] = scene.record();
  points[1] = scene.record();
  std::atomic<bool> waited{false};
  std::thread waiter([&] {
    assert_true(scene.timeline.wait(points[0], UINT64_MAX).ok());
    waited = true;
  });
  for (int i = 2; i < 300; ++i) points[i] = scene.record();
  for (const uint64_t point : points) assert_false(scene.timeline.passed(point));
  assert_false(waited);
  assert_true(fences <= 64 + 4);  // what the waiter looks at, and what it is about to let go of
  scene.work.open();
  waiter.join();
  assert_true(scene.timeline.wait(points[299], UINT64_MAX).ok());
  for (const uint64_t point : points) assert_true(scene.timeline.passed(point));
  scene.close();
}

/// Recording, looking and waiting at once: what has been waited for has passed.
void many_threads(void **) {
  Scene scene;
  scene.work.open();
  std::thread threads[4];
  for (int i = 0; i < 4; ++i) {
    threads[i] = std::thread([&, i] {
      for (int round = 0; round < 2000; ++round) {
        const uint64_t point = scene.record();
        if (round % 3 == i % 3) assert_true(scene.timeline.wait(point, UINT64_MAX).ok());
        if (round % 3 == i % 3) assert_true(scene.timeline.passed(point));
        (void)scene.timeline.passed(scene.timeline.last());
        if (round % 7 == 0)
          assert_true(scene.timeline.enqueue_wait(&scene.device, scene.beside, point).ok());
      }
    });
  }
  for (std::thread &each : threads) each.join();
  scene.close(false);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_poll_keeps_the_slot), cmocka_unit_test(while_one_records_nobody_is_kept),
      cmocka_unit_test(records_take_turns),    cmocka_unit_test(dropped_fences_are_stood_for),
      cmocka_unit_test(many_threads),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
