// SPDX-License-Identifier: Apache-2.0
//
// AgeHeap: pages by the tick of their last known use, the oldest on top. What a look passes over is parked behind the heap and comes
// back into it at the look's end, so that one look sees each page once. Under the lock of whoever owns it.
//
// What must hold: heap_[0, end_) is a heap, what is behind it is parked, and between two looks nothing is. Pages that come and go
// without ever being chosen are told of again and again. So that what is kept stays in proportion to the pages there are, entries are
// asked for whenever one comes (forget_some()), and doubles are removed whenever the list has doubled.
#pragma once

#include "core/policy/policy.hpp"

namespace weir::policy {

class AgeHeap {
 public:
  /// Sixteen bytes a page, whatever the device holds.
  struct Entry {
    uint64_t tick : 48;
    uint64_t generation : 16;
    uint32_t region;
    uint32_t page;

    static Entry of(const PageRef &ref, uint64_t tick) noexcept {
      return Entry{tick & 0xffffffffffffU, ref.generation, ref.region, ref.page};
    }
    PageRef ref() const noexcept {
      return PageRef{region, page, static_cast<uint16_t>(generation)};
    }
  };
  static_assert(sizeof(Entry) == 16);

  explicit AgeHeap(std::pmr::memory_resource *memory) : heap_(memory) {}

  size_t size() const noexcept { return heap_.size(); }
  /// Room for so many more.
  void reserve(size_t pages);
  /// Throws std::bad_alloc with nothing changed.
  void push(const Entry &entry);
  /// Asks for some, and forgets those that are not there any more.
  void forget_some(View &view) noexcept;

  // ---- a look: from the first park_oldest() to unpark() ----
  bool exhausted() const noexcept { return end_ == 0; }
  /// Takes the oldest entry out of the heap; it stays in the list.
  Entry park_oldest() noexcept;
  /// Takes what was parked last out of the list.
  void remove_parked() noexcept;
  /// One that was taken out is parked after all: there is room for it.
  void park(const Entry &entry) noexcept { heap_.push_back(entry); }
  /// What was parked last counts as used at the tick.
  void put_off(uint64_t tick) noexcept { heap_[end_].tick = tick & 0xffffffffffffU; }
  /// What is parked is in the heap again.
  void unpark() noexcept;
  /// What is left of a list that was long. Not what has been reserved; and without memory for the shorter one it stays.
  void give_room_back() noexcept;

 private:
  static constexpr size_t least_tidy = 1024;

  void remove(size_t at) noexcept;
  void heap_in_next() noexcept;
  void make_room_for(size_t count);
  void tidy() noexcept;

  std::pmr::vector<Entry> heap_;
  size_t end_ = 0;
  size_t hand_ = 0;      ///< the entry to be asked for next
  size_t reserved_ = 0;  ///< the most that was asked for lately
  size_t tidy_at_ = least_tidy;
};

}  // namespace weir::policy
