// SPDX-License-Identifier: Apache-2.0
//
// Leases and the per-stream state of a pool. A lease's record belongs to its stream's state and is never
// freed before the pool; its handle names pool, stream slot, index and generation, so a stale one is recognised.
#pragma once

#include "core/backend/stream.hpp"
#include "core/base/memory.hpp"

#include <weir/lease.h>

#include <array>
#include <deque>
#include <vector>

namespace weir::residency {

enum class LeaseKind : uint8_t {
  none,
  whole,   ///< counted in the buffer's word
  partial  ///< listed in Engine::partials_, counted in its pages
};

struct LeaseItem {
  uint64_t begin = 0, end = 0;  ///< bytes of the buffer
  uint32_t buffer = 0;
  uint8_t mode = 0;  ///< WEIR_READ ...
  LeaseKind kind = LeaseKind::none;
  bool writes() const noexcept { return mode != WEIR_READ; }
};

struct Lease {
  explicit Lease(std::pmr::memory_resource *memory) : more(memory) {}
  static constexpr uint32_t inline_items = 4;

  uint32_t index = 0;
  uint32_t generation = 1;
  uint32_t count = 0;  ///< items; 0: not in use
  uint8_t place = 0;   ///< device's position in the pool, or host_place
  Lease *next_free = nullptr;
  std::array<LeaseItem, inline_items> few;
  std::pmr::vector<LeaseItem> more;  ///< all items, when there are more than inline_items

  LeaseItem *items() noexcept { return count <= inline_items ? few.data() : more.data(); }
};

/// What a pool keeps for a stream. `free_leases`, `hits` and the leases' `count` are guarded by the stream's
/// timeline lock, the rest by the pool's.
struct StreamState {
  explicit StreamState(std::pmr::memory_resource *memory) : leases(memory), announced(memory) {
    leases.reserve(max_leases / 64);
  }
  static constexpr uint32_t max_leases = 1U << 16;

  backend::Stream *stream = nullptr;
  uint32_t stream_generation = 0;
  uint64_t hits = 0;
  Lease *free_leases = nullptr;
  std::pmr::vector<Owned<Lease>>
      leases;  // pointers are stable; read by index without the pool's lock

  /// Announced operations, oldest first; `announced_base` is the number of the first.
  struct AnnouncedUse {
    uint32_t buffer;
    uint64_t generation;
    uint64_t begin, end;
    uint8_t mode;
  };
  struct Announced {
    explicit Announced(std::pmr::memory_resource *memory) : uses(memory) {}
    std::pmr::vector<AnnouncedUse> uses;
  };
  std::pmr::deque<Announced> announced;
  uint64_t announced_base = 0;    ///< operations consumed so far
  uint64_t prefetched_until = 0;  ///< operation number the prefetcher has got to ...
  size_t prefetched_use = 0;      ///< ... and its use
  std::atomic<bool> has_announced{false};
};

}  // namespace weir::residency
