// SPDX-License-Identifier: Apache-2.0
//
// SlabAllocator: places for small buffers in pages that they share. Slabs are regions, grouped by device, client and priority, so
// that they grow cold together; each group has an index of the longest free range of each slab. Here it is decided where a tenant
// lies and counted what lies where; pages and devices are not touched. The caller does what follows: a page that has no tenants any
// more has no owner (Region::idle), one with its first tenant is the client's again. Guarded by the pool's lock.
#pragma once

#include "core/base/accounts.hpp"
#include "core/page/region_store.hpp"

#include <map>

#include <string>

namespace weir::page {

/// What all tenants of a slab have in common. `pinned`: they are of weir_malloc, and never move.
struct Kin {
  uint8_t home = 0;
  uint32_t client = 0;
  int32_t priority = 0;
  bool pinned = false;
};

class SlabAllocator {
 public:
  using Place = physical::SmallArena::Allocation;
  using Ids = std::pmr::vector<uint32_t>;

  SlabAllocator(RegionStore &regions, Accounts &accounts, std::pmr::memory_resource *memory);

  // ---- slabs ----
  /// A region of the kin's home and client is a slab of it from now on, without tenants. Throws std::bad_alloc: it is none.
  void open(Region &region, const Kin &kin) WEIR_HELD;
  void close(Region &slab) noexcept WEIR_HELD;
  /// The slab is about to have another home. Throws std::bad_alloc with nothing changed.
  void move(Region &slab, uint8_t home) WEIR_HELD;
  /// With tenants.
  uint32_t count() const noexcept WEIR_HELD { return count_; }

  // ---- places ----
  /// A place in a slab, if a few looks find one; nullptr: none has room, what there is lies on an idle page that is on its way, or
  /// the quota has no room for pages that were nobody's. Throws std::bad_alloc with nothing changed.
  Region *find(const Kin &kin, uint64_t size, uint64_t alignment, Place *place) WEIR_HELD;
  /// A range of so many bytes for what never moves, on pages in use if there is one, else on closed pages, which are opened. It
  /// has yet to be occupied. nullptr: a few looks have found none. Throws std::bad_alloc with nothing changed.
  Region *find_pinned(const Kin &kin, uint64_t bytes, uint64_t page_bytes, Place *place) WEIR_HELD;
  /// Opens the pages that a range needs beside the free one that it is to begin in: such as are there rather than others, then
  /// behind the longest free range; none that is on its way in or out, which would have to be waited for. The arena is prepared.
  /// Nothing: no run of closed pages is long enough.
  static Place open_pages(Region &slab, uint64_t bytes) noexcept;
  /// The place, which the slab's arena has allocated, has a tenant from now on. Its pages that were nobody's are charged to the
  /// client as far as they are there; false, with nothing changed: its quota has no room for them.
  bool occupy(Region &slab, const Place &place) noexcept WEIR_HELD;
  /// It has none any more, and is free. Pages that have no tenants now are idle since that look.
  void vacate(Region &slab, uint32_t node, uint64_t look) noexcept WEIR_HELD;

  // ---- looking on ----
  /// Where a walk over slabs goes on: by the numbers of groups, and within one by its list.
  struct Cursor {
    uint64_t group = 0;
    size_t slab = 0;
  };
  /// One piece of a walk over all slabs, from *from on: visit(number, ids of the group, which of them), which returns how many records it
  /// has looked at. Some thousand in all; between two pieces a slab that takes the place of one that ends may be passed over. True: there
  /// are no more.
  template <class Visit>
  bool walk(Cursor *from, Visit &&visit) const WEIR_HELD {
    constexpr uint64_t most_records = 4096;
    uint64_t looked = 0;
    auto group = groups_.lower_bound(from->group);
    for (; group != groups_.end() && looked < most_records; ++group, ++looked) {
      const Ids &slabs = group->second.slabs;
      if (group->first != from->group) *from = {group->first, 0};
      for (; from->slab < slabs.size() && looked < most_records; ++from->slab)
        looked += visit(group->first, slabs, from->slab);
      if (from->slab < slabs.size()) break;
      *from = {group->first + 1, 0};
    }
    visits::count(looked);
    return group == groups_.end();
  }
  const Ids *group(uint64_t number) const noexcept WEIR_HELD {
    const auto found = groups_.find(number);
    return found != groups_.end() ? &found->second.slabs : nullptr;
  }
  /// "", or what is wrong with its tenants, closed pages (of *page) or place in the group; for tests.
  std::string validate(const Region &slab, uint32_t *page) const WEIR_HELD;

 private:
  /// By number, and by the longest free range that each has, with the longest run of closed pages of pinned ones beside it.
  struct Group {
    explicit Group(std::pmr::memory_resource *memory)
        : slabs(memory), rooms(memory, physical::RoomTree::Kind::classes) {}
    /// So that a slab can join without allocating. Throws std::bad_alloc with nothing changed.
    void reserve_one();
    Ids slabs;
    physical::RoomTree rooms;
  };
  Group &group_at(uint64_t key) WEIR_HELD;
  void join(Group &group, Region &slab) WEIR_HELD;
  static void note_room(Region &slab) noexcept;

  RegionStore &regions_;
  Accounts &accounts_;
  std::pmr::memory_resource *memory_;
  std::pmr::map<uint64_t, Group> groups_ WEIR_GUARDED;
  Group *recent_ WEIR_GUARDED = nullptr;  ///< of them, that of the key
  uint64_t recent_key_ WEIR_GUARDED = 0;
  uint32_t count_ WEIR_GUARDED = 0;
};

}  // namespace weir::page
