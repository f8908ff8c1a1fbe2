// SPDX-License-Identifier: Apache-2.0
//
// PoolLock: the one mutex of a pool, and the only place that locks it, drops it, waits under it and wakes its waiters. What a
// function does with it stands in its signature, and Clang checks that (scripts/check-locks):
//
//   WEIR_HELD                          is called with the lock held, and keeps it
//   Releasable &lock ... WEIR_HELD     is called with it held, and may drop it meanwhile: what the caller knew may be over
//   WEIR_NOT_HELD                      is called without it, and takes it where it needs it
//
// Clang compares locks by their expressions, of which one mutex has many (env_.sync.lock, lock_, ...). So all of them stand for one
// capability, `pool_role`. Two pools are never locked at once.
//
// What must hold: a log callback is called with no lock of Weir's held, so lines wait until the lock is dropped. Wakes too wait for
// that, so that a woken thread does not at once block on the lock.
#pragma once

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "core/base/status.hpp"
#include "core/base/thread_safety.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <new>
#include <utility>

namespace weir {

/// How many records walks have looked at since the thread took the lock, in checked builds: what a call looks at in one taking is what
/// others wait for (tests/unit/test_growth.cpp).
namespace visits {
#if defined(WEIR_DEBUG_CHECKS)
inline thread_local uint64_t now = 0;
inline std::atomic<uint64_t> most{0};  ///< in one taking, of all pools
inline void count(uint64_t records = 1) noexcept { now += records; }
inline void begin() noexcept { now = 0; }
inline void end() noexcept {
  uint64_t seen = most.load(std::memory_order_relaxed);
  while (seen < now && !most.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}
#else
inline void count(uint64_t /*records*/ = 1) noexcept {}
inline void begin() noexcept {}
inline void end() noexcept {}
#endif
}  // namespace visits

class WEIR_CAPABILITY("pool lock") PoolRole {};
inline PoolRole pool_role;

#define WEIR_HELD WEIR_REQUIRES(::weir::pool_role)
#define WEIR_NOT_HELD WEIR_EXCLUDES(::weir::pool_role)
#define WEIR_GUARDED WEIR_GUARDED_BY(::weir::pool_role)

class PoolSignal;

class PoolLock {
 public:
  explicit PoolLock(const Log &log) noexcept : log_(log) {}

  /// A line for later. More of them at once than are kept are only counted.
  void note(int32_t level, const char *format, ...) noexcept WEIR_HELD
      __attribute__((format(printf, 3, 4))) {
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

  /// The pool ends: background tasks, and callers that wait for room, give up.
  void stop() noexcept WEIR_HELD { stopping_ = true; }
  bool stopping() const noexcept WEIR_HELD { return stopping_; }

  /// Whether no thread has it. For code that must not wait and has no other way: at the process's end.
  bool free_now() noexcept WEIR_IS_LOCK {
    if (!mutex_.try_lock()) return false;
    mutex_.unlock();
    return true;
  }

  /// For a thread that takes this lock with other locks of Weir's held and only looks: lines of others are theirs to tell.
  class Quiet {
   public:
    Quiet() noexcept { ++hushed; }
    ~Quiet() { --hushed; }
    Quiet(const Quiet &) = delete;
    Quiet &operator=(const Quiet &) = delete;
  };

  /// For a thread that takes this lock with another one of Weir's held: the lines wait until it has dropped that, too.
  class Hush {
   public:
    explicit Hush(PoolLock &lock) noexcept : lock_(lock) { ++hushed; }
    ~Hush() {
      if (--hushed != 0 || !lock_.has_lines()) return;
      lock_.take();
      lock_.drop();
    }
    Hush(const Hush &) = delete;
    Hush &operator=(const Hush &) = delete;

   private:
    PoolLock &lock_;
  };

 private:
  friend class Releasable;
  friend class Locked;
  friend class PoolSignal;

  struct Line {
    int32_t level = 0;
    std::array<char, 256> text{};
  };

  void take() {
    rank_check::take(Rank::pool);
    mutex_.lock();
    visits::begin();
  }
  void drop() noexcept {
    if (due_ != nullptr || (has_lines() && hushed == 0)) {
      drop_and_tell();
    } else {
      unlock();
    }
  }
  void unlock() noexcept {
    visits::end();
    mutex_.unlock();
    rank_check::drop(Rank::pool);
  }
  bool has_lines() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }
  inline void wake_due() noexcept;
  void drop_and_tell() noexcept {
    wake_due();
    if (!has_lines() || hushed != 0) return unlock();
    const std::array<Line, 4> lines = lines_;
    const size_t count = count_.exchange(0, std::memory_order_relaxed);
    unlock();
    for (size_t i = 0; i < std::min(count, lines.size()); ++i)
      log_(lines[i].level, "%s", lines[i].text.data());
    if (count > lines.size()) log_(WEIR_LOG_WARNING, "and %zu lines more", count - lines.size());
  }

  inline static thread_local uint32_t hushed = 0;
  const Log log_;
  std::mutex mutex_;
  PoolSignal *due_ = nullptr;     ///< signals to be given when the lock is dropped, a list
  std::atomic<size_t> count_{0};  ///< of lines; changed under the lock
  std::array<Line, 4> lines_;
  bool stopping_ WEIR_GUARDED = false;
};

/// The pool is locked, and a function that gets this may drop the lock for a while. A base class: Locked takes the lock.
class Releasable {
 public:
  Releasable(const Releasable &) = delete;
  Releasable &operator=(const Releasable &) = delete;

  /// Drops the lock, does the work, and takes the lock again, also where the work throws. Returns what the work returns.
  template <class Work>
  decltype(auto) unlocked(Work &&work) WEIR_HELD WEIR_IS_LOCK {
    const Open open(lock_);
    return std::forward<Work>(work)();
  }

 protected:
  explicit Releasable(PoolLock &lock) noexcept : lock_(lock) {}
  ~Releasable() = default;

 private:
  friend class PoolSignal;
  friend class Locked;

  struct Open {
    explicit Open(PoolLock &opened) noexcept : lock(opened) { lock.drop(); }
    ~Open() { lock.take(); }
    Open(const Open &) = delete;
    Open &operator=(const Open &) = delete;
    PoolLock &lock;
  };

  PoolLock &lock_;
};

/// Takes the lock for a scope.
class WEIR_SCOPED Locked : public Releasable {
 public:
  explicit Locked(PoolLock &lock) WEIR_ACQUIRE(pool_role) WEIR_IS_LOCK : Releasable(lock) {
    lock.take();
  }
  ~Locked() WEIR_RELEASE() WEIR_IS_LOCK { lock_.drop(); }
};

/// Returns what the work returns; OUT_OF_HOST_MEMORY where it runs out of memory: "no host memory" and what that was to be for.
template <class Work>
Status with_memory(const char *purpose, Work &&work) WEIR_IS_LOCK {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc &) {
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory %s", purpose);
  }
}
/// The same with the pool locked before and after.
template <class Work>
Status with_memory(Releasable &, const char *purpose, Work &&work) WEIR_HELD WEIR_IS_LOCK {
  return with_memory(purpose, std::forward<Work>(work));
}
/// Does the work as far as there is memory for it. False: there was not.
template <class Work>
bool if_memory(Work &&work) WEIR_IS_LOCK {
  try {
    std::forward<Work>(work)();
    return true;
  } catch (const std::bad_alloc &) {
    return false;
  }
}

/// Returns what the work returns. Where the work fails or throws, `undo` has been called.
template <class Work, class Undo>
Status or_undo(Work &&work, Undo &&undo) WEIR_HELD WEIR_IS_LOCK {
  Status status;
  try {
    status = std::forward<Work>(work)();
  } catch (...) {
    undo();
    throw;
  }
  if (!status) undo();
  return status;
}

/// Calls `work` at the end of its scope, however that is left.
template <class Work>
class AtEnd {
 public:
  explicit AtEnd(Work work) noexcept : work_(std::move(work)) {}
  ~AtEnd() { work_(); }
  AtEnd(const AtEnd &) = delete;
  AtEnd &operator=(const AtEnd &) = delete;

 private:
  Work work_;
};

/// What is waited for under the lock. A thread that changes what others wait for calls notify_all() with the lock held; the waiters
/// are woken when the lock is dropped. It costs a load while there is no waiter.
class PoolSignal {
 public:
  explicit PoolSignal(PoolLock &lock) noexcept : lock_(lock) {}

  void notify_all() noexcept WEIR_HELD {
    if (waiters_ == 0 || due_) return;
    ++given_;
    due_ = true;
    next_ = lock_.due_;
    lock_.due_ = this;
  }
  /// Whether a thread waits for it.
  bool awaited() const noexcept WEIR_HELD { return waiters_ != 0; }
  /// Until something has changed, or for no reason: the caller looks again.
  void wait(Releasable &held) WEIR_HELD WEIR_IS_LOCK {
    if (said_lines(held)) return;
    Waiting waiting(*this);
    changed_.wait(waiting.lock);
  }
  /// False: the time is over and no signal was given.
  bool wait_for(Releasable &held, std::chrono::nanoseconds time) WEIR_HELD WEIR_IS_LOCK {
    if (said_lines(held)) return true;
    const uint16_t before = given_;
    Waiting waiting(*this);
    return changed_.wait_for(waiting.lock, time) == std::cv_status::no_timeout || given_ != before;
  }

 private:
  friend class PoolLock;

  /// std::condition_variable wants a lock of its own kind: one that has the mutex already, and leaves it so.
  struct Waiting {
    explicit Waiting(PoolSignal &on) noexcept : signal(on), lock(on.lock_.mutex_, std::adopt_lock) {
      ++signal.waiters_;
      visits::end();
    }
    ~Waiting() {
      visits::begin();
      --signal.waiters_;
      (void)lock.release();
    }
    Waiting(const Waiting &) = delete;
    Waiting &operator=(const Waiting &) = delete;
    PoolSignal &signal;
    std::unique_lock<std::mutex> lock;
  };

  /// Called before a wait drops the mutex: gives the signals and logs the lines that wait for that. Lines that are logged count as a wake-up.
  bool said_lines(Releasable &held) WEIR_IS_LOCK {
    lock_.wake_due();
    if (!lock_.has_lines()) return false;
    held.unlocked([] {});
    return true;
  }

  PoolLock &lock_;
  std::condition_variable changed_;
  uint32_t waiters_ = 0;
  bool due_ = false;
  uint16_t given_ = 0;  ///< signals given to waiters; only compared with an older value
  PoolSignal *next_ = nullptr;
};

inline void PoolLock::wake_due() noexcept {
  while (due_ != nullptr) {
    PoolSignal &signal = *std::exchange(due_, due_->next_);
    signal.due_ = false;
    signal.changed_.notify_all();
  }
}

}  // namespace weir
