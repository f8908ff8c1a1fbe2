// SPDX-License-Identifier: Apache-2.0
//
// MASK: bytes that have only two values, whichever they are, as dropout masks do: a bit for each.
//
// A coded block:
//    0  u8   the first byte
//    1  u8   the other value; the same again if there is none
//    2       a bit for each byte, from the lowest of the first one on: set if it has the other value; what is left of
//            the last one is 0
//
// The same bytes give the same block at every level. Never touches a byte outside the ranges it is given, whatever is
// in them. No state, any thread.
#pragma once

#include "core/codec/cpu.hpp"

#include <cstdint>

namespace weir::codec {

/// The coded bytes; 0 if there is a third value (which mostly shows at once), no byte at all, or more than `room`.
uint64_t mask_encode(const unsigned char *in, uint64_t raw, unsigned char *out, uint64_t room,
                     CpuLevel level = cpu_level()) noexcept;

/// False if that is no block of `raw` bytes coded by MASK; `out` may then be partly written.
bool mask_decode(const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw,
                 CpuLevel level = cpu_level()) noexcept;

}  // namespace weir::codec
