// SPDX-License-Identifier: Apache-2.0
//
// ScrubTurns: whether anything waits to be overwritten, and which thread does it. One thread at a time does all that is due. A thread
// that has noted some itself, or must not return before it is done, waits for the turn, if only for another to end it; all
// others leave it to the thread that has the turn. Where nothing is ever noted it costs a load.
#pragma once

#include "core/base/mutex.hpp"
#include "core/base/pool_lock.hpp"

#include <atomic>

namespace weir {

class ScrubTurns {
 public:
  /// Overwrites what is due; `wait`: also what copies under way still read. False: there is some left.
  class Work {
   public:
    virtual bool scrub(bool wait) noexcept WEIR_NOT_HELD = 0;

   protected:
    ~Work() = default;
  };
  ScrubTurns(PoolLock &lock, Work &work) noexcept : lock_(lock), work_(work) {}

  /// A copy that is to be scrubbed could not be overwritten at once.
  void note() noexcept {
    noted_.fetch_add(1, std::memory_order_relaxed);
    due_.store(true, std::memory_order_release);
  }
  /// How often there was such.
  uint64_t noted() const noexcept { return noted_.load(std::memory_order_relaxed); }
  bool due() const noexcept { return due_.load(std::memory_order_relaxed); }
  /// When a background thread is to look again; UINT64_MAX: not before something is due.
  uint64_t rest_ns() const noexcept { return due() ? retry_after_ns : UINT64_MAX; }
  /// Has what is due overwritten. `own`: some of it is the calling thread's, so the call returns only when that is done, by this thread or
  /// another; the same with `wait`.
  void finish(bool wait, bool own) noexcept WEIR_NOT_HELD {
    if (!wait && !own && !due()) return;
    const PoolLock::Hush hush(lock_);  // lines logged meanwhile are passed on after the turn
    if (wait || own) {
      const Guard turn(turn_);  // nothing may be due because another is at it: that has to end too
      run(wait);
    } else {
      const TryGuard turn(turn_);
      if (turn) run(wait);
    }
  }
  /// By a background thread, of what it and its like have done.
  void finish_behind(Releasable &lock) noexcept WEIR_HELD {
    if (due()) lock.unlocked([this] { finish(false, false); });
  }
  /// Waits until the thread that has the turn, if one has, gives it back.
  void await() noexcept { const Guard turn(turn_); }
  /// A write to storage has failed: it is tried again after a while, or at once by a thread that waits for it.
  void put_off(uint64_t now) noexcept WEIR_HELD { retry_ns_ = now + retry_after_ns; }
  bool put_off_at(uint64_t now) const noexcept WEIR_HELD { return now < retry_ns_; }

 private:
  static constexpr uint64_t retry_after_ns = 1'000'000'000;

  void run(bool wait) noexcept WEIR_NOT_HELD {
    if (!due_.load(std::memory_order_acquire)) return;
    due_.store(false, std::memory_order_relaxed);  // note() from now on sets it again
    if (!work_.scrub(wait)) due_.store(true, std::memory_order_relaxed);
  }

  PoolLock &lock_;
  Work &work_;
  std::atomic<bool> due_{false};
  std::atomic<uint64_t> noted_{0};
  RankedMutex<Rank::upkeep> turn_;  ///< never taken with the pool's lock held
  uint64_t retry_ns_ WEIR_GUARDED = 0;
};

/// Stands before the lock in each call by which a copy that is to be scrubbed can stop being one, and does before the call returns
/// what could not be done on the spot. Where no buffer is to be scrubbed it costs two loads.
class Scrubbing {
 public:
  /// `wait`: for copies under way too.
  explicit Scrubbing(ScrubTurns &turns, bool wait = false) noexcept
      : turns_(turns), before_(turns.noted()), wait_(wait) {}
  ~Scrubbing() { turns_.finish(wait_, turns_.noted() != before_); }
  void wait() noexcept { wait_ = true; }
  Scrubbing(const Scrubbing &) = delete;
  Scrubbing &operator=(const Scrubbing &) = delete;

 private:
  ScrubTurns &turns_;
  const uint64_t before_;
  bool wait_;
};

}  // namespace weir
