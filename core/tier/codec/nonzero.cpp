// SPDX-License-Identifier: Apache-2.0
//
// Element by element without branches, which is as fast as anything the planes are coded with.

#include "core/tier/codec/nonzero.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

namespace weir::tier {
namespace {

template <class Element>
Element load(const unsigned char *at) noexcept {
  Element value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Each is written where the next kept one belongs, and stays there if it is one.
template <class Element>
uint64_t take_out(const unsigned char *in, uint64_t count, unsigned char *bitmap,
                  unsigned char *kept) noexcept {
  uint64_t to = 0;
  for (uint64_t i = 0; i < count; i += 8) {
    const uint64_t here = std::min<uint64_t>(8, count - i);
    uint32_t bits = 0;
    for (uint64_t k = 0; k < here; ++k) {
      const Element value = load<Element>(in + (i + k) * sizeof value);
      std::memcpy(kept + to * sizeof value, &value, sizeof value);
      const uint32_t stays = value != 0 ? 1 : 0;
      bits |= stays << k;
      to += stays;
    }
    bitmap[i / 8] = static_cast<unsigned char>(bits);
  }
  return to;
}

/// What is still to be read lies never before what is written: there are at least as many places left as elements. No
/// branch depends on a bit: where zeros are strewn at random each would be guessed wrong.
template <class Element>
void put_back(const unsigned char *bitmap, uint64_t count, uint64_t kept,
              unsigned char *bytes) noexcept {
  uint64_t from = count - kept;
  for (uint64_t i = 0; i < count; i += 8) {
    const uint64_t here = std::min<uint64_t>(8, count - i);
    const uint32_t bits = bitmap[i / 8];
    for (uint64_t k = 0; k < here; ++k) {
      const uint32_t stays = bits >> k & 1U;
      // Behind the last there is nothing to read, but then nothing is kept either.
      Element value = load<Element>(bytes + std::min(from, count - 1) * sizeof(Element));
      value = static_cast<Element>(value & (Element{0} - Element{stays != 0}));
      std::memcpy(bytes + (i + k) * sizeof value, &value, sizeof value);
      from += stays;
    }
  }
}

}  // namespace

uint64_t take_zeros_out(const unsigned char *in, uint64_t count, uint32_t width,
                        unsigned char *bitmap, unsigned char *kept) noexcept {
  switch (width) {
    case 1:
      return take_out<uint8_t>(in, count, bitmap, kept);
    case 2:
      return take_out<uint16_t>(in, count, bitmap, kept);
    case 4:
      return take_out<uint32_t>(in, count, bitmap, kept);
    default:
      assert(width == 8);
      return take_out<uint64_t>(in, count, bitmap, kept);
  }
}

uint64_t kept_of(const unsigned char *bitmap, uint64_t count) noexcept {
  uint64_t kept = 0;
  uint64_t at = 0;
  for (; at + 8 <= count / 8; at += 8) {
    kept += static_cast<uint64_t>(std::popcount(load<uint64_t>(bitmap + at)));
  }
  for (; at < count / 8; ++at) kept += static_cast<uint64_t>(std::popcount(bitmap[at]));
  if (count % 8 == 0) return kept;
  const unsigned char last = bitmap[count / 8];
  if (last >> (count % 8) != 0) return UINT64_MAX;
  return kept + static_cast<uint64_t>(std::popcount(last));
}

void put_zeros_back(const unsigned char *bitmap, uint64_t count, uint32_t width, uint64_t kept,
                    unsigned char *bytes) noexcept {
  assert(kept <= count);
  switch (width) {
    case 1:
      return put_back<uint8_t>(bitmap, count, kept, bytes);
    case 2:
      return put_back<uint16_t>(bitmap, count, kept, bytes);
    case 4:
      return put_back<uint32_t>(bitmap, count, kept, bytes);
    default:
      assert(width == 8);
      return put_back<uint64_t>(bitmap, count, kept, bytes);
  }
}

}  // namespace weir::tier
