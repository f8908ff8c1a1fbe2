// SPDX-License-Identifier: Apache-2.0
//
// Which kernels this build can have, and how a file of kernels is compiled for more than the build's own target: all of
// its functions stand between WEIR_TARGET_BEGIN_* and WEIR_TARGET_END, in an unnamed namespace, behind its last
// include. An inline function of a header must never be compiled in between: the linker keeps one copy of such a
// function, and might keep the one that not every processor runs. Templates of nothing but the file's own types may be.
#pragma once

#include "core/codec/cpu.hpp"

#if defined(__x86_64__)
#define WEIR_X86_KERNELS 1
#else
#define WEIR_X86_KERNELS 0
#endif

#if defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WEIR_NEON_KERNELS 1
#else
#define WEIR_NEON_KERNELS 0
#endif

#define WEIR_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define WEIR_TARGET_BEGIN(features) \
  WEIR_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define WEIR_TARGET_END WEIR_PRAGMA(clang attribute pop)
#else
// GCC 12 warns of the "undefined" operand inside of its own AVX-512 intrinsics (its bug 105593).
#define WEIR_TARGET_BEGIN(features)                           \
  WEIR_PRAGMA(GCC diagnostic push)                            \
  WEIR_PRAGMA(GCC diagnostic ignored "-Wmaybe-uninitialized") \
  WEIR_PRAGMA(GCC diagnostic ignored "-Wuninitialized")       \
  WEIR_PRAGMA(GCC push_options)                               \
  WEIR_PRAGMA(GCC target(features))
#define WEIR_TARGET_END WEIR_PRAGMA(GCC pop_options) WEIR_PRAGMA(GCC diagnostic pop)
#endif

/// Before a loop of a few known turns: -O2 would leave it one, with its indices in registers and its arrays in memory.
#if defined(__clang__)
#define WEIR_UNROLL WEIR_PRAGMA(unroll)
#else
#define WEIR_UNROLL WEIR_PRAGMA(GCC unroll 64)
#endif

#define WEIR_TARGET_BEGIN_AVX2 WEIR_TARGET_BEGIN("avx2,bmi,bmi2,popcnt")
#define WEIR_TARGET_BEGIN_AVX512 \
  WEIR_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi,bmi2,popcnt")

namespace weir::codec {

/// Of a method's tables of kernels the level's; what this build has no kernels for is coded by the scalar ones. A table
/// that a build does not have is not used by it.
template <const auto &scalar, const auto &avx2, const auto &avx512, const auto &neon>
constexpr auto &table_of(CpuLevel level) noexcept {
  if constexpr (WEIR_X86_KERNELS != 0) {
    if (level == CpuLevel::avx512) return avx512;
    if (level == CpuLevel::avx2) return avx2;
  }
  if constexpr (WEIR_NEON_KERNELS != 0) {
    if (level == CpuLevel::neon) return neon;
  }
  return scalar;
}

}  // namespace weir::codec
