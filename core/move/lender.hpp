// SPDX-License-Identifier: Apache-2.0
//
// Lender: a place with a neighbour (PEER): a page that must leave a device goes to a neighbour's idle memory first, where the link
// there is better than the host's. There it is an ordinary page of that device but for one thing: it is borrowed. Borrowed pages are
// the first to be evicted when the owner of the memory needs it, and they never pass to a third device; so what is lent is given back
// within the time that copying it to HOST takes. Only memory above the high watermark is lent: an owner that grows meets
// free granules first, while the background makes more of them.
//
// Whole pages of devices with virtual memory only, and no slabs: the rest goes to HOST.
#pragma once

#include "core/lease/layer.hpp"
#include "core/move/region_life.hpp"
#include "core/move/victim.hpp"
#include "core/page/env.hpp"

namespace weir::move {

class Evictor;

class Lender {
 public:
  Lender(const Env &env, const PageLayer &page, const LeaseLayer &lease, page::PageTable &pages,
         page::IdleMemory &idle, RegionLife &life, Evictor &evictor) noexcept
      : env_(env),
        page_(page),
        lease_(lease),
        pages_(pages),
        idle_(idle),
        life_(life),
        evictor_(evictor) {}

  /// A place with a neighbour for a dirty page, which is marked FILLING there. False: nobody has one, and nothing was done.
  /// May drop the lock.
  bool borrow(Releasable &lock, Victim &victim, const PoolDevice &from, bool last_resort) WEIR_HELD;
  /// The page is with the neighbour now, or is not. `arrived`: with all of its bytes.
  void settle(Victim &victim, bool arrived) noexcept WEIR_HELD;

  // ---- outside the lock ----
  /// The granule is mapped where the copy goes.
  static Status open(Loan &loan, uint64_t bytes);
  /// Nothing has come of it.
  static void close(Loan &loan, uint64_t bytes) noexcept;

 private:
  /// Whether a neighbour could take the page, if it had the room.
  bool may_lend(const Victim &victim, const PoolDevice &from, const PoolDevice &to) WEIR_HELD;
  /// The device with memory to spare for the page that has the best link; of several with links alike the one with the most memory to
  /// spare. `dropping`: what it could drop counts, too. Each borrower begins to look at the device after itself, so that several of
  /// them do not choose the same neighbour.
  PoolDevice *neighbour_for(const Victim &victim, const PoolDevice &from, bool dropping) WEIR_HELD;
  /// Gives up what costs no copy: borrowed pages that lie elsewhere too, which many do that were brought back and not
  /// written, and those of dead buffers. False: there are none. Drops the lock.
  bool drop_disposable(Releasable &lock, PoolDevice &device, uint64_t bytes) WEIR_HELD;
  uint64_t borrowed_bytes() const noexcept WEIR_HELD;
  /// The granule, and what was charged for it.
  void give_back(Victim &victim, GranuleId granule) noexcept WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  page::PageTable &pages_;
  page::IdleMemory &idle_;
  RegionLife &life_;
  Evictor &evictor_;
};

}  // namespace weir::move
