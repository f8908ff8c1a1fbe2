// SPDX-License-Identifier: Apache-2.0
//
// MemoryProfile: how many bytes of a device a plan uses at each operation that is to come. Answers the largest of a range, and raises
// and lowers ranges, each in time that grows with the logarithm of what it holds. No lock; guarded by its owner.
//
// What must hold: all operations that are asked for and changed lie in one window of `operations()`, which its owner moves on. An
// operation that leaves the window gives its place to the one that enters it, whose value is set before it is asked for.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

namespace weir::policy {

class MemoryProfile {
 public:
  /// For at least so many operations at a time. Throws std::bad_alloc.
  MemoryProfile(uint32_t operations, std::pmr::memory_resource *memory);

  uint64_t operations() const noexcept { return leaves_; }
  void set(uint64_t operation, int64_t bytes) noexcept;
  /// Adds to all of [from, to); nothing where that is empty.
  void add(uint64_t from, uint64_t to, int64_t bytes) noexcept;
  /// The largest of [from, to), INT64_MIN where that is empty.
  int64_t largest(uint64_t from, uint64_t to) const noexcept;
  uint64_t bytes() const noexcept;

 private:
  struct Piece {
    uint64_t first = 0, last = 0;  ///< nodes of the lowest level; first > last: empty
  };
  struct Pieces {
    Piece piece[2];
  };
  Pieces pieces(uint64_t from, uint64_t to) const noexcept;
  void add_piece(const Piece &piece, int64_t bytes) noexcept;
  int64_t largest_of(const Piece &piece) const noexcept;
  void lift(uint64_t node) noexcept;

  uint64_t leaves_;  ///< a power of two
  std::pmr::vector<int64_t>
      largest_;  ///< of what is below a node, with what was added to the node, without that of those above it
  std::pmr::vector<int64_t> added_;  ///< to all below a node that is no leaf
};

}  // namespace weir::policy
