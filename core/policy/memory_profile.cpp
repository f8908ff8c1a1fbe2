// SPDX-License-Identifier: Apache-2.0
//
// The profile as a binary tree in an array, node 1 on top. What is added to a range stays at the nodes that cover it, so no change goes
// down; whoever asks adds up what lies above.

#include "core/policy/memory_profile.hpp"

#include <algorithm>
#include <bit>

namespace weir::policy {

MemoryProfile::MemoryProfile(uint32_t operations, std::pmr::memory_resource *memory)
    : leaves_(std::bit_ceil(std::max(operations, uint32_t{2}))),
      largest_(2 * leaves_, 0, memory),
      added_(leaves_, 0, memory) {}

/// [from, to) as one or two ranges of leaves: it may go over the end of the array.
MemoryProfile::Pieces MemoryProfile::pieces(uint64_t from, uint64_t to) const noexcept {
  Pieces result{{{1, 0}, {1, 0}}};
  if (from >= to) return result;
  from = std::max(from, to - std::min(to, leaves_));
  const uint64_t first = from & (leaves_ - 1), last = (to - 1) & (leaves_ - 1);
  if (first <= last) {
    result.piece[0] = {leaves_ + first, leaves_ + last};
  } else {
    result.piece[0] = {leaves_ + first, 2 * leaves_ - 1};
    result.piece[1] = {leaves_, leaves_ + last};
  }
  return result;
}

/// Brings everything above a node up to date.
void MemoryProfile::lift(uint64_t node) noexcept {
  for (node >>= 1; node != 0; node >>= 1)
    largest_[node] = std::max(largest_[2 * node], largest_[2 * node + 1]) + added_[node];
}

void MemoryProfile::set(uint64_t operation, int64_t bytes) noexcept {
  const uint64_t leaf = leaves_ + (operation & (leaves_ - 1));
  for (uint64_t node = leaf >> 1; node != 0; node >>= 1) bytes -= added_[node];
  largest_[leaf] = bytes;
  lift(leaf);
}

void MemoryProfile::add_piece(const Piece &piece, int64_t bytes) noexcept {
  if (piece.first > piece.last) return;
  const auto add_to = [&](uint64_t node) {
    largest_[node] += bytes;
    if (node < leaves_) added_[node] += bytes;
  };
  uint64_t first = piece.first, last = piece.last;
  for (; first < last; first >>= 1, last >>= 1) {
    if ((first & 1) != 0) add_to(first++);
    if ((last & 1) == 0) add_to(last--);
  }
  if (first == last) add_to(first);
  lift(piece.first);
  lift(piece.last);
}

int64_t MemoryProfile::largest_of(const Piece &piece) const noexcept {
  if (piece.first > piece.last) return INT64_MIN;
  int64_t of_first = INT64_MIN,
          of_last = INT64_MIN;  // below what is added at and above the nodes we are at
  const auto below = [](int64_t value, int64_t more) {
    return value == INT64_MIN ? value : value + more;
  };
  uint64_t first = piece.first, last = piece.last;
  // The nodes beside the two paths up are taken whole.
  of_first = largest_[first];
  if (first != last) of_last = largest_[last];
  while ((first ^ last) > 1) {
    if ((first & 1) == 0) of_first = std::max(of_first, largest_[first + 1]);
    if ((last & 1) != 0) of_last = std::max(of_last, largest_[last - 1]);
    first >>= 1;
    last >>= 1;
    of_first = below(of_first, added_[first]);
    of_last = below(of_last, added_[last]);
  }
  int64_t result = std::max(of_first, of_last);
  for (first >>= 1; first != 0; first >>= 1) result += added_[first];
  return result;
}

void MemoryProfile::add(uint64_t from, uint64_t to, int64_t bytes) noexcept {
  const Pieces both = pieces(from, to);
  add_piece(both.piece[0], bytes);
  add_piece(both.piece[1], bytes);
}

int64_t MemoryProfile::largest(uint64_t from, uint64_t to) const noexcept {
  const Pieces both = pieces(from, to);
  return std::max(largest_of(both.piece[0]), largest_of(both.piece[1]));
}

uint64_t MemoryProfile::bytes() const noexcept {
  return (largest_.capacity() + added_.capacity()) * sizeof(int64_t);
}

}  // namespace weir::policy
