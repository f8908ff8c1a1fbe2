// SPDX-License-Identifier: Apache-2.0
//
// Shapes: a number for what an operation is, by its name and how many uses it has, so that the same operation has the same.
#pragma once

#include <cstdint>

namespace weir::policy {

inline uint32_t mix(uint32_t hash, uint32_t value) noexcept {
  uint64_t product = (uint64_t{hash} << 32 | value) * uint64_t{0x9E3779B97F4A7C15};
  product ^= product >> 29;
  product *= uint64_t{0xBF58476D1CE4E5B9};
  return static_cast<uint32_t>(product >> 32);
}

inline uint32_t shape_of(uint32_t name, uint32_t uses) noexcept { return mix(name, uses); }

}  // namespace weir::policy
