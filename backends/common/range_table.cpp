// SPDX-License-Identifier: Apache-2.0
//
// Checks and records of ranges and mappings. A mapping is in the table from before the runtime is asked until after it
// has unmapped it, so that no range is freed under it and no other mapping takes its place.

#include "backends/common/range_table.hpp"

#include <iterator>
#include <utility>

namespace weir::common {

RangeTable::Ranges::iterator RangeTable::around(uint64_t address) {
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return ranges_.end();
  const auto range = std::prev(after);
  return address - range->first < range->second.bytes ? range : ranges_.end();
}

void RangeTable::add(User owner, uint64_t address, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  ranges_.insert_or_assign(address, Range{owner.device, bytes, owner.shares, false});
}

weir_result RangeTable::begin_free(uint32_t device, uint64_t address, uint64_t bytes,
                                   TakenRange *taken) {
  const std::lock_guard lock(mutex_);
  const auto range = ranges_.find(address);
  if (range == ranges_.end() || range->second.bytes != bytes || range->second.device != device) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "[%#llx, +%llu) is no reservation of device %u",
                  number(address), number(bytes), device);
  }
  const auto mapping = mappings_.lower_bound(address);
  if (mapping != mappings_.end() && mapping->first - address < bytes) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "in the reservation at %#llx [%#llx, +%llu) is mapped, of device %u",
                  number(address), number(mapping->first), number(mapping->second.bytes),
                  mapping->second.device);
  }
  *taken = ranges_.extract(range);
  return WEIR_SUCCESS;
}

weir_result RangeTable::refused(TakenRange taken, weir_result result) noexcept {
  if (taken.mapped().given_up) return WEIR_SUCCESS;
  const std::lock_guard lock(mutex_);
  ranges_.insert(std::move(taken));
  return result;
}

weir_result RangeTable::check_range(User owner, uint64_t address, uint64_t bytes) {
  const auto range = around(address);
  const bool inside =
      range != ranges_.end() && bytes <= range->second.bytes - (address - range->first);
  const bool allowed =
      inside && (range->second.device == owner.device || (owner.shares && range->second.shared));
  if (allowed) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                "[%#llx, +%llu) is not inside one reservation of device %u%s", number(address),
                number(bytes), owner.device,
                owner.shares ? ", nor of one that shares with it" : "");
}

weir_result RangeTable::check_free(uint64_t address, uint64_t bytes) const {
  const auto next = mappings_.lower_bound(address);
  const bool hits_next = next != mappings_.end() && next->first - address < bytes;
  const bool hits_previous =
      next != mappings_.begin() && address - std::prev(next)->first < std::prev(next)->second.bytes;
  if (!hits_next && !hits_previous) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "something is mapped in [%#llx, +%llu) already",
                number(address), number(bytes));
}

weir_result RangeTable::begin_map(User owner, const MappedPiece &piece) {
  const std::lock_guard lock(mutex_);
  WEIR_BACKEND_TRY(check_range(owner, piece.address, piece.bytes));
  WEIR_BACKEND_TRY(check_free(piece.address, piece.bytes));
  mappings_.emplace(piece.address,
                    Mapping{owner.device, piece.bytes, piece.granule, piece.access, true});
  return WEIR_SUCCESS;
}

weir_result RangeTable::begin_unmap(uint32_t device, uint64_t address, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto mapping = mappings_.find(address);
  if (mapping == mappings_.end() || mapping->second.busy || mapping->second.bytes != bytes ||
      mapping->second.device != device) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "no one map call of device %u made [%#llx, +%llu)",
                  device, number(address), number(bytes));
  }
  mapping->second.busy = true;
  return WEIR_SUCCESS;
}

weir_result RangeTable::find_run(uint32_t device, uint64_t address, uint64_t bytes, bool begin,
                                 std::vector<MappedPiece> *pieces) {
  const std::lock_guard lock(mutex_);
  const auto first = mappings_.find(address);
  uint64_t covered = 0;
  auto last = first;
  for (; last != mappings_.end() && covered < bytes; ++last) {
    const Mapping &mapping = last->second;
    const bool fits = last->first - address == covered && mapping.bytes <= bytes - covered;
    if (!fits || mapping.busy || mapping.device != device) break;
    covered += mapping.bytes;
  }
  if (bytes == 0 || covered != bytes) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "whole maps of device %u cover %llu bytes from %#llx on, not %llu", device,
                  number(covered), number(address), number(bytes));
  }
  for (auto each = first; each != last; ++each) {
    const Mapping &mapping = each->second;
    pieces->push_back({each->first, mapping.bytes, mapping.granule, mapping.access});
  }
  for (auto each = first; begin && each != last; ++each) each->second.busy = true;
  return WEIR_SUCCESS;
}

void RangeTable::keep(uint64_t address) noexcept {
  const std::lock_guard lock(mutex_);
  const auto mapping = mappings_.find(address);
  if (mapping != mappings_.end()) mapping->second.busy = false;
}

weir_be_granule RangeTable::drop(uint64_t address) noexcept {
  const std::lock_guard lock(mutex_);
  const auto mapping = mappings_.find(address);
  if (mapping == mappings_.end()) return 0;
  const weir_be_granule granule = mapping->second.granule;
  mappings_.erase(mapping);
  return granule;
}

weir_be_granule RangeTable::give_up(uint64_t address, bool *shared) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto range = around(address);
    *shared = range != ranges_.end() && range->second.shared;
    if (range != ranges_.end()) range->second.given_up = true;
  }
  return drop(address);
}

bool RangeTable::maps(uint64_t address, uint64_t bytes, uint32_t *device) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return false;
  const auto &[start, mapping] = *std::prev(after);
  const uint64_t offset = address - start;
  if (mapping.busy || offset > mapping.bytes || bytes > mapping.bytes - offset) return false;
  *device = mapping.device;
  return true;
}

}  // namespace weir::common
