// SPDX-License-Identifier: Apache-2.0
//
// Streams by owner: a queue that is known by several handles is one queue, the default stream is a stream like
// others, and everything that a stream takes keeps one order in it. Memory is made before a gate is shut, and
// ends after the streams that use it have settled.
#include "conformance/shapes.hpp"

#include <algorithm>
#include <deque>
#include <memory>

namespace weir::conformance {
namespace {

constexpr uint64_t owned_piece = 4 * kib + 1;

/// Two pieces of a device, two of the host, and what looks at them from another stream.
struct Place {
  Place(Test &t, uint32_t device) : a(t, device), b(t, device), in(t), out(t), reader(t, device) {}
  Outcome make(uint64_t bytes) {
    TRY(a.allocate(bytes));
    TRY(b.allocate(bytes));
    TRY(in.allocate(bytes));
    TRY(out.allocate(bytes));
    return reader.make(bytes);
  }
  /// The pattern in the host's one piece, `old` in the others.
  Outcome fresh(uint64_t seed, uint8_t old) {
    TRY(reader.fill(a.address(), old, a.bytes()));
    TRY(reader.fill(b.address(), old, b.bytes()));
    make_pattern(in.bytes(), seed);
    std::fill(out.bytes().begin(), out.bytes().end(), std::byte{old});
    return {};
  }
  Plain a, b;
  Pinned in, out;
  Mover reader;
};

/// Both handles and both fences say that the queue has work to do.
Outcome still_held(Test &t, Queue &queue, const Fence &first, const Fence &second) {
  for (int i = 0; i < 5; ++i) {
    ANSWERS(WEIR_NOT_READY, stream_query, queue.use().get());
    ANSWERS(WEIR_NOT_READY, stream_query, queue.owner().get());
    for (const Fence *fence : {&first, &second}) {
      ANSWERS(WEIR_NOT_READY, fence_poll, fence->get());
      ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, fence->get(), 0);
    }
  }
  return {};
}

/// Work of every kind, in turn through the one handle and the other; then the last is waited for through the first.
Outcome one_queue(Test &t, const Shape &shape, Queue &queue, Place &place, bool turned,
                  uint64_t seed) {
  Stream &one = turned ? queue.owner() : queue.use();
  Stream &two = turned ? queue.use() : queue.owner();
  const bool batches = shape.has(WEIR_CAP_BATCH_COPY);
  TRY(place.fresh(seed, 1));
  std::atomic<uint32_t> count{0};
  Gate gate(t);
  Fence by_one(t), by_two(t);
  Settled settled(t, &gate);
  settled.add(one);
  TRY(queue.hold(gate));
  TRY(gate.reached());
  TRY(one.copy(place.a.address(), place.in.address(), owned_piece));
  TRY(count_call(t, two, count));
  TRY(two.copy(place.b.address(), place.a.address(), owned_piece));
  TRY(one.fill(place.a.address(), 2, owned_piece));
  if (batches) {
    const uint64_t half = owned_piece / 2;
    TRY(batch(t, two,
              {{place.a.address() + half, place.b.address() + half, owned_piece - half},
               {place.a.address(), place.b.address(), half}}));
    TRY(one.fill(place.b.address(), 3, owned_piece));
    TRY(two.copy(place.b.address(), place.a.address(), owned_piece));
  }
  TRY(by_one.record(one));
  TRY(waits(t, two, by_one));
  TRY(two.copy(place.out.address(), place.b.address(), owned_piece));
  TRY(by_two.record(two));
  TRY(still_held(t, queue, by_one, by_two));
  TRY(place.reader.check_filled(place.a.address(), owned_piece, 1));
  TRY(place.reader.check_filled(place.b.address(), owned_piece, 1));
  TRY(check_value(place.out.bytes(), 1, "host memory, while the stream is held"));
  CHECK(count.load() == 0, "a host function ran while the stream was held");
  CHECK(!gate.gave_up(), "something waited for the held stream");
  gate.open();
  TRY(one.synchronize());
  TRY(check_pattern(place.out.bytes(), seed, "what went through the handles in turn"));
  CHECK(count.load() == 1, "a host function ran ", count.load(), " times");
  for (const Fence *fence : {&by_one, &by_two}) MUST(fence_poll, fence->get());
  TRY(finished(t, one, shape.owner));
  TRY(finished(t, two, shape.owner));
  return {};
}

REQUIRE("ST-023", host_call,
        "All handles of a stream are one queue: it is held, asked, waited for and ended through "
        "any of them.") {
  const Axes axes{{Owner::wrapped, Owner::wrapped_twice, Owner::base_of_wrapped, Owner::standard},
                  {0},
                  WEIR_CAP_HOST_CALL};
  return shapes(t, axes, [&](const Shape &shape, Queue &queue) -> Outcome {
    Place place(t, shape.device);
    TRY(place.make(owned_piece));
    for (uint64_t round = 0; round < 4; ++round)
      TRY(one_queue(t, shape, queue, place, round % 2 != 0, round));
    // The wrappers go while the stream is held, and with the gate open what was made.
    TRY(place.fresh(9, 1));
    Gate gate(t);
    Fence by_use(t), by_owner(t);
    TRY(queue.hold(gate));
    TRY(gate.reached());
    TRY(by_owner.record(queue.owner()));
    // Not straight from host memory to host memory: runtimes may wait for such a copy.
    TRY(queue.use().copy(place.a.address(), place.in.address(), owned_piece));
    TRY(queue.use().copy(place.out.address(), place.a.address(), owned_piece));
    TRY(by_use.record(queue.use()));
    TRY(queue.end_wrappers());
    ANSWERS(WEIR_NOT_READY, fence_poll, by_owner.get());
    ANSWERS(WEIR_NOT_READY, fence_poll, by_use.get());
    CHECK(!gate.gave_up(), "ending a wrapper waited for the stream's work");
    gate.open();
    TRY(queue.end());
    TRY(by_owner.wait());
    TRY(by_use.wait());
    return check_pattern(place.out.bytes(), 9, "what was copied on a stream that is gone");
  });
}

/// Copies forth and back, each of which reads what the one before wrote; then all is waited for.
Outcome in_order(Stream &stream, Place &place, uint64_t seed) {
  TRY(place.fresh(seed, 1));
  TRY(stream.copy(place.a.address(), place.in.address(), owned_piece));
  for (uint64_t i = 0; i < 16; ++i) {
    const Plain &from = i % 2 == 0 ? place.a : place.b, &to = i % 2 == 0 ? place.b : place.a;
    TRY(stream.copy(to.address(), from.address(), owned_piece));
    TRY(stream.fill(from.address(), static_cast<uint8_t>(i), owned_piece));
  }
  TRY(stream.copy(place.out.address(), place.a.address(), owned_piece));
  TRY(stream.synchronize());
  return check_pattern(place.out.bytes(), seed, "what was copied forth and back");
}

/// Fences order the stream and another, both ways.
Outcome both_ways(Test &t, Stream &stream, Stream &other, Place &place, uint64_t seed) {
  TRY(place.fresh(seed, 1));
  Fence up(t), across(t), down(t);
  TRY(stream.copy(place.a.address(), place.in.address(), owned_piece));
  TRY(up.record(stream));
  TRY(waits(t, other, up));
  TRY(other.copy(place.b.address(), place.a.address(), owned_piece));
  TRY(across.record(other));
  TRY(waits(t, stream, across));
  TRY(stream.copy(place.out.address(), place.b.address(), owned_piece));
  TRY(down.record(stream));
  TRY(down.wait());
  return check_pattern(place.out.bytes(), seed, "what two streams handed on");
}

/// Work behind a gate waits, enqueueing it does not, and the other stream waits for a fence behind it.
Outcome behind_a_gate(Test &t, Queue &queue, Stream &other, Place &place) {
  TRY(place.fresh(5, 1));
  std::atomic<uint32_t> count{0};
  Gate gate(t);
  Fence before(t), behind(t), after(t);
  Settled settled(t, &gate);
  settled.add(queue.use());
  settled.add(other);
  TRY(before.record(queue.use()));
  TRY(queue.hold(gate));
  TRY(gate.reached());
  TRY(queue.use().copy(place.a.address(), place.in.address(), owned_piece));
  TRY(count_call(t, queue.use(), count));
  TRY(behind.record(queue.use()));
  TRY(waits(t, other, behind));
  TRY(other.copy(place.b.address(), place.a.address(), owned_piece));
  TRY(after.record(other));
  TRY(before.wait());
  TRY(still_held(t, queue, behind, after));
  ANSWERS(WEIR_NOT_READY, stream_query, other.get());
  TRY(place.reader.check_filled(place.a.address(), owned_piece, 1));
  CHECK(count.load() == 0, "a host function ran before its turn");
  CHECK(!gate.gave_up(), "something waited for the held stream");
  gate.open();
  TRY(after.wait());
  TRY(place.reader.check(place.b.address(), owned_piece, 5));
  TRY(queue.use().synchronize());
  CHECK(count.load() == 1, "a host function ran ", count.load(), " times");
  return {};
}

REQUIRE("ST-024", always(),
        "The default stream is a stream like others: in order, asked, waited for, held and wrapped "
        "again.") {
  return shapes(t, {{Owner::standard}}, [&](const Shape &shape, Queue &queue) -> Outcome {
    Place place(t, shape.device);
    Stream other(t, shape.device);
    TRY(place.make(owned_piece));
    TRY(other.create());
    for (uint64_t round = 0; round < 5; ++round) {
      TRY(in_order(round % 2 == 0 ? queue.use() : queue.owner(), place, round));
      TRY(finished(t, queue.use(), shape.owner));
      TRY(both_ways(t, queue.use(), other, place, 100 + round));
      TRY(both_ways(t, other, queue.use(), place, 200 + round));
      if (t.table.stream_check != nullptr) MUST(stream_check, queue.use().get());
    }
    if (shape.has(WEIR_CAP_BATCH_COPY)) {
      TRY(place.fresh(7, 1));
      TRY(queue.use().copy(place.a.address(), place.in.address(), owned_piece));
      TRY(batch(t, queue.use(),
                {{place.b.address(), place.a.address(), kib},
                 {place.b.address() + kib, place.a.address() + kib, owned_piece - kib}}));
      TRY(queue.use().copy(place.out.address(), place.b.address(), owned_piece));
      TRY(queue.use().synchronize());
      TRY(check_pattern(place.out.bytes(), 7, "what a batch copied on"));
    }
    if (shape.has(WEIR_CAP_HOST_CALL)) {
      for (int round = 0; round < 3; ++round) TRY(behind_a_gate(t, queue, other, place));
    }
    // The fence outlives the wrapper, and the stream does.
    for (uint64_t round = 0; round < 100; ++round) {
      Stream again(t, shape.device);
      Fence fence(t);
      const auto value = static_cast<uint8_t>(round + 1);
      TRY(again.wrap(nullptr));
      TRY(again.fill(place.a.address(), value, owned_piece));
      TRY(again.copy(place.out.address(), place.a.address(), owned_piece));
      TRY(fence.record(again));
      TRY(again.destroy());
      TRY(fence.wait());
      TRY(check_value(place.out.bytes(), value, words("the stream wrapped for time ", round)));
    }
    return {};
  });
}

// ---- everything in one order

constexpr uint64_t slot = 4 * kib;

/// One stream of a walk: a slot of the device and one of the host, and what they hold when all is done that was
/// enqueued so far.
struct Lane {
  Lane(Test &t, Owner owner, uint32_t device)
      : memory(t, device), host(t), queue(t, owner, device) {}
  Plain memory;
  Pinned host;
  Queue queue;
  uint8_t in_memory = 0, in_host = 0;
};

/// What a host function looks at and leaves.
struct Look {
  std::span<std::byte> bytes;
  uint8_t wanted, left;
  std::atomic<bool> ran{false};
  Outcome outcome;
};

void look(void *user) {
  Look &self = *static_cast<Look *>(user);
  self.outcome = check_value(self.bytes, self.wanted, "host memory, seen by a host function");
  std::fill(self.bytes.begin(), self.bytes.end(), std::byte{self.left});
  self.ran.store(true);
}

/// A slot that is written once, the fence behind that, and the byte it holds then.
struct Handed {
  uint64_t address;
  Fence fence;
  uint8_t value;
};

/// Opens all gates when it goes.
class Opened {
 public:
  explicit Opened(std::deque<Gate> &gates) noexcept : gates_(gates) {}
  ~Opened() {
    for (Gate &gate : gates_) gate.open();
  }
  Opened(const Opened &) = delete;
  Opened &operator=(const Opened &) = delete;

 private:
  std::deque<Gate> &gates_;
};

class Walk {
 public:
  /// Few, as what is enqueued behind a gate is limited.
  static constexpr uint64_t held_steps = 30;
  Walk(Test &t, uint32_t device, uint64_t steps)
      : t_(t), device_(device), steps_(steps), shared_(t, device) {}
  Outcome run(const Shape &shape) {
    TRY(shared_.allocate(steps_ * slot));
    for (const Owner owner :
         {Owner::made, Owner::wrapped, Owner::base_of_wrapped, Owner::standard, shape.owner}) {
      lanes_.push_back(std::make_unique<Lane>(t_, owner, device_));
      Lane &lane = *lanes_.back();
      bool there = false;
      TRY(lane.queue.make(&there));
      if (!there) {
        lanes_.pop_back();
        continue;
      }
      TRY(lane.memory.allocate(slot));
      TRY(lane.host.allocate(slot));
      std::fill(lane.host.bytes().begin(), lane.host.bytes().end(), std::byte{0});
    }
    Settled settled(t_);
    for (const auto &lane : lanes_) {
      settled.add(lane->queue.use());
      TRY(lane->queue.use().fill(lane->memory.address(), 0, slot));
    }
    const Opened opened(gates_);
    for (uint64_t i = 0; i < steps_; ++i) {
      Lane &lane = *lanes_[t_.random.below(lanes_.size())];
      // For some steps one of the streams is held, so that what waits for it must really wait.
      if (i % held_steps == 0 && shape.has(WEIR_CAP_HOST_CALL)) {
        if (!gates_.empty()) gates_.back().open();
        TRY(lane.queue.hold(gates_.emplace_back(t_)));
      }
      const uint64_t kind = t_.random.below(8);
      const Outcome done = step(shape, lane, kind);
      if (!done.passed()) return Outcome::failure(words("step ", i, ": ", done.text()));
      // Often a wait right behind a batch.
      if (kind == 3 && t_.random.below(2) == 0) TRY(step(shape, lane, 6));
    }
    return end();
  }

 private:
  Outcome step(const Shape &shape, Lane &lane, uint64_t kind) {
    Test &t = t_;
    Stream &stream = t.random.below(2) == 0 ? lane.queue.use() : lane.queue.owner();
    const uint64_t memory = lane.memory.address(), host = lane.host.address();
    const auto value = static_cast<uint8_t>(t.random.next());
    switch (kind) {
      case 0:
        lane.in_memory = value;
        return stream.fill(memory, value, slot);
      case 1:
        lane.in_host = lane.in_memory;
        return stream.copy(host, memory, slot);
      case 2:
        lane.in_memory = lane.in_host;
        return stream.copy(memory, host, slot);
      case 3: {
        if (!shape.has(WEIR_CAP_BATCH_COPY)) return {};
        const bool up = t.random.below(2) == 0;
        (up ? lane.in_memory : lane.in_host) = up ? lane.in_host : lane.in_memory;
        const uint64_t count = 1 + t.random.below(20), each = slot / count;
        std::vector<weir_be_copy> copies;
        for (uint64_t i = 0; i < count; ++i) {
          const uint64_t at = i * each, bytes = i + 1 < count ? each : slot - at;
          copies.push_back(up ? weir_be_copy{memory + at, host + at, bytes}
                              : weir_be_copy{host + at, memory + at, bytes});
        }
        return batch(t, stream, copies);
      }
      case 4: {
        if (!shape.has(WEIR_CAP_HOST_CALL)) return {};
        Look &call = looks_.emplace_back();
        call.bytes = lane.host.bytes();
        call.wanted = lane.in_host;
        call.left = lane.in_host = value;
        const Outcome called =
            t.expect(Site::current(), Want::exactly(WEIR_SUCCESS), "stream_host_call",
                     t.table.stream_host_call, stream.get(), &look, &call);
        if (!called.passed()) looks_.pop_back();
        return called;
      }
      case 5: {
        const uint64_t address = shared_.address() + handed_.size() * slot;
        TRY(stream.copy(address, memory, slot));
        Fence fence(t);
        TRY(fence.record(stream));
        handed_.push_back({address, std::move(fence), lane.in_memory});
        return {};
      }
      case 6: {
        if (handed_.empty()) return {};
        // The last ones are those that may not have passed.
        const size_t among =
            t.random.below(2) == 0 ? std::min<size_t>(3, handed_.size()) : handed_.size();
        const Handed &from = handed_[handed_.size() - 1 - t.random.below(among)];
        TRY(waits(t, stream, from.fence));
        lane.in_memory = from.value;
        return stream.copy(memory, from.address, slot);
      }
      default:
        return t.expect(Site::current(), Want::either(WEIR_SUCCESS, WEIR_NOT_READY), "stream_query",
                        t.table.stream_query, stream.get());
    }
  }

  Outcome end() {
    for (Gate &gate : gates_) {
      CHECK(!gate.gave_up(), "something waited for the held stream");
      gate.open();
    }
    for (const auto &lane : lanes_) TRY(lane->queue.owner().synchronize());
    for (const Look &call : looks_) {
      CHECK(call.ran.load(), "a host function did not run");
      TRY(call.outcome);
    }
    for (const auto &lane : lanes_) {
      TRY(check_value(lane->host.bytes(), lane->in_host, "host memory at the end"));
      TRY(lane->queue.use().copy(lane->host.address(), lane->memory.address(), slot));
      TRY(lane->queue.use().synchronize());
      TRY(check_value(lane->host.bytes(), lane->in_memory, "device memory at the end"));
    }
    return {};
  }

  Test &t_;
  uint32_t device_;
  uint64_t steps_;
  Plain shared_;
  std::deque<Look> looks_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::deque<Handed> handed_;
  std::deque<Gate> gates_;
};

REQUIRE("ST-027", always(),
        "Copies, fills, batches, waits, fences and host functions keep one order in a stream, "
        "whoever owns it.") {
  return shapes(t, {{Owner::made, Owner::wrapped_twice}}, [&](const Shape &shape, Queue &) {
    for (int round = 0; round < 4; ++round) {
      Walk walk(t, shape.device, 300);
      TRY(walk.run(shape));
    }
    return Outcome();
  });
}

}  // namespace
}  // namespace weir::conformance
