// SPDX-License-Identifier: Apache-2.0
//
// Streams: order within one, none between two, and whose they are.
#include "conformance/fixtures.hpp"

#include <memory>

namespace weir::conformance {
namespace {

/// The pattern's bytes but for those at `places`.
Outcome check_pattern_but(std::span<std::byte> bytes, uint64_t seed,
                          std::initializer_list<uint64_t> places) {
  std::vector<std::byte> wanted(bytes.size());
  make_pattern(wanted, seed);
  for (const uint64_t place : places) wanted[place] = bytes[place];
  return check_same(bytes, wanted, "what was copied");
}

REQUIRE("ST-001", always(), "A stream can be created, is not NULL, and has nothing to do.") {
  weir_be_stream stream = nullptr;
  MUST(stream_create, t.device, 0, &stream);
  CHECK(stream != nullptr, "the stream is NULL");
  MUST(stream_query, stream);
  MUST(stream_synchronize, stream);
  MUST(stream_destroy, stream);
  return {};
}

REQUIRE("ST-002", always(), "Unknown flags of a stream are refused.") {
  auto *const as_before = reinterpret_cast<weir_be_stream>(&t);
  weir_be_stream stream = as_before;
  REFUSED(stream_create, t.device, uint64_t{1} << 40U, &stream);
  CHECK(stream == as_before, "the refused call wrote a stream");
  return {};
}

REQUIRE("ST-003", always(), "No stream is made on a device that does not exist.") {
  auto *const as_before = reinterpret_cast<weir_be_stream>(&t);
  weir_be_stream stream = as_before;
  REFUSED(stream_create, t.no_device(), 0, &stream);
  CHECK(stream == as_before, "the refused call wrote a stream");
  return {};
}

/// Everything is enqueued while the stream is held, so that an operation that reads or writes too early leaves wrong bytes every
/// time. Few calls, because a driver may block its caller when many are outstanding.
Outcome runs_in_its_turn(Session &t, Stream &stream, const Plain &a, const Plain &b, Pinned &in,
                         Pinned &out, uint64_t bytes) {
  Gate gate(t);
  make_pattern(in.bytes(), 7);
  make_pattern(out.bytes(), 99);
  TRY(gate.hold(stream));
  TRY(gate.reached());
  TRY(stream.copy(a.address(), in.address(), bytes));
  TRY(stream.copy(b.address(), a.address(), bytes));
  TRY(stream.fill(a.address(), 0x11, bytes));
  TRY(stream.copy(out.address(), b.address(), bytes));
  gate.open();
  TRY(stream.synchronize());
  CHECK(!gate.gave_up(), "the gate was not opened in time");
  return check_pattern(out.bytes(), 7, "after a stream that was held");
}

REQUIRE("ST-004", always(), "A stream runs its work in the order in which it was enqueued.") {
  constexpr uint64_t bytes = 256 * kib;
  constexpr uint64_t steps = 64;
  Plain a(t), b(t);
  Stream stream(t);
  Pinned in(t), out(t);
  TRY(a.allocate(bytes));
  TRY(b.allocate(bytes));
  TRY(stream.create());
  TRY(in.allocate(bytes));
  TRY(out.allocate(bytes));
  if (t.has(WEIR_CAP_HOST_CALL)) TRY(runs_in_its_turn(t, stream, a, b, in, out, bytes));
  for (uint64_t round = 0; round < 10; ++round) {
    make_pattern(in.bytes(), round);
    make_pattern(out.bytes(), 99);
    TRY(stream.copy(a.address(), in.address(), bytes));
    for (uint64_t i = 0; i < steps; ++i) {
      // Each copy reads what the one before it wrote, and then its source is spoilt.
      const bool forth = i % 2 == 0;
      const Plain &from = forth ? a : b, &to = forth ? b : a;
      TRY(stream.copy(to.address(), from.address(), bytes));
      TRY(stream.fill(from.address(), static_cast<uint8_t>(i), bytes));
    }
    TRY(stream.copy(out.address(), a.address(), bytes));
    TRY(stream.synchronize());
    TRY(check_pattern(out.bytes(), round, words("round ", round)));
  }
  return {};
}

REQUIRE("ST-005", always(), "Synchronizing waits for everything that was enqueued.") {
  constexpr uint64_t bytes = 4 * mib;
  Plain plain(t);
  Mover mover(t);
  TRY(plain.allocate(bytes));
  TRY(mover.make(bytes));
  for (uint8_t i = 0; i < 10; ++i) {
    std::fill(mover.staging.bytes().begin(), mover.staging.bytes().end(), std::byte{0xEE});
    TRY(mover.stream.fill(plain.address(), i, bytes));
    TRY(mover.stream.copy(mover.staging.address(), plain.address(), bytes));
    TRY(mover.stream.synchronize());
    TRY(check_value(mover.staging.bytes(), i, words("after synchronize ", uint32_t{i})));
    MUST(stream_query, mover.stream.get());
  }
  return {};
}

REQUIRE("ST-006", host_call,
        "A stream with unfinished work is NOT_READY, and SUCCESS when it has finished.") {
  Stream stream(t);
  Gate gate(t);
  TRY(stream.create());
  TRY(gate.hold(stream));
  TRY(gate.reached());
  for (int i = 0; i < 10; ++i) ANSWERS(WEIR_NOT_READY, stream_query, stream.get());
  gate.open();
  TRY(stream.synchronize());
  MUST(stream_query, stream.get());
  CHECK(!gate.gave_up(), "the gate was not opened in time");
  return {};
}

REQUIRE("ST-007", always(),
        "The native stream of a stream is the same each time, and not another stream's.") {
  Stream a(t), b(t);
  TRY(a.create());
  TRY(b.create());
  void *first = nullptr, *again = nullptr, *other = nullptr;
  MUST(stream_native, a.get(), &first);
  MUST(stream_native, a.get(), &again);
  MUST(stream_native, b.get(), &other);
  CHECK(first == again, "the native stream is ", first, " and then ", again);
  CHECK(first != other, "two streams have the native stream ", first);
  return {};
}

REQUIRE("ST-008", always(),
        "A wrapped stream is the same queue: work through the wrapper and through the stream is in "
        "one order.") {
  constexpr uint64_t bytes = 256 * kib;
  Mover mover(t);
  Plain plain(t);
  TRY(mover.make(bytes));
  TRY(plain.allocate(bytes));
  void *native = nullptr;
  MUST(stream_native, mover.stream.get(), &native);
  Stream wrapper(t);
  TRY(wrapper.wrap(native));
  void *behind = nullptr;
  MUST(stream_native, wrapper.get(), &behind);
  CHECK(behind == native, "the wrapper of ", native, " says that it wraps ", behind);
  for (uint64_t i = 0; i < 10; ++i) {
    make_pattern(mover.staging.bytes(), i);
    TRY(wrapper.fill(plain.address(), 1, bytes));
    TRY(mover.stream.copy(plain.address(), mover.staging.address(), bytes));
    TRY(wrapper.synchronize());
    TRY(wrapper.copy(mover.staging.address(), plain.address(), bytes));
    TRY(mover.stream.fill(plain.address(), 2, bytes));
    TRY(mover.stream.synchronize());
    TRY(check_pattern(mover.staging.bytes(), i, words("round ", i)));
  }
  return {};
}

REQUIRE("ST-009", always(), "Ending a wrapper leaves the stream that it wrapped.") {
  Mover mover(t);
  Plain plain(t);
  TRY(mover.make(64 * kib));
  TRY(plain.allocate(64 * kib));
  void *native = nullptr;
  MUST(stream_native, mover.stream.get(), &native);
  for (uint64_t i = 0; i < 3; ++i) {
    Stream wrapper(t);
    TRY(wrapper.wrap(native));
    TRY(wrapper.fill(plain.address(), 1, 64 * kib));
    TRY(wrapper.destroy());
    TRY(mover.write(plain.address(), 64 * kib, i));
    TRY(mover.check(plain.address(), 64 * kib, i));
  }
  return {};
}

REQUIRE("ST-010", always(),
        "NULL wraps the runtime's default stream, or is INVALID_ARGUMENT where it has none.") {
  auto *const as_before = reinterpret_cast<weir_be_stream>(&t);
  weir_be_stream stream = as_before;
  ANSWERS_EITHER(WEIR_SUCCESS, WEIR_ERROR_INVALID_ARGUMENT, stream_wrap, t.device, nullptr,
                 &stream);
  if (stream == as_before) {
    t.note("there is no default stream");
    return {};
  }
  Plain plain(t);
  Pinned pinned(t);
  TRY(plain.allocate(64 * kib));
  TRY(pinned.allocate(64 * kib));
  MUST(fill_async, stream, plain.address(), 9, 64 * kib);
  const weir_be_copy copy{pinned.address(), plain.address(), 64 * kib};
  MUST(copy_async, stream, &copy);
  MUST(stream_synchronize, stream);
  TRY(check_value(pinned.bytes(), 9, "memory filled on the default stream"));
  MUST(stream_destroy, stream);
  return {};
}

REQUIRE("ST-011", always(), "A stream that is destroyed finishes its work.") {
  constexpr uint64_t bytes = 4 * mib;
  Plain plain(t);
  Pinned pinned(t);
  TRY(plain.allocate(bytes));
  TRY(pinned.allocate(bytes));
  for (uint64_t i = 1; i < 6; ++i) {
    std::fill(pinned.bytes().begin(), pinned.bytes().end(), std::byte{0xEE});
    Stream stream(t);
    Fence fence(t);
    TRY(stream.create());
    TRY(stream.fill(plain.address(), static_cast<uint8_t>(i), bytes));
    TRY(stream.copy(pinned.address(), plain.address(), bytes));
    TRY(fence.record(stream));
    TRY(stream.destroy());
    TRY(fence.wait());
    TRY(check_value(pinned.bytes(), static_cast<uint8_t>(i),
                    "memory copied on a stream that is gone"));
  }
  return {};
}

REQUIRE("ST-012", host_call, "Work of one stream goes on while another stream is held up.") {
  Stream held(t);
  Gate gate(t);
  Mover mover(t);
  Plain plain(t);
  TRY(mover.make(mib));
  TRY(plain.allocate(mib));
  TRY(held.create());
  TRY(gate.hold(held));
  TRY(gate.reached());
  TRY(mover.write(plain.address(), mib, 1));
  TRY(mover.check(plain.address(), mib, 1));
  ANSWERS(WEIR_NOT_READY, stream_query, held.get());
  CHECK(!gate.gave_up(), "a copy waited for a stream that it has nothing to do with");
  gate.open();
  return held.synchronize();
}

REQUIRE("ST-013", host_call, "Enqueueing does not wait for work that the stream has still to do.") {
  constexpr uint64_t bytes = 64 * kib;
  Mover mover(t);
  Plain plain(t);
  Gate gate(t);
  Fence fence(t);
  TRY(mover.make(bytes));
  TRY(plain.allocate(bytes));
  make_pattern(mover.staging.bytes(), 1);
  TRY(gate.hold(mover.stream));
  TRY(gate.reached());
  for (int i = 0; i < 20; ++i) {
    TRY(mover.stream.fill(plain.address(), 3, bytes));
    TRY(mover.stream.copy(plain.address(), mover.staging.address(), bytes));
  }
  TRY(fence.record(mover.stream));
  ANSWERS(WEIR_NOT_READY, fence_poll, fence.get());
  CHECK(!gate.gave_up(), "enqueueing waited for the stream");
  gate.open();
  TRY(fence.wait());
  return mover.check(plain.address(), bytes, 1);
}

REQUIRE("ST-014", host_call,
        "A host function runs once, with its own word, in the stream's order.") {
  struct Call {
    std::vector<int> *order;
    int index;
  };
  std::vector<int> order;
  std::vector<Call> calls;
  for (int i = 0; i < 100; ++i) calls.push_back({&order, i});
  Stream stream(t);
  TRY(stream.create());
  for (Call &call : calls) {
    MUST(
        stream_host_call, stream.get(),
        [](void *user) {
          const Call &self = *static_cast<Call *>(user);
          self.order->push_back(self.index);
        },
        &call);
  }
  TRY(stream.synchronize());
  CHECK(order.size() == calls.size(), order.size(), " calls of ", calls.size(), " were made");
  for (int i = 0; i < 100; ++i)
    CHECK(order[static_cast<size_t>(i)] == i, "call ", order[static_cast<size_t>(i)],
          " came as number ", i);
  return {};
}

REQUIRE("ST-015", host_call,
        "A host function sees what was copied before it, and a copy after it sees what it wrote.") {
  constexpr uint64_t bytes = mib;
  struct Scene {
    std::span<std::byte> bytes;
    bool right = false;
  };
  Plain plain(t);
  Pinned pinned(t);
  Stream stream(t);
  TRY(plain.allocate(bytes));
  TRY(pinned.allocate(bytes));
  TRY(stream.create());
  for (int i = 0; i < 10; ++i) {
    Scene scene{pinned.bytes()};
    make_pattern(pinned.bytes(), 7);
    TRY(stream.fill(plain.address(), 5, bytes));
    TRY(stream.copy(pinned.address(), plain.address(), bytes));
    MUST(
        stream_host_call, stream.get(),
        [](void *user) {
          Scene &self = *static_cast<Scene *>(user);
          self.right = check_value(self.bytes, 5, "").passed();
          std::fill(self.bytes.begin(), self.bytes.end(), std::byte{6});
        },
        &scene);
    TRY(stream.copy(plain.address(), pinned.address(), bytes));
    TRY(stream.fill(plain.address() + bytes / 2, 8, 1));
    TRY(stream.copy(pinned.address(), plain.address(), bytes));
    TRY(stream.synchronize());
    CHECK(scene.right, "the host function did not see the bytes that were copied before it");
    CHECK(pinned.bytes()[bytes / 2] == std::byte{8}, "the fill after the host function is missing");
    pinned.bytes()[bytes / 2] = std::byte{6};
    TRY(check_value(pinned.bytes(), 6, "what the host function wrote"));
  }
  return {};
}

REQUIRE("ST-016", needs(0, 2), "Streams of all devices work side by side.") {
  std::vector<std::unique_ptr<Mover>> movers;
  std::vector<std::unique_ptr<Plain>> memory;
  for (uint32_t i = 0; i < t.device_count; ++i) {
    movers.push_back(std::make_unique<Mover>(t, i));
    memory.push_back(std::make_unique<Plain>(t, i));
    TRY(movers[i]->make(mib));
    TRY(memory[i]->allocate(mib));
  }
  for (uint64_t round = 0; round < 5; ++round) {
    for (uint32_t i = 0; i < t.device_count; ++i) {
      make_pattern(movers[i]->staging.bytes(), round * 100 + i);
      TRY(movers[i]->stream.copy(memory[i]->address(), movers[i]->staging.address(), mib));
    }
    for (uint32_t i = 0; i < t.device_count; ++i) {
      TRY(movers[i]->stream.synchronize());
      TRY(movers[i]->check(memory[i]->address(), mib, round * 100 + i));
    }
  }
  return {};
}

REQUIRE("ST-017", always(),
        "Where streams are asked whether they record a graph, an ordinary one is not.") {
  if (t.table.stream_check == nullptr) return t.nothing("streams cannot record graphs here");
  Mover mover(t);
  Plain plain(t);
  TRY(mover.make(mib));
  TRY(plain.allocate(mib));
  MUST(stream_check, mover.stream.get());
  TRY(mover.stream.copy(plain.address(), mover.staging.address(), mib));
  MUST(stream_check, mover.stream.get());
  TRY(mover.stream.synchronize());
  MUST(stream_check, mover.stream.get());
  return {};
}

REQUIRE("ST-018", always(),
        "Streams can be made and destroyed any number of times; no descriptors or threads are left "
        "behind.") {
  const auto round = [&t]() -> Outcome {
    Stream stream(t);
    Fence fence(t);
    TRY(stream.create());
    TRY(fence.record(stream));
    return fence.wait();
  };
  for (int i = 0; i < 20; ++i) TRY(round());
  const Holdings before_all = holdings();
  for (int i = 0; i < 300; ++i) TRY(round());
  return holdings_back(before_all, 4);
}

REQUIRE("ST-019", needs(WEIR_CAP_STREAM_ANY_THREAD),
        "With STREAM_ANY_THREAD another thread records on a wrapped stream, and enqueues on it.") {
  Mover mover(t);
  Plain plain(t);
  TRY(mover.make(mib));
  TRY(plain.allocate(mib));
  void *native = nullptr;
  MUST(stream_native, mover.stream.get(), &native);
  Stream wrapper(t);
  TRY(wrapper.wrap(native));
  TRY(in_threads(4, [&](uint32_t) -> Outcome {
    for (int i = 0; i < 50; ++i) {
      Fence fence(t);
      TRY(wrapper.fill(plain.address(), 4, mib / 4));
      TRY(fence.record(wrapper));
      TRY(fence.wait());
    }
    return {};
  }));
  return mover.check_filled(plain.address(), mib / 4, 4);
}

REQUIRE("ST-020", host_call, "A fence that was recorded on a wrapper outlives it.") {
  Stream stream(t), wrapper(t);
  Gate gate(t);
  Fence fence(t);
  TRY(stream.create());
  void *native = nullptr;
  MUST(stream_native, stream.get(), &native);
  TRY(wrapper.wrap(native));
  TRY(gate.hold(wrapper));
  TRY(fence.record(wrapper));
  TRY(wrapper.destroy());
  ANSWERS(WEIR_NOT_READY, fence_poll, fence.get());
  CHECK(!gate.gave_up(), "ending the wrapper waited for its stream's work");
  gate.open();
  return fence.wait();
}

REQUIRE("ST-021", needs(WEIR_CAP_TRANSFER_STREAM),
        "A stream for copies alone copies and fills every byte, in its order.") {
  constexpr uint64_t bytes = 64 * kib + 5;
  Stream stream(t);
  Plain plain(t);
  Pinned in(t), out(t);
  TRY(stream.create(WEIR_BE_STREAM_TRANSFER));
  TRY(plain.allocate(2 * bytes));
  TRY(in.allocate(bytes));
  TRY(out.allocate(bytes));
  for (uint64_t i = 0; i < 10; ++i) {
    make_pattern(in.bytes(), i);
    TRY(stream.fill(plain.address(), 0x5A, 2 * bytes));
    TRY(stream.copy(plain.address() + 3, in.address(), bytes));
    TRY(stream.fill(plain.address() + 3, 0x77, 1));
    TRY(stream.copy(plain.address() + bytes - 1, plain.address() + 3, 1));
    TRY(stream.copy(out.address(), plain.address() + 3, bytes));
    TRY(stream.synchronize());
    CHECK(out.bytes()[0] == std::byte{0x77}, "the first byte is not the last fill's");
    CHECK(out.bytes()[bytes - 4] == std::byte{0x77}, "a byte is not the last copy's");
    TRY(check_pattern_but(out.bytes(), i, {0, bytes - 4}));
    TRY(stream.copy(out.address(), plain.address() + 3 + bytes, bytes - 3));
    TRY(stream.synchronize());
    TRY(check_value(out.bytes().first(bytes - 3), 0x5A, "the bytes behind the copy"));
  }
  return {};
}

REQUIRE("ST-022", needs(WEIR_CAP_TRANSFER_STREAM),
        "Fences order a stream for copies alone and other streams, both ways.") {
  constexpr uint64_t bytes = 256 * kib;
  Stream transfer(t), other(t);
  Plain plain(t);
  Pinned in(t), out(t);
  TRY(transfer.create(WEIR_BE_STREAM_TRANSFER));
  TRY(other.create());
  TRY(plain.allocate(2 * bytes));
  TRY(in.allocate(bytes));
  TRY(out.allocate(bytes));
  for (uint64_t i = 0; i < 20; ++i) {
    Fence up(t), across(t);
    make_pattern(in.bytes(), i);
    TRY(transfer.copy(plain.address(), in.address(), bytes));
    TRY(up.record(transfer));
    MUST(stream_wait, other.get(), up.get());
    TRY(other.copy(plain.address() + bytes, plain.address(), bytes));
    TRY(across.record(other));
    MUST(stream_wait, transfer.get(), across.get());
    TRY(transfer.copy(out.address(), plain.address() + bytes, bytes));
    TRY(transfer.synchronize());
    TRY(check_pattern(out.bytes(), i, words("round ", i)));
  }
  return {};
}

}  // namespace
}  // namespace weir::conformance
