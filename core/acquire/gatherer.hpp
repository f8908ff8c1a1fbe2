// SPDX-License-Identifier: Apache-2.0
//
// Gatherer: granules for a plan, and room for them: what is free, then what comes together by moving, then victims. Who may is
// Admission's. A thread that has to wait for leases of others holds nothing meanwhile.
#pragma once

#include "core/move/host_room.hpp"
#include "core/move/plan.hpp"
#include "core/move/prefetcher.hpp"
#include "core/move/relocator.hpp"
#include "core/page/env.hpp"

namespace weir::move {
class Evictor;
class Filler;
}  // namespace weir::move

namespace weir::acquire {

class Claims;
class EarlyFill;

class Gatherer {
 public:
  struct Others {
    move::HostRoom &host_room;
    page::IdleMemory &idle;
    move::Prefetcher &prefetcher;
    move::Relocator &relocator;
  };
  /// What a page lacks that has got no granule.
  enum class Short : uint8_t { nothing, memory, quota };

  Gatherer(const Env &env, const PageLayer &page, const Others &others, move::Evictor &evictor,
           move::Filler &filler, Claims &claims) noexcept
      : env_(env),
        page_(page),
        others_(others),
        evictor_(evictor),
        filler_(filler),
        claims_(claims) {}

  /// Whether the plan's device and the clients' quotas there would have room for the set, were they empty of all that can leave.
  Status check_budget(move::Plan &plan) WEIR_HELD;
  /// A granule for a page of the plan, charged to its client. Throws std::bad_alloc with nothing changed.
  Status claim_page(move::Plan &plan, move::PlanPage &page, Short *what) WEIR_HELD;
  /// Claims a granule for every page that has none. On failure the caller gives back what was claimed.
  Status gather(Releasable &lock, move::Plan &plan) WEIR_HELD;
  /// The set does not fit on a device because buffers that it uses on another device still have pages there; once leased, these could
  /// not be evicted. So they are evicted first, and remote uses of this device become local ones. True: something has changed.
  bool give_way(Releasable &lock, move::Plan &plan, PoolDevice &device) WEIR_HELD;

 private:
  /// Evicts up to wanted.bytes. Success means that something changed and it is worth trying again. `barren`
  /// counts rounds that freed nothing, so that a copy that always fails ends in its error.
  Status make_room(Releasable &lock, PoolDevice &device, const Wanted &wanted, EarlyFill &early,
                   uint32_t *barren) WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const Others others_;
  move::Evictor &evictor_;
  move::Filler &filler_;
  Claims &claims_;
};

}  // namespace weir::acquire
