// SPDX-License-Identifier: Apache-2.0
//
// The ledger's tables, finding, taking and giving back. Finding changes nothing and looks at a bounded number of rooms.
// Everything that can throw is in reserve(), before the first change.

#include "core/physical/granule_ledger.hpp"

#include "core/base/grow.hpp"
#include "core/physical/align.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace weir::physical {
namespace {

constexpr int pair_looks = 24;
constexpr int aligned_looks = 8;

uint64_t quanta_of(uint64_t bytes) {
  return (bytes + GranuleLedger::quantum - 1) / GranuleLedger::quantum;
}

}  // namespace

GranuleLedger::GranuleLedger(uint64_t page, std::pmr::memory_resource *memory, uint64_t least_share)
    : page_(page / quantum),
      least_share_(least_share),
      nodes_(memory),
      slots_(memory),
      front_(memory),
      rear_(memory),
      closed_(memory),
      movable_(memory) {
  assert(std::has_single_bit(page) && page > quantum && page_ <= UINT32_MAX);
}

// ---- the tables ----

/// Where in a free run a piece goes; none: it does not fit there. What is left stays at the granule's front or rear.
uint32_t GranuleLedger::offset_for(Kind kind, const Node &run, uint64_t length,
                                   uint64_t step) const {
  const uint64_t end = uint64_t{run.offset} + run.length;
  if (length > run.length) return none;
  uint64_t offset = run.offset;
  if (kind == Kind::head) {
    offset = end - length;
  } else if (kind == Kind::small && run.offset == 0 && end != page_) {
    offset = align_down(end - length, step);
  } else if (kind == Kind::small) {
    offset = align_up(offset, step);
  }
  return offset + length <= end ? static_cast<uint32_t>(offset) : none;
}

void GranuleLedger::reserve(uint32_t nodes, uint32_t slots) {
  if (spare_nodes_ < nodes) {
    const size_t count = nodes_.size() + (nodes - spare_nodes_);
    grow_to(nodes_, count);
    for (RoomTree *tree : {&front_, &rear_, &closed_}) tree->reserve(count);
    while (spare_nodes_ < nodes) {
      nodes_.emplace_back();
      drop_node(static_cast<uint32_t>(nodes_.size() - 1));
    }
  }
  if (spare_slots_ < slots) {
    const size_t count = slots_.size() + (slots - spare_slots_);
    grow_to(slots_, count);
    movable_.reserve(count);
    while (spare_slots_ < slots) {
      slots_.emplace_back().first = unused_slot_;
      unused_slot_ = static_cast<uint32_t>(slots_.size() - 1);
      ++spare_slots_;
    }
  }
}

uint32_t GranuleLedger::take_node() noexcept {
  const uint32_t node = unused_node_;
  unused_node_ = nodes_[node].after;
  --spare_nodes_;
  return node;
}

void GranuleLedger::drop_node(uint32_t node) noexcept {
  nodes_[node].kind = Kind::unused;
  nodes_[node].after = unused_node_;
  unused_node_ = node;
  ++spare_nodes_;
}

RoomTree &GranuleLedger::tree_of(const Node &node) noexcept {
  if (node.offset == 0) return front_;
  return uint64_t{node.offset} + node.length == page_ ? rear_ : closed_;
}

void GranuleLedger::index(uint32_t node) noexcept {
  const Node &run = nodes_[node];
  if (slots_[run.slot].shown) tree_of(run).insert(node, run.length, run.length);
}

void GranuleLedger::unindex(uint32_t node) noexcept {
  const Node &run = nodes_[node];
  if (slots_[run.slot].shown) tree_of(run).erase(node);
}

/// A hidden granule, wholly free; its one run is in no index.
uint32_t GranuleLedger::open(uint64_t name) noexcept {
  const uint32_t slot = unused_slot_;
  unused_slot_ = slots_[slot].first;
  --spare_slots_;
  const uint32_t node = take_node();
  slots_[slot] = {name, 0, node, 0, false, true};
  Node &run = nodes_[node];
  run = {0, slot, 0, static_cast<uint32_t>(page_), none, none, run.generation, Kind::free};
  ++granules_;
  return node;
}

/// Makes a piece of a part of a free run; what is left before and after it stays free.
uint32_t GranuleLedger::carve(uint32_t run, uint32_t offset, uint32_t length, Kind kind,
                              uint64_t owner) noexcept {
  unindex(run);
  const uint32_t slot_number = nodes_[run].slot;
  Slot &slot = slots_[slot_number];
  if (movable_.contains(slot_number)) movable_.erase(slot_number);
  const auto insert_after = [&](uint32_t node, uint32_t from, uint32_t count) {
    const uint32_t fresh = take_node();
    const uint32_t next = nodes_[node].after;
    nodes_[fresh] = {0, slot_number, from, count, node, next, nodes_[fresh].generation, Kind::free};
    nodes_[node].after = fresh;
    if (next != none) nodes_[next].before = fresh;
    return fresh;
  };
  uint32_t node = run;
  const uint32_t end = nodes_[run].offset + nodes_[run].length;
  if (offset != nodes_[run].offset) {
    node = insert_after(run, offset, length);
    nodes_[run].length = offset - nodes_[run].offset;
    index(run);
  }
  nodes_[node].length = length;
  if (offset + length != end) index(insert_after(node, offset + length, end - offset - length));
  Node &piece = nodes_[node];
  piece.kind = kind;
  piece.owner = owner;
  ++piece.generation;
  slot.used += length;
  if (kind != Kind::small) ++slot.fragments;
  if (slot.shown && slot.fragments == 0) movable_.insert(slot_number, slot.used, slot.used);
  used_ += length;
  ++pieces_;
  return node;
}

/// Takes the free run after `node` into it.
void GranuleLedger::join(uint32_t node, uint32_t next) noexcept {
  nodes_[node].length += nodes_[next].length;
  nodes_[node].after = nodes_[next].after;
  if (nodes_[node].after != none) nodes_[nodes_[node].after].before = node;
  drop_node(next);
}

// ---- finding ----

/// The two rooms whose sum passes `sum` by the least, among those looked at from either side.
GranuleLedger::Pair GranuleLedger::find_pair(uint64_t sum, uint64_t step) const {
  Pair best;
  const auto consider = [&](uint32_t rear, uint32_t front) {
    const uint64_t head = align_down(rear_.room(rear), step);
    if (head == 0 || head >= sum || head + front_.room(front) < sum) return;
    const uint64_t excess = rear_.room(rear) + front_.room(front) - sum;
    if (excess < best.excess) best = {rear, front, excess};
  };
  const uint32_t most_rear = rear_.largest(), most_front = front_.largest();
  if (most_rear == none || most_front == none) return best;
  const uint64_t rear_most = rear_.room(most_rear), front_most = front_.room(most_front);
  if (rear_most + front_most < sum) return best;
  uint32_t rear = rear_.at_least(sum > front_most ? sum - front_most : 1);
  for (int looks = pair_looks; rear != none && looks > 0 && best.excess != 0; --looks) {
    const uint64_t head = align_down(rear_.room(rear), step);
    if (head >= sum) break;
    if (const uint32_t front = front_.at_least(sum - head); front != none) consider(rear, front);
    rear = rear_.next(rear);
  }
  uint32_t front = front_.at_least(sum > rear_most ? sum - rear_most : 1);
  for (int looks = pair_looks; front != none && looks > 0 && best.excess != 0; --looks) {
    if (front_.room(front) >= sum) break;
    const uint64_t head = align_up(sum - front_.room(front), step);
    if (const uint32_t found = rear_.at_least(head); found != none) consider(found, front);
    front = front_.next(front);
  }
  return best;
}

/// Rooms that hold `rest` quanta beside whole granules, without a new granule or with one in place of a whole one: sets the head
/// and the two runs. False: there are none.
bool GranuleLedger::split_without_opening(uint64_t rest, uint64_t step, Split *split) const {
  const auto lay = [split](uint64_t head, uint32_t head_run, uint32_t tail_run) {
    split->head = head;
    split->head_run = head_run;
    split->tail_run = tail_run;
    return true;
  };
  const auto lay_pair = [&](const Pair &pair) {
    return lay(align_down(rear_.room(pair.rear), step), pair.rear, pair.front);
  };
  // Two rooms that hold a page more than the rest: one whole granule less.
  if (const Pair pair = find_pair(rest + page_, step); pair.excess != UINT64_MAX)
    return lay_pair(pair);
  const uint32_t rear = rear_.at_least(rest), front = front_.at_least(rest);
  if (front != none && front_.room(front) == rest) return lay(0, none, front);
  if (rear != none && rear_.room(rear) == rest && rest % step == 0) return lay(rest, rear, none);
  const bool neither = rear == none && front == none;
  const Pair pair = find_pair(rest, step);
  if (pair.excess == 0 || (pair.excess != UINT64_MAX && neither)) return lay_pair(pair);
  if (neither) return false;
  // A room that is more than enough is filled to its end; what then goes beyond the last whole granule is the new one's.
  // So the room that is left over is at the rear (or the front) of a granule, where the next buffer can use it.
  if (front == none || (rear != none && rear_.room(rear) <= front_.room(front))) {
    const uint64_t head = align_down(rear_.room(rear), step);
    if (head >= rest) return lay(head, rear, none);
  }
  if (front == none) return false;
  const uint64_t head = align_up(rest + page_ - front_.room(front), step);
  return lay(head < page_ ? head : 0, none, front);
}

/// No room is enough: the largest is filled, and a new granule takes what is left.
void GranuleLedger::split_with_one_new(uint64_t rest, uint64_t step, Split *split) const {
  const uint32_t rear = rear_.largest(), front = front_.largest();
  const uint64_t rear_room = rear != none ? align_down(rear_.room(rear), step) : 0;
  const uint64_t front_room = front != none ? front_.room(front) : 0;
  if (rear_room != 0 && rear_room >= front_room && rear_room < rest) {
    split->head = rear_room;
    split->head_run = rear;
  } else if (front_room != 0 && front_room < rest) {
    const uint64_t head = align_up(rest - front_room, step);
    if (head >= rest) return;
    split->head = head;
    split->tail_run = front;
  }
}

GranuleLedger::Split GranuleLedger::choose(uint64_t bytes, uint64_t alignment) const {
  assert(bytes >= page() && std::has_single_bit(alignment) && alignment <= page());
  Split split;
  split.at = state_;
  const uint64_t size = quanta_of(bytes);
  const uint64_t rest = size % page_;
  const uint64_t step = std::max<uint64_t>(alignment / quantum, 1);
  split.whole = size / page_;
  if (rest == 0) return split;
  if ((page_ - rest) * quantum <= bytes / least_share_) {
    ++split.whole;
    return split;
  }
  if (!split_without_opening(rest, step, &split)) split_with_one_new(rest, step, &split);
  // The tail is what the head and whole granules leave: it is never a whole one.
  split.whole = (size - split.head) / page_;
  split.tail = (size - split.head) % page_ * quantum;
  split.head *= quantum;
  return split;
}

GranuleLedger::Place GranuleLedger::find_head(uint64_t bytes) const {
  assert(bytes > 0 && bytes < page() && bytes % quantum == 0);
  return {Kind::head, bytes, quantum, rear_.at_least(bytes / quantum), state_};
}

GranuleLedger::Place GranuleLedger::find_tail(uint64_t bytes) const {
  assert(bytes > 0 && bytes < page() && bytes % quantum == 0);
  return {Kind::tail, bytes, quantum, front_.at_least(bytes / quantum), state_};
}

/// Rooms that no fragment can use come first; then the smallest that is enough.
GranuleLedger::Place GranuleLedger::find_small(uint64_t bytes, uint64_t alignment) const {
  assert(bytes > 0 && bytes <= page() && std::has_single_bit(alignment) && alignment <= page());
  const uint64_t length = quanta_of(bytes);
  const uint64_t step = std::max<uint64_t>(alignment / quantum, 1);
  const auto find = [&](const RoomTree &tree) {
    uint32_t run = tree.at_least(length);
    for (int looks = aligned_looks; run != none && step > 1 && looks > 0; --looks) {
      if (offset_for(Kind::small, nodes_[run], length, step) != none) return run;
      run = tree.next(run);
    }
    return step == 1 || run == none ? run : tree.at_least(length + step - 1);
  };
  Place place{Kind::small, bytes, alignment, find(closed_), state_};
  if (place.run != none) return place;
  const uint32_t rear = find(rear_), front = find(front_);
  place.run =
      front == none || (rear != none && rear_.room(rear) <= front_.room(front)) ? rear : front;
  return place;
}

// ---- taking and giving ----

bool GranuleLedger::commit(const Split &split, uint64_t new_head, uint64_t new_tail, uint64_t owner,
                           Claim *claim) {
  if (split.at != state_) return false;
  reserve(6, 2);
  Claim taken;
  const auto take = [&](Kind kind, uint64_t bytes, uint32_t run, uint64_t name) {
    if (run == none) run = open(name);
    const uint64_t length = bytes / quantum;
    const uint32_t offset = offset_for(kind, nodes_[run], length, 1);
    return piece_at(carve(run, offset, static_cast<uint32_t>(length), kind, owner));
  };
  if (split.head != 0) taken.head = take(Kind::head, split.head, split.head_run, new_head);
  if (split.tail != 0) taken.tail = take(Kind::tail, split.tail, split.tail_run, new_tail);
  ++state_;
  *claim = taken;
  return true;
}

bool GranuleLedger::commit(const Place &place, uint64_t new_granule, uint64_t owner, Piece *piece) {
  if (place.at != state_) return false;
  reserve(3, 1);
  const uint32_t run = place.run != none ? place.run : open(new_granule);
  const uint64_t length = quanta_of(place.bytes);
  const uint64_t step = std::max<uint64_t>(place.alignment / quantum, 1);
  const uint32_t offset = offset_for(place.kind, nodes_[run], length, step);
  assert(offset != none);
  *piece = piece_at(carve(run, offset, static_cast<uint32_t>(length), place.kind, owner));
  ++state_;
  return true;
}

GranuleLedger::Released GranuleLedger::release(Piece piece) noexcept {
  assert(live(piece));
  ++state_;
  uint32_t node = piece.node;
  const uint32_t slot_number = nodes_[node].slot;
  Slot &slot = slots_[slot_number];
  if (movable_.contains(slot_number)) movable_.erase(slot_number);
  if (nodes_[node].kind != Kind::small) --slot.fragments;
  slot.used -= nodes_[node].length;
  used_ -= nodes_[node].length;
  --pieces_;
  ++nodes_[node].generation;
  nodes_[node].kind = Kind::free;
  nodes_[node].owner = 0;
  if (const uint32_t next = nodes_[node].after; next != none && nodes_[next].kind == Kind::free) {
    unindex(next);
    join(node, next);
  }
  if (const uint32_t last = nodes_[node].before; last != none && nodes_[last].kind == Kind::free) {
    unindex(last);
    join(last, node);
    node = last;
  }
  Released released{slot.used == 0, slot.name};
  if (!released.emptied) {
    index(node);
    if (slot.shown && slot.fragments == 0) movable_.insert(slot_number, slot.used, slot.used);
    return released;
  }
  drop_node(node);
  slot.in_use = slot.shown = false;
  slot.first = unused_slot_;
  unused_slot_ = slot_number;
  ++spare_slots_;
  --granules_;
  return released;
}

void GranuleLedger::set_shown(Piece piece, bool shown) noexcept {
  const uint32_t slot_number = node_of(piece).slot;
  Slot &slot = slots_[slot_number];
  if (slot.shown == shown) return;
  slot.shown = shown;
  ++state_;
  for (uint32_t node = slot.first; node != none; node = nodes_[node].after) {
    const Node &run = nodes_[node];
    if (run.kind != Kind::free) continue;
    RoomTree &tree = tree_of(run);
    shown ? tree.insert(node, run.length, run.length) : tree.erase(node);
  }
  if (slot.fragments != 0) return;
  shown ? movable_.insert(slot_number, slot.used, slot.used) : movable_.erase(slot_number);
}

// ---- looking ----

GranuleLedger::Piece GranuleLedger::live_from(uint32_t node) const {
  while (node != none && nodes_[node].kind == Kind::free) node = nodes_[node].after;
  return node == none ? Piece{} : piece_at(node);
}

GranuleLedger::Piece GranuleLedger::next_emptiest(Piece after) const {
  const uint32_t slot = node_of(after).slot;
  return movable_.contains(slot) ? piece_in(movable_.next(slot)) : Piece{};
}

// ---- checking ----

std::string GranuleLedger::validate_granule(uint32_t slot_number, uint64_t *free_runs) const {
  const Slot &slot = slots_[slot_number];
  uint64_t offset = 0, used = 0;
  uint32_t fragments = 0, last = none;
  for (uint32_t node = slot.first; node != none; last = node, node = nodes_[node].after) {
    if (node >= nodes_.size()) return "a link leads out of the table";
    const Node &run = nodes_[node];
    const std::string name = "run " + std::to_string(node);
    if (run.slot != slot_number || run.before != last) return name + " does not link back";
    if (run.offset != offset || run.length == 0) return name + " does not follow the one before";
    offset += run.length;
    if (offset > page_) return name + " passes the granule's end";
    const bool is_free = run.kind == Kind::free;
    if (is_free == ((run.generation & 1U) != 0) || run.kind == Kind::unused)
      return name + " has a generation of another kind";
    const int trees = front_.contains(node) + rear_.contains(node) + closed_.contains(node);
    const RoomTree &tree = run.offset == 0 ? front_ : offset == page_ ? rear_ : closed_;
    if (trees != (is_free && slot.shown ? 1 : 0)) return name + " is in the wrong indexes";
    if (trees != 0 && (!tree.contains(node) || tree.room(node) != run.length))
      return name + " is indexed as another";
    if (is_free && last != none && nodes_[last].kind == Kind::free)
      return name + " follows a free one";
    if (run.kind == Kind::tail && run.offset != 0) return name + " is no tail at a front";
    if (run.kind == Kind::head && offset != page_) return name + " is no head at a rear";
    if (is_free) {
      *free_runs += slot.shown ? 1 : 0;
    } else {
      used += run.length;
      if (run.kind != Kind::small) ++fragments;
    }
  }
  if (offset != page_) return "its runs do not reach its end";
  if (used == 0) return "it is wholly free";
  if (used != slot.used || fragments != slot.fragments) return "its sums are wrong";
  const bool movable = slot.shown && fragments == 0;
  if (movable_.contains(slot_number) != movable ||
      (movable && movable_.room(slot_number) != slot.used)) {
    return "it is filed wrongly among those without fragments";
  }
  return {};
}

std::string GranuleLedger::validate() const {
  uint64_t free_runs = 0, granules = 0, used = 0, pieces = 0;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot].in_use) continue;
    ++granules;
    used += slots_[slot].used;
    std::string broken = validate_granule(slot, &free_runs);
    if (!broken.empty()) return "granule " + std::to_string(slots_[slot].name) + ": " + broken;
  }
  for (const Node &node : nodes_) pieces += node.generation & 1U;
  if (granules != granules_ || used != used_ || pieces != pieces_)
    return "the ledger's sums are wrong";
  if (free_runs != front_.size() + rear_.size() + closed_.size())
    return "the indexes hold what is no free run";
  for (const RoomTree *tree : {&front_, &rear_, &closed_, &movable_}) {
    std::string broken = tree->validate();
    if (!broken.empty()) return broken;
  }
  return {};
}

}  // namespace weir::physical
