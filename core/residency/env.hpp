// SPDX-License-Identifier: Apache-2.0
//
// What the classes of a pool work in and on, by layer: each entry owns its state, which only its own functions change, but for the
// gauges, which are plain counts. A class takes the layers that it is about and, by name, the classes that it calls.
#pragma once

#include "core/base/events.hpp"
#include "core/lease/admission.hpp"
#include "core/lease/history.hpp"
#include "core/lease/lease_table.hpp"
#include "core/lease/remote_writes.hpp"
#include "core/move/sync.hpp"
#include "core/page/slab_allocator.hpp"
#include "core/page/use_times.hpp"
#include "core/policy/scrub_turns.hpp"
#include "core/residency/config.hpp"
#include "core/residency/pool_device.hpp"

namespace weir::residency {

/// Of all classes.
struct Env {
  uint64_t now_ns() const noexcept { return config.clock->now_ns(); }

  std::pmr::memory_resource *const memory;
  const move::Sync sync;
  const EngineConfig &config;
  backend::StreamTable &streams;
  Ticks &ticks;
  Events &events;
  Gauges &gauges WEIR_GUARDED;
  policy::ScrubTurns &scrub_turns;  ///< of what could not be overwritten at once
};

/// Which pages there are, and where they are.
struct PageLayer {
  const Devices &devices;
  page::RegionStore &regions;
  page::PlaceIndex &places WEIR_GUARDED;  ///< of them
  page::BufferDirectory &buffers;
  page::SlabAllocator &slabs;
  page::TierCopies &tiers;
  tier::ColdTiers &cold;
  Accounts &accounts;
  const page::UseTimes &uses;
};

/// Who may use what, and after what.
struct LeaseLayer {
  lease::History &history;
  lease::LeaseTable &leases;
  lease::RemoteWrites &remote_writes;
  lease::StreamStates &states;
  lease::Admission &admission;
};

}  // namespace weir::residency
