// SPDX-License-Identifier: Apache-2.0
//
// What a plan (policy/residency_plan.hpp) has in store for whoever carries it out: the fetches, by when they are due, and the evictions,
// by the use that they come after. No lock; guarded by the plan.
//
// Room is made first, by calls that may throw std::bad_alloc; nothing else here allocates.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

namespace weir::policy {

/// Bytes that operation `due` needs and that are planned not to be there before.
struct PlannedFetch {
  uint32_t part = 0, life = 0;
  uint64_t due = 0;
  uint64_t begin = 0, end = 0;  ///< bytes of the buffer that the operation uses
  uint64_t bytes = 0;           ///< of them still to be fetched; 0: it is over
  uint32_t drops_before =
      0;  ///< planned evictions of the part that come first, counted since the plan was made
};

/// Bytes that are planned to go after operation `after`, the last that uses them, so that operation `until` has room.
struct PlannedDrop {
  uint32_t part = 0, life = 0;
  uint64_t bytes = 0;
  uint64_t after = 0, until = 0;
};

class FetchQueue {
 public:
  explicit FetchQueue(std::pmr::memory_resource *memory) : items_(memory) {}

  /// Numbers that were given before stay good. Throws std::bad_alloc with nothing changed.
  void make_room(uint64_t more);
  /// In due order.
  void append(const PlannedFetch &item) noexcept;
  /// The last one may be added to.
  PlannedFetch *last() noexcept { return items_.size() > head_ ? &items_.back() : nullptr; }
  /// More bytes of an item.
  void grow(PlannedFetch *item, uint64_t bytes) noexcept {
    item->bytes += bytes;
    bytes_ += bytes;
  }
  /// The first item from `number` on that is not over, and its number; nullptr: there is none.
  const PlannedFetch *next(uint64_t *number) const noexcept;
  /// Of an item that next() has given and that has not expired.
  const PlannedFetch &operator[](uint64_t number) const noexcept { return items_[number - base_]; }
  void take(uint64_t number, uint64_t bytes) noexcept;
  /// One of those that were due at `now` or before; it is over then. nullptr: there is none. Valid until the queue is changed.
  const PlannedFetch *expire(uint64_t now) noexcept;
  void clear() noexcept;

  uint64_t open_bytes() const noexcept { return bytes_; }
  uint64_t count() const noexcept { return items_.size() - head_; }
  uint64_t bytes() const noexcept { return items_.capacity() * sizeof(PlannedFetch); }

 private:
  std::pmr::vector<PlannedFetch> items_;
  uint64_t head_ = 0;   ///< those before it are over
  uint64_t base_ = 0;   ///< the number of items_[0]
  uint64_t bytes_ = 0;  ///< of all
};

class DropQueue {
 public:
  explicit DropQueue(std::pmr::memory_resource *memory) : heap_(memory) {}

  /// Throws std::bad_alloc with nothing changed.
  void make_room(uint64_t more);
  void add(const PlannedDrop &drop) noexcept;
  /// The one that comes after the earliest operation, of equal ones the one that was added first; nullptr: there is none.
  const PlannedDrop *first() const noexcept {
    return heap_.empty() ? nullptr : &heap_.front().drop;
  }
  void remove_first() noexcept;
  void clear() noexcept;

  uint64_t count() const noexcept { return heap_.size(); }
  uint64_t bytes() const noexcept { return heap_.capacity() * sizeof(Entry); }

 private:
  struct Entry {
    PlannedDrop drop;
    uint64_t number = 0;
  };
  static bool later(const Entry &a, const Entry &b) noexcept {
    return a.drop.after != b.drop.after ? a.drop.after > b.drop.after : a.number > b.number;
  }

  std::pmr::vector<Entry> heap_;
  uint64_t added_ = 0;
};

}  // namespace weir::policy
