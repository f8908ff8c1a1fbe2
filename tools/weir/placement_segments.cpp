// SPDX-License-Identifier: Apache-2.0
//
// Placement without virtual memory: segments, which are plain allocations of whole granules, and blocks in them
// (core/physical/segment_ledger.hpp). A segment is added when a block fits nowhere; where reserved memory would then pass
// what it should, blocks are copied first: out of the way of the new one, or out of whole segments, which are given back.
#include "placement_kinds.hpp"

#include "segment_planner.hpp"

#include <memory_resource>
#include <unordered_map>

namespace weir::tool {
namespace {

using Segment = SegmentLedger::Segment;

// Shares of the most that was ever live, but for the waste, a share of a segment.
constexpr double preferred_share = 0.06;  ///< of a new segment
constexpr double loose_share = 1.03;      ///< may be reserved before anything is copied
constexpr double little_waste = 0.015;    ///< a size that wastes no more is not bettered
constexpr uint64_t counts_tried = 32;
constexpr uint64_t small_granules = 8;  ///< of a segment for blocks below a granule

class SegmentsPlacement final : public Placement {
 public:
  explicit SegmentsPlacement(const PlacementOptions &options)
      : options_(options), ledger_(std::pmr::new_delete_resource()), planner_(&ledger_) {}

  bool allocate(uint32_t block, uint64_t bytes) override {
    const uint64_t taken = round_up(bytes, SegmentLedger::quantum);
    counters_.allocated_bytes += bytes;  // what may be moved for it counts it
    live_ += taken;
    most_live_ = std::max(most_live_, live_);
    SegmentLedger::Place place = ledger_.find(bytes);
    if (!place && make_room(taken)) place = ledger_.find(bytes);
    if (!place) {
      counters_.allocated_bytes -= bytes;
      live_ -= taken;
      return false;
    }
    blocks_.emplace(block, ledger_.commit(place, block));
    return true;
  }

  void free(uint32_t block) override {
    const auto found = blocks_.find(block);
    live_ -= ledger_.bytes(found->second);
    const Segment segment = ledger_.segment_of(found->second);
    ledger_.release(found->second);
    blocks_.erase(found);
    if (ledger_.used_of(segment) == 0) ledger_.hide(segment);  // idle: the last to be used
  }

  std::vector<Container> containers() const override {
    std::vector<Container> all;
    for (Segment s = ledger_.first_segment(); s != SegmentLedger::none; s = ledger_.next_segment(s))
      all.push_back({s, ledger_.bytes_of(s)});
    return all;
  }

  std::vector<Piece> pieces(uint32_t block) const override { return {piece_of(blocks_.at(block))}; }

 private:
  static uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
  }
  Piece piece_of(SegmentLedger::Piece piece) const {
    return {ledger_.segment_of(piece), ledger_.offset(piece), ledger_.bytes(piece)};
  }

  // ---- growing ----

  bool unlimited() const { return options_.capacity == UINT64_MAX; }

  /// What may be reserved before anything is copied: all, where it is known how much there is.
  uint64_t soft_limit() const {
    if (!unlimited()) return options_.capacity;
    const auto loose = static_cast<uint64_t>(static_cast<double>(most_live_) * loose_share);
    return std::max(counters_.peak_reserved_bytes, loose + options_.granule);
  }

  uint64_t preferred(uint64_t bytes) const {
    const auto share = static_cast<uint64_t>(static_cast<double>(most_live_) * preferred_share);
    return round_up(std::max(share, bytes), options_.granule);
  }

  bool make_room(uint64_t bytes) {
    if (use_idle(bytes)) return true;
    if (grow(bytes)) return true;
    give_back_idle();
    return grow(bytes) || compact(bytes);
  }

  /// An idle segment of about the size that would be taken from the system.
  bool use_idle(uint64_t bytes) {
    Segment best = SegmentLedger::none;
    const uint64_t wanted = least_waste(bytes, preferred(bytes));
    for (Segment s = ledger_.first_segment(); s != SegmentLedger::none;
         s = ledger_.next_segment(s)) {
      const uint64_t size = ledger_.bytes_of(s);
      if (ledger_.shown(s) || size < bytes || size > wanted) continue;
      if (best == SegmentLedger::none || size < ledger_.bytes_of(best)) best = s;
    }
    if (best != SegmentLedger::none) ledger_.show(best);
    return best != SegmentLedger::none;
  }

  /// By the preferred size, a half, a quarter or an eighth of it, or exactly what is needed; never so that the new segment
  /// would waste more on requests of this size than a smaller one.
  bool grow(uint64_t bytes) {
    const uint64_t limit = soft_limit(), exact = round_up(bytes, options_.granule);
    if (counters_.reserved_bytes + exact > limit) return false;
    const uint64_t room = limit - counters_.reserved_bytes;
    uint64_t size = preferred(bytes);
    for (int halved = 0; halved < 3 && size > room; ++halved) size = std::max(exact, size / 2);
    add(least_waste(bytes, size > room ? exact : size));
    return true;
  }

  /// Of whole numbers of requests that `most` holds, rounded to granules, the size that wastes the smallest share.
  uint64_t least_waste(uint64_t bytes, uint64_t most) const {
    uint64_t best = round_up(bytes, options_.granule);
    double least = 1;
    for (uint64_t n = 1; n <= counts_tried; ++n) {
      const uint64_t size = round_up(n * bytes, options_.granule);
      if (size > most) break;
      const double waste = static_cast<double>(size - n * bytes) / static_cast<double>(size);
      if (waste >= least) continue;
      least = waste;
      best = size;
      if (waste <= little_waste) break;
    }
    if (bytes >= options_.granule) return best;
    return std::max(best, std::min(most / options_.granule, small_granules) * options_.granule);
  }

  Segment add(uint64_t bytes) {
    counters_.reserved_bytes += bytes;
    counters_.peak_reserved_bytes =
        std::max(counters_.peak_reserved_bytes, counters_.reserved_bytes);
    ++counters_.opened;
    ++counters_.map_calls;
    return ledger_.add(next_name_++, bytes);
  }

  void give_back_idle() {
    for (Segment s = ledger_.first_segment(); s != SegmentLedger::none;) {
      const Segment next = ledger_.next_segment(s);
      if (!ledger_.shown(s) && ledger_.used_of(s) == 0) {
        counters_.reserved_bytes -= ledger_.bytes_of(s);
        ledger_.remove(s);
      }
      s = next;
    }
  }

  // ---- compacting ----

  bool compact(uint64_t bytes) {
    const SegmentPlanner::Plan plan =
        planner_.choose({bytes, options_.granule, soft_limit(), options_.capacity,
                         movable_bytes(options_, counters_)});
    if (plan.way == SegmentPlanner::Way::none) return false;
    if (plan.way == SegmentPlanner::Way::slide) {
      slide(plan.slide);
    } else {
      const Segment extra = plan.extra != 0 ? add(plan.extra) : SegmentLedger::none;
      const std::vector<SegmentPlanner::Tenant> tenants = planner_.claim(plan, bytes, extra);
      for (const SegmentPlanner::Tenant &tenant : tenants) {
        const auto block = static_cast<uint32_t>(ledger_.owner(tenant.from));
        blocks_.at(block) = tenant.to;
        note_move(block, piece_of(tenant.from), piece_of(tenant.to));
      }
      planner_.finish(tenants);
      give_back_idle();
      const bool free_to_grow = plan.way == SegmentPlanner::Way::grow && unlimited();
      if (plan.added != 0) add(free_to_grow ? least_waste(bytes, preferred(bytes)) : plan.added);
    }
    return true;
  }

  void slide(SegmentLedger::Slide range) {
    while (const SegmentLedger::Piece piece = ledger_.next_to_slide(range)) {
      const Piece from = piece_of(piece);
      ledger_.slide_down(piece, &range);
      note_move(static_cast<uint32_t>(ledger_.owner(piece)), from, piece_of(piece));
    }
  }

  void note_move(uint32_t block, const Piece &from, const Piece &to) {
    counters_.moved_bytes += from.bytes;
    ++counters_.moves;
    if (options_.record_moves) moves_.push_back({block, from, to});
  }

  const PlacementOptions options_;
  SegmentLedger ledger_;
  SegmentPlanner planner_;
  std::unordered_map<uint32_t, SegmentLedger::Piece> blocks_;
  uint64_t live_ = 0, most_live_ = 0;
  uint64_t next_name_ = 0;
};

}  // namespace

std::unique_ptr<Placement> make_segments_placement(const PlacementOptions &options) {
  return std::make_unique<SegmentsPlacement>(options);
}

}  // namespace weir::tool
