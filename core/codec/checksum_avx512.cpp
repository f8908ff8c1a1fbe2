// SPDX-License-Identifier: Apache-2.0
//
// XXH3 for AVX-512.

#include "core/codec/targets.hpp"

#if WEIR_X86_KERNELS
#include "core/codec/checksum_kernels.hpp"

#define XXH_VECTOR XXH_AVX512
WEIR_TARGET_BEGIN_AVX512
#include "core/codec/checksum_wide.hpp"
WEIR_TARGET_END

namespace weir::codec {
constexpr ChecksumKernel checksum_avx512 = {sum, add};
}  // namespace weir::codec

#endif
