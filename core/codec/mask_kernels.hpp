// SPDX-License-Identifier: Apache-2.0
//
// The kernels of MASK: whole groups of 64 bytes to words of 64 bits and back, and no byte beyond.
#pragma once

#include "core/codec/cpu.hpp"

#include <cstdint>

namespace weir::codec {

constexpr uint64_t mask_group = 64;

struct MaskKernels {
  /// False at a third value; the words up to there may be written.
  bool (*pack)(const unsigned char *in, uint64_t groups, uint8_t first, uint8_t other,
               unsigned char *bits) noexcept;
  void (*unpack)(const unsigned char *bits, uint64_t groups, uint8_t first, uint8_t other,
                 unsigned char *out) noexcept;
};

/// Only where cpu_has() the level.
const MaskKernels &mask_kernels(CpuLevel level) noexcept;

extern const MaskKernels mask_scalar, mask_avx2, mask_avx512, mask_neon;

}  // namespace weir::codec
