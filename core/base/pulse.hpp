// SPDX-License-Identifier: Apache-2.0
//
// Pulse: small periodic work that is worth no thread of its own: it writes the live page and polls the copy that is being timed
// (copy_samples.hpp). Threads at work in the pool give it a beat, under the lock; it decides by itself whether it is time.
//
// What must hold: a beat is bounded, allocates nothing, calls nothing but the poll of a fence and keeps the lock. Waking a thread is not its task.
#pragma once

#include "core/base/pool_lock.hpp"

#include <cstdint>

namespace weir {

class Pulse {
 public:
  /// Called as a call ends that has had the lock anyway.
  virtual void beat() noexcept WEIR_HELD = 0;
  /// The same, called by a thread of the pool's that rests.
  virtual void beat_at_rest() noexcept WEIR_HELD = 0;
  /// How long that thread may rest if it has nothing else to do, in nanoseconds from now; UINT64_MAX: until it is woken.
  virtual uint64_t rest_ns() noexcept WEIR_HELD = 0;

 protected:
  ~Pulse() = default;
};

}  // namespace weir
