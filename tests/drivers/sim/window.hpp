// SPDX-License-Identifier: Apache-2.0
//
// A stretch of the process's addresses that belongs to the machine from its beginning to its end, without memory
// behind it, and who has which part of it. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace weir::sim {

class Window {
 public:
  Window() = default;
  Window(Window &&other) noexcept
      : address_(std::exchange(other.address_, 0)),
        bytes_(std::exchange(other.bytes_, 0)),
        holes_(std::move(other.holes_)),
        next_(other.next_) {}
  Window &operator=(Window &&) = delete;
  ~Window();

  /// Takes the addresses. False if the system has no such stretch.
  bool open(uint64_t bytes);
  bool touches(uint64_t address, uint64_t bytes) const noexcept;

  /// A free part of whole pages; `alignment` is a power of two of at least a page. False if there is none.
  bool take(uint64_t bytes, uint64_t alignment, uint64_t *address);
  void give(uint64_t address, uint64_t bytes);

 private:
  using Holes = std::map<uint64_t, uint64_t>;
  bool take_from(Holes::iterator hole, uint64_t from, uint64_t bytes, uint64_t alignment,
                 uint64_t *address);

  uint64_t address_ = 0, bytes_ = 0;
  Holes holes_;        ///< free pieces, address -> bytes; neighbours are merged
  uint64_t next_ = 0;  ///< where the next search begins: addresses are used again as late as can be
};

}  // namespace weir::sim
