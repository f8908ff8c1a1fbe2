// SPDX-License-Identifier: Apache-2.0
//
// Fences by number: a fence tells of its own stream whatever others have passed, tens of thousands are destroyed before they
// have passed, thousands of waits time out, and signals arrive while a thread waits. A held stream has no more than 160
// calls outstanding.
#include "conformance/shapes.hpp"
#include "conformance/walks.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>

namespace weir::conformance {
namespace {

/// The fence, the last thing in its stream, passes: waited for, asked again and again, or after a wait for the stream.
Outcome seen_to_pass(Test &t, Fence &fence, Stream &stream, uint64_t way) {
  if (way % 3 == 0) return fence.wait();
  if (way % 3 == 1) TRY(stream.synchronize());
  const uint64_t end = now_ns() + patience_ns;
  while (CALL(fence_poll, fence.get()) == WEIR_NOT_READY && now_ns() < end)
    std::this_thread::yield();
  MUST(fence_poll, fence.get());
  return {};
}

/// Fences of a held stream and of free ones in turn: those of the free ones pass, those of the held one do not.
Outcome tells_of_its_own(Test &t, Queue &queue, std::vector<std::unique_ptr<Stream>> &free_ones,
                         Pinned &out, const Plain &plain) {
  constexpr uint64_t rounds = 24;
  Gate gate(t);
  std::vector<Fence> held, passed;
  held.reserve(rounds);
  passed.reserve(2 * rounds);
  Settled settled(t, &gate);
  settled.add(queue.use());
  for (const auto &stream : free_ones) settled.add(*stream);
  TRY(queue.hold(gate));
  TRY(gate.reached());
  for (uint64_t i = 0; i < rounds; ++i) {
    Stream &stream = *free_ones[i % free_ones.size()];
    // Recorded before the held one's, and after it.
    for (const bool before : {true, false}) {
      TRY(stream.copy(out.address() + i, plain.address(), 1));
      passed.emplace_back(t);
      TRY(passed.back().record(stream));
      if (before) {
        held.emplace_back(t);
        TRY(held.back().record(queue.use()));
      }
    }
    TRY(seen_to_pass(t, passed.back(), stream, i));
    for (const Fence *fence : {&held.back(), &held.front()}) {
      ANSWERS(WEIR_NOT_READY, fence_poll, fence->get());
      ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, fence->get(), 0);
      ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, fence->get(), 1);
    }
  }
  for (const Fence &fence : held) ANSWERS(WEIR_NOT_READY, fence_poll, fence.get());
  for (const Fence &fence : passed) MUST(fence_poll, fence.get());
  CHECK(!gate.gave_up(), "something waited for the held stream");
  gate.open();
  TRY(held.back().wait());
  for (const Fence &fence : held) MUST(fence_poll, fence.get());
  return {};
}

REQUIRE("FE-032", host_call,
        "A fence tells of its own stream, whatever fences of others have been seen to pass.") {
  const Axes axes{every_owner, {0}, WEIR_CAP_HOST_CALL};
  return shapes(t, axes, [&](const Shape &shape, Queue &queue) -> Outcome {
    std::vector<std::unique_ptr<Stream>> free_ones;
    Plain plain(t, shape.device);
    Pinned out(t);
    TRY(plain.allocate(4096));
    TRY(out.allocate(4096));
    for (int i = 0; i < 2; ++i) {
      free_ones.push_back(std::make_unique<Stream>(t, shape.device));
      TRY(free_ones.back()->create());
    }
    return tells_of_its_own(t, queue, free_ones, out, plain);
  });
}

REQUIRE("FE-033", host_call,
        "Tens of thousands of fences are destroyed before they have passed; waits for them go on, "
        "and fences are recorded after them.") {
  const Axes axes{{Owner::made, Owner::wrapped}, {0}, WEIR_CAP_HOST_CALL};
  return shapes(t, axes, [&](const Shape &shape, Queue &queue) -> Outcome {
    constexpr uint32_t rounds = 90, each = 128;
    Plain plain(t, shape.device);
    Pinned out(t);
    Stream waiting(t, shape.device);
    TRY(plain.allocate(4096));
    TRY(out.allocate(4096));
    TRY(waiting.create());
    std::vector<Fence> fences;
    fences.reserve(each);
    // Where a fence takes the device milliseconds there are fewer.
    const uint64_t long_enough = now_ns() + 3'000'000'000;
    for (uint32_t round = 0; round < rounds; ++round) {
      if (now_ns() > long_enough) {
        t.note(words("only ", round * each, " fences"));
        return {};
      }
      Gate gate(t);
      Fence after(t);
      Settled settled(t, &gate);
      settled.add(queue.use());
      settled.add(waiting);
      const auto value = static_cast<uint8_t>(round + 1);
      TRY(queue.use().fill(plain.address(), 0, 64));
      TRY(queue.hold(gate));
      TRY(gate.reached());
      TRY(queue.use().fill(plain.address(), value, 64));
      for (uint32_t i = 0; i < each; ++i) {
        fences.emplace_back(t);
        TRY(fences.back().record(queue.use()));
        if (i % 32 == 0) TRY(waits(t, waiting, fences.back()));
      }
      for (uint32_t i = 0; i < each; ++i) TRY(fences[round % 2 == 0 ? i : each - 1 - i].destroy());
      fences.clear();
      TRY(waiting.copy(out.address(), plain.address(), 64));
      TRY(after.record(waiting));
      ANSWERS(WEIR_NOT_READY, fence_poll, after.get());
      CHECK(!gate.gave_up(), "something waited for the held stream");
      gate.open();
      TRY(after.wait());
      TRY(check_value(out.bytes().first(64), value, "what waited for fences that are gone"));
    }
    return {};
  });
}

REQUIRE("FE-034", host_call,
        "Waits time out by the thousand, in one thread and in several, and each tells of its own "
        "fence.") {
  const Axes axes{{Owner::made}, {0}, WEIR_CAP_HOST_CALL};
  return shapes(t, axes, [&](const Shape &shape, Queue &queue) -> Outcome {
    constexpr uint32_t threads = 4;
    const uint64_t by_one = shape.number == 0 ? 1300 : 200;
    Stream free_one(t, shape.device);
    TRY(free_one.create());
    Gate gate(t);
    Fence held(t), passed(t);
    Settled settled(t, &gate);
    settled.add(queue.use());
    settled.add(free_one);
    TRY(queue.hold(gate));
    TRY(held.record(queue.use()));
    TRY(passed.record(free_one));
    TRY(passed.wait());
    TRY(gate.reached());
    for (uint64_t i = 0; i < by_one; ++i)
      ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, held.get(), 1 + i % 2 * 999);
    TRY(in_threads(threads, [&](uint32_t index) -> Outcome {
      for (uint64_t i = 0; i < by_one / threads; ++i) {
        ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, held.get(), 1 + index);
        if (i % 16 == 0) MUST(fence_wait, passed.get(), 1 + index);
      }
      return {};
    }));
    Fence late(t);
    TRY(late.record(free_one));
    TRY(late.wait());
    ANSWERS(WEIR_NOT_READY, fence_poll, held.get());
    ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, held.get(), 1'000'000);
    CHECK(!gate.gave_up(), "something waited for the held stream");
    const uint64_t began = now_ns();
    gate.open();
    TRY(held.wait());
    CHECK(now_ns() - began < patience_ns / 2, "a wait for a fence that has passed took ",
          now_ns() - began, " ns");
    return {};
  });
}

// ---- signals

std::atomic<uint32_t> signals_handled{0};
void handle_signal(int /*signal*/) { signals_handled.fetch_add(1); }

/// The handler of SIGUSR1, for as long as this lives.
class Handling {
 public:
  explicit Handling(int flags) {
    struct sigaction ours {};
    ours.sa_handler = &handle_signal;
    ours.sa_flags = flags;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGUSR1, &ours, &before_);
  }
  ~Handling() { sigaction(SIGUSR1, &before_, nullptr); }
  Handling(const Handling &) = delete;
  Handling &operator=(const Handling &) = delete;

 private:
  struct sigaction before_ {};
};

enum class Blocked : uint8_t { without_limit, long_wait, synchronize, brief };
constexpr std::array<const char *, 4> blocked_names{"a wait without limit", "a wait of 20 s",
                                                    "a wait for the stream", "a wait of 20 ms"};
constexpr uint64_t brief_ns = 20'000'000;

/// A thread in a call that blocks, which gets signals until it is told that there are no more.
class Waiter {
 public:
  Waiter(Test &t, Stream &stream, const Fence &fence, Blocked way)
      : thread_([this, &t, &stream, &fence, way] {
          begun_ = true;
          const uint64_t began = now_ns();
          if (way == Blocked::synchronize) {
            answer_ = CALL(stream_synchronize, stream.get());
          } else {
            const uint64_t limit = way == Blocked::brief       ? brief_ns
                                   : way == Blocked::long_wait ? patience_ns
                                                               : UINT64_MAX;
            answer_ = CALL(fence_wait, fence.get(), limit);
          }
          took_ = now_ns() - began;
          over_ = true;
          // No signal is sent to a thread that has ended.
          while (!let_go_.load()) std::this_thread::yield();
        }) {}
  ~Waiter() { join(); }
  Waiter(const Waiter &) = delete;
  Waiter &operator=(const Waiter &) = delete;
  /// Sends signals, each when the one before was handled, until there were `count` or the call has ended.
  void disturb(uint32_t count, uint64_t up_to_ns) {
    while (!begun_.load()) std::this_thread::yield();
    const uint64_t end = now_ns() + up_to_ns;
    for (uint32_t i = 0; i < count && !over_.load() && now_ns() < end; ++i) {
      const uint32_t before = signals_handled.load();
      pthread_kill(thread_.native_handle(), SIGUSR1);
      while (signals_handled.load() == before && now_ns() < end) std::this_thread::yield();
    }
  }
  bool over() const { return over_.load(); }
  /// When the call has been let go.
  weir_result join() {
    let_go_ = true;
    if (thread_.joinable()) thread_.join();
    return answer_;
  }
  uint64_t took() const { return took_; }

 private:
  std::atomic<bool> begun_{false}, over_{false}, let_go_{false};
  weir_result answer_ = WEIR_SUCCESS;
  uint64_t took_ = 0;
  std::thread thread_;
};

Outcome through_signals(Test &t, Queue &queue, Blocked way, uint64_t *late) {
  Gate gate(t);
  Fence fence(t);
  Settled settled(t, &gate);
  settled.add(queue.use());
  TRY(queue.hold(gate));
  TRY(fence.record(queue.use()));
  TRY(gate.reached());
  Waiter waiter(t, queue.use(), fence, way);
  const bool brief = way == Blocked::brief;
  // A brief wait is disturbed until it ends, and not for ever.
  waiter.disturb(brief ? UINT32_MAX : 200, brief ? 2'000'000'000 : patience_ns / 4);
  const bool early = !brief && waiter.over();
  const bool waited_for = gate.gave_up();
  if (!brief) gate.open();
  const weir_result answer = waiter.join();
  gate.open();
  CHECK(!early, "it ended with ", result_name(answer), " while the stream was held");
  CHECK(!waited_for, "something waited for the held stream");
  CHECK(answer == (brief ? WEIR_ERROR_TIMEOUT : WEIR_SUCCESS), "it ended with ",
        result_name(answer));
  if (!brief) return {};
  CHECK(waiter.took() + brief_ns / 20 >= brief_ns, "it ended after ", waiter.took(), " ns");
  *late = waiter.took() - std::min(waiter.took(), brief_ns);
  return {};
}

REQUIRE("FE-035", host_call,
        "Signals that a waiting thread handles neither end its wait nor lengthen it, with "
        "SA_RESTART or without.") {
  const Axes axes{{Owner::made}, {0}, WEIR_CAP_HOST_CALL};
  return shapes(t, axes, [&](const Shape &, Queue &queue) -> Outcome {
    for (const int flags : {0, SA_RESTART}) {
      const Handling handling(flags);
      for (const Blocked way :
           {Blocked::without_limit, Blocked::long_wait, Blocked::synchronize, Blocked::brief}) {
        uint64_t least = UINT64_MAX;
        for (int i = 0; i < (way == Blocked::brief ? 3 : 1) && least > 1'000'000'000; ++i) {
          uint64_t late = 0;
          const Outcome outcome = through_signals(t, queue, way, &late);
          TRY(in_shape(words(blocked_names[static_cast<size_t>(way)], ", ",
                             flags == 0 ? "without" : "with", " SA_RESTART"),
                       outcome));
          least = std::min(least, late);
        }
        CHECK(least <= 1'000'000'000, "waits under signals end ", least, " ns late");
      }
    }
    return {};
  });
}

}  // namespace
}  // namespace weir::conformance
