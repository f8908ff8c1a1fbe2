// SPDX-License-Identifier: Apache-2.0
//
// The treaps: split and merge, each on one path from the root; searches that turn back at most once a level, because
// `longest` tells beforehand whether a subtree has what is wanted beyond the room's bound.

#include "core/physical/room_tree.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace weir::physical {

uint32_t RoomTree::priority(uint32_t number) noexcept {
  uint32_t x = number + 0x9e3779b9U;
  x = (x ^ (x >> 16U)) * 0x85ebca6bU;
  x = (x ^ (x >> 13U)) * 0xc2b2ae35U;
  return x ^ (x >> 16U);
}

uint32_t RoomTree::class_of(uint64_t room) const noexcept {
  if (roots_.empty()) return 0;
  const uint64_t quanta = room >> quantum_shift;
  if (quanta < 8) return static_cast<uint32_t>(quanta);
  const auto log2 = static_cast<uint32_t>(std::bit_width(quanta)) - 1;
  const auto eighth = static_cast<uint32_t>(quanta >> (log2 - 3)) & 7U;
  return std::min((log2 - 2) * 8 + eighth, class_count - 1);
}

uint32_t RoomTree::used_from(uint32_t kind) const noexcept {
  uint64_t above = ~uint64_t{0} << (kind % 64);  // in the first word
  for (size_t word = kind / 64; word < used_.size(); ++word, above = ~uint64_t{0}) {
    const uint64_t used = used_[word] & above;
    if (used != 0)
      return static_cast<uint32_t>(word * 64) + static_cast<uint32_t>(std::countr_zero(used));
  }
  return none;
}

void RoomTree::mark(uint32_t kind) noexcept {
  const uint64_t bit = uint64_t{1} << (kind % 64);
  uint64_t &word = used_[kind / 64];
  word = root_of(kind) != none ? word | bit : word & ~bit;
}

void RoomTree::reserve(size_t count) {
  if (count <= entries_.size()) return;
  if (count > entries_.capacity()) entries_.reserve(std::max(count, entries_.capacity() * 2));
  entries_.resize(count);
}

void RoomTree::update(uint32_t tree) noexcept {
  Entry &entry = entries_[tree];
  entry.longest = entry.length;
  if (entry.left != none) entry.longest = std::max(entry.longest, entries_[entry.left].longest);
  if (entry.right != none) entry.longest = std::max(entry.longest, entries_[entry.right].longest);
}

void RoomTree::split(uint32_t tree, uint32_t number, uint32_t *left, uint32_t *right) noexcept {
  if (tree == none) {
    *left = *right = none;
  } else if (before(tree, number)) {
    split(entries_[tree].right, number, &entries_[tree].right, right);
    update(tree);
    *left = tree;
  } else {
    split(entries_[tree].left, number, left, &entries_[tree].left);
    update(tree);
    *right = tree;
  }
}

uint32_t RoomTree::merge(uint32_t left, uint32_t right) noexcept {
  if (left == none) return right;
  if (right == none) return left;
  if (priority(left) >= priority(right)) {
    entries_[left].right = merge(entries_[left].right, right);
    update(left);
    return left;
  }
  entries_[right].left = merge(left, entries_[right].left);
  update(right);
  return right;
}

uint32_t RoomTree::insert_below(uint32_t tree, uint32_t number) noexcept {
  if (tree == none || priority(tree) < priority(number)) {
    uint32_t left = none, right = none;
    split(tree, number, &left, &right);
    entries_[number].left = left;
    entries_[number].right = right;
    update(number);
    return number;
  }
  uint32_t &side = before(number, tree) ? entries_[tree].left : entries_[tree].right;
  side = insert_below(side, number);
  update(tree);
  return tree;
}

void RoomTree::insert(uint32_t number, uint64_t room, uint64_t length) noexcept {
  assert(number < entries_.size() && !entries_[number].in_tree);
  entries_[number] = {room, length, length, none, none, true};
  const uint32_t kind = class_of(room);
  root_of(kind) = insert_below(root_of(kind), number);
  mark(kind);
  ++size_;
}

uint32_t RoomTree::erase_below(uint32_t tree, uint32_t number) noexcept {
  assert(tree != none);
  Entry &entry = entries_[tree];
  if (tree == number) return merge(entry.left, entry.right);
  uint32_t &side = before(number, tree) ? entry.left : entry.right;
  side = erase_below(side, number);
  update(tree);
  return tree;
}

void RoomTree::erase(uint32_t number) noexcept {
  assert(contains(number));
  const uint32_t kind = class_of(entries_[number].room);
  root_of(kind) = erase_below(root_of(kind), number);
  mark(kind);
  entries_[number].in_tree = false;
  --size_;
}

void RoomTree::change(uint32_t number, uint64_t room, uint64_t length) noexcept {
  assert(contains(number));
  Entry &entry = entries_[number];
  if (entry.room == room && entry.length == length) return;
  const bool only = entry.left == none && entry.right == none;
  if (only && class_of(room) == class_of(entry.room) &&
      root_of(class_of(room)) == number) {  // the only one of its class
    entry.room = room;
    entry.length = entry.longest = length;
    return;
  }
  erase(number);
  insert(number, room, length);
}

uint32_t RoomTree::first_at_or_after(uint32_t tree, uint64_t room, uint32_t number,
                                     uint64_t length) const noexcept {
  if (!enough(tree, length)) return none;
  const Entry &entry = entries_[tree];
  const bool after = entry.room != room ? entry.room > room : tree >= number;
  if (!after) return first_at_or_after(entry.right, room, number, length);
  if (const uint32_t found = first_at_or_after(entry.left, room, number, length); found != none)
    return found;
  if (entry.length >= length) return tree;
  return first_at_or_after(entry.right, room, number, length);
}

/// The first at or after (room, number) in the order of all.
uint32_t RoomTree::first_from(uint64_t room, uint32_t number, uint64_t length) const noexcept {
  for (uint32_t kind = used_from(class_of(room)); kind != none; kind = used_from(kind + 1)) {
    const uint32_t found = first_at_or_after(root_of(kind), room, number, length);
    if (found != none) return found;
  }
  return none;
}

uint32_t RoomTree::largest(uint64_t length) const noexcept {
  uint32_t kind = trees();
  while (kind != 0 && !enough(root_of(kind - 1), length)) --kind;
  uint32_t tree = kind != 0 ? root_of(kind - 1) : none;
  while (enough(tree, length)) {
    const Entry &entry = entries_[tree];
    if (enough(entry.right, length)) {
      tree = entry.right;
    } else if (entry.length >= length) {
      return tree;
    } else {
      tree = entry.left;
    }
  }
  return none;
}

// ---- checking ----

std::string RoomTree::validate_below(uint32_t tree, std::vector<uint32_t> *order) const {
  if (tree == none) return {};
  const std::string name = "entry " + std::to_string(tree);
  if (tree >= entries_.size()) return name + " is beyond the table";
  const Entry &entry = entries_[tree];
  if (!entry.in_tree) return name + " is linked, but counts as out";
  if (order->size() >= size_) return "more entries are linked than counted";
  uint64_t longest = entry.length;
  for (const uint32_t child : {entry.left, entry.right}) {
    if (child == none) continue;
    if (child >= entries_.size()) return name + " links beyond the table";
    if (priority(child) > priority(tree)) return name + " has a child of higher priority";
    longest = std::max(longest, entries_[child].longest);
  }
  if (longest != entry.longest) return name + " notes another longest than there is";
  std::string broken = validate_below(entry.left, order);
  if (!broken.empty()) return broken;
  if (!order->empty() && !before(order->back(), tree)) return name + " is out of order";
  order->push_back(tree);
  return validate_below(entry.right, order);
}

std::string RoomTree::validate() const {
  std::vector<uint32_t> order;
  for (uint32_t kind = 0; kind < trees(); ++kind) {
    const size_t before = order.size();
    std::string broken = validate_below(root_of(kind), &order);
    if (!broken.empty()) return broken;
    for (size_t i = before; i < order.size(); ++i) {
      if (class_of(entries_[order[i]].room) != kind)
        return "entry " + std::to_string(order[i]) + " is in another class's tree";
    }
    const bool marked = (used_[kind / 64] >> (kind % 64) & 1U) != 0;
    if (marked != (order.size() != before))
      return "class " + std::to_string(kind) + " is marked, and has no entries, or the reverse";
  }
  const auto in_tree = std::count_if(entries_.begin(), entries_.end(),
                                     [](const Entry &entry) { return entry.in_tree; });
  if (order.size() != size_ || static_cast<size_t>(in_tree) != size_)
    return std::to_string(order.size()) + " entries linked, " + std::to_string(in_tree) +
           " marked, " + std::to_string(size_) + " counted";
  return {};
}

}  // namespace weir::physical
