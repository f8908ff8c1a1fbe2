// SPDX-License-Identifier: Apache-2.0
//
// What the parts of FX share: how a coded block is laid out, and the kernels, which code whole groups of 64 elements
// and know nothing of bounds. The caller has made sure of all that they touch: the planes have room for the
// groups, and behind `escapes` there are `fx_escape_reach` bytes for the groups of one call, to be written or read
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
//
// Bytes are a form too, whose exponent is all of the element: nothing is left for low and middle. Escapes are coded so again.
#pragma once

#include "core/codec/cpu.hpp"
#include "core/codec/form.hpp"

#include <cstdint>
#include <utility>

namespace weir::codec {

constexpr uint32_t fx_group = 64;
constexpr uint32_t fx_most_bits = 5;
/// The most groups of one call of a kernel.
constexpr uint64_t fx_call_groups = 32;
constexpr uint64_t fx_escape_reach = fx_call_groups * fx_group + 64;

constexpr bool fx_supports(Form form) {
  return form == Form::f16 || form == Form::bf16 || form == Form::f32;
}
constexpr uint32_t fx_low_bytes(Form form) {
  return form == Form::bytes ? 0 : form == Form::f32 ? 128 : 64;
}
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

struct FxCoder {
  FxEncode encode;
  FxDecode decode;
};

struct FxKernels {
  static constexpr uint32_t kinds = 4 * 2 * fx_most_bits;

  FxCoder coders[kinds];
  void (*fence)() noexcept;

  const FxCoder &coder(Form form, bool rotated, uint32_t k) const {
    const uint32_t row = 2 * static_cast<uint32_t>(form) + (rotated ? 1 : 0);
    return coders[row * fx_most_bits + k - 1];
  }
};

/// Of a class template with the static functions encode and decode, the table of all of them.
template <template <Form, bool, uint32_t> class Code>
constexpr FxKernels fx_table(void (*fence)() noexcept) {
  return [fence]<uint32_t... i>(std::integer_sequence<uint32_t, i...>) {
    constexpr auto coder = []<uint32_t at>() {
      constexpr uint32_t row = at / fx_most_bits, k = at % fx_most_bits + 1;
      using Of = Code<static_cast<Form>(row / 2), row % 2 != 0, k>;
      return FxCoder{Of::encode, Of::decode};
    };
    return FxKernels{{coder.template operator()<i>()...}, fence};
  }
  (std::make_integer_sequence<uint32_t, FxKernels::kinds>());
}

/// Only where cpu_has() the level.
const FxKernels &fx_kernels(CpuLevel level) noexcept;

extern const FxKernels fx_scalar, fx_avx2, fx_avx512, fx_neon;

}  // namespace weir::codec
