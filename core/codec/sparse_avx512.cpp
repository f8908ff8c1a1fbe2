// SPDX-License-Identifier: Apache-2.0
//
// SPARSE for AVX-512 with VBMI2, which compresses and expands lanes of every width by a mask.

#include "core/codec/sparse_kernels.hpp"
#include "core/codec/targets.hpp"

#if WEIR_X86_KERNELS
#include <immintrin.h>

WEIR_TARGET_BEGIN_AVX512
#include "core/codec/sparse_loops.hpp"

namespace weir::codec {
namespace {

void fence() noexcept { _mm_sfence(); }

template <uint32_t width>
inline uint64_t nonzero(__m512i value) {
  if constexpr (width == 1) return _mm512_test_epi8_mask(value, value);
  if constexpr (width == 2) return _mm512_test_epi16_mask(value, value);
  if constexpr (width == 4) return _mm512_test_epi32_mask(value, value);
  return _mm512_test_epi64_mask(value, value);
}

template <uint32_t width>
inline __m512i compress(uint64_t mask, __m512i value) {
  if constexpr (width == 1) return _mm512_maskz_compress_epi8(mask, value);
  if constexpr (width == 2) return _mm512_maskz_compress_epi16(static_cast<__mmask32>(mask), value);
  if constexpr (width == 4) return _mm512_maskz_compress_epi32(static_cast<__mmask16>(mask), value);
  return _mm512_maskz_compress_epi64(static_cast<__mmask8>(mask), value);
}

template <uint32_t width>
inline __m512i expand(uint64_t mask, __m512i value) {
  if constexpr (width == 1) return _mm512_maskz_expand_epi8(mask, value);
  if constexpr (width == 2) return _mm512_maskz_expand_epi16(static_cast<__mmask32>(mask), value);
  if constexpr (width == 4) return _mm512_maskz_expand_epi32(static_cast<__mmask16>(mask), value);
  return _mm512_maskz_expand_epi64(static_cast<__mmask8>(mask), value);
}

template <uint32_t width_>
struct Lanes {
  static constexpr uint32_t width = width_, bytes = 64, lanes = bytes / width;

  static uint64_t map(const unsigned char *in) {
    uint64_t map = 0;
    WEIR_UNROLL
    for (uint32_t i = 0; i < sparse_group; i += lanes, in += 64)
      map |= nonzero<width>(_mm512_loadu_si512(in)) << i;
    return map;
  }
  static uint64_t ones(uint64_t bits) { return static_cast<uint64_t>(_mm_popcnt_u64(bits)); }
  static void pack(const unsigned char *in, uint64_t set, unsigned char *to) {
    _mm512_storeu_si512(to, compress<width>(set, _mm512_loadu_si512(in)));
  }
  static void unpack(const unsigned char *from, uint64_t set, unsigned char *out, bool streaming) {
    const __m512i value = expand<width>(set, _mm512_loadu_si512(from));
    streaming ? _mm512_stream_si512(reinterpret_cast<__m512i *>(out), value)
              : _mm512_storeu_si512(out, value);
  }
};

template <uint32_t width>
using Code = SparseLoops<Lanes<width>>;

}  // namespace
}  // namespace weir::codec
WEIR_TARGET_END

namespace weir::codec {

constexpr SparseTable sparse_avx512 = sparse_table<Code>(fence);

}  // namespace weir::codec

#endif
