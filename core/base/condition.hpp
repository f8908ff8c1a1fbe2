// SPDX-License-Identifier: Apache-2.0
//
// Condition: a condition variable for which notifying costs a load while nobody waits. std::condition_variable_any takes a
// lock of its own for each notification, which is a good part of a short call. All waits on one take the same lock, and what
// is waited for changes under it only; who notifies may have dropped it by then.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>

namespace weir {

class Condition {
 public:
  template <class Lock>
  void wait(Lock &lock) {
    const Waiter waiter(waiters_);
    changed_.wait(lock);
  }
  template <class Lock, class Predicate>
  void wait(Lock &lock, Predicate &&holds) {
    while (!holds()) wait(lock);
  }
  template <class Lock>
  void wait_for(Lock &lock, std::chrono::nanoseconds time) {
    const Waiter waiter(waiters_);
    (void)changed_.wait_for(lock, time);
  }
  /// Nobody is overlooked: who waits was counted under the lock, before what he waits for changed under it.
  void notify_all() noexcept {
    if (waiters_.load(std::memory_order_relaxed) != 0) changed_.notify_all();
  }

 private:
  struct Waiter {
    explicit Waiter(std::atomic<uint32_t> &count_) noexcept : count(count_) {
      count.fetch_add(1, std::memory_order_relaxed);
    }
    ~Waiter() { count.fetch_sub(1, std::memory_order_relaxed); }
    Waiter(const Waiter &) = delete;
    Waiter &operator=(const Waiter &) = delete;
    std::atomic<uint32_t> &count;
  };

  std::condition_variable_any changed_;
  std::atomic<uint32_t> waiters_{0};
};

}  // namespace weir
