// SPDX-License-Identifier: Apache-2.0
//
// The film of a trace's allocations and frees alone, under one of the placements (placement.hpp). It needs no memory and
// is the same each time.
#pragma once

#include "tools/weir/frag/film.hpp"
#include "tools/weir/placement.hpp"

namespace weir::tool::frag {

struct PlacementFilmOptions {
  PlacementKind kind = PlacementKind::multi_map;
  PlacementOptions placement;
  uint32_t frames = 240;
};

/// What the film's figures were made from.
struct PlacementNumbers {
  uint64_t peak_live = 0;
  uint64_t peak_reserved = 0;
  uint64_t peak_reserved_at = 0;
  uint64_t live_at_peak_reserved = 0;
  uint64_t most_unused = 0;  ///< reserved less live
  uint64_t most_unused_at = 0;
  uint64_t reserved_at_most_unused = 0;
  uint64_t refused_at = never;  ///< the allocation that the capacity had no room for
  PlacementCounters counters;
};

Film film_placement(const Story &story, const PlacementFilmOptions &options,
                    PlacementNumbers *numbers);

}  // namespace weir::tool::frag
