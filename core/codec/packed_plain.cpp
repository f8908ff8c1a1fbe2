// SPDX-License-Identifier: Apache-2.0
//
// Packed differences by the build's own instructions, which are SSE2 or NEON where there are such; and which level's loops run.

#include "core/codec/packed_kernels.hpp"

#include <string.h>

#include <utility>

#include "core/codec/packed_loops.hpp"

namespace weir::codec {

constexpr PackedKernels packed_plain =
    packed_table(std::make_integer_sequence<uint32_t, PackedKernels::kinds>());

const PackedKernels &packed_kernels(CpuLevel level) noexcept {
  return table_of<packed_plain, packed_avx2, packed_avx2, packed_plain>(level);
}

}  // namespace weir::codec
