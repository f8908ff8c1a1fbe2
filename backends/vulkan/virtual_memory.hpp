// SPDX-License-Identifier: Apache-2.0
//
// Virtual-memory management by sparse buffers: a reservation is a sparse buffer with a device address, a granule a piece of
// memory, and mapping a bind, which this waits for. Every precondition of the backend ABI's physical group is checked before
// the driver is asked; a refused call has changed nothing. Thread-safe; the driver is called without a lock but its queue's.
#pragma once

#include "backends/common/mapping_table.hpp"
#include "backends/vulkan/memory.hpp"
#include "backends/vulkan/slabs.hpp"

#include <atomic>
#include <memory>
#include <vector>

namespace weir::vulkan {

class VirtualMemory {
 public:
  VirtualMemory(const Platform &platform, Memory &memory);
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
  weir_result map_run(uint32_t device, uint64_t address, const weir_be_piece *pieces,
                      uint32_t count, const uint32_t *peers, uint32_t peer_count);
  weir_result unmap_run(uint32_t device, uint64_t address, uint64_t bytes);
  weir_result export_fd(uint32_t device, weir_be_granule granule, int32_t *fd);
  weir_result import_fd(uint32_t device, int32_t fd, uint64_t bytes, weir_be_granule *granule);

  /// Whether [address, +bytes) lies inside one mapping of the device.
  bool maps(uint32_t device, uint64_t address, uint64_t bytes) const noexcept;

 private:
  /// What one device has. Its addresses are its own, so nothing of it is shared with another's.
  struct Home {
    explicit Home(Device &of) : device(of), slabs(of), table(ranges) {}
    Device &device;
    Slabs slabs;
    common::RangeTable ranges;
    common::MappingTable table;
    std::atomic<uint64_t> reserved{0};  ///< bytes of sparse buffers
  };

  weir_result check(uint32_t device) const noexcept;
  weir_result check_peers(uint32_t device, const uint32_t *peers, uint32_t count) const noexcept;
  weir_result make_range(Home *home, uint64_t bytes, uint64_t alignment, VkBuffer *buffer,
                         uint64_t *start, uint64_t *whole) const;
  weir_result add_range(Home *home, uint64_t bytes, uint64_t alignment, Memory::RangeBuffer *range,
                        uint64_t *address);
  void end_range(Home *home, const Memory::RangeBuffer &range) const noexcept;
  weir_result bind(Home *home, uint64_t address, std::vector<VkSparseMemoryBind> *binds) const;
  weir_result keep(Home *home, Slabs::Piece piece, uint64_t flags, weir_be_granule *granule);

  const Platform &platform_;
  Memory &memory_;
  std::vector<std::unique_ptr<Home>> homes_;
};

}  // namespace weir::vulkan
