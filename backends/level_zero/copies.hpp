// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills, checked before they are enqueued: a command that touches memory that is not there takes the
// whole context down with it.
#pragma once

#include "backends/level_zero/memory.hpp"
#include "backends/level_zero/streams.hpp"
#include "backends/level_zero/virtual_memory.hpp"

namespace weir::level_zero {

class Copies {
 public:
  Copies(const Platform &platform, const VirtualMemory &space, const Memory &memory) noexcept
      : platform_(platform), space_(space), memory_(memory) {}

  weir_result copy(Stream &stream, const weir_be_copy &copy) const;
  weir_result fill(Stream &stream, uint64_t address, uint8_t value, uint64_t bytes) const;

 private:
  /// Whether the stream's device may touch [address, +bytes); *device is whose memory it is.
  weir_result check(const Stream &stream, const char *side, uint64_t address, uint64_t bytes,
                    uint32_t *device) const;

  const Platform &platform_;
  const VirtualMemory &space_;
  const Memory &memory_;
};

}  // namespace weir::level_zero
