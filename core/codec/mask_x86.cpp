// SPDX-License-Identifier: Apache-2.0
//
// MASK for AVX2 and for AVX-512.

#include "core/codec/mask_kernels.hpp"
#include "core/codec/targets.hpp"

#if WEIR_X86_KERNELS
#include <immintrin.h>

namespace weir::codec {
namespace {

WEIR_TARGET_BEGIN_AVX2

inline __m256i load_32(const unsigned char *from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
}
inline __m256i bytes_of(uint8_t value) { return _mm256_set1_epi8(static_cast<char>(value)); }

bool pack_avx2(const unsigned char *in, uint64_t groups, uint8_t first, uint8_t other,
               unsigned char *bits) noexcept {
  const __m256i firsts = bytes_of(first), others = bytes_of(other);
  for (uint64_t i = 0; i < 2 * groups; ++i, in += 32, bits += 4) {
    const __m256i value = load_32(in), is_first = _mm256_cmpeq_epi8(value, firsts);
    const __m256i known = _mm256_or_si256(is_first, _mm256_cmpeq_epi8(value, others));
    if (_mm256_movemask_epi8(known) != -1) return false;
    const uint32_t map = ~static_cast<uint32_t>(_mm256_movemask_epi8(is_first));
    __builtin_memcpy(bits, &map, sizeof map);
  }
  return true;
}

void unpack_avx2(const unsigned char *bits, uint64_t groups, uint8_t first, uint8_t other,
                 unsigned char *out) noexcept {
  const __m256i firsts = bytes_of(first), others = bytes_of(other);
  const __m256i byte_of =
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit_of = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
  for (uint64_t i = 0; i < 2 * groups; ++i, out += 32, bits += 4) {
    int map;
    __builtin_memcpy(&map, bits, sizeof map);
    const __m256i apart =
        _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(map), byte_of), bit_of);
    const __m256i set = _mm256_cmpeq_epi8(apart, bit_of);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(out), _mm256_blendv_epi8(firsts, others, set));
  }
}

WEIR_TARGET_END
WEIR_TARGET_BEGIN_AVX512

bool pack_avx512(const unsigned char *in, uint64_t groups, uint8_t first, uint8_t other,
                 unsigned char *bits) noexcept {
  const __m512i firsts = _mm512_set1_epi8(static_cast<char>(first)),
                others = _mm512_set1_epi8(static_cast<char>(other));
  for (; groups > 0; --groups, in += mask_group, bits += 8) {
    const __m512i value = _mm512_loadu_si512(in);
    const uint64_t map = _mm512_cmpneq_epi8_mask(value, firsts);
    if ((map & _mm512_cmpneq_epi8_mask(value, others)) != 0) return false;
    __builtin_memcpy(bits, &map, sizeof map);
  }
  return true;
}

void unpack_avx512(const unsigned char *bits, uint64_t groups, uint8_t first, uint8_t other,
                   unsigned char *out) noexcept {
  const __m512i firsts = _mm512_set1_epi8(static_cast<char>(first)),
                others = _mm512_set1_epi8(static_cast<char>(other));
  for (; groups > 0; --groups, out += mask_group, bits += 8) {
    uint64_t map;
    __builtin_memcpy(&map, bits, sizeof map);
    _mm512_storeu_si512(out, _mm512_mask_mov_epi8(firsts, map, others));
  }
}

WEIR_TARGET_END

}  // namespace

constexpr MaskKernels mask_avx2{pack_avx2, unpack_avx2};
constexpr MaskKernels mask_avx512{pack_avx512, unpack_avx512};

}  // namespace weir::codec

#endif
