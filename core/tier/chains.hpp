// SPDX-License-Identifier: Apache-2.0
//
// Chains: where pages' bytes lie in the cold tiers. A page has a chain of records there, one for each part of at most
// part_bytes, or none; the records are few where few pages are below HOST, so a page pays four bytes for the table.
// A chain belongs to one version of a page's bytes: a new version frees it. Under the pool's lock.
//
// Most pages below HOST have one record, and there may be millions: a record holds only what is not stored elsewhere. Where a slot lies
// and how long its blob is, the stores remember with the slot.
#pragma once

#include "core/base/place.hpp"
#include "core/tier/unit_slot.hpp"

#include <array>
#include <deque>
#include <memory_resource>

namespace weir::tier {

/// One part of a page.
struct PartRecord {
  static constexpr uint32_t none = UINT32_MAX;

  UnitName &in(Place tier) noexcept { return places_[tier.tier()]; }
  const UnitName &in(Place tier) const noexcept { return places_[tier.tier()]; }

 private:
  std::array<UnitName, 2> places_;  ///< STORAGE, COMPRESSED

 public:
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
static_assert(sizeof(PartRecord) == 20);

class Chains {
 public:
  static constexpr uint32_t none = PartRecord::none;

  explicit Chains(std::pmr::memory_resource *memory) : records_(memory) {}

  PartRecord &operator[](uint32_t record) noexcept { return records_[record]; }
  const PartRecord &operator[](uint32_t record) const noexcept { return records_[record]; }

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
      records_[record] = PartRecord{};
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
  /// Two chains of the same page exchange their places in a tier.
  void exchange(uint32_t one, uint32_t other, Place tier) noexcept {
    for (; one != none; one = records_[one].next, other = records_[other].next)
      std::swap(records_[one].in(tier), records_[other].in(tier));
  }

 private:
  void put_back(uint32_t record) noexcept {
    records_[record].next = unused_;
    unused_ = record;
    ++unused_count_;
  }

  std::pmr::deque<PartRecord> records_;
  uint32_t unused_ = none;
  uint32_t unused_count_ = 0;
};

}  // namespace weir::tier
