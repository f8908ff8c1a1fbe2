// SPDX-License-Identifier: Apache-2.0
//
// SPARSE for NEON: the lanes of 16 bytes are moved by a shuffle that a table has for each set of them.

#include "core/codec/sparse_loops.hpp"

#if WEIR_NEON_KERNELS
#include <arm_neon.h>

namespace weir::codec {
namespace {

/// 0xFF for each lane of one register that is zero, in all of its bytes.
template <uint32_t width>
inline uint8x16_t zero_lanes(const unsigned char *in) {
  const uint8x16_t value = vld1q_u8(in);
  if constexpr (width == 1) return vceqzq_u8(value);
  if constexpr (width == 2) return vreinterpretq_u8_u16(vceqzq_u16(vreinterpretq_u16_u8(value)));
  if constexpr (width == 4) return vreinterpretq_u8_u32(vceqzq_u32(vreinterpretq_u32_u8(value)));
  return vreinterpretq_u8_u64(vceqzq_u64(vreinterpretq_u64_u8(value)));
}

/// A byte for each of 16 elements, 0xFF if it is zero: `step` registers are narrowed to half until one is left.
template <uint32_t width, uint32_t step = width>
inline uint8x16_t zeros(const unsigned char *in) {
  if constexpr (step == 1)
    return zero_lanes<width>(in);
  else
    return vuzp1q_u8(zeros<width, step / 2>(in), zeros<width, step / 2>(in + 8 * step));
}

inline uint64_t bits_of(uint8x16_t a, uint8x16_t b, uint8x16_t c, uint8x16_t d) {
  const uint8x16_t weights = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
  const uint8x16_t first = vpaddq_u8(vandq_u8(a, weights), vandq_u8(b, weights));
  const uint8x16_t last = vpaddq_u8(vandq_u8(c, weights), vandq_u8(d, weights));
  const uint8x16_t all = vpaddq_u8(first, last);
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(all, all)), 0);
}

/// 16 bytes, or the lower 8 of them.
template <uint32_t bytes>
inline uint8x16_t load(const unsigned char *from) {
  if constexpr (bytes == 16) return vld1q_u8(from);
  return vcombine_u8(vld1_u8(from), vdup_n_u8(0));
}
template <uint32_t bytes>
inline void store(unsigned char *to, uint8x16_t value) {
  if constexpr (bytes == 16)
    vst1q_u8(to, value);
  else
    vst1_u8(to, vget_low_u8(value));
}

template <uint32_t width_>
struct Lanes {
  static constexpr const SparseShuffles<width_> &shuffles = sparse_shuffles<width_>;
  static constexpr uint32_t width = width_, bytes = shuffles.bytes, lanes = shuffles.lanes;

  static uint64_t map(const unsigned char *in) {
    constexpr uint32_t part = 16 * width;
    return ~bits_of(zeros<width>(in), zeros<width>(in + part), zeros<width>(in + 2 * part),
                    zeros<width>(in + 3 * part));
  }
  static uint64_t ones(uint64_t bits) { return vaddv_u8(vcnt_u8(vcreate_u8(bits))); }
  static void pack(const unsigned char *in, uint64_t set, unsigned char *to) {
    store<bytes>(to, vqtbl1q_u8(load<bytes>(in), load<bytes>(shuffles.pack[set])));
  }
  static void unpack(const unsigned char *from, uint64_t set, unsigned char *out,
                     bool /*streaming*/) {
    store<bytes>(out, vqtbl1q_u8(load<bytes>(from), load<bytes>(shuffles.unpack[set])));
  }
};

template <uint32_t width>
using Code = SparseLoops<Lanes<width>>;

}  // namespace

constexpr SparseTable sparse_neon = sparse_table<Code>(no_fence);

}  // namespace weir::codec

#endif
