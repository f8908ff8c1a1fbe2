// SPDX-License-Identifier: Apache-2.0
//
// Looks at no more than a few KiB, but for repeats(): that goes through all words, and remembers one of 64, always the
// same ones wherever they stand, with what follows.

#include "core/tier/codec/matches.hpp"

#include "core/tier/codec/elements.hpp"
#include "core/tier/codec/entropy.hpp"

#include <lz4.h>

#include <algorithm>

namespace weir::tier {
namespace {

constexpr uint64_t probe_bytes = 8192;
constexpr uint64_t windows = 8, window = 256;
constexpr uint64_t spread = 0x9E3779B97F4A7C15U;
/// Bytes from such a word on that have to be the same.
constexpr uint64_t run = 32;
/// Of the words remembered, one in so many has to have been seen before.
constexpr uint64_t telling = 16;

}  // namespace

uint64_t lz4_estimate(const unsigned char *in, uint64_t count, unsigned char *scratch) noexcept {
  const uint64_t part = std::min(count, probe_bytes);
  const unsigned char *const from = in + (count - part) / 2;
  const int length =
      LZ4_compress_default(reinterpret_cast<const char *>(from), reinterpret_cast<char *>(scratch),
                           static_cast<int>(part), static_cast<int>(part));
  return length > 0 ? count * static_cast<uint64_t>(length) / part : count;
}

uint64_t entropy_estimate(const unsigned char *in, uint64_t count) noexcept {
  ByteCounts counts{};
  const uint64_t sampled = for_windows(
      count, windows, window,
      [in, &counts](uint64_t first, uint64_t length) { count_bytes(in + first, length, &counts); });
  return sampled == 0 ? 0 : (entropy_bits(counts) >> 16U) * count / sampled / 8;
}

bool repeats(const unsigned char *in, uint64_t count) noexcept {
  constexpr uint32_t slot_bits = 11;
  uint64_t slots[1U << slot_bits] = {};
  uint64_t kept = 0, again = 0;
  const auto word = [in](uint64_t at) { return load_element<uint64_t>(in + at); };
  for (uint64_t at = 0; at + run <= count; at += 8) {
    if (word(at) * spread >> 58U != 0) continue;
    // Words of few bits come back by chance, and what is behind them does not.
    uint64_t hash = 0;
    for (uint64_t i = 0; i < run; i += 8) hash = (hash ^ word(at + i)) * spread;
    if (hash == 0) continue;  // nothing but zeros, which others see
    uint64_t &slot = slots[hash >> (64 - slot_bits)];
    again += slot == hash ? 1 : 0;
    slot = hash;
    ++kept;
  }
  return kept >= telling && again >= kept / telling;
}

}  // namespace weir::tier
