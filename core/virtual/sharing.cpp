// SPDX-License-Identifier: Apache-2.0
//
// Lots and bundles.

#include "core/virtual/sharing.hpp"

#include <algorithm>
#include <cassert>

namespace weir::vm {

using physical::GranuleLedger;

GranuleLedger &Sharing::ledger(uint32_t client) {
  if (client >= ledgers_.size()) ledgers_.resize(client + 1);
  if (ledgers_[client] == nullptr)
    ledgers_[client] = make_owned<GranuleLedger>(memory_, page_, memory_);
  return *ledgers_[client];
}

/// One that nobody is in; it counts as taken only when its `next_unused` is unlinked by the caller.
uint32_t Sharing::take_bundle() {
  if (unused_ == UINT32_MAX) {
    bundles_.emplace_back();
    return static_cast<uint32_t>(bundles_.size() - 1);
  }
  const uint32_t index = unused_;
  unused_ = bundles_[index].next_unused;
  bundles_[index] = Bundle{};
  return index;
}

Geometry Sharing::place(uint32_t client, uint64_t size, uint64_t address_alignment, Lot *lot) {
  const Geometry alone = Geometry::paged(size, page_, large_page_);
  if (size < page_ || size > largest_) return alone;
  GranuleLedger &own = ledger(client);
  const GranuleLedger::Split split = own.choose(size, std::max(alignment, address_alignment));
  if (split.head == 0 && split.tail == 0) return alone;
  uint32_t made[2] = {UINT32_MAX, UINT32_MAX};
  const auto give = [this](uint32_t index) {
    if (index == UINT32_MAX) return;
    bundles_[index].next_unused = unused_;
    unused_ = index;
  };
  try {
    if (split.opens_head()) made[0] = take_bundle();
    if (split.opens_tail()) made[1] = take_bundle();
    const bool taken = own.commit(split, made[0], made[1], 0, lot);
    assert(taken);
    (void)taken;
  } catch (...) {
    give(made[0]);
    give(made[1]);
    throw;
  }
  // Memory comes later, and a bundle's maker keeps others off it until then.
  if (lot->head) own.show(lot->head);
  if (lot->tail) own.show(lot->tail);
  Geometry shape = Geometry::led(size, page_, large_page_, split.head);
  shape.shared = true;
  shape.cut = split.tail != 0;
  return shape;
}

void Sharing::release(GranuleLedger &own, GranuleLedger::Piece piece) noexcept {
  if (!piece) return;
  const GranuleLedger::Released left = own.release(piece);
  if (!left.emptied) return;
  const auto index = static_cast<uint32_t>(left.granule);
  assert(bundles_[index].users == 0);
  bundles_[index].next_unused = unused_;
  unused_ = index;
}

void Sharing::leave(uint32_t client, const Lot &lot) noexcept {
  release(*ledgers_[client], lot.head);
  release(*ledgers_[client], lot.tail);
}

bool Sharing::find_other(uint32_t client, const Lot &lot, bool first, GranuleLedger::Piece *place) {
  constexpr size_t most_looks = 8;
  GranuleLedger &own = *ledgers_[client];
  const GranuleLedger::Piece piece = first ? lot.head : lot.tail;
  const uint64_t bytes = own.bytes(piece);
  GranuleLedger::Piece passed[most_looks];
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
    const Bundle &there = bundle(client, *place);
    found = there.granule != physical::no_granule && there.maker == nullptr;
    if (!found)
      passed[looks++] = *place;  // taken until the search has ended, so that it finds another
  }
  for (size_t i = 0; i < looks; ++i) give_up(client, passed[i]);
  own.show(piece);
  return found;
}

std::string Sharing::validate() const {
  for (const auto &own : ledgers_) {
    if (own == nullptr) continue;
    std::string wrong = own->validate();
    if (!wrong.empty()) return "shared granules: " + wrong;
  }
  for (const Bundle &bundle : bundles_) {
    if ((bundle.users != 0) != (bundle.granule != physical::no_granule))
      return "shared granules: users without a granule, or a granule without users";
    if (bundle.held > bundle.users) return "shared granules: more held fragments than there are";
  }
  return {};
}

}  // namespace weir::vm
