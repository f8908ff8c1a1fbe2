// SPDX-License-Identifier: Apache-2.0
//
// A place is marked by its byte: one of a value that stands at about one place of 16 to 32, or, where values stand equally often,
// of those that end in the same bits. What follows a mark is remembered, the last place of each kind of it; where it comes again the
// two are compared, and longer on both sides. So what is found depends on the bytes alone, wherever they stand.

#include "core/codec/far_matches.hpp"

#include "core/codec/little_endian.hpp"
#include "core/codec/vectors16.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weir::codec {
namespace {

constexpr uint64_t far_spread = 0x9E3779B97F4A7C15U;
/// What is hashed behind a mark, and how far from the end marks are looked for.
constexpr uint64_t far_context = 16, far_margin = 64;
/// What a match has to save, in bits by what values cost: about three times what it costs.
constexpr uint64_t worth_bits = 64;
/// So many bytes are worth it whatever they cost: two places are never compared for longer in vain.
constexpr uint64_t most_least = 64;

uint64_t word_at(const unsigned char *at) noexcept { return load_little<uint64_t>(at); }

/// Equal bytes from both places on, `second` being the later one, up to `end`.
uint64_t equal_ahead(const unsigned char *in, uint64_t first, uint64_t second,
                     uint64_t end) noexcept {
  const uint64_t start = second;
  for (; second + 8 <= end; first += 8, second += 8) {
    const uint64_t other = word_at(in + first) ^ word_at(in + second);
    if (other != 0) return second - start + static_cast<uint64_t>(std::countr_zero(other)) / 8;
  }
  while (second < end && in[first] == in[second]) ++first, ++second;
  return second - start;
}

class FarSearch {
 public:
  FarSearch(const unsigned char *in, uint64_t count, const PlaneLook &look,
            FarMatch *matches) noexcept
      : in_(in),
        count_(count),
        least_(std::clamp(worth_bits * count / (look.bits + 1), far_context, most_least)),
        matches_(matches) {}

  /// A marked place behind which there are far_margin bytes.
  void mark(uint64_t at) noexcept {
    if (at < end_ || found_.count == most_far_matches) return;
    const uint64_t hash = (word_at(in_ + at) * far_spread ^ word_at(in_ + at + 8)) * far_spread;
    uint32_t &slot = slots_[hash >> (64 - slot_bits)];
    const auto tag = static_cast<uint32_t>(hash >> (64 - slot_bits - tag_bits)) << place_bits;
    const uint32_t before = slot;
    slot = tag | static_cast<uint32_t>(at + 1);
    const uint32_t place = before ^ tag;  // of another tag it is none
    if (place >> place_bits == 0 && place != 0) compare(place - 1, at);
  }
  const FarMatches &found() const noexcept { return found_; }

 private:
  /// A slot has a place, from 1 on, below more of the hash, which saves most looks at bytes that differ.
  static constexpr uint32_t slot_bits = 12, place_bits = 20, tag_bits = 32 - place_bits;
  static_assert(most_far_bytes < uint64_t{1} << place_bits);

  void compare(uint64_t first, uint64_t second) noexcept {
    uint64_t length = equal_ahead(in_, first, second, count_);
    if (length < far_context) return;
    while (first > 0 && second > end_ && in_[first - 1] == in_[second - 1]) {
      --first, --second;
      ++length;
    }
    if (length < least_) return;
    matches_[found_.count++] = {static_cast<uint32_t>(second - first),
                                static_cast<uint32_t>(second - end_),
                                static_cast<uint32_t>(length)};
    found_.covered += length;
    end_ = second + length;
  }

  const unsigned char *const in_;
  const uint64_t count_, least_;
  FarMatch *const matches_;
  FarMatches found_;
  uint64_t end_ = 0;  ///< of the last match
  uint32_t slots_[1U << slot_bits] = {};
};

}  // namespace

FarMatches find_far_matches(const unsigned char *in, uint64_t count, const PlaneLook &look,
                            FarMatch *matches) noexcept {
  if (count < 2 * far_margin || count > most_far_bytes) return {};
  const unsigned char mask = look.is_noise(count) ? 0x0F : 0xFF;
  const Bytes16 masks = filled16(mask), marked = filled16(look.mark & mask);
  FarSearch search(in, count, look, matches);
  for (uint64_t at = 0; at + far_margin <= count; at += 16) {
    Bytes16 bytes;
    std::memcpy(&bytes, in + at, sizeof bytes);
    const auto equal = reinterpret_cast<Lanes16<uint64_t>>((bytes & masks) == marked);
    if ((equal[0] | equal[1]) == 0) continue;
    for (uint32_t half = 0; half < 2; ++half) {
      for (uint64_t left = swap_unless_little<uint64_t>(equal[half]); left != 0;) {
        const auto bit = static_cast<uint32_t>(std::countr_zero(left));
        search.mark(at + 8 * half + bit / 8);
        left &= ~(uint64_t{0xFF} << bit);
      }
    }
  }
  return search.found();
}

FarMatches keep_far_matches(const unsigned char *in, FarMatches known, FarMatch *matches) noexcept {
  FarMatches kept;
  uint64_t at = 0, end = 0;
  for (uint32_t i = 0; i < known.count; ++i) {
    const FarMatch match = matches[i];
    const uint64_t start = at + match.literals, stop = start + match.length;
    // Bytes at its ends may have been equal by chance.
    for (at = start; at < start + 4 && in[at] != in[at - match.distance];) ++at;
    const uint64_t length = equal_ahead(in, at - match.distance, at, stop);
    if (length >= far_context) {
      matches[kept.count++] = {match.distance, static_cast<uint32_t>(at - end),
                               static_cast<uint32_t>(length)};
      kept.covered += length;
      end = at + length;
    }
    at = stop;
  }
  return kept;
}

}  // namespace weir::codec
