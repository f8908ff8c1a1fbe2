// SPDX-License-Identifier: Apache-2.0
//
// EarlyFill: what has memory comes up while other pages still go down. A set that is short of room is brought in by parts: as soon as
// victims have left the device, pages of the set take their memory and their copies up are handed over, while the next victims' copies
// down go on. The set is leased, so what has arrived stays; if the set fails later it stays as if prefetched. Whatever a part meets
// that is not plain (another thread at a page, a failure) ends the parts: the set is then brought in as a whole, which says why it
// can't be. Each part looks at all pages of the set, so there are few.
#pragma once

#include "core/acquire/gatherer.hpp"
#include "core/move/victim.hpp"

namespace weir::acquire {

class EarlyFill final : public move::Awaiting {
 public:
  EarlyFill(Gatherer &gatherer, move::Filler &filler, Claims &claims, move::Plan &plan) noexcept;

  /// The page of the plan that wants a granule next, or nullptr.
  move::PlanPage *wanting() noexcept;
  /// Bytes of granules that are still wanted.
  uint64_t left() const noexcept { return left_; }
  /// The page has one.
  void note(const move::PlanPage &page) noexcept {
    if (!page.memory.joined) left_ -= std::min(left_, page.bytes);
    ready_ += page.bytes;
  }
  /// Pages enough for a part have granules.
  bool due() const noexcept { return on_ && ready_ >= part_; }
  /// Brings those in.
  void bring(Releasable &lock) noexcept WEIR_HELD;
  /// A part could not be brought in: what the plan had claimed has been given back.
  bool failed() const noexcept { return failed_; }
  /// Room has been made, and more is on its way: takes granules, and brings in what has them.
  void more_room(Releasable &lock) noexcept override WEIR_HELD;
  /// How many bytes are to have left the device before that is worth a look; UINT64_MAX: never.
  uint64_t look_after() const noexcept override { return on_ ? part_ : UINT64_MAX; }

 private:
  static constexpr uint64_t most_parts = 16, least_part = uint64_t{256} << 10U;

  Gatherer &gatherer_;
  move::Filler &filler_;
  Claims &claims_;
  move::Plan &plan_;
  size_t next_ = 0;   ///< page of the plan to be looked at for a granule
  size_t first_ = 0;  ///< page to be brought in by the next part
  uint64_t left_, ready_ = 0;
  uint64_t part_;
  bool on_, failed_ = false;
};

}  // namespace weir::acquire
