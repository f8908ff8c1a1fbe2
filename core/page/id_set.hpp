// SPDX-License-Identifier: Apache-2.0
//
// IdSet: a set of small numbers, as a bitmap of two levels: a bit for each number, and above it one for each word that is not empty.
// A step costs a word of either within a group of 4096 numbers; a walk goes from group to group.
//
// What must hold: only reserve() allocates, and the caller reserves a number before it inserts it.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace weir::page {

class IdSet {
 public:
  static constexpr uint32_t none = UINT32_MAX;

  explicit IdSet(std::pmr::memory_resource *memory) : words_(memory), full_(memory) {}

  /// Room for the numbers below `ids`. Throws std::bad_alloc with the set as it was.
  void reserve(size_t ids) {
    if (words_.size() * 64 < ids) words_.resize((ids + 63) / 64);
    if (full_.size() * 64 < words_.size()) full_.resize((words_.size() + 63) / 64);
  }
  void insert(uint32_t id) noexcept {
    assert(id / 64 < words_.size());
    size_ += contains(id) ? 0 : 1;
    words_[id / 64] |= bit(id);
    full_[id / 4096] |= bit(id / 64);
  }
  void erase(uint32_t id) noexcept {
    if (!contains(id)) return;
    --size_;
    if ((words_[id / 64] &= ~bit(id)) == 0) full_[id / 4096] &= ~bit(id / 64);
  }
  bool contains(uint32_t id) const noexcept {
    return id / 64 < words_.size() && (words_[id / 64] & bit(id)) != 0;
  }
  size_t size() const noexcept { return size_; }
  static constexpr uint32_t group = 4096;
  /// The least number from `from` on in the group that `from` is in, or none. Whatever has changed since the last call.
  uint32_t next_in_group(uint32_t from) const noexcept {
    size_t word = from / 64;
    if (word >= words_.size()) return none;
    uint64_t bits = words_[word] & (~uint64_t{0} << from % 64);
    if (bits == 0) {
      const uint64_t full = full_[word / 64] & (~uint64_t{1} << word % 64);
      if (full == 0) return none;
      word = word / 64 * 64 + static_cast<size_t>(std::countr_zero(full));
      bits = words_[word];
    }
    return static_cast<uint32_t>(word * 64 + static_cast<size_t>(std::countr_zero(bits)));
  }

 private:
  static constexpr uint64_t bit(uint32_t id) noexcept { return uint64_t{1} << id % 64; }

  std::pmr::vector<uint64_t> words_, full_;
  size_t size_ = 0;
};

}  // namespace weir::page
