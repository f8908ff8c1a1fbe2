// SPDX-License-Identifier: Apache-2.0
//
// Checks and records. A granule's number carries its device, so that one device's is none of another's.

#include "backends/common/mapping_table.hpp"

#include <bit>
#include <iterator>
#include <utility>

namespace weir::common {
namespace {

using Number = unsigned long long;

Number number(uint64_t value) noexcept { return value; }

}  // namespace

void MappingTable::configure(uint32_t device, uint64_t granule, bool multi_map,
                             bool map_part) noexcept {
  map_part_ = map_part;
  device_ = device;
  unit_ = granule;
  multi_map_ = multi_map;
  next_id_ = (uint64_t{device} + 1) << 40U;
}

weir_result MappingTable::check_unit(const char *what, uint64_t value) const noexcept {
  if (unit_ != 0 && value % unit_ == 0) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%s=%#llx is no multiple of the granule %#llx", what,
                number(value), number(unit_));
}

weir_result MappingTable::check_size(uint64_t bytes) const noexcept {
  if (bytes == 0) return refuse(WEIR_ERROR_INVALID_ARGUMENT, "bytes=0");
  return check_unit("bytes", bytes);
}

weir_result MappingTable::no_granule(weir_be_granule granule) const noexcept {
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "granule %#llx is none of device %u", number(granule),
                device_);
}

weir_be_granule MappingTable::add_granule(uint64_t native, uint64_t bytes, uint64_t flags) {
  const std::lock_guard lock(mutex_);
  const weir_be_granule id = next_id_;
  granules_.emplace(id, Granule{native, bytes, flags});
  ++next_id_;
  return id;
}

weir_result MappingTable::find_granule(weir_be_granule granule, Granule *found) const {
  const std::lock_guard lock(mutex_);
  const auto entry = granules_.find(granule);
  if (entry == granules_.end() || entry->second.busy) return no_granule(granule);
  *found = entry->second;
  return WEIR_SUCCESS;
}

weir_result MappingTable::begin_destroy(weir_be_granule granule, uint64_t *native) {
  const std::lock_guard lock(mutex_);
  const auto entry = granules_.find(granule);
  if (entry == granules_.end() || entry->second.busy) return no_granule(granule);
  if (entry->second.mappings != 0) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "granule %#llx is still mapped %u times",
                  number(granule), entry->second.mappings);
  }
  entry->second.busy = true;
  *native = entry->second.native;
  return WEIR_SUCCESS;
}

void MappingTable::end_destroy(weir_be_granule granule, bool gone) noexcept {
  const std::lock_guard lock(mutex_);
  const auto entry = granules_.find(granule);
  if (entry == granules_.end()) return;
  if (gone) {
    granules_.erase(entry);
  } else {
    entry->second.busy = false;
  }
}

weir_result MappingTable::check_range(uint64_t bytes, uint64_t alignment) const noexcept {
  WEIR_BACKEND_TRY(check_size(bytes));
  if (!std::has_single_bit(alignment) || alignment < unit_) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "alignment=%#llx is no power of two of at least the granule %#llx",
                  number(alignment), number(unit_));
  }
  return WEIR_SUCCESS;
}

void MappingTable::add_range(uint64_t address, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  ranges_.insert_or_assign(address, Range{bytes});
}

weir_result MappingTable::begin_free(uint64_t address, uint64_t bytes, TakenRange *taken) {
  const std::lock_guard lock(mutex_);
  const auto range = ranges_.find(address);
  if (range == ranges_.end() || range->second.bytes != bytes) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "[%#llx, +%llu) is no reservation of device %u",
                  number(address), number(bytes), device_);
  }
  const auto mapping = mappings_.lower_bound(address);
  if (mapping != mappings_.end() && mapping->first - address < bytes) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "in the reservation at %#llx [%#llx, +%llu) is mapped", number(address),
                  number(mapping->first), number(mapping->second.bytes));
  }
  *taken = ranges_.extract(range);
  return WEIR_SUCCESS;
}

void MappingTable::put_back(TakenRange taken) noexcept {
  const std::lock_guard lock(mutex_);
  ranges_.insert(std::move(taken));
}

weir_result MappingTable::check_place(uint64_t address, uint64_t bytes) const {
  const auto after = ranges_.upper_bound(address);
  const auto range = after != ranges_.begin() ? std::prev(after) : ranges_.end();
  const bool inside = range != ranges_.end() && address - range->first < range->second.bytes &&
                      bytes <= range->second.bytes - (address - range->first);
  if (!inside) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "[%#llx, +%llu) is not inside one reservation of device %u", number(address),
                  number(bytes), device_);
  }
  const auto next = mappings_.lower_bound(address);
  const bool hits_next = next != mappings_.end() && next->first - address < bytes;
  const bool hits_previous =
      next != mappings_.begin() && address - std::prev(next)->first < std::prev(next)->second.bytes;
  if (hits_next || hits_previous) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "something is mapped in [%#llx, +%llu) already",
                  number(address), number(bytes));
  }
  return WEIR_SUCCESS;
}

weir_result MappingTable::begin_map(uint64_t address, uint64_t bytes, weir_be_granule granule,
                                    uint64_t offset, uint64_t *native) {
  WEIR_BACKEND_TRY(check_size(bytes));
  WEIR_BACKEND_TRY(check_unit("address", address));
  WEIR_BACKEND_TRY(check_unit("offset", offset));
  const std::lock_guard lock(mutex_);
  const auto entry = granules_.find(granule);
  if (entry == granules_.end() || entry->second.busy) return no_granule(granule);
  Granule &source = entry->second;
  if (offset > source.bytes || bytes > source.bytes - offset) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "[%llu, +%llu) is beyond the granule's %llu bytes",
                  number(offset), number(bytes), number(source.bytes));
  }
  if (source.mappings != 0 && !multi_map_) {
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "granule %#llx is mapped already, and once at a time",
                  number(granule));
  }
  WEIR_BACKEND_TRY(check_place(address, bytes));
  if (bytes != source.bytes && !map_part_) {
    return refuse(WEIR_ERROR_NOT_SUPPORTED,
                  "a granule of %llu bytes is mapped whole, not [%llu, +%llu)",
                  number(source.bytes), number(offset), number(bytes));
  }
  mappings_.emplace(address, Mapping{bytes, granule, true});
  ++source.mappings;
  *native = source.native;
  return WEIR_SUCCESS;
}

weir_result MappingTable::begin_unmap(uint64_t address, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto mapping = mappings_.find(address);
  if (mapping == mappings_.end() || mapping->second.busy || mapping->second.bytes != bytes) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "no one map call of device %u made [%#llx, +%llu)",
                  device_, number(address), number(bytes));
  }
  mapping->second.busy = true;
  return WEIR_SUCCESS;
}

void MappingTable::end_map(uint64_t address, bool mapped) noexcept {
  const std::lock_guard lock(mutex_);
  const auto mapping = mappings_.find(address);
  if (mapping == mappings_.end()) return;
  if (mapped) {
    mapping->second.busy = false;
    return;
  }
  const auto granule = granules_.find(mapping->second.granule);
  if (granule != granules_.end()) --granule->second.mappings;
  mappings_.erase(mapping);
}

bool MappingTable::maps(uint64_t address, uint64_t bytes) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return false;
  const auto &[start, mapping] = *std::prev(after);
  const uint64_t offset = address - start;
  return !mapping.busy && offset <= mapping.bytes && bytes <= mapping.bytes - offset;
}

}  // namespace weir::common
