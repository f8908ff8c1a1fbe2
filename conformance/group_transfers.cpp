// SPDX-License-Identifier: Apache-2.0
//
// Streams for copies alone beside others, many at once, and what every stream says when it is asked whether it
// records a graph.
#include "conformance/shapes.hpp"

#include <algorithm>
#include <memory>

namespace weir::conformance {
namespace {

/// A stream with memory of its own.
struct Lane {
  Lane(Test &t, uint32_t device) : a(t, device), b(t, device), in(t), out(t), stream(t, device) {}
  Outcome make(uint64_t bytes, uint64_t flags) {
    TRY(a.allocate(bytes));
    TRY(b.allocate(bytes));
    TRY(in.allocate(bytes));
    TRY(out.allocate(bytes));
    return stream.create(flags);
  }
  Plain a, b;
  Pinned in, out;
  Stream stream;
};

/// Up, within and down, the second by a batch where there are batches.
Outcome enqueue(Test &t, const Shape &shape, Lane &lane, uint64_t bytes) {
  const uint64_t part = std::max<uint64_t>(bytes / 5, 1);
  TRY(lane.stream.fill(lane.b.address(), 1, bytes));
  TRY(lane.stream.copy(lane.a.address(), lane.in.address(), bytes));
  if (shape.has(WEIR_CAP_BATCH_COPY)) {
    std::vector<weir_be_copy> copies;
    for (uint64_t at = 0; at < bytes; at += part)
      copies.push_back({lane.b.address() + at, lane.a.address() + at, std::min(part, bytes - at)});
    TRY(batch(t, lane.stream, copies));
  } else {
    TRY(lane.stream.copy(lane.b.address(), lane.a.address(), bytes));
  }
  TRY(lane.stream.fill(lane.a.address(), 2, bytes));
  return lane.stream.copy(lane.out.address(), lane.b.address(), bytes);
}

/// One of the streams is held; the one after it waits for it, whichever of the two is for copies alone.
Outcome one_held(Test &t, const Shape &shape, std::vector<std::unique_ptr<Lane>> &lanes,
                 size_t held, uint64_t bytes) {
  Stream holder(t, shape.device);
  TRY(holder.create());
  Gate gate(t);
  Fence shut(t), behind(t), after(t);
  Settled settled(t, &gate);
  settled.add(holder);
  for (const auto &lane : lanes) settled.add(lane->stream);
  for (const auto &lane : lanes) {
    make_pattern(lane->in.bytes().first(bytes), 7);
    std::fill_n(lane->out.bytes().begin(), bytes, std::byte{0xEE});
  }
  Lane &first = *lanes[held], &second = *lanes[(held + 1) % lanes.size()];
  TRY(gate.hold(holder));
  TRY(shut.record(holder));
  TRY(gate.reached());
  TRY(waits(t, first.stream, shut));
  for (const auto &lane : lanes) {
    if (lane.get() == &second) TRY(waits(t, second.stream, behind));
    TRY(enqueue(t, shape, *lane, bytes));
    if (lane.get() == &first) TRY(behind.record(first.stream));
  }
  TRY(after.record(second.stream));
  for (const Fence *fence : {&behind, &after}) ANSWERS(WEIR_NOT_READY, fence_poll, fence->get());
  TRY(check_value(first.out.bytes().first(bytes), 0xEE, "the held stream's bytes"));
  TRY(check_value(second.out.bytes().first(bytes), 0xEE, "the waiting stream's bytes"));
  CHECK(!gate.gave_up(), "something waited for the held stream");
  gate.open();
  TRY(after.wait());
  // Only now: devices may hold up streams that have nothing to do with each other when there are many.
  for (const auto &lane : lanes) {
    if (lane.get() == &first || lane.get() == &second) continue;
    TRY(lane->stream.synchronize());
    TRY(check_pattern(lane->out.bytes().first(bytes), 7, "a stream beside a held one"));
  }
  TRY(check_pattern(first.out.bytes().first(bytes), 7, "the stream that was held"));
  return check_pattern(second.out.bytes().first(bytes), 7, "the stream that waited");
}

REQUIRE("ST-030", needs(WEIR_CAP_TRANSFER_STREAM),
        "Many streams for copies alone and many others work side by side on every device, with "
        "batches and waits.") {
  const Axes axes{{Owner::made}, {0}, WEIR_CAP_TRANSFER_STREAM};
  return shapes(t, axes, [&](const Shape &shape, Queue &) -> Outcome {
    constexpr size_t count = 8;
    std::vector<std::unique_ptr<Lane>> lanes;
    const uint64_t most = std::min(shape.budget / (4 * count), mib);
    for (size_t i = 0; i < count; ++i) {
      lanes.push_back(std::make_unique<Lane>(t, shape.device));
      TRY(lanes.back()->make(most, i % 2 == 0 ? WEIR_BE_STREAM_TRANSFER : 0));
    }
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{4097}, most}) {
      Settled settled(t);
      for (const auto &lane : lanes) settled.add(lane->stream);
      for (uint64_t i = 0; i < count; ++i) {
        make_pattern(lanes[i]->in.bytes().first(bytes), 100 + i);
        TRY(enqueue(t, shape, *lanes[i], bytes));
      }
      for (uint64_t i = 0; i < count; ++i) {
        TRY(lanes[i]->stream.synchronize());
        TRY(check_pattern(lanes[i]->out.bytes().first(bytes), 100 + i,
                          words("stream ", i, ", ", bytes, " bytes")));
      }
    }
    if (!shape.has(WEIR_CAP_HOST_CALL)) return {};
    // Not the last: its neighbour's turn comes before its own.
    for (const size_t held : {size_t{0}, size_t{1}, size_t{4}, size_t{5}})
      TRY(one_held(t, shape, lanes, held, std::min(most, 64 * kib)));
    return {};
  });
}

REQUIRE("ST-031", always(),
        "A stream that records no graph is said not to, idle, busy or held, whoever owns it.") {
  if (t.table.stream_check == nullptr) return t.nothing("streams cannot record graphs here");
  return shapes(t, {every_owner}, [&](const Shape &shape, Queue &queue) -> Outcome {
    constexpr uint64_t bytes = 256 * kib;
    Plain plain(t, shape.device);
    Pinned pinned(t);
    TRY(plain.allocate(bytes));
    TRY(pinned.allocate(bytes));
    Gate gate(t);
    Settled settled(t, &gate);
    settled.add(queue.use());
    const auto records_none = [&]() -> Outcome {
      for (int i = 0; i < 3; ++i) {
        MUST(stream_check, queue.use().get());
        MUST(stream_check, queue.owner().get());
      }
      return {};
    };
    TRY(records_none());
    for (int i = 0; i < 10; ++i) {
      TRY(queue.use().copy(plain.address(), pinned.address(), bytes));
      TRY(records_none());
    }
    const weir_be_copy nowhere{0, pinned.address(), bytes};
    REFUSED(copy_async, queue.use().get(), &nowhere);
    TRY(records_none());
    TRY(queue.use().synchronize());
    TRY(records_none());
    if (!shape.has(WEIR_CAP_HOST_CALL)) return {};
    TRY(queue.hold(gate));
    TRY(gate.reached());
    TRY(records_none());
    CHECK(!gate.gave_up(), "something waited for the held stream");
    gate.open();
    TRY(queue.use().synchronize());
    return records_none();
  });
}

}  // namespace
}  // namespace weir::conformance
