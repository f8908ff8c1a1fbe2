// SPDX-License-Identifier: Apache-2.0
//
// SPARSE: elements of which many are zero, all bits of them, as those behind a ReLU or above a causal mask's diagonal.
// A bit for each says whether it is zero; the others stand one behind the other, as they are or, where their form has
// exponents and a sample says that it pays, coded by FX. Worth trying above 15 percent of zeros.
//
// A coded block:
//    0  u8   form, of which only the element's bytes matter here
//    1  u8   1: the nonzeros are a block of FX, else 0
//    2  u16  0
//    4  u32  number of nonzeros, little-endian
//    8       for each 64 elements a little-endian 64-bit word, bit i set: element i is not zero
//            the nonzeros, and the raw bytes behind the last whole 64 elements
//
// The same bytes give the same block at every level. Never touches a byte outside the ranges it is given, whatever is
// in them. No state, any thread; some 45 KiB of stack.
#pragma once

#include "core/codec/cpu.hpp"
#include "core/codec/form.hpp"

#include <cstdint>

namespace weir::codec {

class DecodedSum;

/// The coded bytes; 0 if they are more than `room`.
uint64_t sparse_encode(Form form, const unsigned char *in, uint64_t raw, unsigned char *out,
                       uint64_t room, CpuLevel level = cpu_level()) noexcept;

/// False if that is no block of `raw` bytes coded by SPARSE; `out` may then be partly written.
bool sparse_decode(const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw,
                   CpuLevel level = cpu_level(), Stores stores = Stores::cached) noexcept;

/// The same with cached stores, and all of the block is added to *sum, unless that is nullptr.
bool sparse_decode_summed(const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw,
                          CpuLevel level, DecodedSum *sum) noexcept;

/// About what sparse_encode would return with room enough, from a sample alone.
uint64_t sparse_estimate(Form form, const unsigned char *in, uint64_t raw) noexcept;

}  // namespace weir::codec
