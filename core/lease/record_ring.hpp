// SPDX-License-Identifier: Apache-2.0
//
// RecordRing: fixed records from one thread to another, without a lock, a locked instruction or a wait. The writer never looks whether the
// reader has come along: it writes over the oldest records, and the reader finds out what it has missed.
//
// What must hold: one thread writes at a time, and each sees what those before it have written; one thread reads at a time. A record is
// published after it was written. The words of a record are stored with release order and read with acquire order: a reader that has read a word
// of a newer record sees that the writer has come as far, and drops what it has copied from there.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace weir::lease {

template <size_t words>
class RecordRing {
 public:
  /// The first word of a record is not 0. Where it is in a copy, records are missing there: the second says how many.
  using Record = std::array<uint64_t, words>;
  static constexpr uint32_t capacity = 4096;
  /// So many records may be written before they are published.
  static constexpr uint32_t most_unpublished = 64;

  // ---- the writer ----
  /// Records published so far.
  uint64_t head() const noexcept { return head_.load(std::memory_order_relaxed); }
  /// Writes the record of that number, which is not published yet.
  void put(uint64_t number, const Record &record) noexcept {
    auto &slot = slots_[number % capacity];
    for (size_t i = 0; i < words; ++i) slot[i].store(record[i], std::memory_order_release);
  }
  /// All records below that number have been written.
  void publish(uint64_t head) noexcept { head_.store(head, std::memory_order_release); }

  // ---- the reader ----
  /// Copies what has been published since, as far as there is room.
  void fetch() noexcept;
  /// What has been copied and not dropped.
  std::span<const Record> copied() const noexcept { return {&copy_[begin_], end_ - begin_}; }
  void drop(size_t count) noexcept { begin_ += count; }
  /// Drops all that has been copied, and what has been published since, unread. Returns how many records the latter were.
  uint64_t skip() noexcept {
    const uint64_t head = head_.load(std::memory_order_acquire);
    begin_ = end_;
    more_ = false;
    return head - std::exchange(next_, head);
  }
  /// Nothing has been copied that was not dropped, and nothing published since.
  bool empty() const noexcept {
    return begin_ == end_ && head_.load(std::memory_order_acquire) == next_;
  }
  /// No more can be copied before some are dropped.
  bool full() const noexcept { return begin_ == 0 && end_ + 1 >= capacity; }
  /// There was more to copy than room.
  bool more() const noexcept { return more_; }
  /// Whether there is a record that has not been copied. False where it could be read; *intact: it has not been written over.
  bool peek(Record *record, bool *intact) const noexcept;

 private:
  /// The first record that is not being written over when so many have been published.
  static uint64_t first_intact(uint64_t head) noexcept {
    return head + most_unpublished > capacity ? head + most_unpublished - capacity : 0;
  }
  Record read(uint64_t number) const noexcept {
    Record record;
    const auto &slot = slots_[number % capacity];
    for (size_t i = 0; i < words; ++i) record[i] = slot[i].load(std::memory_order_acquire);
    return record;
  }

  // The writer's:
  alignas(64) std::atomic<uint64_t> head_{0};
  alignas(64) std::array<std::array<std::atomic<uint64_t>, words>, capacity> slots_{};
  // The reader's:
  alignas(64) uint64_t next_ = 0;  ///< the first record that has not been looked at
  bool more_ = false;
  size_t begin_ = 0, end_ = 0;  ///< of what is in `copy_`
  std::array<Record, capacity> copy_{};
};

template <size_t words>
void RecordRing<words>::fetch() noexcept {
  const uint64_t head = head_.load(std::memory_order_acquire);
  more_ = head != next_;
  if (!more_) return;
  if (begin_ >= capacity / 2 || end_ + 1 >= capacity) {  // else there is room behind
    std::copy(copy_.begin() + static_cast<ptrdiff_t>(begin_),
              copy_.begin() + static_cast<ptrdiff_t>(end_), copy_.begin());
    end_ -= begin_;
    begin_ = 0;
  }
  if (full()) return;
  const uint64_t from = std::max(next_, first_intact(head));
  const uint64_t to = std::min(head, from + (capacity - end_ - 1));  // less the one for a gap
  const size_t gap = end_++;
  for (uint64_t number = from; number < to; ++number) copy_[end_++] = read(number);
  // What the writer has come to meanwhile is in front.
  const uint64_t intact = std::clamp(first_intact(head_.load(std::memory_order_acquire)), from, to);
  const uint64_t missing = intact - next_;
  const auto at = copy_.begin() + static_cast<ptrdiff_t>(gap);
  const auto bad = static_cast<ptrdiff_t>(intact - from);
  if (missing != 0) {
    *at = Record{0, missing};
    std::copy(at + 1 + bad, copy_.begin() + static_cast<ptrdiff_t>(end_), at + 1);
    end_ -= static_cast<size_t>(bad);
  } else {
    std::copy(at + 1, copy_.begin() + static_cast<ptrdiff_t>(end_), at);
    --end_;
  }
  next_ = to;
  more_ = to != head;
}

template <size_t words>
bool RecordRing<words>::peek(Record *record, bool *intact) const noexcept {
  if (head_.load(std::memory_order_acquire) == next_) return false;
  *record = read(next_);
  *intact = first_intact(head_.load(std::memory_order_acquire)) <= next_;
  return true;
}

}  // namespace weir::lease
