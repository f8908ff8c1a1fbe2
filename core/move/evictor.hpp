// SPDX-License-Identifier: Apache-2.0
//
// Evictor: pages leave a device. Claimed under the lock (nobody leases them, the hit path is closed), copied and unmapped outside
// of it, settled under it. A page whose bytes could not be brought to safety stays where it is; one that somebody asked for
// meanwhile stays too, clean now. Which pages go is for others to say, and where their bytes may go.
#pragma once

#include "core/lease/layer.hpp"
#include "core/move/host_room.hpp"
#include "core/move/losses.hpp"
#include "core/move/region_life.hpp"
#include "core/move/victim.hpp"
#include "core/page/env.hpp"
#include "core/transfer/copier.hpp"

#include <span>

namespace weir::move {

class Lender;
class MoveNotes;

class Evictor {
 public:
  struct Others {
    Demoter &demoter;
    HostRoom &host_room;
    Losses &losses;
  };
  Evictor(const Env &env, const PageLayer &page, const LeaseLayer &lease, const Others &others,
          page::PageTable &pages, page::IdleMemory &idle, RegionLife &life, Lender &lender) noexcept
      : env_(env),
        page_(page),
        lease_(lease),
        others_(others),
        pages_(pages),
        idle_(idle),
        life_(life),
        lender_(lender) {}

  /// Evicts what can go of `pages`; returns the bytes freed on the device. Drops the lock meanwhile. Pages are finished
  /// in the order their copies end, so that unmapping some overlaps with copying the next and their granules are free at once.
  uint64_t evict(Releasable &lock, PoolDevice &device, const std::pmr::vector<PageRef> &pages,
                 bool background, Status *why, Awaiting *early = nullptr) WEIR_HELD;
  /// Copies what is dirty of `pages` to HOST, or to the memory that they are registered with; they stay, and can be evicted without a
  /// copy from then on, until they are written again. Those whose work has not ended are left alone; so are all where HOST, or the client's
  /// quota there, has no room: copies would make room for each other. Returns the bytes copied. Whoever wants a page meanwhile waits for its copy. Drops the lock.
  uint64_t clean(Releasable &lock, PoolDevice &device,
                 const std::pmr::vector<PageRef> &pages) WEIR_HELD;
  /// Whether that would ever copy the page.
  bool is_dirty(const PoolDevice &device, const PageRef &ref) const noexcept WEIR_HELD;
  /// As evict(), with what the policy chooses.
  uint64_t evict_chosen(Releasable &lock, PoolDevice &device, const Wanted &wanted,
                        bool background) WEIR_HELD;

 private:
  class StraightDown;  // straight.cpp

  // ---- claims and places, under the lock ----
  /// Whether it can be copied now, and no work of anybody's has to be waited for. False where there is no memory to tell.
  bool may_clean(const PoolDevice &device, const PageRef &ref) const noexcept WEIR_HELD;
  void run(Releasable &lock, Drain &drain, const std::pmr::vector<PageRef> &pages, Status *why,
           Awaiting *early) WEIR_HELD;
  /// Claims what can go of `pages` and gives each dirty page a place to go to. May drop the lock.
  void claim_victims(Releasable &lock, const Drain &drain, const std::pmr::vector<PageRef> &pages,
                     std::pmr::vector<Victim> *victims, Status *why) WEIR_HELD;
  bool claim_victim(PoolDevice &device, const PageRef &ref, Victim *victim) WEIR_HELD;
  /// Finds a dirty page a place: the first that takes it of those that policy/destinations.hpp names. May drop the lock.
  Status place_victim(Releasable &lock, PoolDevice &device, Victim &victim) WEIR_HELD;
  Status place_in_host(Releasable &lock, PoolDevice &device, Victim &victim) WEIR_HELD;
  /// Marks it to pass HOST by.
  Status place_below(Victim &victim) WEIR_HELD;
  /// A page that could be dropped, were it not for the time it takes to bring it up from below HOST, is copied to HOST if a
  /// slot can be had there for nothing.
  void cache_victim(const PoolDevice &device, Victim &victim) noexcept WEIR_HELD;
  /// Pages stay on the device, or go again: said once, unless it is for want of room or is the device's end, which others say.
  void note_failed(PoolDevice &device, const Status &why) noexcept WEIR_HELD;
  /// What place_victim() gave, if the page does not go after all.
  void unplace_victim(Victim &victim) noexcept WEIR_HELD;

  // ---- outside of it ----
  /// Waits for the fences and sends the copy on its way. What went well so far is marked `safe`.
  void start_victim(Drain &drain, transfer::Copier &copier, Victim &victim);
  /// Of those that are under way: how many from the first on lie side by side and have ended, so that they can be finished together.
  /// 0: the first has not ended, or all have and `next`, which lies behind them, is to be started first.
  size_t ended_run(const Drain &drain, std::span<const Victim> under_way, const Victim *next) const;
  /// Finishes victims that lie side by side, whose memory is free then; tells whoever the room is for, while the next copies
  /// down go on.
  void finish_next(Drain &drain, std::span<Victim> victims, Awaiting *early);
  /// Takes the lock in between: waits for the copies, unmaps, settles.
  void finish_victims(Drain &drain, std::span<Victim> victims) WEIR_NOT_HELD;
  /// Waits until the page's bytes are safe.
  void land_victim(Drain &drain, Victim &victim) WEIR_NOT_HELD;
  /// Those that leave, neighbours by one call.
  static void unmap_victims(Drain &drain, std::span<Victim> victims);
  /// By parts to a tier below HOST (straight.cpp).
  Status send_straight(Drain &drain, Victim &victim) WEIR_NOT_HELD;
  /// Zeroes a page whose bytes are in HOST already, and waits for it.
  static Status wipe(PoolDevice &device, Victim &victim);
  /// What was handed to the transfer stream has to end before its memory can be let go of.
  static void end_copies(PoolDevice &device) noexcept;
  /// A loan that fails because the neighbour is lost is no failure of this device's.
  void note_failure(Drain &drain, Victim &victim, const Status &status) noexcept;

  // ---- ends, under the lock ----
  /// Whether a page whose copy has ended leaves the device, or stays there after all.
  static void decide_victim(const PoolDevice &device, Victim &victim) noexcept;
  void settle_victim(Drain &drain, Victim &victim, MoveNotes *moves) noexcept WEIR_HELD;
  /// The page's bytes have come to where place_victim() meant them to.
  void settle_place(Victim &victim) noexcept WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  const Others others_;
  page::PageTable &pages_;
  page::IdleMemory &idle_;
  RegionLife &life_;
  Lender &lender_;
};

}  // namespace weir::move
