// SPDX-License-Identifier: Apache-2.0
//
// Which exponents a block gets codes for: those that make its sample smallest. The sample is short runs of neighbours
// spread over the block at uneven distances, so that no period of the data hides from it.
#pragma once

#include "core/codec/form.hpp"

#include <algorithm>
#include <cstdint>

namespace weir::codec {

struct FxWindow {
  uint8_t k = 1, base = 0;
  bool rotated = true;
  uint32_t sampled = 0, escaped = 0;  ///< of the sample

  /// What so many elements are expected to take, without header and tail.
  uint64_t expected(Form form, uint64_t elements) const noexcept;
};

/// Counts signs with exponents, of at most some 60000 elements.
class FxCensus {
 public:
  void add(Form form, const unsigned char *in, uint64_t elements) noexcept;
  /// Takes so many elements that were zero out again. They may have been counted in any table; what is read is sums.
  void forget_zeros(uint64_t count) noexcept {
    counts_[0][0] = static_cast<uint16_t>(counts_[0][0] - count);
  }
  FxWindow best(Form form) const noexcept;

 private:
  // Neighbours often have the same exponent; in tables of their own they do not wait for each other.
  static constexpr uint32_t tables = 4;
  uint16_t counts_[tables][512] = {};
};

/// Calls take(first, count) for each run of elements of the sample.
template <class Take>
void for_sample(const unsigned char *in, uint64_t elements, uint32_t width, Take &&take) {
  constexpr uint64_t runs = 64, run = 16;
  const uint64_t spacing = elements / runs;
  if (spacing <= run) return take(uint64_t{0}, elements);
  const auto start = [spacing](uint64_t index) {
    const uint64_t scattered = index * 0x9E3779B97F4A7C15U >> 40U;
    return index * spacing + scattered % (spacing - run + 1);
  };
  for (uint64_t i = 0; i < runs; ++i) __builtin_prefetch(in + start(i) * width);
  for (uint64_t i = 0; i < runs; ++i) take(start(i), run);
}

}  // namespace weir::codec
