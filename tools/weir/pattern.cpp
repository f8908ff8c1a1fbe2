// SPDX-License-Identifier: Apache-2.0
//
// Pattern: the generators and the loops over them. A generator gives single words and pairs of
// words; the loops work on groups of pairs with no branch inside, in vector types of 16 bytes,
// which every compiler here turns into SIMD code.
#include "pattern.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

namespace weir::tool {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the patterns are defined as little-endian bytes");

using Pair = uint64_t __attribute__((vector_size(16)));

constexpr uint64_t group_words = 16;

constexpr uint64_t mixed(uint64_t x) {
  x ^= x >> 30;
  x *= UINT64_C(0xbf58476d1ce4e5b9);
  x ^= x >> 27;
  x *= UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

struct Start {
  uint64_t base;
  uint64_t step;  ///< odd
};

constexpr Start start_of(uint64_t seed, uint32_t block, uint32_t version) {
  const uint64_t base = mixed(seed ^ mixed(uint64_t{block} << 32 | version));
  return {base, mixed(base) | 1};
}

struct ZeroWords {
  uint64_t word(uint64_t) const { return 0; }
  template <class Take>
  void group(uint64_t, Take &&take) const {
    for (uint64_t k = 0; k < group_words / 2; ++k) take(k, Pair{0, 0});
  }
};

struct LinearWords {
  Start start;
  uint64_t word(uint64_t i) const { return start.base + i * start.step; }
  template <class Take>
  void group(uint64_t i, Take &&take) const {
    const uint64_t first = word(i);
    Pair pair{first, first + start.step};
    const Pair step{2 * start.step, 2 * start.step};
    for (uint64_t k = 0; k < group_words / 2; ++k, pair += step) take(k, pair);
  }
};

template <class Word>
constexpr Word scrambled(Word x) {
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x;
}

struct RandomWords {
  LinearWords linear;
  uint64_t word(uint64_t i) const { return scrambled(linear.word(i)); }
  template <class Take>
  void group(uint64_t i, Take &&take) const {
    linear.group(i, [&](uint64_t k, Pair pair) { take(k, scrambled(pair)); });
  }
};

/// Zero but for a mark at every 64th word.
struct MarkedWords {
  LinearWords linear;
  static constexpr uint64_t distance = 64;

  uint64_t word(uint64_t i) const { return linear.word(i) & (uint64_t{i % distance != 0} - 1); }
  template <class Take>
  void group(uint64_t i, Take &&take) const {
    for (uint64_t k = 0; k < group_words / 2; ++k)
      take(k, Pair{word(i + 2 * k), word(i + 2 * k + 1)});
  }
};

/// So many at random of each 64; the others are one.
struct MixedWords {
  RandomWords random;
  uint64_t count;
  static constexpr uint64_t distance = 64;

  uint64_t word(uint64_t i) const {
    return i % distance < count ? random.word(i) : random.linear.start.step;
  }
  template <class Take>
  void group(uint64_t i, Take &&take) const {
    for (uint64_t k = 0; k < group_words / 2; ++k)
      take(k, Pair{word(i + 2 * k), word(i + 2 * k + 1)});
  }
};

/// Values from the tile, rotated by the start value; sign and mantissa bits flipped at random.
struct TensorWords {
  LinearWords linear;
  const uint64_t *tile;
  uint64_t flips;

  /// Consecutive words come from consecutive places of the tile; the start value decides where it
  /// begins.
  uint64_t slot(uint64_t i) const {
    return (i + (linear.start.base >> 40)) & (Pattern::tile_words - 1);
  }
  uint64_t word(uint64_t i) const { return tile[slot(i)] ^ (scrambled(linear.word(i)) & flips); }
  template <class Take>
  void group(uint64_t i, Take &&take) const {
    const Pair mask{flips, flips};
    linear.group(i, [&](uint64_t k, Pair pair) {
      const Pair values{tile[slot(i + 2 * k)], tile[slot(i + 2 * k + 1)]};
      take(k, values ^ (scrambled(pair) & mask));
    });
  }
};

/// Bytes of a word that begins at byte 8 * i of the block, where the range covers only [from, to)
/// of it.
template <class Words>
void fill_part(const Words &words, std::byte *at, uint64_t i, uint64_t from, uint64_t to) {
  const uint64_t word = words.word(i);
  std::memcpy(at, reinterpret_cast<const std::byte *>(&word) + from, to - from);
}

template <class Words>
void check_part(const Words &words, const std::byte *at, uint64_t i, uint64_t from, uint64_t to,
                Mismatch &found) {
  uint64_t expected = 0;
  uint64_t got = 0;
  const uint64_t word = words.word(i);
  std::memcpy(&expected, reinterpret_cast<const std::byte *>(&word) + from, to - from);
  std::memcpy(&got, at, to - from);
  if (expected == got) return;
  if (found.words++ == 0) {
    found.offset = 8 * i + from;
    found.expected = expected;
    found.got = got;
  }
}

template <class Words>
void fill_range(const Words &words, std::byte *to, uint64_t offset, uint64_t length) {
  const uint64_t end = offset + length;
  uint64_t i = offset / 8;
  if (const uint64_t head = offset % 8; head != 0) {
    const uint64_t stop = std::min<uint64_t>(8, head + length);
    fill_part(words, to, i++, head, stop);
    to += stop - head;
  }
  const uint64_t last = end / 8;
  for (; i + group_words <= last; i += group_words, to += 8 * group_words)
    words.group(i, [&](uint64_t k, Pair pair) { std::memcpy(to + 16 * k, &pair, 16); });
  for (; i < last; ++i, to += 8) fill_part(words, to, i, 0, 8);
  if (i == last && end % 8 != 0) fill_part(words, to, i, 0, end % 8);
}

template <class Words>
Mismatch check_range(const Words &words, const std::byte *at, uint64_t offset, uint64_t length) {
  Mismatch found;
  const uint64_t end = offset + length;
  uint64_t i = offset / 8;
  if (const uint64_t head = offset % 8; head != 0) {
    const uint64_t stop = std::min<uint64_t>(8, head + length);
    check_part(words, at, i++, head, stop, found);
    at += stop - head;
  }
  const uint64_t last = end / 8;
  for (; i + group_words <= last; i += group_words, at += 8 * group_words) {
    Pair wrong{0, 0};
    words.group(i, [&](uint64_t k, Pair pair) {
      Pair got;
      std::memcpy(&got, at + 16 * k, 16);
      wrong |= got ^ pair;
    });
    if ((wrong[0] | wrong[1]) == 0) [[likely]]
      continue;
    for (uint64_t k = 0; k < group_words; ++k) check_part(words, at + 8 * k, i + k, 0, 8, found);
  }
  for (; i < last; ++i, at += 8) check_part(words, at, i, 0, 8, found);
  if (i == last && end % 8 != 0) check_part(words, at, i, 0, end % 8, found);
  return found;
}

/// Calls use(offset, length) with what of the range lies in lines that count: the first of `one_in`, or all of it.
template <class Use>
void each_line(uint64_t offset, uint64_t length, uint64_t one_in, Use &&use) {
  if (one_in == 1) return use(offset, length);
  constexpr uint64_t line = 64;
  const uint64_t end = offset + length;
  for (uint64_t i = (offset / line + one_in - 1) / one_in * one_in; i * line < end; i += one_in) {
    const uint64_t from = std::max(offset, i * line), to = std::min(end, (i + 1) * line);
    use(from, to - from);
  }
}

constexpr uint64_t bf16_flips = UINT64_C(0x807f807f807f807f);
constexpr uint64_t fp32_flips = UINT64_C(0x807fffff807fffff);

bool is_fp32(const Start &start) { return (start.base >> 62) == 0; }

std::unique_ptr<Pattern::Tiles> make_tiles(uint64_t seed) {
  auto tiles = std::make_unique<Pattern::Tiles>();
  std::mt19937_64 bits(seed);
  // Box-Muller by hand: std::normal_distribution may differ between standard libraries.
  const auto normal = [&bits]() {
    const double u = (static_cast<double>(bits() >> 11) + 1) * 0x1p-53;
    const double v = static_cast<double>(bits() >> 11) * 0x1p-53;
    return 0.02 * std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
  };
  for (size_t i = 0; i < Pattern::tile_words; ++i) {
    const auto next = [&normal]() { return std::bit_cast<uint32_t>(static_cast<float>(normal())); };
    uint64_t halves = 0;
    for (unsigned k = 0; k < 4; ++k) halves |= uint64_t{next() >> 16} << (16 * k);
    tiles->bf16[i] = halves;
    tiles->fp32[i] = uint64_t{next()} << 32 | next();
  }
  return tiles;
}

/// Calls use(words) with the generator of (block, version).
template <class Use>
auto with_words(DataMode mode, uint64_t seed, uint64_t random_words, const Pattern::Tiles *tiles,
                uint32_t block, uint32_t version, Use &&use) {
  if (version == 0) return use(ZeroWords{});
  const LinearWords linear{start_of(seed, block, version)};
  if (mode == DataMode::pattern) return use(linear);
  if (mode == DataMode::random) return use(RandomWords{linear});
  if (mode == DataMode::zero) return use(MarkedWords{linear});
  if (mode == DataMode::mixed) return use(MixedWords{{linear}, random_words});
  const bool fp32 = is_fp32(start_of(seed, block, 0));  // the block decides, not the version
  return use(fp32 ? TensorWords{linear, tiles->fp32.data(), fp32_flips}
                  : TensorWords{linear, tiles->bf16.data(), bf16_flips});
}

}  // namespace

std::string_view data_mode_name(DataMode mode) {
  switch (mode) {
    case DataMode::pattern:
      return "pattern";
    case DataMode::tensor:
      return "tensor";
    case DataMode::random:
      return "random";
    case DataMode::zero:
      return "zero";
    case DataMode::mixed:
      return "mixed";
  }
  return "?";
}

Pattern::Pattern(DataMode mode, uint64_t seed, uint64_t random_words, uint64_t one_in)
    : mode_(mode), seed_(seed), random_words_(random_words), one_in_(one_in) {
  if (mode == DataMode::tensor) tiles_ = make_tiles(seed);
}

void Pattern::fill(std::byte *to, uint32_t block, uint32_t version, uint64_t offset,
                   uint64_t length) const {
  with_words(mode_, seed_, random_words_, tiles_.get(), block, version, [&](const auto &words) {
    each_line(offset, length, one_in_, [&](uint64_t from, uint64_t bytes) {
      fill_range(words, to + (from - offset), from, bytes);
    });
  });
}

Mismatch Pattern::check(const std::byte *at, uint32_t block, uint32_t version, uint64_t offset,
                        uint64_t length) const {
  return with_words(mode_, seed_, random_words_, tiles_.get(), block, version,
                    [&](const auto &words) {
                      Mismatch found;
                      each_line(offset, length, one_in_, [&](uint64_t from, uint64_t bytes) {
                        const Mismatch here = check_range(words, at + (from - offset), from, bytes);
                        if (found.words == 0)
                          found = here;
                        else
                          found.words += here.words;
                      });
                      return found;
                    });
}

uint64_t Pattern::word(uint32_t block, uint32_t version, uint64_t index) const {
  return with_words(mode_, seed_, random_words_, tiles_.get(), block, version,
                    [&](const auto &words) { return words.word(index); });
}

}  // namespace weir::tool
