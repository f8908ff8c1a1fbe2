// SPDX-License-Identifier: Apache-2.0
//
// Files number devices within their backend, so that a backend's file is the same whatever else a context has loaded.

#include "core/topology/measured.hpp"

#include "core/topology/link_cache.hpp"

namespace weir::topology {

void Measured::add(const backend::Runtime &runtime, uint32_t first, uint32_t count,
                   std::string_view options) {
  if (count != 0)
    parts_.push_back(Part{&runtime, first, count, std::pmr::string(options, memory_)});
}

std::pmr::string Measured::identity(const Part &part, const Devices &devices,
                                    std::string_view machine) const {
  CacheIdentity identity(machine, part.runtime->name(), part.runtime->version(), part.options,
                         memory_);
  for (uint32_t i = 0; i < part.count; ++i) identity.add(devices[part.first + i]->description);
  return identity.text();
}

void Measured::load(const Devices &devices, Words *warnings) {
  folder_ = cache_folder(memory_);
  if (folder_.empty()) return;
  const std::pmr::string machine = machine_id(memory_);
  for (const Part &part : parts_) {
    const std::pmr::string id = identity(part, devices, machine);
    const auto whole = [&part](uint32_t end) {
      return end != WEIR_DEVICE_HOST ? end + part.first : end;
    };
    Figures found(memory_);
    std::pmr::string reason(memory_);
    if (read_cache(cache_file(folder_, id, memory_), id, part.count, &found, &reason) ==
        CacheRead::ignored)
      warnings->push_back(std::move(reason));
    for (const Figure &figure : found)
      figures_.set({whole(figure.from), whole(figure.to), figure.bandwidth, figure.latency_ns});
  }
}

Status Measured::save(const Devices &devices, uint32_t *files) const {
  const std::pmr::string machine = machine_id(memory_);
  for (const Part &part : parts_) {
    const auto own = [&part](uint32_t end) {
      return end != WEIR_DEVICE_HOST ? end - part.first : end;
    };
    Figures of_part(memory_);
    for (const Figure &figure : figures_) {
      const uint32_t device = figure.from != WEIR_DEVICE_HOST ? figure.from : figure.to;
      if (device - part.first >= part.count) continue;  // below `first` it wraps around
      of_part.set({own(figure.from), own(figure.to), figure.bandwidth, figure.latency_ns});
    }
    if (of_part.size() == 0) continue;
    WEIR_TRY(write_cache(folder_, identity(part, devices, machine), part.runtime->name(),
                         part.count, of_part));
    ++*files;
  }
  return {};
}

}  // namespace weir::topology
