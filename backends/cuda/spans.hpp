// SPDX-License-Identifier: Apache-2.0
//
// Reservations that are longer than the range they were made for. The driver is asked for an alignment; should one not keep to
// it, more is reserved and an aligned part of it used. What is not here was reserved as it is. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace weir::cuda {

class Spans {
  struct Whole {
    uint64_t base = 0, bytes = 0;
  };

 public:
  using Taken = std::map<uint64_t, Whole>::node_type;

  /// The range at `address` is a part of the reservation at `base`. Throws bad_alloc; then nothing was added.
  void add(uint64_t address, uint64_t base, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    wholes_.insert_or_assign(address, Whole{base, bytes});
  }
  /// Takes the record out, before the driver can give the addresses to another thread. Empty: there is none.
  Taken take(uint64_t address) noexcept {
    const std::lock_guard lock(mutex_);
    return wholes_.extract(address);
  }
  void put_back(Taken taken) noexcept {
    const std::lock_guard lock(mutex_);
    wholes_.insert(std::move(taken));
  }
  /// What to tell the driver of the range: the address and the bytes that it knows.
  static std::pair<uint64_t, uint64_t> known(const Taken &taken, uint64_t address,
                                             uint64_t bytes) noexcept {
    if (taken.empty()) return {address, bytes};
    return {taken.mapped().base, taken.mapped().bytes};
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, Whole> wholes_;  ///< guarded by mutex_
};

}  // namespace weir::cuda
