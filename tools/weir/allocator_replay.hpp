// SPDX-License-Identifier: Apache-2.0
//
// `weir replay --allocator-only`: the allocations and frees of a trace, and nothing else of it, on each placement: what is
// reserved at its peak, the smallest capacity that the whole trace survives, what is moved. One stream; what is freed may
// be used again at once. Tags are not looked at.
#pragma once

#include "placement.hpp"
#include "text.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir::tool {

/// The 'a' and 'f' lines of a trace, in order.
struct AllocatorTrace {
  std::string name;
  std::vector<uint32_t> events;       ///< block << 1, and 1 for a free
  std::vector<uint64_t> block_bytes;  ///< by block
  uint64_t peak_live_bytes = 0;
  uint64_t allocated_bytes = 0;
  std::vector<std::string> notes;  ///< what of a trace of version 2 was left out, in sentences
};
constexpr bool is_free(uint32_t event) { return (event & 1U) != 0; }
constexpr uint32_t block_of(uint32_t event) { return event >> 1U; }

/// Throws ToolError with line number and text at the first line that breaks a rule.
AllocatorTrace read_allocator_trace(const std::string &path);

struct AllocatorOptions {
  std::string trace;
  std::vector<PlacementKind> placements;
  std::optional<SizeOrShare> capacity;  ///< nothing: unlimited
  uint64_t granule = uint64_t{2} << 20;
  bool json = false;
  std::string json_out;
};

/// As they stand on the command line.
struct AllocatorFlags {
  bool allocator_only = false;
  std::vector<std::string> placements;
  std::string capacity;
};

/// Throws ToolError naming the flag and its value.
AllocatorOptions check_allocator_flags(const AllocatorFlags &flags, const std::string &trace,
                                       const std::string &granule, bool json,
                                       const std::string &json_out);

struct FragmentationSample {
  uint64_t operation = 0;  ///< allocations and frees done
  uint64_t live_bytes = 0;
  uint64_t reserved_bytes = 0;
  uint64_t moved_bytes = 0;
};

/// What one placement did with the trace.
struct PlacementResult {
  PlacementKind kind = PlacementKind::multi_map;
  bool survived = false;       ///< the run with the capacity asked for
  uint64_t operations = 0;     ///< done in it
  uint64_t refused_bytes = 0;  ///< of the allocation that was refused
  PlacementCounters counters;  ///< of that run
  std::vector<FragmentationSample> fragmentation;
  double seconds = 0;
  uint64_t min_capacity_bytes = 0;
  uint64_t min_capacity_moved_bytes = 0;
};

/// Runs the trace once.
PlacementResult replay_allocations(const AllocatorTrace &trace, PlacementKind kind,
                                   const PlacementOptions &options);
/// The smallest capacity, in granules, that the whole trace survives, found by bisection; what was moved at it.
void find_min_capacity(const AllocatorTrace &trace, const PlacementOptions &options,
                       PlacementResult *result);

struct AllocatorReport {
  const AllocatorOptions *options = nullptr;
  const AllocatorTrace *trace = nullptr;
  uint64_t capacity = UINT64_MAX;
  std::vector<PlacementResult> results;
};
std::string allocator_report_json(const AllocatorReport &report);
std::string allocator_report_text(const AllocatorReport &report);

int run_allocator_replay(const AllocatorOptions &options);

}  // namespace weir::tool
