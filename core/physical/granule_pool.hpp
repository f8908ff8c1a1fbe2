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
inline constexpr uint32_t client_unknown = UINT32_MAX >> 1U;

/// Sixteen bytes: there is one for every page of a device, however many there are.
struct Granule {
  uint64_t place =
      0;  ///< with VMM the runtime's handle, 0 before there is one; without, the address
  uint32_t node =
      no_node;  ///< with VMM the next of its free list; without, its node in the segment

  uint32_t client() const noexcept { return client_class_ >> 1U; }
  PageClass page_class() const noexcept { return static_cast<PageClass>(client_class_ & 1U); }
  void set_client(uint32_t client) noexcept {
    client_class_ = (client << 1U) | (client_class_ & 1U);
  }
  void set_class(PageClass c) noexcept {
    client_class_ = (client_class_ & ~1U) | static_cast<uint32_t>(c);
  }
  static constexpr uint32_t no_node = UINT32_MAX;

 private:
  uint32_t client_class_ = client_unknown << 1U;
};
static_assert(sizeof(Granule) == 16);

/// A granule to be destroyed outside of the lock.
struct Doomed {
  GranuleId id = no_granule;
  Granule *granule = nullptr;
};
using DoomedList = std::pmr::vector<Doomed>;

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
  GranuleId claim(PageClass c, uint64_t bytes, DoomedList *doomed);
  /// Back to the free list; it still holds `client`'s bytes.
  void release(GranuleId id) noexcept;
  /// Takes idle granules out until `bytes` are covered; the caller destroys them.
  uint64_t take_idle(uint64_t bytes, DoomedList *doomed);
  /// Forgets a granule that was never materialized or has been destroyed; `returned`: its bytes leave the budget.
  void forget(GranuleId id, bool returned) noexcept;
  /// The runtime refused `bytes` inside the budget: so much less is to be had.
  void lower_budget(uint64_t bytes) noexcept;
  Granule &at(GranuleId id) noexcept { return granules_[id]; }

  // ---- outside the lock ----
  // By reference, got under it: looking a granule up is not safe while another thread adds some.
  Status materialize(Granule &granule);
  Status destroy(Granule &granule);

 private:
  /// Granules that nobody has claimed, last in, first out; linked through themselves, so that nothing here allocates.
  struct FreeList {
    GranuleId head = no_granule;
    size_t size = 0;
  };
  GranuleId pop(FreeList *list) noexcept;
  void push(FreeList *list, GranuleId id) noexcept;
  FreeList &idle_of(PageClass c) noexcept { return idle_[static_cast<size_t>(c)]; }
  GranuleId new_slot();

  const backend::Device &device_;
  const bool vmm_;
  const uint64_t page_size_, large_size_;
  Budget budget_;
  std::pmr::deque<Granule> granules_;  // references stay good while others grow it
  FreeList unused_;
  FreeList idle_[2];
  uint64_t segment_ = 0, segment_bytes_ = 0;
  std::optional<Arena> arena_;
};

}  // namespace weir::physical
