// SPDX-License-Identifier: Apache-2.0
//
// Plain device memory, pinned host memory, and host memory that is the caller's. What was never given is refused, so
// that the runtime is never asked to free it. Freeing plain memory waits for the device: hipFree does.
#pragma once

#include "backends/common/allocation_table.hpp"
#include "backends/hip/devices.hpp"

#include <memory>

namespace weir::hip {

class Memory {
 public:
  Memory(const Runtime &runtime, const Devices &devices)
      : runtime_(runtime),
        devices_(devices),
        plain_(std::make_unique<common::AllocationTable[]>(devices.count())) {}

  weir_result allocate(uint32_t device, uint64_t bytes, uint64_t alignment, uint64_t *address);
  weir_result free(uint32_t device, uint64_t address, uint64_t bytes);
  weir_result host_allocate(uint64_t bytes, void **memory);
  weir_result host_free(void *memory, uint64_t bytes);
  weir_result host_register(void *memory, uint64_t bytes);
  weir_result host_unregister(void *memory, uint64_t bytes);

  /// Ends everything that is left. No work that uses it is pending.
  void clear() noexcept;

 private:
  weir_result check_registers() const noexcept;

  const Runtime &runtime_;
  const Devices &devices_;
  std::unique_ptr<common::AllocationTable[]> plain_;
  common::AllocationTable host_;
  common::AllocationTable registered_;
};

}  // namespace weir::hip
