// SPDX-License-Identifier: Apache-2.0
//
// Releases: the end of every lease but one of a whole buffer alone that ends as it began, which is Engine::release()'s. One fence for the whole
// lease, published with every item before its count is dropped.
//
// What must hold: it cannot fail to end the lease. Where a fence can't be recorded the stream is synchronised, where there is no memory to
// remember one it is waited for. The pool's lock is not taken in the turn of a timeline, which those who have it may wait for.
#pragma once

#include "core/lease/layer.hpp"
#include "core/lease/lease.hpp"
#include "core/move/losses.hpp"
#include "core/move/prefetcher.hpp"
#include "core/page/env.hpp"

namespace weir::pool {

class Releases {
 public:
  Releases(const Env &env, const PageLayer &page, const LeaseLayer &lease, move::Losses &losses,
           move::Prefetcher &prefetcher) noexcept
      : env_(env), page_(page), lease_(lease), losses_(losses), prefetcher_(prefetcher) {}

  /// On another stream than it was acquired on, or while another thread records; or there is no such lease.
  Status elsewhere(weir_lease handle, StreamState *state, Stream &stream) WEIR_NOT_HELD;

  // ---- of a lease that no handle names any more ----
  /// The caller has the turn of the stream's timeline, which ends here: what is counted in words publishes the fence in the turn that
  /// has recorded it.
  Status in_turn(Lease *lease, StreamState &state, Stream &stream) WEIR_NOT_HELD;
  /// One of a whole buffer whose stamp is another stream's. `point`: of its fence; 0: that could not be recorded.
  Status unpublished(Lease *lease, StreamState &state, Stream &stream,
                     uint64_t point) WEIR_NOT_HELD;

 private:
  Status taken(Lease *lease, StreamState &state, Stream &stream) WEIR_NOT_HELD;
  void end_counted(Lease &lease, const Stream &stream, uint64_t point) noexcept;
  void end_listed(Lease *lease, StreamState &state, const Stream &stream, uint64_t point,
                  bool wrote_elsewhere) noexcept WEIR_NOT_HELD;
  void end_item(const LeaseItem &item, const Lease *lease, Stamp stamp) noexcept WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  move::Losses &losses_;
  move::Prefetcher &prefetcher_;
};

}  // namespace weir::pool
