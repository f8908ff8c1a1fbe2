// SPDX-License-Identifier: Apache-2.0
//
// Tracks: on which line of a timeline what is drawn. The format knows them as numbers of threads. Leases of one stream may overlap in any
// way, and slices of one track may only nest, so a stream has as many tracks as it has leases at once: each lease takes the first that
// is free.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace weir::trace {

class Tracks {
 public:
  /// Where a thread's own work is.
  static constexpr uint32_t of_thread(uint32_t number) noexcept { return number; }
  /// Where the work that a stream's device does is.
  static constexpr uint32_t of_device(uint32_t stream) noexcept {
    return first_stream + stream * most_lanes;
  }
  static constexpr uint32_t of_lane(uint32_t stream, uint32_t lane) noexcept {
    return of_device(stream) + 1 + lane;
  }

  static constexpr uint32_t none = UINT32_MAX;
  /// A track for the lease from now on, or none where its stream has no more.
  uint32_t take(uint64_t lease, uint32_t stream) {
    std::vector<uint64_t> &lanes = lanes_[stream];
    size_t lane = 0;
    while (lane < lanes.size() && lanes[lane] != 0) ++lane;
    if (lane > most_lanes - 2) return none;
    if (lane == lanes.size()) lanes.push_back(0);
    lanes[lane] = lease;
    return of_lane(stream, static_cast<uint32_t>(lane));
  }
  /// Of a lease of that stream that ends.
  void give(uint64_t lease, uint32_t stream) noexcept {
    const auto found = lanes_.find(stream);
    if (found == lanes_.end()) return;
    for (uint64_t &each : found->second)
      if (each == lease) each = 0;
  }
  /// Whether it has not been named yet; it has from now on.
  bool is_new(uint32_t track) { return named_.insert(track).second; }

 private:
  static constexpr uint32_t first_stream = 10'000, most_lanes = 64;
  std::unordered_map<uint32_t, std::vector<uint64_t>> lanes_;  ///< 0: free
  std::set<uint32_t> named_;
};

}  // namespace weir::trace
