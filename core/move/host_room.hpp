// SPDX-License-Identifier: Apache-2.0
//
// HostRoom: room in HOST: slots for pages on their way down, the store's growth within its budget, which may follow what the
// machine has to spare, and what can be given up for room: copies of pages that are on a device as well, and then what the demoter
// can move further down. Under the pool's lock, which it drops to grow, to wait and to have pages moved. As a task, that of the
// demoter's thread, it keeps HOST and COMPRESSED with some room and HOST's budget with what the machine has to spare.
//
// What must hold: one thread at a time grows the store, and one empties a chunk of it.
#pragma once

#include "core/base/task.hpp"
#include "core/lease/lease_table.hpp"
#include "core/move/demoter.hpp"
#include "core/page/env.hpp"

#include <string>

namespace weir::move {

class HostRoom final : public Task {
 public:
  HostRoom(const Env &env, tier::ColdTiers &cold, page::TierCopies &tiers,
           lease::LeaseTable &leases, Demoter &demoter)
      : env_(env), cold_(cold), tiers_(tiers), leases_(leases), demoter_(demoter) {}
  HostRoom(const HostRoom &) = delete;
  HostRoom &operator=(const HostRoom &) = delete;

  /// What HOST may take beyond what it holds: four fifths of what the process still could, and never the last sixteenth of
  /// the limit, which is left for the program's own memory. Negative: so much is to be given back. `root` is of the files that tell.
  static int64_t spare_memory(const std::string &root);

  /// Pages have to leave HOST soon: it has less room than its low watermark.
  bool is_short() const noexcept WEIR_HELD {
    return cold_.any() && tiers_.host().room() < cold_.low_water(tiers_.host().budget());
  }
  /// A slot, for which room is made. OVER_BUDGET, OUT_OF_HOST_MEMORY and what a demotion fails with.
  Status take(Releasable &lock, uint32_t client, uint32_t node, uint64_t bytes,
              tier::HostSlot *slot) WEIR_HELD;
  /// A page that must stay in place gets a slot, if it has none: what is in it is its client's own, or zero.
  Status give_slot(Releasable &lock, Region &region, uint32_t page, uint32_t node) WEIR_HELD;

  /// Gives empty chunks of pinned memory back to the system, and counts them in *freed.
  void give_chunks_back(Releasable &lock, uint64_t bytes, uint64_t *freed) noexcept WEIR_HELD;
  /// Empty chunks, then the one that is emptied soonest, whose pages move down. True: it gave back something.
  bool shrink(Releasable &lock, uint64_t bytes) WEIR_HELD;

  // ---- for the background ----
  bool step(Releasable &lock) override WEIR_HELD;
  uint64_t rest_ns() noexcept override WEIR_HELD;
  const char *name() const noexcept override { return "the demoter's thread"; }
  /// Makes the budget follow the machine, if it is to, and if it is time to look or to be done at once.
  void follow_memory(Releasable &lock, bool at_once) WEIR_HELD;
  /// Grows the store before it is full.
  void grow_ahead(Releasable &lock) WEIR_HELD;

 private:
  static constexpr uint64_t look_every_ns = 500'000'000;
  /// Moves pages down while HOST has less room than the low watermark, up to the high one. True: it did something.
  bool keep_free(Releasable &lock) WEIR_HELD;
  Status grow(Releasable &lock, uint32_t node, uint64_t bytes) WEIR_HELD;
  bool make_room(Releasable &lock, uint32_t client, uint64_t bytes, bool within, bool stuck,
                 Status *why) WEIR_HELD;
  bool list_chunk(Releasable &lock, uint32_t chunk, policy::PageCursor *from,
                  std::pmr::vector<policy::PageRef> *pages) WEIR_HELD;
  void empty_chunk(Releasable &lock, uint32_t chunk) WEIR_HELD;
  Status fail_full(uint32_t client, uint64_t bytes, bool within) const WEIR_HELD;

  const Env &env_;
  tier::ColdTiers &cold_;
  page::TierCopies &tiers_;
  lease::LeaseTable &leases_;
  Demoter &demoter_;
  bool growing_ WEIR_GUARDED = false;
  bool shrinking_ WEIR_GUARDED = false;
  bool ahead_ WEIR_GUARDED = false;  ///< on the way from the low watermark to the high one
  uint64_t looked_at_ns_ WEIR_GUARDED = 0;
};

}  // namespace weir::move
