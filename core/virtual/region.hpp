// SPDX-License-Identifier: Apache-2.0
//
// Region: a run of pages with one address per device, owned by one buffer of a page or more, or shared by
// the tenants of a slab. Guarded by the pool's lock, but for what its comment excepts.
#pragma once

#include "core/base/packed.hpp"
#include "core/tier/codec.hpp"
#include "core/virtual/address_space.hpp"
#include "core/virtual/geometry.hpp"
#include "core/virtual/page.hpp"
#include "core/virtual/shards.hpp"
#include "core/virtual/sharing.hpp"
#include "core/virtual/slab.hpp"

namespace weir::vm {

/// A region on one device.
struct Residence {
  Residence(uint8_t place_, std::pmr::memory_resource *memory) : pages(memory), place(place_) {}
  Packed<DevicePage> pages;
  AddressRange range;        ///< with VMM; of a sharded region its address alone
  uint32_t resident = 0;     ///< pages in place: RESIDENT, or on their way from there
  uint8_t place;             ///< position of the device in the pool
  uint32_t coming : 24 = 0;  ///< pages FILLING that were ABSENT before

  std::pmr::memory_resource *memory() const noexcept { return pages.memory(); }

  uint32_t place_bit() const noexcept { return uint32_t{1} << place; }
};
static_assert(sizeof(Residence) == 32);

/// Work on a dead tenant's place that may still be running.
struct Tombstone {
  uint64_t begin = 0, end = 0;
  Stamp stamp;
};

/// How many work on a region. While there are any it is not freed, nor does it get another owner. Only a RegionPin
/// (virtual/region_pin.hpp) and the steps of its pages change it.
class PinCount {
 public:
  class Pin;
  bool any() const noexcept { return count_ != 0; }
  /// A page of it is being worked on from now on, or is not any more (Rule::busy).
  void page_busy() noexcept { ++count_; }
  void page_done() noexcept { --count_; }

 private:
  uint32_t count_ = 0;
};

struct Region {
  Region(uint32_t id_, std::pmr::memory_resource *memory)
      : pages(memory), residences(memory), tombstones(memory), id(id_) {}

  // What every small allocation looks at lies together.
  Geometry shape;
  Packed<Page> pages;
  Packed<Compact<Residence>> residences;
  Compact<Slab> tenants;  ///< slabs
  Packed<Tombstone> tombstones;
  uint64_t last_use = 0;
  uint32_t id;
  uint32_t buffer = UINT32_MAX;  ///< its owner; none for a slab or a kept region
  uint32_t client = 0;
  uint8_t home = 0;  ///< position in the pool
  int8_t priority = 0;
  bool slab = false;
  bool kept = false;    ///< no owner any more: its pages wait to be reused or dropped
  bool pinned = false;  ///< a slab of weir_malloc: what its tenants lie on is held
  bool stable = false;
  bool scrub = false;
  bool cold = false;           ///< advised COLD, until the next use
  bool streaming = false;      ///< advised STREAMING
  bool listed = false;         ///< a kept one that may be taken over: in the list of its shape
  bool to_recompress = false;  ///< known to the recompressor
  static constexpr uint8_t no_lot = UINT8_MAX;
  uint8_t lot_place = no_lot;  ///< of its lot; elsewhere its fragments have granules to themselves
  /// It shares granules, and nobody has been told its address: 1 + log2 of that one's alignment. Its lot may still be another
  /// (residency/layouts.cpp). 0: it may not.
  uint8_t unsettled = 0;
  tier::Form rounds = tier::Form::bytes;  ///< for floats in COMPRESSED; `bytes`: not at all
  uint32_t holds = 0;
  uint8_t held_at = 0;  ///< where, if there are any; of a sharded region on all of its devices
  /// The bytes may change without anybody being told (a hold that writes, weir_malloc): nothing but the copy on `held_at`,
  /// or on a shard's device, counts as the latest. Not of a slab, whose pages are never brought to another device.
  bool held_to_write = false;
  PinCount pin_count;  ///< of threads working on it outside the lock, and of pages on the move
  uint64_t tag = 0;
  uint64_t dead_since = 0;  ///< of a kept one: the engine's look at what is idle, as its owner died
  uint32_t kept_before = UINT32_MAX, kept_after = UINT32_MAX;  ///< in the list, if `listed`
  tier::CodecPlan codec;                                       ///< what was learnt of its bytes ...
  tier::CodecPlan dense_codec;          ///< ... and of what recompression comes to
  Sharing::Lot lot;                     ///< of shape.shared, on the device `lot_place`
  Compact<Shards> shards;               ///< sharded over several devices
  unsigned char *registered = nullptr;  ///< the caller's own host memory (weir_host_register)
  unsigned char *alias = nullptr;       ///< contiguous CPU view of host slots (host leases)
  uint64_t alias_bytes = 0;

  /// Whether a hold keeps its pages on the device.
  bool held_on(uint8_t place) const noexcept {
    return holds != 0 && (shards != nullptr || place == held_at);
  }
  /// The one place of the page that may count as the latest, as a bit; 0: any.
  uint32_t only_latest(uint32_t page) const noexcept {
    if (!held_to_write) return 0;
    return uint32_t{1} << (shards != nullptr ? shards->place_of(page) : held_at);
  }
  std::pmr::memory_resource *memory() const noexcept { return pages.memory(); }
  /// A slab without tenants. Its pages are nobody's, and it ends with the last of them.
  bool vacant() const noexcept { return slab && tenants->count == 0; }
  /// Whether the page has no owner: charged to nobody, it waits to be reused or dropped.
  bool idle(uint32_t page) const noexcept {
    return kept || (slab && tenants->pages[page].tenants == 0);
  }
  /// Whether memory of weir_malloc keeps a slab's page where it is.
  bool pins(uint32_t page) const noexcept {
    return pinned && slab && tenants->pages[page].tenants != 0;
  }
  /// Whether that or a hold keeps the page on the device.
  bool held(uint32_t page, uint8_t place) const noexcept { return held_on(place) || pins(page); }
  /// Where a page of it is at home.
  uint8_t home_of(uint32_t page) const noexcept {
    return shards != nullptr ? shards->place_of(page) : home;
  }
  Residence *on(uint32_t place) noexcept {
    for (auto &r : residences) {
      if (r->place == place) return r.get();
    }
    return nullptr;
  }
  /// The buffers that lie in it: its owner, or a slab's tenants.
  template <class Visit>
  void for_each_buffer(Visit &&visit) const WEIR_HELD {
    if (buffer != UINT32_MAX) visit(buffer);
    if (!slab) return;
    for (auto node = tenants->first_tenant(); node != Slab::none; node = tenants->next_tenant(node))
      visit(tenants->owner(node));
  }
  /// A device's copy of the page's latest version, or nullptr.
  Residence *latest_on_device(uint32_t page) noexcept {
    for (auto &r : residences) {
      const bool latest = (pages[page].latest() >> r->place & 1U) != 0;
      if (latest && r->pages[page].state() == PageState::resident) return r.get();
    }
    return nullptr;
  }
};

}  // namespace weir::vm
