// SPDX-License-Identifier: Apache-2.0
//
// Trust: whether what is forecast has come true lately, so that planning by it pays. A plan that is wrong about when things are used
// evicts what is used next, and is slower than no plan. So that is what is judged: the share of uses that did not come when they were
// foreseen. How the forecast came to know matters less: a program that turns elsewhere now and then is lost for an operation, and
// uses its buffers when it did before. But one whose place is lost all the time is right about that by chance. Both shares are forgotten over
// hundreds of events.
//
// It begins where planning just does not pay: by the first use that comes when it was foreseen it does, and it goes on doing so for as long as
// four of five are. No lock; guarded by its owner.
#pragma once

#include <cstdint>

namespace weir::policy {

class Trust {
 public:
  /// One was foreseen for the newest operation. `lost`: it was not the one that follows.
  void note_operation(bool lost) noexcept { note(lost, 1.0 / operations_kept, &lost_); }
  /// A buffer is used of which it was foreseen when it is. `off`: that was not now.
  void note_use(bool off) noexcept { note(off, 1.0 / uses_kept, &off_); }
  /// Somebody says that what is forecast comes: until it does not.
  void grant() noexcept { lost_ = off_ = 0; }
  /// It pays to plan.
  bool holds() const noexcept { return lost_ < most_lost && off_ < most_off; }

  double lost() const noexcept { return lost_; }
  double off() const noexcept { return off_; }
  /// Of a million.
  static uint32_t millionths(double share) noexcept { return static_cast<uint32_t>(share * 1e6); }

 private:
  static constexpr double operations_kept = 256, uses_kept = 256;
  static constexpr double most_lost = 1.0 / 16, most_off = 1.0 / 5;

  static void note(bool bad, double weight, double *share) noexcept {
    *share += ((bad ? 1.0 : 0.0) - *share) * weight;
  }

  double lost_ = 0, off_ = most_off;
};

}  // namespace weir::policy
