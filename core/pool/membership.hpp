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

#include "core/acquire/homes.hpp"
#include "core/acquire/slabs.hpp"
#include "core/lease/layer.hpp"
#include "core/move/carriage.hpp"
#include "core/move/evictor.hpp"
#include "core/move/losses.hpp"
#include "core/move/region_life.hpp"
#include "core/page/env.hpp"
#include "core/pool/device_maker.hpp"

namespace weir::pool {

class Membership {
 public:
  struct Others {
    Devices &devices;
    move::Carriage &carriage;
    const page::Sizes &sizes;
    page::PageTable &pages;
    move::RegionLife &life;
    page::IdleMemory &idle;
    move::Losses &losses;
    acquire::Slabs &small;
    acquire::Homes &homes;
    move::Relocator &relocator;
    move::Prefetcher &prefetcher;
  };
  Membership(const Env &env, const PageLayer &page, const LeaseLayer &lease, const Others &others,
             page::EngineConfig &config, DeviceMaker &maker, move::Evictor &evictor) noexcept
      : env_(env),
        page_(page),
        lease_(lease),
        others_(others),
        config_(config),
        maker_(maker),
        evictor_(evictor) {}

  /// The devices by position, those that have left too.
  void list(std::pmr::vector<uint32_t> *ids);
  /// `routes` are between the devices of list() and, behind them, this one if it is not among them. One call at a time.
  Status add(const page::EngineConfig::DeviceBudget &budget, transfer::Routes routes);
  /// Blocks until the device is empty; TIMEOUT, CANCELLED or what a move failed with: it is of the pool as before.
  Status remove(uint32_t device_id, uint64_t timeout_ns);
  /// Ends a remove() that another thread waits in. Not one whose device is empty already.
  Status cancel(uint32_t device_id);

 private:
  /// Whether the device may join. *back: it was here before.
  Status admit(const page::EngineConfig::DeviceBudget &budget, PoolDevice **back) WEIR_HELD;
  Status bring_back(PoolDevice &device, uint64_t budget) WEIR_HELD;
  Status begin_leaving(uint32_t device_id, uint64_t timeout_ns, PoolDevice **device) WEIR_HELD;
  /// Until nothing of the pool is on the device any more. May drop the lock.
  Status drain(Releasable &lock, PoolDevice &device) WEIR_HELD;
  /// A batch of pages that could go now, from *from on, round and round. An empty one: not one of all could. It may drop the lock
  /// before it finds the first, and returns whether it did.
  bool list_pages(Releasable &lock, PoolDevice &device, PageRef *from,
                  std::pmr::vector<PageRef> *pages) WEIR_HELD;
  /// Of one region, from page *from on. Returns how many it has looked at.
  uint64_t list_pages_of(Region &region, PoolDevice &device, uint32_t *from, uint64_t *bytes,
                         std::pmr::vector<PageRef> *pages) WEIR_HELD;
  Status fail_cancelled(const PoolDevice &device) noexcept WEIR_HELD;
  /// Its streams may have leases on other devices' memory (WEIR_USE_ALLOW_REMOTE), and work under them.
  bool has_leases(const PoolDevice &device) noexcept WEIR_HELD;
  Status fail_late(PoolDevice &device) noexcept WEIR_HELD;
  /// Whether nothing keeps the device. A lost one is kept by leases alone, which have yet to be released.
  bool empty(PoolDevice &device) noexcept WEIR_HELD;

  // ---- departure.cpp ----
  /// What walks over all regions looks at so many records in one taking of the lock, and goes on to no further region then.
  static constexpr uint64_t most_records = 4096;
  /// Others may have the lock for a moment.
  void rest(Releasable &lock) WEIR_HELD;
  /// visit(region) for those in the sets; it returns how many records it has looked at. Regions that come meanwhile may be left out.
  /// When this returns other threads may have had the lock since the last visit.
  template <class Visit>
  void in_parts(Releasable &lock, page::PlaceIndex::Sets sets, Visit &&visit) WEIR_HELD;
  /// Of what is at home on the device, which is leaving.
  void close_hits(Releasable &lock, const PoolDevice &device) WEIR_HELD;
  /// The device is empty. Throws std::bad_alloc with everything whole, and some homes elsewhere.
  Status leave(Releasable &lock, PoolDevice &device) WEIR_HELD;
  /// Of a lost device: what is on it is nobody's from now on.
  void strip(Releasable &lock, PoolDevice &device) WEIR_HELD;
  /// Another home for the region. Returns how many records it has looked at. Throws as leave().
  uint64_t give_home(Region &region, const PoolDevice &device, PoolDevice **heir) WEIR_HELD;
  /// What nobody owns any more ends where it is, and what is sharded keeps its other homes.
  static bool moves_home(const Region &region) noexcept {
    return !region.is.kept && region.shards == nullptr;
  }
  bool any_at_home(const PoolDevice &device) noexcept WEIR_HELD;
  /// The region forgets the device, on which it has nothing. Returns how many records it has looked at.
  uint64_t part_from(Region &region, PoolDevice &device) noexcept WEIR_HELD;
  /// Small buffers with lost bytes get a lost page of their own: their slab is to be used by others. Throws std::bad_alloc with
  /// everything whole.
  void part_from_lost(Region &slab, uint8_t home) WEIR_HELD;
  /// Where the region is to be at home from now on: as if its buffer were made now; slabs go to the heir.
  uint8_t home_for(const Region &region, const PoolDevice &to) WEIR_HELD;
  /// Nothing of the region is on its home any more, and so no hit can read what is changed here. Throws std::bad_alloc with
  /// nothing changed.
  void rehome(Region &region, uint8_t home) WEIR_HELD;
  /// Who takes over what has its home on the device: the nearest by link, then the one with the most room.
  Status find_heir(const PoolDevice &device, PoolDevice **heir) noexcept;

  /// Whether a buffer would be left without a device if this one left.
  bool last_of_shards(const Region &region, const PoolDevice &device) const noexcept;
  /// Nothing of the region is on the device any more: its pages are others' from now on.
  void reshard(Region &region, const PoolDevice &device) noexcept WEIR_HELD;
  /// Of a lost device, which is about to be forgotten: what it has mapped in ranges that others use is in their way.
  void clear_shards(Releasable &lock, PoolDevice &device) WEIR_HELD;
  PoolDevice &device_at(uint8_t place) noexcept { return *others_.devices[place]; }

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  const Others others_;
  page::EngineConfig &config_;
  DeviceMaker &maker_;
  move::Evictor &evictor_;
};

}  // namespace weir::pool
