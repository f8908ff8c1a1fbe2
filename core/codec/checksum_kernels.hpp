// SPDX-License-Identifier: Apache-2.0
//
// XXH3 as each level's instructions compute it; the same sum from all. The state of a sum is the same for all too, and
// has no type here: xxHash's code is compiled once for each level, and none of it may be shared between them.
#pragma once

#include "core/codec/cpu.hpp"
#include "core/codec/targets.hpp"

// All that xxHash includes.
#if WEIR_X86_KERNELS
#include <immintrin.h>
#endif
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace weir::codec {

struct ChecksumKernel {
  uint64_t (*sum)(const void *bytes, uint64_t count) noexcept;
  /// `state` is an XXH3_state_t.
  void (*add)(void *state, const void *bytes, uint64_t count) noexcept;
};

/// Only where cpu_has() the level.
const ChecksumKernel &checksum_kernel(CpuLevel level = cpu_level()) noexcept;

extern const ChecksumKernel checksum_plain, checksum_avx2, checksum_avx512;

}  // namespace weir::codec
