// SPDX-License-Identifier: Apache-2.0
//
// SPARSE for AVX2: the lanes of 16 bytes are moved by a shuffle that a table has for each set of them.

#include "core/codec/sparse_kernels.hpp"
#include "core/codec/targets.hpp"

#if WEIR_X86_KERNELS
#include <immintrin.h>

WEIR_TARGET_BEGIN_AVX2
#include "core/codec/sparse_loops.hpp"

namespace weir::codec {
namespace {

inline __m256i load_32(const unsigned char *from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
}

/// Of the bytes of one register the lanes that are not zero: 32 of one byte, or 16, 8, 4.
template <uint32_t width>
inline uint64_t nonzero(const unsigned char *in) {
  const __m256i value = load_32(in), zero = _mm256_setzero_si256();
  if constexpr (width == 1) {
    return ~static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(value, zero)));
  } else if constexpr (width == 2) {
    const __m256i equal = _mm256_cmpeq_epi16(value, zero);
    const __m128i narrow =
        _mm_packs_epi16(_mm256_castsi256_si128(equal), _mm256_extracti128_si256(equal, 1));
    return ~static_cast<uint32_t>(_mm_movemask_epi8(narrow)) & 0xFFFFU;
  } else if constexpr (width == 4) {
    const __m256i equal = _mm256_cmpeq_epi32(value, zero);
    return ~static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(equal))) & 0xFFU;
  } else {
    const __m256i equal = _mm256_cmpeq_epi64(value, zero);
    return ~static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(equal))) & 0xFU;
  }
}

/// 16 bytes, or the lower 8 of them.
template <uint32_t bytes>
inline __m128i load(const unsigned char *from) {
  const auto *const at = reinterpret_cast<const __m128i *>(from);
  return bytes == 16 ? _mm_loadu_si128(at) : _mm_loadl_epi64(at);
}
template <uint32_t bytes>
inline void store(unsigned char *to, __m128i value) {
  auto *const at = reinterpret_cast<__m128i *>(to);
  bytes == 16 ? _mm_storeu_si128(at, value) : _mm_storel_epi64(at, value);
}

template <uint32_t width_>
struct Lanes {
  static constexpr const SparseShuffles<width_> &shuffles = sparse_shuffles<width_>;
  static constexpr uint32_t width = width_, bytes = shuffles.bytes, lanes = shuffles.lanes;

  static uint64_t map(const unsigned char *in) {
    uint64_t map = 0;
    WEIR_UNROLL
    for (uint32_t i = 0; i < sparse_group; i += 32 / width, in += 32)
      map |= nonzero<width>(in) << i;
    return map;
  }
  static uint64_t ones(uint64_t bits) { return static_cast<uint64_t>(_mm_popcnt_u64(bits)); }
  static void pack(const unsigned char *in, uint64_t set, unsigned char *to) {
    store<bytes>(to, _mm_shuffle_epi8(load<bytes>(in), load<bytes>(shuffles.pack[set])));
  }
  static void unpack(const unsigned char *from, uint64_t set, unsigned char *out,
                     bool /*streaming*/) {
    store<bytes>(out, _mm_shuffle_epi8(load<bytes>(from), load<bytes>(shuffles.unpack[set])));
  }
};

template <uint32_t width>
using Code = SparseLoops<Lanes<width>>;

}  // namespace
}  // namespace weir::codec
WEIR_TARGET_END

namespace weir::codec {

constexpr SparseTable sparse_avx2 = sparse_table<Code>(no_fence);

}  // namespace weir::codec

#endif
