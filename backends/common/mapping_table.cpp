// SPDX-License-Identifier: Apache-2.0
//
// Checks and records. A granule's number carries its device, so that one device's is none of another's.

#include "backends/common/mapping_table.hpp"

#include "backends/common/undo.hpp"

#include <bit>
#include <utility>

namespace weir::common {
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
  ranges_.add(user(), address, bytes);
}

weir_result MappingTable::begin_free(uint64_t address, uint64_t bytes, TakenRange *taken) {
  return ranges_.begin_free(device_, address, bytes, taken);
}

weir_result MappingTable::end_refused(TakenRange taken, weir_result result) noexcept {
  return ranges_.refused(std::move(taken), result);
}

weir_result MappingTable::begin_map(uint64_t address, uint64_t bytes, weir_be_granule granule,
                                    uint64_t offset, uint64_t *native, uint64_t access) {
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
  WEIR_BACKEND_TRY(ranges_.begin_map(user(), {address, bytes, granule, access}));
  if (bytes != source.bytes && !map_part_) {
    (void)ranges_.drop(address);
    return refuse(WEIR_ERROR_NOT_SUPPORTED,
                  "a granule of %llu bytes is mapped whole, not [%llu, +%llu)",
                  number(source.bytes), number(offset), number(bytes));
  }
  ++source.mappings;
  *native = source.native;
  return WEIR_SUCCESS;
}

weir_result MappingTable::begin_unmap(uint64_t address, uint64_t bytes) {
  return ranges_.begin_unmap(device_, address, bytes);
}

void MappingTable::uncount(weir_be_granule granule) noexcept {
  const std::lock_guard lock(mutex_);
  const auto entry = granules_.find(granule);
  if (entry != granules_.end()) --entry->second.mappings;
}

void MappingTable::end_map(uint64_t address, bool mapped) noexcept {
  if (mapped) {
    ranges_.keep(address);
  } else {
    uncount(ranges_.drop(address));
  }
}

weir_result MappingTable::end_unmap(uint64_t address, weir_result result) noexcept {
  if (result != WEIR_ERROR_DEVICE_LOST) {
    end_map(address, result != WEIR_SUCCESS);
    return result;
  }
  bool shared = false;
  uncount(ranges_.give_up(address, &shared));
  // Another device may want the place, and must know that it can't have it.
  return shared ? result : WEIR_SUCCESS;
}

// ---- runs

weir_result MappingTable::begin_map_run(uint64_t address, const weir_be_piece *pieces,
                                        uint32_t count, std::vector<uint64_t> *natives,
                                        uint64_t access) {
  if (pieces == nullptr || count == 0) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "pieces=%p with count=%u",
                  static_cast<const void *>(pieces), count);
  }
  natives->resize(count);
  uint64_t at = address;
  uint32_t begun = 0;
  Undo undo([&] { end_map_run(address, pieces, begun, false); });
  for (; begun < count; ++begun) {
    const weir_be_piece &piece = pieces[begun];
    WEIR_BACKEND_TRY(
        begin_map(at, piece.bytes, piece.granule, piece.offset, natives->data() + begun, access));
    at += piece.bytes;
  }
  undo.dismiss();
  return WEIR_SUCCESS;
}

void MappingTable::end_map_run(uint64_t address, const weir_be_piece *pieces, uint32_t count,
                               bool mapped) noexcept {
  for (uint32_t i = 0; i < count; address += pieces[i++].bytes) end_map(address, mapped);
}

weir_result MappingTable::begin_unmap_run(uint64_t address, uint64_t bytes,
                                          std::vector<MappedPiece> *pieces) {
  return ranges_.find_run(device_, address, bytes, true, pieces);
}

weir_result MappingTable::end_unmap_run(const std::vector<MappedPiece> &pieces,
                                        weir_result result) noexcept {
  weir_result told = WEIR_SUCCESS;
  for (const MappedPiece &piece : pieces) {
    const weir_result each = end_unmap(piece.address, result);
    if (each != WEIR_SUCCESS) told = each;
  }
  return told;
}

weir_result MappingTable::check_run(uint64_t address, uint64_t bytes,
                                    std::vector<MappedPiece> *pieces) {
  return ranges_.find_run(device_, address, bytes, false, pieces);
}

}  // namespace weir::common
