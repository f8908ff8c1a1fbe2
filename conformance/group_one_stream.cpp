// SPDX-License-Identifier: Apache-2.0
//
// Threads that use one stream at the same time. It was made by stream_create, so that any thread may; the order of what
// they enqueue is open, but a thread's own work keeps its order and its fences follow it. Every thread has places
// of its own in memory.
#include "conformance/shapes.hpp"

#include <memory>

namespace weir::conformance {
namespace {

constexpr uint64_t piece = 8 * kib;

/// What a thread has for itself.
struct Part {
  Part(Test &t, uint32_t device) : a(t, device), b(t, device), in(t), out(t) {}
  Outcome make() {
    TRY(a.allocate(piece));
    TRY(b.allocate(piece));
    TRY(in.allocate(piece));
    return out.allocate(piece);
  }
  Plain a, b;
  Pinned in, out;
};

/// What a thread's host function looks at.
struct Seen {
  std::span<std::byte> bytes;
  uint64_t seed = 0;
  std::atomic<uint32_t> calls{0};
  Outcome outcome;
};
void see(void *user) {
  Seen &self = *static_cast<Seen *>(user);
  self.outcome = check_pattern(self.bytes, self.seed, "host memory, seen by a host function");
  ++self.calls;
}

/// A round of one thread: what it has enqueued is done in its order when its fence passes.
Outcome round_of(Test &t, const Shape &shape, Stream &stream, Part &part, uint64_t seed) {
  Seen seen{part.out.bytes(), seed, {}, {}};
  Fence fence(t);
  const bool calls = shape.has(WEIR_CAP_HOST_CALL) && shape.owner != Owner::transfer;
  // The host function's words are here: whatever happens, the fence or the stream is waited for.
  Settled settled(t);
  settled.add(stream);
  make_pattern(part.in.bytes(), seed);
  std::fill(part.out.bytes().begin(), part.out.bytes().end(), std::byte{0xEE});
  TRY(stream.fill(part.a.address(), 1, piece));
  TRY(stream.copy(part.a.address(), part.in.address(), piece));
  if (shape.has(WEIR_CAP_BATCH_COPY)) {
    const uint64_t half = piece / 2;
    TRY(batch(t, stream,
              {{part.b.address(), part.a.address(), half},
               {part.b.address() + half, part.a.address() + half, half}}));
  } else {
    TRY(stream.copy(part.b.address(), part.a.address(), piece));
  }
  TRY(stream.fill(part.a.address(), 2, piece));
  TRY(stream.copy(part.out.address(), part.b.address(), piece));
  if (calls) MUST(stream_host_call, stream.get(), &see, &seen);
  TRY(fence.record(stream));
  EXPECT_IN(t, Want::either(WEIR_SUCCESS, WEIR_NOT_READY), stream_query, stream.get());
  EXPECT_IN(t, Want::either(WEIR_SUCCESS, WEIR_NOT_READY), fence_poll, fence.get());
  if (t.table.stream_check != nullptr) MUST(stream_check, stream.get());
  if (seed % 3 == 0) {
    TRY(stream.synchronize());
    MUST(fence_poll, fence.get());
  } else {
    TRY(fence.wait());
  }
  TRY(check_pattern(part.out.bytes(), seed, "when the thread's fence passed"));
  if (calls) {
    CHECK(seen.calls.load() == 1, "the thread's host function ran ", seen.calls.load(), " times");
    TRY(seen.outcome);
  }
  // By a fence of its own the thread waits on the stream, which then goes on.
  return waits(t, stream, fence);
}

REQUIRE("TH-019", always(),
        "Threads use one stream at the same time; each one's work keeps its order, and its fences "
        "follow it.") {
  constexpr uint32_t most = 16;
  return shapes(t, {{Owner::made, Owner::transfer}},
                [&](const Shape &shape, Queue &queue) -> Outcome {
                  std::vector<std::unique_ptr<Part>> parts;
                  for (uint32_t i = 0; i < most; ++i) {
                    parts.push_back(std::make_unique<Part>(t, shape.device));
                    TRY(parts.back()->make());
                  }
                  Settled settled(t);
                  settled.add(queue.use());
                  for (const uint32_t count : {uint32_t{4}, most}) {
                    const uint64_t rounds = count == most ? 12 : 30;
                    Meeting meeting(count);
                    TRY(in_threads(count, [&](uint32_t index) -> Outcome {
                      Meeting::Guest guest(meeting);
                      for (uint64_t i = 0; i < rounds; ++i) {
                        if (i < 10) guest.wait();
                        TRY(round_of(t, shape, queue.use(), *parts[index], index * 1000 + i));
                      }
                      return {};
                    }));
                  }
                  return {};
                });
}

}  // namespace
}  // namespace weir::conformance
