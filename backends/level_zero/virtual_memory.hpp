// SPDX-License-Identifier: Apache-2.0
//
// Virtual-memory management: granules (physical memory objects), reserved addresses, and which granule is
// mapped where. Every precondition of the backend ABI's physical group is checked before the driver is asked, because
// drivers answer misuse with anything from success to a lost device; a refused call has changed nothing.
// Thread-safe; Level Zero's calls are made without a lock.
#pragma once

#include "backends/common/mapping_table.hpp"
#include "backends/level_zero/devices.hpp"
#include "backends/level_zero/usage.hpp"

#include <deque>
#include <map>
#include <mutex>

namespace weir::level_zero {

class VirtualMemory {
 public:
  VirtualMemory(const Platform &platform, Usage &usage);
  /// Ends everything. No work uses any of it.
  ~VirtualMemory();
  VirtualMemory(const VirtualMemory &) = delete;
  VirtualMemory &operator=(const VirtualMemory &) = delete;

  weir_result create(uint32_t device, uint64_t bytes, uint64_t flags, weir_be_granule *granule);
  weir_result destroy(uint32_t device, weir_be_granule granule);
  weir_result reserve(uint32_t device, uint64_t bytes, uint64_t alignment, uint64_t *address);
  weir_result free(uint32_t device, uint64_t address, uint64_t bytes);
  weir_result map(uint32_t device, uint64_t address, uint64_t bytes, weir_be_granule granule,
                  uint64_t offset, const uint32_t *peers, uint32_t peer_count);
  weir_result unmap(uint32_t device, uint64_t address, uint64_t bytes);
  /// The driver takes mappings one by one; a run is a loop, and all or none.
  weir_result map_run(uint32_t device, uint64_t address, const weir_be_piece *pieces,
                      uint32_t count, const uint32_t *peers, uint32_t peer_count);
  weir_result unmap_run(uint32_t device, uint64_t address, uint64_t bytes);
  /// Peers have access to all that is mapped, or can't have it: there is nothing to do but to check.
  weir_result add_access(uint32_t device, uint64_t address, uint64_t bytes, const uint32_t *peers,
                         uint32_t peer_count);

  /// Whether [address, +bytes) lies inside one mapping; *device is whose memory it is then.
  bool contains(uint64_t address, uint64_t bytes, uint32_t *device) const noexcept;

 private:
  /// A reservation as the driver gave it.
  struct Span {
    uint64_t start = 0, bytes = 0;
  };
  using Spans = std::map<uint64_t, Span>;

  weir_result check(uint32_t device) const noexcept;
  weir_result check_peers(uint32_t device, const uint32_t *peers, uint32_t count) const noexcept;
  abi::Result reserve_aligned(uint64_t bytes, uint64_t alignment, Span *span) const noexcept;
  abi::Result release(const Span &span) const noexcept;
  abi::Result map_native(uint64_t address, uint64_t bytes, uint64_t native) const noexcept;
  abi::Result unmap_native(uint64_t address, uint64_t bytes) const noexcept;
  bool put_back(uint32_t device, const common::MappedPiece *pieces, size_t count) const;
  void destroy_memory(uint64_t native) const noexcept;

  const Platform &platform_;
  Usage &usage_;
  common::RangeTable ranges_;                // of all devices: a reservation is the context's
  std::deque<common::MappingTable> tables_;  // one a device
  std::mutex mutex_;                         // the spans
  Spans spans_;                              // by the address that was given out
};

}  // namespace weir::level_zero
