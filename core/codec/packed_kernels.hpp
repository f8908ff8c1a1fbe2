// SPDX-License-Identifier: Apache-2.0
//
// Packed differences (bit_planes.hpp) back to elements, group by group and without leaving registers but for the bitmaps: bits
// to planes, planes to words, words unfolded, summed up and rotated. The same elements from every level.
//
// A kernel checks what it reads: groups never have more bits than their words, and never reach behind the end.
#pragma once

#include "core/codec/cpu.hpp"
#include "core/codec/planes.hpp"
#include "core/codec/targets.hpp"

#include <cstdint>

namespace weir::codec {

/// Where the next group is, and what the differences are added to.
struct PackedSource {
  const unsigned char *bits;      ///< of each group from the next on
  const unsigned char *at, *end;  ///< the groups' bytes, and their end
  /// The last 32 bytes of the words so far, before they were rotated; zeros before the first.
  alignas(16) unsigned char before[32] = {};
};

/// So many groups of 64 elements to `out`. False: the groups are malformed.
using PackedDecode = bool (*)(PackedSource &from, uint64_t groups, unsigned char *out) noexcept;

struct PackedKernels {
  static constexpr uint32_t widths = 4, kinds = widths * max_stride * 2;
  PackedDecode decoders[kinds];

  /// Of a layout with a stride.
  PackedDecode of(PlaneLayout layout) const noexcept {
    const auto width = static_cast<uint32_t>(__builtin_ctz(layout.width));
    return decoders[(width * max_stride + layout.stride - 1U) * 2 + (layout.rotate ? 1 : 0)];
  }
};

/// Only where cpu_has() the level.
const PackedKernels &packed_kernels(CpuLevel level) noexcept;

extern const PackedKernels packed_plain, packed_avx2;

}  // namespace weir::codec
