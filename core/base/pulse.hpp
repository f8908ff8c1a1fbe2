// SPDX-License-Identifier: Apache-2.0
//
// Pulse: what is done now and then by whoever is at work in a pool anyway, because it is worth no thread of its own: the live page is
// written. Threads at work give it a beat, under the lock; it knows by itself whether it is time.
//
// What must hold: a beat is bounded, allocates nothing, calls nobody and keeps the lock. What wakes a thread is none of its business.
#pragma once

#include "core/base/pool_lock.hpp"

#include <cstdint>

namespace weir {

class Pulse {
 public:
  /// As a call ends that has had the lock anyway.
  virtual void beat() noexcept WEIR_HELD = 0;
  /// The same by a thread of the pool's that rests.
  virtual void beat_at_rest() noexcept WEIR_HELD = 0;
  /// Until that thread may rest, if it has nothing else to do: nanoseconds from now; UINT64_MAX: for good.
  virtual uint64_t rest_ns() noexcept WEIR_HELD = 0;

 protected:
  ~Pulse() = default;
};

}  // namespace weir
