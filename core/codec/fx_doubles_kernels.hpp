// SPDX-License-Identifier: Apache-2.0
//
// What levels differ in about doubles: how groups are taken apart and put together again. The caller has checked that all of it is there.
#pragma once

#include "core/codec/cpu.hpp"
#include "core/codec/targets.hpp"

#include <cstdint>

namespace weir::codec {

/// Bytes of a group but its exponents: six planes of 64 bytes, and five bitmaps of 8.
constexpr uint64_t doubles_planes = 6, doubles_between = 5;
constexpr uint64_t doubles_group_bytes = doubles_planes * 64 + 8 * doubles_between;
constexpr uint32_t doubles_infinite = 2047, doubles_spread = 254;

/// 64 elements a group, whose exponents are the bytes as fx_doubles.hpp says, `first` what 1 stands for.
using DoublesJoin = void (*)(const unsigned char *in, const unsigned char *exponents,
                             uint32_t first, uint64_t groups, unsigned char *out) noexcept;

/// The reverse. False: an exponent is not among the bytes.
using DoublesSplit = bool (*)(const unsigned char *in, uint32_t first, uint64_t groups,
                              unsigned char *out, unsigned char *exponents) noexcept;

struct DoublesKernel {
  DoublesSplit split;
  DoublesJoin join;
};
extern const DoublesKernel doubles_plain, doubles_avx2;

}  // namespace weir::codec
