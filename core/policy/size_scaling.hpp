// SPDX-License-Identifier: Apache-2.0
//
// SizeScaling: by how much buffers differ in size from those that had their places a round of the program before: a longer sequence or
// another batch makes many of them larger by one ratio, some by its square, and leaves others as they are. The ratio is the median of
// the last births'; how a place follows it is kept with the life that has the place (Life::growth).
//
// Guarded by whoever owns it.
#pragma once

#include "core/policy/lives.hpp"

#include <array>

namespace weir::policy {

/// How the size of a place follows the ratio.
enum Growth : uint8_t { growth_unknown, growth_none, growth_linear, growth_square };

class SizeScaling {
 public:
  /// A buffer has been born where another was a round before. `run`: operations in a row that were the same; `distance`: operations
  /// since then. True: from here on the ratio is another.
  bool note(Life &born, const Life &before, uint32_t run, uint32_t distance) noexcept;
  /// That place and this one are a round of the program apart, and surely so.
  static bool trusts(uint32_t run, uint32_t distance) noexcept;
  /// Buffers of this size outlive a round of the program.
  void note_persistent(uint64_t bytes) noexcept { persistent_[slot_of(bytes)] = bytes; }
  /// The size that is to be expected where this one was a round before.
  uint64_t scaled(const Life &before) const noexcept;

  double ratio() const noexcept { return ratio_; }
  /// The last births agree on it.
  bool stable() const noexcept { return stable_; }
  /// Two ratios that are worth another plan.
  static bool differ(double one, double other) noexcept;

 private:
  static constexpr uint32_t samples = 16;

  static size_t slot_of(uint64_t bytes) noexcept {
    return (bytes * uint64_t{0x9E3779B97F4A7C15}) >> 56;
  }
  bool is_persistent(uint64_t bytes) const noexcept { return persistent_[slot_of(bytes)] == bytes; }
  bool sample(double ratio) noexcept;
  void classify(Life &born, double ratio) const noexcept;

  std::array<double, samples> ratios_{};
  uint32_t sampled_ = 0;
  double ratio_ = 1;
  bool stable_ = false;
  std::array<uint64_t, 256> persistent_{};  ///< by hash; a newer one takes the place of an older
};

}  // namespace weir::policy
