// SPDX-License-Identifier: Apache-2.0
//
// Membership: devices join a pool and leave it while it is used. A device that leaves is drained: it takes nothing new,
// leases on it end, its pages move to neighbours or down the tiers, its memory goes back to the system, and what had its
// home there gets another one. Until all of that is done it can stay after all: every step before the last leaves the
// pool whole.
//
// What must hold: a device keeps its position in the pool for the pool's life, and takes it again when it comes back, so a
// thread that has seen a PoolDevice may look at it at any time later. What was mapped before a device came does not let it
// in (DevicePage::mapped against PoolDevice::joined). All under the pool's lock, which drops where pages move.
#pragma once

#include "core/residency/engine.hpp"

namespace weir::residency {

class Membership {
 public:
  explicit Membership(Engine &engine) noexcept : engine_(engine) {}

  /// The devices by position, those that have left too.
  void list(std::pmr::vector<uint32_t> *ids);
  /// `routes` are between the devices of list() and, behind them, this one if it is not among them. One call at a time.
  Status add(const EngineConfig::DeviceBudget &budget, transfer::Routes routes);
  /// Blocks until the device is empty; TIMEOUT, CANCELLED or what a move failed with: it is of the pool as before.
  Status remove(uint32_t device_id, uint64_t timeout_ns);
  /// Ends a remove() that another thread waits in. Not one whose device is empty already.
  Status cancel(uint32_t device_id);
  /// Tells the mappers who may access what they map from now on. Under the lock.
  void tell_peers() noexcept WEIR_HELD;

 private:
  Status admit(const EngineConfig::DeviceBudget &budget, PoolDevice **back) WEIR_HELD;
  Status bring_back(PoolDevice &device, uint64_t budget) WEIR_HELD;
  Status begin_leaving(uint32_t device_id, uint64_t timeout_ns, PoolDevice **device) WEIR_HELD;
  Status drain(Releasable &lock, PoolDevice &device) WEIR_HELD;
  void list_pages(PoolDevice &device, std::pmr::vector<PageRef> *pages) WEIR_HELD;
  bool has_leases(const PoolDevice &device) noexcept WEIR_HELD;
  Status fail_late(PoolDevice &device) noexcept WEIR_HELD;
  bool empty(PoolDevice &device) noexcept WEIR_HELD;
  Status leave(Releasable &lock, PoolDevice &device) WEIR_HELD;
  void strip(PoolDevice &device) noexcept WEIR_HELD;
  void part_from_lost(Region &slab, uint8_t home) WEIR_HELD;
  uint8_t home_for(const Region &region, const PoolDevice &to) WEIR_HELD;
  void rehome(Region &region, uint8_t home) WEIR_HELD;
  Status find_heir(const PoolDevice &device, PoolDevice **heir) noexcept;

  Engine &engine_;
};

}  // namespace weir::residency
