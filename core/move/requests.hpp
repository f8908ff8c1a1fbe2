// SPDX-License-Identifier: Apache-2.0
//
// Requests: calls that wait until a task has seen to all that there was when they came. The task reads how many have asked before it looks
// at its work, and answers those when that is done.
#pragma once

#include "core/base/pool_lock.hpp"

namespace weir::move {

class Requests {
 public:
  explicit Requests(PoolLock &lock) noexcept : changed_(lock) {}

  /// Returns which one it is.
  uint64_t ask() noexcept WEIR_HELD { return ++asked_; }
  uint64_t asked() const noexcept WEIR_HELD { return asked_; }
  /// All up to that one are seen to, or never will be.
  void answer(uint64_t asked) noexcept WEIR_HELD {
    if (std::exchange(answered_, std::max(answered_, asked)) < asked) changed_.notify_all();
  }
  bool answered(uint64_t request) const noexcept WEIR_HELD { return answered_ >= request; }
  /// Until some are answered, or for no reason, at most so long.
  void wait_for(Releasable &held, std::chrono::nanoseconds time) WEIR_HELD {
    (void)changed_.wait_for(held, time);
  }

 private:
  uint64_t asked_ WEIR_GUARDED = 0, answered_ WEIR_GUARDED = 0;
  PoolSignal changed_;
};

}  // namespace weir::move
