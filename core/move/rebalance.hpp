// SPDX-License-Identifier: Apache-2.0
//
// Rebalancer: pages that were spilled to HOST or below it, while no neighbour had memory to spare, follow when one has: a
// device has joined, or another's buffers have ended. They are copied to the neighbour as if they had been lent to it at
// once (lender.hpp): borrowed, above its reserve, the first to go. The most recently used buffers come first. Nothing
// is evicted for it, what is leased for writing or held is left alone, and no byte changes its only place: the copy
// below stays until its tier wants the room.
//
// The prefetchers do the work when nothing else is asked of them, at most at the rate that the pool was made with. All under
// the pool's lock.
#pragma once

#include "core/page/env.hpp"
#include "core/policy/hints.hpp"

namespace weir::move {

using policy::PrefetchBatch;
using policy::PrefetchRequest;

class Rebalancer {
 public:
  static constexpr uint64_t never = UINT64_MAX;

  /// `bytes_per_second` 0: only when it is asked to.
  Rebalancer(const Env &env, const PageLayer &page, uint64_t bytes_per_second)
      : env_(env), page_(page), rate_(bytes_per_second), order_(env.memory) {}
  Rebalancer(const Rebalancer &) = delete;
  Rebalancer &operator=(const Rebalancer &) = delete;

  /// What to move next, if it is time: otherwise *rest_ns says how long it is not, or `never`: until something changes. May drop the
  /// lock; whoever asks meanwhile gets nothing.
  bool next(Releasable &lock, PrefetchBatch *batch, uint64_t *rest_ns) WEIR_HELD;
  /// Another one over the same pool, which nobody but the caller asks.
  Rebalancer apart() const { return {env_, page_, 0}; }
  /// Looks at all buffers for what may be moved, some thousand records at a taking of the lock.
  void list(Releasable &lock) WEIR_HELD;
  /// Of that the next, whatever the time, up to `bytes`. False: nothing is left of it, or there is nowhere to move it to.
  bool gather(uint64_t bytes, PrefetchBatch *batch) WEIR_HELD;
  /// A look at all buffers is due.
  void look_again() noexcept { look_ = true; }

 private:
  struct Entry {
    uint64_t last_use;
    uint32_t region;
    uint16_t generation;
  };
  static constexpr size_t most_regions = 4096;
  /// After so many records, of regions and of pages, it drops the lock once.
  static constexpr uint64_t most_records = 4096;
  static constexpr uint64_t look_ns = 1'000'000'000;

  /// Its bytes are in HOST or below, and nowhere else.
  static bool spilled(const Page &page) noexcept {
    return page.latest() != 0 && (page.latest() & (page::device_bits | page::lost_bit)) == 0;
  }
  bool any_room() noexcept;
  bool worth_a_look(uint64_t now) noexcept WEIR_HELD;
  bool may_move(const Region &region) const noexcept;
  PoolDevice *lender_for(const Region &region, uint32_t page, uint64_t taken) noexcept WEIR_HELD;
  bool add(const Entry &entry, uint64_t bytes, PrefetchBatch *batch, uint64_t *gathered) WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const uint64_t rate_;
  std::pmr::vector<Entry> order_;  ///< what a look has found, the next to be moved last
  uint32_t next_page_ = 0;         ///< of that one, where to go on
  bool look_ = true, listing_ = false;
  uint64_t looked_at_ns_ = 0;
  uint64_t lifted_before_ = 0;  ///< what had come up from HOST and below at that look
  uint64_t not_before_ns_ = 0;
};

}  // namespace weir::move
