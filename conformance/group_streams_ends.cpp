// SPDX-License-Identifier: Apache-2.0
//
// Streams that end with work to do, and streams that were refused something: in both cases what was enqueued before
// is done, once and in its order, and nothing else is.
#include "conformance/shapes.hpp"

#include <array>
#include <memory>
#include <thread>

namespace weir::conformance {
namespace {

constexpr uint64_t bytes = 4 * kib + 3;

/// Opens the gate as soon as the other thread has done what it is to do while the gate is shut, or seems to wait for
/// the gate: a stream's end may wait for its work, though it should not.
class Opener {
 public:
  explicit Opener(Gate &gate)
      : thread_([this, &gate] {
          while (!begun_.load()) std::this_thread::yield();
          const uint64_t end = now_ns() + 20'000'000;
          while (!done_.load() && now_ns() < end) std::this_thread::yield();
          gate.open();
        }) {}
  ~Opener() {
    begun_ = done_ = true;
    thread_.join();
  }
  Opener(const Opener &) = delete;
  Opener &operator=(const Opener &) = delete;
  void begin() { begun_ = true; }

 private:
  std::atomic<bool> begun_{false}, done_{false};
  std::thread thread_;
};

enum class Last : uint8_t { copy, batch, call, wait };
constexpr const char *last_names[] = {"a copy", "a batch", "a host function", "a wait"};

REQUIRE(
    "ST-026", host_call,
    "A stream that is destroyed with work that is held up finishes it later, whoever owns it.") {
  const Axes axes{every_owner, {0}, WEIR_CAP_HOST_CALL};
  return shapes(t, axes, [&](const Shape &shape, Queue &) -> Outcome {
    Plain plain(t, shape.device), second(t, shape.device);
    Pinned in(t), out(t);
    Stream other(t, shape.device);
    TRY(plain.allocate(bytes));
    TRY(second.allocate(bytes));
    TRY(in.allocate(bytes));
    TRY(out.allocate(bytes));
    TRY(other.create());
    uint64_t seed = 0;
    for (const Last last : {Last::copy, Last::batch, Last::call, Last::wait}) {
      if (last == Last::batch && !shape.has(WEIR_CAP_BATCH_COPY)) continue;
      if (last == Last::call && shape.owner == Owner::transfer) continue;
      const auto ends = [&]() -> Outcome {
        std::atomic<uint32_t> count{0};
        Queue queue(t, shape.owner, shape.device);
        bool there = false;
        TRY(queue.make(&there));
        if (!there) return {};
        make_pattern(in.bytes(), ++seed);
        std::fill(out.bytes().begin(), out.bytes().end(), std::byte{0xEE});
        Gate gate(t);
        Fence middle(t), fence(t), late(t);
        Settled settled(t, &gate);
        settled.add(other);
        settled.add(queue.use());
        if (last == Last::wait) {
          TRY(gate.hold(other));
        } else {
          TRY(queue.hold(gate));
        }
        TRY(gate.reached());
        Stream &stream = queue.use();
        TRY(stream.copy(plain.address(), in.address(), bytes));
        TRY(middle.record(stream));
        if (last == Last::wait) {
          TRY(other.fill(second.address(), 1, bytes));
          TRY(late.record(other));
          TRY(waits(t, stream, late));
        }
        if (last == Last::batch) {
          TRY(batch(t, stream,
                    {{out.address(), plain.address(), kib},
                     {out.address() + kib, plain.address() + kib, bytes - kib}}));
        } else {
          TRY(stream.copy(out.address(), plain.address(), bytes));
        }
        if (last == Last::call) TRY(count_call(t, stream, count));
        TRY(fence.record(stream));
        ANSWERS(WEIR_NOT_READY, fence_poll, fence.get());
        {
          Opener opener(gate);
          opener.begin();
          TRY(queue.end());
        }
        TRY(fence.wait());
        MUST(fence_poll, middle.get());
        TRY(check_pattern(out.bytes(), seed, "what was copied on a stream that is gone"));
        const uint32_t wanted = last == Last::call ? 1 : 0;
        CHECK(count.load() == wanted, "a host function ran ", count.load(), " times");
        return other.synchronize();
      };
      const Outcome outcome = ends();
      if (!outcome.passed())
        return Outcome::failure(
            words("behind ", last_names[static_cast<size_t>(last)], ": ", outcome.text()));
    }
    // Many at once, behind one fence.
    if (shape.owner != Owner::made) return {};
    constexpr uint64_t many = 50, each = 64;
    std::vector<std::unique_ptr<Stream>> streams;
    std::vector<Fence> fences;
    Gate gate(t);
    Fence held(t);
    Settled settled(t, &gate);
    settled.add(other);
    make_pattern(in.bytes(), 99);
    std::fill(out.bytes().begin(), out.bytes().end(), std::byte{0xEE});
    TRY(other.copy(plain.address(), in.address(), bytes));
    TRY(gate.hold(other));
    TRY(held.record(other));
    TRY(gate.reached());
    for (uint64_t i = 0; i < many; ++i) {
      streams.push_back(std::make_unique<Stream>(t, shape.device));
      TRY(streams.back()->create());
      TRY(waits(t, *streams.back(), held));
      TRY(streams.back()->copy(out.address() + i * each, plain.address() + i * each, each));
      fences.emplace_back(t);
      TRY(fences.back().record(*streams.back()));
    }
    {
      Opener opener(gate);
      opener.begin();
      for (const auto &stream : streams) TRY(stream->destroy());
    }
    for (Fence &fence : fences) TRY(fence.wait());
    return check_pattern(out.bytes().first(many * each), 99, "what 50 streams copied");
  });
}

/// Refuses all that can be seen to be wrong.
Outcome refused(Test &t, const Shape &shape, const Stream &stream, uint64_t to, uint64_t from) {
  const weir_be_copy nowhere{0, from, bytes}, from_nowhere{to, 0, bytes};
  REFUSED(copy_async, stream.get(), &nowhere);
  REFUSED(copy_async, stream.get(), &from_nowhere);
  REFUSED(fill_async, stream.get(), 0, 9, bytes);
  if (!shape.has(WEIR_CAP_BATCH_COPY)) return {};
  for (size_t bad = 0; bad < 3; ++bad) {
    std::array<weir_be_copy, 3> copies{
        {{to, from, 8}, {to + 8, from + 8, 8}, {to + 16, from + 16, 8}}};
    copies.at(bad).destination = 0;
    REFUSED(copy_batch_async, stream.get(), copies.data(), 3);
  }
  return {};
}

REQUIRE("ST-028", always(), "A refused call leaves the stream as it was, idle or held.") {
  return shapes(t, {every_owner}, [&](const Shape &shape, Queue &queue) -> Outcome {
    Plain plain(t, shape.device);
    Pinned in(t), out(t), bad(t);
    for (Pinned *each : {&in, &out, &bad}) TRY(each->allocate(bytes));
    TRY(plain.allocate(bytes));
    std::fill(bad.bytes().begin(), bad.bytes().end(), std::byte{0x99});
    Stream &stream = queue.use();
    for (uint64_t round = 0; round < 4; ++round) {
      const bool holds = round % 2 != 0 && shape.has(WEIR_CAP_HOST_CALL);
      make_pattern(in.bytes(), round);
      std::fill(out.bytes().begin(), out.bytes().end(), std::byte{0xEE});
      Gate gate(t);
      Fence fence(t), after(t);
      Settled settled(t, &gate);
      settled.add(stream);
      if (holds) {
        TRY(queue.hold(gate));
        TRY(gate.reached());
      } else {
        TRY(stream.synchronize());
        TRY(refused(t, shape, stream, plain.address(), bad.address()));
        TRY(finished(t, stream, shape.owner));
      }
      TRY(stream.copy(plain.address(), in.address(), bytes));
      TRY(refused(t, shape, stream, plain.address(), bad.address()));
      TRY(fence.record(stream));
      TRY(refused(t, shape, stream, plain.address(), bad.address()));
      TRY(stream.copy(out.address(), plain.address(), bytes));
      TRY(refused(t, shape, stream, out.address(), plain.address()));
      TRY(after.record(stream));
      if (holds) {
        ANSWERS(WEIR_NOT_READY, stream_query, stream.get());
        ANSWERS(WEIR_NOT_READY, fence_poll, fence.get());
        CHECK(!gate.gave_up(), "a refusal waited for the held stream");
        gate.open();
      }
      TRY(after.wait());
      MUST(fence_poll, fence.get());
      TRY(check_pattern(out.bytes(), round, "what was copied beside refused calls"));
      TRY(stream.synchronize());
      TRY(finished(t, stream, shape.owner));
    }
    return {};
  });
}

}  // namespace
}  // namespace weir::conformance
