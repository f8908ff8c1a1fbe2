// SPDX-License-Identifier: Apache-2.0
//
// StreamSpeeds: how many of the last operations were of each stream. Numbers of streams are below most_streams. Guarded by whoever
// owns it.
#pragma once

#include <array>
#include <cstdint>

namespace weir::policy {

class StreamSpeeds {
 public:
  static constexpr uint32_t most_streams = 64;
  static constexpr uint32_t window = 256;

  void note(uint32_t stream) noexcept {
    uint8_t &oldest = last_[noted_ % window];
    if (noted_ >= window) --counts_[oldest];
    oldest = static_cast<uint8_t>(stream);
    ++counts_[stream];
    ++noted_;
  }
  /// Operations of the stream among the last `window`.
  uint32_t of(uint32_t stream) const noexcept { return counts_[stream]; }

 private:
  std::array<uint8_t, window> last_{};
  std::array<uint16_t, most_streams> counts_{};
  uint64_t noted_ = 0;
};

}  // namespace weir::policy
