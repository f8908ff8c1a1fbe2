// SPDX-License-Identifier: Apache-2.0
//
// SPARSE's kernels over Lanes, which is what a level's instructions can do, little-endian, with elements of one width:
//   width, bytes, lanes    of an element, of what is moved at once, and elements in that
//   map(in)                bit i: element i of a group is not zero
//   ones(bits)             how many are set
//   pack(in, set, to)      writes those of the lanes that are in the set to `to`, and whatever behind them
//   unpack(from, set, out, streaming)    the reverse, with zeros at the others
// It is included behind WEIR_TARGET_BEGIN_*, after all else: it makes nothing but functions of Lanes, a file's own type.
#pragma once

#include "core/codec/sparse_kernels.hpp"
#include "core/codec/targets.hpp"

namespace weir::codec {

template <class Lanes>
struct SparseLoops {
  static constexpr uint64_t all = ~uint64_t{0} >> (64 - Lanes::lanes);

  static uint64_t load_map(const unsigned char *bitmap) {
    uint64_t map;
    __builtin_memcpy(&map, bitmap, sizeof map);
    return map;
  }

  static uint64_t mark(const unsigned char *in, uint64_t groups, unsigned char *bitmaps) noexcept {
    uint64_t nonzeros = 0;
    for (; groups > 0; --groups, bitmaps += 8, in += sparse_group * Lanes::width) {
      const uint64_t map = Lanes::map(in);
      __builtin_memcpy(bitmaps, &map, sizeof map);
      nonzeros += Lanes::ones(map);
    }
    return nonzeros;
  }

  static uint64_t count(const unsigned char *bitmaps, uint64_t groups) noexcept {
    uint64_t nonzeros = 0;
    for (; groups > 0; --groups, bitmaps += 8) nonzeros += Lanes::ones(load_map(bitmaps));
    return nonzeros;
  }

  static unsigned char *pack(const unsigned char *in, uint64_t groups, const unsigned char *bitmaps,
                             unsigned char *to) noexcept {
    for (; groups > 0; --groups, bitmaps += 8) {
      const uint64_t map = load_map(bitmaps);
      WEIR_UNROLL
      for (uint32_t i = 0; i < sparse_group; i += Lanes::lanes, in += Lanes::bytes) {
        const uint64_t set = map >> i & all;
        Lanes::pack(in, set, to);
        to += Lanes::ones(set) * Lanes::width;
      }
    }
    return to;
  }

  static const unsigned char *unpack(const unsigned char *from, uint64_t groups,
                                     const unsigned char *bitmaps, unsigned char *out,
                                     bool streaming) noexcept {
    for (; groups > 0; --groups, bitmaps += 8) {
      const uint64_t map = load_map(bitmaps);
      WEIR_UNROLL
      for (uint32_t i = 0; i < sparse_group; i += Lanes::lanes, out += Lanes::bytes) {
        const uint64_t set = map >> i & all;
        Lanes::unpack(from, set, out, streaming);
        from += Lanes::ones(set) * Lanes::width;
      }
    }
    return from;
  }
};

}  // namespace weir::codec
