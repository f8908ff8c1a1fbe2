// SPDX-License-Identifier: Apache-2.0
//
// Background: the pool's threads, and what two of them do: the evictor keeps granules free between the watermarks, so that demand
// rarely meets a dirty victim, grows HOST before it is full, and gives back to the system what nobody needs; the demoter keeps the
// tiers with some room and makes HOST's budget follow what the machine has to spare. A caller that needs room makes it himself.
//
// Device memory goes back by itself where nobody needed it for a grace period: pages of dead buffers that nobody took over,
// granules that stayed in the free lists, segments that stayed empty. The evictor looks several times a grace period and gives back
// a part at each look, because giving back may stall the device and what comes next may want it again; while there is nothing to
// give it sleeps. A reserve as large as the high watermark stays. What is asked for (Trimmer) goes at once.
#pragma once

#include "core/residency/env.hpp"
#include "core/move/host_room.hpp"
#include "core/move/recompressor.hpp"
#include "core/residency/evictor.hpp"
#include "core/residency/idle_memory.hpp"
#include "core/residency/prefetcher.hpp"

#include <thread>

namespace weir::residency {

class Background {
 public:
  struct Others {
    move::HostRoom &host_room;
    move::Demoter &demoter;
    const Owned<move::Recompressor> &recompressor;
    IdleMemory &idle;
    Prefetcher &prefetcher;
  };
  Background(const Env &env, const PageLayer &page, const Others &others, Evictor &evictor) noexcept
      : env_(env), page_(page), others_(others), evictor_(evictor) {}

  // ---- the threads ----
  /// Starts them, those that work near the node; they end when the pool stops.
  Status run(uint32_t node);
  bool running() const noexcept { return evicting_.joinable(); }  ///< the first to be started
  void join();

  // ---- for tests ----
  /// Gives back now what has been idle for long enough, if it is time to look.
  void look_at_idle() WEIR_NOT_HELD;
  /// One step towards the high watermark on each device that needs one; true: something was evicted.
  bool look_at_room() WEIR_NOT_HELD;
  /// Makes HOST's budget follow the machine now, where it does so at all.
  void look_at_memory() WEIR_NOT_HELD;
  /// Codes again what has lain idle in COMPRESSED for long enough.
  void look_at_compressed() WEIR_NOT_HELD;

 private:
  void evictor_loop();
  void demoter_loop();
  /// One step from the low to the high watermark. False: there is enough, or nothing to evict, or a set is making room itself.
  bool keep_free(Releasable &lock, PoolDevice &device) WEIR_HELD;
  void give_unneeded_back(Releasable &lock) WEIR_HELD;
  void give_unneeded_back(Releasable &lock, PoolDevice &device) WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const Others others_;
  Evictor &evictor_;
  std::thread evicting_, demoting_;
};

}  // namespace weir::residency
