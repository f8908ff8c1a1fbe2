// SPDX-License-Identifier: Apache-2.0
//
// What the prefetchers are asked for, by whoever asks: bytes of a buffer that are to come to a device for nobody's lease.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace weir::residency {

struct PrefetchRequest {
  uint32_t buffer;
  uint64_t generation;
  uint64_t begin, end;
  uint8_t mode, place;
  uint32_t slot = 0;    ///< of the stream that announced it; 0: asked for by a call ...
  size_t use = 0;       ///< ... as this use ...
  uint64_t number = 0;  ///< ... of this operation
  bool remote = false;  ///< not if the use can be granted where the bytes are
  bool lend = false;    ///< to a neighbour that has memory to spare (rebalance.hpp)
};
using PrefetchBatch = std::pmr::vector<PrefetchRequest>;

}  // namespace weir::residency
