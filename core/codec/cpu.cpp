// SPDX-License-Identifier: Apache-2.0
//
// What the processor has. The compiler's own query also asks whether the system keeps the wide registers.

#include "core/codec/cpu.hpp"

#include "core/codec/targets.hpp"

#include <initializer_list>

namespace weir::codec {

const char *cpu_level_name(CpuLevel level) noexcept {
  constexpr const char *names[cpu_level_count] = {"scalar", "avx2", "avx512", "neon"};
  const auto index = static_cast<uint32_t>(level);
  return index < cpu_level_count ? names[index] : "none";
}

bool cpu_has(CpuLevel level) noexcept {
#if WEIR_X86_KERNELS
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
  if (level == CpuLevel::avx2) return avx2;
  if (level == CpuLevel::avx512)
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vbmi2");
#endif
  return level == CpuLevel::scalar || (WEIR_NEON_KERNELS != 0 && level == CpuLevel::neon);
}

CpuLevel cpu_level() noexcept {
  static const CpuLevel best = [] {
    for (const CpuLevel level : {CpuLevel::neon, CpuLevel::avx512, CpuLevel::avx2}) {
      if (cpu_has(level)) return level;
    }
    return CpuLevel::scalar;
  }();
  return best;
}

}  // namespace weir::codec
