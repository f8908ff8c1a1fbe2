// SPDX-License-Identifier: Apache-2.0
//
// Oracle: what a manager that knows the whole trace would move, at block granularity: it evicts the
// block whose next use is farthest, writes back only what is dirty and used again, fetches only
// what is read. With perfect overlap of compute and both directions of the link this gives a
// slowdown to compare with; it is no true optimum.
#pragma once

#include "plan.hpp"

#include <cstdint>
#include <optional>

namespace weir::tool {

struct OracleTraffic {
  uint64_t fetched = 0;
  uint64_t written_back = 0;
  uint64_t dropped_clean = 0;
  uint64_t overfull = 0;  ///< operations whose whole blocks alone exceed the capacity
};

OracleTraffic run_oracle(const Plan &plan, uint64_t capacity);

/// max(compute, fetched / link, written back / link) / compute; nothing if there is no compute or
/// no link speed.
std::optional<double> oracle_slowdown(const OracleTraffic &traffic, double compute_seconds,
                                      double link_bytes_per_second);

}  // namespace weir::tool
