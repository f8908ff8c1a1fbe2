// SPDX-License-Identifier: Apache-2.0
//
// Placement: which device of a pool a buffer should be at home on. A cost model and nothing else: it knows budgets, what is
// promised, links and users, holds no lock and changes nothing.
//
// The time that a round of uses takes, in which every user reaches all of the buffer's bytes once (docs/topology.md):
//
//     cost(h) = sum over users u of   T(u, h; s - o) + T(u, p; o)       u other than h
//                                     2 T(h, p; o)                      u = h: the bytes come up, others go down
//
//     T(a, b; n) = latency + n / bandwidth, the lesser of both ways; 0 for a = b; of two links where copies pass the host
//     s = the buffer's bytes;  o = those of them that exceed what the home has not promised yet, at most s
//     p = where they go: the fastest neighbour that is better than the host and has not promised them, else the host
//
// Costs within a fiftieth of each other are one: measured links differ by more from run to run. Of these the home nearest to the
// caller's NUMA node wins, then the least loaded by promised bytes over budget, then the first. A buffer without users
// goes to a device that has room, the least loaded, then the nearest.
#pragma once

#include "core/base/numa.hpp"
#include "core/transfer/routes.hpp"
#include "core/virtual/region.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace weir::residency {

/// How often each device of a pool, by its position, is said to use a buffer in one round; the CPU comes last.
struct Users {
  static constexpr size_t cpu = vm::max_devices;
  std::array<uint16_t, vm::max_devices + 1> times{};

  bool any() const noexcept {
    for (const uint16_t each : times)
      if (each != 0) return true;
    return false;
  }
};

class Placement {
 public:
  static constexpr uint8_t nowhere = UINT8_MAX;

  struct Place {
    uint64_t budget = 0;
    uint64_t promised = 0;  ///< bytes of live buffers that are at home there
    uint32_t node = numa::unknown;
    bool usable = true;  ///< neither lost nor left out
    uint64_t room() const noexcept { return budget > promised ? budget - promised : 0; }
  };

  /// The routes' devices in their order; all of it outlives this.
  Placement(const transfer::Routes &routes, const numa::Nodes &nodes,
            const std::pmr::vector<Place> &places) noexcept
      : routes_(routes), nodes_(nodes), places_(places) {}

  /// Seconds a round of uses takes with this home.
  double cost(uint8_t home, uint64_t bytes, const Users &users) const noexcept;
  /// The home for a buffer that a thread on `node` makes; nowhere: no place is usable.
  uint8_t choose(uint64_t bytes, const Users &users, uint32_t node) const noexcept;

 private:
  uint8_t spill_of(uint8_t home, uint64_t bytes) const noexcept;
  double load(uint8_t home, uint64_t bytes) const noexcept;

  const transfer::Routes &routes_;
  const numa::Nodes &nodes_;
  const std::pmr::vector<Place> &places_;
};

}  // namespace weir::residency
