// SPDX-License-Identifier: Apache-2.0
//
// Planes in vectors of 16 bytes, which every 64-bit processor has (SSE2, NEON), and the rest element by element. The
// bytes of registers are zipped until each holds one plane; the reverse zips too.
// The compiler's own vectors (vectors16.hpp), so that one text is right for all. Wider ones would be hidden behind the coding of planes.

#include "core/codec/planes.hpp"

#include "core/codec/elements.hpp"
#include "core/codec/targets.hpp"
#include "core/codec/vectors16.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <utility>

namespace weir::codec {
namespace {

static_assert(std::endian::native == std::endian::little,
              "plane k is byte k of an element in memory");

// ---- element by element ----

template <class Element>
Element sign_low(Element value, bool rotate) noexcept {
  return rotate ? std::rotl(value, 1) : value;
}

template <class Element>
void split_each(const unsigned char *in, uint64_t first, uint64_t end, uint64_t count,
                PlaneLayout layout, unsigned char *out) noexcept {
  for (uint64_t i = first; i < end; ++i) {
    Element value = sign_low(load_element<Element>(in + i * sizeof(Element)), layout.rotate);
    if (layout.stride > 0 && i >= layout.stride) {
      const unsigned char *before = in + (i - layout.stride) * sizeof(Element);
      value = static_cast<Element>(value - sign_low(load_element<Element>(before), layout.rotate));
    }
    if (layout.fold) {
      const auto sign = static_cast<Element>(0 - (value >> (8 * sizeof value - 1)));
      value = static_cast<Element>(static_cast<Element>(value << 1) ^ sign);
    }
    for (uint32_t k = 0; k < sizeof(Element); ++k) {
      out[k * count + i] = static_cast<unsigned char>(value >> (8 * k));
    }
  }
}

/// Of the layout only whether to rotate and to unfold.
template <class Element>
void join_each(const unsigned char *const *planes, uint64_t first, uint64_t count, bool rotate,
               bool fold, unsigned char *out) noexcept {
  for (uint64_t i = first; i < count; ++i) {
    Element value = 0;
    for (uint32_t k = 0; k < sizeof(Element); ++k) {
      value = static_cast<Element>(value | static_cast<Element>(planes[k][i]) << (8 * k));
    }
    if (rotate) value = std::rotr(value, 1);
    if (fold) value = static_cast<Element>(value >> 1 ^ static_cast<Element>(0 - (value & 1)));
    std::memcpy(out + i * sizeof value, &value, sizeof value);
  }
}

/// Differences in place to the elements they come from. One sum per residue of the stride, so that they do not wait for
/// each other through memory.
template <class Element, uint32_t stride, bool rotate>
void sum_up(unsigned char *bytes, uint64_t count) noexcept {
  Element sums[stride] = {};
  const auto add = [&](uint64_t i, uint32_t lane) {
    unsigned char *at = bytes + i * sizeof(Element);
    sums[lane] = static_cast<Element>(sums[lane] + load_element<Element>(at));
    const Element value = rotate ? std::rotr(sums[lane], 1) : sums[lane];
    std::memcpy(at, &value, sizeof value);
  };
  uint64_t i = 0;
  for (; i + stride <= count; i += stride) {
    for (uint32_t lane = 0; lane < stride; ++lane) add(i + lane, lane);
  }
  for (uint32_t lane = 0; i < count; ++i, ++lane) add(i, lane);
}

// ---- 16 elements at a time ----

[[gnu::always_inline]] inline Bytes16 even(Bytes16 a, Bytes16 b) noexcept {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
[[gnu::always_inline]] inline Bytes16 odd(Bytes16 a, Bytes16 b) noexcept {
  return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
/// Zips registers whose numbers differ in one bit: the highest bit of a byte's place goes to where that bit was, and that bit
/// becomes the lowest of its place.
template <uint32_t width, uint32_t bit>
[[gnu::always_inline]] inline void zip_by(Bytes16 *registers) noexcept {
  WEIR_UNROLL
  for (uint32_t i = 0; i < width; ++i) {
    if ((i & bit) != 0) continue;
    const Bytes16 a = registers[i], b = registers[i | bit];
    registers[i] = zip_low(a, b);
    registers[i | bit] = zip_high(a, b);
  }
}

/// `width` registers of elements become `width` registers of a plane each; of wide ones in four steps, after which each bit of
/// an element's number has gone through the registers' numbers to the bytes' places.
template <uint32_t width>
[[gnu::always_inline]] inline void part(Bytes16 *registers) noexcept {
  if constexpr (width == 8) {
    zip_by<8, 4>(registers);
    zip_by<8, 2>(registers);
    zip_by<8, 1>(registers);
    zip_by<8, 4>(registers);
  } else if constexpr (width == 4) {
    zip_by<4, 2>(registers);
    zip_by<4, 1>(registers);
    zip_by<4, 2>(registers);
    zip_by<4, 1>(registers);
  } else if constexpr (width == 2) {
    const Bytes16 a = registers[0], b = registers[1];
    registers[0] = even(a, b);
    registers[1] = odd(a, b);
  }
}
template <uint32_t width>
constexpr uint32_t register_of(uint32_t plane) noexcept {
  return width == 8 ? (plane & 1U) << 2U | plane >> 1U : plane;
}

template <class Element, bool rotate>
[[gnu::always_inline]] inline Lanes16<Element> load16(const unsigned char *at) noexcept {
  Lanes16<Element> value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (rotate) value = value << 1 | value >> (8 * sizeof(Element) - 1);
  return value;
}

/// `fold` only with `delta`.
template <class Element, bool rotate, bool delta, bool fold>
void split16(const unsigned char *in, uint64_t first, uint64_t end, uint64_t count, uint32_t stride,
             unsigned char *out) noexcept {
  constexpr uint32_t width = sizeof(Element);
  for (uint64_t i = first; i < end; i += 16) {
    Bytes16 registers[width];
    for (uint32_t k = 0; k < width; ++k) {
      const unsigned char *at = in + i * width + 16 * k;
      Lanes16<Element> value = load16<Element, rotate>(at);
      if constexpr (delta) value -= load16<Element, rotate>(at - stride * width);
      if constexpr (fold) value = value << 1 ^ (Lanes16<Element>{} - (value >> (8 * width - 1)));
      registers[k] = reinterpret_cast<Bytes16>(value);
    }
    part<width>(registers);
    for (uint32_t k = 0; k < width; ++k)
      std::memcpy(out + k * count + i, &registers[register_of<width>(k)], 16);
  }
}

template <class Element, bool rotate, bool fold>
void join16(const unsigned char *const *planes, uint64_t end, unsigned char *out) noexcept {
  constexpr uint32_t width = sizeof(Element);
  for (uint64_t i = 0; i < end; i += 16) {
    Bytes16 registers[width];
    for (uint32_t k = 0; k < width; ++k) std::memcpy(&registers[k], planes[k] + i, 16);
    zip<width>(registers);
    for (uint32_t k = 0; k < width; ++k) {
      auto value = reinterpret_cast<Lanes16<Element>>(registers[k]);
      if constexpr (rotate) value = value >> 1 | value << (8 * width - 1);
      if constexpr (fold) value = value >> 1 ^ (Lanes16<Element>{} - (value & 1));
      std::memcpy(out + i * width + 16 * k, &value, 16);
    }
  }
}

// ---- and both together ----

constexpr uint64_t step = 16;  ///< elements

template <class Element, bool rotate>
void split_as(const unsigned char *in, uint64_t count, PlaneLayout layout,
              unsigned char *out) noexcept {
  const uint64_t end = count - count % step;
  if (layout.stride == 0) {
    split16<Element, rotate, false, false>(in, 0, end, count, 0, out);
  } else {
    // The first have nothing before them.
    split_each<Element>(in, 0, std::min(count, step), count, layout, out);
    layout.fold ? split16<Element, rotate, true, true>(in, step, end, count, layout.stride, out)
                : split16<Element, rotate, true, false>(in, step, end, count, layout.stride, out);
  }
  split_each<Element>(in, end, count, count, layout, out);
}

template <class Element, bool rotate>
void sum_up_by(uint8_t stride, uint64_t count, unsigned char *out) noexcept {
  [=]<uint32_t... i>(std::integer_sequence<uint32_t, i...>) {
    (void)((stride == i + 1 && (sum_up<Element, i + 1, rotate>(out, count), true)) || ...);
  }
  (std::make_integer_sequence<uint32_t, max_stride>());
}

template <class Element>
void join_in(const unsigned char *const *planes, uint64_t count, PlaneLayout layout,
             unsigned char *out) noexcept {
  const uint64_t end = count - count % step;
  const bool rotate = layout.rotate && layout.stride == 0;
  rotate        ? join16<Element, true, false>(planes, end, out)
  : layout.fold ? join16<Element, false, true>(planes, end, out)
                : join16<Element, false, false>(planes, end, out);
  join_each<Element>(planes, end, count, rotate, layout.fold, out);
  layout.rotate ? sum_up_by<Element, true>(layout.stride, count, out)
                : sum_up_by<Element, false>(layout.stride, count, out);
}

}  // namespace

void split(const unsigned char *in, uint64_t count, PlaneLayout layout,
           unsigned char *out) noexcept {
  assert(layout.stride <= max_stride && !(layout.fold && layout.stride == 0));
  with_element(layout.width, [&]<class Element>(Element) {
    assert(sizeof(Element) == layout.width);
    layout.rotate ? split_as<Element, true>(in, count, layout, out)
                  : split_as<Element, false>(in, count, layout, out);
  });
}

void join(const unsigned char *const *planes, uint64_t count, PlaneLayout layout,
          unsigned char *out) noexcept {
  assert(layout.stride <= max_stride && !(layout.fold && layout.stride == 0));
  with_element(layout.width, [&]<class Element>(Element) {
    assert(sizeof(Element) == layout.width);
    join_in<Element>(planes, count, layout, out);
  });
}

}  // namespace weir::codec
