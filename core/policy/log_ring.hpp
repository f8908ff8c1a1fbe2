// SPDX-License-Identifier: Apache-2.0
//
// LogRing: the newest entries of a list that only grows, in memory that is allocated once. Entries are called by their number in the
// list, which never changes; the oldest are forgotten one by one by whoever needs room.
//
// Invariants: [first, end) are held, at most `capacity` of them. Numbers stay below 2^32 - 1; whoever owns the ring starts it anew
// before (clear()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <type_traits>

namespace weir::policy {

template <class Entry>
class LogRing {
  static_assert(std::is_trivially_copyable_v<Entry>);

 public:
  /// Throws std::bad_alloc. `capacity` is at least 1.
  LogRing(uint32_t capacity, std::pmr::memory_resource *memory)
      : memory_(memory), entries_(memory_.allocate(capacity)), capacity_(capacity) {}
  ~LogRing() { memory_.deallocate(entries_, capacity_); }
  LogRing(const LogRing &) = delete;
  LogRing &operator=(const LogRing &) = delete;

  uint32_t first() const noexcept { return first_; }
  uint32_t end() const noexcept { return end_; }
  uint32_t size() const noexcept { return end_ - first_; }
  uint32_t capacity() const noexcept { return capacity_; }
  bool full() const noexcept { return size() == capacity_; }
  bool holds(uint32_t number) const noexcept { return number >= first_ && number < end_; }

  /// Of an entry that is held.
  Entry &operator[](uint32_t number) noexcept { return entries_[place(number)]; }
  const Entry &operator[](uint32_t number) const noexcept { return entries_[place(number)]; }

  /// Adds an entry to a ring that is not full; returns its number.
  uint32_t push(const Entry &entry) noexcept {
    entries_[place(end_)] = entry;
    return end_++;
  }
  /// Forgets the oldest.
  void pop() noexcept {
    if (++first_ - base_ >= capacity_) base_ += capacity_;
  }
  void clear() noexcept { base_ = first_ = end_ = 0; }

  size_t bytes() const noexcept { return size_t{capacity_} * sizeof(Entry); }

 private:
  size_t place(uint32_t number) const noexcept {
    const uint32_t offset = number - base_;
    return offset < capacity_ ? offset : offset - capacity_;
  }

  std::pmr::polymorphic_allocator<Entry> memory_;
  Entry *entries_;
  uint32_t capacity_;
  uint32_t base_ = 0;  ///< the number, not above `first`, that is at the start of the memory
  uint32_t first_ = 0, end_ = 0;
};

}  // namespace weir::policy
