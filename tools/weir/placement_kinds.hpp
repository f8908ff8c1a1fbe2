// SPDX-License-Identifier: Apache-2.0
//
// What the placements share among themselves: their makers, and how many bytes one may still move.
#pragma once

#include "placement.hpp"

#include <algorithm>

namespace weir::tool {

std::unique_ptr<Placement> make_multi_map_placement(const PlacementOptions &options);
std::unique_ptr<Placement> make_vmm_placement(const PlacementOptions &options);
std::unique_ptr<Placement> make_segments_placement(const PlacementOptions &options);
std::unique_ptr<Placement> make_pytorch_placement(const PlacementOptions &options);

/// Bytes that may be moved now, so that what was moved stays within its share of what was allocated.
inline uint64_t movable_bytes(const PlacementOptions &options, const PlacementCounters &counters) {
  const auto most =
      static_cast<uint64_t>(options.move_share * static_cast<double>(counters.allocated_bytes));
  return most - std::min(most, counters.moved_bytes);
}

}  // namespace weir::tool
