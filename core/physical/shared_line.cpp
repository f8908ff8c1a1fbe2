// SPDX-License-Identifier: Apache-2.0
//
// The line's choosing, taking and giving back. Everything that can throw is in reserve(), before the first change.

#include "core/physical/shared_line.hpp"

#include "core/base/grow.hpp"
#include "core/physical/align.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace weir::physical {

SharedLine::SharedLine(uint64_t bytes, uint64_t page, std::pmr::memory_resource *memory,
                       uint64_t least_share)
    : page_(page / quantum),
      least_share_(least_share),
      nodes_(memory),
      left_(memory),
      right_(memory),
      whole_(memory),
      length_(memory) {
  assert(std::has_single_bit(page) && page > quantum && bytes >= page);
  reserve(1);
  first_ = last_ = take_node();
  nodes_[first_] = {0, bytes / page * page_, 0, none, none, 0, true};
  index(first_);
}

uint64_t SharedLine::whole_pages(uint64_t begin, uint64_t end) const noexcept {
  const uint64_t from = align_up(begin, page_) / page_, to = end / page_;
  return to > from ? to - from : 0;
}

SharedLine::Rooms SharedLine::rooms_of(uint64_t begin, uint64_t end) const noexcept {
  Rooms rooms;
  rooms.whole = whole_pages(begin, end);
  const uint64_t first_page_end = align_up(begin, page_);
  if (first_page_end != begin) rooms.left = std::min(end, first_page_end) - begin;
  if (first_page_end <= end) rooms.right = end % page_;
  return rooms;
}

// ---- choosing ----

/// Fewest pages first; then the least room left on the page at its loose end, which a neighbour must fit to use.
void SharedLine::consider(uint32_t hole, bool at_end, uint64_t length, uint64_t step, Plan *best,
                          uint64_t *best_cost) const {
  if (hole == none || (at_end && hole == last_)) return;  // the line's own end is no neighbour
  const Node &node = nodes_[hole];
  const uint64_t begin =
      at_end ? align_down(node.end - std::min(length, node.end), step) : align_up(node.begin, step);
  const uint64_t end = begin + length;
  if (begin < node.begin || end > node.end) return;
  const uint64_t opened = whole_pages(node.begin, node.end) - whole_pages(node.begin, begin) -
                          whole_pages(end, node.end);
  const Rooms before = rooms_of(node.begin, begin), after = rooms_of(end, node.end);
  const uint64_t loose = at_end ? before.right : after.left;
  const uint64_t cost = opened * (page_ + 1) + std::min(loose, page_);
  if (*best && cost >= *best_cost) return;
  *best_cost = cost;
  const uint64_t first = align_up(std::max(align_down(begin, page_), node.begin), page_) / page_;
  *best = {hole, begin * quantum, length * quantum, {first, opened}, best->at};
}

SharedLine::Plan SharedLine::choose(uint64_t bytes, uint64_t alignment) const {
  assert(bytes > 0 && std::has_single_bit(alignment) && alignment <= page());
  Plan plan;
  plan.at = state_;
  const uint64_t step = std::max<uint64_t>(alignment / quantum, 1);
  uint64_t length = (bytes + quantum - 1) / quantum;
  const uint64_t rest = length % page_;
  uint64_t cost = 0;
  if (length > nodes_[last_].end) return plan;
  if (rest == 0 || (page_ - rest) * quantum <= bytes / least_share_) {
    length = align_up(length, page_);
    const uint32_t hole = whole_.at_least(length / page_);
    consider(hole, false, length, page_, &plan, &cost);
    if (plan) return plan;
  }
  // Alignment takes at most so much of a room.
  const uint64_t slack = step - 1, room = rest + slack, span = length + slack;
  consider(left_.at_least(room, span), false, length, step, &plan, &cost);
  consider(right_.at_least(room, span), true, length, step, &plan, &cost);
  const uint32_t snug = length_.at_least(length);
  consider(snug, false, length, step, &plan, &cost);
  consider(snug, true, length, step, &plan, &cost);
  consider(left_.largest(span), false, length, step, &plan, &cost);
  consider(right_.largest(span), true, length, step, &plan, &cost);
  if (!plan) consider(length_.at_least(span), false, length, step, &plan, &cost);
  return plan;
}

// ---- the tables ----

void SharedLine::reserve(uint32_t nodes) {
  if (spare_ >= nodes) return;
  const size_t count = nodes_.size() + (nodes - spare_);
  grow_to(nodes_, count);
  for (RoomTree *tree : {&left_, &right_, &whole_, &length_}) tree->reserve(count);
  while (spare_ < nodes) {
    nodes_.emplace_back();
    drop_node(static_cast<uint32_t>(nodes_.size() - 1));
  }
}

uint32_t SharedLine::take_node() noexcept {
  const uint32_t node = unused_;
  unused_ = nodes_[node].after;
  --spare_;
  return node;
}

void SharedLine::drop_node(uint32_t node) noexcept {
  nodes_[node].hole = false;
  nodes_[node].after = unused_;
  unused_ = node;
  ++spare_;
}

void SharedLine::index(uint32_t node) noexcept {
  const Node &hole = nodes_[node];
  const Rooms rooms = rooms_of(hole.begin, hole.end);
  const uint64_t length = hole.end - hole.begin;
  if (rooms.left != 0) left_.insert(node, rooms.left, length);
  if (rooms.right != 0) right_.insert(node, rooms.right, length);
  if (rooms.whole != 0) whole_.insert(node, rooms.whole, length);
  length_.insert(node, length, length);
}

void SharedLine::unindex(uint32_t node) noexcept {
  for (RoomTree *tree : {&left_, &right_, &whole_, &length_}) {
    if (tree->contains(node)) tree->erase(node);
  }
}

uint32_t SharedLine::insert_after(uint32_t node, uint64_t begin, uint64_t end) noexcept {
  const uint32_t fresh = take_node();
  const uint32_t next = nodes_[node].after;
  nodes_[fresh] = {begin, end, 0, node, next, nodes_[fresh].generation, true};
  nodes_[node].after = fresh;
  (next != none ? nodes_[next].before : last_) = fresh;
  return fresh;
}

// ---- taking and giving ----

SharedLine::Run SharedLine::commit(const Plan &plan, uint64_t owner) {
  if (plan.at != state_ || !plan) return {};
  reserve(2);
  const uint64_t begin = plan.address / quantum, end = begin + plan.bytes / quantum;
  uint32_t node = plan.hole;
  const uint64_t hole_begin = nodes_[node].begin, hole_end = nodes_[node].end;
  unindex(node);
  if (begin != hole_begin) {
    const uint32_t rest = node;
    node = insert_after(rest, begin, end);
    nodes_[rest].end = begin;
    index(rest);
  }
  if (end != hole_end) index(insert_after(node, end, hole_end));
  Node &run = nodes_[node];
  run.begin = begin;
  run.end = end;
  run.owner = owner;
  run.hole = false;
  ++run.generation;
  open_ += plan.opens.count;
  used_ += end - begin;
  ++runs_;
  ++state_;
  return {node, run.generation};
}

SharedLine::Pages SharedLine::release(Run run) noexcept {
  assert(live(run));
  const uint32_t node = run.node;
  const uint64_t begin = nodes_[node].begin, end = nodes_[node].end;
  used_ -= end - begin;
  --runs_;
  ++state_;
  ++nodes_[node].generation;
  nodes_[node].hole = true;
  nodes_[node].owner = 0;
  uint32_t hole = node;
  const auto absorb_next = [this](uint32_t into) {
    const uint32_t next = nodes_[into].after;
    nodes_[into].end = nodes_[next].end;
    const uint32_t behind = nodes_[next].after;
    nodes_[into].after = behind;
    (behind != none ? nodes_[behind].before : last_) = into;
    drop_node(next);
  };
  if (const uint32_t next = nodes_[node].after; next != none && nodes_[next].hole) {
    unindex(next);
    absorb_next(node);
  }
  if (const uint32_t last = nodes_[node].before; last != none && nodes_[last].hole) {
    unindex(last);
    absorb_next(last);
    hole = last;
  }
  index(hole);
  // Of the pages it touched, those that now lie wholly in the hole.
  const uint64_t from = align_up(std::max(nodes_[hole].begin, align_down(begin, page_)), page_);
  const uint64_t to = align_down(std::min(nodes_[hole].end, align_up(end, page_)), page_);
  const Pages pages{from / page_, to > from ? (to - from) / page_ : 0};
  open_ -= pages.count;
  return pages;
}

// ---- looking ----

/// At most one hole lies between two live runs.
SharedLine::Run SharedLine::live_from(uint32_t node) const {
  if (node != none && nodes_[node].hole) node = nodes_[node].after;
  return node == none ? Run{} : Run{node, nodes_[node].generation};
}

SharedLine::Run SharedLine::before(Run run) const {
  uint32_t node = node_of(run).before;
  if (node != none && nodes_[node].hole) node = nodes_[node].before;
  return node == none ? Run{} : Run{node, nodes_[node].generation};
}

std::string SharedLine::validate() const {
  uint64_t at = 0, used = 0, runs = 0, holes = 0, closed = 0;
  uint32_t last = none;
  for (uint32_t node = first_; node != none; last = node, node = nodes_[node].after) {
    const Node &run = nodes_[node];
    const std::string name = "run " + std::to_string(node);
    if (run.before != last) return name + " does not link back";
    if (run.begin != at || run.end <= run.begin) return name + " does not follow the one before";
    at = run.end;
    if (run.hole == ((run.generation & 1U) != 0)) return name + " has a generation of another kind";
    const Rooms rooms = rooms_of(run.begin, run.end);
    const auto filed = [&](const RoomTree &tree, uint64_t room) {
      const bool wanted = run.hole && room != 0;
      return tree.contains(node) == wanted && (!wanted || tree.room(node) == room);
    };
    if (!filed(left_, rooms.left) || !filed(right_, rooms.right) || !filed(whole_, rooms.whole) ||
        !filed(length_, run.end - run.begin)) {
      return name + " is in the wrong indexes";
    }
    if (run.hole) {
      if (last != none && nodes_[last].hole) return name + " follows another hole";
      ++holes;
      closed += rooms.whole;
    } else {
      used += run.end - run.begin;
      ++runs;
    }
  }
  if (last != last_) return "the line does not end where it should";
  if (used != used_ || runs != runs_) return "the line's sums are wrong";
  if (at / page_ - closed != open_) return "another number of pages is open than counted";
  if (holes != length_.size()) return "the indexes hold what is no hole";
  for (const RoomTree *tree : {&left_, &right_, &whole_, &length_}) {
    std::string broken = tree->validate();
    if (!broken.empty()) return broken;
  }
  return {};
}

}  // namespace weir::physical
