// SPDX-License-Identifier: Apache-2.0
//
// ScrubTurns: whether anything waits to be overwritten, and whose turn it is to do so. One thread at a time does all that is due.
// Who has noted some himself, or has to see the end of it, waits for the turn, be it only because another is at it; others
// leave it to whoever has it. Where nothing is ever noted it costs a load.
#pragma once

#include "core/base/mutex.hpp"
#include "core/base/pool_lock.hpp"

#include <atomic>

namespace weir::policy {

class ScrubTurns {
 public:
  /// A copy that is to be scrubbed could not be overwritten at once.
  void note() noexcept {
    noted_.fetch_add(1, std::memory_order_relaxed);
    due_.store(true, std::memory_order_release);
  }
  /// How often there was such.
  uint64_t noted() const noexcept { return noted_.load(std::memory_order_relaxed); }
  bool due() const noexcept { return due_.load(std::memory_order_relaxed); }
  /// `scrub` does what is due; false: there is some left. `must`: not without the turn.
  template <class Scrub>
  void take(bool must, Scrub &&scrub) noexcept WEIR_NOT_HELD {
    if (must) {
      const Guard turn(turn_);  // nothing may be due because another is at it: that has to end too
      run(scrub);
    } else if (due()) {
      const TryGuard turn(turn_);
      if (turn) run(scrub);
    }
  }
  /// Until nobody has the turn who had it.
  void await() noexcept { const Guard turn(turn_); }
  /// A write to storage has failed: the next is tried after a while, unless somebody waits for it.
  void put_off(uint64_t now) noexcept WEIR_HELD { retry_ns_ = now + retry_after_ns; }
  bool put_off_at(uint64_t now) const noexcept WEIR_HELD { return now < retry_ns_; }

 private:
  static constexpr uint64_t retry_after_ns = 1'000'000'000;

  template <class Scrub>
  void run(Scrub &&scrub) noexcept WEIR_NOT_HELD {
    if (!due_.load(std::memory_order_acquire)) return;
    due_.store(false, std::memory_order_relaxed);  // who notes some from now on sets it again
    if (!scrub()) due_.store(true, std::memory_order_relaxed);
  }

  std::atomic<bool> due_{false};
  std::atomic<uint64_t> noted_{0};
  RankedMutex<Rank::upkeep> turn_;  ///< never taken with the pool's lock held
  uint64_t retry_ns_ WEIR_GUARDED = 0;
};

}  // namespace weir::policy
