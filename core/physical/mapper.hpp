// SPDX-License-Identifier: Apache-2.0
//
// Mapper: map and unmap of one device. Where the runtime wants mapping kept off the application's threads
// (it may stall, or leave the thread with another current context), the calls run on a thread of the mapper's; the caller waits either way.
// One call maps or unmaps neighbours where the backend takes runs, because giving access and unmapping cost a runtime about as much for a run as for one
// granule. Never called with a lock held.
#pragma once

#include "core/backend/runtime.hpp"
#include "core/base/mutex.hpp"
#include "core/base/numa.hpp"

#include <array>
#include <span>
#include <thread>

namespace weir::physical {

class Mapper {
 public:
  explicit Mapper(const backend::Device &device) : device_(device) {}
  ~Mapper();
  Mapper(const Mapper &) = delete;
  Mapper &operator=(const Mapper &) = delete;

  /// Devices of the same backend that may access what is mapped from now on, and the number that goes with them.
  struct Peers {
    std::array<uint32_t, 32> devices{};
    uint32_t count = 0;
    uint16_t generation = 0;
  };
  void set_peers(const Peers &peers) noexcept {
    const Guard hold(peers_mutex_);
    peers_ = peers;
  }
  /// Before start(): its thread, if it has one, runs on this NUMA node's processors where the system has several nodes.
  void stay_near(const numa::Nodes &nodes, uint32_t node) noexcept {
    nodes_ = &nodes;
    node_ = node;
  }
  Status start();
  /// *generation (may be nullptr): of the peers that have access.
  Status map(uint64_t address, uint64_t bytes, weir_be_granule granule,
             uint16_t *generation = nullptr);
  Status unmap(uint64_t address, uint64_t bytes);

  /// How many granules side by side one call takes. A caller that needs the first of them soon asks for less.
  static constexpr uint32_t most_in_run = 16;
  uint32_t longest_run() const noexcept { return device_.has(WEIR_CAP_MAP_RUN) ? most_in_run : 1; }
  /// All of `pieces` (at most longest_run()), the first at `address`, or none.
  Status map_run(uint64_t address, std::span<const weir_be_piece> pieces, uint16_t *generation);
  /// `count` pieces that cover [address, address+bytes): all, or none.
  Status unmap_run(uint64_t address, uint64_t bytes, uint32_t count);

 private:
  struct Call {
    uint64_t address = 0, bytes = 0;
    uint32_t count = 0;
    const weir_be_piece *pieces = nullptr;  ///< nullptr: unmap
    const Peers *peers = nullptr;
  };
  Status run(const Call &call);
  Status perform(const Call &call);
  void serve();

  const backend::Device &device_;
  RankedMutex<Rank::leaf> peers_mutex_;
  Peers peers_ WEIR_GUARDED_BY(peers_mutex_);
  const numa::Nodes *nodes_ = nullptr;
  uint32_t node_ = numa::unknown;
  RankedMutex<Rank::mapping> turn_;  // one caller at a time
  RankedMutex<Rank::leaf> mutex_;
  Signal changed_;
  const Call *pending_ WEIR_GUARDED_BY(mutex_) = nullptr;
  HandedOver result_ WEIR_GUARDED_BY(mutex_);
  bool done_ WEIR_GUARDED_BY(mutex_) = false, stop_ WEIR_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // from start() to the end
};

}  // namespace weir::physical
