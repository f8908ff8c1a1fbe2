// SPDX-License-Identifier: Apache-2.0
//
// Counting exponents and choosing the window.

#include "core/tier/codec/fx_window.hpp"

#include "core/tier/codec/fx_kernels.hpp"
#include "core/tier/codec/little_endian.hpp"

namespace weir::tier {

uint64_t FxWindow::expected(Form form, uint64_t elements) const noexcept {
  const uint64_t fixed =
      (fx_low_bytes(form) + fx_middle_bytes(form) + uint64_t{8} * k) * elements / fx_group;
  return fixed + (sampled == 0 ? 0 : elements * escaped / sampled);
}

void FxCensus::add(Form form, const unsigned char *in, uint64_t elements) noexcept {
  const auto count = [this, elements](auto exponent) {
    uint64_t i = 0;
    for (; i + tables <= elements; i += tables) {
      for (uint32_t table = 0; table < tables; ++table) ++counts_[table][exponent(i + table)];
    }
    for (; i < elements; ++i) ++counts_[0][exponent(i)];
  };
  // The upper half of a float is a bf16.
  if (form == Form::f16)
    count([in](uint64_t i) { return load_little<uint16_t>(in + 2 * i) >> 10U & 31U; });
  else if (form == Form::bf16)
    count([in](uint64_t i) { return load_little<uint16_t>(in + 2 * i) >> 7U & 255U; });
  else if (form == Form::f32)
    count([in](uint64_t i) { return load_little<uint16_t>(in + 4 * i + 2) >> 7U & 255U; });
}

FxWindow FxCensus::best(Form form) const noexcept {
  // How many have an exponent below each; between the first and the last that occur the windows lie.
  uint32_t below[257] = {};
  const uint32_t largest = fx_largest_exponent(form);
  uint32_t first = largest, last = 0;
  for (uint32_t exponent = 0; exponent <= largest; ++exponent) {
    uint32_t count = 0;
    for (const auto &table : counts_) count += table[exponent];
    below[exponent + 1] = below[exponent] + count;
    if (count != 0) first = std::min(first, exponent), last = exponent;
  }
  FxWindow best;
  best.sampled = below[largest + 1];
  uint64_t best_bits = UINT64_MAX;
  for (uint32_t k = 1; k <= fx_most_bits; ++k) {
    const uint32_t width = fx_window(k);
    uint32_t covered = 0, base = 0;
    for (uint32_t at = std::min(first, largest + 1 - width);
         at + width <= largest + 1 && (at <= last || at == 0); ++at) {
      if (below[at + width] - below[at] <= covered) continue;
      covered = below[at + width] - below[at];
      base = at;
    }
    const uint32_t escaped = best.sampled - covered;
    const uint64_t bits = uint64_t{best.sampled} * k + uint64_t{escaped} * 8;
    if (bits >= best_bits) continue;
    best_bits = bits;
    best.k = static_cast<uint8_t>(k);
    best.base = static_cast<uint8_t>(base);
    best.escaped = escaped;
  }
  return best;
}

}  // namespace weir::tier
