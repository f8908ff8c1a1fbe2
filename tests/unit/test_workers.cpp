// SPDX-License-Identifier: Apache-2.0
//
// Workers: every piece once, whichever thread runs it; demand before background, between pieces too; the background's share of
// a CPU, by a clock that the test moves; threads that can't be had. pthread_create and operator new are this program's
// own, to refuse the first and count the second.
//
// Must be reproducible: threads are held in pieces to bring about an order, nothing depends on how long anything takes.

#include "core/base/workers.hpp"
#include "tests/support/cmocka.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {
std::atomic<int> threads_left{INT32_MAX};
std::atomic<uint64_t> allocations{0};
}  // namespace

extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                              void *(*start)(void *), void *argument) noexcept {
  if (threads_left.fetch_sub(1) <= 0) return EAGAIN;
  static auto *real =
      reinterpret_cast<int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)>(
          dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, start, argument);
}
// Not inlined: GCC 14 would see free() of what operator new gave, and warn.
[[gnu::noinline]] void *operator new(size_t bytes) {
  ++allocations;
  if (void *memory = std::malloc(bytes > 0 ? bytes : 1); memory != nullptr) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace {

using weir::Clock;
using weir::Workers;

constexpr auto demand = Workers::Urgency::demand;
constexpr auto background = Workers::Urgency::background;
constexpr uint64_t ms = 1'000'000;

const Clock system_clock;

/// Time that passes when it is told to, and by a step whenever it is asked for. CPU time is the piece's to spend.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(uint64_t step) : step_(step) {}
  uint64_t now_ns() const noexcept override { return now_.fetch_add(step_) + step_; }
  uint64_t thread_cpu_ns() const noexcept override { return cpu_; }
  void work(uint64_t ns) noexcept {
    now_ += ns;
    cpu_ += ns;
  }
  uint64_t peek() const noexcept { return now_; }

 private:
  const uint64_t step_;
  mutable std::atomic<uint64_t> now_{0};
  static thread_local uint64_t cpu_;
};
thread_local uint64_t FakeClock::cpu_ = 0;

template <class F>
void run(Workers &workers, uint32_t count, Workers::Urgency urgency, F piece) {
  workers.run(
      count, [](void *context, uint32_t index) noexcept { (*static_cast<F *>(context))(index); },
      &piece, urgency);
}

/// A door that opens once.
class Door {
 public:
  void open() noexcept {
    open_ = true;
    open_.notify_all();
  }
  void pass() const noexcept { open_.wait(false); }

 private:
  std::atomic<bool> open_{false};
};

/// Which thread did what, in order.
class Diary {
 public:
  void note(char what, uint32_t index) noexcept {
    const std::lock_guard lock(mutex_);
    text_[length_++] = what;
    text_[length_++] = static_cast<char>('0' + index);
  }
  std::string text() const { return std::string(text_, length_); }

 private:
  mutable std::mutex mutex_;
  char text_[64] = {};
  size_t length_ = 0;
};

void expect(const Diary &diary, const char *text) {
  if (diary.text() != text) fail_msg("%s, not %s", diary.text().c_str(), text);
}

// ---- pieces ----

void every_piece_once(void **) {
  for (const uint32_t threads : {0U, 1U, 4U}) {
    for (const uint32_t share : {50U, 100U}) {
      Workers workers(threads, share, system_clock);
      for (const bool started : {false, true, false}) {
        if (started) assert_true(workers.start().ok());
        if (!started) workers.stop();
        assert_int_equal(workers.threads(), started ? threads : 0);
        for (const auto urgency : {demand, background}) {
          for (const uint32_t count : {0U, 1U, 2U, 7U, 1000U}) {
            std::vector<std::atomic<uint32_t>> runs(count + 1);
            run(workers, count, urgency, [&](uint32_t index) noexcept { ++runs[index]; });
            for (uint32_t i = 0; i < count; ++i) assert_int_equal(runs[i].load(), 1);
            assert_int_equal(runs[count].load(), 0);
          }
        }
      }
    }
  }
}

void many_callers(void **) {
  Workers workers(3, 100, system_clock);
  assert_true(workers.start().ok());
  std::vector<std::thread> callers;
  std::atomic<uint32_t> wrong{0};
  for (uint32_t id = 0; id < 4; ++id) {
    callers.emplace_back([&, id] {
      for (uint32_t i = 0; i < 500; ++i) {
        // Plain: what the pieces wrote is seen when run() has returned.
        uint32_t seen[9] = {};
        const uint32_t count = 1 + i % 9;
        run(workers, count, (id + i) % 2 == 0 ? demand : background,
            [&](uint32_t index) noexcept { seen[index] += index + i; });
        for (uint32_t index = 0; index < count; ++index) wrong += seen[index] != index + i;
      }
    });
  }
  for (std::thread &caller : callers) caller.join();
  assert_int_equal(wrong.load(), 0);
}

void no_allocation(void **) {
  Workers workers(2, 50, system_clock);
  assert_true(workers.start().ok());
  const auto nothing = [](uint32_t) noexcept {};
  const uint64_t before = allocations;
  for (int i = 0; i < 200; ++i) {
    run(workers, 5, demand, nothing);
    run(workers, 5, background, nothing);
  }
  assert_int_equal(allocations.load(), before);
}

// ---- order ----

/// A background caller between two of its pieces, with no thread to help: the other caller's come first.
void a_background_caller_gives_way(void **) {
  Workers workers(0, 100, system_clock);
  Diary diary;
  Door first_runs, go_on, helped;
  std::thread caller([&] {
    run(workers, 3, background, [&](uint32_t index) noexcept {
      if (index == 0) {
        first_runs.open();
        go_on.pass();
      }
      diary.note('b', index);
    });
  });
  first_runs.pass();
  run(workers, 4, demand, [&](uint32_t index) noexcept {
    if (index == 0) {
      go_on.open();
      helped.pass();  // this caller claims no more: the other has to
      return;
    }
    diary.note('d', index);
    if (index == 3) helped.open();
  });
  caller.join();
  expect(diary, "b0d1d2d3b1b2");
}

/// The same for a thread of the Workers. (A job's first piece is always its caller's.)
void a_thread_gives_way(void **) {
  Workers workers(1, 100, system_clock);
  assert_true(workers.start().ok());
  Diary diary;
  Door thread_runs, thread_goes_on, caller_goes_on, helped;
  std::thread caller([&] {
    run(workers, 4, background, [&](uint32_t index) noexcept {
      if (index == 0) {
        caller_goes_on.pass();
        return;
      }
      if (index == 1) {
        thread_runs.open();
        thread_goes_on.pass();
      }
      diary.note('b', index);
      if (index == 3) caller_goes_on.open();
    });
  });
  thread_runs.pass();
  run(workers, 3, demand, [&](uint32_t index) noexcept {
    if (index == 0) {
      thread_goes_on.open();
      helped.pass();
      return;
    }
    diary.note('d', index);
    if (index == 2) helped.open();
  });
  caller.join();
  expect(diary, "b1d1d2b2b3");
}

/// Jobs of one urgency: the oldest is helped first, and none is forgotten.
void oldest_first(void **) {
  constexpr uint32_t count = 4;
  Workers workers(1, 100, system_clock);
  assert_true(workers.start().ok());
  Diary diary;
  Door held, thread_goes_on, end;
  std::thread busy([&] {
    run(workers, 2, demand, [&](uint32_t index) noexcept {
      if (index == 1) held.open();  // the thread's
      thread_goes_on.pass();
    });
  });
  held.pass();
  std::vector<std::thread> callers;
  Door all_queued[count];
  for (uint32_t id = 0; id < count; ++id) {
    Door &queued = all_queued[id];
    callers.emplace_back([&, id] {
      run(workers, 2, demand, [&](uint32_t index) noexcept {
        if (index == 0) {
          queued.open();
          end.pass();
          return;
        }
        diary.note('x', id);
        if (id == count - 1) end.open();
      });
    });
    queued.pass();
  }
  thread_goes_on.open();
  busy.join();
  for (std::thread &caller : callers) caller.join();
  expect(diary, "x0x1x2x3");
}

/// Threads that sleep are woken for either urgency: a caller that waits in its own piece gets the others done.
void sleepers_wake(void **) {
  Workers workers(2, 100, system_clock);
  assert_true(workers.start().ok());
  for (int round = 0; round < 300; ++round) {
    Door helped;
    std::atomic<int> others{0};
    run(workers, 3, round % 2 == 0 ? demand : background, [&](uint32_t index) noexcept {
      if (index == 0) {
        helped.pass();
      } else if (++others == 2) {
        helped.open();
      }
    });
  }
}

// ---- the share ----

/// Over any stretch between two starts: no more CPU time than was earned, plus a burst and a piece.
void check_share(const std::vector<uint64_t> &starts, uint64_t cost, uint64_t percent) {
  constexpr uint64_t burst = 4 * ms;
  for (size_t i = 0; i < starts.size(); ++i) {
    for (size_t j = i + 1; j < starts.size(); ++j) {
      const uint64_t spent = (j - i) * cost;
      const uint64_t earned = (starts[j] - starts[i] + burst) * percent / 100 + cost;
      if (spent > earned) {
        fail_msg("%u pieces in %u us", static_cast<unsigned>(j - i),
                 static_cast<unsigned>((starts[j] - starts[i]) / 1000));
      }
    }
  }
}

void callers_keep_the_share(void **) {
  for (const uint32_t percent : {10U, 25U, 75U}) {
    FakeClock clock(ms / 2);
    Workers workers(0, percent, clock);
    std::vector<uint64_t> starts;
    starts.reserve(40);
    for (int job = 0; job < 4; ++job) {
      // One by one and together: the share is the caller's, not the job's.
      run(workers, 10, background, [&](uint32_t) noexcept {
        starts.push_back(clock.peek());
        clock.work(ms);
      });
    }
    assert_int_equal(starts.size(), 40);
    check_share(starts, ms, percent);
    // Nor much less than the share.
    const uint64_t took = starts.back() - starts.front();
    const uint64_t fair = 39 * ms * 100 / percent;
    if (took > fair + fair / 4) {
      fail_msg("%u percent: %u ms, not about %u", percent, static_cast<unsigned>(took / ms),
               static_cast<unsigned>(fair / ms));
    }
  }
}

void threads_keep_the_share(void **) {
  FakeClock clock(ms / 2);
  Workers workers(1, 20, clock);
  assert_true(workers.start().ok());
  std::vector<uint64_t> starts;
  starts.reserve(32);
  Door all;
  run(workers, 30, background, [&](uint32_t index) noexcept {
    if (index == 0) {  // the caller's; the rest is the thread's
      all.pass();
      return;
    }
    starts.push_back(clock.peek());
    clock.work(ms);
    if (index == 29) all.open();
  });
  assert_int_equal(starts.size(), 29);
  check_share(starts, ms, 20);
}

/// Time that was not used is not saved up beyond a burst.
void idle_time_is_not_hoarded(void **) {
  FakeClock clock(ms / 2);
  Workers workers(0, 25, clock);
  std::vector<uint64_t> starts;
  starts.reserve(64);
  const auto piece = [&](uint32_t) noexcept {
    starts.push_back(clock.peek());
    clock.work(ms);
  };
  run(workers, 5, background, piece);
  clock.work(3600 * 1000 * ms);
  run(workers, 20, background, piece);
  check_share(starts, ms, 25);
}

/// A clock that stands still: a thread that has spent its share may do nothing more in the background, but demand at once.
void demand_is_not_held_back(void **) {
  FakeClock clock(0);
  Workers workers(1, 1, clock);
  assert_true(workers.start().ok());
  clock.work(1000 * ms);
  std::atomic<int> begun{0};
  Door end;
  std::thread caller([&] {
    // Both the thread and this caller spend what takes minutes to earn; then pieces are left that no thread may begin.
    run(workers, 4, background, [&](uint32_t) noexcept {
      if (++begun == 2) end.open();
      if (begun <= 2) end.pass();
      clock.work(1000 * ms);
    });
  });
  end.pass();
  for (int round = 0; round < 20; ++round) {
    Door helped;
    // The first piece waits for the others, so a thread that rests has to run them.
    run(workers, 3, demand, [&](uint32_t index) noexcept {
      if (index == 0) helped.pass();
      if (index == 2) helped.open();
    });
  }
  assert_int_equal(begun.load(), 2);
  while (begun < 4) {
    clock.work(100'000 * ms);
    std::this_thread::yield();
  }
  caller.join();
}

/// At 100 percent no clock is read.
void a_whole_cpu_needs_no_clock(void **) {
  FakeClock clock(1);
  Workers workers(2, 100, clock);
  assert_true(workers.start().ok());
  run(workers, 100, background, [](uint32_t) noexcept {});
  run(workers, 100, demand, [](uint32_t) noexcept {});
  assert_int_equal(clock.peek(), 0);
}

void cpu_time_is_measured(void **) {
  const uint64_t before = system_clock.thread_cpu_ns();
  uint64_t sum = 0;
  while (system_clock.thread_cpu_ns() < before + ms) ++sum;
  assert_true(sum > 0);
}

// ---- threads that can't be had ----

void threads_refused(void **) {
  for (const int made : {0, 1, 3}) {
    Workers workers(4, 100, system_clock);
    threads_left = made;
    assert_int_equal(workers.start().code(), WEIR_ERROR_OUT_OF_HOST_MEMORY);
    threads_left = INT32_MAX;
    const std::string text = weir::last_error().text;
    if (text.find("worker thread " + std::to_string(made + 1) + " of 4") == std::string::npos) {
      fail_msg("%s", text.c_str());
    }
    assert_int_equal(workers.threads(), 0);
    std::atomic<int> runs{0};
    run(workers, 10, demand, [&](uint32_t) noexcept { ++runs; });
    run(workers, 10, background, [&](uint32_t) noexcept { ++runs; });
    assert_int_equal(runs.load(), 20);
    assert_true(workers.start().ok());  // now there is room
    assert_int_equal(workers.threads(), 4);
    assert_true(workers.start().ok());
    assert_int_equal(workers.threads(), 4);
    run(workers, 10, demand, [&](uint32_t) noexcept { ++runs; });
    assert_int_equal(runs.load(), 30);
  }
}

/// The threads end while callers are at it.
void stopped_under_way(void **) {
  Workers workers(3, 100, system_clock);
  for (int round = 0; round < 30; ++round) {
    assert_true(workers.start().ok());
    std::atomic<int> runs{0};
    Door begun;
    std::thread caller([&] {
      run(workers, 300, background, [&](uint32_t) noexcept {
        ++runs;
        begun.open();
      });
      run(workers, 300, demand, [&](uint32_t) noexcept { ++runs; });
    });
    begun.pass();
    workers.stop();
    caller.join();
    assert_int_equal(runs.load(), 600);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_piece_once),        cmocka_unit_test(many_callers),
      cmocka_unit_test(no_allocation),           cmocka_unit_test(a_background_caller_gives_way),
      cmocka_unit_test(a_thread_gives_way),      cmocka_unit_test(oldest_first),
      cmocka_unit_test(sleepers_wake),           cmocka_unit_test(callers_keep_the_share),
      cmocka_unit_test(threads_keep_the_share),  cmocka_unit_test(idle_time_is_not_hoarded),
      cmocka_unit_test(demand_is_not_held_back), cmocka_unit_test(a_whole_cpu_needs_no_clock),
      cmocka_unit_test(cpu_time_is_measured),    cmocka_unit_test(threads_refused),
      cmocka_unit_test(stopped_under_way),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
