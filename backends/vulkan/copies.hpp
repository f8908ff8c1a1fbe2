// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills: from addresses to buffers and offsets, checked before they are enqueued, since a command that
// touches memory that is not there takes the whole device down with it.
#pragma once

#include "backends/vulkan/memory.hpp"
#include "backends/vulkan/streams.hpp"
#include "backends/vulkan/virtual_memory.hpp"

#include <vector>

namespace weir::vulkan {

class Copies {
 public:
  Copies(const Memory &memory, const VirtualMemory &space) noexcept
      : memory_(memory), space_(space) {}

  weir_result copy(Stream &stream, const weir_be_copy &copy) const;
  weir_result copy_batch(Stream &stream, const weir_be_copy *copies, uint32_t count) const;
  weir_result fill(Stream &stream, uint64_t address, uint8_t value, uint64_t bytes) const;

 private:
  weir_result find(const Stream &stream, const char *side, uint64_t address, uint64_t bytes,
                   Spot *spot) const;
  weir_result command_of(const Stream &stream, const weir_be_copy &copy, Command *command) const;

  const Memory &memory_;
  const VirtualMemory &space_;
};

}  // namespace weir::vulkan
