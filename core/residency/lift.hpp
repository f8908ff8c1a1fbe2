// SPDX-License-Identifier: Apache-2.0
//
// Lift: parts of pages on their way up from below HOST, in order, several reads ahead of the one that is wanted next.
// Outside the pool's lock; the pages are marked busy, so their copies stay where they are.
#pragma once

#include "core/residency/lower.hpp"

#include <array>

namespace weir::residency {

/// One part to be brought up, as it was under the lock.
struct LiftPart {
  tier::UnitSlot place;
  uint32_t bit = 0;     ///< the tier it comes from
  uint32_t blob = 0;    ///< bytes of the blob there; 0: they lie there as they are
  uint32_t page = 0;    ///< the caller's
  uint64_t offset = 0;  ///< in the page
  uint64_t bytes = 0;
  bool secret =
      false;  ///< of a buffer that is to be scrubbed: nothing of it may stay where it passes
};

class Lift {
 public:
  explicit Lift(Lower &lower, bool background) noexcept : lower_(lower), background_(background) {}
  ~Lift();  ///< ends the reads that were begun and gives the slots back
  Lift(const Lift &) = delete;
  Lift &operator=(const Lift &) = delete;

  /// Begins parts from `next` on as far as slots are free, at least one.
  void begin(const std::pmr::vector<LiftPart> &parts);
  /// Waits for the bytes of the oldest part that was begun; they are in the slot's pinned memory.
  Status finish(const LiftPart &part, tier::StagingSlot **slot);
  /// The slot of the last finished part goes back; `busy`: a copy that may still read it.
  void give(backend::Stamp busy) noexcept;

 private:
  void start(const LiftPart &part, tier::StagingSlot *slot) noexcept;

  Lower &lower_;
  const bool background_;
  size_t next_ = 0;                                                    ///< part to be begun
  std::array<tier::StagingSlot *, tier::Staging::max_slots> slots_{};  ///< a ring, oldest first
  size_t head_ = 0, count_ = 0;
};

}  // namespace weir::residency
