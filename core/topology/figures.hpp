// SPDX-License-Identifier: Apache-2.0
//
// Figures: what was measured of links, by the numbers of the two devices. Ordered by them, so that the same figures are always
// written the same way.
#pragma once

#include <cstdint>
#include <map>
#include <memory_resource>
#include <utility>

namespace weir::topology {

struct Reading {
  uint64_t bandwidth = 0;  ///< bytes a second one way; never 0 of a link that was measured
  uint64_t latency_ns = 0;
  bool operator==(const Reading &) const noexcept = default;
};

/// From and to: each a device's number, or WEIR_DEVICE_HOST.
using Figures = std::pmr::map<std::pair<uint32_t, uint32_t>, Reading>;

}  // namespace weir::topology
