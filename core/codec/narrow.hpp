// SPDX-License-Identifier: Apache-2.0
//
// NARROW: floats of four bytes whose values all are such as bf16 or f16 has, as where a program keeps in f32 what it
// computed in mixed precision, or a buffer was declared to be rounded so (round_floats). They are stored as those, in two
// bytes each, coded by FX or SPARSE; lossless: every bit comes back.
//
// A coded block:
//    0  u8   form of the halves, f16 or bf16
//    1  u24  0
//    4       for each 64 KiB of raw bytes, the last may be shorter: a little-endian 32-bit word, of which the upper two
//            bits tell how the halves are coded (0: as they are, 1: a block of FX, 2: a block of SPARSE) and the others how
//            many bytes that takes; and these bytes
//            the raw bytes behind the last whole element
//
// The same bytes give the same block at every level. Never touches a byte outside the ranges it is given, whatever is
// in them. No state, any thread; some 80 KiB of stack. Rounding wants the processor to round to nearest, as it does by default.
#pragma once

#include "core/codec/cpu.hpp"
#include "core/codec/form.hpp"

#include <cstdint>

namespace weir::codec {

/// The coded bytes; 0 if they are more than `room`, or some value is neither bf16's nor f16's.
uint64_t narrow_encode(const unsigned char *in, uint64_t raw, unsigned char *out, uint64_t room,
                       CpuLevel level = cpu_level()) noexcept;

/// False if that is no block of `raw` bytes coded by NARROW; `out` may then be partly written.
bool narrow_decode(const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw,
                   CpuLevel level = cpu_level()) noexcept;

/// The 2-byte form that all of some elements, spread over the bytes, have the values of; `bytes`: neither has.
Form narrow_form(const unsigned char *in, uint64_t raw) noexcept;

/// Rounds floats of four bytes, little-endian, to the nearest value of `to` (f16 or bf16), ties to even; `in` and `out` may be
/// the same. What must hold for every element x and what becomes of it:
///  - x is a value of `to`, an infinity or zero (of either sign): the same bits.
///  - x is a NaN: a NaN of the same sign and the upper bits of its payload.
///  - x is finite and would round to infinity (|x| >= 65520 for f16, >= 2^128 - 2^119 for bf16): the same bits, exact.
///  - else the error is at most |x| / 2^8 for bf16 (2^-134 where |x| < 2^-126), |x| / 2^11 for f16 (2^-25 where |x| < 2^-14):
///    half a unit in the last place of 8 and of 11 bits (IEEE 754, roundTiesToEven).
/// The bytes behind the last whole element stay as they are.
void round_floats(Form to, const unsigned char *in, unsigned char *out, uint64_t bytes,
                  CpuLevel level = cpu_level()) noexcept;

}  // namespace weir::codec
