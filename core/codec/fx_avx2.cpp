// SPDX-License-Identifier: Apache-2.0
//
// FX for AVX2: a group's exponents are two registers of 32 bytes. Escapes are packed and unpacked eight bytes at a time,
// by the shuffles that SPARSE has for its bytes.

#include "core/codec/fx_kernels.hpp"
#include "core/codec/sparse_kernels.hpp"
#include "core/codec/targets.hpp"

#if WEIR_X86_KERNELS
#include <immintrin.h>

namespace weir::codec {
namespace {

constexpr const SparseShuffles<1> &shuffles = sparse_shuffles<1>;

WEIR_TARGET_BEGIN_AVX2

inline __m256i load(const unsigned char *from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
}
inline void store(unsigned char *to, __m256i value, bool streaming = false) {
  auto *const at = reinterpret_cast<__m256i *>(to);
  streaming ? _mm256_stream_si256(at, value) : _mm256_storeu_si256(at, value);
}
void fence() noexcept { _mm_sfence(); }
inline __m256i bytes_of(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }
/// Undoes that packing and unpacking work in each half of a register: quarters 0, 2, 1, 3.
inline __m256i cross(__m256i value) { return _mm256_permute4x64_epi64(value, 0xD8); }

inline __m256i low_bytes(__m256i a, __m256i b) {
  const __m256i mask = _mm256_set1_epi16(0xFF);
  return cross(_mm256_packus_epi16(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask)));
}
inline __m256i high_bytes(__m256i a, __m256i b) {
  return cross(_mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8)));
}
inline __m256i low_words(__m256i a, __m256i b) {
  const __m256i mask = _mm256_set1_epi32(0xFFFF);
  return cross(_mm256_packus_epi32(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask)));
}
inline __m256i high_words(__m256i a, __m256i b) {
  return cross(_mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16)));
}

/// To the left, by so many bits of 16 or of 32.
template <int by>
inline __m256i rotate_16(__m256i words) {
  if constexpr (by == 0) return words;
  return _mm256_or_si256(_mm256_slli_epi16(words, by), _mm256_srli_epi16(words, 16 - by));
}
template <int by>
inline __m256i rotate_32(__m256i words) {
  if constexpr (by == 0) return words;
  return _mm256_or_si256(_mm256_slli_epi32(words, by), _mm256_srli_epi32(words, 32 - by));
}

inline uint32_t top_bits(__m256i bytes) {
  return static_cast<uint32_t>(_mm256_movemask_epi8(bytes));
}

template <uint32_t count>
inline void store_bitmaps(__m256i codes, unsigned char *to) {
  WEIR_UNROLL
  for (uint32_t bit = 0; bit < count; ++bit) {
    const uint32_t map = top_bits(_mm256_slli_epi16(codes, static_cast<int>(7 - bit)));
    __builtin_memcpy(to + 8 * bit, &map, sizeof map);
  }
}

/// 0xFF where the bit is set.
inline __m256i spread_bits(uint32_t bits) {
  const __m256i byte_of =
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit_of = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
  const __m256i apart = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)), byte_of);
  return _mm256_cmpeq_epi8(_mm256_and_si256(apart, bit_of), bit_of);
}

template <uint32_t count>
inline __m256i load_bitmaps(const unsigned char *from, uint32_t *any) {
  __m256i codes = _mm256_setzero_si256();
  *any = 0;
  WEIR_UNROLL
  for (uint32_t bit = 0; bit < count; ++bit) {
    uint32_t map;
    __builtin_memcpy(&map, from + 8 * bit, sizeof map);
    *any |= map;
    codes = _mm256_or_si256(codes, _mm256_and_si256(spread_bits(map), bytes_of(1 << bit)));
  }
  return codes;
}

/// Takes 32 elements apart, the half-th of a group.
template <Form form, bool rotated>
inline __m256i split(const unsigned char *in, const FxTarget &to, uint32_t half) {
  constexpr int by = rotated ? 1 : 0;
  if constexpr (form == Form::bytes) {
    return load(in);
  } else if constexpr (form == Form::f32) {
    const __m256i a = rotate_32<by>(load(in)), b = rotate_32<by>(load(in + 32)),
                  c = rotate_32<by>(load(in + 64)), d = rotate_32<by>(load(in + 96));
    store(to.low + 64 * half, low_words(a, b));
    store(to.low + 64 * half + 32, low_words(c, d));
    const __m256i first = high_words(a, b), last = high_words(c, d);
    store(to.middle + 32 * half, low_bytes(first, last));
    return high_bytes(first, last);
  } else {
    const __m256i a = rotate_16<by>(load(in)), b = rotate_16<by>(load(in + 32));
    store(to.low + 32 * half, low_bytes(a, b));
    const __m256i high = high_bytes(a, b);
    if constexpr (form == Form::bf16) return high;
    store_bitmaps<3>(high, to.middle + 4 * half);
    return _mm256_and_si256(_mm256_srli_epi16(high, 3), bytes_of(31));
  }
}

template <Form form, bool rotated>
inline void join(const FxSource &from, uint32_t half, __m256i exponents, unsigned char *out,
                 bool streaming) {
  if constexpr (form == Form::bytes) {
    store(out, exponents, streaming);
  } else if constexpr (form == Form::f32) {
    const __m256i middle = cross(load(from.middle + 32 * half)), top = cross(exponents);
    const __m256i high[2] = {_mm256_unpacklo_epi8(middle, top), _mm256_unpackhi_epi8(middle, top)};
    WEIR_UNROLL
    for (uint32_t i = 0; i < 2; ++i) {
      const __m256i low = cross(load(from.low + 64 * half + 32 * i)), words = cross(high[i]);
      constexpr int by = rotated ? 31 : 0;
      store(out + 64 * i, rotate_32<by>(_mm256_unpacklo_epi16(low, words)), streaming);
      store(out + 64 * i + 32, rotate_32<by>(_mm256_unpackhi_epi16(low, words)), streaming);
    }
  } else {
    __m256i high = exponents;
    if constexpr (form == Form::f16) {
      uint32_t any = 0;
      const __m256i middle = load_bitmaps<3>(from.middle + 4 * half, &any);
      high = _mm256_or_si256(_mm256_and_si256(_mm256_slli_epi16(exponents, 3), bytes_of(0xF8)),
                             middle);
    }
    const __m256i low = cross(load(from.low + 32 * half));
    high = cross(high);
    constexpr int by = rotated ? 15 : 0;
    store(out, rotate_16<by>(_mm256_unpacklo_epi8(low, high)), streaming);
    store(out + 32, rotate_16<by>(_mm256_unpackhi_epi8(low, high)), streaming);
  }
}

/// Byte i of the result: how many bits are set in the bytes below i. Never as many as 64 there.
inline uint64_t ranks(uint64_t bits) {
  constexpr uint64_t ones = 0x0101010101010101;
  bits -= bits >> 1U & 0x55 * ones;
  bits = (bits & 0x33 * ones) + (bits >> 2U & 0x33 * ones);
  bits = (bits + (bits >> 4U)) & 0x0F * ones;
  return bits * ones << 8U;
}

inline __m128i load_8(const unsigned char *from) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i *>(from));
}

/// Appends the bytes whose bits are set; up to 8 bytes more are written.
inline unsigned char *take_escapes(const unsigned char *group, uint64_t which, unsigned char *to) {
  const uint64_t rank = ranks(which);
  WEIR_UNROLL
  for (uint32_t i = 0; i < fx_group; i += 8) {
    const __m128i shuffle = load_8(shuffles.pack[which >> i & 255U]);
    _mm_storel_epi64(reinterpret_cast<__m128i *>(to + (rank >> i & 255U)),
                     _mm_shuffle_epi8(load_8(group + i), shuffle));
  }
  return to + _mm_popcnt_u64(which);
}

/// The next bytes at the places of 32 whose bits are set, which begin at bit `start`; zero at the others.
inline __m256i put_escapes(const unsigned char *from, uint64_t which, uint64_t rank,
                           uint32_t start) {
  __m128i parts[4];
  WEIR_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t bit = start + 8 * i;
    parts[i] = _mm_shuffle_epi8(load_8(from + (rank >> bit & 255U)),
                                load_8(shuffles.unpack[which >> bit & 255U]));
  }
  return _mm256_set_m128i(_mm_unpacklo_epi64(parts[2], parts[3]),
                          _mm_unpacklo_epi64(parts[0], parts[1]));
}

template <Form form, bool rotated, uint32_t k>
struct Code {
  static constexpr uint32_t half_bytes = fx_group / 2 * element_bytes(form);

  static void encode(const unsigned char *in, uint64_t groups, uint8_t base,
                     FxTarget &target) noexcept {
    FxTarget to = target;
    alignas(32) unsigned char group[fx_group];
    const __m256i below = bytes_of(base - 1), one = bytes_of(1), last = bytes_of(fx_window(k) - 1);
    for (; groups > 0; --groups, in += 2 * half_bytes) {
      uint64_t coded = 0;
      WEIR_UNROLL
      for (uint32_t half = 0; half < 2; ++half) {
        const __m256i exponents = split<form, rotated>(in + half * half_bytes, to, half);
        const __m256i codes = _mm256_sub_epi8(exponents, below);
        const __m256i offsets = _mm256_sub_epi8(codes, one);
        const __m256i inside = _mm256_cmpeq_epi8(_mm256_min_epu8(offsets, last), offsets);
        store_bitmaps<k>(_mm256_and_si256(codes, inside), to.bitmaps + 4 * half);
        coded |= static_cast<uint64_t>(top_bits(inside)) << (32 * half);
        store(group + 32 * half, exponents);
      }
      to.low += fx_low_bytes(form);
      to.middle += fx_middle_bytes(form);
      to.bitmaps += 8 * k;
      to.escapes = take_escapes(group, ~coded, to.escapes);
    }
    target = to;
  }

  static void decode(FxSource &source, uint64_t groups, uint8_t base, unsigned char *out,
                     bool streaming) noexcept {
    FxSource from = source;
    const __m256i below = bytes_of(base - 1);
    for (; groups > 0; --groups, out += 2 * half_bytes) {
      uint32_t coded[2];
      __m256i exponents[2], zero[2];
      WEIR_UNROLL
      for (uint32_t half = 0; half < 2; ++half) {
        const __m256i codes = load_bitmaps<k>(from.bitmaps + 4 * half, &coded[half]);
        zero[half] = _mm256_cmpeq_epi8(codes, _mm256_setzero_si256());
        exponents[half] = _mm256_add_epi8(codes, below);
      }
      from.bitmaps += 8 * k;
      const uint64_t escaped = ~(coded[0] | static_cast<uint64_t>(coded[1]) << 32U);
      if (escaped != 0) {
        const uint64_t rank = ranks(escaped);
        WEIR_UNROLL
        for (uint32_t half = 0; half < 2; ++half) {
          exponents[half] = _mm256_blendv_epi8(
              exponents[half], put_escapes(from.escapes, escaped, rank, 32 * half), zero[half]);
        }
        from.escapes += _mm_popcnt_u64(escaped);
      }
      WEIR_UNROLL
      for (uint32_t half = 0; half < 2; ++half)
        join<form, rotated>(from, half, exponents[half], out + half * half_bytes, streaming);
      from.low += fx_low_bytes(form);
      from.middle += fx_middle_bytes(form);
    }
    source = from;
  }
};

WEIR_TARGET_END

}  // namespace

constexpr FxKernels fx_avx2 = fx_table<Code>(fence);

}  // namespace weir::codec

#endif
