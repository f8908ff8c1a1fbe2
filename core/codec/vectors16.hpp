// SPDX-License-Identifier: Apache-2.0
//
// Vectors of 16 bytes, which every 64-bit processor has, in the compiler's own terms: registers of byte planes become registers
// of elements. All of it is static in each file that includes this, and compiled for what that file is compiled for.
#pragma once

#include <stdint.h>
#include <string.h>

namespace weir::codec {
namespace {

using Bytes16 = unsigned char __attribute__((vector_size(16)));

template <class Element>
using Lanes16 [[gnu::vector_size(16)]] = Element;

[[gnu::always_inline]] inline Bytes16 zip_low(Bytes16 a, Bytes16 b) noexcept {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
[[gnu::always_inline]] inline Bytes16 zip_high(Bytes16 a, Bytes16 b) noexcept {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}

[[gnu::always_inline]] inline Bytes16 filled16(unsigned char value) noexcept {
  Bytes16 bytes;
  memset(&bytes, value, sizeof bytes);
  return bytes;
}

/// `width` registers of a plane each become as many of elements.
template <uint32_t width>
[[gnu::always_inline]] inline void zip(Bytes16 *registers) noexcept {
  if constexpr (width > 1) {
    Bytes16 evens[width / 2], odds[width / 2];
    for (uint32_t i = 0; i < width / 2; ++i) {
      evens[i] = registers[2 * i];
      odds[i] = registers[2 * i + 1];
    }
    zip<width / 2>(evens);
    zip<width / 2>(odds);
    for (uint32_t i = 0; i < width / 2; ++i) {
      registers[2 * i] = zip_low(evens[i], odds[i]);
      registers[2 * i + 1] = zip_high(evens[i], odds[i]);
    }
  }
}

}  // namespace
}  // namespace weir::codec
