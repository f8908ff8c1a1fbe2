// SPDX-License-Identifier: Apache-2.0
//
// The loops of NARROW, one set for each level that has its own; all give the same bytes. `count` is in elements, and a
// multiple of narrow_step.
#pragma once

#include "core/codec/cpu.hpp"
#include "core/codec/form.hpp"

#include <cstdint>

namespace weir::codec {

inline constexpr uint64_t narrow_step = 16;

/// False: some value does not fit exactly; `out` is then partly written.
using NarrowLoop = bool (*)(const unsigned char *in, unsigned char *out, uint64_t count) noexcept;

/// Those of one form. Only `to` can fail.
struct NarrowLoops {
  NarrowLoop round;  ///< elements of four bytes; in place if wanted
  NarrowLoop to;     ///< to two bytes each
  NarrowLoop from;   ///< and back; `in` may be the last part of `out`
};
struct NarrowKernels {
  NarrowLoops bf16, f16;
  const NarrowLoops &of(Form form) const noexcept { return form == Form::bf16 ? bf16 : f16; }
};

const NarrowKernels &narrow_kernels(CpuLevel level) noexcept;
extern const NarrowKernels narrow_scalar, narrow_avx2;

/// One element, as bits.
uint32_t round_to_bf16(uint32_t bits) noexcept;
uint32_t round_to_f16(uint32_t bits) noexcept;

}  // namespace weir::codec
