// SPDX-License-Identifier: Apache-2.0
//
// AddressMap: which buffer weir_malloc has at an address. Open addressing with linear probing, at most half full, so that
// taking and giving memory allocates nothing once the table has its size. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

namespace weir::page {

class AddressMap {
 public:
  static constexpr uint32_t none = UINT32_MAX;

  explicit AddressMap(std::pmr::memory_resource *memory) : slots_(memory) {}
  AddressMap(const AddressMap &) = delete;
  AddressMap &operator=(const AddressMap &) = delete;

  bool empty() const noexcept { return count_ == 0; }
  size_t size() const noexcept { return count_; }

  /// Room for one more. std::bad_alloc with nothing changed.
  void reserve_one() {
    if (2 * (count_ + 1) <= slots_.size()) return;
    std::pmr::vector<Slot> wider(slots_.empty() ? 16 : 2 * slots_.size(),
                                 slots_.get_allocator().resource());
    wider.swap(slots_);
    for (const Slot &slot : wider) {
      if (slot.buffer != none) put(slot);
    }
  }
  /// After reserve_one(); the address is not in it yet.
  void insert(uint64_t address, uint32_t buffer) noexcept {
    put(Slot{address, buffer});
    ++count_;
  }
  /// The buffer, or none.
  uint32_t find(uint64_t address) const noexcept {
    if (count_ == 0) return none;
    for (size_t at = home(address);; at = next(at)) {
      if (slots_[at].buffer == none || slots_[at].address == address) return slots_[at].buffer;
    }
  }
  /// The address must be in it. What was pushed on by it moves back, so that no slot has to say that it was taken once.
  void erase(uint64_t address) noexcept {
    size_t hole = home(address);
    while (slots_[hole].address != address || slots_[hole].buffer == none) hole = next(hole);
    for (size_t at = next(hole); slots_[at].buffer != none; at = next(at)) {
      const size_t mask = slots_.size() - 1;
      // Whether the hole lies between its home and where it is.
      if (((at - home(slots_[at].address)) & mask) < ((at - hole) & mask)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = Slot{};
    --count_;
  }

 private:
  struct Slot {
    uint64_t address = 0;
    uint32_t buffer = none;
  };

  size_t home(uint64_t address) const noexcept {
    return static_cast<size_t>((address * 0x9e3779b97f4a7c15ULL) >> 20U) & (slots_.size() - 1);
  }
  size_t next(size_t at) const noexcept { return (at + 1) & (slots_.size() - 1); }
  void put(const Slot &slot) noexcept {
    size_t at = home(slot.address);
    while (slots_[at].buffer != none) at = next(at);
    slots_[at] = slot;
  }

  std::pmr::vector<Slot> slots_;  ///< a power of two of them
  size_t count_ = 0;
};

}  // namespace weir::page
