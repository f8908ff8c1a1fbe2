// SPDX-License-Identifier: Apache-2.0
//
// NARROW's loops, 16 elements at a time. Step for step what narrow_kernels.cpp does, with choices for its branches.

#include "core/codec/narrow_kernels.hpp"

#include "core/codec/targets.hpp"

#if WEIR_X86_KERNELS

#include <immintrin.h>

WEIR_TARGET_BEGIN_AVX2
namespace weir::codec {
namespace {

using V = __m256i;

V set(uint32_t bits) noexcept { return _mm256_set1_epi32(static_cast<int>(bits)); }
V load(const unsigned char *from) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
}
void store(unsigned char *to, V value) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), value);
}
/// Of values below 2^31, as all of |x| are.
V above(V a, uint32_t limit) noexcept { return _mm256_cmpgt_epi32(a, set(limit)); }
V choose(V mask, V yes, V no) noexcept { return _mm256_blendv_epi8(no, yes, mask); }

/// What of a NaN is kept, and a bit that keeps it one.
V keep_nan(V size, uint32_t kept) noexcept {
  const V upper = _mm256_and_si256(size, set(kept));
  const V payload = _mm256_and_si256(upper, set(0x007fffffU));
  const V none = _mm256_cmpeq_epi32(payload, _mm256_setzero_si256());
  return _mm256_or_si256(upper, _mm256_and_si256(none, set(0x00400000U)));
}

/// To the form that lacks so many of the lowest bits: bf16 or f16.
template <int lost>
V round_8(V bits) noexcept {
  constexpr uint32_t kept = ~uint32_t{0} << lost, below_half = (1U << (lost - 1)) - 1;
  const V size = _mm256_and_si256(bits, set(0x7fffffffU));
  const V odd = _mm256_and_si256(_mm256_srli_epi32(size, lost), set(1));
  const V sum = _mm256_add_epi32(_mm256_add_epi32(size, set(below_half)), odd);
  V out = _mm256_and_si256(sum, set(kept));
  if constexpr (lost == 16) {
    out = choose(above(out, 0x7f7fffffU), size, out);
  } else {
    const __m256 half = _mm256_set1_ps(0.5F);
    const V small =
        _mm256_castps_si256(_mm256_sub_ps(_mm256_add_ps(_mm256_castsi256_ps(size), half), half));
    out = choose(above(size, 0x387fffffU), out, small);
    out = choose(above(size, 0x477fefffU), size, out);
  }
  out = choose(above(size, 0x7f800000U), keep_nan(size, kept), out);
  return _mm256_or_si256(out, _mm256_and_si256(bits, set(0x80000000U)));
}
constexpr int bf16_lost = 16, f16_lost = 13;

template <V (*eight)(V) noexcept>
bool round_all(const unsigned char *in, unsigned char *out, uint64_t count) noexcept {
  for (uint64_t i = 0; i < count; i += 8) store(out + 4 * i, eight(load(in + 4 * i)));
  return true;
}

/// 16 values below 2^16 in order, as 16 bits each.
V pack(V first, V second) noexcept {
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(first, second), 0xd8);
}

bool to_bf16(const unsigned char *in, unsigned char *out, uint64_t count) noexcept {
  V lost = _mm256_setzero_si256();
  for (uint64_t i = 0; i < count; i += 16) {
    const V a = load(in + 4 * i);
    const V b = load(in + 4 * i + 32);
    lost = _mm256_or_si256(lost, _mm256_or_si256(a, b));
    store(out + 2 * i, pack(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16)));
  }
  return _mm256_testz_si256(lost, set(0xffffU)) != 0;
}

V from_bf16_8(V half) noexcept { return _mm256_slli_epi32(half, 16); }

template <V (*eight)(V) noexcept>
bool from_all(const unsigned char *in, unsigned char *out, uint64_t count) noexcept {
  for (uint64_t i = 0; i < count; i += 16) {
    const V halves = load(in + 2 * i);
    const V a = eight(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(halves)));
    const V b = eight(_mm256_cvtepu16_epi32(_mm256_extracti128_si256(halves, 1)));
    store(out + 4 * i, a);
    store(out + 4 * i + 32, b);
  }
  return true;
}

/// Eight halves in 32 bits each; *lost gets a bit wherever that is not exact.
V to_f16_8(V bits, V *lost) noexcept {
  const V size = _mm256_and_si256(bits, set(0x7fffffffU));
  const V over = _mm256_andnot_si256(above(size, 0x7f7fffffU), above(size, 0x477fefffU));
  const V off = _mm256_xor_si256(round_8<f16_lost>(bits), bits);
  *lost = _mm256_or_si256(*lost, _mm256_or_si256(over, off));
  const V normal = _mm256_srli_epi32(_mm256_sub_epi32(size, set(0x38000000U)), 13);
  const V small =
      _mm256_cvttps_epi32(_mm256_mul_ps(_mm256_castsi256_ps(size), _mm256_set1_ps(0x1p24F)));
  const V special =
      _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(size, 13), set(0x3ffU)), set(0x7c00U));
  V half = choose(above(size, 0x387fffffU), normal, small);
  half = choose(above(size, 0x7f7fffffU), special, half);
  return _mm256_or_si256(half, _mm256_srli_epi32(_mm256_and_si256(bits, set(0x80000000U)), 16));
}

bool to_f16(const unsigned char *in, unsigned char *out, uint64_t count) noexcept {
  V lost = _mm256_setzero_si256();
  for (uint64_t i = 0; i < count; i += 16) {
    const V a = to_f16_8(load(in + 4 * i), &lost);
    const V b = to_f16_8(load(in + 4 * i + 32), &lost);
    if (_mm256_testz_si256(lost, lost) == 0) return false;
    store(out + 2 * i, pack(a, b));
  }
  return true;
}

V from_f16_8(V half) noexcept {
  const V size = _mm256_and_si256(half, set(0x7fffU));
  const V shifted = _mm256_slli_epi32(size, 13);
  const V normal = _mm256_add_epi32(shifted, set(0x38000000U));
  const V special = _mm256_add_epi32(shifted, set(0x70000000U));
  const V small =
      _mm256_castps_si256(_mm256_mul_ps(_mm256_cvtepi32_ps(size), _mm256_set1_ps(0x1p-24F)));
  V wide = choose(above(size, 0x3ffU), normal, small);
  wide = choose(above(size, 0x7bffU), special, wide);
  return _mm256_or_si256(wide, _mm256_slli_epi32(_mm256_and_si256(half, set(0x8000U)), 16));
}

}  // namespace
}  // namespace weir::codec
WEIR_TARGET_END

namespace weir::codec {

constexpr NarrowKernels narrow_avx2 = {
    {round_all<round_8<bf16_lost>>, to_bf16, from_all<from_bf16_8>},
    {round_all<round_8<f16_lost>>, to_f16, from_all<from_f16_8>}};

}  // namespace weir::codec

#endif
