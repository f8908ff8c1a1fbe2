// SPDX-License-Identifier: Apache-2.0
//
// How many bytes of each device this state has handed out. A device gives no more than it has: a driver would
// swap device memory to the host behind the program's back instead of refusing. Thread-safe.
#pragma once

#include "backends/level_zero/devices.hpp"

#include <atomic>
#include <deque>

namespace weir::level_zero {

class Usage {
 public:
  explicit Usage(const Platform &platform);

  /// Counts `bytes`; DEVICE_OOM when the device has fewer left.
  weir_result charge(uint32_t device, uint64_t bytes) noexcept;
  void give_back(uint32_t device, uint64_t bytes) noexcept;
  /// What is left, as far as known: the device's memory less what was handed out, and no more than the
  /// driver says is free, where it may be asked (system management).
  uint64_t available(uint32_t device) const;

 private:
  const Platform &platform_;
  std::deque<std::atomic<uint64_t>> used_;
};

/// Charges while it lives, unless kept.
class Charge {
 public:
  Charge(Usage &usage, uint32_t device, uint64_t bytes) noexcept
      : usage_(usage), device_(device), bytes_(bytes), result_(usage.charge(device, bytes)) {}
  ~Charge() {
    if (result_ == WEIR_SUCCESS && !kept_) usage_.give_back(device_, bytes_);
  }
  Charge(const Charge &) = delete;
  Charge &operator=(const Charge &) = delete;
  weir_result result() const noexcept { return result_; }
  void keep() noexcept { kept_ = true; }

 private:
  Usage &usage_;
  const uint32_t device_;
  const uint64_t bytes_;
  const weir_result result_;
  bool kept_ = false;
};

}  // namespace weir::level_zero
