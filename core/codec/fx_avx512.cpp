// SPDX-License-Identifier: Apache-2.0
//
// FX for AVX-512 with VBMI2: a group's exponents are one register of bytes, its bitmaps are mask registers, and its
// escapes are compressed out of the register and expanded into it, without a branch.

#include "core/codec/fx_kernels.hpp"
#include "core/codec/targets.hpp"

#if WEIR_X86_KERNELS
#include <immintrin.h>

#include <array>

namespace weir::codec {
namespace {

/// Indices of a permutation of two registers, 64 bytes each, from element `start` on: every second one, or zipped, those
/// of the first register and of the second by turns.
template <class Index>
constexpr auto indices(uint32_t start, bool zipped) {
  constexpr uint32_t count = 64 / sizeof(Index);
  std::array<Index, count> made{};
  for (uint32_t i = 0; i < count; ++i)
    made[i] = static_cast<Index>(start + (zipped ? i / 2 + i % 2 * count : 2 * i));
  return made;
}
alignas(64) constexpr auto even_bytes = indices<uint8_t>(0, false),
                           odd_bytes = indices<uint8_t>(1, false),
                           first_bytes = indices<uint8_t>(0, true),
                           last_bytes = indices<uint8_t>(32, true);
alignas(64) constexpr auto even_words = indices<uint16_t>(0, false),
                           odd_words = indices<uint16_t>(1, false),
                           first_words = indices<uint16_t>(0, true),
                           last_words = indices<uint16_t>(16, true);

WEIR_TARGET_BEGIN_AVX512

inline __m512i load(const void *from) { return _mm512_loadu_si512(from); }
inline void store(void *to, __m512i value, bool streaming = false) {
  streaming ? _mm512_stream_si512(static_cast<__m512i *>(to), value)
            : _mm512_storeu_si512(to, value);
}
void fence() noexcept { _mm_sfence(); }
inline __m512i bytes_of(int value) { return _mm512_set1_epi8(static_cast<char>(value)); }

inline __m512i pick_bytes(__m512i a, const std::array<uint8_t, 64> &which, __m512i b) {
  return _mm512_permutex2var_epi8(a, _mm512_load_si512(&which), b);
}
inline __m512i pick_words(__m512i a, const std::array<uint16_t, 32> &which, __m512i b) {
  return _mm512_permutex2var_epi16(a, _mm512_load_si512(&which), b);
}

/// To the left, by so many bits of 16.
template <int by>
inline __m512i rotate(__m512i words) {
  if constexpr (by == 0) return words;
  return _mm512_or_si512(_mm512_slli_epi16(words, by), _mm512_srli_epi16(words, 16 - by));
}

template <uint32_t count>
inline void store_bitmaps(__m512i codes, unsigned char *to) {
  WEIR_UNROLL
  for (uint32_t bit = 0; bit < count; ++bit) {
    const uint64_t map = _mm512_test_epi8_mask(codes, bytes_of(1 << bit));
    __builtin_memcpy(to + 8 * bit, &map, sizeof map);
  }
}

template <uint32_t count>
inline __m512i load_bitmaps(const unsigned char *from, uint64_t *any) {
  __m512i codes = _mm512_setzero_si512();
  *any = 0;
  WEIR_UNROLL
  for (uint32_t bit = 0; bit < count; ++bit) {
    uint64_t map;
    __builtin_memcpy(&map, from + 8 * bit, sizeof map);
    *any |= map;
    codes = _mm512_mask_add_epi8(codes, map, codes, bytes_of(1 << bit));
  }
  return codes;
}

template <Form form, bool rotated>
inline __m512i split(const unsigned char *in, FxTarget &to) {
  constexpr int by = rotated ? 1 : 0;
  __m512i exponents;
  if constexpr (form == Form::bytes) {
    exponents = load(in);
  } else if constexpr (form == Form::f32) {
    __m512i high[2];
    WEIR_UNROLL
    for (uint32_t half = 0; half < 2; ++half) {
      const __m512i a = _mm512_rol_epi32(load(in + 128 * half), by);
      const __m512i b = _mm512_rol_epi32(load(in + 128 * half + 64), by);
      store(to.low + 64 * half, pick_words(a, even_words, b));
      high[half] = pick_words(a, odd_words, b);
    }
    store(to.middle, pick_bytes(high[0], even_bytes, high[1]));
    exponents = pick_bytes(high[0], odd_bytes, high[1]);
  } else {
    const __m512i a = rotate<by>(load(in)), b = rotate<by>(load(in + 64));
    store(to.low, pick_bytes(a, even_bytes, b));
    exponents = pick_bytes(a, odd_bytes, b);
    if constexpr (form == Form::f16) {
      store_bitmaps<3>(exponents, to.middle);
      exponents = _mm512_and_si512(_mm512_srli_epi16(exponents, 3), bytes_of(31));
    }
  }
  to.low += fx_low_bytes(form);
  to.middle += fx_middle_bytes(form);
  return exponents;
}

template <Form form, bool rotated>
inline void join(FxSource &from, __m512i exponents, unsigned char *out, bool streaming) {
  if constexpr (form == Form::bytes) {
    store(out, exponents, streaming);
  } else if constexpr (form == Form::f32) {
    const __m512i middle = load(from.middle);
    const __m512i high[2] = {pick_bytes(middle, first_bytes, exponents),
                             pick_bytes(middle, last_bytes, exponents)};
    WEIR_UNROLL
    for (uint32_t half = 0; half < 2; ++half) {
      const __m512i low = load(from.low + 64 * half);
      const __m512i a = pick_words(low, first_words, high[half]);
      const __m512i b = pick_words(low, last_words, high[half]);
      store(out + 128 * half, _mm512_ror_epi32(a, rotated ? 1 : 0), streaming);
      store(out + 128 * half + 64, _mm512_ror_epi32(b, rotated ? 1 : 0), streaming);
    }
  } else {
    __m512i high = exponents;
    if constexpr (form == Form::f16) {
      uint64_t any = 0;
      const __m512i middle = load_bitmaps<3>(from.middle, &any);
      high = _mm512_and_si512(_mm512_slli_epi16(exponents, 3), bytes_of(0xF8));
      high = _mm512_or_si512(high, middle);
    }
    const __m512i low = load(from.low);
    constexpr int by = rotated ? 15 : 0;
    store(out, rotate<by>(pick_bytes(low, first_bytes, high)), streaming);
    store(out + 64, rotate<by>(pick_bytes(low, last_bytes, high)), streaming);
  }
  from.low += fx_low_bytes(form);
  from.middle += fx_middle_bytes(form);
}

template <Form form, bool rotated, uint32_t k>
struct Code {
  static void encode(const unsigned char *in, uint64_t groups, uint8_t base,
                     FxTarget &target) noexcept {
    FxTarget to = target;
    const __m512i bases = bytes_of(base), window = bytes_of(fx_window(k)), one = bytes_of(1);
    for (; groups > 0; --groups, in += fx_group * element_bytes(form)) {
      const __m512i exponents = split<form, rotated>(in, to);
      const __m512i offsets = _mm512_sub_epi8(exponents, bases);
      const __mmask64 coded = _mm512_cmplt_epu8_mask(offsets, window);
      store_bitmaps<k>(_mm512_maskz_add_epi8(coded, offsets, one), to.bitmaps);
      to.bitmaps += 8 * k;
      store(to.escapes, _mm512_maskz_compress_epi8(~coded, exponents));
      to.escapes += __builtin_popcountll(~coded);
    }
    target = to;
  }

  static void decode(FxSource &source, uint64_t groups, uint8_t base, unsigned char *out,
                     bool streaming) noexcept {
    FxSource from = source;
    const __m512i below = bytes_of(base - 1);
    for (; groups > 0; --groups, out += fx_group * element_bytes(form)) {
      uint64_t coded = 0;
      const __m512i codes = load_bitmaps<k>(from.bitmaps, &coded);
      from.bitmaps += 8 * k;
      const __m512i exponents =
          _mm512_mask_expand_epi8(_mm512_add_epi8(codes, below), ~coded, load(from.escapes));
      from.escapes += __builtin_popcountll(~coded);
      join<form, rotated>(from, exponents, out, streaming);
    }
    source = from;
  }
};

WEIR_TARGET_END

}  // namespace

constexpr FxKernels fx_avx512 = fx_table<Code>(fence);

}  // namespace weir::codec

#endif
