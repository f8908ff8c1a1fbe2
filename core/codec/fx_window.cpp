// SPDX-License-Identifier: Apache-2.0
//
// Counting exponents and choosing the window.

#include "core/codec/fx_window.hpp"

#include "core/codec/fx_kernels.hpp"
#include "core/codec/little_endian.hpp"

namespace weir::codec {

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
  if (form == Form::bytes)
    count([in](uint64_t i) { return uint32_t{in[i]}; });
  else if (form == Form::f16)
    count([in](uint64_t i) { return load_little<uint16_t>(in + 2 * i) >> 10U; });
  else if (form == Form::bf16)
    count([in](uint64_t i) { return load_little<uint16_t>(in + 2 * i) >> 7U; });
  else if (form == Form::f32)
    count([in](uint64_t i) { return load_little<uint16_t>(in + 4 * i + 2) >> 7U; });
}

namespace {

/// The best window over the counts of each of the largest + 1 exponents, put into `best` if it takes fewer bits.
void try_windows(const uint16_t *counts, uint32_t largest, bool rotated, uint64_t *best_bits,
                 FxWindow *best) noexcept {
  // How many have an exponent below each; between the first and the last that occur the windows lie.
  uint32_t below[257] = {};
  uint32_t first = largest, last = 0;
  for (uint32_t exponent = 0; exponent <= largest; ++exponent) {
    below[exponent + 1] = below[exponent] + counts[exponent];
    if (counts[exponent] != 0) first = std::min(first, exponent), last = exponent;
  }
  const uint32_t sampled = below[largest + 1];
  for (uint32_t k = 1; k <= fx_most_bits; ++k) {
    const uint32_t width = fx_window(k), end = largest + 1 - width;
    uint32_t covered = 0, base = 0;
    for (uint32_t at = std::min(first, end); at <= std::min(last, end); ++at) {
      if (below[at + width] - below[at] <= covered) continue;
      covered = below[at + width] - below[at];
      base = at;
    }
    const uint32_t escaped = sampled - covered;
    const uint64_t bits = uint64_t{sampled} * k + uint64_t{escaped} * 8;
    if (bits >= *best_bits) continue;
    *best_bits = bits;
    *best =
        FxWindow{static_cast<uint8_t>(k), static_cast<uint8_t>(base), rotated, sampled, escaped};
  }
}

}  // namespace

FxWindow FxCensus::best(Form form) const noexcept {
  uint16_t all[512] = {}, exponents[256] = {};
  for (const auto &table : counts_) {
    for (uint32_t i = 0; i < 512; ++i) all[i] = static_cast<uint16_t>(all[i] + table[i]);
  }
  const uint32_t largest = fx_largest_exponent(form), end = largest + 1;
  uint32_t sampled = 0, negative = 0;
  for (uint32_t i = 0; i < end; ++i) {
    exponents[i] = static_cast<uint16_t>(all[i] + all[end + i]);
    sampled += exponents[i];
    negative += all[end + i];
  }
  FxWindow best;
  uint64_t bits = UINT64_MAX;
  try_windows(exponents, largest, true, &bits, &best);
  if (form == Form::bytes) return best;
  // A window has one sign only, and more escapes than one of eight are never worth the bit that is saved.
  if (std::min(negative, sampled - negative) > sampled / 8) return best;
  for (uint32_t i = 0; i < end; ++i)
    exponents[i] = static_cast<uint16_t>(all[2 * i] + all[2 * i + 1]);
  try_windows(exponents, largest, false, &bits, &best);
  return best;
}

}  // namespace weir::codec
