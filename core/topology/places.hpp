// SPDX-License-Identifier: Apache-2.0
//
// Places: the devices that the started backends offer, numbered across backends, and the links they report.
// What hwloc knows of the machine is not merged in yet.
#pragma once

#include "core/backend/runtime.hpp"
#include "core/base/memory.hpp"

#include <vector>

namespace weir::topology {

class Places {
 public:
  explicit Places(std::pmr::memory_resource *memory) : memory_(memory), devices_(memory) {}

  /// Adds the devices of a started runtime. On failure none of them is added.
  Status add(backend::Runtime &runtime, uint32_t backend);
  uint32_t count() const noexcept { return static_cast<uint32_t>(devices_.size()); }
  const backend::Device *find(uint32_t id) const noexcept {
    return id < devices_.size() ? devices_[id].get() : nullptr;
  }
  /// Either side may be WEIR_DEVICE_HOST; both have been checked to exist.
  Status link(uint32_t from, uint32_t to, weir_link_info *info) const;

 private:
  std::pmr::memory_resource *memory_;
  std::pmr::vector<Owned<backend::Device>> devices_;
};

}  // namespace weir::topology
