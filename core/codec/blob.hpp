// SPDX-License-Identifier: Apache-2.0
//
// The container of coded bytes: what stands where in a blob. docs/block-format.md describes it for others; both change
// together, with the version. All numbers are little-endian whatever the machine, and are accessed byte by byte.
//
//    0  u8[4] magic, "WEIR"
//    4  u8    version, 3
//    5  u8    log2 of the raw bytes of a block, 18 (the last block has what is left)
//    6  u8    flags: bit 0, there are checksums
//    7  u8    0
//    8  u64   raw bytes
//   16  u32   number of blocks
//   20  u32   0
//   24  u64   per block: method (MethodId) << 56 | end of the coded block, counted from the blob's start
//       u64   per block, with flag 0: XXH3-64 of its raw bytes
//       the coded blocks in order, each starting where the one before ends; the last ends with the blob
#pragma once

#include "core/codec/little_endian.hpp"

#include <algorithm>
#include <cstdint>

namespace weir::codec {

/// Where the parts of a blob of so many raw bytes lie.
struct BlobShape {
  static constexpr unsigned char magic[4] = {'W', 'E', 'I', 'R'};
  static constexpr unsigned char version = 3;  ///< what is written
  static constexpr unsigned char oldest_version =
      2;  ///< what is read: it lacks some blocks of FX, and has no others
  static constexpr unsigned char block_shift = 18;
  static constexpr unsigned char with_sums = 1;  ///< the flag
  static constexpr uint64_t block_bytes = uint64_t{1} << block_shift;
  static constexpr uint64_t header_bytes = 24;
  static constexpr uint64_t entry_bytes = 8;
  static constexpr uint32_t method_shift = 56;
  static constexpr uint64_t end_mask = (uint64_t{1} << method_shift) - 1;

  uint64_t raw;
  bool sums;

  constexpr uint64_t blocks() const noexcept {
    return raw / block_bytes + (raw % block_bytes != 0 ? 1 : 0);
  }
  constexpr uint64_t entry_at(uint64_t index) const noexcept {
    return header_bytes + index * entry_bytes;
  }
  constexpr uint64_t sum_at(uint64_t index) const noexcept { return entry_at(blocks() + index); }
  constexpr uint64_t payload_at() const noexcept { return entry_at(blocks() * (sums ? 2 : 1)); }
  static constexpr uint64_t start(uint64_t index) noexcept { return index * block_bytes; }
  constexpr uint64_t length(uint64_t index) const noexcept {
    return std::min(block_bytes, raw - start(index));
  }

  /// What the table says of a block; and where the coded block begins, which is where the one before ends.
  uint64_t entry(const unsigned char *blob, uint64_t index) const noexcept {
    return load_little<uint64_t>(blob + entry_at(index));
  }
  uint64_t from(const unsigned char *blob, uint64_t index) const noexcept {
    return index == 0 ? payload_at() : entry(blob, index - 1) & end_mask;
  }

  /// The most bytes it can have.
  constexpr uint64_t bound() const noexcept { return payload_at() + raw; }

  /// The header, and a table of zeros.
  void begin(unsigned char *blob) const noexcept {
    std::fill_n(blob, payload_at(), static_cast<unsigned char>(0));
    std::copy_n(magic, sizeof magic, blob);
    blob[4] = version;
    blob[5] = block_shift;
    blob[6] = sums ? with_sums : 0;
    store_little(blob + 8, raw);
    store_little(blob + 16, static_cast<uint32_t>(blocks()));
  }

  /// What is wrong with the fixed part of the header, or nullptr: then *shape is that of the blob, whose table lies in it.
  static const char *read(const unsigned char *blob, uint64_t bytes, BlobShape *shape) noexcept {
    if (bytes < header_bytes) return "it is shorter than its header";
    if (!std::equal(magic, magic + sizeof magic, blob) || blob[4] < oldest_version ||
        blob[4] > version)
      return "it does not start as one of version 2 or 3 does";
    if (blob[5] != block_shift) return "its blocks have another size";
    if ((blob[6] & ~with_sums) != 0 || blob[7] != 0 || load_little<uint32_t>(blob + 20) != 0)
      return "it has flags that are not known";
    *shape = BlobShape{load_little<uint64_t>(blob + 8), (blob[6] & with_sums) != 0};
    if (load_little<uint32_t>(blob + 16) != shape->blocks())
      return "it has another number of blocks than its raw bytes have";
    if ((bytes - header_bytes) / entry_bytes / (shape->sums ? 2 : 1) < shape->blocks())
      return "it is shorter than its table of blocks";
    return nullptr;
  }
};

}  // namespace weir::codec
