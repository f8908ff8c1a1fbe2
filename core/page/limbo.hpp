// SPDX-License-Identifier: Apache-2.0
//
// Limbo: extents of a device that something has been moved away from, until the copies from them have passed. They are not reused before.
// What held the bytes of a buffer that is to be scrubbed is overwritten first, by the device itself. Guarded by the pool's lock.
#pragma once

#include "core/backend/stream.hpp"
#include "core/physical/granule_pool.hpp"

#include <memory_resource>
#include <vector>

namespace weir::page {

class Limbo {
 public:
  using GranuleId = physical::GranuleId;
  using Stamp = backend::Stamp;

  explicit Limbo(std::pmr::memory_resource *memory) : left_(memory) {}

  /// Room for one more. Throws std::bad_alloc.
  void reserve();
  /// Until it is settled it stands for an extent that a copy is to go to. `scrub`: the one that is left in the end is overwritten.
  void enter(GranuleId granule, uint64_t bytes, bool scrub) noexcept;
  /// What has entered as `granule` stands for `left` from now on, which is free as soon as the copies up to `copied` have passed.
  void settle(GranuleId granule, GranuleId left, Stamp copied) noexcept;
  /// It stands for nothing.
  void cancel(GranuleId granule) noexcept;

  /// Overwrites, on `stream`, where that is called for, and frees what can be. What can't be overwritten stays, and is tried again; of
  /// a lost device nothing is. True: something is free.
  bool sweep(backend::StreamTable &streams, physical::GranulePool &granules, bool lost,
             backend::Stream *stream) noexcept;
  bool empty() const noexcept { return left_.empty(); }
  /// The device has left, and its memory with it.
  void clear() noexcept { left_.clear(); }
  /// When one of them can go on; none: none of them is settled.
  Stamp first() const noexcept;
  /// Whether one is to be overwritten, or being so; *settled: when that can go on, if it can.
  bool any_secret(Stamp *settled) const noexcept;
  bool wiping() const noexcept;

 private:
  enum class Wipe : uint8_t { none, due, under_way };
  struct Left {
    GranuleId granule;
    Stamp copied;  ///< while a wipe is under way: when that has ended
    uint64_t bytes;
    Wipe wipe;
  };
  std::pmr::vector<Left>::iterator find(GranuleId granule) noexcept;
  static void wipe(Left &left, uint64_t address, backend::Stream &stream) noexcept;

  std::pmr::vector<Left> left_;
};

}  // namespace weir::page
