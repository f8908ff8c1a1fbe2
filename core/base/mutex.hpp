// SPDX-License-Identifier: Apache-2.0
//
// Mutexes with a rank, the guard that holds one, and the signal that is waited for under it. Clang checks that what a mutex
// guards is used with it held (scripts/check-locks).
//
// A thread takes a mutex only if it holds none of the same rank or a higher one. Checked builds abort at the first
// violation, so a deadlock shows as a stack, not as a hang.
//
//   process   the list of the process's contexts, while one of them is looked at or goes
//   trace_turn  held while traces of a context start and stop, and its pools come and go
//   trace     of what traces write, and their thread, which looks at pools
//   call      held through a call that uses the pool, and by which calls take turns: the clients and requests of a Pool, its
//             devices, its loss callback, its Defragmenter's settings, its PolicyStore; one asynchronous request; a context's look at its
//             pools
//   upkeep    held for work beside the calls, which uses the pool: threads of Weir's own are started and ended (Workers,
//             Background), what is to be scrubbed is overwritten (ScrubTurns)
//   pool      the pool's lock
//   transfer  held across calls of the backend that move or map memory: Carrier, SharedMapping, Relay's staging, and the opening
//             of a TransferStreams' stream of moves
//   mapping   a caller's turn with the mapping thread, which those above take: Mapper
//   leaf      everything else: no other mutex is taken with it held
//
// The spin lock of a stream's timeline (core/backend/timeline.hpp) has no rank: it is held for a handful of instructions,
// and nothing is taken with it held.
#pragma once

#include "core/base/thread_safety.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

/// Of the functions that Clang can't follow, as they are the lock.
#define WEIR_IS_LOCK WEIR_THREAD_SAFETY(no_thread_safety_analysis)

namespace weir {

enum class Rank : uint8_t {
  process = 0,
  trace_turn = 1,
  trace = 2,
  call = 3,
  upkeep = 4,
  pool = 5,
  transfer = 6,
  mapping = 7,
  leaf = 8
};

namespace rank_check {
#if defined(WEIR_DEBUG_CHECKS)
inline thread_local uint64_t held = 0;  // a bit per rank
inline void take(Rank rank) noexcept {
  if ((held >> static_cast<unsigned>(rank)) != 0) {
    std::fprintf(stderr, "weir: lock order violated: rank %u while holding mask %#llx\n",
                 static_cast<unsigned>(rank), static_cast<unsigned long long>(held));
    std::abort();
  }
  held |= uint64_t{1} << static_cast<unsigned>(rank);
}
inline void drop(Rank rank) noexcept { held &= ~(uint64_t{1} << static_cast<unsigned>(rank)); }
#else
inline void take(Rank /*rank*/) noexcept {}
inline void drop(Rank /*rank*/) noexcept {}
#endif
}  // namespace rank_check

template <Rank rank>
class WEIR_CAPABILITY("mutex") RankedMutex {
 public:
  void lock() WEIR_ACQUIRE() WEIR_IS_LOCK {
    rank_check::take(rank);
    mutex_.lock();
  }
  void unlock() WEIR_RELEASE() WEIR_IS_LOCK {
    mutex_.unlock();
    rank_check::drop(rank);
  }
  bool try_lock() WEIR_TRY_ACQUIRE(true) WEIR_IS_LOCK {
    if (!mutex_.try_lock()) return false;
    rank_check::take(rank);
    return true;
  }

  /// For Signal. The mutex is dropped while the thread sleeps; its rank is not, as the thread takes nothing meanwhile.
  void sleep(std::condition_variable &until) noexcept WEIR_REQUIRES(this) {
    std::unique_lock<std::mutex> held(mutex_, std::adopt_lock);
    until.wait(held);
    (void)held.release();
  }
  /// False: it is `end`.
  bool sleep(std::condition_variable &until, std::chrono::steady_clock::time_point end) noexcept
      WEIR_REQUIRES(this) {
    std::unique_lock<std::mutex> held(mutex_, std::adopt_lock);
    const bool in_time = until.wait_until(held, end) == std::cv_status::no_timeout;
    (void)held.release();
    return in_time;
  }

 private:
  std::mutex mutex_;
};

/// Holds a mutex (a RankedMutex, a SpinLock) for a scope. One that is const keeps it all the time.
template <class Mutex>
class WEIR_SCOPED Guard {
 public:
  explicit Guard(Mutex &mutex) WEIR_ACQUIRE(mutex) WEIR_IS_LOCK : mutex_(mutex) { mutex_.lock(); }
  ~Guard() WEIR_RELEASE() WEIR_IS_LOCK { mutex_.unlock(); }
  Guard(const Guard &) = delete;
  Guard &operator=(const Guard &) = delete;

  /// Drops the mutex, does the work, and takes the mutex again, also where the work throws. Returns what the work returns.
  /// Clang analyses a lambda as a function that holds nothing, so the work can't use what is guarded.
  template <class Work>
  decltype(auto) unlocked(Work &&work) WEIR_IS_LOCK {
    const Open open(mutex_);
    return std::forward<Work>(work)();
  }

  /// For Signal only.
  void sleep(std::condition_variable &until) WEIR_IS_LOCK { mutex_.sleep(until); }
  bool sleep(std::condition_variable &until,
             std::chrono::steady_clock::time_point end) WEIR_IS_LOCK {
    return mutex_.sleep(until, end);
  }

 private:
  struct Open {
    explicit Open(Mutex &mutex_) WEIR_IS_LOCK : mutex(mutex_) { mutex.unlock(); }
    ~Open() WEIR_IS_LOCK { mutex.lock(); }
    Open(const Open &) = delete;
    Open &operator=(const Open &) = delete;
    Mutex &mutex;
  };

  Mutex &mutex_;
};

/// Holds a mutex for a scope if it was free. Clang can't follow that: it is for mutexes that guard a turn and no data.
template <class Mutex>
class TryGuard {
 public:
  explicit TryGuard(Mutex &mutex) WEIR_IS_LOCK : mutex_(mutex), held_(mutex.try_lock()) {}
  ~TryGuard() WEIR_IS_LOCK {
    if (held_) mutex_.unlock();
  }
  TryGuard(const TryGuard &) = delete;
  TryGuard &operator=(const TryGuard &) = delete;
  explicit operator bool() const noexcept { return held_; }

 private:
  Mutex &mutex_;
  const bool held_;
};

/// What is waited for with a guard. A wait may end for nothing, so it stands in a loop, which is written out: Clang analyses a
/// predicate as a function that holds nothing.
///
///     while (!done_) changed_.wait(hold);
class Signal {
 public:
  template <class Mutex>
  void wait(Guard<Mutex> &hold) {
    hold.sleep(changed_);
  }
  /// False: that time is over.
  template <class Mutex>
  bool wait_until(Guard<Mutex> &hold, std::chrono::steady_clock::time_point end) {
    return hold.sleep(changed_, end);
  }
  template <class Mutex>
  bool wait_for(Guard<Mutex> &hold, std::chrono::nanoseconds time) {
    return wait_until(hold, std::chrono::steady_clock::now() + time);
  }
  void notify_one() noexcept { changed_.notify_one(); }
  void notify_all() noexcept { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace weir
