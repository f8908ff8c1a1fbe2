// SPDX-License-Identifier: Apache-2.0
//
// Pattern: the bytes that (block, version) has at each offset: a pure function, so that any range
// can be filled or checked without what lies around it. 64-bit word i is derived from a start value
// and i; bytes are little-endian. Version 0 is all zero. Filling and checking must run at several
// GB/s on one core, as every byte of every use passes here.
//
//   pattern  start + i * step: cheapest
//   random   the same, scrambled by shifts: does not compress
//   tensor   normally distributed bf16 or fp32 values (the block decides), with random sign and
//            mantissa: compresses as weights and activations do
//   zero     one word in 64 as in pattern, the others zero: compresses to next to nothing, and a page that is
//            another's, or old, is told all the same
//   mixed    of each 64 words so many as in random, the others one word of (block, version) over and over: compresses to
//            that share
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace weir::tool {

enum class DataMode : uint8_t { pattern, tensor, random, zero, mixed };

std::string_view data_mode_name(DataMode mode);

/// The first wrong word of a checked range.
struct Mismatch {
  uint64_t words = 0;   ///< wrong words; 0 = all is right. A word cut by the range counts as one
  uint64_t offset = 0;  ///< of the first, in the block
  uint64_t expected = 0;
  uint64_t got = 0;
};

class Pattern {
 public:
  static constexpr uint64_t usual_random_words = 32;
  /// `random_words`: of mixed, 0 .. 64. `one_in`: of so many lines of 64 bytes of a block the first alone is filled and checked.
  Pattern(DataMode mode, uint64_t seed, uint64_t random_words = usual_random_words,
          uint64_t one_in = 1);

  /// Writes bytes [offset, offset + length) of the version to `to`, or those of its lines that count.
  void fill(std::byte *to, uint32_t block, uint32_t version, uint64_t offset,
            uint64_t length) const;

  /// Compares; reads every byte, or those of the lines that count, and changes nothing.
  Mismatch check(const std::byte *at, uint32_t block, uint32_t version, uint64_t offset,
                 uint64_t length) const;

  /// One word, as the reference for tests.
  uint64_t word(uint32_t block, uint32_t version, uint64_t index) const;

  DataMode mode() const noexcept { return mode_; }

  /// Words of a tile of float values; a power of two.
  static constexpr size_t tile_words = 4096;
  struct Tiles {
    std::array<uint64_t, tile_words> bf16;
    std::array<uint64_t, tile_words> fp32;
  };

 private:
  DataMode mode_;
  uint64_t seed_;
  uint64_t random_words_;
  uint64_t one_in_;
  std::unique_ptr<Tiles> tiles_;  ///< of tensor mode
};

}  // namespace weir::tool
