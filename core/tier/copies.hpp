// SPDX-License-Identifier: Apache-2.0
//
// CopyTable: where pages' bytes lie below HOST. A page has a chain of records there, one for each part of at most
// part_bytes, or none; the records are few where few pages are below HOST, so a page pays four bytes for the table.
// A chain belongs to one version of a page's bytes: a new version frees it. Under the pool's lock.
#pragma once

#include "core/tier/unit_slot.hpp"

#include <deque>
#include <memory_resource>

namespace weir::tier {

/// One part of a page.
struct LowerCopy {
  static constexpr uint32_t none = UINT32_MAX;

  UnitSlot compressed;
  UnitSlot storage;
  uint64_t checksum = 0;  ///< in a chain's first record: of the whole page's bytes; 0: not known
  uint32_t compressed_bytes = 0;  ///< of the blob in `compressed`
  uint32_t storage_bytes = 0;     ///< of the blob in `storage`; 0: the bytes lie there as they are
  uint32_t next = none;           ///< part, or the next unused record
  bool dense =
      false;  ///< in a chain's first record: `compressed` was coded again already, or it was tried
};

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
