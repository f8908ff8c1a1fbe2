// SPDX-License-Identifier: Apache-2.0
//
// Acquirer: drives a set from its uses to its grant, as the residency protocol has it (docs/design.md, section 7, steps 1 to 11):
// plan, conflicts, admission, claims, granules, bytes. A prefetch and a hold are the same drive with other options.
//
// What must hold: whenever the lock was dropped it plans again, or fails. What it remembers between two tries is a Drive's, on the
// stack. While it waits for leases of others it holds nothing.
#pragma once

#include "core/lease/layer.hpp"
#include "core/move/plan.hpp"
#include "core/move/prefetcher.hpp"
#include "core/page/env.hpp"

namespace weir::move {
class Evictor;
class Filler;
}  // namespace weir::move

namespace weir::page {
class IdleMemory;
class PageTable;
}  // namespace weir::page

namespace weir::acquire {

class Claims;
class HostLeases;
class Gatherer;
class Grants;
class Layouts;
class ReadyUses;
class RemoteUses;
class Slabs;

class Acquirer final : public move::Prefetcher::Bringer {
 public:
  struct Others {
    page::PageTable &pages;
    page::IdleMemory &idle;
    Layouts &layouts;
    move::Evictor &evictor;
    Grants &grants;
    HostLeases &host_leases;
    Slabs &small;
    move::Prefetcher &prefetcher;
    ReadyUses &ready;
  };
  Acquirer(const Env &env, const PageLayer &page, const LeaseLayer &lease, const Others &others,
           Claims &claims, RemoteUses &remote, Gatherer &gatherer, move::Filler &filler) noexcept
      : env_(env),
        page_(page),
        lease_(lease),
        others_(others),
        claims_(claims),
        remote_(remote),
        gatherer_(gatherer),
        filler_(filler) {}

  /// The slow path of acquire.
  Status acquire(Stream &stream, weir_use *uses, size_t count, const page::AcquireOptions &options,
                 lease::Lease *lease);
  /// Gets the set's pages in place, leased, and filled. On failure nothing is claimed.
  Status bring_in(Releasable &lock, move::Plan &plan,
                  const page::AcquireOptions &options) WEIR_HELD;

  // ---- for the prefetcher ----
  Status stream_state(Stream &stream, StreamState **state) override WEIR_NOT_HELD;
  bool lies_in_reach(const policy::PrefetchRequest &request) noexcept override WEIR_HELD;
  Status bring_ahead(Releasable &lock, std::span<const policy::PrefetchRequest *const> requests,
                     uint64_t not_before) override WEIR_HELD;

 private:
  struct Drive;  // acquirer.cpp

  /// Checks the uses and merges those of one buffer that overlap. Under the lock.
  Status build_plan(const weir_use *uses, size_t count, move::Plan *plan);

  // ---- one try; success without more: it is worth another ----
  /// Plans, and looks for what is in the way. *ready: nobody is at work on what the set needs, and it would fit.
  Status look(Releasable &lock, Drive &drive, bool *ready) WEIR_HELD;
  /// Whether the set may take memory now, if it needs any.
  Status admitted(Releasable &lock, Drive &drive, bool *may) WEIR_HELD;
  /// Leases the whole set and brings it in, or does neither. On failure *claimed tells whether all of it had been leased, and
  /// *stuck which device's plan could not go on.
  Status claim_and_fill(Releasable &lock, Drive &drive, bool *claimed,
                        move::Plan **stuck) WEIR_HELD;
  /// Leases, then granules. On failure both are given back.
  Status try_claim(Releasable &lock, move::Plan &plan, move::Plan **stuck) WEIR_HELD;
  /// Brings in what the plans of the set lack. All of it is claimed; on failure all claims are given back, and *stuck is the plan
  /// that failed.
  Status fill_all(Releasable &lock, move::Plan &plan, move::Plan **stuck) WEIR_HELD;
  /// The runtime has less than the budget says: live with what there is.
  void lower_budget(PoolDevice &device) noexcept WEIR_HELD;
  /// It was claimed, and could not be brought in.
  Status after_failed_fill(Releasable &lock, Drive &drive, const Status &failed,
                           move::Plan &stuck) WEIR_HELD;
  /// It could not be claimed: takes out of its way what can go.
  Status make_way(Releasable &lock, Drive &drive, Status failed, move::Plan &stuck) WEIR_HELD;
  Status wait_for_leases(Releasable &lock, Drive &drive, move::Plan &stuck) WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  const Others others_;
  Claims &claims_;
  RemoteUses &remote_;
  Gatherer &gatherer_;
  move::Filler &filler_;
};

}  // namespace weir::acquire
