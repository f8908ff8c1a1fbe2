// SPDX-License-Identifier: Apache-2.0
//
// Many handles: several wrappers of one queue, wrappers and streams that come and go by the thousand, and hundreds of streams
// that live at once. A queue here is one that was made, one for copies alone, or the runtime's default stream. No stream has
// more than a few calls outstanding while it is held.
#include "conformance/shapes.hpp"
#include "conformance/walks.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <thread>

namespace weir::conformance {
namespace {

constexpr uint64_t handle_bytes = 4 * kib + 8;
/// Queues that can be wrapped any number of times.
const std::vector<Owner> wrappable{Owner::made, Owner::transfer, Owner::standard};

using Handles = std::vector<std::unique_ptr<Stream>>;

/// More wrappers of the queue.
Outcome wrap_again(Test &t, const Shape &shape, Queue &queue, size_t count, Handles *handles) {
  void *native = nullptr;
  MUST(stream_native, queue.use().get(), &native);
  for (size_t i = 0; i < count; ++i) {
    handles->push_back(std::make_unique<Stream>(t, shape.device));
    TRY(handles->back()->wrap(native));
    void *again = nullptr;
    MUST(stream_native, handles->back()->get(), &again);
    CHECK(again == native, "a wrapper of ", native, " says that it wraps ", again);
  }
  return {};
}

/// Opens the gate a moment after a thread has begun to wait for what is behind it. The moment makes a wait that is none easy to
/// see; a right one passes however long it is.
class Later {
 public:
  explicit Later(Gate &gate)
      : thread_([this, &gate] {
          const uint64_t end = now_ns() + 1'000'000;
          while (now_ns() < end && !over_.load()) std::this_thread::yield();
          opened_ = true;
          gate.open();
        }) {}
  ~Later() {
    over_ = true;
    thread_.join();
  }
  Later(const Later &) = delete;
  Later &operator=(const Later &) = delete;
  bool opened() const { return opened_.load(); }

 private:
  std::atomic<bool> opened_{false}, over_{false};
  std::thread thread_;
};

struct Bed {
  Bed(Test &t, uint32_t device) : plain(t, device), in(t), out(t), holder(t, device) {}
  Outcome make() {
    TRY(plain.allocate(handle_bytes));
    TRY(in.allocate(handle_bytes));
    TRY(out.allocate(handle_bytes));
    return holder.create();
  }
  Plain plain;
  Pinned in, out;
  Stream holder;  ///< holds up queues that take no host functions
};

Outcome hold_through(Test &t, const Queue &queue, Bed &bed, Gate &gate, const Stream &handle) {
  if (queue.calls()) {
    TRY(gate.hold(handle));
  } else {
    Fence fence(t);
    TRY(gate.hold(bed.holder));
    TRY(fence.record(bed.holder));
    TRY(waits(t, handle, fence));
  }
  return gate.reached();
}

/// What was put in through `one` is waited for through `two`, which has had work of its own before.
Outcome waited_for_through(Test &t, const Shape &shape, const Queue &queue, Bed &bed, Stream &one,
                           Stream &two, uint64_t seed) {
  make_pattern(bed.in.bytes(), seed);
  std::fill(bed.out.bytes().begin(), bed.out.bytes().end(), std::byte{0xEE});
  TRY(two.fill(bed.plain.address(), 1, handle_bytes));
  TRY(two.synchronize());
  Gate gate(t);
  Fence fence(t);
  Settled settled(t, &gate);
  settled.add(bed.holder);
  settled.add(one);
  const bool holds = shape.has(WEIR_CAP_HOST_CALL);
  if (holds) TRY(hold_through(t, queue, bed, gate, one));
  TRY(one.copy(bed.plain.address(), bed.in.address(), handle_bytes));
  TRY(one.copy(bed.out.address(), bed.plain.address(), handle_bytes));
  if (!holds) {
    TRY(two.synchronize());
    return check_pattern(bed.out.bytes(), seed, "after synchronize through another handle");
  }
  ANSWERS(WEIR_NOT_READY, stream_query, two.get());
  TRY(fence.record(two));
  ANSWERS(WEIR_NOT_READY, fence_poll, fence.get());
  TRY(check_value(bed.out.bytes(), 0xEE, "host memory, while the queue is held"));
  CHECK(!gate.gave_up(), "something waited for the held stream");
  {
    const Later later(gate);
    TRY(two.synchronize());
    CHECK(later.opened(), "synchronize ended while the queue was held through another handle");
  }
  MUST(fence_poll, fence.get());
  return check_pattern(bed.out.bytes(), seed, "after synchronize through another handle");
}

REQUIRE("ST-033", always(),
        "Whatever is enqueued through one of a queue's handles is asked and waited for through "
        "each of the others.") {
  return shapes(t, {wrappable}, [&](const Shape &shape, Queue &queue) -> Outcome {
    Bed bed(t, shape.device);
    TRY(bed.make());
    Handles wrappers;
    TRY(wrap_again(t, shape, queue, 3, &wrappers));
    std::vector<Stream *> all{&queue.use()};
    for (const auto &each : wrappers) all.push_back(each.get());
    for (size_t one = 0; one < all.size(); ++one) {
      for (size_t two = 0; two < all.size(); ++two) {
        if (one == two) continue;
        const Outcome outcome =
            waited_for_through(t, shape, queue, bed, *all[one], *all[two], one * all.size() + two);
        TRY(in_shape(words("through handle ", one, ", waited for through ", two), outcome));
      }
    }
    return {};
  });
}

/// One handle takes work, another one marks its end.
Outcome still_serves(Test &t, Bed &bed, Stream &one, Stream &two, uint64_t at) {
  Fence fence(t);
  TRY(one.copy(bed.out.address() + at % handle_bytes, bed.in.address() + at % handle_bytes, 1));
  TRY(fence.record(two));
  return fence.wait();
}

REQUIRE("ST-034", always(),
        "Hundreds of wrappers of one queue live at once; they end in any order, idle or held, and "
        "leave the others.") {
  return shapes(t, {wrappable}, [&](const Shape &shape, Queue &queue) -> Outcome {
    constexpr size_t many = 300;
    Bed bed(t, shape.device);
    TRY(bed.make());
    make_pattern(bed.in.bytes(), 3);
    for (const bool held : {false, true}) {
      if (held && !shape.has(WEIR_CAP_HOST_CALL)) continue;
      std::fill(bed.out.bytes().begin(), bed.out.bytes().end(), std::byte{0xEE});
      Handles wrappers;
      TRY(wrap_again(t, shape, queue, held ? 32 : many, &wrappers));
      Gate gate(t);
      Fence before(t);
      Settled settled(t, &gate);
      settled.add(bed.holder);
      settled.add(queue.use());
      if (held) {
        TRY(hold_through(t, queue, bed, gate, *wrappers.front()));
        TRY(wrappers.front()->copy(bed.plain.address(), bed.in.address(), handle_bytes));
        TRY(wrappers.front()->copy(bed.out.address(), bed.plain.address(), handle_bytes));
        TRY(before.record(*wrappers.front()));
      }
      // First those that were made first, then those that were made last, then whichever.
      for (uint64_t turn = 0; wrappers.size() > 1; ++turn) {
        const size_t third = turn * 3 / (held ? 32 : many);
        const size_t left = wrappers.size();
        const size_t which = third == 0 ? 0 : third == 1 ? left - 1 : t.random.below(left);
        TRY(wrappers[which]->destroy());
        wrappers.erase(wrappers.begin() + static_cast<std::ptrdiff_t>(which));
        Stream &one = *wrappers[t.random.below(wrappers.size())];
        Stream &two = turn % 4 == 0 ? queue.use() : *wrappers.front();
        if (held) {
          ANSWERS(WEIR_NOT_READY, stream_query, one.get());
          Fence fence(t);
          TRY(fence.record(two));
          ANSWERS(WEIR_NOT_READY, fence_poll, fence.get());
          CHECK(!gate.gave_up(), "the end of a wrapper waited for the held stream");
        } else {
          TRY(still_serves(t, bed, one, two, turn));
        }
      }
      gate.open();
      if (held) TRY(before.wait());
      TRY(wrappers.front()->synchronize());
      TRY(wrappers.front()->destroy());
      TRY(still_serves(t, bed, queue.use(), queue.owner(), 0));
      TRY(check_pattern(bed.out.bytes().first(held ? handle_bytes : many - 1), 3,
                        held ? "what was copied through a wrapper that is gone"
                             : "what was copied through wrappers beside those that ended"));
    }
    return {};
  });
}

/// Wrappers of a queue come and go beside one that stays.
Outcome wrappers_come_and_go(Test &t, const Shape &shape, Queue &queue, Bed &bed, uint64_t count) {
  void *native = nullptr;
  Handles stays;
  TRY(wrap_again(t, shape, queue, 1, &stays));
  MUST(stream_native, queue.use().get(), &native);
  for (uint64_t i = 0; i < count; ++i) {
    Stream wrapper(t, shape.device);
    TRY(wrapper.wrap(native));
    if (i % 64 == 0) TRY(still_serves(t, bed, wrapper, *stays.front(), i));
    TRY(wrapper.destroy());
  }
  return still_serves(t, bed, *stays.front(), queue.use(), 0);
}

REQUIRE("ST-035", always(),
        "Wrappers of every kind of queue come and go by the thousand, and so do streams for copies "
        "alone.") {
  return shapes(t, {wrappable}, [&](const Shape &shape, Queue &queue) -> Outcome {
    Bed bed(t, shape.device);
    TRY(bed.make());
    TRY(wrappers_come_and_go(t, shape, queue, bed, 5'000));
    // Plain streams by the hundred are LI-016's.
    if (shape.owner != Owner::transfer) return {};
    for (uint64_t i = 0; i < 300; ++i) {
      Stream stream(t, shape.device);
      TRY(stream.create(WEIR_BE_STREAM_TRANSFER));
      TRY(still_serves(t, bed, stream, stream, i));
    }
    return {};
  });
}

REQUIRE("ST-036", always(),
        "On every device 300 streams live at once, each a queue of its own, and all of them wait "
        "for one fence.") {
  return each_device(t, 0, [&](const DeviceFacts &device) -> Outcome {
    constexpr uint64_t many = 300, each = 64;
    const bool holds = device.has(WEIR_CAP_HOST_CALL);
    Plain plain(t, device.index);
    Pinned in(t), out(t);
    Stream first(t, device.index);
    Handles streams;
    TRY(plain.allocate(many * each));
    TRY(in.allocate(many * each));
    TRY(out.allocate(many * each));
    TRY(first.create());
    std::set<void *> natives;
    for (uint64_t i = 0; i < many; ++i) {
      const bool copies = i % 4 == 3 && device.has(WEIR_CAP_TRANSFER_STREAM);
      void *native = nullptr;
      streams.push_back(std::make_unique<Stream>(t, device.index));
      TRY(streams.back()->create(copies ? WEIR_BE_STREAM_TRANSFER : 0));
      MUST(stream_native, streams.back()->get(), &native);
      CHECK(natives.insert(native).second, "stream ", i, " has the native stream ", native,
            " of another one");
    }
    make_pattern(in.bytes(), 1);
    std::fill(out.bytes().begin(), out.bytes().end(), std::byte{0xEE});
    Gate gate(t);
    Settled settled(t, &gate);
    settled.add(first);
    for (const auto &stream : streams) settled.add(*stream);
    Fence written(t);
    std::vector<Fence> done;
    done.reserve(many);
    TRY(first.fill(plain.address(), 0xDD, many * each));
    if (holds) {
      TRY(gate.hold(first));
      TRY(gate.reached());
    }
    TRY(first.copy(plain.address(), in.address(), many * each));
    TRY(written.record(first));
    for (uint64_t i = 0; i < many; ++i) {
      TRY(waits(t, *streams[i], written));
      TRY(streams[i]->copy(out.address() + i * each, plain.address() + i * each, each));
      done.emplace_back(t);
      TRY(done.back().record(*streams[i]));
    }
    if (holds) {
      for (int turn = 0; turn < 3; ++turn) {
        for (const Fence &fence : done) ANSWERS(WEIR_NOT_READY, fence_poll, fence.get());
      }
      TRY(check_value(out.bytes(), 0xEE, "what streams copy that wait"));
      CHECK(!gate.gave_up(), "something waited for the held stream");
      gate.open();
    }
    for (Fence &fence : done) TRY(fence.wait());
    TRY(check_pattern(out.bytes(), 1, "what streams copied that waited"));
    // Each second one ends, and the others go on.
    for (uint64_t i = 0; i < many; i += 2) TRY(streams[i]->destroy());
    make_pattern(in.bytes(), 2);
    for (uint64_t i = 1; i < many; i += 2)
      TRY(streams[i]->copy(out.address() + i * each, in.address() + i * each, each));
    for (uint64_t i = 1; i < many; i += 2) {
      TRY(streams[i]->synchronize());
      TRY(check_same(out.bytes().subspan(i * each, each), in.bytes().subspan(i * each, each),
                     words("what stream ", i, " copied")));
    }
    return {};
  });
}

}  // namespace
}  // namespace weir::conformance
