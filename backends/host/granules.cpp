// SPDX-License-Identifier: Apache-2.0
//
// The table behind granule handles: generation in the upper half, index + 1 in the lower.
#include "backends/host/granules.hpp"

#include "backends/host/fault.hpp"

#include <cinttypes>
#include <utility>

namespace weir::host {
namespace {

weir_result unknown(uint32_t device, weir_be_granule granule) {
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "granule 0x%" PRIx64 " is none of device %u", granule,
                device);
}

}  // namespace

const GranuleTable::Entry *GranuleTable::locate(uint32_t device,
                                                weir_be_granule granule) const noexcept {
  const uint64_t index = (granule & UINT32_MAX) - 1;
  if (index >= entries_.size()) return nullptr;
  const Entry &entry = entries_[index];
  const bool live =
      entry.extent != nullptr && entry.device == device && entry.generation == granule >> 32;
  return live ? &entry : nullptr;
}

GranuleTable::Entry *GranuleTable::locate(uint32_t device, weir_be_granule granule) noexcept {
  return const_cast<Entry *>(std::as_const(*this).locate(device, granule));
}

weir_be_granule GranuleTable::add(uint32_t device, std::shared_ptr<Extent> extent,
                                  bool exportable) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    if (free_.capacity() <= entries_.size()) free_.reserve(entries_.size() * 2 + 16);
    entries_.emplace_back();
    free_.push_back(static_cast<uint32_t>(entries_.size() - 1));
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  Entry &entry = entries_[index];
  entry.extent = std::move(extent);
  entry.device = device;
  entry.mapped = 0;
  entry.exportable = exportable;
  ++entry.generation;
  return weir_be_granule{entry.generation} << 32 | (uint64_t{index} + 1);
}

weir_result GranuleTable::remove(uint32_t device, weir_be_granule granule) {
  std::shared_ptr<Extent> last;  // freed after the lock
  const std::lock_guard lock(mutex_);
  Entry *entry = locate(device, granule);
  if (entry == nullptr) return unknown(device, granule);
  if (entry->mapped != 0) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "granule 0x%" PRIx64 " is still mapped %u times",
                  granule, entry->mapped);
  }
  last = std::move(entry->extent);
  entry->extent.reset();
  free_.push_back(static_cast<uint32_t>(granule & UINT32_MAX) - 1);
  return WEIR_SUCCESS;
}

weir_result GranuleTable::find_exportable(uint32_t device, weir_be_granule granule,
                                          std::shared_ptr<Extent> *extent) const {
  const std::lock_guard lock(mutex_);
  const Entry *entry = locate(device, granule);
  if (entry == nullptr) return unknown(device, granule);
  if (!entry->exportable) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "granule 0x%" PRIx64 " was not made to be exported as a descriptor", granule);
  }
  *extent = entry->extent;
  return WEIR_SUCCESS;
}

weir_result GranuleTable::pin(uint32_t device, weir_be_granule granule, bool several,
                              std::shared_ptr<Extent> *extent) {
  const std::lock_guard lock(mutex_);
  Entry *entry = locate(device, granule);
  if (entry == nullptr) return unknown(device, granule);
  if (entry->mapped != 0 && !several) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "granule 0x%" PRIx64 " is mapped already and multi_map is off", granule);
  }
  ++entry->mapped;
  *extent = entry->extent;
  return WEIR_SUCCESS;
}

void GranuleTable::unpin(weir_be_granule granule) noexcept {
  const std::lock_guard lock(mutex_);
  --entries_[(granule & UINT32_MAX) - 1].mapped;
}

}  // namespace weir::host
