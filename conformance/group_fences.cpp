// SPDX-License-Identifier: Apache-2.0
//
// Fences: when they pass, what may wait for them, and how long they live.
#include "conformance/fixtures.hpp"

#include <memory>
#include <thread>

namespace weir::conformance {
namespace {

constexpr uint64_t ms = 1'000'000;

/// A stream that is held, and a fence behind what holds it.
struct Held {
  explicit Held(Test &t) : stream(t), gate(t), fence(t) {}
  Outcome make() {
    TRY(stream.create());
    TRY(gate.hold(stream));
    TRY(fence.record(stream));
    return gate.reached();
  }
  /// Lets the stream go and expects everything to come to an end.
  Outcome release() {
    CHECK(!gate.gave_up(), "something waited for the held stream");
    gate.open();
    return stream.synchronize();
  }
  Stream stream;
  Gate gate;
  Fence fence;
};

REQUIRE("FE-001", always(), "A fence on an idle stream passes, and its value is not 0.") {
  Stream stream(t);
  Fence fence(t);
  TRY(stream.create());
  TRY(fence.record(stream));
  CHECK(fence.get() != 0, "the fence is 0, which is none");
  TRY(fence.wait());
  MUST(fence_poll, fence.get());
  return {};
}

REQUIRE("FE-002", always(),
        "A fence has not passed before the work that it follows is done: its bytes are there.") {
  constexpr uint64_t bytes = 8 * mib;
  Plain plain(t);
  Mover mover(t);
  TRY(plain.allocate(bytes));
  TRY(mover.make(bytes));
  for (uint8_t i = 1; i <= 20; ++i) {
    std::fill(mover.staging.bytes().begin(), mover.staging.bytes().end(), std::byte{0xEE});
    Fence fence(t);
    TRY(mover.stream.fill(plain.address(), i, bytes));
    TRY(mover.stream.copy(mover.staging.address(), plain.address(), bytes));
    TRY(fence.record(mover.stream));
    if (i % 2 == 0) {
      TRY(fence.wait());
    } else {
      const uint64_t end = now_ns() + patience_ns;
      weir_result polled = WEIR_NOT_READY;
      while ((polled = CALL(fence_poll, fence.get())) == WEIR_NOT_READY && now_ns() < end)
        std::this_thread::yield();
      CHECK(polled == WEIR_SUCCESS, "polling ends with ", result_name(polled));
    }
    TRY(check_value(mover.staging.bytes(), i,
                    words("at the moment fence ", uint32_t{i}, " passed")));
  }
  return {};
}

REQUIRE("FE-003", host_call,
        "A fence behind unfinished work is NOT_READY, however often it is asked.") {
  Held held(t);
  TRY(held.make());
  for (int i = 0; i < 100; ++i) ANSWERS(WEIR_NOT_READY, fence_poll, held.fence.get());
  TRY(held.release());
  MUST(fence_poll, held.fence.get());
  return {};
}

REQUIRE("FE-004", host_call,
        "A wait without time is a poll: TIMEOUT before the fence has passed, SUCCESS after.") {
  Held held(t);
  TRY(held.make());
  const uint64_t began = now_ns();
  for (int i = 0; i < 10; ++i) ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, held.fence.get(), 0);
  CHECK(now_ns() - began < patience_ns / 4, "ten waits of no time took ", now_ns() - began, " ns");
  TRY(held.release());
  MUST(fence_wait, held.fence.get(), 0);
  return {};
}

REQUIRE("FE-005", host_call,
        "A wait ends with TIMEOUT when its time is over, not before and not much later.") {
  Held held(t);
  TRY(held.make());
  for (const uint64_t timeout : {1 * ms, 20 * ms, 60 * ms}) {
    const uint64_t began = now_ns();
    ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, held.fence.get(), timeout);
    const uint64_t took = now_ns() - began;
    CHECK(took + timeout / 20 >= timeout, "a wait of ", timeout, " ns ended after ", took);
    CHECK(took < timeout + patience_ns / 4, "a wait of ", timeout, " ns ended after ", took);
  }
  return held.release();
}

REQUIRE("FE-006", host_call, "A wait without limit ends when the fence passes.") {
  Held held(t);
  TRY(held.make());
  Outcome waited = Outcome::pending("not waited");
  std::thread waiter([&] {
    waited = t.expect(Site::current(), Want::exactly(WEIR_SUCCESS), "fence_wait",
                      t.table.fence_wait, held.fence.get(), UINT64_MAX);
  });
  held.gate.open();
  waiter.join();
  return waited;
}

REQUIRE("FE-007", always(), "Waits for a fence that has passed succeed at once, with any time.") {
  Stream stream(t);
  Fence fence(t);
  TRY(stream.create());
  TRY(fence.record(stream));
  TRY(fence.wait());
  for (const uint64_t timeout : {uint64_t{0}, uint64_t{1}, 1 * ms, UINT64_MAX - 1, UINT64_MAX})
    MUST(fence_wait, fence.get(), timeout);
  return {};
}

REQUIRE("FE-008", host_call,
        "A wait with a time that is almost without limit does not end early.") {
  Held held(t);
  TRY(held.make());
  std::atomic<bool> begun{false}, ended{false};
  Outcome waited = Outcome::pending("not waited");
  std::thread waiter([&] {
    begun = true;
    waited = t.expect(Site::current(), Want::exactly(WEIR_SUCCESS), "fence_wait",
                      t.table.fence_wait, held.fence.get(), UINT64_MAX - 1);
    ended = true;
  });
  // An overflow would end it at once; this wait gives it the time to do so.
  while (!begun.load()) std::this_thread::yield();
  const weir_result briefly = CALL(fence_wait, held.fence.get(), 20 * ms);
  const bool early = ended.load();
  held.gate.open();
  waiter.join();
  CHECK(briefly == WEIR_ERROR_TIMEOUT, "the fence has passed early: ", result_name(briefly));
  TRY(waited);
  CHECK(!early, "the wait ended before the fence passed");
  return {};
}

REQUIRE("FE-009", host_call, "A fence passes though work behind it is held up.") {
  Stream stream(t);
  Gate gate(t);
  Fence before(t), after(t);
  TRY(stream.create());
  TRY(before.record(stream));
  TRY(gate.hold(stream));
  TRY(after.record(stream));
  TRY(before.wait());
  ANSWERS(WEIR_NOT_READY, fence_poll, after.get());
  CHECK(!gate.gave_up(), "a fence waited for work behind it");
  gate.open();
  return after.wait();
}

REQUIRE("FE-010", host_call,
        "A fence stays as it was recorded: more work on its stream does not move it.") {
  Stream stream(t);
  Fence fence(t);
  Gate gate(t);
  TRY(stream.create());
  TRY(fence.record(stream));
  TRY(fence.wait());
  TRY(gate.hold(stream));
  TRY(gate.reached());
  Fence later(t);
  TRY(later.record(stream));
  for (int i = 0; i < 10; ++i) {
    MUST(fence_poll, fence.get());
    MUST(fence_wait, fence.get(), 0);
  }
  ANSWERS(WEIR_NOT_READY, fence_poll, later.get());
  gate.open();
  return later.wait();
}

REQUIRE("FE-011", host_call,
        "When a stream waits for a fence, its work waits and the thread does not.") {
  Held held(t);
  Mover mover(t);
  Plain plain(t);
  Fence after(t);
  TRY(held.make());
  TRY(mover.make(64 * kib));
  TRY(plain.allocate(64 * kib));
  TRY(mover.write(plain.address(), 64 * kib, 1));
  MUST(stream_wait, mover.stream.get(), held.fence.get());
  TRY(mover.stream.fill(plain.address(), 9, 64 * kib));
  TRY(after.record(mover.stream));
  for (int i = 0; i < 10; ++i) {
    ANSWERS(WEIR_NOT_READY, fence_poll, after.get());
    ANSWERS(WEIR_NOT_READY, stream_query, mover.stream.get());
  }
  // Read on a third stream: the fill has not run.
  Mover reader(t);
  TRY(reader.make(64 * kib));
  TRY(reader.check(plain.address(), 64 * kib, 1));
  TRY(held.release());
  TRY(after.wait());
  return reader.check_filled(plain.address(), 64 * kib, 9);
}

REQUIRE("FE-012", always(),
        "A stream that waits for another's fence sees what the other one wrote.") {
  constexpr uint64_t bytes = 4 * mib;
  Plain plain(t);
  Mover writer(t), reader(t);
  TRY(plain.allocate(bytes));
  TRY(writer.make(bytes));
  TRY(reader.make(bytes));
  for (uint64_t i = 0; i < 20; ++i) {
    make_pattern(writer.staging.bytes(), i);
    make_pattern(reader.staging.bytes(), 99);
    Fence written(t), read(t);
    TRY(writer.stream.copy(plain.address(), writer.staging.address(), bytes));
    TRY(written.record(writer.stream));
    MUST(stream_wait, reader.stream.get(), written.get());
    TRY(reader.stream.copy(reader.staging.address(), plain.address(), bytes));
    TRY(read.record(reader.stream));
    TRY(read.wait());
    TRY(check_pattern(reader.staging.bytes(), i, words("round ", i)));
  }
  return {};
}

REQUIRE("FE-013", always(), "A chain of waits over many streams hands bytes on in order.") {
  constexpr uint64_t bytes = 256 * kib;
  constexpr size_t links = 8;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<Plain>> memory;
  Pinned in(t), out(t);
  TRY(in.allocate(bytes));
  TRY(out.allocate(bytes));
  for (size_t i = 0; i < links; ++i) {
    streams.push_back(std::make_unique<Stream>(t));
    memory.push_back(std::make_unique<Plain>(t));
    TRY(streams[i]->create());
    TRY(memory[i]->allocate(bytes));
  }
  for (uint64_t round = 0; round < 10; ++round) {
    make_pattern(in.bytes(), round);
    std::vector<Fence> fences;
    uint64_t from = in.address();
    for (size_t i = 0; i < links; ++i) {
      if (i != 0) MUST(stream_wait, streams[i]->get(), fences.back().get());
      TRY(streams[i]->copy(memory[i]->address(), from, bytes));
      from = memory[i]->address();
      fences.emplace_back(t);
      TRY(fences.back().record(*streams[i]));
    }
    TRY(streams.back()->copy(out.address(), from, bytes));
    TRY(streams.back()->synchronize());
    TRY(check_pattern(out.bytes(), round, words("round ", round)));
  }
  return {};
}

REQUIRE("FE-014", host_call,
        "One fence holds up every stream that waits for it, and lets all of them go.") {
  Held held(t);
  TRY(held.make());
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<Fence> fences;
  for (size_t i = 0; i < 8; ++i) {
    streams.push_back(std::make_unique<Stream>(t));
    TRY(streams[i]->create());
    MUST(stream_wait, streams[i]->get(), held.fence.get());
    fences.emplace_back(t);
    TRY(fences.back().record(*streams[i]));
  }
  for (const Fence &fence : fences) ANSWERS(WEIR_NOT_READY, fence_poll, fence.get());
  TRY(held.release());
  for (Fence &fence : fences) TRY(fence.wait());
  return {};
}

REQUIRE("FE-015", always(), "A stream that waits for a fence of its own goes on.") {
  Stream stream(t);
  Fence fence(t), after(t);
  TRY(stream.create());
  TRY(fence.record(stream));
  MUST(stream_wait, stream.get(), fence.get());
  TRY(after.record(stream));
  return after.wait();
}

REQUIRE("FE-016", host_call, "A fence can be destroyed before it has passed.") {
  Held held(t);
  TRY(held.make());
  std::vector<Fence> fences;
  for (int i = 0; i < 16; ++i) {
    fences.emplace_back(t);
    TRY(fences.back().record(held.stream));
  }
  for (Fence &fence : fences) TRY(fence.destroy());
  ANSWERS(WEIR_NOT_READY, fence_poll, held.fence.get());
  TRY(held.release());
  return held.fence.wait();
}

REQUIRE("FE-017", host_call,
        "A stream that waits for a fence waits on when the fence is destroyed.") {
  Held held(t);
  Stream waiting(t);
  Fence after(t);
  TRY(held.make());
  TRY(waiting.create());
  MUST(stream_wait, waiting.get(), held.fence.get());
  TRY(held.fence.destroy());
  TRY(after.record(waiting));
  ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, after.get(), 10 * ms);
  TRY(held.release());
  return after.wait();
}

REQUIRE("FE-018", host_call, "A fence outlives its stream, whether it had passed or not.") {
  Held held(t);
  TRY(held.make());
  Stream other(t), waiting(t);
  Fence passed(t), after(t);
  TRY(other.create());
  TRY(passed.record(other));
  TRY(passed.wait());
  TRY(other.destroy());
  MUST(fence_poll, passed.get());
  TRY(waiting.create());
  MUST(stream_wait, waiting.get(), passed.get());
  MUST(stream_wait, waiting.get(), held.fence.get());
  TRY(after.record(waiting));
  held.gate.open();
  TRY(held.stream.destroy());
  TRY(held.fence.wait());
  return after.wait();
}

REQUIRE("FE-019", needs(WEIR_CAP_HOST_CALL, 2),
        "A stream of one device waits for a fence of another device.") {
  Held held(t);
  Stream other(t, t.other);
  Fence after(t);
  TRY(held.make());
  TRY(other.create());
  MUST(stream_wait, other.get(), held.fence.get());
  TRY(after.record(other));
  ANSWERS(WEIR_NOT_READY, fence_poll, after.get());
  TRY(held.release());
  return after.wait();
}

REQUIRE("FE-020", host_call, "Many threads wait for one fence, and all are let go.") {
  Held held(t);
  TRY(held.make());
  std::atomic<uint32_t> waiting{0};
  std::thread opener([&] {
    while (waiting.load() < 8) std::this_thread::yield();
    held.gate.open();
  });
  const Outcome outcome = in_threads(8, [&](uint32_t index) -> Outcome {
    const weir_result before = CALL(fence_poll, held.fence.get());
    waiting.fetch_add(1);
    CHECK(before == WEIR_NOT_READY, "thread ", index, " sees the held fence as ",
          result_name(before));
    MUST(fence_wait, held.fence.get(), patience_ns);
    MUST(fence_poll, held.fence.get());
    return {};
  });
  opener.join();
  return outcome;
}

REQUIRE("FE-021", always(),
        "When a fence has passed, so have the fences before it on its stream.") {
  constexpr uint64_t bytes = 256 * kib;
  Plain plain(t);
  Stream stream(t);
  TRY(plain.allocate(bytes));
  TRY(stream.create());
  for (int round = 0; round < 10; ++round) {
    std::vector<Fence> fences;
    for (uint8_t i = 0; i < 32; ++i) {
      TRY(stream.fill(plain.address(), i, bytes));
      fences.emplace_back(t);
      TRY(fences.back().record(stream));
    }
    TRY(fences[20].wait());
    for (size_t i = 0; i <= 20; ++i) MUST(fence_poll, fences[i].get());
    TRY(fences.back().wait());
  }
  return {};
}

REQUIRE("FE-022", always(), "Once passed a fence stays passed, for every thread.") {
  Stream stream(t);
  Plain plain(t);
  TRY(stream.create());
  TRY(plain.allocate(mib));
  std::vector<Fence> fences;
  for (int i = 0; i < 64; ++i) {
    fences.emplace_back(t);
    TRY(stream.fill(plain.address(), 1, 4096));
    TRY(fences.back().record(stream));
  }
  TRY(fences.back().wait());
  for (int i = 0; i < 16; ++i) TRY(stream.fill(plain.address(), 2, mib));
  TRY(in_threads(4, [&](uint32_t) -> Outcome {
    for (const Fence &fence : fences) {
      MUST(fence_poll, fence.get());
      MUST(fence_wait, fence.get(), 0);
    }
    return {};
  }));
  return stream.synchronize();
}

REQUIRE("FE-023", host_call, "Two waits for each other's earlier fences do not lock streams up.") {
  Stream a(t), b(t);
  Gate gate(t);
  TRY(a.create());
  TRY(b.create());
  TRY(gate.hold(a));
  std::vector<Fence> fences;
  for (int i = 0; i < 50; ++i) {
    fences.emplace_back(t);
    TRY(fences.back().record(a));
    MUST(stream_wait, b.get(), fences.back().get());
    fences.emplace_back(t);
    TRY(fences.back().record(b));
    MUST(stream_wait, a.get(), fences.back().get());
  }
  Fence end_a(t), end_b(t);
  TRY(end_a.record(a));
  TRY(end_b.record(b));
  ANSWERS(WEIR_NOT_READY, fence_poll, end_b.get());
  gate.open();
  TRY(end_a.wait());
  return end_b.wait();
}

}  // namespace
}  // namespace weir::conformance
