// SPDX-License-Identifier: Apache-2.0
//
// Virtual time: what the C++ library offers to wait and to take turns by, in a program whose clocks go by it. All of it is over in a
// moment, and in one order each time. All of it is done twice: with one kernel thread that runs all threads, and with one each.
#include "tests/support/cmocka.hpp"

#include "tools/virtual_time/switch.hpp"
#include "tools/virtual_time/virtual_time.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// What has happened, in order.
class Log {
 public:
  void add(const std::string &what) {
    const std::lock_guard lock(mutex_);
    text_ += (text_.empty() ? "" : " ") + what;
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

int64_t since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
}

void sleeps_pass_at_once_and_in_their_order(void **) {
  const Clock::time_point start = Clock::now();
  Log log;
  std::vector<std::thread> threads;
  for (const int hours : {3, 1, 2})
    threads.emplace_back([&log, hours] {
      std::this_thread::sleep_for(std::chrono::hours(hours));
      log.add(std::to_string(hours));
    });
  for (std::thread &thread : threads) thread.join();
  assert_string_equal(log.text().c_str(), "1 2 3");
  assert_int_equal(since(start), 3 * 3600 * 1000);
}

void time_stands_still_for_who_works(void **) {
  const Clock::time_point start = Clock::now();
  volatile uint64_t sum = 0;
  for (uint64_t i = 0; i < 50'000'000; ++i) sum = sum + i;
  assert_int_equal(since(start), 0);
}

void a_wait_ends_when_it_is_told_or_when_its_time_is_over(void **) {
  std::mutex mutex;
  std::condition_variable changed;
  bool told = false;
  std::unique_lock lock(mutex);
  Clock::time_point start = Clock::now();
  assert_false(changed.wait_for(lock, 5s, [&] { return told; }));
  assert_int_equal(since(start), 5000);
  // By the clock on the wall too.
  start = Clock::now();
  assert_false(
      changed.wait_until(lock, std::chrono::system_clock::now() + 7s, [&] { return told; }));
  assert_in_range(since(start), 6999, 7001);
  start = Clock::now();
  std::thread teller([&] {
    std::this_thread::sleep_for(2s);
    const std::lock_guard own(mutex);
    told = true;
    changed.notify_one();
  });
  assert_true(changed.wait_for(lock, 1h, [&] { return told; }));
  assert_int_equal(since(start), 2000);
  lock.unlock();
  teller.join();
}

void all_are_told_and_go_in_the_order_in_which_they_came(void **) {
  std::mutex mutex;
  std::condition_variable changed;
  bool told = false;
  Log log;
  std::vector<std::thread> threads;
  for (int i = 0; i < 5; ++i)
    threads.emplace_back([&, i] {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return told; });
      log.add(std::to_string(i));
    });
  std::this_thread::sleep_for(1s);
  {
    const std::lock_guard lock(mutex);
    told = true;
  }
  changed.notify_all();
  for (std::thread &thread : threads) thread.join();
  assert_string_equal(log.text().c_str(), "0 1 2 3 4");
}

/// Without a predicate, which would hide a wake-up too many and a result that is wrong.
void one_is_told_and_a_wait_says_that_it_timed_out(void **) {
  std::mutex mutex;
  std::condition_variable changed;
  int woken = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      std::unique_lock lock(mutex);
      changed.wait(lock);
      ++woken;
    });
  for (int told = 1; told <= 3; ++told) {
    std::this_thread::sleep_for(1s);
    {
      const std::lock_guard lock(mutex);
      assert_int_equal(woken, told - 1);
    }
    changed.notify_one();
  }
  for (std::thread &thread : threads) thread.join();
  assert_int_equal(woken, 3);
  timespec end{};
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += 2;
  const std::lock_guard lock(mutex);
  assert_int_equal(
      pthread_cond_clockwait(changed.native_handle(), mutex.native_handle(), CLOCK_MONOTONIC, &end),
      ETIMEDOUT);
}

void computing_takes_no_time_of_the_thread_s_clock(void **) {
  timespec before{}, after{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  volatile uint64_t sum = 0;
  for (uint64_t i = 0; i < 10'000'000; ++i) sum = sum + i;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  assert_int_equal(after.tv_sec - before.tv_sec, 0);
  assert_int_equal(after.tv_nsec - before.tv_nsec, 0);
}

void who_sleeps_with_a_lock_holds_up_who_wants_it(void **) {
  std::mutex mutex;
  const Clock::time_point start = Clock::now();
  std::thread holder([&] {
    const std::lock_guard lock(mutex);
    std::this_thread::sleep_for(10s);
  });
  std::this_thread::sleep_for(1s);
  {
    const std::lock_guard lock(mutex);
    assert_int_equal(since(start), 10'000);
  }
  holder.join();
}

void readers_share_and_a_writer_waits(void **) {
  std::shared_mutex mutex;
  const Clock::time_point start = Clock::now();
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      const std::shared_lock lock(mutex);
      std::this_thread::sleep_for(4s);
    });
  std::this_thread::sleep_for(1s);
  {
    const std::lock_guard lock(mutex);
    assert_int_equal(since(start), 4000);
  }
  for (std::thread &reader : readers) reader.join();
}

void a_word_is_waited_for(void **) {
  std::atomic<int> word{0};
  const Clock::time_point start = Clock::now();
  std::thread teller([&] {
    std::this_thread::sleep_for(3s);
    word = 1;
    word.notify_all();
  });
  word.wait(0);
  assert_int_equal(word.load(), 1);
  assert_int_equal(since(start), 3000);
  teller.join();
}

/// Reads the clock until another thread, which also waits, has done its part.
void who_looks_at_the_clock_lets_time_go_by(void **) {
  std::atomic<bool> done{false};
  const Clock::time_point start = Clock::now();
  std::thread sleeper([&] {
    std::this_thread::sleep_for(5ms);
    done = true;
  });
  std::thread spinner([&] {
    while (!done) (void)Clock::now();
  });
  while (!done) std::this_thread::yield();
  assert_in_range(since(start), 5, 6);
  sleeper.join();
  spinner.join();
}

/// Measuring what it does, under locks that it takes one after the other, a thread looks at the clock far more often than one that
/// spins may.
void who_measures_his_work_takes_no_time(void **) {
  std::this_thread::sleep_for(1ms);  // whatever it has looked at before
  std::mutex mutex;
  const Clock::time_point start = Clock::now();
  Clock::duration sum{};
  for (int i = 0; i < 20'000; ++i) {
    const Clock::time_point begin = Clock::now();
    const std::lock_guard lock(mutex);
    sum += Clock::now() - begin;
  }
  assert_int_equal((Clock::now() - start).count(), 0);
  assert_int_equal(sum.count(), 0);
}

/// It is no work to ask again and again under a lock.
void who_spins_over_a_lock_lets_time_go_by(void **) {
  std::mutex mutex;
  bool done = false;
  const Clock::time_point start = Clock::now();
  std::thread sleeper([&] {
    std::this_thread::sleep_for(5ms);
    const std::lock_guard lock(mutex);
    done = true;
  });
  for (bool over = false; !over && since(start) < 1000;) {
    const std::lock_guard lock(mutex);
    over = done;
  }
  assert_in_range(since(start), 5, 6);
  sleeper.join();
}

struct Farewell {
  Log *log = nullptr;
  ~Farewell() {
    if (log == nullptr) return;
    std::this_thread::sleep_for(1s);
    log->add("farewell");
  }
};
thread_local Farewell farewell;

void a_threads_own_variables_end_in_its_turn(void **) {
  Log log;
  const Clock::time_point start = Clock::now();
  std::thread thread([&] {
    farewell.log = &log;
    log.add("work");
  });
  thread.join();
  assert_string_equal(log.text().c_str(), "work farewell");
  assert_int_equal(since(start), 1000);
}

/// Threads that come, meet at a lock and go, with sleeps between: what they do, in one line.
std::string scramble() {
  Log log;
  std::mutex mutex;
  std::condition_variable changed;
  int turns = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int step = 0; step < 20; ++step) {
        std::this_thread::sleep_for(std::chrono::microseconds((i * 37 + step * 91) % 50));
        std::unique_lock lock(mutex);
        log.add(std::to_string(i));
        if (++turns % 3 == 0) changed.notify_one();
        if (turns % 5 == 0) changed.wait_for(lock, 20us);
      }
    });
  for (std::thread &thread : threads) thread.join();
  return log.text();
}

void two_runs_are_one(void **) {
  const std::string first = scramble();
  assert_true(first.size() > 300);
  for (int i = 0; i < 20; ++i) assert_string_equal(scramble().c_str(), first.c_str());
}

constexpr const char *by_kernel = "WEIR_VIRTUAL_TIME_BY_KERNEL";

void one_kernel_thread_runs_all_unless_each_has_its_own(void **) {
  std::mutex mutex;
  std::set<long> kernel_threads = {syscall(SYS_gettid)};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      std::this_thread::sleep_for(1s);
      const std::lock_guard lock(mutex);
      kernel_threads.insert(syscall(SYS_gettid));
    });
  for (std::thread &thread : threads) thread.join();
  const bool one = weir::virtual_time::can_switch() && std::getenv(by_kernel) == nullptr;
  assert_int_equal(kernel_threads.size(), one ? 1 : 4);
}

thread_local int mine = 0;

/// Its variables, its name, its errno, and what it throws, over any number of turns.
void a_thread_keeps_what_is_its_own(void **) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 1; i <= 4; ++i)
    threads.emplace_back([&wrong, i] {
      const pthread_t self = pthread_self();
      mine = i;
      for (int step = 0; step < 100; ++step) {
        errno = i;
        try {
          std::this_thread::sleep_for(std::chrono::microseconds(i));
          throw i;
        } catch (const int caught) {
          if (caught != i) ++wrong;
        }
        if (errno != i || mine != i || pthread_equal(self, pthread_self()) == 0) ++wrong;
      }
    });
  for (std::thread &thread : threads) thread.join();
  assert_int_equal(wrong.load(), 0);
  assert_int_equal(mine, 0);
}

int begin(void **) {
  if (weir::virtual_time::available()) weir::virtual_time::start();
  return 0;
}

}  // namespace

int main() {
  if (!weir::virtual_time::available()) return 77;  // a sanitizer's build
  // There is no way back from virtual time, so each way has a process.
  const pid_t child = fork();
  if (child == 0) setenv(by_kernel, "1", 1);
  const CMUnitTest tests[] = {
      cmocka_unit_test(sleeps_pass_at_once_and_in_their_order),
      cmocka_unit_test(time_stands_still_for_who_works),
      cmocka_unit_test(a_wait_ends_when_it_is_told_or_when_its_time_is_over),
      cmocka_unit_test(all_are_told_and_go_in_the_order_in_which_they_came),
      cmocka_unit_test(one_is_told_and_a_wait_says_that_it_timed_out),
      cmocka_unit_test(computing_takes_no_time_of_the_thread_s_clock),
      cmocka_unit_test(who_sleeps_with_a_lock_holds_up_who_wants_it),
      cmocka_unit_test(readers_share_and_a_writer_waits),
      cmocka_unit_test(a_word_is_waited_for),
      cmocka_unit_test(who_looks_at_the_clock_lets_time_go_by),
      cmocka_unit_test(who_measures_his_work_takes_no_time),
      cmocka_unit_test(who_spins_over_a_lock_lets_time_go_by),
      cmocka_unit_test(a_threads_own_variables_end_in_its_turn),
      cmocka_unit_test(two_runs_are_one),
      cmocka_unit_test(one_kernel_thread_runs_all_unless_each_has_its_own),
      cmocka_unit_test(a_thread_keeps_what_is_its_own),
  };
  const int failed = cmocka_run_group_tests(tests, begin, nullptr);
  if (child == 0) return failed;
  int status = 0;
  const bool ended = child > 0 && waitpid(child, &status, 0) == child;
  return failed != 0 || !ended || status != 0 ? 1 : 0;
}
