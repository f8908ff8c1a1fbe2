// SPDX-License-Identifier: Apache-2.0
//
// Memory with an address at once: plain device memory, pinned host memory, and the program's own memory. Every range is
// known here, so that freeing twice is refused and copies can be checked: a command that touches memory that is not there
// takes the whole context down with it. Thread-safe; the runtime is called without a lock.
#pragma once

#include "backends/opencl/devices.hpp"
#include "backends/opencl/usage.hpp"

#include <map>
#include <shared_mutex>

namespace weir::opencl {

class Memory {
 public:
  Memory(const Platform &platform, Usage &usage) noexcept : platform_(platform), usage_(usage) {}
  /// Ends everything. No work uses any of it.
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  weir_result allocate_plain(uint32_t device, uint64_t bytes, uint64_t alignment,
                             uint64_t *address);
  weir_result free_plain(uint32_t device, uint64_t address, uint64_t bytes);
  weir_result allocate_host(uint64_t bytes, void **memory);
  weir_result free_host(void *memory, uint64_t bytes);
  /// Any memory of the host can be copied from and to: it is entered, and nothing is done to it.
  weir_result enroll(void *memory, uint64_t bytes);
  weir_result dismiss(void *memory, uint64_t bytes);

  /// The allocation of the device's that the address lies in. False: there is none.
  bool find_plain(uint32_t device, uint64_t address, uint64_t *base, uint64_t *bytes) const;
  /// Whether [address, +bytes) lies inside one range; *device is whose it is then, or WEIR_DEVICE_HOST.
  bool contains(uint64_t address, uint64_t bytes, uint32_t *device) const;

 private:
  enum class Kind { plain, pinned, registered };
  struct Range {
    uint64_t bytes = 0;
    uint32_t device = 0;
    Kind kind = Kind::plain;
    uint64_t base = 0;  ///< as the runtime gave it, at or below the address
    uint64_t held = 0;  ///< bytes that the runtime gave
  };
  using Ranges = std::map<uint64_t, Range>;

  void *allocate(uint32_t device, Kind kind, uint64_t bytes, cl_int *code) const noexcept;
  cl_int release(Kind kind, uint64_t base, uint64_t held) const noexcept;
  weir_result allocate_aligned(uint64_t alignment, Range *range, Charge *charge,
                               uint64_t *address) const noexcept;
  weir_result take(uint64_t address, const Range &range, const char *call, Ranges::node_type *node);
  weir_result finish_free(Ranges::node_type node, const char *call);
  void add(uint64_t address, const Range &range, Ranges::node_type node);

  const Platform &platform_;
  Usage &usage_;
  mutable std::shared_mutex mutex_;
  Ranges ranges_;
};

}  // namespace weir::opencl
