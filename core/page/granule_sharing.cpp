// SPDX-License-Identifier: Apache-2.0
//
// Lots of heads and tails.

#include "core/page/granule_sharing.hpp"

#include <algorithm>
#include <cassert>

namespace weir::page {

using physical::GranuleLedger;

GranuleLedger &GranuleSharing::ledger(uint32_t client) {
  if (client >= ledgers_.size()) ledgers_.resize(client + 1);
  if (ledgers_[client] == nullptr)
    ledgers_[client] = make_owned<GranuleLedger>(memory_, page_, memory_);
  return *ledgers_[client];
}

Geometry GranuleSharing::place(uint32_t client, uint64_t size, uint64_t address_alignment,
                               Lot *lot) {
  const Geometry alone = Geometry::paged(size, page_, large_page_);
  if (size < page_ || size > largest_) return alone;
  GranuleLedger &own = ledger(client);
  const GranuleLedger::Split split = own.choose(size, std::max(alignment, address_alignment));
  if (split.head == 0 && split.tail == 0) return alone;
  uint32_t made[2] = {none, none};
  Claim claim;
  try {
    if (split.opens_head()) made[0] = take_bundle();
    if (split.opens_tail()) made[1] = take_bundle();
    [[maybe_unused]] const bool taken = own.commit(split, made[0], made[1], 0, &claim);
    assert(taken);
  } catch (...) {
    give_bundle(made[0]);
    give_bundle(made[1]);
    throw;
  }
  // Memory comes later, and a bundle's maker keeps others off it until then.
  if (claim.head) own.show(claim.head);
  if (claim.tail) own.show(claim.tail);
  *lot = claim;
  return shared_shape(size, split.head, split.tail != 0);
}

void GranuleSharing::release(GranuleLedger &own, Piece piece) noexcept {
  if (!piece) return;
  const GranuleLedger::Released left = own.release(piece);
  if (left.emptied) give_bundle(static_cast<uint32_t>(left.granule));
}

void GranuleSharing::leave(uint32_t client, const Lot &lot) noexcept {
  const Claim &claim = std::get<Claim>(lot);
  release(*ledgers_[client], claim.head);
  release(*ledgers_[client], claim.tail);
}

bool GranuleSharing::find_other(uint32_t client, const Lot &lot, bool first, Piece *place) {
  constexpr size_t most_looks = 8;
  GranuleLedger &own = *ledgers_[client];
  const Claim &claim = std::get<Claim>(lot);
  const Piece piece = first ? claim.head : claim.tail;
  const uint64_t bytes = own.bytes(piece);
  Piece passed[most_looks];
  size_t looks = 0;
  bool found = false;
  own.hide(piece);
  while (!found && looks < most_looks) {
    const GranuleLedger::Place room = first ? own.find_head(bytes) : own.find_tail(bytes);
    if (room.run == GranuleLedger::none) break;
    try {
      (void)own.commit(room, 0, 0, place);
    } catch (...) {
      for (size_t i = 0; i < looks; ++i) give_up(client, passed[i]);
      own.show(piece);
      throw;
    }
    const Bundle &there = bundle_of(client, *place);
    found = there.granule != physical::no_granule && there.maker == nullptr;
    if (!found)
      passed[looks++] = *place;  // taken until the search has ended, so that it finds another
  }
  for (size_t i = 0; i < looks; ++i) give_up(client, passed[i]);
  own.show(piece);
  return found;
}

void GranuleSharing::settle(uint32_t client, Lot *lot, bool first, Piece place) noexcept {
  Claim &claim = std::get<Claim>(*lot);
  Piece &own = first ? claim.head : claim.tail;
  release(*ledgers_[client], own);
  own = place;
}

std::string GranuleSharing::validate() const {
  for (const auto &own : ledgers_) {
    if (own == nullptr) continue;
    std::string wrong = own->validate();
    if (!wrong.empty()) return "shared granules: " + wrong;
  }
  return Sharing::validate();
}

}  // namespace weir::page
