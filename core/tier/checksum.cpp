// SPDX-License-Identifier: Apache-2.0
//
// Which level's XXH3 runs, and that of the build's own instructions, which on AArch64 have NEON.

#include "core/tier/checksum_kernels.hpp"

#include "core/tier/codec/targets.hpp"

#include <xxhash.h>

namespace weir::tier {
namespace {

constexpr ChecksumKernel plain = {[](const void *bytes, uint64_t count) noexcept -> uint64_t {
                                    return XXH3_64bits(bytes, count);
                                  },
                                  [](void *state, const void *bytes, uint64_t count) noexcept {
                                    (void)XXH3_64bits_update(static_cast<XXH3_state_t *>(state),
                                                             bytes, count);
                                  }};

}  // namespace

const ChecksumKernel &checksum_kernel(CpuLevel level) noexcept {
#if WEIR_X86_KERNELS
  if (level == CpuLevel::avx512) return checksum_kernel_avx512();
  if (level == CpuLevel::avx2) return checksum_kernel_avx2();
#endif
  (void)level;
  return plain;
}

}  // namespace weir::tier
