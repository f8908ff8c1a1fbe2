// SPDX-License-Identifier: Apache-2.0
//
// What threads make outlives them, and what they tell the backend at one time stays apart: each call has values of its own, and
// each value is found where its own thread put it. A thread that others outlive made its streams itself.
#include "conformance/shapes.hpp"
#include "conformance/walks.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <thread>

namespace weir::conformance {
namespace {

constexpr uint64_t left_bytes = 2 * kib;

/// What a thread makes and leaves to others.
struct Legacy {
  Legacy(Test &t, const Shape &shape)
      : plain(t, shape.device),
        in(t),
        out(t),
        other(t, shape.device),
        queue(t, shape.owner, shape.device),
        gate(t),
        passed(t),
        held(t),
        settled(t, &gate) {}
  Plain plain;
  Pinned in, out;
  Stream other;  ///< the first thread's
  Queue queue;
  Gate gate;
  Fence passed, held;
  std::atomic<uint32_t> calls{0};
  bool there = false;
  Settled settled;
};

/// The thread's part: fences of two points, of which the second one is held up where that can be.
Outcome leave(const Shape &shape, Legacy &legacy) {
  TRY(legacy.queue.make(&legacy.there));
  if (!legacy.there) return {};
  Stream &stream = legacy.queue.use();
  legacy.settled.add(stream);
  make_pattern(legacy.in.bytes(), 1);
  TRY(stream.copy(legacy.plain.address(), legacy.in.address(), left_bytes));
  TRY(legacy.passed.record(stream));
  TRY(legacy.passed.wait());
  if (shape.has(WEIR_CAP_HOST_CALL)) {
    TRY(legacy.queue.hold(legacy.gate));
    TRY(legacy.gate.reached());
  }
  TRY(stream.copy(legacy.out.address(), legacy.plain.address(), left_bytes));
  return legacy.held.record(stream);
}

/// Another thread's part: every entry that takes the stream or the fences.
Outcome take_up(Test &t, const Shape &shape, Legacy &legacy, uint64_t seed) {
  Stream &stream = legacy.queue.use();
  const bool holds = shape.has(WEIR_CAP_HOST_CALL);
  MUST(fence_poll, legacy.passed.get());
  MUST(fence_wait, legacy.passed.get(), 1000);
  if (holds && seed == 0) {
    ANSWERS(WEIR_NOT_READY, fence_poll, legacy.held.get());
    ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, legacy.held.get(), 1000);
    ANSWERS(WEIR_NOT_READY, stream_query, stream.get());
  }
  TRY(waits(t, legacy.other, legacy.passed));
  TRY(waits(t, legacy.other, legacy.held));
  TRY(waits(t, stream, legacy.held));
  CHECK(!legacy.gate.gave_up(), "something waited for the held stream");
  legacy.gate.open();
  TRY(legacy.held.wait());
  if (seed == 0) TRY(check_pattern(legacy.out.bytes(), 1, "what the thread that has left copied"));
  void *native = nullptr;
  MUST(stream_native, stream.get(), &native);
  if (t.table.stream_check != nullptr) MUST(stream_check, stream.get());
  make_pattern(legacy.in.bytes(), 2 + seed);
  TRY(stream.fill(legacy.plain.address(), 3, left_bytes));
  TRY(stream.copy(legacy.plain.address(), legacy.in.address(), left_bytes / 2));
  constexpr uint64_t half = left_bytes / 2;
  if (shape.has(WEIR_CAP_BATCH_COPY)) {
    TRY(batch(t, stream, {{legacy.plain.address() + half, legacy.in.address() + half, half}}));
  } else {
    TRY(stream.copy(legacy.plain.address() + half, legacy.in.address() + half, half));
  }
  TRY(stream.copy(legacy.out.address(), legacy.plain.address(), left_bytes));
  const bool calls = holds && legacy.queue.calls();
  const uint32_t before = legacy.calls.load();
  if (calls) TRY(count_call(t, stream, legacy.calls));
  Fence fence(t);
  TRY(fence.record(stream));
  TRY(waits(t, legacy.other, fence));
  TRY(fence.wait());
  CHECK(!calls || legacy.calls.load() == before + 1, "a host function was not called once");
  TRY(check_pattern(legacy.out.bytes(), 2 + seed, "what another thread copied"));
  TRY(stream.synchronize());
  // Its native stream was asked for: the program may use it as well.
  TRY(finished(t, stream, Owner::wrapped));
  return legacy.other.synchronize();
}

REQUIRE("TH-025", always(),
        "Streams, wrappers and fences that a thread made serve other threads, while it lives and "
        "when it has ended.") {
  return shapes(t, {every_owner}, [&](const Shape &shape, Queue &) -> Outcome {
    const bool ours = shape.owner == Owner::made || shape.owner == Owner::transfer;
    if (!ours && !shape.has(WEIR_CAP_STREAM_ANY_THREAD)) return {};
    for (const bool lives : {true, false}) {
      Legacy legacy(t, shape);
      TRY(legacy.plain.allocate(left_bytes));
      TRY(legacy.in.allocate(left_bytes));
      TRY(legacy.out.allocate(left_bytes));
      TRY(legacy.other.create());
      legacy.settled.add(legacy.other);
      const auto taken_up = [&](uint64_t seed) {
        return in_threads(1, [&](uint32_t) { return take_up(t, shape, legacy, seed); });
      };
      TRY(in_threads(1, [&](uint32_t) -> Outcome {
        TRY(leave(shape, legacy));
        return lives && legacy.there ? taken_up(0) : Outcome{};
      }));
      if (!legacy.there) return {};
      if (!lives) TRY(taken_up(0));
      // The second one has ended too.
      TRY(take_up(t, shape, legacy, 1));
      TRY(in_threads(1, [&](uint32_t) -> Outcome {
        TRY(legacy.passed.destroy());
        return legacy.held.destroy();
      }));
      TRY(legacy.queue.end());
    }
    return {};
  });
}

// ---- waits at one time

/// Threads with a stream each. Two of them wait for a fence that is held, two for one that has passed, all at the same time.
/// There are few streams: devices may hold up streams that have nothing to do with each other when there are many.
class Crossing {
 public:
  static constexpr uint32_t threads = 4;
  Crossing(Test &t, uint32_t device) : t_(t), held_(t, device), open_(t, device) {
    for (auto &stream : own_) stream = std::make_unique<Stream>(t, device);
  }
  Outcome make() {
    TRY(held_.create());
    TRY(open_.create());
    for (const auto &stream : own_) TRY(stream->create());
    return {};
  }
  Outcome round(uint64_t number) {
    Gate gate(t_);
    Fence held(t_), passed(t_);
    Settled settled(t_, &gate);
    settled.add(held_);
    for (const auto &stream : own_) settled.add(*stream);
    TRY(passed.record(open_));
    TRY(passed.wait());
    TRY(gate.hold(held_));
    TRY(held.record(held_));
    TRY(gate.reached());
    Meeting meeting(threads);
    TRY(in_threads(threads, [&](uint32_t index) -> Outcome {
      Meeting::Guest guest(meeting);
      // All six choices of two threads, one after the other.
      constexpr std::array<uint32_t, 6> pairs{0b0011, 0b0110, 0b1100, 0b1001, 0b0101, 0b1010};
      const bool waits_for_held = (pairs[number % pairs.size()] >> index & 1U) != 0;
      Fence fence(t_);
      guest.wait();
      TRY(waits(t_, *own_[index], waits_for_held ? held : passed));
      TRY(fence.record(*own_[index]));
      if (!waits_for_held) TRY(fence.wait());
      guest.wait();
      return waits_for_held ? not_passed(fence) : Outcome{};
    }));
    CHECK(!gate.gave_up(), "a stream waited for a fence that another thread had named");
    return {};
  }

 private:
  Outcome not_passed(const Fence &fence) {
    Test &t = t_;
    for (int i = 0; i < 3; ++i) ANSWERS(WEIR_NOT_READY, fence_poll, fence.get());
    return {};
  }

  Test &t_;
  Stream held_, open_;
  std::array<std::unique_ptr<Stream>, threads> own_;
};

REQUIRE("TH-026", host_call,
        "Threads let streams wait for different fences at the same time, and each stream waits "
        "for the one that was named.") {
  return each_device(t, WEIR_CAP_HOST_CALL, [&](const DeviceFacts &device) -> Outcome {
    Crossing crossing(t, device.index);
    TRY(crossing.make());
    for (uint64_t i = 0; i < 250; ++i) TRY(crossing.round(i));
    return {};
  });
}

// ---- values at one time

/// A thread's own stream and places, and the values that no other thread gives the backend.
class Own {
 public:
  static constexpr uint64_t rounds = 400, piece = 48;
  Own(Test &t, uint32_t index, Owner owner)
      : t_(t),
        index_(index),
        device_((t.device + index) % t.device_count),
        plain_(t, device_),
        in_(t),
        out_(t),
        queue_(t, owner, device_) {}
  Outcome make() {
    bool there = false;
    TRY(t_.describe(device_, &about_));
    TRY(plain_.allocate(4 * rounds * piece));
    TRY(in_.allocate(rounds * piece));
    TRY(out_.allocate(4 * rounds * piece));
    make_pattern(in_.bytes(), 10 + index_);
    return queue_.make(&there);
  }
  Outcome play(Meeting::Guest &guest) {
    Settled settled(t_);
    Stream &stream = queue_.use();
    settled.add(stream);
    TRY(stream.fill(plain_.address(), 0xEE, 4 * rounds * piece));
    for (uint64_t i = 0; i < rounds; ++i) {
      // Together at first and now and then, and as they come between.
      if (i < 40 || i % 50 == 0) guest.wait();
      TRY(round(stream, i));
      // No more than 200 calls are outstanding in a stream.
      if (i % 32 == 31) TRY(stream.synchronize());
    }
    TRY(stream.copy(out_.address(), plain_.address(), 4 * rounds * piece));
    TRY(stream.synchronize());
    return seen();
  }

 private:
  bool batches() const { return (about_.capabilities & WEIR_CAP_BATCH_COPY) != 0; }
  bool calls() const { return queue_.calls() && (about_.capabilities & WEIR_CAP_HOST_CALL) != 0; }
  uint8_t value(uint64_t i) const { return static_cast<uint8_t>(1 + (i * 7 + index_ * 59) % 199); }
  uint64_t size(uint64_t i) const { return 1 + (i + 11 * index_) % piece; }
  uint64_t at(uint64_t row, uint64_t i) const { return (row * rounds + i) * piece; }

  /// One call of each kind.
  Outcome round(Stream &stream, uint64_t i) {
    TRY(stream.fill(plain_.address() + at(0, i), value(i), size(i)));
    TRY(stream.copy(plain_.address() + at(1, i), in_.address() + i * piece, size(i + 1)));
    if (batches()) {
      const uint64_t cut = size(i + 2) / 2;
      std::vector<weir_be_copy> copies;
      if (cut != 0) copies.push_back({plain_.address() + at(2, i), in_.address() + i * piece, cut});
      copies.push_back(
          {plain_.address() + at(2, i) + cut, in_.address() + i * piece + cut, size(i + 2) - cut});
      TRY(batch(t_, stream, copies));
    }
    if (calls()) TRY(count_call(t_, stream, called_[i]));
    TRY(stream.fill(plain_.address() + at(3, i), static_cast<uint8_t>(value(i) + 1), piece));
    return {};
  }
  Outcome row(const char *what, uint64_t number, uint64_t i, std::span<const std::byte> wanted) {
    const auto is = out_.bytes().subspan(at(number, i), piece);
    TRY(check_same(is.first(wanted.size()), wanted, words("thread ", index_, ", ", what, " ", i)));
    return check_value(is.subspan(wanted.size()), 0xEE,
                       words("thread ", index_, ", behind ", what, " ", i));
  }
  Outcome seen() {
    for (uint64_t i = 0; i < rounds; ++i) {
      const std::vector<std::byte> filled(size(i), std::byte{value(i)});
      const std::vector<std::byte> all(piece, std::byte(static_cast<uint8_t>(value(i) + 1)));
      TRY(row("fill", 0, i, filled));
      TRY(row("copy", 1, i, in_.bytes().subspan(i * piece, size(i + 1))));
      if (batches()) TRY(row("batch", 2, i, in_.bytes().subspan(i * piece, size(i + 2))));
      TRY(row("second fill", 3, i, all));
      if (calls())
        CHECK(called_[i].load() == 1, "thread ", index_, ": host function ", i, " was called ",
              called_[i].load(), " times");
    }
    return {};
  }

  Test &t_;
  uint32_t index_, device_;
  weir_be_device about_{};
  Plain plain_;
  Pinned in_, out_;
  Queue queue_;
  std::array<std::atomic<uint32_t>, rounds> called_{};
};

REQUIRE("TH-027", always(),
        "Threads fill, copy, batch and call host functions at the same time with values of their "
        "own, thousands of times, and each value is where its thread put it.") {
  constexpr uint32_t threads = 4;
  Meeting meeting(threads);
  return in_threads(threads, [&](uint32_t index) -> Outcome {
    Meeting::Guest guest(meeting);
    constexpr std::array<Owner, threads> owners{Owner::made, Owner::wrapped, Owner::made,
                                                Owner::base_of_wrapped};
    const auto own = std::make_unique<Own>(t, index, owners[index]);
    TRY(own->make());
    return own->play(guest);
  });
}

}  // namespace
}  // namespace weir::conformance
