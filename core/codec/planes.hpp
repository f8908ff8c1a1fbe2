// SPDX-License-Identifier: Apache-2.0
//
// Byte planes: elements of 1, 2, 4 or 8 bytes taken apart, so that bytes of equal meaning stand together. Plane k holds
// byte k of every element, the least significant first. Before that, where the layout says so, the sign goes to the
// lowest bit (the top plane of a float is then its exponent), and each element becomes its difference from the one
// `stride` before it, modulo 2^n.
//
// join() is the exact reverse of split() for any bytes. Both are given whole elements; the odd bytes behind them are the
// caller's. The same bytes come out on every processor. No memory is taken.
#pragma once

#include <cstdint>

namespace weir::codec {

constexpr uint32_t max_planes = 8;
constexpr uint32_t max_stride = 4;

struct PlaneLayout {
  uint8_t width = 1;    ///< bytes of an element: 1, 2, 4 or 8
  bool rotate = false;  ///< the sign goes to the lowest bit
  uint8_t stride = 0;   ///< differences between elements so far apart, up to max_stride; 0: none
  /// Differences d become 2 d or, below zero, -2 d - 1: few bits, whatever their sign.
  bool fold = false;
};

/// Plane k goes to out + k * count.
void split(const unsigned char *in, uint64_t count, PlaneLayout layout,
           unsigned char *out) noexcept;

/// Plane k is at planes[k], of `count` bytes.
void join(const unsigned char *const *planes, uint64_t count, PlaneLayout layout,
          unsigned char *out) noexcept;

}  // namespace weir::codec
