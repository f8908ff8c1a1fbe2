// SPDX-License-Identifier: Apache-2.0
//
// Placement where a granule may be mapped at several addresses: blocks of a granule or more are split over the ends of
// shared granules and whole ones of their own, smaller ones lie between (core/physical/granule_ledger.hpp). Before
// reserved memory passes what it has been, small blocks are moved out of the granules that they fill least.
#include "placement_kinds.hpp"

#include "core/physical/granule_ledger.hpp"

#include <memory_resource>
#include <unordered_map>

namespace weir::tool {
namespace {

using physical::GranuleLedger;

constexpr int evacuations_tried = 8;

struct Laid {
  uint64_t bytes = 0;
  GranuleLedger::Claim claim;  ///< of a small block only the head is set
  std::vector<uint64_t> whole;
};

class MultiMapPlacement final : public Placement {
 public:
  explicit MultiMapPlacement(const PlacementOptions &options)
      : options_(options), ledger_(options.granule, std::pmr::new_delete_resource()) {}

  bool allocate(uint32_t block, uint64_t bytes) override {
    counters_.allocated_bytes += bytes;  // what may be moved for it counts it
    const bool placed =
        bytes >= options_.granule ? allocate_large(block, bytes) : allocate_small(block, bytes);
    if (!placed) counters_.allocated_bytes -= bytes;
    return placed;
  }

  void free(uint32_t block) override {
    const auto found = blocks_.find(block);
    for (const GranuleLedger::Piece piece : {found->second.claim.head, found->second.claim.tail})
      if (piece) release(piece);
    for (const uint64_t granule : found->second.whole) close(granule);
    blocks_.erase(found);
  }

  std::vector<Container> containers() const override {
    std::vector<bool> open(next_granule_, true);
    for (const uint64_t granule : closed_) open[granule] = false;
    std::vector<Container> all;
    for (uint64_t granule = 0; granule < next_granule_; ++granule)
      if (open[granule]) all.push_back({granule, options_.granule});
    return all;
  }

  std::vector<Piece> pieces(uint32_t block) const override {
    const Laid &laid = blocks_.at(block);
    std::vector<Piece> all;
    if (laid.claim.head) all.push_back(piece_of(laid.claim.head));
    for (const uint64_t granule : laid.whole) all.push_back({granule, 0, options_.granule});
    if (laid.claim.tail) all.push_back(piece_of(laid.claim.tail));
    return all;
  }

 private:
  Piece piece_of(GranuleLedger::Piece piece) const {
    return {ledger_.granule(piece), ledger_.offset(piece), ledger_.bytes(piece)};
  }

  bool allocate_large(uint32_t block, uint64_t bytes) {
    GranuleLedger::Split split = ledger_.choose(bytes);
    for (bool made = true; made && !fits(split.new_granules());) {
      made = make_room();
      split = ledger_.choose(bytes);  // trying changes the ledger, too
    }
    if (!within_capacity(split.new_granules())) return false;
    Laid laid;
    laid.bytes = bytes;
    const uint64_t head = split.opens_head() ? open() : 0;
    const uint64_t tail = split.opens_tail() ? open() : 0;
    ledger_.commit(split, head, tail, block, &laid.claim);
    if (laid.claim.head) ledger_.show(laid.claim.head);
    if (laid.claim.tail) ledger_.show(laid.claim.tail);
    laid.whole.reserve(split.whole);
    for (uint64_t i = 0; i < split.whole; ++i) laid.whole.push_back(open());
    counters_.map_calls += split.whole + (split.head != 0 ? 1U : 0U) + (split.tail != 0 ? 1U : 0U);
    blocks_.emplace(block, std::move(laid));
    return true;
  }

  bool allocate_small(uint32_t block, uint64_t bytes) {
    GranuleLedger::Place place = ledger_.find_small(bytes);
    for (bool made = true; made && place.run == GranuleLedger::none && !fits(1);) {
      made = make_room();
      place = ledger_.find_small(bytes);
    }
    if (place.run == GranuleLedger::none && !within_capacity(1)) return false;
    Laid laid;
    laid.bytes = bytes;
    const bool opens = place.run == GranuleLedger::none;
    ledger_.commit(place, opens ? open() : 0, block, &laid.claim.head);
    ledger_.show(laid.claim.head);
    if (opens) ++counters_.map_calls;
    blocks_.emplace(block, std::move(laid));
    return true;
  }

  /// Without growing past what has been reserved before.
  bool fits(uint64_t granules) const {
    return granules == 0 || counters_.reserved_bytes + granules * options_.granule <=
                                std::min(counters_.peak_reserved_bytes, options_.capacity);
  }
  bool within_capacity(uint64_t granules) const {
    return granules == 0 ||
           counters_.reserved_bytes + granules * options_.granule <= options_.capacity;
  }

  uint64_t open() {
    uint64_t granule = next_granule_;
    if (closed_.empty()) {
      ++next_granule_;
    } else {
      granule = closed_.back();
      closed_.pop_back();
    }
    counters_.reserved_bytes += options_.granule;
    counters_.peak_reserved_bytes =
        std::max(counters_.peak_reserved_bytes, counters_.reserved_bytes);
    ++counters_.opened;
    return granule;
  }

  void close(uint64_t granule) {
    closed_.push_back(granule);
    counters_.reserved_bytes -= options_.granule;
  }

  void release(GranuleLedger::Piece piece) {
    const GranuleLedger::Released released = ledger_.release(piece);
    if (released.emptied) close(released.granule);
  }

  // ---- moving small blocks ----

  uint64_t may_move() const { return movable_bytes(options_, counters_); }

  /// Empties one granule; false if none can be.
  bool make_room() {
    GranuleLedger::Piece candidate = ledger_.emptiest();
    for (int tried = 0; candidate && tried < evacuations_tried; ++tried) {
      const uint64_t used = ledger_.used_in(candidate);
      if (used > may_move() || used > ledger_.free_bytes()) return false;
      const GranuleLedger::Piece next = ledger_.next_emptiest(candidate);
      if (evacuate(candidate)) return true;
      candidate = next;
    }
    return false;
  }

  bool evacuate(GranuleLedger::Piece any) {
    struct Tenant {
      GranuleLedger::Piece from, to;
    };
    std::vector<Tenant> tenants;
    for (GranuleLedger::Piece p = ledger_.first_in(any); p; p = ledger_.next_in(p))
      tenants.push_back({p, {}});
    std::sort(tenants.begin(), tenants.end(), [this](const Tenant &a, const Tenant &b) {
      return ledger_.bytes(a.from) > ledger_.bytes(b.from);
    });
    ledger_.hide(any);
    for (Tenant &tenant : tenants) {
      const GranuleLedger::Place place = ledger_.find_small(ledger_.bytes(tenant.from));
      if (place.run == GranuleLedger::none) {
        for (const Tenant &moved : tenants)
          if (moved.to) ledger_.release(moved.to);
        ledger_.show(any);
        return false;
      }
      ledger_.commit(place, 0, ledger_.owner(tenant.from), &tenant.to);
    }
    for (const Tenant &tenant : tenants) {
      const auto block = static_cast<uint32_t>(ledger_.owner(tenant.from));
      if (options_.record_moves)
        moves_.push_back({block, piece_of(tenant.from), piece_of(tenant.to)});
      counters_.moved_bytes += ledger_.bytes(tenant.from);
      ++counters_.moves;
      blocks_.at(block).claim.head = tenant.to;
      release(tenant.from);
    }
    return true;
  }

  const PlacementOptions options_;
  GranuleLedger ledger_;
  std::unordered_map<uint32_t, Laid> blocks_;
  std::vector<uint64_t> closed_;
  uint64_t next_granule_ = 0;
};

}  // namespace

std::unique_ptr<Placement> make_multi_map_placement(const PlacementOptions &options) {
  return std::make_unique<MultiMapPlacement>(options);
}

}  // namespace weir::tool
