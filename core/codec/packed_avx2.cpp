// SPDX-License-Identifier: Apache-2.0
//
// Packed differences for AVX2. A register has two lanes of 16 bytes: the lower one takes the first 16 elements of 32, the upper
// one those behind them. Both are summed up at the same time from zero, and then moved by what came before each. That
// needs sums that go on alike in each vector of a lane, which they do where the distance in bytes divides 16; the
// others are summed up by the common loops.

#include "core/codec/targets.hpp"

#if WEIR_X86_KERNELS
#include "core/codec/packed_kernels.hpp"

#include <immintrin.h>
#include <string.h>

#include <utility>

WEIR_TARGET_BEGIN_AVX2
#include "core/codec/lanes_avx2.hpp"
#include "core/codec/packed_loops.hpp"

namespace weir::codec {
namespace {

inline __m256i of_both(__m128i lane) { return _mm256_broadcastsi128_si256(lane); }

template <uint32_t width>
[[gnu::always_inline]] inline __m256i sum_of(__m256i a, __m256i b) {
  if constexpr (width == 1) return _mm256_add_epi8(a, b);
  if constexpr (width == 2) return _mm256_add_epi16(a, b);
  if constexpr (width == 4) return _mm256_add_epi32(a, b);
  return _mm256_add_epi64(a, b);
}

/// Even words are halved, odd ones halved and complemented.
template <uint32_t width>
[[gnu::always_inline]] inline __m256i unfolded(__m256i value) {
  const __m256i zero = _mm256_setzero_si256();
  if constexpr (width == 1) {
    const __m256i half = _mm256_and_si256(_mm256_srli_epi16(value, 1), _mm256_set1_epi8(127));
    return _mm256_xor_si256(half,
                            _mm256_sub_epi8(zero, _mm256_and_si256(value, _mm256_set1_epi8(1))));
  } else if constexpr (width == 2) {
    return _mm256_xor_si256(_mm256_srli_epi16(value, 1),
                            _mm256_srai_epi16(_mm256_slli_epi16(value, 15), 15));
  } else if constexpr (width == 4) {
    return _mm256_xor_si256(_mm256_srli_epi32(value, 1),
                            _mm256_srai_epi32(_mm256_slli_epi32(value, 31), 31));
  } else {
    return _mm256_xor_si256(_mm256_srli_epi64(value, 1),
                            _mm256_sub_epi64(zero, _mm256_and_si256(value, _mm256_set1_epi64x(1))));
  }
}

/// The last `period` bytes of each lane, again and again.
template <uint32_t period>
[[gnu::always_inline]] inline __m256i going_on_in_lanes(__m256i value) {
  if constexpr (period == 16) return value;
  if constexpr (period == 8) return _mm256_shuffle_epi32(value, 0xEE);
  if constexpr (period == 4) return _mm256_shuffle_epi32(value, 0xFF);
  if constexpr (period == 2) return _mm256_shuffle_epi8(value, _mm256_set1_epi16(0x0F0E));
  return _mm256_shuffle_epi8(value, _mm256_set1_epi8(15));
}

/// Sums of differences within each vector of a lane.
template <uint32_t width, uint32_t period>
[[gnu::always_inline]] inline __m256i summed_in_lanes(__m256i value) {
  if constexpr (period < 16) value = sum_of<width>(value, _mm256_slli_si256(value, period));
  if constexpr (period < 8) value = sum_of<width>(value, _mm256_slli_si256(value, 2 * period));
  if constexpr (period < 4) value = sum_of<width>(value, _mm256_slli_si256(value, 4 * period));
  if constexpr (period < 2) value = sum_of<width>(value, _mm256_slli_si256(value, 8 * period));
  return value;
}

template <uint32_t bits>
[[gnu::always_inline]] inline void spread(const unsigned char *in, unsigned char *plane) {
  _mm256_store_si256(reinterpret_cast<__m256i *>(plane), spread_bits<bits>(in));
  _mm256_store_si256(reinterpret_cast<__m256i *>(plane + 32), spread_bits<bits>(in + 4));
}
/// One jump that may be foreseen wrongly, instead of several: groups differ in their bits.
[[gnu::always_inline]] inline void spread_any(const unsigned char *in, uint32_t bits,
                                              unsigned char *plane) {
  switch (bits) {
    case 1:
      return spread<1>(in, plane);
    case 2:
      return spread<2>(in, plane);
    case 3:
      return spread<3>(in, plane);
    case 4:
      return spread<4>(in, plane);
    case 5:
      return spread<5>(in, plane);
    case 6:
      return spread<6>(in, plane);
    default:
      return spread<7>(in, plane);
  }
}

template <uint32_t width, uint32_t stride, bool rotate>
struct InLanes {
  static constexpr uint32_t group = 64, period = width * stride;

  /// 32 elements from a register of each plane; `carry` is what the sums so far go on with.
  [[gnu::always_inline]] static inline __m128i half(const unsigned char *const *planes,
                                                    uint32_t from, __m128i carry,
                                                    unsigned char *out) {
    __m256i words[width];
    WEIR_UNROLL
    for (uint32_t k = 0; k < width; ++k) words[k] = load(planes[k] + from);
    zip_lanes<width>(words);
    WEIR_UNROLL
    for (uint32_t k = 0; k < width; ++k) {
      words[k] = summed_in_lanes<width, period>(unfolded<width>(words[k]));
      if (k > 0) words[k] = sum_of<width>(words[k], going_on_in_lanes<period>(words[k - 1]));
    }
    const __m256i last = going_on_in_lanes<period>(words[width - 1]);
    // The lower lane goes on with what was before, the upper one with that and the lower one's sum.
    const __m256i moved =
        sum_of<width>(of_both(carry), _mm256_permute2x128_si256(last, last, 0x08));
    WEIR_UNROLL
    for (uint32_t k = 0; k < width; ++k) {
      __m256i word = sum_of<width>(words[k], moved);
      if constexpr (rotate) word = rotated_right<width>(word);
      store_lanes(word, out + from * width + 16 * k, 16 * width);
    }
    return _mm256_extracti128_si256(sum_of<width>(moved, last), 1);
  }

  static bool decode(PackedSource &source, uint64_t groups, unsigned char *out) noexcept {
    alignas(32) unsigned char bitmaps[group];
    alignas(32) static constexpr unsigned char nothing[group] = {};
    const unsigned char *at = source.at, *counts = source.bits;
    __m128i carry = _mm_load_si128(reinterpret_cast<const __m128i *>(source.before + 16));
    carry = _mm256_castsi256_si128(going_on_in_lanes<period>(of_both(carry)));
    for (; groups > 0; --groups, out += group * width) {
      const uint32_t all = *counts++, whole = all / 8, bits = all % 8;
      if (all > 8 * width || static_cast<uint64_t>(source.end - at) < 8 * uint64_t{all})
        return false;
      const unsigned char *planes[width];
      WEIR_UNROLL
      for (uint32_t k = 0; k < width; ++k) planes[k] = k < whole ? at + group * k : nothing;
      if (bits > 0) {
        spread_any(at + group * whole, bits, bitmaps);
        planes[whole] = bitmaps;
      }
      at += 8 * all;
      carry = half(planes, 0, carry, out);
      carry = half(planes, 32, carry, out);
    }
    _mm_store_si128(reinterpret_cast<__m128i *>(source.before + 16), carry);
    source.at = at;
    source.bits = counts;
    return true;
  }
};

template <uint32_t... i>
constexpr PackedKernels table_in_lanes(std::integer_sequence<uint32_t, i...>) {
  constexpr auto decoder = []<uint32_t at>() -> PackedDecode {
    constexpr uint32_t log = at / 2 / max_stride, stride = at / 2 % max_stride + 1;
    constexpr uint32_t period = stride << log;
    constexpr bool rotate = at % 2 != 0 && log != 0;
    if constexpr (period <= 16 && 16 % period == 0)
      return InLanes<1U << log, stride, rotate>::decode;
    else
      return Packed<typename Word<log>::Type, stride, rotate>::decode;
  };
  return {{decoder.template operator()<i>()...}};
}

}  // namespace
}  // namespace weir::codec
WEIR_TARGET_END

namespace weir::codec {
constexpr PackedKernels packed_avx2 =
    table_in_lanes(std::make_integer_sequence<uint32_t, PackedKernels::kinds>());
}  // namespace weir::codec

#endif
