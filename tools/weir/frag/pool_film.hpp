// SPDX-License-Identifier: Apache-2.0
//
// The film of a trace in a pool under budgets: the trace is replayed as `weir replay` does, and the pool is asked where
// everything lies at the film's instants. Background threads move memory as they like, so no two films are quite the
// same.
#pragma once

#include "tools/weir/frag/film.hpp"
#include "tools/weir/replay_options.hpp"

#include <functional>

namespace weir::tool::frag {

struct PoolNumbers {
  uint64_t peak_live = 0;
  uint64_t device_budget = 0;
  uint64_t peak_device = 0;  ///< held from the system, at frames
  uint64_t most_unused = 0;  ///< of it, what no buffer had; at frames
  uint64_t most_unused_at = 0;
  uint64_t reserved_at_most_unused = 0;
  uint64_t promoted = 0;
  uint64_t demoted = 0;
};

/// `story` must be on the clock of operations, with the scale and limit of the options. Throws ToolError when the pool
/// refuses, or a byte was wrong.
Film film_pool(const Story &story, const ReplayOptions &options, uint32_t frames,
               const std::function<void(uint64_t operations, uint64_t of)> &progress,
               PoolNumbers *numbers);

}  // namespace weir::tool::frag
