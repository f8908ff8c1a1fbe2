// SPDX-License-Identifier: Apache-2.0
//
// What the parts of FX share: how a coded block is laid out, and the kernels, which code whole groups of 64 elements
// and know nothing of bounds. Who calls them has made sure of all that they touch: the planes have room for the
// groups, and behind `escapes` there are `escape_reach` bytes for the groups of one call, to be written or read
// beyond those that count. A kernel moves the pointers on.
//
// An element is taken for a word whose top 8 bits (f16: 5) have the code, and are called its exponent. Rotated, they are
// that, and the sign is the lowest bit. Not rotated, they are the sign and the exponent without its lowest bit, which
// is better where all have the same sign: nothing is spent on it. Of the word
//    low      plane of 64 bytes a group, for f32 of 128: the lowest 8 bits, for f32 16
//    middle   f16: bits 8 to 10 as three bitmaps, 24 bytes a group; f32: bits 16 to 23, 64 bytes a group
//    bitmaps  the exponent's code, k bitmaps a group: bit i of the j-th, a little-endian 64-bit word, is bit j of
//             element i's code. Code 0: the exponent is the next of the escapes; else it is base + code - 1
//    escapes  exponents, a byte each
#pragma once

#include "core/tier/codec/cpu.hpp"
#include "core/tier/codec/form.hpp"

#include <cstdint>

namespace weir::tier {

constexpr uint32_t fx_group = 64;
constexpr uint32_t fx_most_bits = 5;
/// The most groups of one call of a kernel.
constexpr uint64_t fx_call_groups = 32;
constexpr uint64_t fx_escape_reach = fx_call_groups * fx_group + 64;

constexpr bool fx_supports(Form form) {
  return form == Form::f16 || form == Form::bf16 || form == Form::f32;
}
constexpr uint32_t fx_low_bytes(Form form) { return form == Form::f32 ? 128 : 64; }
constexpr uint32_t fx_middle_bytes(Form form) {
  return form == Form::f32 ? 64 : form == Form::f16 ? 24 : 0;
}
constexpr uint32_t fx_largest_exponent(Form form) { return form == Form::f16 ? 31 : 255; }
/// Exponents that k bitmaps have codes for.
constexpr uint32_t fx_window(uint32_t k) { return (1U << k) - 1; }

/// Where the planes of the next group are; Byte is const when they are read.
template <class Byte>
struct FxPlanes {
  Byte *low, *middle, *bitmaps, *escapes;
};
using FxTarget = FxPlanes<unsigned char>;
using FxSource = FxPlanes<const unsigned char>;

using FxEncode = void (*)(const unsigned char *in, uint64_t groups, uint8_t base,
                          FxTarget &to) noexcept;
/// With `streaming`, `out` is at the start of a line of 64 bytes, and fence() must follow before the call's end.
using FxDecode = void (*)(FxSource &from, uint64_t groups, uint8_t base, unsigned char *out,
                          bool streaming) noexcept;

struct FxKernels {
  FxEncode encode[3][2][fx_most_bits];
  FxDecode decode[3][2][fx_most_bits];
  void (*fence)() noexcept;

  static uint32_t row(Form form) { return static_cast<uint32_t>(form) - 1; }
  FxEncode encoder(Form form, bool rotated, uint32_t k) const {
    return encode[row(form)][rotated ? 1 : 0][k - 1];
  }
  FxDecode decoder(Form form, bool rotated, uint32_t k) const {
    return decode[row(form)][rotated ? 1 : 0][k - 1];
  }
};

/// For levels that do not stream.
inline void no_fence() noexcept {}

/// Of a class template with the static functions encode and decode, the table of all of them.
template <template <Form, bool, uint32_t> class Code>
constexpr FxKernels fx_table(void (*fence)() noexcept) {
  FxKernels table{};
  table.fence = fence;
  constexpr auto fill = []<Form form, bool rotated>(FxKernels &to) {
    auto &encode = to.encode[static_cast<uint32_t>(form) - 1][rotated ? 1 : 0];
    auto &decode = to.decode[static_cast<uint32_t>(form) - 1][rotated ? 1 : 0];
    encode[0] = Code<form, rotated, 1>::encode, decode[0] = Code<form, rotated, 1>::decode;
    encode[1] = Code<form, rotated, 2>::encode, decode[1] = Code<form, rotated, 2>::decode;
    encode[2] = Code<form, rotated, 3>::encode, decode[2] = Code<form, rotated, 3>::decode;
    encode[3] = Code<form, rotated, 4>::encode, decode[3] = Code<form, rotated, 4>::decode;
    encode[4] = Code<form, rotated, 5>::encode, decode[4] = Code<form, rotated, 5>::decode;
  };
  fill.template operator()<Form::f16, false>(table);
  fill.template operator()<Form::f16, true>(table);
  fill.template operator()<Form::bf16, false>(table);
  fill.template operator()<Form::bf16, true>(table);
  fill.template operator()<Form::f32, false>(table);
  fill.template operator()<Form::f32, true>(table);
  return table;
}

/// Only where cpu_has() the level.
const FxKernels &fx_kernels(CpuLevel level) noexcept;

const FxKernels &fx_kernels_scalar() noexcept;
const FxKernels &fx_kernels_avx2() noexcept;
const FxKernels &fx_kernels_avx512() noexcept;
const FxKernels &fx_kernels_neon() noexcept;

}  // namespace weir::tier
