// SPDX-License-Identifier: Apache-2.0
//
// Blocks of planes: what is in one, its plan, and both ways. Everything a coded block says of itself is checked before
// anything is decoded.

#include "core/codec/plane_methods.hpp"

#include "core/codec/bit_planes.hpp"
#include "core/codec/checksum.hpp"
#include "core/codec/elements.hpp"
#include "core/codec/entropy.hpp"
#include "core/codec/little_endian.hpp"
#include "core/codec/nonzero.hpp"
#include "core/codec/packed_kernels.hpp"
#include "core/codec/planes.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <span>

namespace weir::codec {
namespace {

constexpr uint32_t most_coded = max_planes + 1;
constexpr uint8_t form_mask = 0x0F, packed_flag = 0x20, zeros_flag = 0x40, integers_flag = 0x80;
constexpr uint32_t length_mask = 0xFFFFFF;

/// Where the entry of a plane stands; for their number, where the planes begin.
constexpr uint64_t planes_at(uint64_t planes) noexcept {
  return planes_header_bytes + planes_entry_bytes * planes;
}

// ---- planning ----

/// Elements in a row, of which differences can be taken, from all over the block.
constexpr uint32_t plan_windows = 4;
constexpr uint64_t plan_window = 1024;

/// Bits by a sample, and after each window how many they were. Each window has codes of its own, as each part of a plane has;
/// bitmaps are too short for that, and count last.
struct PlanBits {
  uint64_t after[plan_windows] = {};
  uint64_t all = 0;
};

/// Whether what comes to `bits` may still come to less than what has come to `other`.
constexpr bool may_win(uint64_t bits, uint64_t other) noexcept {
  return bits <= other + other / 16;
}

/// Of so many windows; given up, with UINT64_MAX, where it can no more win against `other`.
PlanBits bits_with(PlaneEncoder &encoder, const unsigned char *in, uint64_t count,
                   const PlanesPlan &plan, uint32_t windows, const PlanBits *other) noexcept {
  const PlaneLayout layout = plan.layout();
  unsigned char bitmap[bitmap_bytes(plan_windows * plan_window)];
  ByteCounts bitmaps{};
  PlanBits bits;
  uint32_t done = 0;
  for_windows(count, plan_windows, plan_window, [&](uint64_t first, uint64_t elements) {
    if (done == windows || bits.all == UINT64_MAX) return;
    const unsigned char *from = in + first * layout.width;
    uint64_t kept = elements;
    if (plan.zeros) {
      kept = take_zeros_out(from, elements, layout.width, bitmap, encoder.kept());
      count_bytes(bitmap, bitmap_bytes(elements), &bitmaps);
      from = encoder.kept();
    }
    split(from, kept, layout, encoder.planes());
    for (uint32_t k = 0; k < layout.width; ++k) {
      ByteCounts counts{};
      count_bytes(encoder.planes() + k * kept, kept, &counts);
      bits.all += huffman_bits(counts);
    }
    bits.after[done] = bits.all;
    if (other != nullptr && !may_win(bits.all, other->after[done])) bits.all = UINT64_MAX;
    ++done;
  });
  if (bits.all != UINT64_MAX) bits.all += huffman_bits(bitmaps);
  return bits;
}

// ---- encoding ----

/// A block being put together.
struct Writing {
  PlaneEncoder &encoder;
  const Effort effort;
  unsigned char *const out;
  const uint64_t room;
  uint64_t planes = 0, at = 0;

  bool plane(const unsigned char *in, uint64_t count) noexcept {
    CodedPlane coded;
    if (!encoder.encode(in, count, effort, out + at, room - at, &coded)) return false;
    store_little(out + planes_at(planes++),
                 static_cast<uint32_t>(coded.method) << 24U | coded.bytes);
    at += coded.bytes;
    return true;
  }
};

// ---- decoding ----

/// What a coded block says of itself.
struct Reading {
  PlanesPlan plan;
  PlaneLayout layout;
  uint64_t elements = 0, tail = 0;
  uint32_t count = 0;
  CodedPlane planes[most_coded];
  const unsigned char *at = nullptr;  ///< the next plane

  /// False: it cannot be a block of `raw` bytes.
  bool parse(const unsigned char *in, uint64_t bytes, uint64_t raw) noexcept {
    if (raw == 0 || raw > max_block_bytes || bytes < planes_header_bytes) return false;
    if ((in[0] & form_mask) > static_cast<uint8_t>(Form::f64)) return false;
    if ((in[0] & ~(form_mask | packed_flag | zeros_flag | integers_flag)) != 0 ||
        in[1] > max_stride)
      return false;
    plan = {static_cast<Form>(in[0] & form_mask), (in[0] & integers_flag) != 0,
            (in[0] & zeros_flag) != 0, in[1], (in[0] & packed_flag) != 0};
    if (plan.zeros && plan.stride > 0) return false;
    layout = plan.layout();
    if (plan.packed) return plan.stride > 0 && in[2] == 0;
    elements = raw / layout.width;
    tail = raw % layout.width;
    count = in[2];
    if (count > most_coded || bytes < planes_at(count)) return false;
    at = in + planes_at(count);
    uint64_t all = tail;
    for (uint32_t i = 0; i < count; ++i) {
      const auto entry = load_little<uint32_t>(in + planes_at(i));
      planes[i] = {static_cast<PlaneMethod>(entry >> 24U), entry & length_mask};
      all += planes[i].bytes;
    }
    if (all != bytes - planes_at(count)) return false;
    if (elements == 0) return count == 0;
    return plan.zeros ? count >= 1 : count == layout.width;  // with zeros, more may follow
  }

  /// Planes `first` to the last, of `length` bytes each, to `out`.
  Decoded join_planes(PlaneDecoder &decoder, uint32_t first, uint64_t length,
                      unsigned char *out) noexcept {
    if (layout.width == 1 && layout.stride == 0) return next(decoder, first, out, length);
    const unsigned char *each[max_planes];
    for (uint32_t k = 0; k < layout.width; ++k) {
      const CodedPlane coded = planes[first + k];
      if (coded.method == PlaneMethod::raw && coded.bytes == length) {
        each[k] = at;  // where it is
        at += length;
        continue;
      }
      unsigned char *plane = decoder.planes() + k * length;
      if (const Decoded result = next(decoder, first + k, plane, length); result != Decoded::ok) {
        return result;
      }
      each[k] = plane;
    }
    join(each, length, layout, out);
    return Decoded::ok;
  }

  Decoded with_zeros(PlaneDecoder &decoder, unsigned char *out) noexcept {
    const unsigned char *bitmap = decoder.bitmap();
    const Decoded result = next(decoder, 0, decoder.bitmap(), bitmap_bytes(elements));
    if (result != Decoded::ok) return result;
    const uint64_t kept = kept_of(bitmap, elements);
    if (kept == UINT64_MAX || count != (kept > 0 ? layout.width + 1U : 1U)) {
      return Decoded::malformed;
    }
    if (kept > 0) {
      const Decoded joined = join_planes(decoder, 1, kept, decoder.kept());
      if (joined != Decoded::ok) return joined;
    }
    put_zeros_back(bitmap, elements, layout.width, decoder.kept(), out);
    return Decoded::ok;
  }

 private:
  Decoded next(PlaneDecoder &decoder, uint32_t index, unsigned char *out,
               uint64_t length) noexcept {
    const unsigned char *from = at;
    at += planes[index].bytes;
    return decoder.decode(planes[index], from, out, length);
  }
};

uint64_t packed_encode(PlaneEncoder &encoder, const PlanesPlan &plan, const unsigned char *in,
                       uint64_t raw, unsigned char *out, uint64_t room) noexcept {
  const PlaneLayout layout = plan.layout();
  const uint64_t groups = raw / (bit_group * layout.width), tail = raw % (bit_group * layout.width);
  if (room < planes_header_bytes + tail) return 0;
  split(in, groups * bit_group, layout, encoder.planes());
  uint64_t at = planes_header_bytes;
  if (groups > 0) {
    const uint64_t length =
        pack_bits(encoder.planes(), groups, layout.width, out + at, room - at - tail);
    if (length == 0) return 0;
    at += length;
  }
  out[0] = static_cast<unsigned char>(static_cast<uint8_t>(plan.form) | packed_flag |
                                      (plan.integers ? integers_flag : 0));
  out[1] = plan.stride;
  out[2] = 0;
  if (tail > 0) std::memcpy(out + at, in + raw - tail, tail);
  return at + tail;
}

/// A piece at a time, which is added to the sum while it is in the nearest cache.
Decoded packed_decode(const Reading &reading, const unsigned char *in, uint64_t bytes,
                      unsigned char *out, uint64_t raw, CpuLevel level, DecodedSum *sum) noexcept {
  const uint64_t group = bit_group * reading.layout.width, groups = raw / group;
  const uint64_t tail = raw % group, whole = DecodedSum::piece / group;
  if (bytes < planes_header_bytes + groups + tail) return Decoded::malformed;
  const unsigned char *const bits = in + planes_header_bytes;
  PackedSource source{bits, bits + groups, in + bytes - tail};
  const PackedDecode decode = packed_kernels(level).of(reading.layout);
  for (uint64_t left = groups; left > 0;) {
    const uint64_t now = std::min(left, whole);
    if (!decode(source, now, out)) return Decoded::malformed;
    if (sum != nullptr) sum->add(out, now * group);
    out += now * group;
    left -= now;
  }
  if (source.at != source.end) return Decoded::malformed;
  if (tail > 0) std::memcpy(out, source.end, tail);
  if (sum != nullptr) sum->add(out, tail);
  return Decoded::ok;
}

}  // namespace

/// Differences of what is no field cost more wherever one looks: most are given up after the first window, and then nothing
/// is worth looking at the others for.
PlanesPlan dense_plan(PlaneEncoder &encoder, const Detection &found, const unsigned char *in,
                      uint64_t raw) noexcept {
  const PlanesPlan plain = plain_plan(found);
  const uint64_t count = std::min(raw, max_block_bytes) / element_bytes(plain.form);
  const auto bits_of = [&](const PlanesPlan &plan, uint32_t windows, const PlanBits *other) {
    return bits_with(encoder, in, count, plan, windows, other);
  };
  PlanesPlan considered[max_stride + 1];
  uint32_t left = 0;
  if (found.zeros > 16) considered[left++] = {found.form, found.integers, true, 0};
  const PlanBits first = bits_of(plain, 1, nullptr);
  for (uint8_t stride = 1; stride <= max_stride; ++stride) {
    const PlanesPlan plan{found.form, found.integers, false, stride};
    if (bits_of(plan, 1, &first).all != UINT64_MAX) considered[left++] = plan;
  }
  if (left == 0) return plain;
  const PlanBits all = bits_of(plain, plan_windows, nullptr);
  PlanesPlan best = plain;
  uint64_t least = all.all - all.all / 32;  // what differences or a bitmap must at least save
  for (const PlanesPlan &plan : std::span(considered, left)) {
    const uint64_t bits = bits_of(plan, plan_windows, &all).all;
    if (bits >= least) continue;
    least = bits;
    best = plan;
  }
  return best;
}

uint64_t planes_encode(PlaneEncoder &encoder, const PlanesPlan &plan, Effort effort,
                       const unsigned char *in, uint64_t raw, unsigned char *out,
                       uint64_t room) noexcept {
  assert(plan.stride <= max_stride && !(plan.zeros && plan.stride > 0));
  assert(!plan.packed || plan.stride > 0);
  if (raw == 0 || raw > max_block_bytes) return 0;
  if (plan.packed) return packed_encode(encoder, plan, in, raw, out, room);
  const PlaneLayout layout = plan.layout();
  const uint64_t elements = raw / layout.width;
  const unsigned char *from = in;
  uint64_t kept = elements;
  // The bitmap stands in the planes' place until it is coded.
  if (plan.zeros) {
    kept = take_zeros_out(in, elements, layout.width, encoder.planes(), encoder.kept());
    from = encoder.kept();
  }
  const bool with_bitmap = plan.zeros && elements > 0;
  const uint64_t planes = (kept > 0 ? layout.width : 0U) + (with_bitmap ? 1U : 0U);
  Writing writing{encoder, effort, out, room, 0, planes_at(planes)};
  if (room < writing.at) return 0;
  encoder.begin_block();
  out[0] =
      static_cast<unsigned char>(static_cast<uint8_t>(plan.form) | (plan.zeros ? zeros_flag : 0) |
                                 (plan.integers ? integers_flag : 0));
  out[1] = plan.stride;
  out[2] = static_cast<unsigned char>(planes);
  if (with_bitmap && !writing.plane(encoder.planes(), bitmap_bytes(elements))) return 0;
  if (kept > 0) {
    split(from, kept, layout, encoder.planes());
    for (uint32_t k = 0; k < layout.width; ++k) {
      if (!writing.plane(encoder.planes() + k * kept, kept)) return 0;
    }
  }
  const uint64_t tail = raw % layout.width;
  if (room - writing.at < tail) return 0;
  if (tail > 0) std::memcpy(out + writing.at, in + raw - tail, tail);
  return writing.at + tail;
}

Decoded planes_decode(PlaneDecoder &decoder, const unsigned char *in, uint64_t bytes,
                      unsigned char *out, uint64_t raw, CpuLevel level, DecodedSum *sum) noexcept {
  Reading reading;
  if (!reading.parse(in, bytes, raw)) return Decoded::malformed;
  if (reading.plan.packed) return packed_decode(reading, in, bytes, out, raw, level, sum);
  if (reading.elements > 0) {
    const Decoded result = reading.plan.zeros
                               ? reading.with_zeros(decoder, out)
                               : reading.join_planes(decoder, 0, reading.elements, out);
    if (result != Decoded::ok) return result;
  }
  if (reading.tail > 0) std::memcpy(out + raw - reading.tail, reading.at, reading.tail);
  return Decoded::ok;
}

}  // namespace weir::codec
