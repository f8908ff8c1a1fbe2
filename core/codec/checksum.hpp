// SPDX-License-Identifier: Apache-2.0
//
// The checksum of a page's bytes in a lower tier, and of a blob's blocks: XXH3, 64 bits (Y. Collet, xxHash); never 0,
// which stands for none. PageChecksum takes the bytes piece by piece and comes to the same sum. Long ranges are summed
// with the widest registers the processor has: with the build's own it would take longer than FX takes to code them.
#pragma once

#include "core/codec/checksum_kernels.hpp"

#include <xxhash.h>

#include <cstdint>

namespace weir::codec {

inline uint64_t checksum_of(const void *bytes, uint64_t count) noexcept {
  const uint64_t sum = checksum_kernel().sum(bytes, count);
  return sum != 0 ? sum : 1;
}

class PageChecksum {
 public:
  PageChecksum() noexcept { reset(); }
  void reset() noexcept { (void)XXH3_64bits_reset(&state_); }
  void add(const void *bytes, uint64_t count) noexcept {
    checksum_kernel().add(&state_, bytes, count);
  }
  uint64_t sum() const noexcept {
    const uint64_t sum = XXH3_64bits_digest(&state_);
    return sum != 0 ? sum : 1;
  }

 private:
  XXH3_state_t state_;
};

/// The checksum of a block that is being decoded. A decoder that writes the block in order may add each piece of it while that is in the
/// nearest cache; a block that was not added from its first byte to its last is summed when its sum is asked for.
class DecodedSum {
 public:
  /// Raw bytes of a piece: with what they are decoded from they stay in a cache of 32 KiB.
  static constexpr uint64_t piece = uint64_t{8} << 10U;

  void add(const unsigned char *bytes, uint64_t count) noexcept {
    sum_.add(bytes, count);
    added_ += count;
  }
  uint64_t added() const noexcept { return added_; }
  /// Of the whole block, which is `count` bytes.
  uint64_t of(const unsigned char *bytes, uint64_t count) const noexcept {
    return added_ == count ? sum_.sum() : checksum_of(bytes, count);
  }

 private:
  PageChecksum sum_;
  uint64_t added_ = 0;
};

}  // namespace weir::codec
