// SPDX-License-Identifier: Apache-2.0
//
// XXH3 for AVX-512: xxHash's own code, compiled for it. All of it is static here, so that none of it can stand in for the
// build's own; what it includes is included before, so that nothing else is compiled for AVX-512.

#include "core/tier/codec/targets.hpp"

#if WEIR_X86_KERNELS
#include "core/tier/checksum_kernels.hpp"

#include <immintrin.h>

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define XXH_VECTOR XXH_AVX512
WEIR_TARGET_BEGIN_AVX512
#include <xxhash.h>

namespace weir::tier {
namespace {

uint64_t sum(const void *bytes, uint64_t count) noexcept { return XXH3_64bits(bytes, count); }

void add(void *state, const void *bytes, uint64_t count) noexcept {
  (void)XXH3_64bits_update(static_cast<XXH3_state_t *>(state), bytes, count);
}

}  // namespace
}  // namespace weir::tier
WEIR_TARGET_END

namespace weir::tier {

constexpr ChecksumKernel checksum_avx512 = {sum, add};

}  // namespace weir::tier

#endif
