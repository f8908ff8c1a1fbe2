// SPDX-License-Identifier: Apache-2.0
//
// The loops of packed_kernels.hpp, once for each file that includes this, and compiled for what that file is compiled for: so
// all of it is static there. Vectors are of 16 bytes in any case; what wider instruction sets add is how bytes are moved in them.
// Before it: packed_kernels.hpp and <utility>, so that nothing of others is compiled for it.

#include "core/codec/vectors16.hpp"

namespace weir::codec {
namespace {

template <int... i>
using Indices = std::integer_sequence<int, i...>;
using Sixteen = std::make_integer_sequence<int, 16>;

/// Words of 2^log bytes.
template <uint32_t log>
struct Word {
  using Type = uint64_t;
};
template <>
struct Word<0> {
  using Type = uint8_t;
};
template <>
struct Word<1> {
  using Type = uint16_t;
};
template <>
struct Word<2> {
  using Type = uint32_t;
};

/// `by` bytes up, and zeros below.
template <uint32_t by>
[[gnu::always_inline]] inline Bytes16 moved_up(Bytes16 value) noexcept {
  return [value]<int... i>(Indices<i...>) {
    return __builtin_shufflevector(
        Bytes16{}, value, (i < static_cast<int>(by) ? i : 16 + i - static_cast<int>(by))...);
  }
  (Sixteen());
}

/// The last `period` bytes, again and again, as they go on.
template <uint32_t period>
[[gnu::always_inline]] inline Bytes16 going_on(Bytes16 value) noexcept {
  return [value]<int... i>(Indices<i...>) {
    return __builtin_shufflevector(
        value, value, (16 - static_cast<int>(period) + i % static_cast<int>(period))...);
  }
  (Sixteen());
}

template <class Element>
[[gnu::always_inline]] inline Bytes16 added(Bytes16 a, Bytes16 b) noexcept {
  return reinterpret_cast<Bytes16>(reinterpret_cast<Lanes16<Element>>(a) +
                                   reinterpret_cast<Lanes16<Element>>(b));
}

/// Differences of elements `stride` apart to sums. `far` and `near` are the two vectors before.
template <class Element, uint32_t stride>
[[gnu::always_inline]] inline Bytes16 summed(Bytes16 value, Bytes16 far, Bytes16 near) noexcept {
  constexpr uint32_t period = sizeof(Element) * stride;
  if constexpr (period < 16) {
    value = added<Element>(value, moved_up<period>(value));
    if constexpr (2 * period < 16) value = added<Element>(value, moved_up<2 * period>(value));
    if constexpr (4 * period < 16) value = added<Element>(value, moved_up<4 * period>(value));
    if constexpr (8 * period < 16) value = added<Element>(value, moved_up<8 * period>(value));
    return added<Element>(value, going_on<period>(near));
  } else if constexpr (period == 16) {
    return added<Element>(value, near);
  } else if constexpr (period == 24) {
    const Bytes16 from = __builtin_shufflevector(far, near, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,
                                                 18, 19, 20, 21, 22, 23);
    return added<Element>(value, from);
  } else {
    static_assert(period == 32);
    return added<Element>(value, far);
  }
}

/// A plane of 64 bytes from bitmaps: bit i of the j-th is bit j of byte i.
[[gnu::always_inline]] inline void spread_bitmaps(const unsigned char *in, uint32_t bits,
                                                  unsigned char *plane) noexcept {
  const Bytes16 bit_of = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  Bytes16 quarters[4] = {};
  for (uint32_t bit = 0; bit < bits; ++bit) {
    Bytes16 map = {};
    memcpy(&map, in + 8 * bit, 8);
    const Bytes16 twice = zip_low(map, map);  // each byte twice, then four times ...
    const Bytes16 low = zip_low(twice, twice), high = zip_high(twice, twice);
    const Bytes16 bytes[4] = {zip_low(low, low), zip_high(low, low), zip_low(high, high),
                              zip_high(high, high)};
    const auto value = static_cast<unsigned char>(1U << bit);
    const Bytes16 values = Bytes16{} + value;
    WEIR_UNROLL
    for (uint32_t i = 0; i < 4; ++i)
      quarters[i] |= reinterpret_cast<Bytes16>((bytes[i] & bit_of) == bit_of) & values;
  }
  memcpy(plane, quarters, sizeof quarters);
}

template <class Element, uint32_t stride, bool rotate>
struct Packed {
  static constexpr uint32_t width = sizeof(Element), group = 64;

  static bool decode(PackedSource &source, uint64_t groups, unsigned char *out) noexcept {
    alignas(16) unsigned char bitmaps[group];
    alignas(16) static constexpr unsigned char nothing[group] = {};
    const unsigned char *at = source.at;
    Bytes16 far, near;
    memcpy(&far, source.before, 16);
    memcpy(&near, source.before + 16, 16);
    for (; groups > 0; --groups, out += group * width) {
      const uint32_t all = *source.bits++, whole = all / 8, bits = all % 8;
      if (all > 8 * width || static_cast<uint64_t>(source.end - at) < 8 * uint64_t{all})
        return false;
      const unsigned char *planes[width];
      for (uint32_t k = 0; k < width; ++k) planes[k] = k < whole ? at + group * k : nothing;
      if (bits > 0) {
        spread_bitmaps(at + group * whole, bits, bitmaps);
        planes[whole] = bitmaps;
      }
      at += 8 * all;
      for (uint32_t from = 0; from < group; from += 16) {
        Bytes16 registers[width];
        WEIR_UNROLL
        for (uint32_t k = 0; k < width; ++k) memcpy(&registers[k], planes[k] + from, 16);
        zip<width>(registers);
        WEIR_UNROLL
        for (uint32_t k = 0; k < width; ++k) {
          const auto folded = reinterpret_cast<Lanes16<Element>>(registers[k]);
          const Lanes16<Element> difference = folded >> 1 ^ (Lanes16<Element>{} - (folded & 1));
          const Bytes16 sum =
              summed<Element, stride>(reinterpret_cast<Bytes16>(difference), far, near);
          far = near;
          near = sum;
          auto word = reinterpret_cast<Lanes16<Element>>(sum);
          if constexpr (rotate) word = word >> 1 | word << (8 * width - 1);
          memcpy(out + from * width + 16 * k, &word, 16);
        }
      }
    }
    memcpy(source.before, &far, 16);
    memcpy(source.before + 16, &near, 16);
    source.at = at;
    return true;
  }
};

/// As PackedKernels::of() finds them.
template <uint32_t... i>
constexpr PackedKernels packed_table(std::integer_sequence<uint32_t, i...>) {
  constexpr auto decoder = []<uint32_t at>() {
    constexpr uint32_t width = at / 2 / max_stride, stride = at / 2 % max_stride + 1;
    return Packed < typename Word<width>::Type, stride, at % 2 != 0 && width != 0 > ::decode;
  };
  return {{decoder.template operator()<i>()...}};
}

}  // namespace
}  // namespace weir::codec
