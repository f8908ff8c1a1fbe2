// SPDX-License-Identifier: Apache-2.0
//
// Memory with an address at once: plain device memory, pinned host memory, and the program's own memory made
// known to the driver. Every range is known here, so that freeing twice is refused and copies can be checked.
// Thread-safe.
#pragma once

#include "backends/level_zero/devices.hpp"
#include "backends/level_zero/usage.hpp"

#include <map>
#include <shared_mutex>

namespace weir::level_zero {

class Memory {
 public:
  Memory(const Platform &platform, Usage &usage) noexcept : platform_(platform), usage_(usage) {}
  /// Frees everything. No work uses any of it.
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  weir_result allocate_plain(uint32_t device, uint64_t bytes, uint64_t alignment,
                             uint64_t *address);
  weir_result free_plain(uint32_t device, uint64_t address, uint64_t bytes);
  weir_result allocate_host(uint64_t bytes, void **memory);
  weir_result free_host(void *memory, uint64_t bytes);
  weir_result enroll(void *memory, uint64_t bytes);
  weir_result dismiss(void *memory, uint64_t bytes);

  /// Whether [address, +bytes) lies inside one of the ranges; *device is whose memory it is, WEIR_DEVICE_HOST
  /// for the host's.
  bool contains(uint64_t address, uint64_t bytes, uint32_t *device) const;

 private:
  enum class Kind : uint8_t { plain, pinned, registered };
  struct Range {
    uint64_t bytes = 0;
    uint32_t device = WEIR_DEVICE_HOST;
    Kind kind = Kind::plain;
  };
  using Ranges = std::map<uint64_t, Range>;

  /// What `make` gives is entered in the table. The record is allocated before.
  template <class Make>
  weir_result add(const Range &range, const char *call, Make make);
  /// The record is out of the table while `end` runs, as the address may be given out again at once.
  template <class End>
  weir_result remove(uint64_t address, const Range &range, const char *call, End end);
  abi::Result end(uint64_t address, Kind kind) const noexcept;

  const Platform &platform_;
  Usage &usage_;
  mutable std::shared_mutex mutex_;
  Ranges ranges_;
};

}  // namespace weir::level_zero
