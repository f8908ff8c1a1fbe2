// SPDX-License-Identifier: Apache-2.0
//
// What bytes would cost if each were coded by how often it stands there, without coding them. In integers only: the same
// answer on every machine, and decisions taken by it are the same too.
#pragma once

#include <array>
#include <cstdint>

namespace weir::codec {

/// Occurrences of each byte.
using ByteCounts = std::array<uint32_t, 256>;

/// Adds the bytes to `counts`.
void count_bytes(const unsigned char *bytes, uint64_t count, ByteCounts *counts) noexcept;

/// log2(value) in 1/65536; 0 for 0 and 1. Off by less than 1/16384.
uint32_t log2_fixed(uint32_t value) noexcept;

/// Bits for all that was counted, in 1/65536, with Miller and Madow's correction for what a small sample has not seen.
uint64_t entropy_bits(const ByteCounts &counts) noexcept;

/// The same for Huffman codes, which have no less than a bit for each byte, however rare the others are.
uint64_t huffman_bits(const ByteCounts &counts) noexcept;

}  // namespace weir::codec
