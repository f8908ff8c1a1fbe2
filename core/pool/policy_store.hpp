// SPDX-License-Identifier: Apache-2.0
//
// PolicyStore: what a pool has learned, as bytes of the caller's, and back. It checks what it is given and says what is wrong with it; what is
// learned is the PlanExecutor's, the bytes are policy/policy_blob.hpp's, and the names' numbers are OperationNames'.
//
// What must hold: bytes are checked as a whole before anything is allocated or changed. Saves and loads take turns.
#pragma once

#include "core/base/mutex.hpp"
#include "core/lease/layer.hpp"
#include "core/move/prefetcher.hpp"
#include "core/page/env.hpp"
#include "core/policy/policy_blob.hpp"

namespace weir::pool {

class PolicyStore {
 public:
  PolicyStore(const Env &env, const PageLayer &page, const LeaseLayer &lease,
              move::Prefetcher &prefetcher) noexcept
      : env_(env), page_(page), lease_(lease), prefetcher_(prefetcher) {}

  /// *needed: how many bytes there are. Written to `out` if it has room for them; a capacity of 0 only asks.
  Status save(unsigned char *out, uint64_t capacity, uint64_t *needed) WEIR_NOT_HELD;
  Status load(std::span<const unsigned char> bytes) WEIR_NOT_HELD;

 private:
  Status check_learns() const noexcept;
  policy::BlobTerms terms() const noexcept;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  move::Prefetcher &prefetcher_;
  RankedMutex<Rank::call> turns_;
};

}  // namespace weir::pool
