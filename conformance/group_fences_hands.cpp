// SPDX-License-Identifier: Apache-2.0
//
// Fences from hand to hand: between streams of any owner and device, along long chains, and threads that wait for them
// in different ways without being in each other's way. Bytes between devices go through host memory.
#include "conformance/shapes.hpp"

#include <array>
#include <memory>
#include <thread>

namespace weir::conformance {
namespace {

constexpr uint64_t bytes = 2 * kib;

/// A queue of a device with a piece of its memory, which passes bytes on from one place of the host to another.
struct Hop {
  Hop(Test &t, Owner owner, uint32_t device) : memory(t, device), queue(t, owner, device) {}
  Outcome make(bool *there) {
    TRY(memory.allocate(bytes));
    return queue.make(there);
  }
  Outcome pass(uint64_t to, uint64_t from) {
    TRY(queue.use().copy(memory.address(), from, bytes));
    return queue.use().copy(to, memory.address(), bytes);
  }
  Plain memory;
  Queue queue;
};

enum class Mode : uint8_t { held, passed, gone, destroyed };
constexpr const char *mode_names[] = {"a fence that has not passed", "a fence that has passed",
                                      "a fence whose stream is gone",
                                      "a fence that is destroyed meanwhile"};

/// Bytes go from one queue to another, which waits for the first one's fence.
Outcome handed(Test &t, const Shape &shape, Hop &from, Hop &to, std::array<Pinned, 3> &host,
               Mode mode, uint64_t seed) {
  make_pattern(host[0].bytes(), seed);
  for (const size_t each : {size_t{1}, size_t{2}})
    std::fill(host[each].bytes().begin(), host[each].bytes().end(), std::byte{0xEE});
  Gate gate(t);
  Fence fence(t), after(t);
  Settled settled(t, &gate);
  settled.add(from.queue.use());
  settled.add(to.queue.use());
  const bool holds = shape.has(WEIR_CAP_HOST_CALL) && mode != Mode::passed && mode != Mode::gone;
  if (holds) {
    TRY(from.queue.hold(gate));
    TRY(gate.reached());
  }
  TRY(from.pass(host[1].address(), host[0].address()));
  TRY(fence.record(from.queue.use()));
  if (mode == Mode::passed) TRY(fence.wait());
  if (mode == Mode::gone) TRY(from.queue.end());
  TRY(waits(t, to.queue.use(), fence));
  TRY(to.pass(host[2].address(), host[1].address()));
  TRY(after.record(to.queue.use()));
  if (mode == Mode::destroyed) TRY(fence.destroy());
  if (holds) {
    ANSWERS(WEIR_NOT_READY, fence_poll, after.get());
    CHECK(!gate.gave_up(), "something waited for the held stream");
  }
  gate.open();
  TRY(after.wait());
  return check_pattern(host[2].bytes(), seed, "what was handed on");
}

REQUIRE("FE-027", always(),
        "Fences order streams of all owners and devices, passed or not, and the bytes are there.") {
  std::array<Pinned, 3> host{Pinned(t), Pinned(t), Pinned(t)};
  for (Pinned &each : host) TRY(each.allocate(bytes));
  uint64_t seed = 0;
  return shapes(t, {every_owner}, [&](const Shape &shape, Queue &) -> Outcome {
    for (uint32_t step = 0; step < std::min(t.device_count, 2U); ++step) {
      const uint32_t device = (shape.device + step) % t.device_count;
      weir_be_device about;
      TRY(t.describe(device, &about));
      for (const Owner owner : every_owner) {
        if (owner == Owner::transfer && (about.capabilities & WEIR_CAP_TRANSFER_STREAM) == 0)
          continue;
        Hop from(t, shape.owner, shape.device), to(t, owner, device);
        bool there = false;
        TRY(from.make(&there));
        TRY(to.make(&there));
        if (!there) continue;
        // The last of them ends the stream.
        for (const Mode mode : {Mode::held, Mode::passed, Mode::destroyed, Mode::gone}) {
          const Outcome outcome = handed(t, shape, from, to, host, mode, ++seed);
          if (outcome.passed()) continue;
          return Outcome::failure(words(mode_names[static_cast<size_t>(mode)], ", waited for by ",
                                        owner_name(owner), " of device ", device, ": ",
                                        outcome.text()));
        }
      }
    }
    return {};
  });
}

REQUIRE("FE-028", host_call,
        "Threads wait for one fence with different times, and each is answered by its own.") {
  const Axes axes{{Owner::made, Owner::wrapped}, {0}, WEIR_CAP_HOST_CALL};
  return shapes(t, axes, [&](const Shape &, Queue &queue) -> Outcome {
    constexpr std::array<uint64_t, 6> brief{0, 1, 1'000, 999'999, 1'000'000, 20'000'000};
    constexpr auto short_ones = static_cast<uint32_t>(brief.size());
    Gate gate(t);
    Fence fence(t), second(t);
    Settled settled(t, &gate);
    settled.add(queue.use());
    TRY(queue.hold(gate));
    TRY(fence.record(queue.use()));
    TRY(second.record(queue.use()));
    TRY(gate.reached());
    std::atomic<uint32_t> over{0};
    std::atomic<bool> opened{false};
    TRY(in_threads(short_ones + 3, [&](uint32_t index) -> Outcome {
      if (index < short_ones) {
        // The gate opens when all of these have been answered.
        const auto wait = [&]() -> Outcome {
          for (int i = 0; i < 3; ++i)
            ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, fence.get(), brief[index]);
          return {};
        };
        const Outcome waited = wait();
        if (++over == short_ones) {
          opened = true;
          gate.open();
        }
        return waited;
      }
      if (index == short_ones) {
        TRY(second.destroy());
        MUST(fence_wait, fence.get(), UINT64_MAX);
      } else if (index == short_ones + 1) {
        MUST(fence_wait, fence.get(), patience_ns);
      } else {
        const uint64_t end = now_ns() + patience_ns;
        while (CALL(fence_poll, fence.get()) == WEIR_NOT_READY && now_ns() < end)
          std::this_thread::yield();
        MUST(fence_poll, fence.get());
      }
      CHECK(opened.load(), "a wait ended before the fence had passed");
      return {};
    }));
    CHECK(!gate.gave_up(), "something waited for the held stream");
    return {};
  });
}

/// What other threads do while one waits; none of it needs the held stream's work to be done.
Outcome life_goes_on(Test &t, const Shape &shape, Stream &held, Stream &stream, Plain &plain,
                     Pinned &pinned) {
  void *native = nullptr;
  MUST(stream_native, held.get(), &native);
  for (uint64_t i = 0; i < 5; ++i) {
    Fence fence(t), behind(t);
    TRY(behind.record(held));
    ANSWERS(WEIR_NOT_READY, fence_poll, behind.get());
    ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, behind.get(), 1000);
    ANSWERS(WEIR_NOT_READY, stream_query, held.get());
    make_pattern(pinned.bytes().first(bytes), i);
    TRY(stream.fill(plain.address(), 1, 2 * bytes));
    TRY(stream.copy(plain.address(), pinned.address(), bytes));
    if (shape.has(WEIR_CAP_BATCH_COPY)) {
      TRY(batch(t, stream,
                {{plain.address() + bytes, plain.address(), bytes / 2},
                 {plain.address() + bytes + bytes / 2, plain.address() + bytes / 2, bytes / 2}}));
    } else {
      TRY(stream.copy(plain.address() + bytes, plain.address(), bytes));
    }
    TRY(stream.copy(pinned.address() + bytes, plain.address() + bytes, bytes));
    TRY(fence.record(stream));
    TRY(waits(t, stream, fence));
    TRY(fence.wait());
    TRY(check_pattern(pinned.bytes().subspan(bytes), i, "a copy on another stream"));
    TRY(stream.synchronize());
    MUST(stream_query, stream.get());
    if (t.table.stream_check != nullptr) {
      MUST(stream_check, stream.get());
      MUST(stream_check, held.get());
    }
    Stream wrapper(t, shape.device);
    TRY(wrapper.wrap(native));
    ANSWERS(WEIR_NOT_READY, stream_query, wrapper.get());
    TRY(wrapper.destroy());
    weir_be_device about;
    uint64_t free_bytes = 0, total = 0, address = 0;
    TRY(t.describe(shape.device, &about));
    MUST(device_memory, shape.device, &free_bytes, &total);
    REFUSED(plain_allocate, shape.device, 0, 4096, &address);
    CHECK(CALL_IN(t, last_error_code) != 0, "a refused call leaves no code");
    REFUSED(fill_async, stream.get(), 0, 1, 64);
  }
  return {};
}

REQUIRE("FE-029", host_call, "Who waits for a fence or a stream holds up nobody else.") {
  const Axes axes{{Owner::made}, {0}, WEIR_CAP_HOST_CALL};
  return shapes(t, axes, [&](const Shape &shape, Queue &queue) -> Outcome {
    Plain plain(t, shape.device);
    Pinned pinned(t);
    Stream stream(t, shape.device);
    TRY(plain.allocate(2 * bytes));
    TRY(pinned.allocate(2 * bytes));
    TRY(stream.create());
    Gate gate(t);
    Fence fence(t);
    Settled settled(t, &gate);
    settled.add(queue.use());
    settled.add(stream);
    TRY(queue.hold(gate));
    TRY(fence.record(queue.use()));
    TRY(gate.reached());
    std::atomic<uint32_t> waiting{0}, ended{0};
    Outcome by_fence, by_stream, went_on;
    std::thread first([&] {
      ++waiting;
      by_fence = t.expect(Site::current(), Want::exactly(WEIR_SUCCESS), "fence_wait",
                          t.table.fence_wait, fence.get(), UINT64_MAX);
      ++ended;
    });
    std::thread second([&] {
      ++waiting;
      by_stream = queue.use().synchronize();
      ++ended;
    });
    while (waiting.load() < 2) std::this_thread::yield();
    went_on = life_goes_on(t, shape, queue.use(), stream, plain, pinned);
    const bool early = ended.load() != 0, late = gate.gave_up();
    gate.open();
    first.join();
    second.join();
    TRY(went_on);
    CHECK(!late, "something waited for the held stream");
    CHECK(!early, "a wait ended before the stream had done its work");
    TRY(by_fence);
    return by_stream;
  });
}

REQUIRE("FE-031", always(),
        "A chain of waits over 64 streams of all owners and devices hands bytes on.") {
  constexpr uint32_t links = 64;
  std::vector<std::unique_ptr<Pinned>> host;
  std::vector<std::unique_ptr<Hop>> hops;
  for (uint32_t i = 0; i <= links; ++i) {
    host.push_back(std::make_unique<Pinned>(t));
    TRY(host.back()->allocate(bytes));
  }
  for (uint32_t i = 0; i < links; ++i) {
    const uint32_t device = (t.device + i) % t.device_count;
    weir_be_device about;
    TRY(t.describe(device, &about));
    Owner owner = every_owner[i / t.device_count % every_owner.size()];
    if (owner == Owner::transfer && (about.capabilities & WEIR_CAP_TRANSFER_STREAM) == 0)
      owner = Owner::made;
    bool there = false;
    hops.push_back(std::make_unique<Hop>(t, owner, device));
    TRY(hops.back()->make(&there));
    if (there) continue;
    hops.back() = std::make_unique<Hop>(t, Owner::made, device);
    TRY(hops.back()->make(&there));
  }
  std::vector<Fence> fences;
  fences.reserve(links * 16);
  Gate gate(t);
  Settled settled(t, &gate);
  for (const auto &hop : hops) settled.add(hop->queue.use());
  for (uint64_t round = 0; round < 16; ++round) {
    const bool holds = round == 0 && t.has(WEIR_CAP_HOST_CALL);
    make_pattern(host[0]->bytes(), round);
    if (holds) TRY(hops[0]->queue.hold(gate));
    for (uint32_t i = 0; i < links; ++i) {
      if (i != 0) TRY(waits(t, hops[i]->queue.use(), fences.back()));
      TRY(hops[i]->pass(host[i + 1]->address(), host[i]->address()));
      fences.emplace_back(t);
      TRY(fences.back().record(hops[i]->queue.use()));
    }
    if (holds) {
      for (uint32_t i = 0; i < links; i += 7) ANSWERS(WEIR_NOT_READY, fence_poll, fences[i].get());
      ANSWERS(WEIR_NOT_READY, fence_poll, fences.back().get());
      CHECK(!gate.gave_up(), "something waited for the held stream");
      gate.open();
    }
    TRY(fences.back().wait());
    TRY(check_pattern(host[links]->bytes(), round, words("round ", round)));
  }
  return {};
}

}  // namespace
}  // namespace weir::conformance
