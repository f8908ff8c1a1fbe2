// SPDX-License-Identifier: Apache-2.0
//
// UseRing: what one thread has acquired on one stream, for those who learn from it (core/lease/use_log.hpp): a record a use, in the order of
// the acquires. The hit path writes it, with two stores a use; the drain reads it.
//
// What must hold: the records of one acquire are in a row, the first and the last of them marked. A ring lives as long as its pool, and so
// does the head that counts the thread's hits.
#pragma once

#include "core/lease/observer.hpp"
#include "core/lease/record_ring.hpp"

#include <weir/lease.h>

#include <memory_resource>
#include <utility>
#include <vector>

namespace weir::lease {

/// A use in two words, and a third and fourth where it is of a part of its buffer.
///   buffer's handle without its pool 52 | mode 2 | first | last | ranged | -         moment 32 | operation id 32
///   begin 48 | - | last | - | range                                                  end
struct UseRecord {
  static constexpr uint64_t buffer_mask = (uint64_t{1} << 52) - 1;
  static constexpr unsigned generation_at = 32, generation_down = 8, mode_at = 52;
  static constexpr uint64_t first = uint64_t{1} << 54;  ///< of its acquire
  static constexpr uint64_t last = uint64_t{1} << 55;
  static constexpr uint64_t ranged = uint64_t{1} << 56;  ///< the next record has its range
  static constexpr uint64_t range = uint64_t{1} << 57;   ///< it is such a one
  static constexpr uint64_t offset_mask = (uint64_t{1} << 48) - 1;

  static uint64_t what(weir_buffer buffer, uint64_t mode) noexcept {
    return (reinterpret_cast<uint64_t>(buffer) & buffer_mask) | mode << mode_at;
  }
};

class UseRing {
 public:
  UseRing(uint32_t slot_, uint32_t life_) noexcept : slot(slot_), life(life_) {}

  // ---- the writer: the thread whose ring it is, or the one that holds the stream's timeline lock ----
  /// An acquire of one use that the hit path has granted. `when`: UseLog::when().
  void hit(uint64_t what, uint64_t when) noexcept {
    const uint64_t at = records_.head();
    records_.put(at, {what | UseRecord::first | UseRecord::last, when});
    records_.publish(at + 1);
  }
  /// The same of one use of a range.
  void hit_part(uint64_t what, uint64_t begin, uint64_t end, uint64_t when) noexcept {
    const uint64_t at = records_.head();
    records_.put(at, {what | UseRecord::first | UseRecord::ranged, when});
    records_.put(at + 1, {UseRecord::range | begin | UseRecord::last, end});
    beside_.store(beside_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    records_.publish(at + 2);
  }
  /// The same of several, which are written one by one before: not more than RecordRing::most_unpublished.
  uint64_t head() const noexcept { return records_.head(); }
  void put(uint64_t number, uint64_t what, uint64_t when) noexcept {
    records_.put(number, {what, when});
  }
  void publish_hits(uint64_t head) noexcept { records_.publish(head); }
  /// What the hit path has not granted, one after the other. Counts as no hit.
  void add(uint64_t what, uint64_t when) noexcept {
    const uint64_t at = records_.head();
    records_.put(at, {what, when});
    records_.publish(at + 1);
    beside_.store(beside_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Uses granted by the hit path; may be off by those of an acquire that is being granted. Any thread.
  uint64_t hits() const noexcept {
    const uint64_t beside = beside_.load(std::memory_order_relaxed);
    return records_.head() - beside;
  }

  // ---- the reader ----
  void fetch() noexcept { records_.fetch(); }
  /// All that has come so far is missed.
  void skip() noexcept;
  bool empty() const noexcept { return records_.empty(); }
  /// There was more to fetch than room.
  bool more() const noexcept { return records_.more(); }
  /// Whether all of an operation has been fetched.
  bool ready() noexcept;
  /// Of the operation that is ready.
  uint32_t moment() const noexcept { return static_cast<uint32_t>(records_.copied()[0][1]); }
  /// Takes it out, and returns its name. Throws std::bad_alloc: it is missed.
  uint32_t take(std::pmr::vector<ObservedUse> *uses);
  /// Records that were missed since it was asked before.
  uint64_t take_missed() noexcept { return std::exchange(missed_, 0); }

  const uint32_t slot;      ///< of the stream
  uint32_t life;            ///< of the stream that has it where the reader is
  UseRing *next = nullptr;  ///< of the pool's; set before others see the ring

 private:
  void miss(size_t count) noexcept {
    missed_ += count;
    records_.drop(count);
  }

  RecordRing<2> records_;
  std::atomic<uint64_t> beside_{0};  ///< records that are no hits
  size_t ready_ = 0;                 ///< records of the operation that is ready
  uint64_t missed_ = 0;
};

}  // namespace weir::lease
