// SPDX-License-Identifier: Apache-2.0
//
// IdleMemory: device memory that is not in use goes back to the system: at once what is asked for, by itself what was not needed
// for a grace period (policy/idle_scan.hpp). Giving back may stall a device, so the lock is dropped for it.
#pragma once

#include "core/page/env.hpp"
#include "core/policy/idle_scan.hpp"

namespace weir::page {

class IdleMemory {
 public:
  IdleMemory(const Env &env, transfer::Carrier &carrier) noexcept : env_(env), carrier_(carrier) {}

  /// When to look, and how many looks there were.
  policy::IdleScan &scan() noexcept WEIR_HELD { return scan_; }
  uint64_t looks() const noexcept WEIR_HELD { return scan_.looks(); }
  /// What was taken out of the device's pool; the lock is dropped meanwhile.
  void give_to_system(Releasable &lock, PoolDevice &device,
                      physical::DoomedList &doomed) noexcept WEIR_HELD;
  /// Up to `bytes` that are idle, however long; returns how many.
  uint64_t give_idle(Releasable &lock, PoolDevice &device, uint64_t bytes) WEIR_HELD;
  /// The device's slots that copies between others pass become idle memory of its own. False: there are none, or they are in
  /// use. Drops the lock.
  bool give_bounce_back(Releasable &lock, PoolDevice &device) noexcept WEIR_HELD;
  /// How long what is at work on the device may be waited for, in nanoseconds.
  uint64_t patience(const PoolDevice &device) const noexcept;
  static bool worth_watching(const PoolDevice &device) WEIR_HELD;
  /// Something may have become idle.
  void watch() noexcept WEIR_HELD;
  /// Something of the device's may have.
  void watch(const PoolDevice &device) noexcept WEIR_HELD {
    if (!scan_.watching() && worth_watching(device)) watch();
  }

 private:
  const Env &env_;
  transfer::Carrier &carrier_;
  policy::IdleScan scan_ WEIR_GUARDED;
};

}  // namespace weir::page
