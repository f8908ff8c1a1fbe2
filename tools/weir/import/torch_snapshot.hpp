// SPDX-License-Identifier: Apache-2.0
//
// TorchSnapshot: what a memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot) says: what is allocated, what segments there are, and what
// was done before, as far as it was kept. It is read as plain data; what does not fit its shape is left out and counted.
#pragma once

#include "tools/weir/import/pickle.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weir::tool {

struct TorchEvent {
  enum class Kind : uint8_t { allocate, free, segment, segment_end, out_of_memory, snapshot };
  Kind kind = Kind::allocate;
  uint32_t device = 0;
  uint32_t name = 0;   ///< of TorchSnapshot::names
  uint32_t stack = 0;  ///< of TorchSnapshot::stacks
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t stream = 0;
  uint64_t time_us = 0;
};

struct TorchBlock {
  uint32_t device = 0;
  uint32_t name = 0;
  uint32_t stack = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t stream = 0;
};

struct TorchSnapshot {
  std::vector<std::string> names;  ///< where an allocation was made; the first is ""
  /// Which calls led there, the outermost first, with ";" between them; the last is the name. The first is "".
  std::vector<std::string> stacks;
  std::vector<TorchEvent> events;              ///< of all devices, in time
  std::vector<TorchBlock> blocks;              ///< allocated at the end
  std::map<uint32_t, uint64_t> segment_bytes;  ///< at the end, by device
  uint64_t left_out = 0;                       ///< that had not the shape of an event or a block
  bool timed = true;                           ///< the events have times
};

/// Throws ToolError if it is no such snapshot.
TorchSnapshot read_torch_snapshot(const Pickle &pickle);

}  // namespace weir::tool
