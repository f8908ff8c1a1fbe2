// SPDX-License-Identifier: Apache-2.0
//
// IdleScan: when what lies idle on the devices is looked at, several times a grace period; not at all while nothing does. Whoever
// looks says when he begins and ends, so that one does at a time. Guarded by the pool's lock.
#pragma once

#include "core/physical/segments.hpp"

#include <algorithm>

namespace weir::policy {

class IdleScan {
 public:
  /// What nobody needed for so long goes back; UINT64_MAX: never.
  void start(uint64_t grace_ns) noexcept { grace_ns_ = grace_ns; }
  /// Something may be idle from now on, or nothing is. True: a look is to be waited for.
  bool watch(bool any) noexcept { return watching_ = any && grace_ns_ != UINT64_MAX; }
  bool watching() const noexcept { return watching_; }
  bool looking() const noexcept { return looking_; }
  /// Begins a look, if one is due.
  bool begin(uint64_t now) noexcept {
    if (!watching_ || looking_ || now < next_ns_) return false;
    next_ns_ = now + std::max<uint64_t>(grace_ns_ / physical::looks_a_grace, 1);
    ++looks_;
    return looking_ = true;
  }
  void end() noexcept { looking_ = false; }
  uint64_t rest_ns(uint64_t now) const noexcept { return next_ns_ - std::min(now, next_ns_); }
  uint64_t looks() const noexcept { return looks_; }
  /// What was idle before this look has been so for a grace period; 0: nothing can have been yet.
  uint64_t unneeded_before() const noexcept {
    return looks_ - std::min<uint64_t>(looks_, physical::looks_a_grace);
  }

 private:
  uint64_t grace_ns_ = UINT64_MAX;
  uint64_t looks_ = 0;    ///< so far ...
  uint64_t next_ns_ = 0;  ///< ... and when the next is due
  bool watching_ = false;
  bool looking_ = false;
};

}  // namespace weir::policy
