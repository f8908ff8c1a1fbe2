// SPDX-License-Identifier: Apache-2.0
//
// Looks at planes. Repeats are looked for where the data itself says, behind each byte of two values: then the same bytes are
// looked at wherever they stand, however far apart.

#include "core/codec/plane_look.hpp"

#include "core/codec/elements.hpp"
#include "core/codec/entropy.hpp"
#include "core/codec/little_endian.hpp"
#include "core/codec/vectors16.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weir::codec {
namespace {

/// Of each part's bytes so many are counted, in windows spread over it.
constexpr uint64_t look_windows = 4, look_window = 256;
/// What has to be equal behind two anchors, in bits by what values cost: there are some thousand anchors.
constexpr uint64_t telling_bits = 20;
constexpr uint64_t least_context = 3, most_context = 24;

constexpr uint64_t look_spread = 0x9E3779B97F4A7C15U;

/// A hash of `length` bytes; up to 7 more are read.
uint64_t hash_of(const unsigned char *at, uint64_t length) noexcept {
  uint64_t hash = 0;
  for (; length >= 8; length -= 8, at += 8) {
    hash = (hash ^ load_little<uint64_t>(at)) * look_spread;
    hash ^= hash >> 32U;
  }
  if (length > 0) hash = (hash ^ load_little<uint64_t>(at) << (64 - 8 * length)) * look_spread;
  return hash ^ hash >> 29U;
}

/// What has followed anchors so far: of each hash the last one.
class Contexts {
 public:
  explicit Contexts(uint64_t length) noexcept : length_(length) {}

  void add(const unsigned char *at) noexcept {
    const uint64_t hash = hash_of(at, length_);
    uint32_t &slot = slots_[hash >> (64 - slot_bits)];
    const auto mark = static_cast<uint32_t>(hash) | 1U;  // 0 is an empty one
    again_ += slot == mark ? 1 : 0;
    slot = mark;
    ++anchors_;
  }
  Repeats come_back() const noexcept {
    if (again_ > 2 && again_ * 50 >= anchors_) return Repeats::many;
    return again_ > 0 ? Repeats::few : Repeats::none;
  }
  /// Not one of so many, which may be all that there is to see.
  bool hopeless() const noexcept { return anchors_ >= 128 && again_ == 0; }

 private:
  static constexpr uint32_t slot_bits = 12;

  const uint64_t length_;
  uint32_t slots_[1U << slot_bits] = {};
  uint64_t anchors_ = 0, again_ = 0;
};

/// Of the values that there are, the one whose count is nearest to `wanted`.
unsigned char value_with(const ByteCounts &counts, uint64_t wanted) noexcept {
  uint64_t least = UINT64_MAX;
  unsigned char nearest = 0;
  for (uint32_t value = 0; value < counts.size(); ++value) {
    const uint64_t count = counts[value];
    const uint64_t off = count > wanted ? count - wanted : wanted - count;
    if (count == 0 || off >= least) continue;
    least = off;
    nearest = static_cast<unsigned char>(value);
  }
  return nearest;
}

}  // namespace

PlaneLook look_at_plane(const unsigned char *in, uint64_t count) noexcept {
  PlaneLook look;
  ByteCounts all{};
  uint64_t seen = 0;
  for (uint64_t at = 0; at < count; at += plane_part_bytes) {
    const uint64_t part = std::min(plane_part_bytes, count - at);
    ByteCounts counts{};
    unsigned char sample[look_windows * look_window] =
        {};  // counted at once: short ones take as long as long ones
    uint64_t counted = 0;
    for_windows(part, look_windows, look_window, [&](uint64_t first, uint64_t length) {
      std::memcpy(sample + counted, in + at + first, length);
      counted += length;
    });
    count_bytes(sample, counted, &counts);
    look.bits += (entropy_bits(counts) >> 16U) * part / counted;
    for (uint32_t value = 0; value < 256; ++value) all[value] += counts[value];
    seen += counted;
  }
  look.mark = value_with(all, seen / 24);
  look.often = value_with(all, seen / 128);
  all[look.often] = 0;
  look.seldom = value_with(all, seen / 512);
  return look;
}

bool has_runs(const unsigned char *in, uint64_t count) noexcept {
  constexpr uint64_t apart = 61;  // no multiple of what rows are long
  uint64_t looks = 0, runs = 0;
  for (uint64_t at = 0; at + 9 <= count; at += apart) {
    runs += load_little<uint64_t>(in + at) == load_little<uint64_t>(in + at + 1) ? 1 : 0;
    ++looks;
  }
  return runs * 64 > looks;
}

Repeats repeats_of(const unsigned char *in, uint64_t count, const PlaneLook &look) noexcept {
  const uint64_t context =
      std::clamp((count * telling_bits + look.bits) / (look.bits + 1), least_context, most_context);
  if (count < most_context + 32) return Repeats::none;
  Contexts contexts(context);
  const Bytes16 often = filled16(look.often), seldom = filled16(look.seldom);
  const uint64_t end = count - most_context - 32;
  for (uint64_t at = 0; at < end; at += 16) {
    if (at == end / 128 * 80 && contexts.hopeless()) return Repeats::none;  // past the middle
    Bytes16 bytes;
    std::memcpy(&bytes, in + at, sizeof bytes);
    const auto equal = reinterpret_cast<Lanes16<uint64_t>>((bytes == often) | (bytes == seldom));
    if ((equal[0] | equal[1]) == 0) continue;
    for (uint32_t half = 0; half < 2; ++half) {
      for (uint64_t left = swap_unless_little<uint64_t>(equal[half]); left != 0;) {
        const auto bit = static_cast<uint32_t>(std::countr_zero(left));
        contexts.add(in + at + 8 * half + bit / 8 + 1);
        left &= ~(uint64_t{0xFF} << bit);
      }
    }
  }
  return contexts.come_back();
}

}  // namespace weir::codec
