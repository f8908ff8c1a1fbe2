// SPDX-License-Identifier: Apache-2.0
//
// FX for doubles. Their exponents have 11 bits, and of a block nearly always lie within 254 of each other, or are those of zeros
// or of what is not finite: so each becomes a byte, and the bytes a block of FX in their turn. Of a double rotated to the
// left by one bit, the lower six bytes are planes, and the five bits between them and the exponent are bitmaps.
//
// A coded block, G being its whole groups of 64 elements:
//    0  u8   form: f64
//    1  u8   0
//    2  u16  first, 1 to 1793, little-endian: a byte b of 1 to 254 is the exponent first + b - 1, 0 is 0, and 255 is 2047
//    4       for each group six planes of 64 bytes, the least significant first, and five bitmaps of 8
//            the exponents' block; the raw bytes behind the last group
#pragma once

#include "core/codec/cpu.hpp"

#include <cstdint>

namespace weir::codec {

class DecodedSum;

/// As fx_encode. Returns 0 also where an exponent is not among the 256.
uint64_t fx_encode_doubles(const unsigned char *in, uint64_t raw, unsigned char *out, uint64_t room,
                           CpuLevel level) noexcept;

/// Whether a block of FX is one of doubles.
bool fx_of_doubles(const unsigned char *in, uint64_t bytes) noexcept;

/// As fx_decode; all of the block is added to *sum, unless that is nullptr.
bool fx_decode_doubles(const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw,
                       CpuLevel level, DecodedSum *sum) noexcept;

uint64_t fx_estimate_doubles(const unsigned char *in, uint64_t raw) noexcept;

}  // namespace weir::codec
