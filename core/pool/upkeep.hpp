// SPDX-License-Identifier: Apache-2.0
//
// Upkeep: what an engine does by itself: which tasks there are, and that of the evictor's thread. It keeps granules free between the
// watermarks, so that demand rarely meets a dirty victim, grows HOST before it is full, and gives back to the system what nobody
// needs. A caller that needs room makes it himself.
//
// Device memory goes back by itself where nobody needed it for a grace period: pages of dead buffers that nobody took over,
// granules that stayed in the free lists, segments that stayed empty. The evictor looks several times a grace period and gives back
// a part at each look, because giving back may stall the device and what comes next may want it again; while there is nothing to
// give it sleeps. A reserve as large as the high watermark stays. What is asked for (Trimmer) goes at once.
#pragma once

#include "core/move/evictor.hpp"
#include "core/move/host_room.hpp"
#include "core/move/prefetcher.hpp"
#include "core/move/recompressor.hpp"
#include "core/page/env.hpp"
#include "core/page/idle_memory.hpp"
#include "core/pool/background.hpp"
#include "core/pool/publisher.hpp"

namespace weir::pool {

class Upkeep final : private Task {
 public:
  struct Others {
    move::HostRoom &host_room;
    move::Demoter &demoter;
    const Owned<move::Recompressor> &recompressor;
    page::IdleMemory &idle;
    move::Prefetcher &prefetcher;
    Publisher &publisher;  ///< which the evictor's thread gives its beats
  };
  Upkeep(const Env &env, const PageLayer &page, const Others &others,
         move::Evictor &evictor) noexcept
      : env_(env), page_(page), others_(others), evictor_(evictor) {}

  /// Threads for all tasks. Whoever copies pages does so near the node.
  Status start(Background &background, uint32_t node) WEIR_NOT_HELD;
  /// No page is on the move, and nothing is to be prefetched.
  bool idle() const noexcept WEIR_HELD;
  Publisher &publisher() noexcept { return others_.publisher; }

  // ---- for tests ----
  /// Gives back now what has been idle for long enough, if it is time to look.
  void look_at_idle() WEIR_NOT_HELD;
  /// One step towards the high watermark on each device that needs one; true: something was evicted.
  bool look_at_room() WEIR_NOT_HELD;
  /// One step of the plans, and what they want brought by now; true: there was something to do.
  bool look_at_plans() WEIR_NOT_HELD;
  /// Makes HOST's budget follow the machine now, where it does so at all.
  void look_at_memory() WEIR_NOT_HELD;
  /// Codes again what has lain idle in COMPRESSED for long enough.
  void look_at_compressed() WEIR_NOT_HELD;

 private:
  bool step(Releasable &lock) override WEIR_HELD;
  uint64_t rest_ns() noexcept override WEIR_HELD;
  const char *name() const noexcept override { return "the evictor's thread"; }
  bool keep_free(Releasable &lock) WEIR_HELD;
  /// One step from the low to the high watermark. False: there is enough, or nothing to evict, or a set is making room itself.
  bool keep_free(Releasable &lock, PoolDevice &device) WEIR_HELD;
  void give_unneeded_back(Releasable &lock) WEIR_HELD;
  void give_unneeded_back(Releasable &lock, PoolDevice &device) WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const Others others_;
  move::Evictor &evictor_;
};

}  // namespace weir::pool
