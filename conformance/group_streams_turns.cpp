// SPDX-License-Identifier: Apache-2.0
//
// What a stream owes to other streams and threads that look at it: it waits on for what it was told to when it is destroyed, a wait
// for it ends when what was enqueued so far has finished, and what another thread enqueued counts. At most two gates stand in
// a stream.
#include "conformance/shapes.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <thread>

namespace weir::conformance {
namespace {

constexpr uint64_t turn_bytes = 4 * kib + 5;

/// Opens the gate if the call that it stands by seems to wait for it: a stream's end may, though it should not.
class Relief {
 public:
  explicit Relief(Gate &gate)
      : thread_([this, &gate] {
          const uint64_t end = now_ns() + 50'000'000;
          while (!done_.load() && now_ns() < end) std::this_thread::yield();
          if (done_.load()) return;
          opened_ = true;
          gate.open();
        }) {}
  ~Relief() { finish(); }
  Relief(const Relief &) = delete;
  Relief &operator=(const Relief &) = delete;
  /// Whether it has opened the gate. It does not any more.
  bool finish() {
    done_ = true;
    if (thread_.joinable()) thread_.join();
    return opened_.load();
  }

 private:
  std::atomic<bool> done_{false}, opened_{false};
  std::thread thread_;
};

enum class Behind : uint8_t { copy, fill, batch, call };
constexpr const char *behind_names[] = {"a copy", "a fill", "a batch", "a host function"};

/// What lies behind the wait, and where it is seen.
struct Stall {
  Stall(Test &t, uint32_t device) : fed(t, device), own(t, device), out(t), other(t, device) {}
  Outcome make() {
    TRY(fed.allocate(turn_bytes));
    TRY(own.allocate(turn_bytes));
    TRY(out.allocate(turn_bytes));
    return other.create();
  }
  Plain fed, own;
  Pinned out;
  Stream other;
  std::atomic<uint32_t> calls{0};
};

Outcome put_behind(Test &t, Stall &site, Stream &stream, Behind what) {
  constexpr uint64_t half = turn_bytes / 2;
  const uint64_t to = site.out.address(), from = site.fed.address();
  if (what == Behind::fill) TRY(stream.fill(site.fed.address(), 7, turn_bytes));
  if (what == Behind::call) TRY(count_call(t, stream, site.calls));
  if (what == Behind::batch)
    return batch(t, stream, {{to, from, half}, {to + half, from + half, turn_bytes - half}});
  return stream.copy(to, from, turn_bytes);
}

/// The stream waits for what another one does behind a gate, has work to do after that, and is destroyed.
Outcome waits_on(Test &t, const Shape &shape, Stall &site, Behind what, uint32_t fences) {
  Queue queue(t, shape.owner, shape.device);
  bool there = false;
  TRY(queue.make(&there));
  if (!there) return {};
  site.calls = 0;
  std::fill(site.out.bytes().begin(), site.out.bytes().end(), std::byte{0xEE});
  TRY(site.other.fill(site.fed.address(), 1, turn_bytes));
  TRY(site.other.synchronize());
  Gate gate(t);
  Fence last(t);
  std::vector<Fence> fed;
  fed.reserve(fences);
  Settled settled(t, &gate);
  settled.add(site.other);
  settled.add(queue.use());
  TRY(gate.hold(site.other));
  TRY(gate.reached());
  for (uint32_t i = 0; i < fences; ++i) {
    // The last of them is the one that the bytes hang on.
    TRY(site.other.fill(site.fed.address(), static_cast<uint8_t>(i + 3 - fences), turn_bytes));
    fed.emplace_back(t);
    TRY(fed.back().record(site.other));
    TRY(waits(t, queue.use(), fed.back()));
  }
  TRY(put_behind(t, site, queue.use(), what));
  TRY(last.record(queue.use()));
  Relief relief(gate);
  TRY(queue.end());
  if (!relief.finish()) {
    const uint64_t end = now_ns() + 500'000;
    do {
      ANSWERS(WEIR_NOT_READY, fence_poll, last.get());
    } while (now_ns() < end);
    CHECK(site.calls.load() == 0, "a host function ran before what its stream waits for");
    TRY(check_value(site.out.bytes(), 0xEE, "host memory, before what the stream waits for"));
  }
  gate.open();
  TRY(last.wait());
  TRY(site.other.synchronize());
  CHECK(what != Behind::call || site.calls.load() == 1, "a host function ran ", site.calls.load(),
        " times");
  return check_value(site.out.bytes(), what == Behind::fill ? 7 : 2,
                     "what was copied by a stream that waited and is gone");
}

REQUIRE("ST-037", host_call,
        "A stream that is destroyed while it waits for fences waits on, and does what is behind "
        "the waits.") {
  const Axes axes{every_owner, {0}, WEIR_CAP_HOST_CALL};
  return shapes(t, axes, [&](const Shape &shape, Queue &) -> Outcome {
    Stall site(t, shape.device);
    TRY(site.make());
    for (const Behind what : {Behind::copy, Behind::fill, Behind::batch, Behind::call}) {
      if (what == Behind::batch && !shape.has(WEIR_CAP_BATCH_COPY)) continue;
      if (what == Behind::call && shape.owner == Owner::transfer) continue;
      for (const uint32_t fences : {1U, 2U}) {
        const Outcome outcome = waits_on(t, shape, site, what, fences);
        if (outcome.passed()) continue;
        return Outcome::failure(words(behind_names[static_cast<size_t>(what)], " behind ", fences,
                                      " waits: ", outcome.text()));
      }
    }
    return {};
  });
}

/// Whether a wait for the stream that began before the second gate was put in ended before that gate was opened. The wait is
/// given `lead` to begin: with too little it may begin late, and then the second gate counts.
Outcome ends_before_second(Test &t, Stream &asked, Stream &fed, uint64_t lead, bool *ended) {
  Gate first(t), second(t);
  Settled settled(t, &second);
  settled.add(fed);
  TRY(first.hold(fed));
  TRY(first.reached());
  std::atomic<bool> begun{false}, over{false};
  Outcome waited;
  std::thread waiter([&] {
    begun = true;
    waited = asked.synchronize();
    over = true;
  });
  const auto put_in = [&]() -> Outcome {
    while (!begun.load()) std::this_thread::yield();
    const uint64_t from = now_ns();
    while (now_ns() - from < lead) std::this_thread::yield();
    CHECK(!over.load(), "synchronize ended while the stream was held");
    return second.hold(fed);
  };
  const Outcome put = put_in();
  first.open();
  const uint64_t end = now_ns() + 50'000'000 + 4 * lead;
  while (!over.load() && now_ns() < end) std::this_thread::yield();
  *ended = over.load();
  second.open();
  waiter.join();
  TRY(put);
  return waited;
}

REQUIRE("ST-038", host_call,
        "A wait for a stream ends when what was enqueued so far has finished, whatever others "
        "enqueue meanwhile.") {
  const Axes axes{calling_owners, {0}, WEIR_CAP_HOST_CALL};
  return shapes(t, axes, [&](const Shape &shape, Queue &queue) -> Outcome {
    if (shape.owner != Owner::made && !shape.has(WEIR_CAP_STREAM_ANY_THREAD)) return {};
    for (uint64_t lead = 200'000; lead < 400'000'000; lead *= 8) {
      bool ended = false;
      TRY(ends_before_second(t, queue.use(), queue.owner(), lead, &ended));
      if (ended) return {};
    }
    return Outcome::failure(
        "synchronize did not end before work was done that was enqueued after it had begun");
  });
}

/// Two threads take turns: one asks, the other one enqueues behind a gate.
class Turns {
 public:
  Turns(Test &t, const Shape &shape, Queue &queue)
      : t_(t),
        owner_(shape.owner),
        queue_(queue),
        plain_(t, shape.device),
        in_(t),
        out_(t),
        settled_(t) {}
  Outcome play() {
    TRY(plain_.allocate(turn_bytes));
    TRY(in_.allocate(turn_bytes));
    TRY(out_.allocate(turn_bytes));
    for (auto &gate : gates_) gate = std::make_unique<Gate>(t_);
    settled_.add(queue_.use());
    Meeting meeting(2);
    return in_threads(2, [&](uint32_t index) -> Outcome {
      Meeting::Guest guest(meeting);
      Outcome outcome;
      for (uint64_t i = 0; i < rounds && outcome.passed() && !over_.load(); ++i) {
        outcome = i / 2 % 2 == index ? ask(*gates_[i], guest, i) : put_in(*gates_[i], guest, i);
      }
      if (!outcome.passed()) over_ = true;
      return outcome;
    });
  }

 private:
  static constexpr uint64_t rounds = 8;

  /// The stream is idle, the other thread enqueues, and the stream is not idle.
  Outcome ask(Gate &gate, Meeting::Guest &guest, uint64_t round) {
    TRY(queue_.use().synchronize());
    TRY(finished(t_, queue_.use(), owner_));
    std::fill(out_.bytes().begin(), out_.bytes().end(), std::byte{0xEE});
    guest.wait();
    guest.wait();
    if (over_.load()) return {};
    Outcome outcome = told_of_it(gate);
    if (!outcome.passed()) over_ = true;
    gate.open();
    if (outcome.passed())
      outcome = check_pattern(out_.bytes(), round, "what another thread put in");
    guest.wait();
    return outcome;
  }
  Outcome put_in(Gate &gate, Meeting::Guest &guest, uint64_t round) {
    guest.wait();
    if (over_.load()) return {};
    make_pattern(in_.bytes(), round);
    Outcome outcome = hold_and_copy(gate);
    if (!outcome.passed()) {
      over_ = true;
      gate.open();
    }
    guest.wait();
    guest.wait();
    return outcome;
  }
  Outcome hold_and_copy(Gate &gate) {
    TRY(queue_.hold(gate));
    TRY(gate.reached());
    TRY(queue_.use().copy(plain_.address(), in_.address(), turn_bytes));
    return queue_.use().copy(out_.address(), plain_.address(), turn_bytes);
  }
  Outcome told_of_it(Gate &gate) {
    Test &t = t_;
    Fence fence(t);
    for (int turn = 0; turn < 3; ++turn) {
      ANSWERS(WEIR_NOT_READY, stream_query, queue_.use().get());
      ANSWERS(WEIR_NOT_READY, stream_query, queue_.owner().get());
    }
    TRY(fence.record(queue_.use()));
    ANSWERS(WEIR_NOT_READY, fence_poll, fence.get());
    ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, fence.get(), 1000);
    gate.open();
    TRY(queue_.use().synchronize());
    MUST(fence_poll, fence.get());
    return finished(t, queue_.use(), owner_);
  }

  Test &t_;
  const Owner owner_;
  Queue &queue_;
  std::array<std::unique_ptr<Gate>, rounds> gates_;
  Plain plain_;
  Pinned in_, out_;
  Settled settled_;
  std::atomic<bool> over_{false};
};

REQUIRE("ST-039", host_call,
        "A thread that asks a stream, or waits for it, is told of what other threads have "
        "enqueued.") {
  const Axes axes{every_owner, {0}, WEIR_CAP_HOST_CALL};
  return shapes(t, axes, [&](const Shape &shape, Queue &queue) -> Outcome {
    const bool ours = shape.owner == Owner::made || shape.owner == Owner::transfer;
    if (!ours && !shape.has(WEIR_CAP_STREAM_ANY_THREAD)) return {};
    return Turns(t, shape, queue).play();
  });
}

}  // namespace
}  // namespace weir::conformance
