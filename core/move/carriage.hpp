// SPDX-License-Identifier: Apache-2.0
//
// Carriage: pages that a plan takes from other devices, by the ways that cost least (core/transfer/paths.hpp): the direct link, a
// device in between, pinned memory of the host, or several at once. Chosen under the lock, for all that the plan takes from
// one device together; done outside of it; settled under it again.
//
// A device in between lends a few slots of its memory (Bounce): charged to its budget, taken only while it has more to spare
// than its reserve, and the first that it gets back when it is short. Where they can't be had there are other ways. If it is
// lost on the way the plan has failed for now, and is filled again by other ways: neither its source nor its
// destination is to blame.
#pragma once

#include "core/move/losses.hpp"
#include "core/move/plan.hpp"
#include "core/page/env.hpp"
#include "core/transfer/copier.hpp"

namespace weir::move {

class Carriage {
 public:
  struct Others {
    page::Doubts &doubts WEIR_GUARDED;
    page::IdleMemory &idle;
    Losses &losses;
  };
  Carriage(const Env &env, const PageLayer &page, const Others &others,
           transfer::Carrier &carrier) noexcept
      : env_(env), page_(page), others_(others), carrier_(carrier) {}

  // ---- under the lock ----
  /// Of the pool's routes as they are now.
  void set_paths(transfer::Paths paths) noexcept WEIR_HELD { paths_ = std::move(paths); }
  /// Makes room for what is noted of the plan later.
  void prepare(Plan &plan) WEIR_HELD;
  /// Nothing more is noted of it.
  void forgo(Plan &plan) noexcept WEIR_HELD;
  /// The devices that copies may pass now.
  uint32_t usable_relays(const PoolDevice &to) noexcept WEIR_HELD;
  /// Of the devices that have the latest version, the one it comes from soonest; nullptr: none has it.
  Residence *device_source(Region &region, uint32_t page, const Plan &plan) noexcept WEIR_HELD;
  /// The plan's record of what it takes from there and reaches so. There is room for one of every device and kind of reach.
  Freight &freight_from(Plan &plan, const Region &region, const Residence &there,
                        uint32_t page) noexcept WEIR_HELD;
  /// When it is known what comes from where.
  void choose_ways(Plan &plan) noexcept WEIR_HELD;
  /// What came by a way of several copies is in doubt until these are known to have ended well. There is room.
  void note_carried(const Plan &plan, const PlanPage &page) noexcept WEIR_HELD;
  /// Lets go of the devices in between, and counts what has passed them.
  void settle(Plan &plan, bool filled) noexcept WEIR_HELD;

  // ---- outside of it ----
  /// When the page has its memory.
  Status carry(Plan &plan, const PlanPage &page, transfer::Copier &copier);
  /// What is enqueued from now on comes after all of it.
  Status finish(Plan &plan, transfer::Copier &copier);
  /// The plan has failed, and what was enqueued for it ends.
  void end(Plan &plan) noexcept;
  /// Which of the devices that the plan's copies pass says that it is lost.
  PoolDevice *lost_between(Plan &plan) noexcept;

 private:
  /// Who is let in to a page where it lies.
  struct Reach {
    bool direct = true;   ///< the plan's device
    uint32_t relays = 0;  ///< devices in between, as bits
  };

  Reach reach_of(const Plan &plan, const Region &region, const Residence &from,
                 uint32_t page) const noexcept WEIR_HELD;
  bool take_bounces(Plan &plan, Freight &freight) noexcept WEIR_HELD;
  Status carry_gathered(Plan &plan, transfer::Copier &copier);

  const Env &env_;
  const PageLayer &page_;
  const Others others_;
  transfer::Carrier &carrier_;
  transfer::Paths paths_ WEIR_GUARDED;  ///< of env_.config.routes
};

}  // namespace weir::move
