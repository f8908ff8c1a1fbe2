// SPDX-License-Identifier: Apache-2.0
//
// Budget: a hard limit and what is charged against it. Charging never passes the limit; there is no way to
// overdraw. Not thread-safe: guarded by the pool's lock.
// Charge: bytes of a budget for which there is no memory yet. It is given back if there will be none, else absorbed by what got the
// memory. A destructor may run without the lock, so it gives nothing back; checked builds stop where that was left to it.
#pragma once

#include "core/base/pool_lock.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <utility>

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
  /// Lowers (or raises) the limit; bytes that are charged already stay charged.
  void set_limit(uint64_t limit) noexcept { limit_ = limit; }
  /// Lowers the limit by so much, but to no less than what is charged.
  void lower(uint64_t bytes) noexcept {
    limit_ = std::max(used_, limit_ - std::min(limit_, bytes));
  }

 private:
  uint64_t limit_ = 0;
  uint64_t used_ = 0;
};

class Charge {
 public:
  Charge(Budget &budget, uint64_t bytes) noexcept WEIR_HELD
      : budget_(budget.charge(bytes) ? &budget : nullptr),
        bytes_(bytes) {}
  Charge(Charge &&other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
  Charge &operator=(Charge &&) = delete;
  ~Charge() { assert(budget_ == nullptr); }

  /// False: the budget had no room for it, and there is nothing to be given back.
  explicit operator bool() const noexcept { return budget_ != nullptr; }
  void give_back() noexcept WEIR_HELD { std::exchange(budget_, nullptr)->refund(bytes_); }
  void absorb() noexcept WEIR_HELD { budget_ = nullptr; }
  /// Absorbed if `take` returns memory; given back if it returns none, or throws.
  template <class Take>
  auto pay_for(Take &&take) WEIR_HELD {
    try {
      const auto memory = std::forward<Take>(take)();
      memory ? absorb() : give_back();
      return memory;
    } catch (...) {
      give_back();
      throw;
    }
  }

 private:
  Budget *budget_;  ///< nullptr: nothing is charged, or no more
  uint64_t bytes_;
};

}  // namespace weir
