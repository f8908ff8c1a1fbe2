// SPDX-License-Identifier: Apache-2.0
//
// Detection in one pass over the sample: bytes are counted by their place in words of 8, as they are and as they would
// be with the sign rotated out of the way, and the counts for narrower elements are sums of those.

#include "core/codec/detect.hpp"

#include "core/codec/elements.hpp"
#include "core/codec/entropy.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weir::codec {
namespace {

constexpr uint32_t word = 8;
constexpr uint64_t windows = 16;
constexpr uint64_t window_bytes = detect_sample_bytes / windows;
static_assert(window_bytes % word == 0);

/// look(at, length): whole words at places that every width divides, from all over the bytes.
template <class Look>
void for_words(const unsigned char *bytes, uint64_t count, Look &&look) {
  for_windows(count, windows, window_bytes, [&](uint64_t first, uint64_t length) {
    look(bytes + first / word * word, length / word * word);
  });
}

/// Counts by place in a word of 8 bytes: as they are, and with each element rotated by a bit. The lowest byte of a rotated
/// element has the sign of its own highest one, so these are counted for each width; the others are the same for all.
struct Places {
  ByteCounts plain[word] = {};
  ByteCounts turned[word] = {};  ///< but for the first
  ByteCounts lowest[4] = {};     ///< of elements of 2^i bytes

  void count(const unsigned char *bytes, uint64_t length) noexcept {
    for (uint64_t i = 0; i < length; i += word) {
      uint64_t value = 0;
      std::memcpy(&value, bytes + i, word);
      const uint64_t rotated = std::rotl(value, 1);
      for (uint32_t k = 0; k < word; ++k) ++plain[k][value >> (8 * k) & 0xFFU];
      for (uint32_t k = 1; k < word; ++k) ++turned[k][rotated >> (8 * k) & 0xFFU];
      ++lowest[3][rotated & 0xFFU];
      for (uint32_t k = 0; k < word; k += 4) ++lowest[2][low_byte(value, k, 4)];
      for (uint32_t k = 0; k < word; k += 2) ++lowest[1][low_byte(value, k, 2)];
    }
  }

 private:
  static uint64_t low_byte(uint64_t value, uint32_t at, uint32_t width) noexcept {
    const uint64_t sign = value >> (8 * (at + width) - 1) & 1U;
    return (value >> (8 * at) << 1U & 0xFEU) | sign;
  }
};

/// The counts of each plane of elements of 8 bytes, become those of elements half as wide each time they are folded.
struct Planes {
  ByteCounts counts[word];
  uint32_t width = word;
  const ByteCounts *lowest;  ///< that are not sums of wider elements'; nullptr: none

  Planes(const ByteCounts *places, const ByteCounts *low) noexcept : lowest(low) {
    std::copy_n(places, word, counts);
    replace_lowest();
  }
  void fold() noexcept {
    width /= 2;
    for (uint32_t k = 0; k < width; ++k) {
      for (uint32_t value = 0; value < 256; ++value) counts[k][value] += counts[k + width][value];
    }
    replace_lowest();
  }
  uint64_t bits() const noexcept {
    uint64_t sum = 0;
    for (uint32_t k = 0; k < width; ++k) sum += entropy_bits(counts[k]);
    return sum;
  }

 private:
  void replace_lowest() noexcept {
    if (lowest != nullptr) counts[0] = lowest[std::countr_zero(width)];
  }
};

struct Width {
  uint32_t bytes = 1;
  bool integers = false;
  ByteCounts top_plain;   ///< of the highest byte as it is ...
  ByteCounts top_turned;  ///< ... and with the sign rotated out of it
};

/// Fewer elements than this look alike by chance.
constexpr uint64_t least_elements = 2048;

/// Pixels and records of bytes lose much by a rotation, floats and integers next to nothing.
bool rotation_loses(uint64_t as_it_is, uint64_t rotated) noexcept {
  return as_it_is + as_it_is / 25 < rotated;
}

/// The narrowest whose planes cost no more than 1/32 above the least.
Width best_width(const Places &places, uint64_t total) noexcept {
  Planes plain(places.plain, nullptr), turned(places.turned, places.lowest);
  Width best;
  uint64_t least = UINT64_MAX;
  for (uint32_t width = word;; width /= 2) {
    if (width == 1 || total / width >= least_elements) {
      const uint64_t as_it_is = plain.bits();
      const uint64_t rotated = width > 1 ? turned.bits() : as_it_is;
      const uint64_t bits = std::min(as_it_is, rotated);
      least = std::min(least, bits);
      if (bits <= least + least / 32) {
        best = {width, rotation_loses(as_it_is, rotated), plain.counts[width - 1],
                turned.counts[width - 1]};
      }
    }
    if (width == 1) return best;
    plain.fold();
    turned.fold();
  }
}

/// Small integers have a top byte of 0 or, negative, 0xFF; a float has one only if it is next to nothing or huge.
bool top_is_extension(const ByteCounts &top, uint64_t elements, uint64_t zeros) noexcept {
  const uint64_t rest = elements - zeros;
  const uint64_t extended = top[0] - std::min<uint64_t>(top[0], zeros) + top[0xFF];
  return rest > 0 && extended > rest - rest / 8;
}

/// In the upper byte a half has 3 bits of its mantissa below the exponent, which are as good as random; a bfloat16 has
/// the lower bits of its exponent there, which as a rule are one of few. Zeros and what is next to them tell nothing.
bool is_half(ByteCounts upper) noexcept {
  upper[0] = upper[1] = 0;
  ByteCounts exponents{};
  uint64_t elements = 0;
  for (uint32_t value = 0; value < 256; ++value) {
    exponents[value >> 3U] += upper[value];
    elements += upper[value];
  }
  if (elements == 0) return false;
  const uint64_t whole = entropy_bits(upper), known = entropy_bits(exponents);
  const uint64_t below = whole > known ? whole - known : 0;  // of 3 bits
  const auto above = [elements](uint64_t bits, uint64_t hundredths) {
    return bits * 100 > elements * hundredths * 65536;
  };
  return above(below, 285) || (above(whole, 500) && above(below, 260));
}

Form form_of(const Width &width) noexcept {
  if (width.bytes == 8) return Form::f64;
  if (width.bytes == 4) return Form::f32;
  if (width.bytes == 1) return Form::bytes;
  return !width.integers && is_half(width.top_turned) ? Form::f16 : Form::bf16;
}

/// Elements of one width, counted byte by byte.
template <class Element>
struct OneWidth {
  ByteCounts plain[sizeof(Element)] = {}, turned[sizeof(Element)] = {};
  uint64_t elements = 0, zeros = 0;

  void count(const unsigned char *bytes, uint64_t length) noexcept {
    for (uint64_t i = 0; i + sizeof(Element) <= length; i += sizeof(Element)) {
      const auto value = load_element<Element>(bytes + i);
      const auto rotated = std::rotl(value, 1);
      for (uint32_t k = 0; k < sizeof value; ++k) {
        ++plain[k][value >> (8 * k) & 0xFFU];
        ++turned[k][rotated >> (8 * k) & 0xFFU];
      }
      zeros += value == 0 ? 1 : 0;
      ++elements;
    }
  }
  Detection found(Form form) const noexcept {
    uint64_t as_it_is = 0, rotated = 0;
    for (const ByteCounts &counts : plain) as_it_is += entropy_bits(counts);
    for (const ByteCounts &counts : turned) rotated += entropy_bits(counts);
    const bool integers = rotation_loses(as_it_is, rotated) ||
                          top_is_extension(plain[sizeof(Element) - 1], elements, zeros);
    return {form, integers, static_cast<uint16_t>(zeros * 256 / elements)};
  }
};

}  // namespace

Detection detect_in(Form form, const unsigned char *bytes, uint64_t count) noexcept {
  const uint32_t width = element_bytes(form);
  if (width == 1) return detect(bytes, count);
  if (count < word * windows) return {form, false, 0};
  return with_element(width, [&]<class Element>(Element) {
    OneWidth<Element> all;
    constexpr uint64_t enough = std::min(window_bytes, 256 * sizeof(Element));
    for_windows(count, windows, enough, [&](uint64_t first, uint64_t length) {
      all.count(bytes + first / word * word, length);
    });
    return all.found(form);
  });
}

Detection detect(const unsigned char *bytes, uint64_t count) noexcept {
  uint64_t total = 0;
  Places places;
  for_words(bytes, count, [&](const unsigned char *at, uint64_t length) {
    places.count(at, length);
    total += length;
  });
  if (total == 0) return {};
  Width width = best_width(places, total);
  const uint64_t elements = total / width.bytes;
  uint64_t zeros = 0;
  for_words(bytes, count, [&](const unsigned char *at, uint64_t length) {
    zeros += zeros_in(at, length / width.bytes, width.bytes);
  });
  width.integers =
      width.bytes > 1 && (width.integers || top_is_extension(width.top_plain, elements, zeros));
  return {form_of(width), width.integers, static_cast<uint16_t>(zeros * 256 / elements)};
}

}  // namespace weir::codec
