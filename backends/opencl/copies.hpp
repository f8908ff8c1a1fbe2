// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills, checked before they are enqueued: each side is one known range, of the stream's device or of the
// host.
#pragma once

#include "backends/opencl/memory.hpp"
#include "backends/opencl/streams.hpp"

namespace weir::opencl {

class Copies {
 public:
  explicit Copies(const Memory &memory) noexcept : memory_(memory) {}

  weir_result copy(Stream &stream, const weir_be_copy &copy) const;
  weir_result fill(Stream &stream, uint64_t address, uint8_t value, uint64_t bytes) const;

 private:
  weir_result check(const Stream &stream, const char *side, uint64_t address, uint64_t bytes,
                    uint32_t *device) const;
  const Memory &memory_;
};

}  // namespace weir::opencl
