// SPDX-License-Identifier: Apache-2.0
//
// Where the ledger would put a buffer. Changes nothing; every search looks at a bounded number of rooms.

#include "core/physical/granule_ledger.hpp"

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
uint64_t align_up(uint64_t value, uint64_t step) { return (value + step - 1) & ~(step - 1); }
uint64_t align_down(uint64_t value, uint64_t step) { return value & ~(step - 1); }

}  // namespace

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

/// Rooms that hold `rest` quanta beside whole granules, without a new granule or with one in place of a whole one.
bool GranuleLedger::split_without_opening(uint64_t rest, uint64_t step, Split *split) const {
  // Two rooms that hold a page more than the rest: one whole granule less.
  if (const Pair pair = find_pair(rest + page_, step); pair.excess != UINT64_MAX) {
    split->head = align_down(rear_.room(pair.rear), step);
    split->tail = rest + page_ - split->head;
    split->head_run = pair.rear;
    split->tail_run = pair.front;
    --split->whole;
    return true;
  }
  const uint32_t rear = rear_.at_least(rest), front = front_.at_least(rest);
  if (front != none && front_.room(front) == rest) {
    split->tail = rest;
    split->tail_run = front;
    return true;
  }
  if (rear != none && rear_.room(rear) == rest && rest % step == 0) {
    split->head = rest;
    split->head_run = rear;
    return true;
  }
  const Pair pair = find_pair(rest, step);
  if (pair.excess == 0 || (pair.excess != UINT64_MAX && rear == none && front == none)) {
    split->head = align_down(rear_.room(pair.rear), step);
    split->tail = rest - split->head;
    split->head_run = pair.rear;
    split->tail_run = pair.front;
    return true;
  }
  if (rear == none && front == none) return false;
  // A room that is more than enough is filled to its end; what then goes beyond the last whole granule is the new one's.
  // So the room that is left over is at the rear (or the front) of a granule, where the next buffer can use it.
  if (front == none || (rear != none && rear_.room(rear) <= front_.room(front))) {
    const uint64_t head = align_down(rear_.room(rear), step);
    if (head >= rest) {
      split->head = head;
      split->head_run = rear;
      split->tail = rest + page_ - head;
      if (split->tail == page_) {
        split->tail = 0;
      } else {
        --split->whole;
      }
      return true;
    }
  }
  if (front == none) return false;
  const uint64_t head = align_up(rest + page_ - front_.room(front), step);
  if (head >= page_) {
    split->tail = rest;
    split->tail_run = front;
    return true;
  }
  split->head = head;
  split->tail = rest + page_ - head;
  split->tail_run = front;
  --split->whole;
  return true;
}

/// No room is enough: the largest is filled, and a new granule takes what is left.
void GranuleLedger::split_with_one_new(uint64_t rest, uint64_t step, Split *split) const {
  const uint32_t rear = rear_.largest(), front = front_.largest();
  const uint64_t rear_room = rear != none ? align_down(rear_.room(rear), step) : 0;
  const uint64_t front_room = front != none ? front_.room(front) : 0;
  split->tail = rest;
  if (rear_room != 0 && rear_room >= front_room && rear_room < rest) {
    split->head = rear_room;
    split->head_run = rear;
    split->tail = rest - rear_room;
  } else if (front_room != 0 && front_room < rest) {
    split->head = align_up(rest - front_room, step);
    if (split->head >= rest) {
      split->head = 0;
      return;
    }
    split->tail = rest - split->head;
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
  const uint64_t waste = (page_ - rest) * quantum;
  if (rest == 0) return split;
  if (waste <= bytes / least_share_) {
    ++split.whole;
    return split;
  }
  if (!split_without_opening(rest, step, &split)) split_with_one_new(rest, step, &split);
  split.head *= quantum;
  split.tail *= quantum;
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

}  // namespace weir::physical
