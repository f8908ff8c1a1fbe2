// SPDX-License-Identifier: Apache-2.0
//
// Bytes as elements of each form have them, the same on every run: what models hold, and what they hardly ever do.
#pragma once

#include "core/codec/form.hpp"
#include "core/codec/little_endian.hpp"

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace weir::test {

enum class Values {
  normal,     ///< around 0.02 wide
  scattered,  ///< any exponent: nearly all are escapes
  equal,
  specials,   ///< infinities, NaNs with payloads, denormals, both zeros
  rectified,  ///< normal, with zeros for the negative
  sparse,     ///< nineteen of twenty are zero
  zeros,
};
constexpr Values all_values[] = {Values::normal,   Values::scattered, Values::equal,
                                 Values::specials, Values::rectified, Values::sparse,
                                 Values::zeros};

/// The bits of a float in another form, cut off: exact enough to have its distribution.
inline uint64_t bits_of(float value, codec::Form form) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  switch (form) {
    case codec::Form::f16: {
      const uint32_t exponent = bits >> 23U & 255U;
      const uint32_t narrow = exponent < 113 ? 0 : exponent > 142 ? 31 : exponent - 112;
      return (bits >> 16U & 0x8000U) | narrow << 10U | (bits >> 13U & 0x3FFU);
    }
    case codec::Form::bf16:
      return bits >> 16U;
    case codec::Form::f32:
      return bits;
    case codec::Form::f64: {
      const double wide = value;
      uint64_t all = 0;
      std::memcpy(&all, &wide, sizeof all);
      return all;
    }
    case codec::Form::bytes:
      break;
  }
  return bits >> 24U;
}

inline uint64_t special_bits(uint64_t which, uint64_t payload, codec::Form form) {
  const uint32_t width = 8 * codec::element_bytes(form);
  const uint32_t mantissa = form == codec::Form::f16    ? 10
                            : form == codec::Form::bf16 ? 7
                            : form == codec::Form::f32  ? 23
                            : form == codec::Form::f64  ? 52
                                                        : 3;
  const uint64_t sign = uint64_t{1} << (width - 1), fraction = (uint64_t{1} << mantissa) - 1;
  const uint64_t exponents = (sign - 1) & ~fraction;
  switch (which % 8) {
    case 0:
      return exponents;
    case 1:
      return exponents | sign;
    case 2:
      return exponents | (payload & fraction) | 1;  // NaN
    case 3:
      return exponents | sign | (payload & fraction) | 1;
    case 4:
      return payload & fraction;  // denormal
    case 5:
      return sign | (payload & fraction);
    case 6:
      return sign;  // -0
    default:
      return 0;
  }
}

inline std::vector<unsigned char> make_values(codec::Form form, Values values, uint64_t raw,
                                              uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  const uint32_t width = codec::element_bytes(form);
  std::vector<unsigned char> bytes(raw + 8);
  for (uint64_t at = 0; at < raw; at += width) {
    uint64_t bits = 0;
    const float value = normal(random);
    switch (values) {
      case Values::normal:
        bits = bits_of(value, form);
        break;
      case Values::scattered:
        bits = random();
        break;
      case Values::equal:
        bits = bits_of(0.3F, form);
        break;
      case Values::specials:
        bits = special_bits(random(), random(), form);
        break;
      case Values::rectified:
        bits = value > 0 ? bits_of(value, form) : 0;
        break;
      case Values::sparse:
        bits = random() % 20 == 0 ? bits_of(value, form) : 0;
        break;
      case Values::zeros:
        break;
    }
    unsigned char element[8];
    codec::store_little(element, bits);
    std::memcpy(&bytes[at], element, width);
  }
  bytes.resize(raw);
  return bytes;
}

}  // namespace weir::test
