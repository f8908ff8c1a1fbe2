// SPDX-License-Identifier: Apache-2.0
//
// Doubles for AVX2, 32 elements at a time.

#include "core/codec/targets.hpp"

#if WEIR_X86_KERNELS
#include "core/codec/fx_doubles_kernels.hpp"

#include <immintrin.h>
#include <string.h>

WEIR_TARGET_BEGIN_AVX2
#include "core/codec/lanes_avx2.hpp"

namespace weir::codec {
namespace {

/// 16 words of an exponent above the five bits below it.
inline __m256i words_of(__m256i bytes, __m256i zero, __m256i most, __m256i five, __m256i before) {
  const __m256i exponent = _mm256_andnot_si256(zero, _mm256_add_epi16(bytes, before));
  const __m256i other = _mm256_set1_epi16(static_cast<short>(doubles_infinite));
  return _mm256_or_si256(_mm256_slli_epi16(_mm256_blendv_epi8(exponent, other, most), 5), five);
}

/// Of elements, registers of a plane each: in four steps, as in planes.cpp; plane k is then at place_of(k).
template <uint32_t bit>
[[gnu::always_inline]] inline void zip_by(__m256i *registers) {
  WEIR_UNROLL
  for (uint32_t i = 0; i < 8; ++i) {
    if ((i & bit) != 0) continue;
    const __m256i a = registers[i], b = registers[i | bit];
    registers[i] = _mm256_unpacklo_epi8(a, b);
    registers[i | bit] = _mm256_unpackhi_epi8(a, b);
  }
}
constexpr uint32_t place_of(uint32_t plane) { return (plane & 1U) << 2U | plane >> 1U; }

/// Bytes of 16 exponents, in words; adds to *wrong those that are none.
inline __m256i bytes_of(__m256i word, __m256i before, __m256i *wrong) {
  const __m256i exponent = _mm256_srli_epi16(word, 5);
  const __m256i place = _mm256_sub_epi16(exponent, before);
  const __m256i zero = _mm256_cmpeq_epi16(exponent, _mm256_setzero_si256());
  const __m256i most =
      _mm256_cmpeq_epi16(exponent, _mm256_set1_epi16(static_cast<short>(doubles_infinite)));
  // Of 11 bits each, so that signed comparisons do.
  const __m256i inside = _mm256_and_si256(
      _mm256_cmpgt_epi16(place, _mm256_setzero_si256()),
      _mm256_cmpgt_epi16(_mm256_set1_epi16(static_cast<short>(doubles_spread + 1)), place));
  *wrong = _mm256_or_si256(*wrong,
                           _mm256_andnot_si256(_mm256_or_si256(_mm256_or_si256(zero, most), inside),
                                               _mm256_set1_epi16(-1)));
  return _mm256_andnot_si256(zero, _mm256_blendv_epi8(place, _mm256_set1_epi16(255), most));
}

bool split(const unsigned char *in, uint32_t first, uint64_t groups, unsigned char *out,
           unsigned char *exponents) noexcept {
  const __m256i before = _mm256_set1_epi16(static_cast<short>(first - 1));
  __m256i wrong = _mm256_setzero_si256();
  for (uint64_t half = 0; half < 2 * groups; ++half, exponents += 32, in += 256) {
    unsigned char *const to = out + half / 2 * doubles_group_bytes + half % 2 * 32;
    __m256i words[8];
    WEIR_UNROLL
    for (uint32_t k = 0; k < 8; ++k) {
      const __m256i value = _mm256_inserti128_si256(
          _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i *>(in + 16 * k))),
          _mm_loadu_si128(reinterpret_cast<const __m128i *>(in + 128 + 16 * k)), 1);
      words[k] = _mm256_or_si256(_mm256_slli_epi64(value, 1), _mm256_srli_epi64(value, 63));
    }
    zip_by<4>(words);
    zip_by<2>(words);
    zip_by<1>(words);
    zip_by<4>(words);
    WEIR_UNROLL
    for (uint32_t k = 0; k < doubles_planes; ++k)
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(to + 64 * k), words[place_of(k)]);
    const __m256i between = words[place_of(6)], top = words[place_of(7)];
    const __m256i low = bytes_of(_mm256_unpacklo_epi8(between, top), before, &wrong);
    const __m256i high = bytes_of(_mm256_unpackhi_epi8(between, top), before, &wrong);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(exponents), _mm256_packus_epi16(low, high));
    unsigned char *const maps =
        out + half / 2 * doubles_group_bytes + 64 * doubles_planes + half % 2 * 4;
    __m256i bits = _mm256_slli_epi16(_mm256_and_si256(between, _mm256_set1_epi8(31)), 3);
    WEIR_UNROLL
    for (uint32_t i = 0; i < doubles_between; ++i) {
      const int map = _mm256_movemask_epi8(bits);
      memcpy(maps + 8 * (doubles_between - 1 - i), &map, sizeof map);
      bits = _mm256_add_epi8(bits, bits);
    }
  }
  return _mm256_testz_si256(wrong, wrong) != 0;
}

void join(const unsigned char *in, const unsigned char *exponents, uint32_t first, uint64_t groups,
          unsigned char *out) noexcept {
  const __m256i none = _mm256_setzero_si256(), low_byte = _mm256_set1_epi16(255);
  const __m256i before = _mm256_set1_epi16(static_cast<short>(first - 1));
  for (uint64_t half = 0; half < 2 * groups; ++half, exponents += 32, out += 256) {
    const unsigned char *const from = in + half / 2 * doubles_group_bytes + half % 2 * 32;
    const unsigned char *const maps =
        in + half / 2 * doubles_group_bytes + 64 * doubles_planes + half % 2 * 4;
    // Three places are read and two written at once, more than the processor follows by itself.
    WEIR_UNROLL
    for (uint32_t line = 0; line < 4; ++line) {
      _mm_prefetch(reinterpret_cast<const char *>(from) + 2048 + 64 * line, _MM_HINT_T0);
      __builtin_prefetch(out + 1024 + 64 * line, 1);
    }
    const __m256i bytes = load(exponents), five = spread_bits<doubles_between>(maps);
    const __m256i zero = _mm256_cmpeq_epi8(bytes, none);
    const __m256i most = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(-1));
    const __m256i low =
        words_of(_mm256_unpacklo_epi8(bytes, none), _mm256_unpacklo_epi8(zero, zero),
                 _mm256_unpacklo_epi8(most, most), _mm256_unpacklo_epi8(five, none), before);
    const __m256i high =
        words_of(_mm256_unpackhi_epi8(bytes, none), _mm256_unpackhi_epi8(zero, zero),
                 _mm256_unpackhi_epi8(most, most), _mm256_unpackhi_epi8(five, none), before);
    __m256i words[8];
    WEIR_UNROLL
    for (uint32_t k = 0; k < doubles_planes; ++k) words[k] = load(from + 64 * k);
    words[6] =
        _mm256_packus_epi16(_mm256_and_si256(low, low_byte), _mm256_and_si256(high, low_byte));
    words[7] = _mm256_packus_epi16(_mm256_srli_epi16(low, 8), _mm256_srli_epi16(high, 8));
    zip_lanes<8>(words);
    WEIR_UNROLL
    for (uint32_t k = 0; k < 8; ++k) store_lanes(rotated_right<8>(words[k]), out + 16 * k, 128);
  }
}

}  // namespace
}  // namespace weir::codec
WEIR_TARGET_END

namespace weir::codec {
constexpr DoublesKernel doubles_avx2 = {split, join};
}  // namespace weir::codec

#endif
