// SPDX-License-Identifier: Apache-2.0
//
// Turn: a lock that may be held for long, taken by a thread that holds a spin lock and finds it free. The spin lock is held
// for a handful of instructions; the turn is kept across a call that can block, and a thread that needs it meanwhile sleeps. Taking and
// giving it are plain loads and stores: the spin lock is the only locked instruction of the two.
//
// A sleeper that came in the instant between the giver's store and its look for sleepers may be missed. It looks again by
// itself after `backstop_ns`, which is the most that this can cost.
#pragma once

#include "core/base/mutex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

namespace weir {

class Turn {
 public:
  /// The caller holds the spin lock, here and below where it says so. False: another thread has it.
  bool try_take() noexcept {
    if (taken_.load(std::memory_order_acquire) != 0) return false;
    taken_.store(1, std::memory_order_relaxed);
    return true;
  }
  void give() noexcept {
    taken_.store(0, std::memory_order_release);
    if (sleepers_.load(std::memory_order_relaxed) != 0) wake();
  }
  bool taken() const noexcept { return taken_.load(std::memory_order_acquire) != 0; }

  /// Takes it, however long that lasts. The lock is held before and after, and dropped in between.
  template <class Lock>
  void take(Guard<Lock> &hold) noexcept {
    while (!try_take()) hold.unlocked([this] { sleep(); });
  }

 private:
  static constexpr long backstop_ns = 1'000'000;

  void sleep() noexcept {
    sleepers_.fetch_add(1);
    const timespec most{0, backstop_ns};
    (void)syscall(SYS_futex, &taken_, FUTEX_WAIT_PRIVATE, 1, &most, nullptr, 0);
    sleepers_.fetch_sub(1);
  }
  [[gnu::cold, gnu::noinline]] void wake() noexcept {
    (void)syscall(SYS_futex, &taken_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }

  std::atomic<uint32_t> taken_{0};
  std::atomic<uint32_t> sleepers_{0};
};
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t),
              "the kernel compares a plain word");

}  // namespace weir
