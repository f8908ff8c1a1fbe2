// SPDX-License-Identifier: Apache-2.0
//
// Byte planes without the bits that nothing has: for smooth fields, whose differences are small. Elements are taken in
// groups of 64, and each group has as many bits of every element as its largest one needs: whole byte planes of 64 bytes,
// and above them bitmaps of 8 bytes. No entropy coding, so it runs at several times the speed of what has.
//
// Packed, all numbers little-endian:
//    0  u8[groups]  bits of each group's elements
//                   per group: byte planes 0 .. bits / 8 - 1; then bits % 8 bitmaps, bit i of the j-th is bit j of byte
//                   bits / 8 of element i
//
// The reverse, to the elements themselves, is packed_kernels.hpp.
//
// The same bytes on every processor. Takes no memory, and never touches what is outside of the ranges it is given.
#pragma once

#include <cstdint>

namespace weir::codec {

constexpr uint64_t bit_group = 64;

/// Packs planes of `groups` * bit_group bytes each, `width` of them one behind the other, into at most `room`. Returns the
/// length; 0: there is no room.
uint64_t pack_bits(const unsigned char *planes, uint64_t groups, uint32_t width, unsigned char *out,
                   uint64_t room) noexcept;

/// `bits` bitmaps of 64 bytes, none of which has others: bit i of the j-th is bit j of byte i.
void pack_bitmaps(const unsigned char *plane, uint32_t bits, unsigned char *out) noexcept;

}  // namespace weir::codec
