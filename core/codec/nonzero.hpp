// SPDX-License-Identifier: Apache-2.0
//
// Zeros taken out: a bitmap that tells which elements are not all zero bytes, and those elements alone. For what is half
// zeros or more (activations behind a ReLU, attention under a mask), where the planes of the rest code far better. The
// kernels are SPARSE's; what they touch beyond what counts, they may here too.
//
// Bit i % 8 of byte i / 8 of the bitmap stands for element i; the bits behind the last are zero. Widths are 1, 2, 4, 8.
#pragma once

#include "core/codec/sparse_kernels.hpp"

#include <cstdint>

namespace weir::codec {

constexpr uint64_t bitmap_bytes(uint64_t count) noexcept { return (count + 7) / 8; }

/// Writes bitmap_bytes(count) to `bitmap` and the nonzero elements to `kept`, and returns how many they are. Of `kept`
/// sparse_reach bytes behind them may be written too.
uint64_t take_zeros_out(const unsigned char *in, uint64_t count, uint32_t width,
                        unsigned char *bitmap, unsigned char *kept,
                        CpuLevel level = cpu_level()) noexcept;

/// How many elements a bitmap keeps; UINT64_MAX if a bit behind the last is set.
uint64_t kept_of(const unsigned char *bitmap, uint64_t count) noexcept;

/// The reverse: as many elements of `kept` as kept_of() said, spread over `count` at `out`. Of `kept` sparse_reach bytes
/// behind them may be read too.
void put_zeros_back(const unsigned char *bitmap, uint64_t count, uint32_t width,
                    const unsigned char *kept, unsigned char *out,
                    CpuLevel level = cpu_level()) noexcept;

}  // namespace weir::codec
