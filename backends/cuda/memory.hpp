// SPDX-License-Identifier: Apache-2.0
//
// Memory with an address at once: plain device memory, and pinned host memory, allocated or registered. The driver
// promises less alignment than the backend ABI; where what it gave does not do, more is asked for and the start moved.
#pragma once

#include "backends/common/allocation_table.hpp"
#include "backends/cuda/device.hpp"

#include <map>
#include <shared_mutex>
#include <vector>

namespace weir::cuda {

weir_result plain_allocate(const Api &api, Device &device, uint64_t bytes, uint64_t alignment,
                           uint64_t *address);
weir_result plain_free(const Api &api, Device &device, uint64_t address, uint64_t bytes);
/// Ends all that is left. Nothing of the device runs.
void plain_clear(const Api &api, Device &device) noexcept;

class HostMemory {
 public:
  explicit HostMemory(const Api &api) noexcept : api_(api) {}

  /// `context` is one device's, always the same; the memory is for all.
  weir_result allocate(abi::Context context, uint64_t bytes, void **memory);
  weir_result release(abi::Context context, void *memory, uint64_t bytes);
  weir_result enroll(abi::Context context, void *memory, uint64_t bytes);
  weir_result dismiss(abi::Context context, void *memory, uint64_t bytes);
  void clear(abi::Context context) noexcept;

  /// How many of the `bytes` at `address` a copy may take at once: it must not cross from one registration to the next,
  /// which a large range consists of. A load where no large range is registered.
  uint64_t run_at(uint64_t address, uint64_t bytes) const noexcept {
    return seams_.load(std::memory_order_acquire) == 0 ? bytes : run_before_seam(address, bytes);
  }

 private:
  struct Registration {
    uint64_t bytes = 0;
    bool busy = false;
  };
  uint64_t run_before_seam(uint64_t address, uint64_t bytes) const noexcept;
  weir_result begin_enroll(uint64_t address, uint64_t bytes);
  abi::Result unregister(abi::Context context, uint64_t address, uint64_t bytes) noexcept;

  const Api &api_;
  common::AllocationTable allocations_;
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Registration> registrations_;  ///< guarded by mutex_
  std::atomic<uint64_t> seams_{0};                  ///< between the parts of all registrations
};

}  // namespace weir::cuda
