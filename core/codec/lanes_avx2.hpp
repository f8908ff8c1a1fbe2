// SPDX-License-Identifier: Apache-2.0
//
// Registers of AVX2 as two lanes of 16 bytes: of 32 elements the lower lane has the first 16. Included where functions are
// compiled for AVX2, with <immintrin.h> before it; all of it is static there.

namespace weir::codec {
namespace {

inline __m256i load(const unsigned char *from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
}

/// The lower lane to `to`, the upper one so many bytes behind.
inline void store_lanes(__m256i value, unsigned char *to, uint32_t apart) {
  _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm256_castsi256_si128(value));
  _mm_storeu_si128(reinterpret_cast<__m128i *>(to + apart), _mm256_extracti128_si256(value, 1));
}

template <uint32_t width>
[[gnu::always_inline]] inline __m256i rotated_right(__m256i value) {
  if constexpr (width == 2)
    return _mm256_or_si256(_mm256_srli_epi16(value, 1), _mm256_slli_epi16(value, 15));
  if constexpr (width == 4)
    return _mm256_or_si256(_mm256_srli_epi32(value, 1), _mm256_slli_epi32(value, 31));
  return _mm256_or_si256(_mm256_srli_epi64(value, 1), _mm256_slli_epi64(value, 63));
}

/// Registers of a plane each to registers of elements, in each lane.
template <uint32_t width>
[[gnu::always_inline]] inline void zip_lanes(__m256i *registers) {
  if constexpr (width > 1) {
    __m256i evens[width / 2], odds[width / 2];
    WEIR_UNROLL
    for (uint32_t i = 0; i < width / 2; ++i) {
      evens[i] = registers[2 * i];
      odds[i] = registers[2 * i + 1];
    }
    zip_lanes<width / 2>(evens);
    zip_lanes<width / 2>(odds);
    WEIR_UNROLL
    for (uint32_t i = 0; i < width / 2; ++i) {
      registers[2 * i] = _mm256_unpacklo_epi8(evens[i], odds[i]);
      registers[2 * i + 1] = _mm256_unpackhi_epi8(evens[i], odds[i]);
    }
  }
}

/// 32 bytes from as many bits of each bitmap, which are 8 bytes apart.
template <uint32_t bits>
[[gnu::always_inline]] inline __m256i spread_bits(const unsigned char *in) {
  const __m256i byte_of =
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit_of = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
  __m256i codes = _mm256_setzero_si256();
  // From the highest on, each doubles what is there; a set bit is -1.
  WEIR_UNROLL
  for (uint32_t i = 0; i < bits; ++i) {
    int map;
    memcpy(&map, in + 8 * (bits - 1 - i), sizeof map);
    const __m256i apart = _mm256_shuffle_epi8(_mm256_set1_epi32(map), byte_of);
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(apart, bit_of), bit_of);
    codes = _mm256_sub_epi8(_mm256_add_epi8(codes, codes), set);
  }
  return codes;
}

}  // namespace
}  // namespace weir::codec
