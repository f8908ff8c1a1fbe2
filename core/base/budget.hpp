// SPDX-License-Identifier: Apache-2.0
//
// Budget: a hard limit and what is charged against it. Charging never passes the limit; there is no way to
// overdraw. Not thread-safe: guarded by the pool's lock.
#pragma once

#include <cassert>
#include <cstdint>

namespace weir {

class Budget {
 public:
  explicit Budget(uint64_t limit = 0) noexcept : limit_(limit) {}

  uint64_t limit() const noexcept { return limit_; }
  uint64_t used() const noexcept { return used_; }
  uint64_t room() const noexcept { return used_ < limit_ ? limit_ - used_ : 0; }

  bool charge(uint64_t bytes) noexcept {
    if (bytes > room()) return false;
    used_ += bytes;
    return true;
  }
  void refund(uint64_t bytes) noexcept {
    assert(bytes <= used_);
    used_ -= bytes;
  }
  /// Lowers (or raises) the limit; what is charged already stays charged.
  void set_limit(uint64_t limit) noexcept { limit_ = limit; }

 private:
  uint64_t limit_ = 0;
  uint64_t used_ = 0;
};

}  // namespace weir
