// SPDX-License-Identifier: Apache-2.0
//
// SPARSE without vector instructions, for any machine of either byte order, and without a branch for an element.

#include "core/codec/elements.hpp"
#include "core/codec/little_endian.hpp"
#include "core/codec/sparse_kernels.hpp"
#include "core/codec/targets.hpp"

#include <type_traits>

namespace weir::codec {
namespace {

template <uint32_t width>
struct Code {
  using Word = std::conditional_t<
      width == 1, uint8_t,
      std::conditional_t<width == 2, uint16_t, std::conditional_t<width == 4, uint32_t, uint64_t>>>;

  static uint64_t mark(const unsigned char *in, uint64_t groups, unsigned char *bitmaps) noexcept {
    uint64_t nonzeros = 0;
    for (; groups > 0; --groups, bitmaps += 8) {
      uint64_t map = 0;
      for (uint32_t i = 0; i < sparse_group; ++i, in += width)
        map |= uint64_t{load_element<Word>(in) != 0} << i;
      store_little(bitmaps, map);
      nonzeros += static_cast<uint64_t>(std::popcount(map));
    }
    return nonzeros;
  }

  static uint64_t count(const unsigned char *bitmaps, uint64_t groups) noexcept {
    uint64_t nonzeros = 0;
    for (; groups > 0; --groups, bitmaps += 8)
      nonzeros += static_cast<uint64_t>(std::popcount(load_little<uint64_t>(bitmaps)));
    return nonzeros;
  }

  static unsigned char *pack(const unsigned char *in, uint64_t groups, const unsigned char *bitmaps,
                             unsigned char *to) noexcept {
    for (; groups > 0; --groups, bitmaps += 8) {
      auto map = load_little<uint64_t>(bitmaps);
      for (uint32_t i = 0; i < sparse_group; ++i, in += width, map >>= 1U) {
        std::memcpy(to, in, width);
        to += (map & 1U) * width;
      }
    }
    return to;
  }

  static const unsigned char *unpack(const unsigned char *from, uint64_t groups,
                                     const unsigned char *bitmaps, unsigned char *out,
                                     bool /*streaming*/) noexcept {
    for (; groups > 0; --groups, bitmaps += 8) {
      auto map = load_little<uint64_t>(bitmaps);
      for (uint32_t i = 0; i < sparse_group; ++i, out += width, map >>= 1U) {
        const uint64_t there = map & 1U;
        const auto word =
            static_cast<Word>(load_element<Word>(from) & static_cast<Word>(0 - there));
        std::memcpy(out, &word, width);
        from += there * width;
      }
    }
    return from;
  }
};

}  // namespace

constexpr SparseTable sparse_scalar = sparse_table<Code>(no_fence);

const SparseKernels &sparse_kernels(uint32_t width, CpuLevel level) noexcept {
  const auto row = static_cast<uint32_t>(std::countr_zero(width));
  return table_of<sparse_scalar, sparse_avx2, sparse_avx512, sparse_neon>(level)[row];
}

}  // namespace weir::codec
