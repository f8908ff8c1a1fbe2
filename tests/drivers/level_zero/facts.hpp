// SPDX-License-Identifier: Apache-2.0
//
// What core and sysman both tell of a device, so that they never disagree.
#pragma once

#include <level_zero/ze_api.h>

#include <cstdint>

#include "tests/drivers/level_zero/driver.hpp"

namespace weir::sim::ze {

inline constexpr uint32_t core_clock_mhz = 1600;

struct PciFacts {
  uint32_t domain = 0, bus = 0, device = 0, function = 0;
  int32_t generation = 5, width = 16;
  int64_t bandwidth = -1;  ///< bytes a second; -1 = unknown
};
PciFacts pci_facts(const Driver &driver, uint32_t device) noexcept;

/// Everything of the structure but stype and pNext.
void describe(const Driver &driver, const Device &device, ze_device_properties_t *out) noexcept;

}  // namespace weir::sim::ze
