// SPDX-License-Identifier: Apache-2.0
//
// Whether looking for what repeats can pay at all, before LZ4 or zstd take their time for it. Floats do not repeat, and
// where another method does well it takes a lot of repeating to do better.
#pragma once

#include <cstdint>

namespace weir::tier {

/// About what LZ4 leaves of `count` bytes, by a part of them.
uint64_t lz4_estimate(const unsigned char *in, uint64_t count, unsigned char *scratch) noexcept;

/// What entropy coding of single bytes would leave of so many, of which a sample is at `in`.
uint64_t entropy_estimate(const unsigned char *in, uint64_t count) noexcept;

/// Whether runs of bytes come back, at a multiple of 8 bytes, that may lie too far apart for lz4_estimate to see them.
bool repeats(const unsigned char *in, uint64_t count) noexcept;

}  // namespace weir::tier
