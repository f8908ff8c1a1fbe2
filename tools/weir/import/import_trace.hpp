// SPDX-License-Identifier: Apache-2.0
//
// A memory snapshot of PyTorch becomes a trace "#vmt 2": its allocations are weir_malloc and weir_free on the streams that they were on. What
// was allocated before the snapshot's history begins is allocated first.
#pragma once

#include "tools/weir/import/torch_snapshot.hpp"

#include <cstdint>
#include <string>

namespace weir::tool {

struct ImportResult {
  std::string trace;  ///< the file
  uint64_t allocations = 0;
  uint64_t before = 0;  ///< of them, those that the history does not tell of
  uint64_t frees = 0;
  uint64_t devices = 0;
  uint64_t streams = 0;
  uint64_t peak_live_bytes = 0;
  uint64_t peak_reserved_bytes = 0;  ///< of segments, each device's added up
  uint64_t left_out = 0;             ///< events that do not fit the others
};

/// `name` is the trace's.
ImportResult import_trace(const TorchSnapshot &snapshot, const std::string &name, bool compressed);

}  // namespace weir::tool
