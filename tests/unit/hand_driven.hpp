// SPDX-License-Identifier: Apache-2.0
//
// A pool that learns, driven by hand: its threads are stopped, and what they do for plans is done by the test, which looks where it wants to, with
// a clock that the test sets. So what is learned, planned and given up is the same in every run.
#pragma once

#include "tests/unit/interleaving.hpp"

#include <set>

namespace weir::test {

constexpr uint64_t mib = uint64_t{1} << 20U;
constexpr uint64_t ms = 1'000'000;

/// A look at what the thread has used of a CPU finds that it was `step` more, a look at the time that `tick` has passed.
class FakeClock final : public weir::Clock {
 public:
  uint64_t now_ns() const noexcept override { return now += tick; }
  uint64_t thread_cpu_ns() const noexcept override { return cpu += step; }
  mutable std::atomic<uint64_t> now{1};
  std::atomic<uint64_t> step{0}, tick{0};
  mutable std::atomic<uint64_t> cpu{0};
};
inline FakeClock test_clock;

inline void learn_by_test_clock(weir_context context) {
  reinterpret_cast<weir::pool::Context *>(context)->learns = true;
  reinterpret_cast<weir::pool::Context *>(context)->clock = &test_clock;
}

inline weir::move::PlanExecutor &plans_of(World &world) {
  return *engine_of(world).prefetcher().plans();
}

inline World learning(Setup setup) {
  setup.flags = 0;
  setup.before_pool = learn_by_test_clock;
  if (setup.policy == nullptr) setup.policy = "auto";
  if (setup.policy_cpu_percent == 0) setup.policy_cpu_percent = 10;  // by its clock, that is
  test_clock.step = 0;
  test_clock.tick = 0;
  World world(setup);
  engine_of(world).background().stop();
  return world;
}

inline void use(World &world, weir_buffer buffer, uint32_t device = 0, uint32_t operation = 0,
                uint32_t mode = WEIR_READ_WRITE) {
  weir_use use = WEIR_USE(buffer, mode);
  weir_lease lease = nullptr;
  auto &stream = *reinterpret_cast<weir::backend::Stream *>(world.streams[device]);
  ok(engine_of(world).acquire(stream, &use, 1, {.operation = operation}, &lease).code());
  ok(weir_release(lease, world.streams[device]));
}

inline void learn_all(World &world) {
  while (engine_of(world).upkeep().look_at_plans()) continue;
}

inline bool planned(World &world) { return engine_of(world).prefetcher().planned(0); }

/// Reads more than fits in turns, as often as it takes until plans bring some of it ahead.
inline void loop_until_planned(World &world, const std::vector<weir_buffer> &buffers,
                               uint32_t device) {
  const uint64_t before = world.stats().plan_fetched_bytes;
  while (world.stats().plan_fetched_bytes == before) {
    for (uint32_t i = 0; i < buffers.size(); ++i) {
      use(world, buffers[i], device, i + 1);
      learn_all(world);
      test_clock.now += ms;  // a plan may not be made at any time
    }
  }
}

constexpr uint64_t loop_pages = 64;  // of the device
constexpr uint32_t looped = 96;      // buffers of a page

/// A loop over the buffers, each operation of a name of its own.
struct Loop {
  World &world;
  std::vector<weir_buffer> buffers;
  uint32_t device;
  uint32_t done = 0;

  explicit Loop(World &world_, uint32_t device_ = 0, uint32_t count = looped)
      : world(world_), device(device_) {
    for (uint32_t i = 0; i < count; ++i) buffers.push_back(world.buffer(page_bytes, device));
  }
  uint32_t count() const { return static_cast<uint32_t>(buffers.size()); }
  uint32_t next() const { return done % count(); }
  void step() { step(next()); }
  /// The next operation, on another buffer than usual.
  void step(uint32_t buffer) {
    use(world, buffers[buffer], device, next() + 1);
    ok(weir_stream_synchronize(world.streams[device]));
    ++done;
  }
  /// The planner keeps pace; a plan may not be made at any time.
  void steps(uint32_t count) {
    for (; count != 0; --count) {
      step();
      learn_all(world);
      test_clock.now += ms;
    }
  }
  /// A plan brings what it wants, and what it rests on has come true for a while. False: none does.
  bool begin() {
    for (int laps = 0; laps < 40; ++laps) {
      const uint64_t before = world.stats().plan_fetched_bytes;
      steps(count());
      if (laps > 20 && world.stats().plan_fetched_bytes != before &&
          engine_of(world).prefetcher().planned(static_cast<uint8_t>(device)))
        return true;
    }
    return false;
  }
  std::set<uint32_t> there() const {
    std::set<uint32_t> found;
    for (uint32_t i = 0; i < count(); ++i)
      if (query(world, buffers[i]).device_bytes != 0) found.insert(i);
    return found;
  }
  /// Operations from the next one on until it is used.
  uint32_t distance(uint32_t buffer) const { return (buffer + count() - next()) % count(); }
  void end() {
    for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
};

}  // namespace weir::test
