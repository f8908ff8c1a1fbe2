// SPDX-License-Identifier: Apache-2.0
//
// Prices: what it costs to evict a byte, by the time that the program lost waiting for each direction of the link. Where it waits for
// fetches, evicting what has to come back is dear; where it waits for room, evicting what has to be written back first is.
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

class Prices {
 public:
  /// So many operations have begun since the last call: what was lost before counts for less.
  void advance(uint64_t operations) noexcept;
  /// So long one waited for fetches, and so long for room to be made.
  void note_stall(uint64_t fetch_ns, uint64_t room_ns) noexcept;

  double fetch() const noexcept;
  double write_back() const noexcept { return 1 - fetch(); }
  /// Of a byte, by its class. `clean_dead`: what need not even be written back, which is as good as free.
  std::array<double, costs> of_classes() const noexcept;
  static constexpr double clean_dead = 0.02;

 private:
  double fetch_lost_ = 1e-3, room_lost_ = 1e-3;  ///< ns, decayed
};

}  // namespace weir::policy
