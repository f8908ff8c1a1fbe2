// SPDX-License-Identifier: Apache-2.0
//
// SPARSE for AVX-512 with VBMI2, which compresses and expands lanes of every width by a mask.

#include "core/tier/codec/sparse_kernels.hpp"
#include "core/tier/codec/targets.hpp"

#if WEIR_X86_KERNELS
#include <immintrin.h>

namespace weir::tier {
namespace {

WEIR_TARGET_BEGIN_AVX512

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

template <uint32_t width>
struct Code {
  static constexpr uint32_t lanes = 64 / width;
  static constexpr uint64_t all = lanes == 64 ? ~uint64_t{0} : (uint64_t{1} << lanes % 64) - 1;

  static uint64_t mark(const unsigned char *in, uint64_t groups, unsigned char *bitmaps) noexcept {
    uint64_t nonzeros = 0;
    for (; groups > 0; --groups, bitmaps += 8) {
      uint64_t map = 0;
      WEIR_UNROLL
      for (uint32_t i = 0; i < sparse_group; i += lanes, in += 64)
        map |= nonzero<width>(_mm512_loadu_si512(in)) << i;
      __builtin_memcpy(bitmaps, &map, sizeof map);
      nonzeros += static_cast<uint64_t>(_mm_popcnt_u64(map));
    }
    return nonzeros;
  }

  static uint64_t count(const unsigned char *bitmaps, uint64_t groups) noexcept {
    uint64_t nonzeros = 0;
    for (; groups > 0; --groups, bitmaps += 8) {
      uint64_t map;
      __builtin_memcpy(&map, bitmaps, sizeof map);
      nonzeros += static_cast<uint64_t>(_mm_popcnt_u64(map));
    }
    return nonzeros;
  }

  static unsigned char *pack(const unsigned char *in, uint64_t groups, const unsigned char *bitmaps,
                             unsigned char *to) noexcept {
    for (; groups > 0; --groups, bitmaps += 8) {
      uint64_t map;
      __builtin_memcpy(&map, bitmaps, sizeof map);
      WEIR_UNROLL
      for (uint32_t i = 0; i < sparse_group; i += lanes, in += 64) {
        const uint64_t mask = map >> i & all;
        _mm512_storeu_si512(to, compress<width>(mask, _mm512_loadu_si512(in)));
        to += static_cast<uint64_t>(_mm_popcnt_u64(mask)) * width;
      }
    }
    return to;
  }

  static const unsigned char *unpack(const unsigned char *from, uint64_t groups,
                                     const unsigned char *bitmaps, unsigned char *out,
                                     bool streaming) noexcept {
    for (; groups > 0; --groups, bitmaps += 8) {
      uint64_t map;
      __builtin_memcpy(&map, bitmaps, sizeof map);
      WEIR_UNROLL
      for (uint32_t i = 0; i < sparse_group; i += lanes, out += 64) {
        const uint64_t mask = map >> i & all;
        const __m512i value = expand<width>(mask, _mm512_loadu_si512(from));
        streaming ? _mm512_stream_si512(reinterpret_cast<__m512i *>(out), value)
                  : _mm512_storeu_si512(out, value);
        from += static_cast<uint64_t>(_mm_popcnt_u64(mask)) * width;
      }
    }
    return from;
  }
};

WEIR_TARGET_END

}  // namespace

const SparseTable &sparse_table_avx512() noexcept {
  static constexpr SparseTable table = sparse_table<Code>(fence);
  return table;
}

}  // namespace weir::tier

#endif
