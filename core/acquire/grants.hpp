// SPDX-License-Identifier: Apache-2.0
//
// Grants: the caller's stream is made to wait for what is still in flight; then versions change and flags are set. Enqueueing the
// waits is the last thing that can fail. It is done without the lock: a stream whose channel is full keeps the call for as long as
// its work takes. Everything is claimed by then, so that nothing that comes meanwhile is older.
#pragma once

#include "core/acquire/remote_uses.hpp"
#include "core/lease/layer.hpp"
#include "core/lease/lease.hpp"
#include "core/move/losses.hpp"
#include "core/page/env.hpp"

namespace weir::acquire {

class Grants {
 public:
  Grants(const Env &env, const PageLayer &page, const LeaseLayer &lease, page::PageTable &pages,
         move::Losses &losses, move::Prefetcher &prefetcher, Claims &claims,
         RemoteUses &remote) noexcept
      : env_(env),
        page_(page),
        lease_(lease),
        pages_(pages),
        losses_(losses),
        prefetcher_(prefetcher),
        claims_(claims),
        remote_(remote) {}

  // ---- after what ----
  /// What the caller's stream has to wait for before any part of the set.
  void gather_waits(move::Plan &plan) WEIR_HELD;
  /// Enqueues the waits that have been gathered. Drops the lock meanwhile: the stream may be full, and take its time. On failure
  /// what was claimed still is; *stands: whether the plan is as it was.
  Status order_unlocked(Releasable &lock, move::Plan &plan, bool *stands) WEIR_HELD;
  /// Makes the caller's stream wait for everything older. On failure nothing is leased any more. *again: another device was
  /// lost, whose fences the stream was to wait for, or whose memory it was to use, or a page was written there, and everything is
  /// to be looked at anew.
  Status order_after_past(Releasable &lock, move::Plan &plan, bool *again) WEIR_HELD;

  // ---- the grant ----
  /// Nothing fails here. The caller's stream waits for everything older, so what an exclusive lease covers is from
  /// now on represented by the stamp its release will leave. Of what is used where it lies too; and notes who is to write on
  /// others' memory. RemoteWrites has the room.
  void commit(move::Plan &plan, const Lease *lease) noexcept WEIR_HELD;
  /// The copy on the plan's device is the latest version, and no other is. A slot of HOST that a lease may be looking at stays
  /// its page's: it is an older version. No thread is working on the pages.
  void leave_latest(move::Plan &plan) noexcept WEIR_HELD;
  void fill_lease(move::Plan &plan, weir_use *uses, size_t count, Lease *lease) WEIR_HELD;

 private:
  /// Outside the lock.
  Status enqueue_waits(const move::Plan &plan) noexcept;
  /// The lock was dropped with everything claimed. A page that a write is about to make stale elsewhere may have come to be worked
  /// on meanwhile: that ends by itself. What only sinks sees that it was overwritten.
  void await_copies(Releasable &lock, const move::Plan &plan) WEIR_HELD;
  /// Page::latest of each page that the set is to write, in the order of items and pages.
  std::pmr::vector<uint32_t> versions(const move::Plan &plan);
  /// Whether the set still has the latest version of every page that it is to write. weir_buffer_write may have written other bytes
  /// of the page into another place's copy meanwhile: commit() would make that copy stale. A whole discard keeps no old bytes.
  bool writes_stand(const move::Plan &plan, const std::pmr::vector<uint32_t> &before) noexcept;
  /// Where the set writes the page.
  static uint32_t written_bit(const move::Plan &plan, const Region &region, uint32_t page) noexcept;
  void drop_all(move::Plan &plan) noexcept WEIR_HELD;
  void commit_part(move::Plan &plan) noexcept WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  page::PageTable &pages_;
  move::Losses &losses_;
  move::Prefetcher &prefetcher_;
  Claims &claims_;
  RemoteUses &remote_;
};

}  // namespace weir::acquire
