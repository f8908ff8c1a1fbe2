// SPDX-License-Identifier: Apache-2.0
//
// MASK for NEON.

#include "core/codec/mask_kernels.hpp"
#include "core/codec/targets.hpp"

#if WEIR_NEON_KERNELS
#include <arm_neon.h>

namespace weir::codec {
namespace {

inline uint8x16_t bit_weights() { return vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201)); }

bool pack(const unsigned char *in, uint64_t groups, uint8_t first, uint8_t other,
          unsigned char *bits) noexcept {
  const uint8x16_t firsts = vdupq_n_u8(first), others = vdupq_n_u8(other);
  for (; groups > 0; --groups, in += mask_group, bits += 8) {
    uint8x16_t known = vdupq_n_u8(0xFF), weighed[4];
    WEIR_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      const uint8x16_t value = vld1q_u8(in + 16 * i), is_first = vceqq_u8(value, firsts);
      known = vandq_u8(known, vorrq_u8(is_first, vceqq_u8(value, others)));
      weighed[i] = vbicq_u8(bit_weights(), is_first);
    }
    if (vminvq_u8(known) == 0) return false;
    const uint8x16_t all =
        vpaddq_u8(vpaddq_u8(weighed[0], weighed[1]), vpaddq_u8(weighed[2], weighed[3]));
    vst1_u8(bits, vget_low_u8(vpaddq_u8(all, all)));
  }
  return true;
}

void unpack(const unsigned char *bits, uint64_t groups, uint8_t first, uint8_t other,
            unsigned char *out) noexcept {
  const uint8x16_t firsts = vdupq_n_u8(first), others = vdupq_n_u8(other);
  for (uint64_t i = 0; i < 4 * groups; ++i, bits += 2, out += 16) {
    const uint8x16_t map = vcombine_u8(vdup_n_u8(bits[0]), vdup_n_u8(bits[1]));
    vst1q_u8(out, vbslq_u8(vtstq_u8(map, bit_weights()), others, firsts));
  }
}

}  // namespace

constexpr MaskKernels mask_neon{pack, unpack};

}  // namespace weir::codec

#endif
