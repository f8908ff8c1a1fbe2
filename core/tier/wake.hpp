// SPDX-License-Identifier: Apache-2.0
//
// Wake: an eventfd that ends a lane's sleep. A file rather than a condition variable because a lane may sleep in its
// io_uring.
#pragma once

#include "core/base/status.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace weir::tier {

class Wake {
 public:
  Wake() = default;
  ~Wake() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Wake(const Wake &) = delete;
  Wake &operator=(const Wake &) = delete;

  /// `blocking`: whether wait() waits, or only takes what was set.
  Status make(bool blocking) {
    descriptor_ = eventfd(0, blocking ? EFD_CLOEXEC : EFD_CLOEXEC | EFD_NONBLOCK);
    if (descriptor_ >= 0) return {};
    return fail(WEIR_ERROR_IO, {.tier = WEIR_TIER_STORAGE, .native = errno},
                "storage: eventfd failed: %s", strerrordesc_np(errno));
  }
  int descriptor() const noexcept { return descriptor_; }
  void set() noexcept {
    const uint64_t one = 1;
    // Fails only if it is set 2^64 times over.
    if (write(descriptor_, &one, sizeof one) < 0) return;
  }
  void wait() noexcept {
    uint64_t count = 0;
    if (read(descriptor_, &count, sizeof count) < 0) return;  // the caller looks again either way
  }

 private:
  int descriptor_ = -1;
};

}  // namespace weir::tier
