// SPDX-License-Identifier: Apache-2.0
//
// Counting, and asking system management. Some runtimes leave memory made by zePhysicalMemCreate out of their own figures, so
// theirs never raises ours.

#include "backends/level_zero/usage.hpp"

#include "backends/level_zero/errors.hpp"

#include <algorithm>
#include <vector>

namespace weir::level_zero {
namespace {

/// UINT64_MAX if the driver does not say.
uint64_t free_by_driver(const Api &api, abi::Device device) {
  uint32_t count = 0;
  if (!api.sysman || api.sysman_memory_modules(device, &count, nullptr) != abi::success) {
    return UINT64_MAX;
  }
  std::vector<abi::MemoryModule> modules(count);
  if (api.sysman_memory_modules(device, &count, modules.data()) != abi::success) return UINT64_MAX;
  uint64_t sum = 0;
  bool known = false;
  for (const abi::MemoryModule module : modules) {
    abi::MemoryModuleProperties properties;
    if (api.sysman_memory_properties(module, &properties) != abi::success) return UINT64_MAX;
    if (properties.location != abi::memory_location_device) continue;
    abi::MemoryModuleState state;
    if (api.sysman_memory_state(module, &state) != abi::success) return UINT64_MAX;
    sum += state.free;
    known = true;
  }
  return known ? sum : UINT64_MAX;
}

}  // namespace

Usage::Usage(const Platform &platform) : platform_(platform), used_(platform.devices().size()) {}

weir_result Usage::charge(uint32_t device, uint64_t bytes) noexcept {
  const uint64_t total = platform_.devices()[device].memory;
  uint64_t used = used_[device].load(std::memory_order_relaxed);
  do {
    if (bytes > total || used > total - bytes) {
      return refuse(WEIR_ERROR_DEVICE_OOM, "device %u: %llu bytes asked, %llu of %llu left", device,
                    static_cast<Number>(bytes), static_cast<Number>(total - std::min(used, total)),
                    static_cast<Number>(total));
    }
  } while (!used_[device].compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return WEIR_SUCCESS;
}

void Usage::give_back(uint32_t device, uint64_t bytes) noexcept {
  used_[device].fetch_sub(bytes, std::memory_order_relaxed);
}

uint64_t Usage::available(uint32_t device) const {
  const Device &found = platform_.devices()[device];
  const uint64_t left = found.memory - used_[device].load(std::memory_order_relaxed);
  return std::min(left, free_by_driver(platform_.api(), found.handle));
}

}  // namespace weir::level_zero
