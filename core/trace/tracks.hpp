// SPDX-License-Identifier: Apache-2.0
//
// Tracks: on which line of a timeline what is drawn. The format knows them as numbers of threads. Leases of one stream may overlap in any
// way, and slices of one track may only nest, so a stream has as many tracks as it has leases at once: each lease takes the first that
// was free as its acquire began.
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
  /// The track of a thread's own work.
  static constexpr uint32_t of_thread(uint32_t number) noexcept { return number; }
  /// The track of the work that a stream's device does.
  static constexpr uint32_t of_device(uint32_t stream) noexcept {
    return first_stream + stream * most_lanes;
  }
  static constexpr uint32_t of_lane(uint32_t stream, uint32_t lane) noexcept {
    return of_device(stream) + 1 + lane;
  }

  static constexpr uint32_t none = UINT32_MAX;
  /// A track for the lease from now on, or none where its stream has no more.
  uint32_t take(uint64_t lease, uint32_t stream, uint64_t begin_ns) {
    std::vector<Lane> &lanes = lanes_[stream];
    size_t lane = 0;
    while (lane < lanes.size() && (lanes[lane].lease != 0 || lanes[lane].end_ns > begin_ns)) ++lane;
    if (lane > most_lanes - 2) return none;
    if (lane == lanes.size()) lanes.push_back({});
    lanes[lane].lease = lease;
    return of_lane(stream, static_cast<uint32_t>(lane));
  }
  /// Gives the track of a lease back that ends on that stream.
  void give(uint64_t lease, uint32_t stream, uint64_t end_ns) noexcept {
    const auto found = lanes_.find(stream);
    if (found == lanes_.end()) return;
    for (Lane &each : found->second)
      if (each.lease == lease) each = {0, end_ns};
  }
  /// Whether it has not been named yet; it has from now on.
  bool is_new(uint32_t track) { return named_.insert(track).second; }
  /// One of Weir's own threads turns out to be behind it: it may be named once more, by its work.
  void found_worker(uint32_t track) {
    if (workers_.insert(track).second) named_.erase(track);
  }

 private:
  static constexpr uint32_t first_stream = 10'000, most_lanes = 64;
  struct Lane {
    uint64_t lease = 0;   ///< 0: it is free ...
    uint64_t end_ns = 0;  ///< ... since then
  };
  std::unordered_map<uint32_t, std::vector<Lane>> lanes_;
  std::set<uint32_t> named_, workers_;
};

}  // namespace weir::trace
