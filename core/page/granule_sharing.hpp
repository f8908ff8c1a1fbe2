// SPDX-License-Identifier: Apache-2.0
//
// GranuleSharing: sharing where a granule may be mapped at several addresses. A region's first bytes may lie at the rear of
// any granule and its last at the front of any other, as physical/granule_ledger.hpp chooses; its addresses are its own
// range all the same, into which each fragment maps its granule. So a fragment can move from one granule to another.
//
// A ledger for each client, so that only regions of one client share. Under the pool's lock.
#pragma once

#include "core/page/sharing.hpp"

namespace weir::page {

class GranuleSharing final : public Sharing {
 public:
  using Piece = physical::GranuleLedger::Piece;

  GranuleSharing(uint64_t page, uint64_t large_page, uint64_t budget,
                 std::pmr::memory_resource *memory)
      : Sharing(page, large_page, budget, memory), ledgers_(memory) {}

  Geometry place(uint32_t client, uint64_t size, uint64_t address_alignment, Lot *lot) override;
  void leave(uint32_t client, const Lot &lot) noexcept override;
  GranuleSharing *movable() noexcept override { return this; }
  std::string validate() const override;

  // ---- a fragment that moves ----
  /// Takes a place for it in another bundle that has memory, the fullest that has room; false: there is none. Throws
  /// std::bad_alloc with nothing changed.
  bool find_other(uint32_t client, const Lot &lot, bool first, Piece *place);
  /// Of a place that was taken.
  Bundle &bundle_of(uint32_t client, Piece place) noexcept {
    return bundles_[ledgers_[client]->granule(place)];
  }
  /// Where in its granule it lies.
  uint64_t offset(uint32_t client, Piece place) const { return ledgers_[client]->offset(place); }
  /// It stays after all.
  void give_up(uint32_t client, Piece place) noexcept { release(*ledgers_[client], place); }
  /// It is there; its old place is free.
  void settle(uint32_t client, Lot *lot, bool first, Piece place) noexcept;

 private:
  using Claim = physical::GranuleLedger::Claim;

  uint32_t bundle_at(uint32_t client, const Lot &lot, bool first) const noexcept override {
    const Claim &claim = std::get<Claim>(lot);
    return static_cast<uint32_t>(ledgers_[client]->granule(first ? claim.head : claim.tail));
  }
  physical::GranuleLedger &ledger(uint32_t client);
  void release(physical::GranuleLedger &ledger, Piece piece) noexcept;

  std::pmr::vector<Owned<physical::GranuleLedger>> ledgers_;  ///< by client
};

}  // namespace weir::page
