// SPDX-License-Identifier: Apache-2.0
//
// SharedMapping: the addresses of one granule that parts of several regions lie in, on a device that maps a granule at one
// address only. The first part that comes into place maps the granule, the last that leaves unmaps it, and the others only
// count. The mutex is held during the runtime's call, so that a map waits until an unmap of the same addresses has returned.
// The caller chooses the granule, and changes it only while no part is in place.
//
// Used without the pool's lock, but for stuck() and forsake().
#pragma once

#include "core/physical/mapper.hpp"

#include <atomic>

namespace weir::physical {

class SharedMapping {
 public:
  Status map(Mapper &mapper, uint64_t address, uint64_t bytes, weir_be_granule granule,
             uint16_t *generation) {
    const Guard hold(mutex_);
    if (users_ == 0) {
      if (stuck()) WEIR_TRY(mapper.unmap(address, bytes));
      stuck_.store(false, std::memory_order_relaxed);
      WEIR_TRY(mapper.map(address, bytes, granule, &generation_));
    }
    ++users_;
    *generation = generation_;
    return {};
  }
  /// On failure the caller still counts as in place.
  Status unmap(Mapper &mapper, uint64_t address, uint64_t bytes) {
    const Guard hold(mutex_);
    if (users_ == 1) WEIR_TRY(mapper.unmap(address, bytes));
    --users_;
    return {};
  }
  /// A caller whose unmap() has failed leaves all the same. If it was the last, what is mapped there stays until an unmap
  /// succeeds, which the next map() tries first.
  void forsake() noexcept {
    const Guard hold(mutex_);
    if (--users_ == 0) stuck_.store(true, std::memory_order_relaxed);
  }
  /// Something is mapped there that has no user: the addresses can't be given to others.
  bool stuck() const noexcept { return stuck_.load(std::memory_order_relaxed); }

 private:
  RankedMutex<Rank::transfer> mutex_;
  uint32_t users_ WEIR_GUARDED_BY(mutex_) = 0;       ///< fragments in place
  uint16_t generation_ WEIR_GUARDED_BY(mutex_) = 0;  ///< of the peers that have access
  std::atomic<bool> stuck_{false};
};

}  // namespace weir::physical
