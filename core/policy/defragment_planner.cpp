// SPDX-License-Identifier: Apache-2.0
//
// The planner's holes are kept in classes by size, as the offset allocator keeps its free ranges: taking one is a look at
// a few of one class, whatever their number. Fuller places are opened one by one, when nothing that is open fits; so
// sources come from the one end of the order and targets from the other, and the two never meet.

#include "core/policy/defragment_planner.hpp"

#include <algorithm>
#include <cassert>

namespace weir::defrag {
namespace {

uint64_t align_up(uint64_t value, uint8_t log2) noexcept {
  const uint64_t mask = (uint64_t{1} << log2) - 1;
  return (value + mask) & ~mask;
}

}  // namespace

void Planner::clear() noexcept {
  places_.clear();
  tenants_.clear();
  reset_holes();
}

void Planner::add_place(uint64_t size, const PlaceRole &role) {
  places_.push_back({.size = size,
                     .worth = role.worth,
                     .first = static_cast<uint32_t>(tenants_.size()),
                     .target = role.target});
}

void Planner::add_tenant(const Tenant &tenant) {
  Place &place = places_.back();
  assert(place.count == 0 || tenants_.back().offset + tenants_.back().size <= tenant.offset);
  tenants_.push_back(tenant);
  ++place.count;
  if (tenant.filler) return;
  place.used += tenant.size;
  if (!tenant.movable) ++place.fixed;
}

// ---- holes ----

void Planner::reset_holes() noexcept {
  holes_.clear();
  taken_.clear();
  std::fill(heads_.begin(), heads_.end(), none);
  used_ = {};
}

void Planner::put(uint32_t hole) noexcept {
  Hole &fresh = holes_[hole];
  const uint32_t bin = Classes::of(fresh.size);
  uint32_t &head = heads_[bin];
  fresh.before_in_bin = none;
  fresh.after_in_bin = head;
  if (head != none) holes_[head].before_in_bin = hole;
  head = hole;
  used_.add(bin);
}

void Planner::remove(uint32_t hole) noexcept {
  const Hole &old = holes_[hole];
  const uint32_t bin = Classes::of(old.size);
  if (old.after_in_bin != none) holes_[old.after_in_bin].before_in_bin = old.before_in_bin;
  if (old.before_in_bin != none) {
    holes_[old.before_in_bin].after_in_bin = old.after_in_bin;
    return;
  }
  heads_[bin] = old.after_in_bin;
  used_.remove_if(old.after_in_bin == none, bin);
}

void Planner::add_hole(uint32_t place, uint64_t offset, uint64_t end, uint32_t before) {
  if (offset >= end) return;
  holes_.push_back(Hole{offset, end - offset, place, before, none, none});
  put(static_cast<uint32_t>(holes_.size() - 1));
}

/// A hole of the tenant's own class, if one of the first few fits, or of the next class that has one.
uint32_t Planner::find(const Tenant &tenant) const noexcept {
  const uint32_t own = Classes::of(tenant.size);
  uint32_t classes = looks;
  for (uint32_t bin = used_.next(own); bin != none && classes-- > 0; bin = used_.next(bin + 1)) {
    uint32_t left = bin == own ? looks : 1;
    for (uint32_t i = heads_[bin]; i != none && left-- > 0; i = holes_[i].after_in_bin) {
      const uint64_t at = align_up(holes_[i].offset, tenant.alignment_log2);
      if (at + tenant.size <= holes_[i].offset + holes_[i].size) return i;
    }
  }
  // With an alignment none of the tightest may do: one that is large enough wherever it begins.
  if (tenant.alignment_log2 == 0) return none;
  const uint64_t sure = tenant.size + (uint64_t{1} << tenant.alignment_log2);
  const uint32_t bin = used_.next(Classes::of(sure) + 1);
  return bin != none ? heads_[bin] : none;
}

/// Takes the front of the hole for the tenant; returns where. What was is kept in taken_.
uint64_t Planner::take(uint32_t hole, uint32_t tenant) {
  const Hole old = holes_[hole];
  const uint64_t at = align_up(old.offset, tenants_[tenant].alignment_log2);
  taken_.push_back(Taken{hole, none, old});
  if (at != old.offset) {
    taken_.back().gap = static_cast<uint32_t>(holes_.size());
    add_hole(old.place, old.offset, at, old.before);
  }
  remove(hole);
  Hole &rest = holes_[hole];
  rest.offset = at + tenants_[tenant].size;
  rest.size = old.offset + old.size - rest.offset;
  if (rest.size != 0) put(hole);
  return at;
}

/// Undoes the takes of one place, the last first.
void Planner::take_back() noexcept {
  while (!taken_.empty()) {
    const Taken &last = taken_.back();
    if (holes_[last.hole].size != 0) remove(last.hole);
    if (last.gap != none) remove(last.gap);
    holes_[last.hole] = last.old;
    put(last.hole);
    if (last.gap != none) holes_[last.gap].size = 0;
    taken_.pop_back();
  }
}

// ---- evacuation ----

/// By the share that is used.
bool Planner::emptier(uint32_t a, uint32_t b) const noexcept {
  const Place &x = places_[a];
  const Place &y = places_[b];
  const double left = static_cast<double>(x.used) * static_cast<double>(y.size);
  const double right = static_cast<double>(y.used) * static_cast<double>(x.size);
  return left != right ? left < right : a < b;
}

/// visit(begin, end, before): what lies between tenants, and the one that begins at the end; the last first. May be empty.
template <class Visit>
void Planner::each_gap(const Place &place, Visit visit) const {
  uint64_t end = place.size;
  uint32_t before = none;
  for (uint32_t t = place.first + place.count; t-- > place.first;) {
    const Tenant &tenant = tenants_[t];
    visit(tenant.offset + tenant.size, end, before);
    end = tenant.offset;
    if (!tenant.filler) before = t;
  }
  visit(uint64_t{0}, end, before);
}

void Planner::open(uint32_t number) {
  Place &place = places_[number];
  place.opened = true;
  place.first_hole = static_cast<uint32_t>(holes_.size());
  each_gap(place, [this, number](uint64_t begin, uint64_t end, uint32_t before) {
    add_hole(number, begin, end, before);
  });
  place.last_hole = static_cast<uint32_t>(holes_.size());
  opened_.push_back(number);
}

bool Planner::open_fullest() {
  while (!targets_.empty()) {
    std::pop_heap(targets_.begin(), targets_.end(), less_full());
    const uint32_t number = targets_.back();
    if (!places_[number].left) open(number);
    targets_.pop_back();
    if (places_[number].opened) return true;
  }
  return false;
}

/// What was opened for a place that could not be emptied after all may be emptied itself: its holes are whole.
void Planner::close_again(size_t opened) noexcept {
  while (opened_.size() > opened) {
    Place &place = places_[opened_.back()];
    for (uint32_t i = place.first_hole; i < place.last_hole; ++i) remove(i);
    place.opened = false;
    targets_.push_back(opened_.back());  // it came from there
    std::push_heap(targets_.begin(), targets_.end(), less_full());
    opened_.pop_back();
  }
}

bool Planner::place_tenant(uint32_t tenant, Move *move) {
  uint32_t hole = find(tenants_[tenant]);
  while (hole == none && open_fullest()) hole = find(tenants_[tenant]);
  if (hole == none) return false;
  move->tenant = tenant;
  move->to = holes_[hole].place;
  move->before = holes_[hole].before;
  move->offset = take(hole, tenant);
  return true;
}

/// Large ones first: they have the fewest holes to choose from.
void Planner::sort_big_first(uint32_t first, uint32_t last) {
  order_.clear();
  for (uint32_t t = first; t < last; ++t) {
    if (!tenants_[t].filler) order_.push_back(t);
  }
  std::sort(order_.begin(), order_.end(), [this](uint32_t a, uint32_t b) {
    return tenants_[a].size != tenants_[b].size ? tenants_[a].size > tenants_[b].size : a < b;
  });
}

/// The moves of all of a place's tenants, or none.
bool Planner::plan_place(uint32_t number, std::pmr::vector<Move> *moves) {
  const Place &place = places_[number];
  const size_t before = moves->size();
  const size_t opened = opened_.size();
  sort_big_first(place.first, place.first + place.count);
  taken_.clear();
  taken_.reserve(order_.size());
  for (const uint32_t tenant : order_) {
    Move move;
    move.from = number;
    if (place_tenant(tenant, &move)) {
      moves->push_back(move);
      continue;
    }
    take_back();
    close_again(opened);
    moves->resize(before);
    return false;
  }
  if (moves->size() > before) moves->back().last = true;
  return true;
}

Outcome Planner::evacuate(const Bounds &bounds, std::pmr::vector<Move> *moves) {
  Outcome outcome;
  reset_holes();
  sources_.clear();
  targets_.clear();
  opened_.clear();
  for (uint32_t i = 0; i < places_.size(); ++i) {
    Place &place = places_[i];
    place.opened = place.left = false;
    const bool costly =
        static_cast<double>(place.used) * 1000 >
        static_cast<double>(place.worth) * static_cast<double>(bounds.cost_permille);
    const bool source = place.used != 0 && place.worth != 0 && place.fixed == 0;
    if (source && !costly) sources_.push_back(i);
    if (place.target && place.used != 0) targets_.push_back(i);
  }
  std::make_heap(sources_.begin(), sources_.end(), fuller());
  std::make_heap(targets_.begin(), targets_.end(), less_full());
  uint32_t failures = 0;
  while (!sources_.empty()) {
    std::pop_heap(sources_.begin(), sources_.end(), fuller());
    const uint32_t number = sources_.back();
    sources_.pop_back();
    Place &place = places_[number];
    if (place.opened) break;  // what is left is fuller still, and takes others in
    if (failures == most_failures) {
      outcome.no_room_bytes += place.used;
      continue;
    }
    place.left = true;
    const size_t before = moves->size();
    if (!plan_place(number, moves)) {
      // It stays, but takes nothing in: whoever comes after it is fuller, and looks where there was no room.
      outcome.no_room_bytes += place.used;
      ++failures;
      continue;
    }
    for (size_t i = before; i < moves->size(); ++i) {
      const uint64_t size = tenants_[(*moves)[i].tenant].size;
      if (i == bounds.moves || size > bounds.bytes - outcome.moved_bytes) {
        moves->resize(i);
        outcome.bounded = true;
        return outcome;
      }
      outcome.moved_bytes += size;
    }
    outcome.won_bytes += place.worth;
  }
  return outcome;
}

// ---- one range ----

/// Every range that begins behind a tenant (or at the start) and holds nothing that must stay, cheapest first. A range
/// that begins elsewhere touches no fewer tenants.
void Planner::list_windows(const Place &place, uint64_t bytes, uint8_t alignment_log2,
                           const Bounds &bounds) {
  windows_.clear();
  const uint32_t end = place.first + place.count;
  uint32_t last = place.first;
  uint32_t fixed = 0;
  uint64_t inside = 0;
  const auto counts = [this](uint32_t t) { return tenants_[t].filler || !tenants_[t].movable; };
  for (uint32_t first = place.first; first <= end; ++first) {
    const uint64_t behind =
        first == place.first ? 0 : tenants_[first - 1].offset + tenants_[first - 1].size;
    const uint64_t begin = align_up(behind, alignment_log2);
    if (begin > place.size || bytes > place.size - begin) break;
    for (; last < end && tenants_[last].offset < begin + bytes; ++last) {
      fixed += counts(last) ? 1 : 0;
      inside += tenants_[last].size;
    }
    const uint64_t moves = last - first;
    const bool allowed = fixed == 0 && inside <= bounds.bytes && moves <= bounds.moves;
    if (allowed) windows_.push_back(Window{begin, inside, first, last});
    if (first < last) {
      fixed -= counts(first) ? 1 : 0;
      inside -= tenants_[first].size;
    } else {
      last = first + 1;  // an empty window before a tenant that begins behind its end
      // That tenant is behind the next window's start too.
    }
  }
  const size_t most = std::min<size_t>(windows_.size(), most_windows);
  std::partial_sort(windows_.begin(), windows_.begin() + static_cast<ptrdiff_t>(most),
                    windows_.end(), [](const Window &a, const Window &b) {
                      return a.bytes != b.bytes ? a.bytes < b.bytes : a.begin < b.begin;
                    });
  windows_.resize(most);
}

/// The holes of every place that takes tenants, but for [begin, end) of this one.
void Planner::open_around(uint32_t number, uint64_t begin, uint64_t end) {
  reset_holes();
  for (uint32_t i = 0; i < places_.size(); ++i) {
    const Place &place = places_[i];
    if (i != number) {
      if (place.target) open(i);
      continue;
    }
    each_gap(place, [&](uint64_t at, uint64_t to, uint32_t before) {
      // What ends inside the range would be found by a tenant that leaves: left alone.
      if (to <= begin) add_hole(i, at, to, before);
      if (to > end) add_hole(i, std::max(at, end), to, before);
    });
  }
}

Outcome Planner::clear_range(uint32_t number, uint64_t bytes, uint8_t alignment_log2,
                             const Bounds &bounds, std::pmr::vector<Move> *moves) {
  Outcome outcome;
  const size_t before = moves->size();
  targets_.clear();
  opened_.clear();
  list_windows(places_[number], bytes, alignment_log2, bounds);
  uint64_t least_left = UINT64_MAX;
  size_t chosen = windows_.size();
  const auto try_window = [&](size_t w, bool keep) {
    const Window &window = windows_[w];
    open_around(number, window.begin, window.begin + bytes);
    sort_big_first(window.first, window.last);
    taken_.clear();
    taken_.reserve(order_.size());
    uint64_t left = 0;
    for (const uint32_t tenant : order_) {
      Move move;
      move.from = number;
      move.tenant = tenant;
      if (!place_tenant(tenant, &move)) {
        move.to = Move::none;
        left += tenants_[tenant].size;
      }
      if (keep) moves->push_back(move);
    }
    return left;
  };
  for (size_t w = 0; w < windows_.size() && least_left != 0; ++w) {
    const uint64_t left = try_window(w, false);
    if (left >= least_left) continue;
    least_left = left;
    chosen = w;
  }
  if (chosen == windows_.size() || (least_left != 0 && !bounds.may_evict)) {
    outcome.no_room_bytes = chosen == windows_.size() ? 0 : least_left;
    return outcome;
  }
  (void)try_window(chosen, true);
  outcome.range = windows_[chosen].begin;
  outcome.moved_bytes = windows_[chosen].bytes;
  outcome.won_bytes = bytes;
  if (moves->size() > before) moves->back().last = true;
  return outcome;
}

}  // namespace weir::defrag
