// SPDX-License-Identifier: Apache-2.0
//
// Which level's XXH3 runs, and that of the build's own instructions, which on AArch64 have NEON.

#include "core/codec/checksum_kernels.hpp"
#include "core/codec/checksum_wide.hpp"

namespace weir::codec {

constexpr ChecksumKernel checksum_plain = {sum, add};

const ChecksumKernel &checksum_kernel(CpuLevel level) noexcept {
  return table_of<checksum_plain, checksum_avx2, checksum_avx512, checksum_plain>(level);
}

}  // namespace weir::codec
