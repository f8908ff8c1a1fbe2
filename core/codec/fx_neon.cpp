// SPDX-License-Identifier: Apache-2.0
//
// FX for NEON: a group's exponents are four registers of 16 bytes. Escapes go through memory.

#include "core/codec/fx_kernels.hpp"
#include "core/codec/targets.hpp"

#if WEIR_NEON_KERNELS
#include <arm_neon.h>

#include <cstring>

namespace weir::codec {
namespace {

constexpr uint32_t lanes = 16;
constexpr uint32_t parts = fx_group / lanes;

inline uint8x16_t bit_weights() { return vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201)); }

/// Bit i is whether byte i of the four registers is not zero; those are 0 or 0xFF.
inline uint64_t bits_of(const uint8x16_t (&set)[parts]) {
  const uint8x16_t weights = bit_weights();
  const uint8x16_t first = vpaddq_u8(vandq_u8(set[0], weights), vandq_u8(set[1], weights));
  const uint8x16_t last = vpaddq_u8(vandq_u8(set[2], weights), vandq_u8(set[3], weights));
  const uint8x16_t all = vpaddq_u8(first, last);
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(all, all)), 0);
}

template <uint32_t count>
inline uint64_t store_bitmaps(const uint8x16_t (&codes)[parts], unsigned char *to) {
  uint64_t any = 0;
  WEIR_UNROLL
  for (uint32_t bit = 0; bit < count; ++bit) {
    const uint8x16_t mask = vdupq_n_u8(static_cast<uint8_t>(1U << bit));
    uint8x16_t set[parts];
    WEIR_UNROLL
    for (uint32_t i = 0; i < parts; ++i) set[i] = vtstq_u8(codes[i], mask);
    const uint64_t map = bits_of(set);
    std::memcpy(to + 8 * bit, &map, sizeof map);
    any |= map;
  }
  return any;
}

template <uint32_t count>
inline uint64_t load_bitmaps(const unsigned char *from, uint8x16_t (&codes)[parts]) {
  const uint8x16_t weights = bit_weights();
  const uint8x16_t byte_of = vcombine_u8(vdup_n_u8(0), vdup_n_u8(1));
  WEIR_UNROLL
  for (uint8x16_t &code : codes) code = vdupq_n_u8(0);
  uint64_t any = 0;
  WEIR_UNROLL
  for (uint32_t bit = 0; bit < count; ++bit) {
    uint64_t map;
    std::memcpy(&map, from + 8 * bit, sizeof map);
    any |= map;
    const uint8x16_t bytes = vreinterpretq_u8_u64(vdupq_n_u64(map));
    const uint8x16_t value = vdupq_n_u8(static_cast<uint8_t>(1U << bit));
    WEIR_UNROLL
    for (uint32_t i = 0; i < parts; ++i) {
      const uint8x16_t which = vaddq_u8(byte_of, vdupq_n_u8(static_cast<uint8_t>(2 * i)));
      const uint8x16_t set = vtstq_u8(vqtbl1q_u8(bytes, which), weights);
      codes[i] = vorrq_u8(codes[i], vandq_u8(set, value));
    }
  }
  return any;
}

/// To the left, by so many bits of 16 or of 32.
template <int by>
inline uint8x16_t rotate_16(uint8x16_t bytes) {
  if constexpr (by == 0) return bytes;
  const uint16x8_t words = vreinterpretq_u16_u8(bytes);
  return vreinterpretq_u8_u16(vsliq_n_u16(vshrq_n_u16(words, 16 - by), words, by));
}
template <int by>
inline uint8x16_t rotate_32(uint8x16_t bytes) {
  if constexpr (by == 0) return bytes;
  const uint32x4_t words = vreinterpretq_u32_u8(bytes);
  return vreinterpretq_u8_u32(vsliq_n_u32(vshrq_n_u32(words, 32 - by), words, by));
}

inline uint8x16_t load(const unsigned char *from) { return vld1q_u8(from); }
inline uint8x16_t even(uint8x16_t a, uint8x16_t b) { return vuzp1q_u8(a, b); }
inline uint8x16_t odd(uint8x16_t a, uint8x16_t b) { return vuzp2q_u8(a, b); }

/// Takes a part apart, 16 elements of f16 or bf16: gives the upper bytes.
template <bool rotated>
inline uint8x16_t split_16(const unsigned char *in, unsigned char *low) {
  constexpr int by = rotated ? 1 : 0;
  const uint8x16_t a = rotate_16<by>(load(in)), b = rotate_16<by>(load(in + lanes));
  vst1q_u8(low, even(a, b));
  return odd(a, b);
}

template <bool rotated>
inline uint8x16_t split_32(const unsigned char *in, unsigned char *low, unsigned char *middle) {
  constexpr int by = rotated ? 1 : 0;
  uint8x16_t high[2];
  WEIR_UNROLL
  for (uint32_t i = 0; i < 2; ++i) {
    const uint8x16_t a = rotate_32<by>(load(in + 32 * i));
    const uint8x16_t b = rotate_32<by>(load(in + 32 * i + lanes));
    const uint16x8_t first = vreinterpretq_u16_u8(a), last = vreinterpretq_u16_u8(b);
    vst1q_u8(low + lanes * i, vreinterpretq_u8_u16(vuzp1q_u16(first, last)));
    high[i] = vreinterpretq_u8_u16(vuzp2q_u16(first, last));
  }
  vst1q_u8(middle, even(high[0], high[1]));
  return odd(high[0], high[1]);
}

template <Form form, bool rotated>
inline void split(const unsigned char *in, FxTarget &to, uint8x16_t (&exponents)[parts]) {
  WEIR_UNROLL
  for (uint32_t i = 0; i < parts; ++i) {
    if constexpr (form == Form::bytes)
      exponents[i] = load(in + lanes * i);
    else if constexpr (form == Form::f32)
      exponents[i] = split_32<rotated>(in + 64 * i, to.low + 32 * i, to.middle + 16 * i);
    else
      exponents[i] = split_16<rotated>(in + 32 * i, to.low + 16 * i);
  }
  if constexpr (form == Form::f16) {
    store_bitmaps<3>(exponents, to.middle);
    WEIR_UNROLL
    for (uint8x16_t &exponent : exponents) exponent = vshrq_n_u8(exponent, 3);
  }
  to.low += fx_low_bytes(form);
  to.middle += fx_middle_bytes(form);
}

template <bool rotated>
inline void join_16(const unsigned char *low, uint8x16_t high, unsigned char *out) {
  const uint8x16_t bytes = load(low);
  constexpr int by = rotated ? 15 : 0;
  vst1q_u8(out, rotate_16<by>(vzip1q_u8(bytes, high)));
  vst1q_u8(out + lanes, rotate_16<by>(vzip2q_u8(bytes, high)));
}

template <bool rotated>
inline void join_32(const unsigned char *low, const unsigned char *middle, uint8x16_t top,
                    unsigned char *out) {
  const uint8x16_t bytes = load(middle);
  const uint8x16_t high[2] = {vzip1q_u8(bytes, top), vzip2q_u8(bytes, top)};
  constexpr int by = rotated ? 31 : 0;
  WEIR_UNROLL
  for (uint32_t i = 0; i < 2; ++i) {
    const uint16x8_t words = vreinterpretq_u16_u8(load(low + lanes * i));
    const uint16x8_t upper = vreinterpretq_u16_u8(high[i]);
    const uint8x16_t a = vreinterpretq_u8_u16(vzip1q_u16(words, upper));
    const uint8x16_t b = vreinterpretq_u8_u16(vzip2q_u16(words, upper));
    vst1q_u8(out + 32 * i, rotate_32<by>(a));
    vst1q_u8(out + 32 * i + lanes, rotate_32<by>(b));
  }
}

template <Form form, bool rotated>
inline void join(FxSource &from, const uint8x16_t (&exponents)[parts], unsigned char *out) {
  uint8x16_t middle[parts];
  if constexpr (form == Form::f16) load_bitmaps<3>(from.middle, middle);
  WEIR_UNROLL
  for (uint32_t i = 0; i < parts; ++i) {
    if constexpr (form == Form::bytes)
      vst1q_u8(out + lanes * i, exponents[i]);
    else if constexpr (form == Form::f32)
      join_32<rotated>(from.low + 32 * i, from.middle + 16 * i, exponents[i], out + 64 * i);
    else if constexpr (form == Form::f16)
      join_16<rotated>(from.low + 16 * i, vorrq_u8(vshlq_n_u8(exponents[i], 3), middle[i]),
                       out + 32 * i);
    else
      join_16<rotated>(from.low + 16 * i, exponents[i], out + 32 * i);
  }
  from.low += fx_low_bytes(form);
  from.middle += fx_middle_bytes(form);
}

template <Form form, bool rotated, uint32_t k>
struct Code {
  static void encode(const unsigned char *in, uint64_t groups, uint8_t base,
                     FxTarget &target) noexcept {
    FxTarget to = target;
    const uint8x16_t bases = vdupq_n_u8(base), one = vdupq_n_u8(1),
                     window = vdupq_n_u8(static_cast<uint8_t>(fx_window(k)));
    for (; groups > 0; --groups, in += fx_group * element_bytes(form)) {
      uint8x16_t exponents[parts], codes[parts];
      split<form, rotated>(in, to, exponents);
      WEIR_UNROLL
      for (uint32_t i = 0; i < parts; ++i) {
        const uint8x16_t offsets = vsubq_u8(exponents[i], bases);
        codes[i] = vandq_u8(vaddq_u8(offsets, one), vcltq_u8(offsets, window));
      }
      uint64_t left = ~store_bitmaps<k>(codes, to.bitmaps);
      to.bitmaps += 8 * k;
      if (left == 0) continue;
      unsigned char bytes[fx_group];
      WEIR_UNROLL
      for (uint32_t i = 0; i < parts; ++i) vst1q_u8(bytes + lanes * i, exponents[i]);
      for (; left != 0; left &= left - 1) *to.escapes++ = bytes[__builtin_ctzll(left)];
    }
    target = to;
  }

  static void decode(FxSource &source, uint64_t groups, uint8_t base, unsigned char *out,
                     bool /*streaming*/) noexcept {
    FxSource from = source;
    const uint8x16_t below = vdupq_n_u8(static_cast<uint8_t>(base - 1));
    for (; groups > 0; --groups, out += fx_group * element_bytes(form)) {
      uint8x16_t exponents[parts];
      uint64_t left = ~load_bitmaps<k>(from.bitmaps, exponents);
      from.bitmaps += 8 * k;
      WEIR_UNROLL
      for (uint8x16_t &exponent : exponents) exponent = vaddq_u8(exponent, below);
      if (left != 0) {
        unsigned char bytes[fx_group];
        WEIR_UNROLL
        for (uint32_t i = 0; i < parts; ++i) vst1q_u8(bytes + lanes * i, exponents[i]);
        for (; left != 0; left &= left - 1) bytes[__builtin_ctzll(left)] = *from.escapes++;
        WEIR_UNROLL
        for (uint32_t i = 0; i < parts; ++i) exponents[i] = vld1q_u8(bytes + lanes * i);
      }
      join<form, rotated>(from, exponents, out);
    }
    source = from;
  }
};

}  // namespace

constexpr FxKernels fx_neon = fx_table<Code>(no_fence);

}  // namespace weir::codec

#endif
