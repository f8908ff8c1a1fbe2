// SPDX-License-Identifier: Apache-2.0
//
// Which level's XXH3 runs, and that of the build's own instructions, which on AArch64 have NEON.

#include "core/tier/checksum_kernels.hpp"

#include "core/tier/codec/targets.hpp"

#include <xxhash.h>

namespace weir::tier {

constexpr ChecksumKernel checksum_plain = {
    [](const void *bytes, uint64_t count) noexcept -> uint64_t {
      return XXH3_64bits(bytes, count);
    },
    [](void *state, const void *bytes, uint64_t count) noexcept {
      (void)XXH3_64bits_update(static_cast<XXH3_state_t *>(state), bytes, count);
    }};

const ChecksumKernel &checksum_kernel(CpuLevel level) noexcept {
  return table_of<checksum_plain, checksum_avx2, checksum_avx512, checksum_plain>(level);
}

}  // namespace weir::tier
