// SPDX-License-Identifier: Apache-2.0
//
// Prices: what it costs to evict a byte, by what becomes of it. Both directions of the link cost the same, however long the program
// waits for each: prices that follow the waits have been tried and won nothing.
//
// The prices of the two directions are positive and make 1.
#pragma once

#include <array>
#include <cstdint>

namespace weir::policy {

/// What becomes of bytes that are evicted.
enum class Cost : uint8_t {
  clean,  ///< they are fetched again
  dirty,  ///< they are written back, and fetched again
  dead  ///< nobody needs them again, but until they are destroyed or overwritten they are written back
};
constexpr uint32_t costs = 3;

struct Prices {
  static constexpr double fetch = 0.5, write_back = 0.5;
  /// Every eviction costs something. Of what need not even be written back this is all: it is as good as free.
  static constexpr double clean_dead = 0.02;
  /// Of a byte, by its class.
  static constexpr std::array<double, costs> of_classes = {
      fetch + clean_dead, fetch + write_back + clean_dead, write_back + 2 * clean_dead};
};

}  // namespace weir::policy
