// SPDX-License-Identifier: Apache-2.0
//
// Memory with an address at once: plain device memory, pinned host memory, and the program's own memory made known to
// the driver; and the table of which buffer lies where. Every range is known here, so that freeing twice is
// refused and copies can be checked. Addresses of one state are apart, whichever device's or the host's they are; but each
// device gives its own as it likes. What lies where something of another's is gets NOT_READY here: the caller keeps it, asks
// again, and then lets it go. Thread-safe.
#pragma once

#include "backends/vulkan/platform.hpp"

#include <map>
#include <shared_mutex>
#include <vector>

namespace weir::vulkan {

/// Where bytes lie, as commands name it.
struct Spot {
  VkBuffer buffer = VK_NULL_HANDLE;
  uint64_t offset = 0;
  bool host = false;
  bool sparse = false;  ///< in a reservation, where something need not be mapped
  uint64_t room = 0;    ///< bytes from here to the end of the range
};

class Memory {
 public:
  explicit Memory(const Platform &platform)
      : platform_(platform), plain_(platform.devices().size()) {}
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

  /// A reservation's sparse buffer, of `whole` bytes; it begins `offset` bytes into it. NOT_READY: something else lies
  /// there. Throws bad_alloc.
  weir_result add_range(uint32_t device, uint64_t address, uint64_t bytes, VkBuffer buffer,
                        uint64_t offset, uint64_t whole);
  struct RangeBuffer {
    VkBuffer buffer = VK_NULL_HANDLE;
    uint64_t whole = 0;
  };
  /// Out of the table; it is there.
  RangeBuffer take_range(uint32_t device, uint64_t address) noexcept;
  /// Destroys the buffers of all reservations. No other thread uses the table meanwhile.
  void end_ranges(uint32_t device) noexcept;

  /// Where a command of the device finds [address, +bytes), if that lies inside one of the ranges.
  bool find(uint32_t device, uint64_t address, uint64_t bytes, Spot *spot) const noexcept;

 private:
  enum class Kind : uint8_t { plain, range, pinned, pages, registered };
  struct Range {
    uint64_t bytes = 0;
    Kind kind = Kind::plain;
    std::vector<Block> blocks;  ///< one of its device, or one of each device
    uint64_t offset = 0;        ///< of the range in each block's buffer
    uint64_t whole = 0;         ///< bytes of a reservation's buffer
  };
  using Ranges = std::map<uint64_t, Range>;

  weir_result make_plain(Device &device, uint64_t bytes, uint64_t alignment, Range *range,
                         uint64_t *address);
  weir_result add_plain(Device &device, uint64_t bytes, uint64_t alignment, Ranges::node_type *node,
                        uint64_t *address);
  weir_result make_pages(uint64_t bytes, Range *range, void **memory);
  weir_result import(void *memory, uint64_t bytes, Range *range);
  void end(Device *device, uint64_t address, Range *range) noexcept;
  void add(Ranges *ranges, uint64_t address, Ranges::node_type node);
  /// The range of the host's of these kinds that begins there, out of the table.
  weir_result take_host(const char *call, void *memory, uint64_t bytes, bool registered,
                        Ranges::node_type *node);
  /// Whether something of another device's, or of the host's, lies there.
  bool taken_by_others(uint32_t device, uint64_t address, uint64_t bytes) const noexcept;
  static bool overlaps(const Ranges &ranges, uint64_t address, uint64_t bytes) noexcept;
  static bool look(const Ranges &ranges, uint64_t address, uint64_t bytes, const Range **range,
                   uint64_t *offset) noexcept;

  const Platform &platform_;
  mutable std::shared_mutex mutex_;
  std::vector<Ranges> plain_;  ///< of each device
  Ranges host_;
};

}  // namespace weir::vulkan
