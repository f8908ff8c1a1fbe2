// SPDX-License-Identifier: Apache-2.0
//
// GranulePool: the physical memory of one device of one pool, under a hard budget.
//
// With VMM it keeps granules of two size classes; without, it carves extents of any size out of one large
// segment. It answers "none" when there is no room and never evicts: making room is the residency layer's.
// The budget counts what is held from the system, idle granules included, so it can never be passed.
//
// Two steps, because runtime calls may take hundreds of microseconds: claim() and release() are bookkeeping
// under the pool's lock; materialize(), destroy() and the like call the backend, outside of it, on granules the caller owns.
#pragma once

#include "core/backend/runtime.hpp"
#include "core/base/budget.hpp"
#include "core/base/memory.hpp"
#include "core/physical/arena.hpp"

#include <deque>
#include <optional>
#include <vector>

namespace weir::physical {

using GranuleId = uint32_t;
inline constexpr GranuleId no_granule = UINT32_MAX;

enum class PageClass : uint8_t { small = 0, large = 1 };

/// Whose bytes a granule still holds. Memory goes from one client to another only zeroed.
inline constexpr uint32_t client_unknown = UINT32_MAX;

struct Granule {
  weir_be_granule handle = 0;  ///< VMM
  uint64_t address = 0;        ///< without VMM
  uint64_t bytes = 0;
  Arena::Node node = Arena::none;
  uint32_t client = client_unknown;
  PageClass page_class = PageClass::small;
};

class GranulePool {
 public:
  GranulePool(const backend::Device &device, uint64_t page_size, uint64_t large_page_size,
              uint64_t budget, std::pmr::memory_resource *memory);
  ~GranulePool();
  GranulePool(const GranulePool &) = delete;
  GranulePool &operator=(const GranulePool &) = delete;

  /// Without VMM, takes the segment from the device.
  Status start();

  bool vmm() const noexcept { return vmm_; }
  uint64_t page_size(PageClass c) const noexcept {
    return c == PageClass::large ? large_size_ : page_size_;
  }
  uint64_t budget() const noexcept { return vmm_ ? budget_.limit() : segment_bytes_; }
  uint64_t held() const noexcept { return vmm_ ? budget_.used() : segment_bytes_; }
  uint64_t idle() const noexcept;
  /// Bytes that could be claimed now, were they all of one class (an upper bound for extents).
  uint64_t room() const noexcept { return vmm_ ? budget_.room() + idle() : arena_->free_units(); }

  // ---- under the pool's lock ----
  /// A granule of the class (VMM) or an extent of `bytes` (without): no_granule if there is no room. What
  /// *doomed names must be destroy()ed before the claim is materialized (idle granules of the other class).
  /// Throws std::bad_alloc with nothing changed.
  GranuleId claim(PageClass c, uint64_t bytes, std::pmr::vector<GranuleId> *doomed);
  /// Back to the free list; it still holds `client`'s bytes.
  void release(GranuleId id) noexcept;
  /// Takes idle granules out until `bytes` are covered; the caller destroys them.
  uint64_t take_idle(uint64_t bytes, std::pmr::vector<GranuleId> *doomed);
  /// Forgets a granule that was never materialized or has been destroyed; `returned`: its bytes leave the budget.
  void forget(GranuleId id, bool returned) noexcept;
  /// The runtime refused `bytes` inside the budget: so much less is to be had.
  void lower_budget(uint64_t bytes) noexcept;
  /// Room for one more release() of every granule, so that it can't fail.
  Granule &at(GranuleId id) noexcept { return granules_[id]; }

  // ---- outside the lock ----
  Status materialize(GranuleId id);
  Status destroy(GranuleId id);

 private:
  GranuleId new_slot();

  const backend::Device &device_;
  const bool vmm_;
  const uint64_t page_size_, large_size_;
  Budget budget_;
  std::pmr::deque<Granule> granules_;  // references stay good while others grow it
  std::pmr::vector<GranuleId> unused_;
  std::pmr::vector<GranuleId> idle_[2];
  uint64_t segment_ = 0, segment_bytes_ = 0;
  std::optional<Arena> arena_;
};

}  // namespace weir::physical
