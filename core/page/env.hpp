// SPDX-License-Identifier: Apache-2.0
//
// What the classes of a pool work in and on, by layer: each entry owns its state, which only its own functions change, but for the
// gauges, which are plain counts. A class takes the layers that it is about and, by name, the classes that it calls.
#pragma once

#include "core/base/events.hpp"
#include "core/base/pulse.hpp"
#include "core/base/scrub_turns.hpp"
#include "core/base/sync.hpp"
#include "core/page/config.hpp"
#include "core/page/pool_device.hpp"
#include "core/page/slab_allocator.hpp"
#include "core/page/use_times.hpp"

namespace weir::page {

/// Of all classes.
struct Env {
  uint64_t now_ns() const noexcept { return config.clock->now_ns(); }

  std::pmr::memory_resource *const memory;
  const Sync sync;
  const EngineConfig &config;
  backend::StreamTable &streams;
  Ticks &ticks;
  Events &events;
  Gauges &gauges WEIR_GUARDED;
  ScrubTurns &scrub_turns;  ///< of what could not be overwritten at once
  Pulse &pulse;             ///< for calls that end
};

/// Which pages there are, and where they are.
struct PageLayer {
  const Devices &devices;
  RegionStore &regions;
  PlaceIndex &places WEIR_GUARDED;  ///< of them
  BufferDirectory &buffers;
  SlabAllocator &slabs;
  TierCopies &tiers;
  tier::ColdTiers &cold;
  Accounts &accounts;
  const UseTimes &uses;
};

}  // namespace weir::page

namespace weir {
using page::Env;
using page::Hold;
using page::HoldKind;
using page::PageLayer;
using page::Target;
}  // namespace weir
