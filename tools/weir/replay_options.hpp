// SPDX-License-Identifier: Apache-2.0
//
// ReplayOptions: the flags of `weir replay`, parsed and checked on their own. What depends on the
// trace (percentages, the page size) is settled later, by settle().
#pragma once

#include "footprint.hpp"
#include "pattern.hpp"
#include "plan.hpp"
#include "replayer.hpp"
#include "text.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir::tool {

struct ReplayOptions {
  std::string trace;
  SizeOrShare device_memory{0, 75.0};
  std::optional<SizeOrShare> given_device_memory;  ///< nothing: it was left at what is usual
  std::optional<SizeOrShare> host_memory;
  std::optional<SizeOrShare> neighbour;          ///< nothing = no second device
  std::optional<SizeOrShare> compressed_memory;  ///< nothing = no such tier
  std::optional<SizeOrShare> storage_size;       ///< nothing = enough for everything
  std::vector<std::string> storage;              ///< directories; none = no such tier
  std::string codec = "auto";
  bool codec_given = false;
  uint32_t compress_threads = 0;  ///< 0 = the library's choice
  bool encrypt_storage = false;
  bool buffered_storage = false;
  bool io_uring = true;
  uint64_t scale = 1;
  uint64_t granule = 0;  ///< 0 = by the trace
  DataMode data = DataMode::pattern;
  bool data_given = false;  ///< else a recorded program has contents that compress as its own did
  uint64_t seed = 1;
  std::optional<Pace> pace;
  std::string pace_text;
  bool recorded_pace = false;  ///< operations take as long as they took when they were recorded
  double recorded_slow = 1;
  bool as_operations = false;  ///< of a trace of version 2: what version 1 would tell
  bool vmm = true;
  bool multi_map = true;
  bool verify = true;
  bool warm_up = true;
  bool steps = false;
  bool touch = false;
  bool yardstick = false;
  bool all_resident = true;              ///< the run with everything in place, too
  std::string policy;                    ///< empty = the library's choice
  std::string policy_load, policy_save;  ///< files of what a policy has learned; empty = none
  bool virtual_time = false;             ///< then nothing is verified
  bool contents = true;                  ///< false: the same, of pages without bytes
  uint64_t check_one_in = 1;             ///< lines of 64 bytes
  uint64_t limit = UINT64_MAX;
  uint64_t announce = 32;  ///< announce_all = the whole plan
  uint64_t ahead = 64;
  std::string backend = "host";
  bool json = false;
  std::string json_out;
  bool progress = false;
};

/// The options as they stand on the command line.
struct ReplayFlags {
  std::string trace, device_memory, host_memory, neighbour, granule, data, pace, json_out;
  std::string compressed_memory, storage_size, codec, policy, policy_load, policy_save;
  std::vector<std::string> storage;
  uint64_t compress_threads = 0;
  std::string backend = "host";
  double slow = 1;
  uint64_t scale = 1, seed = 1, limit = UINT64_MAX, announce = 32, ahead = 64, check_one_in = 1;
  bool no_vmm = false, no_multi_map = false, no_verify = false, no_warm_up = false;
  bool yardstick = false, json = false, progress = false, steps = false, touch = false;
  bool virtual_time = false, no_contents = false, no_all_resident = false;
  bool encrypt_storage = false, buffered_storage = false, no_io_uring = false;
  bool as_operations = false;
};

/// Throws ToolError naming the flag and its value.
ReplayOptions check_replay_flags(const ReplayFlags &flags);

/// What the options come to for one trace.
struct Settings {
  uint64_t page = 0;
  uint64_t device_budget = 0;
  uint64_t neighbour_budget = 0;  ///< 0 = there is none
  uint64_t host_budget = 0;
  uint64_t compressed_budget = 0;  ///< 0 = no such tier
  uint64_t storage_budget = 0;     ///< 0 = no such tier
  uint64_t all_resident_budget = 0;
  Footprint footprint;
  std::string context_options;  ///< of the constrained run
  std::string all_resident_context_options;
  std::vector<std::string> notes;  ///< what was changed, in sentences
};

Settings settle(const ReplayOptions &options, const Plan &plan);

}  // namespace weir::tool
