// SPDX-License-Identifier: Apache-2.0
//
// MASK over one block, and its kernels without vector instructions.

#include "core/codec/mask.hpp"

#include "core/codec/little_endian.hpp"
#include "core/codec/mask_kernels.hpp"
#include "core/codec/targets.hpp"

#include <algorithm>
#include <cstring>

namespace weir::codec {
namespace {

constexpr uint64_t header_bytes = 2;
constexpr uint64_t ones = 0x0101010101010101;

/// Byte i of the result is 1 if byte i is not zero, else 0.
inline uint64_t nonzero_bytes(uint64_t word) {
  const uint64_t low = (word & 0x7F * ones) + 0x7F * ones;
  return (low | word) >> 7U & ones;
}

bool pack_scalar(const unsigned char *in, uint64_t groups, uint8_t first, uint8_t other,
                 unsigned char *bits) noexcept {
  const uint64_t firsts = first * ones, others = other * ones;
  for (; groups > 0; --groups, in += mask_group, bits += 8) {
    uint64_t third = 0;
    for (uint32_t i = 0; i < 8; ++i) {
      const auto word = load_little<uint64_t>(in + 8 * i);
      const uint64_t differs = nonzero_bytes(word ^ firsts);
      third |= differs & nonzero_bytes(word ^ others);
      bits[i] = static_cast<unsigned char>(differs * 0x0102040810204080 >> 56U);
    }
    if (third != 0) return false;
  }
  return true;
}

void unpack_scalar(const unsigned char *bits, uint64_t groups, uint8_t first, uint8_t other,
                   unsigned char *out) noexcept {
  const uint64_t firsts = first * ones, change = static_cast<uint8_t>(first ^ other);
  for (uint64_t i = 0; i < 8 * groups; ++i) {
    const uint64_t apart = (bits[i] * ones) & 0x8040201008040201;
    const uint64_t set = (apart + 0x7F * ones) >> 7U & ones;
    store_little(out + 8 * i, firsts ^ set * change);
  }
}

}  // namespace

constexpr MaskKernels mask_scalar{pack_scalar, unpack_scalar};

const MaskKernels &mask_kernels(CpuLevel level) noexcept {
  return table_of<mask_scalar, mask_avx2, mask_avx512, mask_neon>(level);
}

uint64_t mask_encode(const unsigned char *in, uint64_t raw, unsigned char *out, uint64_t room,
                     CpuLevel level) noexcept {
  const uint64_t length = header_bytes + raw / 8 + (raw % 8 != 0 ? 1 : 0);
  if (raw == 0 || length > room) return 0;
  const unsigned char first = in[0];
  const unsigned char *const different =
      std::find_if(in, in + raw, [first](unsigned char byte) { return byte != first; });
  const unsigned char other = different == in + raw ? first : *different;
  const uint64_t groups = raw / mask_group;
  if (!mask_kernels(level).pack(in, groups, first, other, out + header_bytes)) return 0;
  unsigned char *const last = out + header_bytes + 8 * groups;
  std::memset(last, 0, static_cast<uint64_t>(out + length - last));
  for (uint64_t i = groups * mask_group; i < raw; ++i) {
    if (in[i] != first && in[i] != other) return 0;
    const uint64_t bit = i % mask_group;
    if (in[i] != first) last[bit / 8] = static_cast<unsigned char>(last[bit / 8] | 1U << bit % 8);
  }
  out[0] = first;
  out[1] = other;
  return length;
}

bool mask_decode(const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw,
                 CpuLevel level) noexcept {
  if (raw == 0 || bytes != header_bytes + raw / 8 + (raw % 8 != 0 ? 1 : 0)) return false;
  const unsigned char first = in[0], other = in[1];
  const unsigned char *const bits = in + header_bytes, *const end = in + bytes;
  // One way to write each block: it begins with its first value, and bits that mean nothing are 0.
  if ((bits[0] & 1U) != 0 || (raw % 8 != 0 && end[-1] >> raw % 8 != 0)) return false;
  if (first == other && std::any_of(bits, end, [](unsigned char byte) { return byte != 0; })) {
    return false;
  }
  const uint64_t groups = raw / mask_group;
  mask_kernels(level).unpack(bits, groups, first, other, out);
  for (uint64_t i = groups * mask_group; i < raw; ++i)
    out[i] = (bits[i / 8] >> i % 8 & 1U) != 0 ? other : first;
  return true;
}

}  // namespace weir::codec
