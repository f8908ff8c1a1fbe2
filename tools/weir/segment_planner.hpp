// SPDX-License-Identifier: Apache-2.0
//
// SegmentPlanner: which buffers to copy when a request fits in no segment though its bytes do, or nearly. It weighs four
// ways and takes the one that copies least among those that keep reserved memory within a limit, else the one that
// reserves least:
//   grow      a segment for the request; nothing is copied
//   slide     neighbours of one segment down, one after the other, until their holes are one
//   window    the tenants of a range elsewhere, so that the request takes it
//   empty     the tenants of whole segments elsewhere; those go back to the system before the request's own is taken
// Tenants for which there is no hole get a new segment together: less than the request's own would be.
//
// choose() leaves the ledger as it was, also on std::bad_alloc, which any call but finish() may end with; nothing has changed
// then. claim() takes the new places of a plan's tenants, finish() gives up the old ones once the copies are done.
// Between the two, nothing else may be planned. Metadata only, not thread-safe.
#pragma once

#include "segment_ledger.hpp"

#include <vector>

namespace weir::tool {

class SegmentPlanner {
 public:
  using Segment = SegmentLedger::Segment;

  enum class Way : uint8_t { none, grow, slide, window, empty };

  struct Request {
    uint64_t bytes = 0;
    uint64_t granule = 0;   ///< segments are whole granules
    uint64_t limit = 0;     ///< what should be reserved at most
    uint64_t capacity = 0;  ///< what may be
    uint64_t may_move = 0;  ///< bytes that may be copied
  };

  struct Plan {
    Way way = Way::none;  ///< none: it cannot be done
    uint64_t moved = 0;
    uint64_t reserved = 0;  ///< once it is carried out
    uint64_t peak = 0;      ///< the most on the way there
    uint64_t extra = 0;     ///< bytes of the segment for tenants without a hole, whole granules
    uint64_t added = 0;     ///< bytes of the request's own segment
    SegmentLedger::Slide slide;
    SegmentLedger::Window window;
    std::vector<Segment> emptied;
  };

  struct Tenant {
    SegmentLedger::Piece from;
    SegmentLedger::Piece to;  ///< none: no hole is long enough
  };

  explicit SegmentPlanner(SegmentLedger *ledger) : ledger_(*ledger) {}

  Plan choose(const Request &request);

  /// Takes new places for the plan's tenants; those without a hole go to `extra`, a segment of Plan::extra bytes (none if
  /// that is 0), which is hidden still if this throws. Old places and the window's holes stay taken until finish().
  std::vector<Tenant> claim(const Plan &plan, uint64_t bytes, Segment extra);
  /// Old places are free, and what was kept from being given out is no more. Emptied segments stay hidden: they are the
  /// caller's to remove.
  void finish(const std::vector<Tenant> &tenants) noexcept;

 private:
  std::vector<Tenant> tenants_of(const SegmentLedger::Window &window, uint64_t bytes);
  std::vector<Tenant> tenants_of(const std::vector<Segment> &segments);
  uint64_t find_places(std::vector<Tenant> *tenants);
  uint64_t take(const Plan &plan, uint64_t bytes, std::vector<Tenant> *tenants);
  void undo(const Plan &plan, const std::vector<Tenant> &tenants) noexcept;
  uint64_t trial(const Plan &plan, uint64_t bytes);
  void weigh_windows(const Request &request, std::vector<Plan> *plans);
  void weigh_emptying(const Request &request, std::vector<Plan> *plans);
  void drop_held() noexcept;

  SegmentLedger &ledger_;
  std::vector<SegmentLedger::Piece> held_;
};

}  // namespace weir::tool
