// SPDX-License-Identifier: Apache-2.0
//
// Physical memory of one device in pieces. Drivers have room for few allocations (4096 on several), so a piece is a part of a larger
// one, a slab; what is large, or is to leave the process, is an allocation of its own. Thread-safe; the lock is not
// held over calls of the driver.
#pragma once

#include "backends/vulkan/device.hpp"

#include <list>
#include <map>
#include <mutex>

namespace weir::vulkan {

class Slabs {
 public:
  struct Slab {
    VkDeviceMemory memory = VK_NULL_HANDLE;
    uint64_t bytes = 0, used = 0;
    bool whole = false;                   ///< one piece, and never anything else
    std::map<uint64_t, uint64_t> spaces;  ///< by offset
  };
  struct Piece {
    Slab *slab = nullptr;
    uint64_t offset = 0, bytes = 0;
    bool imported = false;  ///< memory that is counted where it was made
  };

  explicit Slabs(Device &device) noexcept : device_(device) {}
  ~Slabs();
  Slabs(const Slabs &) = delete;
  Slabs &operator=(const Slabs &) = delete;

  /// `bytes` is a multiple of the granule. Throws bad_alloc with nothing changed.
  weir_result take(uint64_t bytes, bool exported, Piece *piece);
  /// Exported memory; the descriptor is taken over on success.
  weir_result import(int fd, uint64_t bytes, Piece *piece);
  void give(const Piece &piece) noexcept;

 private:
  weir_result take_whole(uint64_t bytes, bool exported, int fd, Piece *piece);
  bool carve(Slab *slab, uint64_t bytes, Piece *piece);

  Device &device_;
  std::mutex mutex_;
  std::list<Slab> slabs_;
};

}  // namespace weir::vulkan
