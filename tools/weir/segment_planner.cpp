// SPDX-License-Identifier: Apache-2.0
//
// The planner tries a plan by claiming its places and giving them back, so that what it tells is what claim() will do.

#include "segment_planner.hpp"

#include <algorithm>

namespace weir::tool {
namespace {

constexpr size_t windows_tried = 12;
constexpr size_t segments_tried = 12;
constexpr uint64_t held_owner = UINT64_MAX;

uint64_t in_units(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

// ---- tenants and their places ----

/// Also keeps the window's holes from being given out.
std::vector<SegmentPlanner::Tenant> SegmentPlanner::tenants_of(const SegmentLedger::Window &window,
                                                               uint64_t bytes) {
  const uint64_t end = window.offset + in_units(bytes, SegmentLedger::quantum);
  std::vector<Tenant> tenants;
  std::vector<std::pair<uint64_t, uint64_t>> holes;
  uint64_t at = window.offset;
  for (auto p = ledger_.first_in(window.segment); p; p = ledger_.next_in(p)) {
    const uint64_t from = ledger_.offset(p), to = from + ledger_.bytes(p);
    if (to <= window.offset) continue;
    if (from >= end) break;
    if (from > at) holes.emplace_back(at, from - at);
    at = to;
    tenants.push_back({p, {}});
  }
  if (at < end) holes.emplace_back(at, end - at);
  held_.reserve(holes.size());
  for (const auto &[offset, length] : holes) {
    held_.push_back(ledger_.hold_at(window.segment, offset, length, held_owner));
  }
  return tenants;
}

/// Also hides the segments.
std::vector<SegmentPlanner::Tenant> SegmentPlanner::tenants_of(
    const std::vector<Segment> &segments) {
  std::vector<Tenant> tenants;
  for (const Segment segment : segments) {
    ledger_.hide(segment);
    for (auto p = ledger_.first_in(segment); p; p = ledger_.next_in(p)) tenants.push_back({p, {}});
  }
  return tenants;
}

/// The largest first, each in the smallest hole that is enough. Returns the bytes of those that have none.
uint64_t SegmentPlanner::find_places(std::vector<Tenant> *tenants) {
  std::sort(tenants->begin(), tenants->end(), [this](const Tenant &a, const Tenant &b) {
    return ledger_.bytes(a.from) > ledger_.bytes(b.from);
  });
  uint64_t without = 0;
  for (Tenant &tenant : *tenants) {
    const SegmentLedger::Place place = ledger_.find(ledger_.bytes(tenant.from));
    if (place) {
      tenant.to = ledger_.commit(place, ledger_.owner(tenant.from));
    } else {
      without += ledger_.bytes(tenant.from);
    }
  }
  return without;
}

/// New places for all tenants of the plan that have a hole; returns the bytes of the others.
uint64_t SegmentPlanner::take(const Plan &plan, uint64_t bytes, std::vector<Tenant> *tenants) {
  try {
    *tenants = plan.way == Way::window ? tenants_of(plan.window, bytes) : tenants_of(plan.emptied);
    return find_places(tenants);
  } catch (...) {
    undo(plan, *tenants);
    throw;
  }
}

void SegmentPlanner::undo(const Plan &plan, const std::vector<Tenant> &tenants) noexcept {
  for (const Tenant &tenant : tenants) {
    if (tenant.to) ledger_.release(tenant.to);
  }
  drop_held();
  for (const Segment segment : plan.emptied) ledger_.show(segment);
}

uint64_t SegmentPlanner::trial(const Plan &plan, uint64_t bytes) {
  std::vector<Tenant> tenants;
  const uint64_t without = take(plan, bytes, &tenants);
  undo(plan, tenants);
  return without;
}

void SegmentPlanner::drop_held() noexcept {
  for (const SegmentLedger::Piece piece : held_) ledger_.release(piece);
  held_.clear();
}

// ---- the ways ----

void SegmentPlanner::weigh_windows(const Request &request, std::vector<Plan> *plans) {
  for (const SegmentLedger::Window &window : ledger_.find_windows(request.bytes, windows_tried)) {
    if (window.live > request.may_move) break;
    Plan plan;
    plan.way = Way::window;
    plan.window = window;
    plan.moved = window.live;
    plan.extra = in_units(trial(plan, request.bytes), request.granule);
    plan.reserved = plan.peak = ledger_.reserved() + plan.extra;
    plans->push_back(std::move(plan));
  }
}

/// The emptiest one, the two emptiest, and so on; and each of those alone.
void SegmentPlanner::weigh_emptying(const Request &request, std::vector<Plan> *plans) {
  std::vector<Segment> all;
  for (Segment s = ledger_.first_segment(); s != SegmentLedger::none; s = ledger_.next_segment(s)) {
    if (ledger_.shown(s) && ledger_.used_of(s) != ledger_.bytes_of(s)) all.push_back(s);
  }
  std::sort(all.begin(), all.end(), [this](Segment a, Segment b) {
    const auto share = [this](Segment s) {
      return static_cast<double>(ledger_.used_of(s)) / static_cast<double>(ledger_.bytes_of(s));
    };
    return share(a) < share(b);
  });
  all.resize(std::min(all.size(), segments_tried));
  const auto weigh = [&](std::vector<Segment> chosen) {
    Plan plan;
    plan.way = Way::empty;
    uint64_t given_back = 0;
    for (const Segment s : chosen) {
      plan.moved += ledger_.used_of(s);
      given_back += ledger_.bytes_of(s);
    }
    if (plan.moved > request.may_move) return;
    plan.emptied = std::move(chosen);
    plan.extra = in_units(trial(plan, request.bytes), request.granule);
    plan.added = in_units(request.bytes, request.granule);
    plan.reserved = ledger_.reserved() + plan.extra + plan.added - given_back;
    plan.peak = std::max(ledger_.reserved() + plan.extra, plan.reserved);
    plans->push_back(std::move(plan));
  };
  std::vector<Segment> emptiest;
  for (const Segment s : all) {
    weigh({s});
    emptiest.push_back(s);
    if (emptiest.size() > 1) weigh(emptiest);
  }
}

SegmentPlanner::Plan SegmentPlanner::choose(const Request &request) {
  std::vector<Plan> plans(1);
  plans[0].way = Way::grow;
  plans[0].added = in_units(request.bytes, request.granule);
  plans[0].reserved = plans[0].peak = ledger_.reserved() + plans[0].added;
  if (plans[0].peak > request.limit) {
    if (const SegmentLedger::Slide slide = ledger_.find_slide(request.bytes);
        slide && slide.live <= request.may_move) {
      Plan plan;
      plan.way = Way::slide;
      plan.slide = slide;
      plan.moved = slide.live;
      plan.reserved = plan.peak = ledger_.reserved();
      plans.push_back(plan);
    }
    weigh_windows(request, &plans);
    weigh_emptying(request, &plans);
  }
  const Plan *best = nullptr;
  const auto better = [&](const Plan &a, const Plan &b) {
    const bool a_within = a.peak <= request.limit, b_within = b.peak <= request.limit;
    if (a_within != b_within) return a_within;
    if (a_within && a.moved != b.moved) return a.moved < b.moved;
    return a.peak != b.peak ? a.peak < b.peak : a.moved < b.moved;
  };
  for (const Plan &plan : plans) {
    if (plan.peak <= request.capacity && (best == nullptr || better(plan, *best))) best = &plan;
  }
  return best != nullptr ? *best : Plan{};
}

// ---- carrying out ----

std::vector<SegmentPlanner::Tenant> SegmentPlanner::claim(const Plan &plan, uint64_t bytes,
                                                          Segment extra) {
  if (extra != SegmentLedger::none) ledger_.hide(extra);
  std::vector<Tenant> tenants;
  take(plan, bytes, &tenants);
  try {
    uint64_t offset = 0;
    for (Tenant &tenant : tenants) {
      if (tenant.to) continue;
      const uint64_t size = ledger_.bytes(tenant.from);
      tenant.to = ledger_.hold_at(extra, offset, size, ledger_.owner(tenant.from));
      offset += size;
    }
  } catch (...) {
    undo(plan, tenants);
    throw;
  }
  if (extra != SegmentLedger::none) ledger_.show(extra);
  return tenants;
}

void SegmentPlanner::finish(const std::vector<Tenant> &tenants) noexcept {
  for (const Tenant &tenant : tenants) ledger_.release(tenant.from);
  drop_held();
}

}  // namespace weir::tool
