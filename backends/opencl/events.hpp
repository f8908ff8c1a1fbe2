// SPDX-License-Identifier: Apache-2.0
//
// OpenCL's events. Each stands for one command and is never used again, as fences want it. An Event ends its reference by
// itself. Nothing here blocks but finish(), which looks again and again: clWaitForEvents knows no limit, and a device
// that is lost meanwhile must be noticed.
#pragma once

#include "backends/opencl/devices.hpp"

#include <utility>

namespace weir::opencl {

class Event {
 public:
  Event() = default;
  Event(const Platform &platform, cl_event handle) noexcept
      : platform_(&platform), handle_(handle) {}
  Event(Event &&other) noexcept { swap(other); }
  Event &operator=(Event &&other) noexcept {
    swap(other);
    return *this;
  }
  ~Event() {
    if (handle_ != nullptr) twice([&] { return platform_->api().clReleaseEvent(handle_); });
  }

  explicit operator bool() const noexcept { return handle_ != nullptr; }
  cl_event handle() const noexcept { return handle_; }
  /// Its reference is the caller's from now on.
  cl_event take() noexcept { return std::exchange(handle_, nullptr); }

 private:
  void swap(Event &other) noexcept {
    std::swap(platform_, other.platform_);
    std::swap(handle_, other.handle_);
  }
  const Platform *platform_ = nullptr;
  cl_event handle_ = nullptr;
};

/// SUCCESS if the command has ended well, NOT_READY if not. One that ended badly takes its device with it.
weir_result poll(const Platform &platform, uint32_t device, cl_event event) noexcept;
/// Blocks until it has ended: SUCCESS, or TIMEOUT after `timeout_ns` (UINT64_MAX = no limit).
weir_result finish(const Platform &platform, uint32_t device, cl_event event,
                   uint64_t timeout_ns) noexcept;
/// Blocks until it has ended or never will: for ends, where no caller is told of a failure.
void settle(const Platform &platform, uint32_t device, cl_event event) noexcept;

}  // namespace weir::opencl
