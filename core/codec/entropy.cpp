// SPDX-License-Identifier: Apache-2.0
//
// Entropy by a table of logarithms made at compile time.

#include "core/codec/entropy.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace weir::codec {
namespace {

constexpr uint32_t index_bits = 8;

/// log2(1 + i / 256) in 1/65536, by squaring: each square that reaches 2 is one more bit of the logarithm.
constexpr uint32_t log2_of_step(uint32_t i) {
  uint64_t mantissa = (uint64_t{1} << 31U) + (uint64_t{i} << (31U - index_bits));  // 1.0 is 2^31
  uint32_t result = 0;
  for (int bit = 0; bit < 17; ++bit) {
    mantissa = mantissa * mantissa >> 31U;
    const bool doubled = mantissa >> 32U != 0;
    if (doubled) mantissa >>= 1U;
    result = result << 1U | (doubled ? 1U : 0U);
  }
  return (result + 1) >> 1U;
}

constexpr auto log2_table = [] {
  std::array<uint32_t, (1U << index_bits) + 1> table{};
  for (uint32_t i = 0; i < 1U << index_bits; ++i) table[i] = log2_of_step(i);
  table[1U << index_bits] = 65536;
  return table;
}();

constexpr uint32_t interpolated(uint32_t value) {
  if (value < 2) return 0;
  const auto whole = static_cast<uint32_t>(std::bit_width(value) - 1);
  const uint32_t fraction = value << (31 - whole) & 0x7FFFFFFFU;  // of 2^31
  const uint32_t index = fraction >> (31 - index_bits);
  const uint32_t rest = fraction >> (31 - index_bits - 12) & 0xFFFU;  // of 2^12
  const uint32_t low = log2_table[index], high = log2_table[index + 1];
  return (whole << 16U) + low + ((high - low) * rest >> 12U);
}

/// value * log2(value), for as many as occur in a sample.
constexpr uint32_t products = 1024;
constexpr auto product_table = [] {
  std::array<uint32_t, products> table{};
  for (uint32_t i = 0; i < products; ++i) table[i] = i * interpolated(i);
  return table;
}();

/// 1 / (2 ln 2) bits, in 1/65536: what each value that occurs is short of in a sample.
constexpr uint64_t correction = 47274;

}  // namespace

void count_bytes(const unsigned char *bytes, uint64_t count, ByteCounts *counts) noexcept {
  // Equal neighbours would wait for each other in one table.
  uint32_t tables[4][256] = {};
  uint64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, sizeof word);
    for (uint32_t k = 0; k < 8; ++k) ++tables[k % 4][word >> (8 * k) & 0xFFU];
  }
  for (; i < count; ++i) ++tables[0][bytes[i]];
  for (uint32_t value = 0; value < 256; ++value) {
    (*counts)[value] += tables[0][value] + tables[1][value] + tables[2][value] + tables[3][value];
  }
}

uint32_t log2_fixed(uint32_t value) noexcept { return interpolated(value); }

uint64_t entropy_bits(const ByteCounts &counts) noexcept {
  uint64_t total = 0, logs = 0, values = 0;
  for (const uint32_t count : counts) {
    total += count;
    values += count > 0 ? 1 : 0;
    logs += count < products ? product_table[count] : uint64_t{count} * log2_fixed(count);
  }
  if (values < 2) return 0;
  const uint64_t bits = total * log2_fixed(static_cast<uint32_t>(total));
  return (bits > logs ? bits - logs : 0) + (values - 1) * correction;
}

uint64_t huffman_bits(const ByteCounts &counts) noexcept {
  const uint64_t bits = entropy_bits(counts);
  const uint64_t total = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  return bits == 0 ? 0 : std::max(bits, total << 16U);
}

}  // namespace weir::codec
