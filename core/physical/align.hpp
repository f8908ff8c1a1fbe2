// SPDX-License-Identifier: Apache-2.0
//
// Rounding to a power of two.
#pragma once

#include <cstdint>

namespace weir::physical {

constexpr uint64_t align_up(uint64_t value, uint64_t step) noexcept {
  return (value + step - 1) & ~(step - 1);
}
constexpr uint64_t align_down(uint64_t value, uint64_t step) noexcept {
  return value & ~(step - 1);
}

}  // namespace weir::physical
