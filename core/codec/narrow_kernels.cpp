// SPDX-License-Identifier: Apache-2.0
//
// NARROW's loops, element by element. The bits of |x| are ordered as their values are, so ranges are compared as integers.

#include "core/codec/narrow_kernels.hpp"

#include "core/codec/little_endian.hpp"
#include "core/codec/targets.hpp"

#include <bit>

namespace weir::codec {
namespace {

constexpr uint32_t sign = 0x80000000U;
constexpr uint32_t infinity = 0x7f800000U;
constexpr uint32_t quiet = 0x00400000U;
constexpr uint32_t f16_over = 0x477ff000U;   ///< 65520: rounds to infinity
constexpr uint32_t f16_least = 0x38800000U;  ///< 2^-14, the least normal value
constexpr uint32_t f16_bias = 0x38000000U;   ///< difference of the exponents' biases, in place

template <class In, uint32_t (*one)(In) noexcept>
bool each(const unsigned char *in, unsigned char *out, uint64_t count) noexcept {
  for (uint64_t i = 0; i < count; ++i)
    store_little<uint32_t>(out + 4 * i, one(load_little<In>(in + sizeof(In) * i)));
  return true;
}

bool to_bf16(const unsigned char *in, unsigned char *out, uint64_t count) noexcept {
  uint32_t lost = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto bits = load_little<uint32_t>(in + 4 * i);
    lost |= bits & 0xffffU;
    store_little<uint16_t>(out + 2 * i, static_cast<uint16_t>(bits >> 16U));
  }
  return lost == 0;
}

uint32_t from_bf16(uint16_t half) noexcept { return uint32_t{half} << 16U; }

uint32_t half_of(uint32_t size) noexcept {
  if (size >= infinity) return 0x7c00U | (size >> 13U & 0x3ffU);
  if (size >= f16_least) return (size - f16_bias) >> 13U;
  return static_cast<uint32_t>(std::bit_cast<float>(size) * 0x1p24F);
}

bool to_f16(const unsigned char *in, unsigned char *out, uint64_t count) noexcept {
  for (uint64_t i = 0; i < count; ++i) {
    const auto bits = load_little<uint32_t>(in + 4 * i);
    const uint32_t size = bits & ~sign;
    const bool over = size >= f16_over && size < infinity;
    if (over || round_to_f16(bits) != bits) return false;
    store_little<uint16_t>(out + 2 * i,
                           static_cast<uint16_t>((bits & sign) >> 16U | half_of(size)));
  }
  return true;
}

uint32_t from_f16(uint16_t half) noexcept {
  const uint32_t size = half & 0x7fffU;
  uint32_t wide = (size << 13U) + f16_bias;
  if (size >= 0x7c00U) wide = (size << 13U) + 2 * f16_bias;
  if (size < 0x400U) wide = std::bit_cast<uint32_t>(static_cast<float>(size) * 0x1p-24F);
  return (half & 0x8000U) << 16U | wide;
}

/// What is kept of a NaN, which must stay one.
uint32_t nan_of(uint32_t kept) noexcept { return (kept & 0x007fffffU) == 0 ? kept | quiet : kept; }

}  // namespace

uint32_t round_to_bf16(uint32_t bits) noexcept {
  const uint32_t size = bits & ~sign;
  if (size > infinity) return nan_of(bits & 0xffff0000U);
  const uint32_t rounded = (size + 0x7fffU + (size >> 16U & 1U)) & 0xffff0000U;
  return rounded >= infinity ? bits : (bits & sign) | rounded;
}

uint32_t round_to_f16(uint32_t bits) noexcept {
  const uint32_t size = bits & ~sign;
  if (size > infinity) return nan_of(bits & 0xffffe000U);
  if (size >= f16_over) return bits;
  if (size >= f16_least) {
    const uint32_t rounded = (size + 0xfffU + (size >> 13U & 1U)) & ~0x1fffU;
    return (bits & sign) | rounded;
  }
  // A unit in the last place of a half is 2^-24 here, as that of floats from 0.5 to 1 is.
  const float rounded = (std::bit_cast<float>(size) + 0.5F) - 0.5F;
  return (bits & sign) | std::bit_cast<uint32_t>(rounded);
}

constexpr NarrowKernels narrow_scalar = {
    {each<uint32_t, round_to_bf16>, to_bf16, each<uint16_t, from_bf16>},
    {each<uint32_t, round_to_f16>, to_f16, each<uint16_t, from_f16>}};

const NarrowKernels &narrow_kernels(CpuLevel level) noexcept {
  return table_of<narrow_scalar, narrow_avx2, narrow_avx2, narrow_scalar>(level);
}

}  // namespace weir::codec
