// SPDX-License-Identifier: Apache-2.0
//
// Routes: between which devices of a pool bytes go without the host, and how fast. Taken from the topology when the pool is
// made and constant from then on; devices are named by their position in the pool. What is not known is slow, and
// not direct.
#pragma once

#include "core/topology/places.hpp"

#include <cstdint>
#include <memory_resource>
#include <vector>

namespace weir::transfer {

/// One way of a link, as far as it is known.
struct Way {
  uint64_t bandwidth = 0;  ///< bytes a second; 0: unknown
  uint64_t latency_ns = 0;
  uint32_t kind = 0;  ///< WEIR_LINK_*
  bool direct = false;
};

/// Where no bandwidth is known the kind says enough: what vendors build between GPUs (2) is several times PCIe (1).
int rank_of(uint32_t kind) noexcept;

class Routes {
 public:
  Routes() = default;
  /// Of a machine written down: (count + 1) squared ways, row by row, the host last.
  Routes(size_t count, std::vector<Way> ways) : count_(count), ways_(std::move(ways)) {}

  /// Asks for every pair of these devices, and for the host. A link that can't be told of counts as none.
  void find(topology::Places &places, const std::pmr::vector<uint32_t> &ids);

  /// Whether a copy needs no host in between, either way.
  bool direct(uint8_t from, uint8_t to) const noexcept {
    return from < count_ && to < count_ && way(from, to).direct && way(to, from).direct;
  }
  /// Bytes a second, one way; 0: unknown.
  uint64_t bandwidth(uint8_t from, uint8_t to) const noexcept { return way(from, to).bandwidth; }
  size_t count() const noexcept { return count_; }
  /// count() is the host.
  const Way &way(size_t from, size_t to) const noexcept { return ways_[from * (count_ + 1) + to]; }
  /// Whether bytes go faster from a device to `a` (> 0) than to `b` (< 0). Links within a fiftieth of each other are alike:
  /// measured ones differ by more from run to run.
  int compare(uint8_t from, uint8_t a, uint8_t b) const noexcept;
  /// In place of a device: the host, as an end of a link.
  static constexpr uint8_t host = UINT8_MAX;
  /// What a byte takes from one place to another and what every copy takes, in seconds, the slower of both ways; over the
  /// host where the two do not reach each other. Where no bandwidth is known the kind gives one, of which only the ratios
  /// mean something.
  struct Pace {
    double byte = 0, copy = 0;
  };
  Pace pace(uint8_t a, uint8_t b) const noexcept;
  /// Whether the other device is a better place to send bytes to than the host, there and back.
  bool beats_host(uint8_t from, uint8_t to) const noexcept;

 private:
  Pace one_link(uint8_t a, uint8_t b) const noexcept;
  static bool better(const Way &a, const Way &b) noexcept;

  size_t count_ = 0;
  std::vector<Way> ways_;
};

}  // namespace weir::transfer
