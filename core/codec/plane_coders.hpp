// SPDX-License-Identifier: Apache-2.0
//
// One byte plane, coded in the way that pays: as it is, one value, Huffman codes, LZ4 or zstd. Huffman codes are zstd
// frames of literals only, in parts of 32 KiB: tables that follow the data save more than they cost, and no sequences
// make both ways several times as fast as a search for matches.
//
// An encoder or a decoder is used by one thread at a time, and is what contexts are made of (see ContextPool). Decoding
// takes no memory and touches nothing outside the ranges it is given, whatever the bytes are.
#pragma once

#include "core/codec/block_methods.hpp"

#include <cstdint>
#include <memory>

namespace weir::codec {

/// The most bytes of a plane, and of a block.
constexpr uint64_t max_block_bytes = uint64_t{256} << 10U;

/// Numbers in coded blocks: never reused.
enum class PlaneMethod : uint8_t { raw = 0, same = 1, huf = 2, lz4 = 3, zstd = 4 };

struct CodedPlane {
  PlaneMethod method = PlaneMethod::raw;
  uint32_t bytes = 0;
};

/// Whether entropy coding is worth its time for a plane of `count` bytes that it would leave so many bits of. Quick
/// leaves a plane that has but one bit too many: two planes coded instead of one would take twice the time.
constexpr bool entropy_pays(uint64_t bits, uint64_t count, Effort effort) noexcept {
  const uint64_t worth = effort == Effort::quick ? 7 : 32;
  return effort != Effort::plain && bits < count * 8 - count * 8 / worth;
}

/// Blocks are read so too. They write exactly `count` bytes, or are not `ok`.
Decoded lz4_decode(const unsigned char *in, uint64_t bytes, unsigned char *out,
                   uint64_t count) noexcept;
Decoded zstd_decode(ZSTD_DCtx_s *context, const unsigned char *in, uint64_t bytes,
                    unsigned char *out, uint64_t count) noexcept;

struct PlaneLook;

class PlaneEncoder {
 public:
  /// nullptr: no memory.
  static PlaneEncoder *create() noexcept;
  ~PlaneEncoder();

  /// Before the first plane of each block: the others may go by what was found in it.
  void begin_block() noexcept;
  /// plain: one value or nothing. quick: Huffman codes too. dense: whatever is smallest.
  /// Codes a plane of 1 byte or more into at most `room`. False: it does not fit, coded or not.
  bool encode(const unsigned char *in, uint64_t count, Effort effort, unsigned char *out,
              uint64_t room, CodedPlane *coded) noexcept;

  // Places for a block's planes, and for its elements without zeros, of max_block_bytes each.
  unsigned char *planes() noexcept { return scratch_.get(); }
  unsigned char *kept() noexcept { return scratch_.get() + max_block_bytes; }

 private:
  struct Best;
  struct Far;
  PlaneEncoder();

  static uint64_t zstd(ZSTD_CCtx_s *context, const unsigned char *in, uint64_t count,
                       unsigned char *out, uint64_t room) noexcept;
  uint64_t lz4(const unsigned char *in, uint64_t count, unsigned char *out, uint64_t room) noexcept;
  /// many: so much better than the values that these need not be tried. far: those that are long and far apart, and with
  /// far_perhaps others where there are none of these.
  enum class Matches : uint8_t { none, perhaps, many, far, far_perhaps };
  Matches matches(const unsigned char *in, uint64_t count, const PlaneLook &look,
                  bool values_pay) noexcept;
  bool far_as_before(const unsigned char *in, uint64_t count, const PlaneLook &look) noexcept;
  bool has_short(const unsigned char *in, uint64_t count, const Best &best) noexcept;
  bool try_far(const unsigned char *in, uint64_t count, Best *best) noexcept;
  bool lz4_may_do(const unsigned char *in, uint64_t count, uint64_t room) noexcept;
  void try_matches(const unsigned char *in, uint64_t count, Best *best) noexcept;
  unsigned char *trial() noexcept { return scratch_.get() + 2 * max_block_bytes; }

  std::unique_ptr<unsigned char[]> scratch_;
  std::unique_ptr<unsigned char[]> lz4_state_;
  ZSTD_CCtx_s *huffman_ = nullptr;
  ZSTD_CCtx_s *dense_ = nullptr;
  ZSTD_CCtx_s *far_ = nullptr;
  std::unique_ptr<Far> far_room_;
};

class PlaneDecoder {
 public:
  /// nullptr: no memory.
  static PlaneDecoder *create() noexcept;
  ~PlaneDecoder();

  /// Writes exactly `count` bytes, or is not `ok`.
  Decoded decode(CodedPlane coded, const unsigned char *in, unsigned char *out,
                 uint64_t count) noexcept;

  /// Places for a block's planes, and for its elements without zeros and what SPARSE's kernels read behind them
  /// (max_block_bytes each), and for a bitmap of them (an eighth of that).
  unsigned char *planes() noexcept { return scratch_.get(); }
  unsigned char *kept() noexcept { return scratch_.get() + max_block_bytes; }
  unsigned char *bitmap() noexcept { return scratch_.get() + 2 * max_block_bytes; }

 private:
  PlaneDecoder() = default;

  std::unique_ptr<unsigned char[]> scratch_;
  ZSTD_DCtx_s *context_ = nullptr;
};

}  // namespace weir::codec
