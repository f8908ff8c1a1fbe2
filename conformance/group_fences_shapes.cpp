// SPDX-License-Identifier: Apache-2.0
//
// Fences by shape: behind every kind of work on streams of every owner, waits of every length, and what becomes of a
// wait when a fence's number is given again. Held streams have little enqueued; memory is made before they are held.
#include "conformance/shapes.hpp"

#include <memory>
#include <thread>

namespace weir::conformance {
namespace {

enum class Work : uint8_t { byte, copy, fill, batch, call, wait };
constexpr Work every_work[] = {Work::byte,  Work::copy, Work::fill,
                               Work::batch, Work::call, Work::wait};
constexpr const char *work_names[] = {"a copy of a byte", "a copy",          "a fill",
                                      "a batch",          "a host function", "a wait"};

/// What a fence is put behind. What there is afterwards says whether the work was done.
class Bench {
 public:
  Bench(Test &t, uint32_t device, uint64_t bytes)
      : t_(t),
        bytes_(bytes),
        plain_(t, device),
        in_(t),
        out_(t),
        fed_(t, device),
        feeder_(t, device),
        holder_(t, device),
        reader_(t, device) {}
  Outcome make() {
    TRY(plain_.allocate(bytes_));
    TRY(in_.allocate(bytes_));
    TRY(out_.allocate(bytes_));
    TRY(fed_.allocate(bytes_));
    TRY(feeder_.create());
    TRY(holder_.create());
    TRY(reader_.make(bytes_));
    make_pattern(in_.bytes(), 1);
    return {};
  }
  Outcome fresh(Work work) {
    count_ = 0;
    std::fill(out_.bytes().begin(), out_.bytes().end(), std::byte{0xEE});
    if (work == Work::fill) return reader_.fill(plain_.address(), 0xEE, bytes_);
    if (work == Work::wait) TRY(reader_.fill(fed_.address(), 0xEE, bytes_));
    return reader_.write(plain_.address(), bytes_, 1);
  }
  Outcome enqueue(Work work, Stream &stream) {
    switch (work) {
      case Work::byte:
        return stream.copy(out_.address(), plain_.address(), 1);
      case Work::copy:
        return stream.copy(out_.address(), plain_.address(), bytes_);
      case Work::fill:
        return stream.fill(plain_.address(), 7, bytes_);
      case Work::batch: {
        std::vector<weir_be_copy> copies;
        const uint64_t each = bytes_ / 8;
        for (uint64_t i = 0; i < 8; ++i)
          copies.push_back({out_.address() + i * each, plain_.address() + i * each, each});
        return batch(t_, stream, copies);
      }
      case Work::call:
        return count_call(t_, stream, count_);
      case Work::wait: {
        Fence fed(t_);
        TRY(feeder_.copy(fed_.address(), in_.address(), bytes_));
        TRY(fed.record(feeder_));
        return waits(t_, stream, fed);
      }
    }
    return {};
  }
  Outcome done(Work work) {
    switch (work) {
      case Work::byte:
        return check_pattern(out_.bytes().first(1), 1, "the byte");
      case Work::copy:
      case Work::batch:
        return check_pattern(out_.bytes(), 1, "what was copied");
      case Work::fill:
        return reader_.check_filled(plain_.address(), bytes_, 7);
      case Work::wait:
        return reader_.check(fed_.address(), bytes_, 1);
      case Work::call:
        break;
    }
    CHECK(count_.load() == 1, "the host function has run ", count_.load(), " times");
    return {};
  }
  /// Nothing of it has run. Not asked where the work is a wait: what is waited for runs elsewhere.
  Outcome not_begun(Work work) {
    CHECK(count_.load() == 0, "the host function has run");
    if (work == Work::fill) return reader_.check_filled(plain_.address(), bytes_, 0xEE);
    if (work == Work::wait) return {};
    return check_value(out_.bytes(), 0xEE, "host memory");
  }
  Stream &feeder() { return feeder_; }
  Stream &holder() { return holder_; }

 private:
  Test &t_;
  uint64_t bytes_;
  Plain plain_;
  Pinned in_, out_;
  Plain fed_;
  Stream feeder_, holder_;
  Mover reader_;
  std::atomic<uint32_t> count_{0};
};

/// Asks again and again, then looks at once.
Outcome polled(Test &t, const Fence &fence) {
  const uint64_t end = now_ns() + patience_ns;
  weir_result answer = WEIR_NOT_READY;
  while ((answer = CALL(fence_poll, fence.get())) == WEIR_NOT_READY && now_ns() < end)
    std::this_thread::yield();
  CHECK(answer == WEIR_SUCCESS, "polling ends with ", result_name(answer));
  return {};
}

Outcome free_form(Test &t, Queue &queue, Bench &bench, Work work, bool by_polls) {
  TRY(bench.fresh(work));
  Fence fence(t);
  Settled settled(t);
  settled.add(queue.use());
  settled.add(bench.feeder());
  TRY(bench.enqueue(work, queue.use()));
  TRY(fence.record(queue.use()));
  CHECK(fence.get() != 0, "the fence is 0, which is none");
  TRY(by_polls ? polled(t, fence) : fence.wait());
  return bench.done(work);
}

/// The queue is held itself, or waits for another one that is: the work is the first thing behind the wait.
Outcome held_form(Test &t, Queue &queue, Bench &bench, Work work, bool by_wait) {
  TRY(bench.fresh(work));
  Gate gate(t);
  Fence fence(t);
  Settled settled(t, &gate);
  settled.add(queue.use());
  settled.add(bench.feeder());
  settled.add(bench.holder());
  if (by_wait) {
    Fence held(t);
    TRY(gate.hold(bench.holder()));
    TRY(held.record(bench.holder()));
    TRY(waits(t, queue.use(), held));
  } else {
    TRY(queue.hold(gate));
  }
  TRY(gate.reached());
  TRY(bench.enqueue(work, queue.use()));
  TRY(fence.record(queue.use()));
  for (int i = 0; i < 100; ++i) ANSWERS(WEIR_NOT_READY, fence_poll, fence.get());
  ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, fence.get(), 0);
  ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, fence.get(), 100'000);
  TRY(bench.not_begun(work));
  CHECK(!gate.gave_up(), "something waited for the held stream");
  gate.open();
  TRY(polled(t, fence));
  return bench.done(work);
}

REQUIRE("FE-024", always(),
        "A fence passes when the work before it is done, whatever the work and whoever owns the "
        "stream.") {
  return shapes(t, {every_owner}, [&](const Shape &shape, Queue &queue) -> Outcome {
    Bench bench(t, shape.device, std::min(shape.budget / 8, 16 * mib));
    TRY(bench.make());
    for (const Work work : every_work) {
      if (work == Work::batch && !shape.has(WEIR_CAP_BATCH_COPY)) continue;
      if (work == Work::call && (!shape.has(WEIR_CAP_HOST_CALL) || !queue.calls())) continue;
      const auto run = [&]() -> Outcome {
        TRY(free_form(t, queue, bench, work, true));
        TRY(free_form(t, queue, bench, work, false));
        if (!shape.has(WEIR_CAP_HOST_CALL)) return {};
        TRY(held_form(t, queue, bench, work, false));
        return held_form(t, queue, bench, work, true);
      };
      const Outcome outcome = run();
      if (!outcome.passed())
        return Outcome::failure(
            words("behind ", work_names[static_cast<size_t>(work)], ": ", outcome.text()));
    }
    return {};
  });
}

// ---- times

/// A wait for what does not pass ends with TIMEOUT, not before its time; of three one at least ends soon after it.
Outcome times_out(Test &t, const Fence &fence, uint64_t timeout) {
  uint64_t late = UINT64_MAX;
  for (int i = 0; i < 3 && late > 1'000'000'000; ++i) {
    const uint64_t began = now_ns();
    ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, fence.get(), timeout);
    const uint64_t took = now_ns() - began;
    CHECK(took + timeout / 20 >= timeout, "a wait of ", timeout, " ns ended after ", took);
    late = std::min(late, took - std::min(took, timeout));
  }
  CHECK(late <= 1'000'000'000, "waits of ", timeout, " ns end ", late, " ns late");
  return {};
}

REQUIRE("FE-025", host_call,
        "A wait ends when its time is over, however short, and none that is long ends early.") {
  return shapes(
      t, {{Owner::made, Owner::wrapped}, {0}, WEIR_CAP_HOST_CALL},
      [&](const Shape &, Queue &queue) -> Outcome {
        Gate gate(t);
        Fence fence(t);
        Settled settled(t, &gate);
        settled.add(queue.use());
        TRY(queue.hold(gate));
        TRY(fence.record(queue.use()));
        TRY(gate.reached());
        for (const uint64_t timeout :
             {1, 999, 1'000, 10'000, 100'000, 999'999, 1'000'000, 1'500'000, 50'000'000})
          TRY(times_out(t, fence, timeout));
        // All at once, each in a thread of its own; the last opens the gate.
        constexpr uint64_t two_32 = uint64_t{1} << 32U, two_63 = uint64_t{1} << 63U;
        const std::vector<uint64_t> times{two_32 / 2,         two_32 - 1,    two_32,
                                          two_32 + 1,         two_63 - 1,    two_63,
                                          two_32 * 1'000'000, UINT64_MAX - 1};
        const auto count = static_cast<uint32_t>(times.size());
        std::atomic<uint32_t> begun{0}, ended{0};
        std::atomic<bool> opened{false};
        TRY(in_threads(count + 1, [&](uint32_t index) -> Outcome {
          if (index == count) {
            const uint64_t end = now_ns() + patience_ns / 4;
            while (begun.load() < count && now_ns() < end) std::this_thread::yield();
            const weir_result briefly = called(Site::current(), "fence_wait", t.table.fence_wait,
                                               t.state, fence.get(), 30'000'000);
            opened = true;
            gate.open();
            CHECK(briefly == WEIR_ERROR_TIMEOUT, "a fence that is held answers ",
                  result_name(briefly));
            return {};
          }
          ++begun;
          const uint64_t began = now_ns();
          const weir_result answer = called(Site::current(), "fence_wait", t.table.fence_wait,
                                            t.state, fence.get(), times[index]);
          const uint64_t took = now_ns() - began;
          CHECK(opened.load(), "a wait of ", times[index], " ns ended with ", result_name(answer),
                " before the fence passed, after ", took, " ns");
          CHECK(answer == WEIR_SUCCESS ||
                    (answer == WEIR_ERROR_TIMEOUT && took >= times[index] - times[index] / 20),
                "a wait of ", times[index], " ns ended with ", result_name(answer), " after ",
                took);
          return {};
        }));
        CHECK(!gate.gave_up(), "something waited for the held stream");
        return {};
      });
}

// ---- numbers that are given again

/// `count` fences live at once on the streams, have passed, and are gone.
Outcome fences_come_and_go(Test &t, const std::vector<std::unique_ptr<Stream>> &streams,
                           uint32_t count) {
  std::vector<Fence> fences;
  fences.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    fences.emplace_back(t);
    TRY(fences.back().record(*streams[i % streams.size()]));
  }
  for (Fence &fence : fences) {
    TRY(fence.wait());
    TRY(fence.destroy());
  }
  return {};
}

REQUIRE("FE-026", host_call,
        "A stream and a thread that wait for a fence wait on when fences with its number come and "
        "go.") {
  constexpr uint64_t bytes = 4 * kib;
  const Axes axes{every_owner, {0}, WEIR_CAP_HOST_CALL};
  return shapes(t, axes, [&](const Shape &shape, Queue &queue) -> Outcome {
    Plain plain(t, shape.device);
    Mover reader(t, shape.device);
    Stream held(t, shape.device);
    std::vector<std::unique_ptr<Stream>> others;
    TRY(plain.allocate(bytes));
    TRY(reader.make(bytes));
    TRY(held.create());
    for (int i = 0; i < 3; ++i) {
      others.push_back(std::make_unique<Stream>(t, shape.device));
      TRY(others.back()->create());
    }
    for (uint32_t round = 0; round < 12; ++round) {
      TRY(reader.fill(plain.address(), 1, bytes));
      Gate gate(t);
      Fence after(t), living(t);
      Settled settled(t, &gate);
      settled.add(held);
      settled.add(queue.use());
      TRY(gate.hold(held));
      {
        Fence fence(t);
        TRY(fence.record(held));
        TRY(waits(t, queue.use(), fence));
      }
      TRY(living.record(held));
      TRY(queue.use().fill(plain.address(), 2, bytes));
      TRY(after.record(queue.use()));
      TRY(gate.reached());
      std::atomic<bool> begun{false}, ended{false};
      Outcome waited;
      std::thread waiter([&] {
        begun = true;
        waited = living.wait();
        ended = true;
      });
      const auto churn = [&]() -> Outcome {
        while (!begun.load()) std::this_thread::yield();
        TRY(fences_come_and_go(t, others, round == 0 ? 1024 : round % 2 == 0 ? 64 : 1));
        ANSWERS(WEIR_NOT_READY, fence_poll, living.get());
        ANSWERS(WEIR_NOT_READY, fence_poll, after.get());
        ANSWERS(WEIR_NOT_READY, stream_query, queue.use().get());
        TRY(reader.check_filled(plain.address(), bytes, 1));
        CHECK(!ended.load(), "a thread's wait ended early");
        CHECK(!gate.gave_up(), "something waited for the held stream");
        return {};
      };
      const Outcome churned = churn();
      gate.open();
      waiter.join();
      TRY(churned);
      TRY(waited);
      TRY(after.wait());
      TRY(reader.check_filled(plain.address(), bytes, 2));
    }
    return {};
  });
}

}  // namespace
}  // namespace weir::conformance
