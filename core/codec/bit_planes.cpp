// SPDX-License-Identifier: Apache-2.0
//
// Bitmaps come from squares of 8 by 8 bits, turned over in a register of 64.

#include "core/codec/bit_planes.hpp"

#include "core/codec/little_endian.hpp"
#include "core/codec/targets.hpp"

#include <bit>
#include <cstring>

namespace weir::codec {
namespace {

constexpr uint32_t squares = bit_group / 8;

/// Bit i of byte j becomes bit j of byte i.
inline uint64_t turned(uint64_t square) noexcept {
  uint64_t swap = (square ^ square >> 7U) & 0x00AA00AA00AA00AAU;
  square ^= swap ^ swap << 7U;
  swap = (square ^ square >> 14U) & 0x0000CCCC0000CCCCU;
  square ^= swap ^ swap << 14U;
  swap = (square ^ square >> 28U) & 0x00000000F0F0F0F0U;
  return square ^ swap ^ swap << 28U;
}

/// The lowest bits of 64 bytes become that many bitmaps.
void write_bitmaps(const unsigned char *plane, uint32_t bits, unsigned char *out) noexcept {
  uint64_t rows[squares];
  WEIR_UNROLL
  for (uint32_t i = 0; i < squares; ++i) rows[i] = turned(load_little<uint64_t>(plane + 8 * i));
  // Byte j of row i is byte i of bitmap j.
  for (uint32_t bit = 0; bit < bits; ++bit) {
    uint64_t map = 0;
    WEIR_UNROLL
    for (uint32_t i = 0; i < squares; ++i) map |= (rows[i] >> (8 * bit) & 0xFFU) << (8 * i);
    store_little(out + 8 * bit, map);
  }
}

void read_bitmaps(const unsigned char *in, uint32_t bits, unsigned char *plane) noexcept {
  uint64_t rows[squares] = {};
  for (uint32_t bit = 0; bit < bits; ++bit) {
    const auto map = load_little<uint64_t>(in + 8 * bit);
    WEIR_UNROLL
    for (uint32_t i = 0; i < squares; ++i) rows[i] |= (map >> (8 * i) & 0xFFU) << (8 * bit);
  }
  WEIR_UNROLL
  for (uint32_t i = 0; i < squares; ++i) store_little(plane + 8 * i, turned(rows[i]));
}

/// All bits that any of the 64 bytes has.
inline uint32_t bits_in(const unsigned char *plane) noexcept {
  uint64_t any = 0;
  for (uint32_t i = 0; i < squares; ++i) {
    uint64_t word;
    std::memcpy(&word, plane + 8 * i, sizeof word);
    any |= word;
  }
  any |= any >> 32U;
  any |= any >> 16U;
  any |= any >> 8U;
  return static_cast<uint32_t>(any & 0xFFU);
}

}  // namespace

uint64_t pack_bits(const unsigned char *planes, uint64_t groups, uint32_t width, unsigned char *out,
                   uint64_t room) noexcept {
  const uint64_t plane = groups * bit_group;
  uint64_t at = groups;
  if (room < at) return 0;
  for (uint64_t group = 0; group < groups; ++group) {
    const unsigned char *const from = planes + group * bit_group;
    uint32_t whole = width, above = 0;
    while (whole > 0 && above == 0) above = bits_in(from + --whole * plane);
    auto bits = static_cast<uint32_t>(std::bit_width(above));
    if (bits == 8) ++whole, bits = 0;
    if (room - at < 8 * (8 * whole + bits)) return 0;
    out[group] = static_cast<unsigned char>(8 * whole + bits);
    for (uint32_t k = 0; k < whole; ++k, at += bit_group)
      std::memcpy(out + at, from + k * plane, bit_group);
    if (bits > 0) write_bitmaps(from + whole * plane, bits, out + at);
    at += 8 * bits;
  }
  return at;
}

bool unpack_bits(const unsigned char *in, uint64_t bytes, uint64_t groups, uint32_t width,
                 unsigned char *planes) noexcept {
  const uint64_t plane = groups * bit_group;
  uint64_t at = groups;
  if (bytes < at) return false;
  for (uint64_t group = 0; group < groups; ++group) {
    unsigned char *const to = planes + group * bit_group;
    const uint32_t whole = in[group] / 8, bits = in[group] % 8;
    if (in[group] > 8 * width || bytes - at < 8 * uint64_t{in[group]}) return false;
    for (uint32_t k = 0; k < whole; ++k, at += bit_group)
      std::memcpy(to + k * plane, in + at, bit_group);
    uint32_t k = whole;
    if (bits > 0) read_bitmaps(in + at, bits, to + k++ * plane);
    at += 8 * bits;
    for (; k < width; ++k) std::memset(to + k * plane, 0, bit_group);
  }
  return at == bytes;
}

}  // namespace weir::codec
