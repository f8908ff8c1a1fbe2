// SPDX-License-Identifier: Apache-2.0
//
// CpuLevel: which of a method's kernels run. Every level gives the same bytes, so a level is only ever a matter of
// speed, and a blob made at one is read at any other. Nothing is built for the machine that builds: each level's
// kernels are compiled for it alone, and taken only where the processor has all that they use.
#pragma once

#include <cstdint>

namespace weir::codec {

enum class CpuLevel : uint8_t {
  scalar = 0,
  avx2 = 1,    ///< with BMI1, BMI2, POPCNT
  avx512 = 2,  ///< F, BW, VL, VBMI, VBMI2, and all of avx2
  neon = 3,    ///< AArch64, little-endian
};
constexpr uint32_t cpu_level_count = 4;

/// Where decoded bytes go. Streaming is for what this core will not read soon, because a device or another copy is to: it
/// does without reading the lines that are written, and leaves the caches alone. It is a wish: not every level, method
/// or address has it. The bytes are the same, and as visible when the call returns as any.
enum class Stores : uint8_t { cached, streaming };

/// What can be streamed to: whole lines.
inline bool streams_to(const unsigned char *out, Stores stores) noexcept {
  return stores == Stores::streaming && reinterpret_cast<uintptr_t>(out) % 64 == 0;
}

/// What must follow streaming, for levels that do not stream.
inline void no_fence() noexcept {}

const char *cpu_level_name(CpuLevel level) noexcept;

/// Whether this processor, and this build, can run it. Kernels of a level that is not there must not be asked for.
bool cpu_has(CpuLevel level) noexcept;

/// The best there is; the same for the life of the process.
CpuLevel cpu_level() noexcept;

}  // namespace weir::codec
