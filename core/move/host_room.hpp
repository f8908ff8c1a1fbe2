// SPDX-License-Identifier: Apache-2.0
//
// HostRoom: room in HOST: slots for pages on their way down, the store's growth within its budget, which may follow what the
// machine has to spare, and what can be given up for room: copies of pages that are on a device as well, and then what the demoter
// can move further down. Under the pool's lock, which it drops to grow, to wait and to have pages moved.
//
// What must hold: one thread at a time grows the store, and one empties a chunk of it.
#pragma once

#include "core/lease/lease_table.hpp"
#include "core/move/demoter.hpp"

#include <string>

namespace weir::move {

class HostRoom {
 public:
  HostRoom(std::pmr::memory_resource *memory, const Sync &sync, tier::ColdTiers &cold,
           page::TierCopies &tiers, lease::LeaseTable &leases, Demoter &demoter,
           backend::StreamTable &streams)
      : memory_(memory),
        sync_(sync),
        cold_(cold),
        tiers_(tiers),
        leases_(leases),
        demoter_(demoter),
        streams_(streams) {}
  HostRoom(const HostRoom &) = delete;
  HostRoom &operator=(const HostRoom &) = delete;

  /// HOST's budget follows the machine; `root` is of the files that tell what that has.
  void follow(const std::string &root) {
    follows_ = true;
    root_ = root;
  }
  /// What HOST may take beyond what it holds: four fifths of what the process still could, and never the last sixteenth of
  /// the limit, which is left for the program's own memory. Negative: so much is to be given back.
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
  static constexpr uint64_t look_every_ns = 500'000'000;
  /// Makes the budget follow the machine, if it is to, and if it is time to look.
  void follow_memory(Releasable &lock, uint64_t now_ns) WEIR_HELD;
  void look_now() noexcept WEIR_HELD { looked_at_ns_ = 0; }
  /// Grows the store before it is full.
  void grow_ahead(Releasable &lock) WEIR_HELD;
  /// Moves pages down while HOST has less room than the low watermark, up to the high one. True: it did something.
  bool keep_free(Releasable &lock, const Clock &clock) WEIR_HELD;

 private:
  Status grow(Releasable &lock, uint32_t node, uint64_t bytes) WEIR_HELD;
  bool make_room(Releasable &lock, uint32_t client, uint64_t bytes, bool within, bool stuck,
                 Status *why) WEIR_HELD;
  bool empty_chunk(Releasable &lock, uint32_t chunk) WEIR_HELD;
  Status fail_full(uint32_t client, uint64_t bytes, bool within) const WEIR_HELD;

  std::pmr::memory_resource *const memory_;
  const Sync sync_;
  tier::ColdTiers &cold_;
  page::TierCopies &tiers_;
  lease::LeaseTable &leases_;
  Demoter &demoter_;
  backend::StreamTable &streams_;
  bool follows_ = false;
  std::string root_;
  bool growing_ WEIR_GUARDED = false;
  bool shrinking_ WEIR_GUARDED = false;
  bool ahead_ WEIR_GUARDED = false;  ///< on the way from the low watermark to the high one
  uint64_t looked_at_ns_ WEIR_GUARDED = 0;
};

}  // namespace weir::move
