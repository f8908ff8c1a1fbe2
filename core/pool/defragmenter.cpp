// SPDX-License-Identifier: Apache-2.0
//
// One run: devices one after the other, slabs before segments, batches small enough to be waited for. Between two batches
// the bounds, the clock and the caller's callback are asked.

#include "core/pool/defragmenter.hpp"

#include "core/base/descriptor.hpp"

#include <algorithm>
#include <bit>

namespace weir::pool {
namespace {

using move::Blocker;
using move::LayoutStats;
using move::LooseFragment;
using move::MoveOrder;
using move::MoveResult;
using move::Occupant;
using move::Survey;
using move::SurveyedPlace;

/// What is handed to the device at once: whoever needs one of these pages waits that long.
constexpr size_t batch_moves = 32;
constexpr uint64_t batch_bytes = uint64_t{4} << 20U;
/// A group with more slabs than a survey sees is surveyed again.
constexpr int most_passes = 256;
constexpr int most_attempts = 3;

uint64_t unbounded(uint64_t bound) noexcept { return bound != 0 ? bound : UINT64_MAX; }

uint32_t fragmentation(const LayoutStats &layout) noexcept {
  const auto lost = [](uint64_t of, uint64_t used) {
    return of != 0 ? (of - used) * 1000 / of : 0;
  };
  return static_cast<uint32_t>(std::max(lost(layout.slab_bytes, layout.slab_used),
                                        lost(layout.free_bytes, layout.largest_free)));
}

}  // namespace

struct Defragmenter::Run {
  std::pmr::memory_resource *memory;
  weir_defragment_report *report;
  defrag::Bounds bounds{};  ///< `bytes` and `moves` are what is left
  uint64_t deadline_ns = UINT64_MAX;
  bool wait = false, evict = false;
  weir_defragment_break should_stop = nullptr;
  void *user = nullptr;
  bool stopped = false;  ///< by time or by the callback
  bool bounded = false;  ///< by bytes or moves
  defrag::Planner planner{memory};
  Survey survey{memory};
  std::pmr::vector<defrag::Move> moves{memory};
  std::pmr::vector<MoveOrder> orders{memory};
  std::pmr::vector<Occupant> evicted{memory};
  std::pmr::vector<LooseFragment> loose{memory};

  bool ended() const noexcept { return stopped || bounded; }
  /// Asked before each step; one that has begun is finished.
  bool stop(uint64_t now_ns) {
    stopped =
        stopped || now_ns >= deadline_ns || (should_stop != nullptr && should_stop(user) != 0);
    return stopped;
  }
  void count(const MoveResult &result) noexcept {
    const auto bytes = [&result](Blocker why) { return result.blocked[static_cast<size_t>(why)]; };
    report->copy_moves += result.moves;
    report->no_room_bytes += bytes(Blocker::no_room);
    report->moved_bytes += result.bytes;
    report->leased_bytes += bytes(Blocker::leased);
    report->held_bytes += bytes(Blocker::held);
    report->pinned_bytes += bytes(Blocker::pinned);
    report->stable_bytes += bytes(Blocker::stable);
    report->busy_bytes += bytes(Blocker::busy);
    bounds.moves -= std::min(bounds.moves, result.moves);
    bounds.bytes -= std::min(bounds.bytes, result.bytes);
  }
  /// What stays, of the places as they were surveyed.
  void count_blocked() noexcept {
    MoveResult result;
    for (const Occupant &tenant : survey.occupants) {
      if (!tenant.filler && tenant.blocker != Blocker::none)
        result.block(tenant.blocker, tenant.size);
    }
    count(result);
  }
};

void Defragmenter::describe(Run &run) {
  run.moves.clear();
  run.planner.clear();
  for (const SurveyedPlace &place : run.survey.places) {
    run.planner.add_place(place.size, defrag::PlaceRole{place.worth, true});
    for (size_t i = place.first; i < place.first + place.count; ++i) {
      const Occupant &occupant = run.survey.occupants[i];
      run.planner.add_tenant({occupant.offset, occupant.size, static_cast<uint32_t>(i),
                              occupant.alignment_log2, occupant.blocker == Blocker::none,
                              occupant.filler});
    }
  }
}

// ---- executing ----

Status Defragmenter::execute_batch(Run &run, uint8_t place, bool extents) {
  if (run.orders.empty()) return {};
  MoveResult result;
  const Status status = relocator_.execute(place, run.orders, extents, &result);
  run.orders.clear();
  run.count(result);
  return status;
}

Status Defragmenter::execute(Run &run, uint8_t place, bool extents) {
  run.orders.clear();
  run.evicted.clear();
  run.orders.reserve(batch_moves);
  uint64_t bytes = 0;
  for (const defrag::Move &move : run.moves) {
    const Occupant &tenant = run.survey.occupants[move.tenant];
    if (move.to == defrag::Move::none) {
      run.evicted.push_back(tenant);
      continue;
    }
    if (run.orders.size() == batch_moves || bytes + tenant.size > batch_bytes) {
      WEIR_TRY(execute_batch(run, place, extents));
      bytes = 0;
    }
    if (run.orders.empty() && run.stop(relocator_.now_ns())) return {};
    const SurveyedPlace &from = run.survey.places[move.from];
    const SurveyedPlace &to = run.survey.places[move.to];
    MoveOrder order{tenant, from.id, to.id, from.generation, to.generation, move.offset};
    if (move.before != defrag::Move::none) {
      order.before = run.survey.occupants[move.before].node;
      order.before_generation = run.survey.occupants[move.before].node_generation;
    }
    run.orders.push_back(order);
    bytes += tenant.size;
  }
  WEIR_TRY(execute_batch(run, place, extents));
  if (run.evicted.empty()) return {};
  Status why;
  size_t gone = 0;
  const uint64_t freed = relocator_.evict_extents(place, run.evicted, &gone, &why);
  run.report->evicted_bytes += freed;
  run.report->evict_moves += gone;
  // They count as moves: the next device may do with what is left.
  run.bounds.moves -= std::min<uint64_t>(run.bounds.moves, gone);
  run.bounds.bytes -= std::min(run.bounds.bytes, freed);
  if (freed != 0 || why) return {};
  const bool full = why.code() == WEIR_ERROR_OVER_BUDGET || why.code() == WEIR_ERROR_WOULD_BLOCK;
  if (!full) return why;
  // Nowhere to go to: they stay, as what finds no hole does.
  for (const Occupant &tenant : run.evicted) run.report->no_room_bytes += tenant.size;
  return {};
}

// ---- slabs ----

Status Defragmenter::compact_slabs(Run &run, uint8_t place) {
  std::pmr::vector<uint64_t> groups(memory_);
  MoveResult pinned;
  relocator_.list_groups(place, &groups, &pinned);
  run.count(pinned);
  for (const uint64_t group : groups) {
    for (int pass = 0; pass < most_passes && !run.ended(); ++pass) {
      relocator_.survey_group(place, group, &run.survey, pass == 0);
      if (pass == 0) run.count_blocked();
      describe(run);
      const defrag::Outcome outcome = run.planner.evacuate(run.bounds, &run.moves);
      const uint64_t before = run.report->copy_moves;
      if (!run.moves.empty()) WEIR_TRY(execute(run, place, false));
      run.bounded = run.bounded || outcome.bounded;
      if (run.report->copy_moves != before) continue;
      run.report->no_room_bytes += outcome.no_room_bytes;
      break;
    }
  }
  return {};
}

// ---- fragments ----

/// Each alone: it is less than a page, and what it frees is a granule.
Status Defragmenter::compact_fragments(Run &run, uint8_t place) {
  relocator_.survey_fragments(place, &run.loose);
  for (const LooseFragment &loose : run.loose) {
    if (loose.bytes > loose.granule_bytes / 1000 * run.bounds.cost_permille) break;
    if (run.bounds.moves == 0 || loose.bytes > run.bounds.bytes) {
      run.bounded = true;
      break;
    }
    if (run.stop(relocator_.now_ns())) break;
    MoveResult result;
    const Status status =
        relocator_.remap_fragment(place, loose, run.wait, &result, &run.report->won_bytes);
    run.count(result);
    run.report->copy_moves -= result.moves;
    run.report->remap_moves += result.moves;
    WEIR_TRY(status);
  }
  return {};
}

// ---- segments ----

/// Into run.moves, those that free so many bytes in one piece, in whichever segment or slab costs the least.
defrag::Outcome Defragmenter::cheapest_range(Run &run, uint64_t bytes, uint8_t alignment_log2,
                                             const defrag::Bounds &bounds) {
  defrag::Outcome best;
  run.moves.clear();
  std::pmr::vector<defrag::Move> tried(memory_);
  for (uint32_t i = 0; i < run.survey.places.size(); ++i) {
    if (run.survey.places[i].size < bytes) continue;
    tried.clear();
    const defrag::Outcome outcome =
        run.planner.clear_range(i, bytes, alignment_log2, bounds, &tried);
    if (outcome.won_bytes == 0) continue;
    if (best.won_bytes != 0 && best.moved_bytes <= outcome.moved_bytes) continue;
    best = outcome;
    run.moves.swap(tried);
  }
  return best;
}

/// The longest range that the bounds allow for, in a few steps.
Status Defragmenter::widen_range(Run &run, uint8_t place) {
  constexpr uint64_t steps = 8;
  relocator_.survey_segments(place, &run.survey);
  describe(run);
  const LayoutStats layout = relocator_.layout(place);
  for (uint64_t step = steps; step > 0; --step) {
    const uint64_t bytes = layout.free_bytes / steps * step / 256 * 256;
    if (bytes <= layout.largest_free + layout.largest_free / steps) break;
    defrag::Bounds bounds = run.bounds;
    const double worth = static_cast<double>(bytes - layout.largest_free) *
                         static_cast<double>(run.bounds.cost_permille) / 1000;
    const auto most = static_cast<uint64_t>(std::min(worth, 9e18));
    bounds.bytes = std::min(bounds.bytes, most);
    bounds.may_evict = run.evict;
    defrag::Outcome outcome = cheapest_range(run, bytes, 0, bounds);
    if (outcome.won_bytes != 0) return execute(run, place, true);
    bounds.bytes = most;
    bounds.moves = UINT64_MAX;
    outcome = cheapest_range(run, bytes, 0, bounds);
    run.bounded = run.bounded || outcome.won_bytes != 0;
  }
  return {};
}

Status Defragmenter::compact_segments(Run &run, uint8_t place) {
  relocator_.survey_segments(place, &run.survey);
  run.count_blocked();
  describe(run);
  const defrag::Outcome outcome = run.planner.evacuate(run.bounds, &run.moves);
  run.bounded = run.bounded || outcome.bounded;
  if (!run.moves.empty()) WEIR_TRY(execute(run, place, true));
  if (run.stopped) return {};
  run.report->won_bytes += relocator_.reclaim(place, run.wait);
  return widen_range(run, place);
}

// ---- runs ----

uint32_t Defragmenter::worst_fragmentation() {
  uint32_t worst = 0;
  for (uint8_t place = 0; place < relocator_.device_count(); ++place)
    worst = std::max(worst, fragmentation(relocator_.layout(place)));
  return worst;
}

Status Defragmenter::run_device(Run &run, uint8_t place) {
  weir_defragment_report &report = *run.report;
  const auto look = [&](uint64_t *largest_free, uint32_t *permille) {
    const LayoutStats layout = relocator_.layout(place);
    *largest_free = std::max(*largest_free, layout.largest_free);
    *permille = std::max(*permille, fragmentation(layout));
  };
  look(&report.largest_free_before, &report.fragmentation_before_permille);
  report.won_bytes += relocator_.reclaim(place, run.wait);
  Status status = compact_slabs(run, place);
  report.won_bytes += relocator_.reclaim(place, run.wait);
  if (status && !run.ended()) status = compact_fragments(run, place);
  if (status && !run.ended() && !relocator_.memory_of(place).vmm()) {
    status = compact_segments(run, place);
    report.won_bytes += relocator_.reclaim(place, run.wait);
  }
  look(&report.largest_free_after, &report.fragmentation_after_permille);
  return status;
}

Status Defragmenter::run(const weir_defragment_desc &desc, weir_defragment_report *report) {
  constexpr uint64_t known = WEIR_DEFRAGMENT_WAIT | WEIR_DEFRAGMENT_EVICT;
  WEIR_TRY(check_flags(desc.flags, known));
  if (desc.reserved != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, "reserved is %u", desc.reserved);
  uint8_t first = 0;
  uint8_t end = relocator_.device_count();
  if (desc.device != WEIR_DEVICE_ALL) {
    WEIR_TRY(relocator_.place_of(desc.device, &first));
    end = static_cast<uint8_t>(first + 1);
  }
  const uint64_t start = relocator_.now_ns();
  Run run{memory_, report};
  run.bounds.bytes = unbounded(desc.max_bytes);
  run.bounds.moves = unbounded(desc.max_moves);
  if (desc.max_cost_permille != 0) run.bounds.cost_permille = desc.max_cost_permille;
  if (desc.max_ns != 0) run.deadline_ns = start + std::min(desc.max_ns, UINT64_MAX - start);
  run.wait = (desc.flags & WEIR_DEFRAGMENT_WAIT) != 0;
  run.evict = (desc.flags & WEIR_DEFRAGMENT_EVICT) != 0;
  run.should_stop = desc.should_stop;
  run.user = desc.user;
  const Status status = with_memory("for the records of a compaction", [&]() -> Status {
    for (uint8_t place = first; place < end && !run.ended(); ++place)
      WEIR_TRY(run_device(run, place));
    return {};
  });
  const KeepError keep;
  report->finished = status && !run.ended() ? 1 : 0;
  report->elapsed_ns = relocator_.now_ns() - start;
  relocator_.count_defragmentation(report->evicted_bytes, report->won_bytes);
  return status;
}

/// Single pages of slabs that can't be emptied as a whole: what lies on one is moved into holes elsewhere, also of the same
/// slab.
Status Defragmenter::clear_pages(Run &run, uint8_t place, uint64_t bytes) {
  const uint64_t page = relocator_.memory_of(place).page_size();
  const auto alignment = static_cast<uint8_t>(std::countr_zero(page));
  std::pmr::vector<uint64_t> groups(memory_);
  MoveResult pinned;
  relocator_.list_groups(place, &groups, &pinned);
  for (const uint64_t group : groups) {
    bool moved = true;
    while (moved && run.report->won_bytes < bytes) {
      relocator_.survey_group(place, group, &run.survey, true);
      describe(run);
      const defrag::Outcome outcome = cheapest_range(run, page, alignment, run.bounds);
      if (outcome.won_bytes == 0) break;
      const uint64_t before = run.report->copy_moves;
      WEIR_TRY(execute(run, place, false));
      moved = run.report->copy_moves != before;
      run.report->won_bytes += relocator_.reclaim(place, true);
    }
  }
  return {};
}

/// What small buffers leave of their slabs, and parts of larger ones of shared granules, whatever it costs; then, if that is not
/// enough, single pages.
bool Defragmenter::make_pages(uint8_t place, uint64_t bytes) {
  weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
  Run run{memory_, &report};
  Status status = compact_slabs(run, place);
  if (status) status = compact_fragments(run, place);
  report.won_bytes += relocator_.reclaim(place, true);
  if (status && report.won_bytes < bytes) (void)clear_pages(run, place, bytes);
  relocator_.count_defragmentation(0, report.won_bytes);
  return report.won_bytes != 0;
}

bool Defragmenter::make_range(uint8_t place, uint64_t bytes, bool pages) {
  if (pages || relocator_.memory_of(place).vmm()) return make_pages(place, bytes);
  weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
  Run run{memory_, &report};
  bool made = false;
  bool worked = true;
  for (int attempt = 0; attempt < most_attempts && worked && !made; ++attempt) {
    worked = relocator_.reclaim(place, attempt != 0) != 0;
    made = relocator_.layout(place).largest_free >= bytes;
    if (made) break;
    relocator_.survey_segments(place, &run.survey);
    describe(run);
    defrag::Bounds bounds;
    defrag::Outcome outcome = cheapest_range(run, bytes, 0, bounds);
    bounds.may_evict = true;
    if (outcome.won_bytes == 0) outcome = cheapest_range(run, bytes, 0, bounds);
    if (outcome.won_bytes == 0) continue;
    const uint64_t before = report.copy_moves + report.evict_moves;
    if (!execute(run, place, true)) break;
    worked = worked || report.copy_moves + report.evict_moves != before;
    (void)relocator_.reclaim(place, true);
    made = relocator_.layout(place).largest_free >= bytes;
  }
  relocator_.count_defragmentation(report.evicted_bytes, 0);
  return made;
}

}  // namespace weir::pool
