// SPDX-License-Identifier: Apache-2.0
//
// FX: floats whose exponents lie close together, and most do. The sign goes to the lowest bit; the exponent is coded in
// k = 1 to 5 bits as its place in a window of 2^k - 1 exponents that is chosen per block, or escapes as a byte; sign
// and mantissa stay as they are. Where all have one sign it stays on top instead, and is coded with the exponent. No entropy coding and no variable length but the escapes', so it runs near memory's
// speed. Every length is taken: what is no whole group of 64 elements is stored as it is.
//
// A coded block, but one of f64 (fx_doubles.hpp):
//    0  u8   form: f16, bf16 or f32
//    1  u8   k
//    2  u8   base, the first exponent of the window; the window ends within the form's exponents
//    3  u8   bit 0: elements are not rotated; bit 1: escapes are coded, in their turn, as a block of FX of bytes
//    4  u32  number of escapes, little-endian
//    8       planes low, middle, bitmaps (fx_kernels.hpp), escapes, and the raw bytes behind the last whole group
//
// The same bytes give the same block at every level. Never touches a byte outside the ranges it is given, whatever is
// in them. No state, any thread; some 45 KiB of stack.
#pragma once

#include "core/codec/cpu.hpp"
#include "core/codec/form.hpp"

#include <cstdint>

namespace weir::codec {

class DecodedSum;

/// The coded bytes; 0 if they are more than `room`, or FX has no such form (bytes), or cannot code these doubles. The window comes from a sample
/// of the block, which is the whole of a small one.
uint64_t fx_encode(Form form, const unsigned char *in, uint64_t raw, unsigned char *out,
                   uint64_t room, CpuLevel level = cpu_level()) noexcept;

/// False if that is no block of `raw` bytes coded by FX; `out` may then be partly written.
bool fx_decode(const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw,
               CpuLevel level = cpu_level(), Stores stores = Stores::cached) noexcept;

/// The same with cached stores, and all of the block is added to *sum, unless that is nullptr.
bool fx_decode_summed(const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw,
                      CpuLevel level, DecodedSum *sum) noexcept;

/// About what fx_encode would return with room enough, from its sample alone. 0: as of fx_encode.
uint64_t fx_estimate(Form form, const unsigned char *in, uint64_t raw) noexcept;

}  // namespace weir::codec
