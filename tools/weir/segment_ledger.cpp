// SPDX-License-Identifier: Apache-2.0
//
// The segments' best fit and the search for windows. Everything that can throw comes before the first change.

#include "segment_ledger.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace weir::tool {
namespace {

constexpr int aligned_looks = 8;

uint64_t align_up(uint64_t value, uint64_t step) { return (value + step - 1) & ~(step - 1); }
uint64_t quanta_of(uint64_t bytes) {
  return (bytes + SegmentLedger::quantum - 1) / SegmentLedger::quantum;
}

}  // namespace

// ---- the tables ----

void SegmentLedger::reserve(uint32_t nodes) {
  if (spare_ >= nodes) return;
  const size_t count = nodes_.size() + (nodes - spare_);
  if (count > nodes_.capacity()) nodes_.reserve(std::max(count, nodes_.capacity() * 2));
  holes_.reserve(count);
  while (spare_ < nodes) {
    nodes_.emplace_back();
    drop_node(static_cast<uint32_t>(nodes_.size() - 1));
  }
}

uint32_t SegmentLedger::take_node() noexcept {
  const uint32_t node = unused_;
  unused_ = nodes_[node].after;
  --spare_;
  return node;
}

void SegmentLedger::drop_node(uint32_t node) noexcept {
  nodes_[node].hole = false;
  nodes_[node].after = unused_;
  unused_ = node;
  ++spare_;
}

void SegmentLedger::index(uint32_t node) noexcept {
  const Node &hole = nodes_[node];
  if (segments_[hole.segment].shown) holes_.insert(node, hole.length, hole.length);
}

void SegmentLedger::unindex(uint32_t node) noexcept {
  if (holes_.contains(node)) holes_.erase(node);
}

uint32_t SegmentLedger::insert_after(uint32_t node, uint64_t offset, uint64_t length) noexcept {
  const uint32_t fresh = take_node();
  const uint32_t next = nodes_[node].after;
  nodes_[fresh] = {offset, length, 0, nodes_[node].segment, node, next, nodes_[fresh].generation,
                   true};
  nodes_[node].after = fresh;
  if (next != none) nodes_[next].before = fresh;
  return fresh;
}

void SegmentLedger::absorb_next(uint32_t node) noexcept {
  const uint32_t next = nodes_[node].after;
  nodes_[node].length += nodes_[next].length;
  nodes_[node].after = nodes_[next].after;
  if (nodes_[node].after != none) nodes_[nodes_[node].after].before = node;
  drop_node(next);
}

// ---- segments ----

SegmentLedger::Segment SegmentLedger::add(uint64_t name, uint64_t bytes) {
  assert(bytes >= quantum);
  reserve(1);
  const auto unused = std::find_if(segments_.begin(), segments_.end(),
                                   [](const Entry &entry) { return !entry.in_use; });
  const auto segment = static_cast<Segment>(unused - segments_.begin());
  if (unused == segments_.end()) segments_.emplace_back();
  const uint32_t node = take_node();
  const uint64_t length = bytes / quantum;
  segments_[segment] = {name, length, 0, node, true, true};
  nodes_[node] = {0, length, 0, segment, none, none, nodes_[node].generation, true};
  index(node);
  reserved_ += length;
  ++state_;
  return segment;
}

void SegmentLedger::remove(Segment segment) noexcept {
  Entry &entry = segments_[segment];
  assert(entry.in_use && entry.used == 0);
  unindex(entry.first);
  drop_node(entry.first);
  reserved_ -= entry.length;
  entry = {};
  ++state_;
}

void SegmentLedger::show(Segment segment) noexcept {
  Entry &entry = segments_[segment];
  if (entry.shown) return;
  entry.shown = true;
  ++state_;
  for (uint32_t node = entry.first; node != none; node = nodes_[node].after) {
    if (nodes_[node].hole) index(node);
  }
}

void SegmentLedger::hide(Segment segment) noexcept {
  Entry &entry = segments_[segment];
  if (!entry.shown) return;
  ++state_;
  for (uint32_t node = entry.first; node != none; node = nodes_[node].after) unindex(node);
  entry.shown = false;
}

SegmentLedger::Segment SegmentLedger::next_in_use(Segment segment) const {
  while (segment < segments_.size() && !segments_[segment].in_use) ++segment;
  return segment < segments_.size() ? segment : none;
}

// ---- places ----

SegmentLedger::Place SegmentLedger::find(uint64_t bytes, uint64_t alignment) const {
  assert(bytes > 0 && std::has_single_bit(alignment));
  const uint64_t length = quanta_of(bytes);
  const uint64_t step = std::max<uint64_t>(alignment / quantum, 1);
  const auto fits = [&](uint32_t run) {
    const Node &hole = nodes_[run];
    return align_up(hole.offset, step) + length <= hole.offset + hole.length;
  };
  uint32_t run = holes_.at_least(length);
  for (int looks = aligned_looks; run != none && !fits(run) && looks > 0; --looks) {
    run = holes_.next(run);
  }
  if (run != none && !fits(run)) run = holes_.at_least(length + step - 1);
  return {run, bytes, alignment, state_};
}

SegmentLedger::Piece SegmentLedger::carve(uint32_t run, uint64_t offset, uint64_t length,
                                          uint64_t owner) noexcept {
  unindex(run);
  uint32_t node = run;
  const uint64_t end = nodes_[run].offset + nodes_[run].length;
  if (offset != nodes_[run].offset) {
    node = insert_after(run, offset, length);
    nodes_[run].length = offset - nodes_[run].offset;
    index(run);
  }
  nodes_[node].length = length;
  if (offset + length != end) index(insert_after(node, offset + length, end - offset - length));
  Node &piece = nodes_[node];
  piece.hole = false;
  piece.owner = owner;
  ++piece.generation;
  segments_[piece.segment].used += length;
  used_ += length;
  ++pieces_;
  ++state_;
  return {node, piece.generation};
}

SegmentLedger::Piece SegmentLedger::commit(const Place &place, uint64_t owner) {
  if (place.at != state_ || !place) return {};
  reserve(2);
  const uint64_t step = std::max<uint64_t>(place.alignment / quantum, 1);
  return carve(place.run, align_up(nodes_[place.run].offset, step), quanta_of(place.bytes), owner);
}

SegmentLedger::Piece SegmentLedger::hold_at(Segment segment, uint64_t offset, uint64_t bytes,
                                            uint64_t owner) {
  reserve(2);
  const uint64_t from = offset / quantum;
  uint32_t node = segments_[segment].first;
  while (nodes_[node].offset + nodes_[node].length <= from) node = nodes_[node].after;
  assert(nodes_[node].hole && from + quanta_of(bytes) <= nodes_[node].offset + nodes_[node].length);
  return carve(node, from, quanta_of(bytes), owner);
}

void SegmentLedger::release(Piece piece) noexcept {
  assert(live(piece));
  uint32_t node = piece.node;
  used_ -= nodes_[node].length;
  segments_[nodes_[node].segment].used -= nodes_[node].length;
  --pieces_;
  ++state_;
  ++nodes_[node].generation;
  nodes_[node].hole = true;
  nodes_[node].owner = 0;
  if (const uint32_t next = nodes_[node].after; next != none && nodes_[next].hole) {
    unindex(next);
    absorb_next(node);
  }
  if (const uint32_t last = nodes_[node].before; last != none && nodes_[last].hole) {
    unindex(last);
    absorb_next(last);
    node = last;
  }
  index(node);
}

uint64_t SegmentLedger::largest_hole() const noexcept {
  const uint32_t hole = holes_.largest();
  return hole == none ? 0 : holes_.room(hole) * quantum;
}

// ---- windows ----

/// Windows that begin or end with a hole, or at an end of the segment: any other can be shifted to one of these without a
/// tenant more.
void SegmentLedger::windows_in(Segment segment, uint64_t length, std::vector<Window> *found) const {
  const Entry &entry = segments_[segment];
  // Forwards: from each hole's begin, and from the segment's.
  uint32_t to = entry.first;
  uint64_t live = 0;  // of the tenants in [from, to)
  for (uint32_t from = entry.first; from != none; from = nodes_[from].after) {
    const uint64_t begin = nodes_[from].offset;
    if (begin + length > entry.length) break;
    while (to != none && nodes_[to].offset < begin + length) {
      if (!nodes_[to].hole) live += nodes_[to].length;
      to = nodes_[to].after;
    }
    if (nodes_[from].hole || from == entry.first) {
      found->push_back({segment, begin * quantum, live * quantum});
    }
    if (!nodes_[from].hole) live -= nodes_[from].length;
  }
  // Backwards: to each hole's end, and to the segment's.
  uint32_t from = entry.first;
  live = 0;  // of the tenants in [from, to]
  for (to = entry.first; to != none; to = nodes_[to].after) {
    if (!nodes_[to].hole) live += nodes_[to].length;
    const uint64_t end = nodes_[to].offset + nodes_[to].length;
    if (end < length) continue;
    while (nodes_[from].offset + nodes_[from].length <= end - length) {
      if (!nodes_[from].hole) live -= nodes_[from].length;
      from = nodes_[from].after;
    }
    if (nodes_[to].hole || nodes_[to].after == none) {
      found->push_back({segment, (end - length) * quantum, live * quantum});
    }
  }
}

std::vector<SegmentLedger::Window> SegmentLedger::find_windows(uint64_t bytes, size_t most) const {
  std::vector<Window> found;
  for (Segment s = first_segment(); s != none; s = next_segment(s)) {
    if (segments_[s].shown && bytes_of(s) >= bytes) windows_in(s, quanta_of(bytes), &found);
  }
  const auto fewer = [](const Window &a, const Window &b) { return a.live < b.live; };
  const size_t kept = std::min(most, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept), found.end(),
                    fewer);
  found.resize(kept);
  return found;
}

// ---- sliding ----

void SegmentLedger::slides_in(Segment segment, uint64_t length, Slide *best) const {
  uint32_t from = none;
  uint64_t free = 0, live = 0;  // from `from` on
  for (uint32_t to = segments_[segment].first; to != none; to = nodes_[to].after) {
    if (!nodes_[to].hole) {
      if (from != none) live += nodes_[to].length;
      continue;
    }
    if (from == none) from = to;
    free += nodes_[to].length;
    while (free - nodes_[from].length >= length) {  // the first hole is not needed
      free -= nodes_[from].length;
      for (from = nodes_[from].after; !nodes_[from].hole; from = nodes_[from].after) {
        live -= nodes_[from].length;
      }
    }
    if (free >= length && (!*best || live * quantum < best->live)) {
      *best = {segment, from, to, live * quantum};
    }
  }
}

SegmentLedger::Slide SegmentLedger::find_slide(uint64_t bytes) const {
  Slide best;
  for (Segment s = first_segment(); s != none; s = next_segment(s)) {
    if (segments_[s].shown && bytes_of(s) - used_of(s) >= bytes)
      slides_in(s, quanta_of(bytes), &best);
  }
  return best;
}

SegmentLedger::Piece SegmentLedger::next_to_slide(const Slide &slide) const {
  if (slide.first == slide.last) return {};
  const uint32_t node = nodes_[slide.first].after;
  return {node, nodes_[node].generation};
}

void SegmentLedger::slide_down(Piece piece, Slide *slide) noexcept {
  assert(live(piece));
  const uint32_t node = piece.node, hole = nodes_[node].before;
  assert(hole == slide->first);
  unindex(hole);
  const uint32_t below = nodes_[hole].before, above = nodes_[node].after;
  nodes_[node].offset = nodes_[hole].offset;
  nodes_[hole].offset = nodes_[node].offset + nodes_[node].length;
  nodes_[node].before = below;
  nodes_[node].after = hole;
  nodes_[hole].before = node;
  nodes_[hole].after = above;
  if (below != none) {
    nodes_[below].after = node;
  } else {
    segments_[nodes_[node].segment].first = node;
  }
  if (above != none) {
    nodes_[above].before = hole;
    if (nodes_[above].hole) {
      if (slide->last == above) slide->last = hole;
      unindex(above);
      absorb_next(hole);
    }
  }
  index(hole);
  ++state_;
}

// ---- looking ----

const SegmentLedger::Node &SegmentLedger::node_of(Piece piece) const {
  assert(live(piece));
  return nodes_[piece.node];
}

/// At most one hole lies between two pieces.
SegmentLedger::Piece SegmentLedger::live_from(uint32_t node) const {
  if (node != none && nodes_[node].hole) node = nodes_[node].after;
  return node == none ? Piece{} : Piece{node, nodes_[node].generation};
}

std::string SegmentLedger::validate() const {
  uint64_t reserved = 0, used = 0, pieces = 0, holes = 0;
  for (Segment s = first_segment(); s != none; s = next_segment(s)) {
    uint64_t at = 0, in_segment = 0;
    uint32_t last = none;
    for (uint32_t node = segments_[s].first; node != none; last = node, node = nodes_[node].after) {
      const Node &run = nodes_[node];
      const std::string name = "run " + std::to_string(node);
      if (run.segment != s || run.before != last) return name + " does not link back";
      if (run.offset != at || run.length == 0) return name + " does not follow the one before";
      at += run.length;
      if (run.hole == ((run.generation & 1U) != 0))
        return name + " has a generation of another kind";
      const bool indexed = run.hole && segments_[s].shown;
      if (holes_.contains(node) != indexed || (indexed && holes_.room(node) != run.length)) {
        return name + " is indexed wrongly";
      }
      if (run.hole && last != none && nodes_[last].hole) return name + " follows another hole";
      holes += indexed ? 1 : 0;
      if (!run.hole) {
        in_segment += run.length;
        ++pieces;
      }
    }
    if (at != segments_[s].length) return "the runs do not reach the segment's end";
    if (in_segment != segments_[s].used) return "a segment's sum is wrong";
    reserved += at;
    used += in_segment;
  }
  if (reserved != reserved_ || used != used_ || pieces != pieces_) return "the sums are wrong";
  if (holes != holes_.size()) return "the index holds what is no hole";
  return holes_.validate();
}

}  // namespace weir::tool
