// SPDX-License-Identifier: Apache-2.0
//
// FragOptions: the flags of `weir frag`, parsed and checked. With a budget of any kind the trace is replayed in a pool;
// else it is placed, without memory.
#pragma once

#include "frag/palette.hpp"
#include "frag/placement_film.hpp"
#include "replay_options.hpp"

#include <optional>
#include <string>

namespace weir::tool {

struct FragOptions {
  std::string trace;
  std::string html;  ///< "": none
  std::string png;   ///< "": none
  bool json = false;
  frag::ColourMode colour = frag::ColourMode::tag;
  uint64_t scale = 1;
  uint64_t limit = UINT64_MAX;
  uint32_t frames = 0;
  frag::PlacementFilmOptions placement;
  std::optional<ReplayOptions> pool;  ///< there: replay in a pool
};

/// The options as they stand on the command line.
struct FragFlags {
  FragFlags() { pool.device_memory.clear(); }
  std::string html, png, placement, capacity, colour;
  uint64_t frames = 240;
  bool json = false;
  ReplayFlags pool;  ///< the trace, and what is common with `weir replay`
};

/// Throws ToolError naming the flag and its value.
FragOptions check_frag_flags(const FragFlags &flags);

}  // namespace weir::tool
