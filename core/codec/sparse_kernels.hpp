// SPDX-License-Identifier: Apache-2.0
//
// The kernels of SPARSE. They work on whole groups of 64 elements, no more than sparse_call_groups at once, and know
// nothing of bounds: where nonzeros are written or read one behind the other, `sparse_reach` bytes beyond those that
// count may be touched too. Each gives where it ended.
#pragma once

#include "core/codec/cpu.hpp"

#include <array>
#include <bit>
#include <cstdint>

namespace weir::codec {

constexpr uint32_t sparse_group = 64;
constexpr uint64_t sparse_call_groups = 32;
constexpr uint64_t sparse_reach = 64;

/// For elements of one width.
struct SparseKernels {
  /// Writes the bitmaps; gives the nonzeros.
  uint64_t (*mark)(const unsigned char *in, uint64_t groups, unsigned char *bitmaps) noexcept;
  /// How many there are by the bitmaps.
  uint64_t (*count)(const unsigned char *bitmaps, uint64_t groups) noexcept;
  unsigned char *(*pack)(const unsigned char *in, uint64_t groups, const unsigned char *bitmaps,
                         unsigned char *to) noexcept;
  /// With `streaming`, `out` is at the start of a line of 64 bytes, and fence() must follow before the call's end.
  const unsigned char *(*unpack)(const unsigned char *from, uint64_t groups,
                                 const unsigned char *bitmaps, unsigned char *out,
                                 bool streaming) noexcept;
  void (*fence)() noexcept;
};

/// By the logarithm of the width: 1, 2, 4, 8 bytes.
using SparseTable = std::array<SparseKernels, 4>;

/// Of a class template with those static functions, the table of all of them.
template <template <uint32_t> class Code>
constexpr SparseTable sparse_table(void (*fence)() noexcept) {
  constexpr auto kernels = []<uint32_t width>(void (*with)() noexcept) {
    using Of = Code<width>;
    return SparseKernels{Of::mark, Of::count, Of::pack, Of::unpack, with};
  };
  return {kernels.template operator()<1>(fence), kernels.template operator()<2>(fence),
          kernels.template operator()<4>(fence), kernels.template operator()<8>(fence)};
}

/// How to move the lanes of 16 bytes, or of 8 if a lane is one byte, for each set of nonzero lanes: `pack` closes the
/// gaps, `unpack` makes them, and where the index is 0xFF there will be zeros.
template <uint32_t width>
struct SparseShuffles {
  static constexpr uint32_t bytes = width == 1 ? 8 : 16;
  static constexpr uint32_t lanes = bytes / width;
  static constexpr uint32_t sets = 1U << lanes;

  uint8_t pack[sets][bytes];
  uint8_t unpack[sets][bytes];

  constexpr SparseShuffles() : pack{}, unpack{} {
    for (uint32_t set = 0; set < sets; ++set) {
      for (uint32_t i = 0; i < bytes; ++i) pack[set][i] = unpack[set][i] = 0xFF;
      uint32_t place = 0;
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        if ((set >> lane & 1U) == 0) continue;
        for (uint32_t i = 0; i < width; ++i) {
          pack[set][place * width + i] = static_cast<uint8_t>(lane * width + i);
          unpack[set][lane * width + i] = static_cast<uint8_t>(place * width + i);
        }
        ++place;
      }
    }
  }
};
template <uint32_t width>
inline constexpr SparseShuffles<width> sparse_shuffles;

/// Only where cpu_has() the level.
const SparseKernels &sparse_kernels(uint32_t width, CpuLevel level) noexcept;

extern const SparseTable sparse_scalar, sparse_avx2, sparse_avx512, sparse_neon;

}  // namespace weir::codec
