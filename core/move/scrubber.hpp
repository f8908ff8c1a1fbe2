// SPDX-License-Identifier: Apache-2.0
//
// Scrubber: every copy of a buffer with WEIR_BUFFER_SCRUB is overwritten as it stops being one. Where nothing stands in the way
// that is done on the spot: slots of HOST and places in COMPRESSED (page/tier_copies.hpp), staging, memory of a device as a page
// leaves it (evictor.cpp). What can't be is noted: slots and staging that a copy under way still reads, and places in STORAGE, which
// need a write. Whoever caused that (Scrubbing, in each call that can) does it before he returns, as far as no copy is to be
// waited for; calls that end a buffer or take memory away, and the end of the pool, wait for those too.
//
// What must hold: a place in STORAGE belongs to nobody until it is overwritten, and a write that fails is tried again: nothing is
// lost by it, and nobody else gets the place.
#pragma once

#include "core/lease/layer.hpp"
#include "core/move/evictor.hpp"
#include "core/move/relocator.hpp"
#include "core/page/env.hpp"

namespace weir::move {

class Scrubber final : public ScrubTurns::Work {
 public:
  struct Others {
    transfer::Carrier &carrier;
    Relocator &relocator;
  };
  Scrubber(const Env &env, const PageLayer &page, const LeaseLayer &lease, const Others &others,
           Evictor &evictor) noexcept
      : env_(env), page_(page), lease_(lease), others_(others), evictor_(evictor) {}

  /// What is due, without the lock (ScrubTurns).
  bool scrub(bool wait) noexcept override WEIR_NOT_HELD;
  /// What a dead buffer has left on devices: its pages leave, and are overwritten by that. Those that something is at work on for
  /// longer than a moment do so when their time comes, unless the caller has the time to wait.
  void scrub_device(Releasable &lock, uint32_t id, uint16_t generation,
                    bool wait) noexcept WEIR_HELD;

 private:
  /// Slots of HOST that copies up still read. TierCopies overwrites them. False: there are some left.
  bool scrub_retired(Releasable &lock, bool wait) noexcept WEIR_HELD;
  /// Places in STORAGE. One that can't be written stays in the list: False. Drops the lock.
  bool scrub_storage(Releasable &lock, bool wait) noexcept WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  const Others others_;
  Evictor &evictor_;
};

}  // namespace weir::move
