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

}  // namespace weir::codec
