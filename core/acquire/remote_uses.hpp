// SPDX-License-Identifier: Apache-2.0
//
// RemoteUses: leases on another device's memory (WEIR_USE_ALLOW_REMOTE): a use that allows it is granted where its pages are, if one
// device that the stream's reaches directly has them all. To the pool it is a lease on that device like any other (its place in a
// conflict, the pages it keeps from leaving, whose copy is the only one after a write); but the stream that waits for the bytes and
// leaves the fence is of another device. Stamps name streams, not devices, so a wait for a buffer's past waits for it too.
//
// What must hold: it costs no memory and waits for no lease, so it is claimed first and never makes anybody wait in turn. On
// any obstacle the use is an ordinary one. While an acquire waits for leases it holds none of these either: two sets
// that had something of each other's would wait for ever. A borrowed page stays borrowed, but is no spare any more.
//
// Loss: the writer's device may be lost while its work on another's memory runs. Those bytes are on a device that is well, and
// wrong all the same: what was being written so is lost with the writer (Losses).
#pragma once

#include "core/acquire/claims.hpp"
#include "core/lease/layer.hpp"
#include "core/page/env.hpp"

#include <span>

namespace weir::acquire {

class Slabs;  // acquire/slabs.hpp

/// What of the set is used where it lies.
inline std::span<const Owned<move::Plan>> remote_parts(const move::Plan &plan) noexcept {
  if (plan.remote == nullptr) return {};
  return plan.remote->plans;
}

class RemoteUses {
 public:
  RemoteUses(const Env &env, const PageLayer &page, const LeaseLayer &lease, page::PageTable &pages,
             Claims &claims, Slabs &slabs) noexcept
      : env_(env), page_(page), lease_(lease), pages_(pages), claims_(claims), slabs_(slabs) {}

  /// The device on which a stream of `device` can use the bytes as they lie; nullptr: none, or it has them all itself. *busy:
  /// somebody is working on a page of them, so it is not known yet.
  PoolDevice *place_for(const move::PlanItem &item, const PoolDevice &device, bool *busy,
                        uint32_t not_there = 0) noexcept WEIR_HELD;
  /// Divides the set: what can be used where it lies goes to a plan of that device's, the rest stays. Drops the lock if it has to
  /// wait for work of Weir's own, and looks at everything again then.
  Status divide(Releasable &lock, move::Plan &plan) WEIR_HELD;
  /// Leases what divide() has found; the lock has not been dropped since. On failure nothing of it is leased.
  Status take(move::Plan &plan) WEIR_HELD;
  void drop(move::Plan &plan) noexcept WEIR_HELD;
  /// What is leased where it lies can't be evicted, but lost.
  bool stand(const move::Plan &plan) noexcept WEIR_HELD;
  /// Where the set uses a buffer.
  static uint8_t place_in(const move::Plan &plan, uint32_t buffer) noexcept;

 private:
  /// Whether a stream of `device` can use the pages as they are mapped on the other: the mapper gave access to those that the
  /// routes named, and that were there then. One that is leaving its pool is to have no more leases.
  bool reaches(const PoolDevice &device, const Residence &there, uint32_t first,
               uint32_t last) const noexcept;
  /// The part of the set that is used on the device's memory.
  move::Plan &plan_on(move::Plan &plan, PoolDevice &memory);

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  page::PageTable &pages_;
  Claims &claims_;
  Slabs &slabs_;
};

}  // namespace weir::acquire
