// SPDX-License-Identifier: Apache-2.0
//
// Guard, Signal and the ranks of mutexes: what unlocked() drops it takes again, also where the work throws; a wait lets others
// have the mutex; and in checked builds a mutex taken out of turn ends the process, where it would have waited for ever.

#include "core/base/mutex.hpp"
#include "core/base/spin_lock.hpp"
#include "tests/support/cmocka.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>
#include <thread>

namespace {

using weir::Guard;
using weir::Rank;
using weir::RankedMutex;
using weir::Signal;

/// Whether another thread could have it now.
template <class Mutex>
bool is_free(Mutex &mutex) {
  bool taken = false;
  std::thread([&] {
    taken = mutex.try_lock();
    if (taken) mutex.unlock();
  }).join();
  return taken;
}

void guard_holds_and_gives_back(void **) {
  RankedMutex<Rank::leaf> mutex;
  {
    const Guard hold(mutex);
    assert_false(is_free(mutex));
  }
  assert_true(is_free(mutex));
}

void unlocked_drops_and_takes_again(void **) {
  RankedMutex<Rank::leaf> mutex;
  Guard hold(mutex);
  assert_true(hold.unlocked([&] { return is_free(mutex); }));
  assert_false(is_free(mutex));
  int value = 3;
  int &same = hold.unlocked([&]() -> int & { return value; });
  assert_ptr_equal(&same, &value);
  hold.unlocked([] {});
  assert_false(is_free(mutex));
}

void unlocked_takes_again_after_a_throw(void **) {
  RankedMutex<Rank::leaf> mutex;
  {
    Guard hold(mutex);
    bool caught = false;
    try {
      hold.unlocked([]() -> int { throw std::runtime_error("planted"); });
    } catch (const std::runtime_error &) {
      caught = true;
    }
    assert_true(caught);
    assert_false(is_free(mutex));
  }
  assert_true(is_free(mutex));
}

void guard_holds_a_spin_lock(void **) {
  weir::SpinLock lock;
  Guard hold(lock);
  int others = 0;
  hold.unlocked([&] {
    std::thread([&] {
      const Guard other(lock);
      ++others;
    }).join();
  });
  assert_int_equal(others, 1);
}

void wait_lets_others_in(void **) {
  RankedMutex<Rank::leaf> mutex;
  Signal changed;
  int turn = 0;
  std::thread other([&] {
    Guard hold(mutex);
    while (turn != 1) changed.wait(hold);
    turn = 2;
    changed.notify_all();
  });
  {
    Guard hold(mutex);
    turn = 1;
    changed.notify_one();
    while (turn != 2) changed.wait(hold);
  }
  other.join();
  assert_int_equal(turn, 2);
}

void timed_wait_tells_that_time_is_over(void **) {
  RankedMutex<Rank::leaf> mutex;
  Signal never;
  Guard hold(mutex);
  const auto end = std::chrono::steady_clock::now();
  // It may end for nothing before.
  while (never.wait_until(hold, end)) {
  }
  while (never.wait_for(hold, std::chrono::nanoseconds(1))) {
  }
  assert_false(is_free(mutex));
}

/// In the order of ranks, and again after they were dropped: no build objects.
void ranks_in_order(void **) {
  RankedMutex<Rank::call> call;
  RankedMutex<Rank::upkeep> upkeep;
  RankedMutex<Rank::pool> pool;
  RankedMutex<Rank::transfer> transfer;
  RankedMutex<Rank::mapping> mapping;
  RankedMutex<Rank::leaf> leaf;
  for (int i = 0; i < 2; ++i) {
    const Guard a(call);
    const Guard b(upkeep);
    Guard c(pool);
    const Guard d(transfer);
    const Guard e(mapping);
    const Guard f(leaf);
  }
  Guard held(pool);
  held.unlocked([&] { const Guard lower(call); });
  const Guard higher(leaf);
}

#if defined(WEIR_DEBUG_CHECKS)

/// The signal that ends a process that does this; 0: none did.
template <class Work>
int ends_by(Work work) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)std::signal(SIGABRT, SIG_DFL);
    (void)close(STDERR_FILENO);
    work();
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void out_of_order_aborts(void **) {
  RankedMutex<Rank::leaf> leaf;
  RankedMutex<Rank::leaf> other;
  RankedMutex<Rank::pool> pool;
  assert_int_equal(ends_by([&] {
                     const Guard one(leaf);
                     const Guard two(pool);
                   }),
                   SIGABRT);
  assert_int_equal(ends_by([&] {
                     const Guard one(leaf);
                     const Guard two(other);
                   }),
                   SIGABRT);
  // Taken again, it would be out of order.
  assert_int_equal(ends_by([&] {
                     Guard one(pool);
                     one.unlocked([&] { leaf.lock(); });
                   }),
                   SIGABRT);
  assert_int_equal(ends_by([&] {
                     const Guard one(pool);
                     const Guard two(leaf);
                   }),
                   0);
}

#endif

}  // namespace

int main() {
  const CMUnitTest tests[] = {
    cmocka_unit_test(guard_holds_and_gives_back),
    cmocka_unit_test(unlocked_drops_and_takes_again),
    cmocka_unit_test(unlocked_takes_again_after_a_throw),
    cmocka_unit_test(guard_holds_a_spin_lock),
    cmocka_unit_test(wait_lets_others_in),
    cmocka_unit_test(timed_wait_tells_that_time_is_over),
    cmocka_unit_test(ranks_in_order),
#if defined(WEIR_DEBUG_CHECKS)
    cmocka_unit_test(out_of_order_aborts),
#endif
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
