// SPDX-License-Identifier: Apache-2.0
//
// CopyTable: where pages' bytes lie below HOST. A page has a chain of records there, one for each part of at most
// part_bytes, or none; the records are few where few pages are below HOST, so a page pays four bytes for the table.
// A chain belongs to one version of a page's bytes: a new version frees it. Under the pool's lock.
//
// Most pages below HOST have one record, and there may be millions: it holds what nobody else knows. Where a slot lies and how
// long its blob is, the stores remember with the slot.
#pragma once

#include "core/tier/unit_slot.hpp"

#include <deque>
#include <memory_resource>

namespace weir::tier {

/// One part of a page.
struct LowerCopy {
  static constexpr uint32_t none = UINT32_MAX;

  UnitName compressed;
  UnitName storage;
  uint32_t next = none;  ///< part, or the next unused record

  /// In a chain's first record: of the whole page's bytes; 0: not known.
  uint64_t checksum() const noexcept { return uint64_t{checksum_high_} << 32U | checksum_low_; }
  void set_checksum(uint64_t sum) noexcept {
    checksum_low_ = static_cast<uint32_t>(sum);
    checksum_high_ = static_cast<uint32_t>(sum >> 32U);
  }

 private:
  uint32_t checksum_low_ = 0, checksum_high_ = 0;  ///< in halves, so that nothing is padded
};
static_assert(sizeof(LowerCopy) == 20);

class CopyTable {
 public:
  static constexpr uint32_t none = LowerCopy::none;

  explicit CopyTable(std::pmr::memory_resource *memory) : records_(memory) {}

  LowerCopy &operator[](uint32_t record) noexcept { return records_[record]; }

  /// A chain of `parts` empty records. Throws std::bad_alloc with nothing changed.
  uint32_t take(uint32_t parts) {
    while (unused_count_ < parts) {
      records_.emplace_back();
      put_back(static_cast<uint32_t>(records_.size() - 1));
    }
    uint32_t first = none;
    for (uint32_t i = 0; i < parts; ++i) {
      const uint32_t record = unused_;
      unused_ = records_[record].next;
      --unused_count_;
      records_[record] = LowerCopy{};
      records_[record].next = first;
      first = record;
    }
    return first;
  }
  /// The chain's records; what they point to is the caller's to have freed.
  void give(uint32_t first) noexcept {
    while (first != none) {
      const uint32_t next = records_[first].next;
      put_back(first);
      first = next;
    }
  }

 private:
  void put_back(uint32_t record) noexcept {
    records_[record].next = unused_;
    unused_ = record;
    ++unused_count_;
  }

  std::pmr::deque<LowerCopy> records_;
  uint32_t unused_ = none;
  uint32_t unused_count_ = 0;
};

}  // namespace weir::tier
