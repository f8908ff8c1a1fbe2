// SPDX-License-Identifier: Apache-2.0
//
// Sharing: which regions of one device lie in one granule with others. Where a granule may be mapped at several addresses,
// rounding a buffer to whole granules need not cost one: its first bytes may lie at the rear of a granule and its last at the
// front of another (physical/granule_ledger.hpp chooses). Who shares what is settled when a region is made and holds for its
// life, so that its address does; a bundle is one such granule, whether there is memory under it or not.
//
// A bundle's granule is claimed with the first of its fragments that comes into place and given back with the last that
// leaves. While one plan makes it (`maker`), everybody else waits: they would map what is not there yet. Only regions of one
// client share: what one of them leaves behind another may see.
//
// Brought in without its neighbours, a region may need a granule more than if it began with one of its own. So what is more
// than a quarter of the budget shares nothing; a set of smaller ones that fills all but a few granules may be refused for it.
//
// Under the pool's lock.
#pragma once

#include "core/backend/timeline.hpp"
#include "core/base/memory.hpp"
#include "core/physical/granule_ledger.hpp"
#include "core/virtual/geometry.hpp"

#include <vector>

namespace weir::vm {

/// A granule that fragments of several regions lie in.
struct Bundle {
  physical::GranuleId granule = physical::no_granule;
  uint32_t users = 0;           ///< fragments in place, or on their way in
  uint32_t held = 0;            ///< of those, of held regions
  const void *maker = nullptr;  ///< the plan that brings the first of them
  backend::Stamp
      wiped;  ///< the granule's memory, before it was shared; what comes into it comes after that
  uint64_t seen = 0;  ///< the last count (Sharing::begin_count) that came by
  uint32_t next_unused = UINT32_MAX;
};

class Sharing {
 public:
  /// Addresses of regions are multiples of this: what HOST and its views can map, and any device wants.
  static constexpr uint64_t alignment = 4096;
  using Lot = physical::GranuleLedger::Claim;

  Sharing(uint64_t page, uint64_t large_page, uint64_t budget, std::pmr::memory_resource *memory)
      : page_(page),
        large_page_(large_page),
        largest_(budget / 4),
        memory_(memory),
        ledgers_(memory),
        bundles_(memory) {}
  Sharing(const Sharing &) = delete;
  Sharing &operator=(const Sharing &) = delete;

  /// Pages that can be shared at all.
  static bool possible(uint64_t page) noexcept {
    return page > alignment && (page & (page - 1)) == 0;
  }

  /// The shape of a region of `size` bytes; `shared` tells whether it has a lot, which is leave()'s then.
  /// Throws std::bad_alloc with nothing changed.
  Geometry place(uint32_t client, uint64_t size, uint64_t address_alignment, Lot *lot);
  /// The region is no more; nothing of it is on the device.
  void leave(uint32_t client, const Lot &lot) noexcept;

  /// The bundle of a fragment: of the region's first page, or its last one.
  Bundle &bundle(uint32_t client, const Lot &lot, bool first) noexcept {
    return bundle(client, first ? lot.head : lot.tail);
  }
  Bundle &bundle(uint32_t client, physical::GranuleLedger::Piece piece) noexcept {
    return bundles_[ledgers_[client]->granule(piece)];
  }
  /// Where in its granule it lies.
  uint64_t offset(uint32_t client, physical::GranuleLedger::Piece piece) const {
    return ledgers_[client]->offset(piece);
  }

  // ---- a fragment that moves ----
  /// Takes a place for it in another bundle that has memory, the fullest that has room; false: there is none. Throws
  /// std::bad_alloc with nothing changed.
  bool find_other(uint32_t client, const Lot &lot, bool first,
                  physical::GranuleLedger::Piece *place);
  /// It stays after all.
  void give_up(uint32_t client, physical::GranuleLedger::Piece place) noexcept {
    release(*ledgers_[client], place);
  }
  /// It is there; its old place is free.
  void settle(uint32_t client, Lot *lot, bool first,
              physical::GranuleLedger::Piece place) noexcept {
    physical::GranuleLedger::Piece &own = first ? lot->head : lot->tail;
    release(*ledgers_[client], own);
    own = place;
  }

  /// Starts a count of bundles in which each counts once: the first call of counted() for it answers false.
  void begin_count() noexcept { ++count_; }
  bool counted(Bundle &bundle) noexcept {
    const bool before = bundle.seen == count_;
    bundle.seen = count_;
    return before;
  }

  /// "" or the first thing that is wrong.
  std::string validate() const;

 private:
  physical::GranuleLedger &ledger(uint32_t client);
  uint32_t take_bundle();
  void release(physical::GranuleLedger &ledger, physical::GranuleLedger::Piece piece) noexcept;

  const uint64_t page_, large_page_;
  const uint64_t largest_;  ///< region that shares
  std::pmr::memory_resource *memory_;
  std::pmr::vector<Owned<physical::GranuleLedger>> ledgers_;  ///< by client
  std::pmr::vector<Bundle> bundles_;
  uint32_t unused_ = UINT32_MAX;
  uint64_t count_ = 0;
};

}  // namespace weir::vm
