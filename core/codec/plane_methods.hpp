// SPDX-License-Identifier: Apache-2.0
//
// The block method PLANES: a block's elements taken apart into byte planes (planes.hpp), each coded in the way that pays
// (plane_coders.hpp). Optionally, where that makes it smaller, zeros are taken out first (nonzero.hpp), or elements
// become differences. Which of these is planned by a look at the block, and a plan may be kept for what is like it.
//
// Differences may also be packed (bit_planes.hpp) instead: quicker, and as small where they are small throughout.
//
// A coded block, all numbers little-endian:
//    0  u8   Form, bits 0 to 3; bit 5: packed; bit 6: zeros are taken out; bit 7: the sign stays where it is
//    1  u8   stride of differences, 0: none
//    2  u8   number of coded planes
//    3  u32  per plane: PlaneMethod << 24 | coded bytes
//       the planes, the least significant byte's first; before them, if zeros are taken out, the bitmap
//       the bytes behind the last whole element, as they are
// or, packed: no planes, but differences folded and packed, and the bytes behind the last whole group of them
#pragma once

#include "core/codec/cpu.hpp"
#include "core/codec/detect.hpp"
#include "core/codec/form.hpp"
#include "core/codec/plane_coders.hpp"
#include "core/codec/planes.hpp"

#include <cstdint>

namespace weir::codec {

struct PlanesPlan {
  Form form = Form::bytes;
  bool integers = false;  ///< the sign stays where it is
  bool zeros = false;     ///< are taken out; then there are no differences
  uint8_t stride = 0;     ///< of differences
  bool packed = false;    ///< those; then there are some

  bool operator==(const PlanesPlan &) const = default;
  PlaneLayout layout() const noexcept {
    const auto width = static_cast<uint8_t>(element_bytes(form));
    return {width, width > 1 && !integers, stride, packed};
  }
};

constexpr uint64_t planes_header_bytes = 3, planes_entry_bytes = 4;

/// What planes alone need.
constexpr PlanesPlan plain_plan(const Detection &found) noexcept {
  return {found.form, found.integers, false, 0};
}

/// The plan for quick coding of a block of this form, by a short look at it: planes alone, zeros taken out, or
/// differences as far apart as makes them smallest.
struct QuickPlan {
  PlanesPlan plan;
  uint64_t bytes = 0;  ///< about what planes_encode would return
  uint64_t coded = 0;  ///< how many bytes of planes would be entropy coded: what takes the time
};

/// What the time is worth that packing takes beyond FX's, in raw bytes to be saved.
constexpr uint64_t quick_price(const QuickPlan &look, uint64_t raw) noexcept {
  return look.plan.packed ? raw / 16 : 0;
}
/// `effort` is quick, or plain: then planes are of one value or as they are, and differences only
/// those that are quick to sum up, none of bytes.
QuickPlan quick_plan(Form form, const unsigned char *in, uint64_t raw,
                     Effort effort = Effort::quick) noexcept;

/// The plan for dense coding of these bytes and of what is like them: what is likely to be smallest, by a sample. Any
/// plan codes any bytes.
PlanesPlan dense_plan(PlaneEncoder &encoder, const Detection &found, const unsigned char *in,
                      uint64_t raw) noexcept;

/// Codes 1 to max_block_bytes bytes into at most `room` and returns the length. 0: they do not fit, or are too many.
/// The same bytes, plan, effort and room give the same block.
uint64_t planes_encode(PlaneEncoder &encoder, const PlanesPlan &plan, Effort effort,
                       const unsigned char *in, uint64_t raw, unsigned char *out,
                       uint64_t room) noexcept;

/// Writes exactly `raw` bytes, or is `malformed`. Never touches anything outside the two ranges, and takes no memory. What is
/// packed is added to *sum, unless that is nullptr; of other blocks nothing is.
Decoded planes_decode(PlaneDecoder &decoder, const unsigned char *in, uint64_t bytes,
                      unsigned char *out, uint64_t raw, CpuLevel level = cpu_level(),
                      DecodedSum *sum = nullptr) noexcept;

}  // namespace weir::codec
