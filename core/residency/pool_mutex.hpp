// SPDX-License-Identifier: Apache-2.0
//
// PoolMutex: the pool's lock, and the lines that are to be logged of what happens under it. A log callback is called with no lock of
// Weir's held, so such a line waits until the lock is dropped, and who drops it says it. PoolSignal: what is waited for under it.
#pragma once

#include "core/base/condition.hpp"
#include "core/base/log.hpp"
#include "core/base/mutex.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <mutex>

namespace weir::residency {

class PoolMutex {
 public:
  explicit PoolMutex(const Log &log) noexcept : log_(log) {}

  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() {
    if (!has_lines() || hushed != 0) {
      mutex_.unlock();
    } else {
      unlock_and_tell();
    }
  }

  /// Under the lock: a line for later. More of them at once than are kept are only counted.
  void note(int32_t level, const char *format, ...) noexcept __attribute__((format(printf, 3, 4))) {
    const size_t at = count_.load(std::memory_order_relaxed);
    count_.store(at + 1, std::memory_order_relaxed);
    if (at >= lines_.size()) return;
    Line &line = lines_[at];
    line.level = level;
    va_list args;
    va_start(args, format);
    std::vsnprintf(line.text.data(), line.text.size(), format, args);
    va_end(args);
  }

  bool has_lines() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }

  /// For a thread that takes this lock with another one of Weir's held: the lines wait until it has dropped that, too.
  class Hush {
   public:
    explicit Hush(PoolMutex &mutex) noexcept : mutex_(mutex) { ++hushed; }
    ~Hush() {
      if (--hushed != 0 || !mutex_.has_lines()) return;
      mutex_.lock();
      mutex_.unlock();
    }
    Hush(const Hush &) = delete;
    Hush &operator=(const Hush &) = delete;

   private:
    PoolMutex &mutex_;
  };

 private:
  struct Line {
    int32_t level = 0;
    std::array<char, 256> text{};
  };

  void unlock_and_tell() {
    const std::array<Line, 4> lines = lines_;
    const size_t count = count_.exchange(0, std::memory_order_relaxed);
    mutex_.unlock();
    for (size_t i = 0; i < std::min(count, lines.size()); ++i)
      log_(lines[i].level, "%s", lines[i].text.data());
    if (count > lines.size()) log_(WEIR_LOG_WARNING, "and %zu lines more", count - lines.size());
  }

  inline static thread_local uint32_t hushed = 0;
  const Log log_;
  RankedMutex<Rank::pool> mutex_;
  std::atomic<size_t> count_{0};  ///< changed under the lock
  std::array<Line, 4> lines_;
};

/// A condition has a lock of its own while it lets go of the pool's: lines are said before, and that counts as a wakeup.
class PoolSignal {
 public:
  using Lock = std::unique_lock<PoolMutex>;

  void notify_all() noexcept { condition_.notify_all(); }
  void wait(Lock &lock) {
    if (!told(lock)) condition_.wait(lock);
  }
  template <class Reached>
  void wait(Lock &lock, Reached reached) {
    while (!reached()) wait(lock);
  }
  void wait_for(Lock &lock, std::chrono::nanoseconds time) {
    if (!told(lock)) condition_.wait_for(lock, time);
  }

 private:
  static bool told(Lock &lock) {
    if (!lock.mutex()->has_lines()) return false;
    lock.unlock();
    lock.lock();
    return true;
  }

  Condition condition_;
};

}  // namespace weir::residency
