// SPDX-License-Identifier: Apache-2.0
//
// FX without vector instructions, for any machine of either byte order. Bitmaps are made and spread eight bytes at a
// time in a 64-bit word, of which the lowest byte is the first element's.

#include "core/codec/fx_kernels.hpp"
#include "core/codec/little_endian.hpp"
#include "core/codec/targets.hpp"

namespace weir::codec {
namespace {

constexpr uint64_t ones = 0x0101010101010101;

/// Bit i of the result is the lowest bit of byte i.
inline uint64_t gather_bits(uint64_t bytes) { return ((bytes & ones) * 0x0102040810204080) >> 56U; }

/// Byte i of the result is bit i of the lowest byte, as 0 or 1.
inline uint64_t spread_bits(uint64_t bits) {
  const uint64_t apart = ((bits & 0xFFU) * ones) & 0x8040201008040201;
  return ((apart + 0x7F * ones) >> 7U) & ones;
}

/// Both give which elements have any of the bits.
template <uint32_t count>
uint64_t store_bitmaps(const unsigned char *codes, unsigned char *to) {
  uint64_t maps[count] = {}, any = 0;
  for (uint32_t at = 0; at < fx_group; at += 8) {
    const auto word = load_little<uint64_t>(codes + at);
    WEIR_UNROLL
    for (uint32_t bit = 0; bit < count; ++bit) maps[bit] |= gather_bits(word >> bit) << at;
  }
  WEIR_UNROLL
  for (uint32_t bit = 0; bit < count; ++bit) {
    store_little(to + 8 * bit, maps[bit]);
    any |= maps[bit];
  }
  return any;
}

template <uint32_t count>
uint64_t load_bitmaps(const unsigned char *from, unsigned char *codes) {
  uint64_t maps[count], any = 0;
  WEIR_UNROLL
  for (uint32_t bit = 0; bit < count; ++bit) {
    maps[bit] = load_little<uint64_t>(from + 8 * bit);
    any |= maps[bit];
  }
  for (uint32_t at = 0; at < fx_group; at += 8) {
    uint64_t word = 0;
    WEIR_UNROLL
    for (uint32_t bit = 0; bit < count; ++bit) word |= spread_bits(maps[bit] >> at) << bit;
    store_little(codes + at, word);
  }
  return any;
}

/// Takes 64 elements apart: low and middle to their planes, the exponents to `exponents`.
template <Form form, bool rotated>
void split(const unsigned char *in, FxTarget &to, unsigned char *exponents) {
  if constexpr (form == Form::bytes) {
    __builtin_memcpy(exponents, in, fx_group);
  } else if constexpr (form == Form::f32) {
    for (uint32_t i = 0; i < fx_group; ++i) {
      const auto bits = load_little<uint32_t>(in + 4 * i);
      const uint32_t word = rotated ? bits << 1U | bits >> 31U : bits;
      store_little(to.low + 2 * i, static_cast<uint16_t>(word));
      to.middle[i] = static_cast<unsigned char>(word >> 16U);
      exponents[i] = static_cast<unsigned char>(word >> 24U);
    }
  } else {
    unsigned char middle[fx_group];
    for (uint32_t i = 0; i < fx_group; ++i) {
      const uint32_t bits = load_little<uint16_t>(in + 2 * i);
      const uint32_t word = rotated ? bits << 1U | bits >> 15U : bits;
      to.low[i] = static_cast<unsigned char>(word);
      const auto high = static_cast<unsigned char>(word >> 8U);
      middle[i] = high & 7U;
      exponents[i] = form == Form::f16 ? high >> 3U : high;
    }
    if constexpr (form == Form::f16) store_bitmaps<3>(middle, to.middle);
  }
  to.low += fx_low_bytes(form);
  to.middle += fx_middle_bytes(form);
}

template <Form form, bool rotated>
void join(FxSource &from, const unsigned char *exponents, unsigned char *out) {
  if constexpr (form == Form::bytes) {
    __builtin_memcpy(out, exponents, fx_group);
  } else if constexpr (form == Form::f32) {
    for (uint32_t i = 0; i < fx_group; ++i) {
      const uint32_t word = load_little<uint16_t>(from.low + 2 * i) |
                            static_cast<uint32_t>(from.middle[i]) << 16U |
                            static_cast<uint32_t>(exponents[i]) << 24U;
      store_little(out + 4 * i, rotated ? word >> 1U | word << 31U : word);
    }
  } else {
    unsigned char middle[fx_group] = {};
    if constexpr (form == Form::f16) load_bitmaps<3>(from.middle, middle);
    for (uint32_t i = 0; i < fx_group; ++i) {
      const uint32_t high =
          form == Form::f16 ? uint32_t{exponents[i]} << 3U | middle[i] : uint32_t{exponents[i]};
      const uint32_t word = from.low[i] | high << 8U;
      const uint32_t bits = rotated ? word >> 1U | word << 15U : word;
      store_little(out + 2 * i, static_cast<uint16_t>(bits));
    }
  }
  from.low += fx_low_bytes(form);
  from.middle += fx_middle_bytes(form);
}

template <Form form, bool rotated, uint32_t k>
struct Code {
  static void encode(const unsigned char *in, uint64_t groups, uint8_t base,
                     FxTarget &to) noexcept {
    unsigned char exponents[fx_group], codes[fx_group];
    for (; groups > 0; --groups, in += fx_group * element_bytes(form)) {
      split<form, rotated>(in, to, exponents);
      for (uint32_t i = 0; i < fx_group; ++i) {
        const auto offset = static_cast<unsigned char>(exponents[i] - base);
        const auto code = static_cast<unsigned char>(offset + 1);
        codes[i] = offset < fx_window(k) ? code : 0;
      }
      uint64_t left = ~store_bitmaps<k>(codes, to.bitmaps);
      to.bitmaps += 8 * k;
      for (; left != 0; left &= left - 1) *to.escapes++ = exponents[__builtin_ctzll(left)];
    }
  }

  static void decode(FxSource &from, uint64_t groups, uint8_t base, unsigned char *out,
                     bool /*streaming*/) noexcept {
    unsigned char exponents[fx_group];
    for (; groups > 0; --groups, out += fx_group * element_bytes(form)) {
      uint64_t left = ~load_bitmaps<k>(from.bitmaps, exponents);
      from.bitmaps += 8 * k;
      for (uint32_t i = 0; i < fx_group; ++i)
        exponents[i] = static_cast<unsigned char>(exponents[i] + base - 1);
      for (; left != 0; left &= left - 1) exponents[__builtin_ctzll(left)] = *from.escapes++;
      join<form, rotated>(from, exponents, out);
    }
  }
};

}  // namespace

constexpr FxKernels fx_scalar = fx_table<Code>(no_fence);

const FxKernels &fx_kernels(CpuLevel level) noexcept {
  return table_of<fx_scalar, fx_avx2, fx_avx512, fx_neon>(level);
}

}  // namespace weir::codec
