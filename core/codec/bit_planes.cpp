// SPDX-License-Identifier: Apache-2.0
//
// Packing: how many bits a group needs, and its bitmaps, by SSE2 where there is (every x86-64 has it).

#include "core/codec/bit_planes.hpp"

#include "core/codec/little_endian.hpp"
#include "core/codec/targets.hpp"

#if WEIR_X86_KERNELS
#include <emmintrin.h>
#endif

#include <bit>
#include <cstring>

namespace weir::codec {
namespace {

#if WEIR_X86_KERNELS

constexpr uint32_t quarters = bit_group / 16;

inline __m128i quarter(const unsigned char *plane, uint32_t index) noexcept {
  return _mm_loadu_si128(reinterpret_cast<const __m128i *>(plane + 16 * index));
}

/// The lowest bits of 64 bytes become that many bitmaps. From the highest on: doubling a byte brings the next to its top.
void write_bitmaps(const unsigned char *plane, uint32_t bits, unsigned char *out) noexcept {
  for (uint32_t i = 0; i < quarters; ++i) {
    __m128i bytes = _mm_slli_epi16(quarter(plane, i), static_cast<int>(8 - bits));
    for (uint32_t bit = bits; bit-- > 0;) {
      const auto map = static_cast<uint16_t>(_mm_movemask_epi8(bytes));
      std::memcpy(out + 8 * bit + 2 * i, &map, sizeof map);
      bytes = _mm_add_epi8(bytes, bytes);
    }
  }
}

#else

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

/// The lowest bits of 64 bytes become that many bitmaps: squares of 8 by 8 bits, turned over in a register of 64.
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

#endif

/// All bits that any of the 64 bytes has.
inline uint32_t bits_in(const unsigned char *plane) noexcept {
  uint64_t words[bit_group / 8];
  std::memcpy(words, plane, sizeof words);
  uint64_t any = 0;
  for (const uint64_t word : words) any |= word;
  any |= any >> 32U;
  any |= any >> 16U;
  any |= any >> 8U;
  return static_cast<uint32_t>(any & 0xFFU);
}

}  // namespace

void pack_bitmaps(const unsigned char *plane, uint32_t bits, unsigned char *out) noexcept {
  write_bitmaps(plane, bits, out);
}

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

}  // namespace weir::codec
