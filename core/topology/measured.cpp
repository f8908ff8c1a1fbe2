// SPDX-License-Identifier: Apache-2.0
//
// Files number devices within their backend, so that a backend's file is the same whatever else a context has loaded.

#include "core/topology/measured.hpp"

#include "core/topology/link_cache.hpp"

#include <algorithm>

namespace weir::topology {
namespace {

/// To another numbering of devices; the host stays what it is.
uint32_t moved(uint32_t end, uint32_t by) { return end != WEIR_DEVICE_HOST ? end + by : end; }

}  // namespace

void Measured::add(const backend::Runtime &runtime, uint32_t first, uint32_t count,
                   std::string_view options) {
  if (count != 0)
    parts_.push_back(Part{&runtime, first, count, std::pmr::string(options, memory_)});
}

std::pmr::string Measured::identity(const Part &part, const Devices &devices) const {
  return cache_identity(
      {machine_id(memory_), part.runtime->name(), part.runtime->version(), part.options},
      std::span(devices).subspan(part.first, part.count), memory_);
}

void Measured::load(const Devices &devices, Words *warnings) {
  folder_ = cache_folder(memory_);
  if (folder_.empty()) return;
  for (const Part &part : parts_) {
    const std::pmr::string id = identity(part, devices);
    Figures found(memory_);
    std::pmr::string reason(memory_);
    if (read_cache(cache_file(folder_, id, memory_), id, part.count, &found, &reason) ==
        CacheRead::ignored)
      warnings->push_back(std::move(reason));
    for (const auto &[ends, reading] : found)
      set(moved(ends.first, part.first), moved(ends.second, part.first), reading);
  }
}

Status Measured::save(const Devices &devices, uint32_t *files) const {
  for (const Part &part : parts_) {
    Figures own(memory_);
    for (const auto &[ends, reading] : figures_) {
      const uint32_t device = std::min(ends.first, ends.second);  // the host is the greatest
      if (device - part.first >= part.count) continue;            // below `first` it wraps around
      own[{moved(ends.first, 0 - part.first), moved(ends.second, 0 - part.first)}] = reading;
    }
    if (own.empty()) continue;
    WEIR_TRY(write_cache(folder_, identity(part, devices), part.runtime->name(), part.count, own));
    ++*files;
  }
  return {};
}

}  // namespace weir::topology
