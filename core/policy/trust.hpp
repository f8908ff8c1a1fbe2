// SPDX-License-Identifier: Apache-2.0
//
// Trust: whether what is forecast has come true lately, so that planning by it pays. A plan that rests on a place of the program
// that is wrong half of the time evicts what is used next, and is slower than no plan. Two shares are kept, both forgotten over
// hundreds of events: of operations after which the program was lost (it went on elsewhere, or nowhere that is known), and of uses
// that were not by the buffer that was expected.
//
// It begins with less trust than planning takes, and gains it by what comes true. No lock; guarded by its owner.
#pragma once

#include <cstdint>

namespace weir::policy {

class Trust {
 public:
  /// One was foreseen for the newest operation. `lost`: it was not the one that follows.
  void note_operation(bool lost) noexcept { note(lost, 1.0 / operations_kept, &lost_); }
  /// `wrong`: another buffer was expected.
  void note_use(bool wrong) noexcept { note(wrong, 1.0 / uses_kept, &wrong_); }
  /// Somebody says that what is forecast comes: until it does not.
  void grant() noexcept { lost_ = wrong_ = 0; }
  /// It pays to plan.
  bool holds() const noexcept { return lost_ < most_lost && wrong_ < most_wrong; }

  double lost() const noexcept { return lost_; }
  double wrong() const noexcept { return wrong_; }
  /// Of a million.
  static uint32_t millionths(double share) noexcept { return static_cast<uint32_t>(share * 1e6); }

 private:
  static constexpr double operations_kept = 256, uses_kept = 1024;
  static constexpr double most_lost = 1.0 / 128, most_wrong = 1.0 / 4;

  static void note(bool bad, double weight, double *share) noexcept {
    *share += ((bad ? 1.0 : 0.0) - *share) * weight;
  }

  double lost_ = 2 * most_lost, wrong_ = 0;
};

}  // namespace weir::policy
