// SPDX-License-Identifier: Apache-2.0
//
// Tap: where a pool can be listened to. It has the tape that a trace is written to, while there is one, and what acquires have waited
// for and how long moves took, always; and the profilers that are told what its threads are at. A thread that has something to tell looks for the
// tape first: one load, and nothing more where there is none.
#pragma once

#include "core/base/copy_samples.hpp"
#include "core/base/move_times.hpp"
#include "core/base/ranges.hpp"
#include "core/base/waits.hpp"

#include <atomic>

namespace weir {

class Tape;

class Tap {
 public:
  /// nullptr: no trace is written. A tape once returned may be written to at any time while the context lives, also after its trace has ended.
  Tape *tape() const noexcept { return tape_.load(std::memory_order_acquire); }
  void set(Tape *tape) noexcept { tape_.store(tape, std::memory_order_release); }
  /// A number for a round of evictions. 0 is none.
  uint64_t next_round() noexcept { return rounds_.fetch_add(1, std::memory_order_relaxed) + 1; }

  /// Set once, before the pool's first thread.
  void set(const PoolRanges &ranges) noexcept { ranges_ = ranges; }
  const PoolRanges &ranges() const noexcept { return ranges_; }

  Waits &waits() noexcept { return waits_; }
  const Waits &waits() const noexcept { return waits_; }
  MoveTimes &moves() noexcept { return moves_; }
  const MoveTimes &moves() const noexcept { return moves_; }
  CopySamples &copies() noexcept { return copies_; }

 private:
  std::atomic<Tape *> tape_{nullptr};
  std::atomic<uint64_t> rounds_{0};
  Waits waits_;
  MoveTimes moves_;
  CopySamples copies_;
  PoolRanges ranges_;
};

}  // namespace weir
