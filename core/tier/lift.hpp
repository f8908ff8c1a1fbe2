// SPDX-License-Identifier: Apache-2.0
//
// Lift: parts of pages on their way up from the cold tiers, in order, several reads ahead of the one that is wanted next.
// Outside the pool's lock; the pages are marked busy, so their copies stay where they are.
#pragma once

#include "core/tier/cold_tiers.hpp"

#include <array>

namespace weir::tier {

class Lift {
 public:
  Lift(ColdTiers &cold, bool background) noexcept : cold_(cold), background_(background) {}
  ~Lift();  ///< ends the reads that were begun and gives the slots back
  Lift(const Lift &) = delete;
  Lift &operator=(const Lift &) = delete;

  /// Begins parts from `next` on as far as slots are free, at least one.
  void begin(const std::pmr::vector<LiftPart> &parts);
  /// Waits for the bytes of the oldest part that was begun; they are in the slot's pinned memory.
  Status finish(const LiftPart &part, StagingSlot **slot);
  /// The slot of the last finished part goes back; `busy`: a copy that may still read it.
  void give(backend::Stamp busy) noexcept;

 private:
  void start(const LiftPart &part, StagingSlot *slot) noexcept;

  ColdTiers &cold_;
  const bool background_;
  size_t next_ = 0;                                        ///< part to be begun
  std::array<StagingSlot *, Staging::max_slots> slots_{};  ///< a ring, oldest first
  size_t head_ = 0, count_ = 0;
};

/// The parts of one page, which must have that checksum, to the CPU; bytes [begin, end) of it.
Status read_parts(ColdTiers &cold, const std::pmr::vector<LiftPart> &parts, uint64_t checksum,
                  uint64_t begin, uint64_t end, unsigned char *out);

}  // namespace weir::tier
