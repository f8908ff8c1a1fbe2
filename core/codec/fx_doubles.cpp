// SPDX-License-Identifier: Apache-2.0
//
// Doubles by the loops that others have: planes.hpp takes them apart and joins them, the kernels of FX code their exponents, and
// five bits of each are packed as packed differences are. Group by group, and exponents by a call's groups.

#include "core/codec/fx_doubles.hpp"

#include "core/codec/bit_planes.hpp"
#include "core/codec/checksum.hpp"
#include "core/codec/elements.hpp"
#include "core/codec/fx_doubles_kernels.hpp"
#include "core/codec/fx_stream.hpp"
#include "core/codec/little_endian.hpp"
#include "core/codec/packed_kernels.hpp"
#include "core/codec/planes.hpp"

#include <string.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/codec/packed_loops.hpp"

namespace weir::codec {
namespace {

constexpr uint64_t width = 8, header = 4, whole_planes = doubles_planes,
                   bits_between = doubles_between;
constexpr uint64_t group_bytes = doubles_group_bytes;
constexpr uint64_t call = fx_call_groups * fx_group;
constexpr uint32_t infinite = doubles_infinite, spread = doubles_spread,
                   last_first = infinite - spread;
constexpr PlaneLayout layout = {width, true, 0, false};

/// Where the parts of a block stand.
struct Shape {
  explicit Shape(uint64_t raw) noexcept
      : groups(raw / (fx_group * width)),
        elements(groups * fx_group),
        tail(raw % (fx_group * width)) {}
  uint64_t exponents() const noexcept { return header + group_bytes * groups; }
  uint64_t groups, elements, tail;
};

/// Exponents as bytes and back, from where they begin.
struct ExponentBytes {
  uint32_t first;

  /// Above 255: none of them.
  uint32_t byte_of(uint32_t exponent) const noexcept {
    if (exponent == 0) return 0;
    if (exponent == infinite) return 255;
    const uint32_t place = exponent - first;  // far above, if it is below
    return place < spread ? place + 1 : 256;
  }
};

// ---- a group, 16 exponents at a time; a word of 16 bits is an exponent above the five bits below it ----

using Words = Lanes16<uint16_t>;

inline Words chosen(Words which, Words value, Words other) noexcept {
  return (which & value) | (~which & other);
}
inline Words mask(Lanes16<int16_t> which) noexcept { return reinterpret_cast<Words>(which); }

inline Bytes16 low_bytes(Words a, Words b) noexcept {
  return __builtin_shufflevector(reinterpret_cast<Bytes16>(a), reinterpret_cast<Bytes16>(b), 0, 2,
                                 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}

/// As ExponentBytes::byte_of, of both planes' bytes; the lower plane keeps five bits. Gives whether all were some byte.
bool bytes_of_exponents(ExponentBytes map, const unsigned char *top, unsigned char *between,
                        unsigned char *bytes) noexcept {
  const auto before = static_cast<uint16_t>(map.first - 1U);
  Words wrong = {};
  for (uint64_t i = 0; i < fx_group; i += 16) {
    Bytes16 low, high;
    memcpy(&low, between + i, 16);
    memcpy(&high, top + i, 16);
    Words byte[2] = {reinterpret_cast<Words>(zip_low(low, high)),
                     reinterpret_cast<Words>(zip_high(low, high))};
    for (Words &each : byte) {
      const Words exponent = each >> 5;
      const Words place = exponent - before, zero = mask(exponent == 0);
      const Words most = mask(exponent == static_cast<uint16_t>(infinite));
      const Words other = chosen(most, Words{} + uint16_t{255}, place);
      each = ~zero & other;
      // Of what is neither, the place is 1 to 254: its predecessor has no upper byte, and is not 254 or 255.
      wrong |= ~zero & ~most & mask(place - 1 >= static_cast<uint16_t>(spread));
    }
    const Bytes16 made = low_bytes(byte[0], byte[1]), kept = low & 31;
    memcpy(bytes + i, &made, 16);
    memcpy(between + i, &kept, 16);
  }
  const auto halves = reinterpret_cast<Lanes16<uint64_t>>(wrong);
  return (halves[0] | halves[1]) == 0;
}

/// The reverse: the upper plane, and the exponents' bits in the lower one, which has the five.
void exponents_of_bytes(ExponentBytes map, const unsigned char *bytes, unsigned char *top,
                        unsigned char *between) noexcept {
  const auto before = static_cast<uint16_t>(map.first - 1U);
  for (uint64_t i = 0; i < fx_group; i += 16) {
    Bytes16 byte, five;
    memcpy(&byte, bytes + i, 16);
    memcpy(&five, between + i, 16);
    const Bytes16 zero = reinterpret_cast<Bytes16>(byte == 0),
                  most = reinterpret_cast<Bytes16>(byte == 255);
    Words word[2] = {};
    const Bytes16 none = {};
    const auto widened = [&](Bytes16 value, bool upper) {
      return reinterpret_cast<Words>(upper ? zip_high(value, none) : zip_low(value, none));
    };
    const auto doubled = [&](Bytes16 value, bool upper) {
      return reinterpret_cast<Words>(upper ? zip_high(value, value) : zip_low(value, value));
    };
    WEIR_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Words exponent =
          chosen(doubled(most, half != 0), Words{} + static_cast<uint16_t>(infinite),
                 ~doubled(zero, half != 0) & (widened(byte, half != 0) + before));
      word[half] = exponent << 5 | widened(five, half != 0);
    }
    const Bytes16 low = low_bytes(word[0], word[1]), high = low_bytes(word[0] >> 8, word[1] >> 8);
    memcpy(between + i, &low, 16);
    memcpy(top + i, &high, 16);
  }
}

bool split_plainly(const unsigned char *in, uint32_t first, uint64_t groups, unsigned char *out,
                   unsigned char *exponents) noexcept {
  alignas(16) unsigned char planes[width * fx_group];
  unsigned char *const between = planes + 6 * fx_group, *const top = planes + 7 * fx_group;
  for (; groups > 0; --groups, in += fx_group * width, out += group_bytes, exponents += fx_group) {
    split(in, fx_group, layout, planes);
    if (!bytes_of_exponents({first}, top, between, exponents)) return false;
    std::memcpy(out, planes, whole_planes * fx_group);
    pack_bitmaps(between, bits_between, out + whole_planes * fx_group);
  }
  return true;
}

void join_plainly(const unsigned char *in, const unsigned char *exponents, uint32_t first,
                  uint64_t groups, unsigned char *out) noexcept {
  alignas(16) unsigned char between[fx_group], top[fx_group];
  for (; groups > 0; --groups, in += group_bytes, out += fx_group * width, exponents += fx_group) {
    spread_bitmaps(in + whole_planes * fx_group, bits_between, between);
    exponents_of_bytes({first}, exponents, top, between);
    const unsigned char *planes[width];
    for (uint64_t k = 0; k < whole_planes; ++k) planes[k] = in + k * fx_group;
    planes[6] = between;
    planes[7] = top;
    join(planes, fx_group, layout, out);
  }
}

uint32_t exponent_at(const unsigned char *element) noexcept {
  return load_little<uint16_t>(element + 6) >> 4U & infinite;
}

/// Counts a sample as bytes. The largest exponent of it has a fifth of them above.
bool look(const unsigned char *in, uint64_t raw, ExponentBytes *bytes, FxWindow *window) noexcept {
  uint32_t largest = 0;
  const auto for_exponents = [in, raw](auto &&use) {
    for_sample(in, raw / width, width, [&](uint64_t from, uint64_t count) {
      for (uint64_t i = from; i < from + count; ++i) use(exponent_at(in + i * width));
    });
  };
  for_exponents([&](uint32_t exponent) {
    if (exponent != infinite) largest = std::max(largest, exponent);
  });
  bytes->first = std::clamp<uint32_t>(largest, 201, last_first + 200) - 200;
  FxCensus census;
  bool all = true;
  for_exponents([&](uint32_t exponent) {
    const uint32_t byte = bytes->byte_of(exponent);
    all = all && byte < 256;
    const auto counted = static_cast<unsigned char>(byte);
    census.add(Form::bytes, &counted, 1);
  });
  *window = census.best(Form::bytes);
  return all;
}

}  // namespace

constexpr DoublesKernel doubles_plain = {split_plainly, join_plainly};

namespace {
const DoublesKernel &kernel(CpuLevel level) noexcept {
  return table_of<doubles_plain, doubles_avx2, doubles_avx2, doubles_plain>(level);
}
}  // namespace

uint64_t fx_encode_doubles(const unsigned char *in, uint64_t raw, unsigned char *out, uint64_t room,
                           CpuLevel level) noexcept {
  const Shape shape(raw);
  ExponentBytes bytes{};
  FxWindow window;
  if (raw > UINT32_MAX || room < shape.exponents() + shape.tail || !look(in, raw, &bytes, &window))
    return 0;
  FxWriter writer(Form::bytes, window, shape.elements, out + shape.exponents(),
                  room - shape.exponents() - shape.tail, level);
  if (!writer.fits()) return 0;
  const DoublesSplit take_apart = kernel(level).split;
  alignas(64) unsigned char exponents[call];
  unsigned char *to = out + header;
  for (uint64_t left = shape.groups; left > 0;) {
    const uint64_t now = std::min(left, fx_call_groups);
    if (!take_apart(in, bytes.first, now, to, exponents) || !writer.put(exponents, now)) return 0;
    in += now * fx_group * width;
    to += now * group_bytes;
    left -= now;
  }
  const uint64_t length = writer.finish(nullptr);
  if (length == 0) return 0;
  const uint64_t end = shape.exponents() + length;
  if (shape.tail > 0) std::memcpy(out + end, in, shape.tail);
  out[0] = static_cast<unsigned char>(Form::f64);
  out[1] = 0;
  store_little(out + 2, static_cast<uint16_t>(bytes.first));
  return end + shape.tail;
}

bool fx_of_doubles(const unsigned char *in, uint64_t bytes) noexcept {
  return bytes > 0 && in[0] == static_cast<unsigned char>(Form::f64);
}

bool fx_decode_doubles(const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw,
                       CpuLevel level, DecodedSum *sum) noexcept {
  const Shape shape(raw);
  if (raw > UINT32_MAX || bytes < shape.exponents() + shape.tail || in[1] != 0) return false;
  const ExponentBytes map{load_little<uint16_t>(in + 2)};
  if (map.first < 1 || map.first > last_first) return false;
  FxReader reader;
  if (!reader.open(in + shape.exponents(), bytes - shape.exponents() - shape.tail, shape.elements,
                   level) ||
      reader.shape().form != Form::bytes)
    return false;
  const DoublesJoin join = kernel(level).join;
  alignas(64) unsigned char exponents[call];
  const unsigned char *from = in + header;
  for (uint64_t left = shape.groups; left > 0;) {
    const uint64_t now = std::min(left, fx_call_groups), length = now * fx_group * width;
    if (!reader.get(exponents, now)) return false;
    join(from, exponents, map.first, now, out);
    if (sum != nullptr) sum->add(out, length);
    from += now * group_bytes;
    out += length;
    left -= now;
  }
  if (!reader.finish(nullptr)) return false;
  if (shape.tail > 0) std::memcpy(out, in + bytes - shape.tail, shape.tail);
  if (sum != nullptr) sum->add(out, shape.tail);
  return true;
}

uint64_t fx_estimate_doubles(const unsigned char *in, uint64_t raw) noexcept {
  const Shape shape(raw);
  ExponentBytes bytes{};
  FxWindow window;
  if (!look(in, raw, &bytes, &window)) return 0;
  return shape.exponents() + fx_header_bytes + window.expected(Form::bytes, shape.elements) +
         shape.tail;
}

}  // namespace weir::codec
