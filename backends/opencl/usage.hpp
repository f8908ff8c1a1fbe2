// SPDX-License-Identifier: Apache-2.0
//
// How many bytes of each device this state has handed out. A device gives no more than it has: drivers let memory go to
// the host behind the program's back instead of refusing, and OpenCL does not tell how much is free. Thread-safe.
#pragma once

#include "backends/opencl/devices.hpp"
#include "backends/opencl/errors.hpp"

#include <algorithm>
#include <atomic>
#include <deque>

namespace weir::opencl {

class Usage {
 public:
  explicit Usage(const Platform &platform)
      : platform_(platform), used_(platform.devices().size()) {}

  /// Counts `bytes`; DEVICE_OOM when the device has fewer left.
  weir_result charge(uint32_t device, uint64_t bytes) noexcept {
    const uint64_t total = platform_.devices()[device].memory;
    uint64_t used = used_[device].load(std::memory_order_relaxed);
    do {
      if (bytes > total || used > total - bytes) {
        return refuse(WEIR_ERROR_DEVICE_OOM, "device %u: %llu bytes asked, %llu of %llu left",
                      device, number(bytes), number(total - std::min(used, total)), number(total));
      }
    } while (!used_[device].compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return WEIR_SUCCESS;
  }
  void give_back(uint32_t device, uint64_t bytes) noexcept {
    used_[device].fetch_sub(bytes, std::memory_order_relaxed);
  }
  uint64_t available(uint32_t device) const noexcept {
    return platform_.devices()[device].memory - used_[device].load(std::memory_order_relaxed);
  }

 private:
  const Platform &platform_;
  std::deque<std::atomic<uint64_t>> used_;
};

/// Charges while it lives, unless kept.
class Charge {
 public:
  Charge(Usage &usage, uint32_t device) noexcept : usage_(usage), device_(device) {}
  ~Charge() {
    if (bytes_ != 0) usage_.give_back(device_, bytes_);
  }
  Charge(const Charge &) = delete;
  Charge &operator=(const Charge &) = delete;
  weir_result add(uint64_t bytes) noexcept {
    const weir_result result = usage_.charge(device_, bytes);
    if (result == WEIR_SUCCESS) bytes_ += bytes;
    return result;
  }
  void keep() noexcept { bytes_ = 0; }

 private:
  Usage &usage_;
  const uint32_t device_;
  uint64_t bytes_ = 0;
};

}  // namespace weir::opencl
