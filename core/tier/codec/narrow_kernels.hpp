// SPDX-License-Identifier: Apache-2.0
//
// The loops of NARROW, one set for each level that has its own; all give the same bytes. `count` is in elements, and a
// multiple of narrow_step.
#pragma once

#include "core/tier/codec/cpu.hpp"

#include <cstdint>

namespace weir::tier {

inline constexpr uint64_t narrow_step = 16;

struct NarrowKernels {
  /// Elements of four bytes, rounded; in place if wanted.
  void (*round_bf16)(const unsigned char *in, unsigned char *out, uint64_t count) noexcept;
  void (*round_f16)(const unsigned char *in, unsigned char *out, uint64_t count) noexcept;
  /// To two bytes each. False: some value does not fit exactly; `out` is then partly written.
  bool (*to_bf16)(const unsigned char *in, unsigned char *out, uint64_t count) noexcept;
  bool (*to_f16)(const unsigned char *in, unsigned char *out, uint64_t count) noexcept;
  /// And back; `in` may be the last part of `out`.
  void (*from_bf16)(const unsigned char *in, unsigned char *out, uint64_t count) noexcept;
  void (*from_f16)(const unsigned char *in, unsigned char *out, uint64_t count) noexcept;
};

const NarrowKernels &narrow_kernels(CpuLevel level) noexcept;
extern const NarrowKernels narrow_scalar, narrow_avx2;

/// One element, as bits.
uint32_t round_to_bf16(uint32_t bits) noexcept;
uint32_t round_to_f16(uint32_t bits) noexcept;

}  // namespace weir::tier
