// SPDX-License-Identifier: Apache-2.0
//
// Region: a run of pages with one address per device, owned by one buffer of a page or more, or shared by
// the tenants of a slab. Guarded by the pool's lock, but for what its comment excepts.
#pragma once

#include "core/base/packed.hpp"
#include "core/codec/codec.hpp"
#include "core/page/address_space.hpp"
#include "core/page/geometry.hpp"
#include "core/page/page.hpp"
#include "core/page/shards.hpp"
#include "core/page/sharing.hpp"
#include "core/page/slab.hpp"

#include <algorithm>

namespace weir::page {

/// Pages of a region, or their states on a device. Everybody may look; only page/ changes one (scripts/check-structure).
template <class T>
class PageList : Packed<T> {
 public:
  using Packed<T>::Packed, Packed<T>::memory, Packed<T>::size, Packed<T>::reserve,
      Packed<T>::resize;
  const T *begin() const noexcept { return Packed<T>::begin(); }
  const T *end() const noexcept { return Packed<T>::end(); }
  const T &operator[](size_t i) const noexcept { return Packed<T>::operator[](i); }
  T &edit(size_t i) noexcept { return Packed<T>::operator[](i); }
};

/// A region on one device.
struct Residence {
  Residence(uint8_t place_, std::pmr::memory_resource *memory) : pages(memory), place(place_) {}
  PageList<DevicePage> pages;
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
/// (page/region_pin.hpp) and the steps of its pages change it.
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
      : pages(memory), residences(memory), past(memory), id(id_) {}

  // What every small allocation looks at lies together.
  Geometry shape;
  PageList<Page> pages;
  Packed<Compact<Residence>> residences;
  Compact<Slab> tenants;  ///< slabs
  /// What has used it.
  struct Past {
    explicit Past(std::pmr::memory_resource *memory) : tombstones(memory) {}
    Packed<Tombstone> tombstones;
    uint64_t last_use = 0;
  } past;
  uint32_t id;
  /// Whose it is.
  struct Owner {
    uint32_t buffer = UINT32_MAX;  ///< none for a slab or a kept region
    uint32_t client = 0;
  } owner;
  uint8_t home = 0;  ///< position in the pool
  int8_t priority = 0;
  /// Its kind, what its owner has asked for, and the lists that it is in.
  struct Flags {
    bool slab = false;
    bool kept = false;    ///< no owner any more: its pages wait to be reused or dropped
    bool pinned = false;  ///< a slab of weir_malloc: what its tenants lie on is held
    bool stable = false;
    bool secret = false;         ///< WEIR_BUFFER_SCRUB: nothing of its bytes may stay behind
    bool cold = false;           ///< advised COLD, until the next use
    bool streaming = false;      ///< advised STREAMING
    bool listed = false;         ///< a kept one that may be taken over: in the list of its shape
    bool to_recompress = false;  ///< known to the recompressor
  } is;
  static constexpr uint8_t no_lot = UINT8_MAX;
  /// Where it begins and ends in granules that it shares.
  struct Layout {
    uint8_t lot_place = no_lot;  ///< of its lot; elsewhere fragments have granules to themselves
    /// Not 0: it shares granules, and no caller has been told its address yet, so its lot may still be exchanged
    /// (acquire/layouts.cpp). The value is 1 + log2 of the address's alignment.
    uint8_t unsettled = 0;
  } layout;
  codec::Form rounds = codec::Form::bytes;  ///< for floats in COMPRESSED; `bytes`: not at all
  /// What holds there are on it.
  struct Holds {
    uint32_t count = 0;
    uint8_t at = 0;  ///< where, if there are any; of a sharded region on all of its devices
    /// The bytes may change without anybody being told (a hold that writes, weir_malloc): nothing but the copy on `at`,
    /// or on a shard's device, counts as the latest. Not of a slab, whose pages are never brought to another device.
    bool to_write = false;
  } holds;
  PinCount pin_count;  ///< of threads working on it outside the lock, and of pages on the move
  uint64_t tag = 0;
  /// In the list of kept regions.
  struct Kept {
    uint64_t since = 0;  ///< the engine's look at what is idle, as its owner died
    uint32_t before = UINT32_MAX, after = UINT32_MAX;  ///< its neighbours, if is.listed
  } kept;
  /// What was learnt of its bytes, for each effort.
  struct Codecs {
    codec::CodecPlan quick;
    codec::CodecPlan dense;  ///< what recompression comes to
  } codec;
  Sharing::Lot lot;        ///< of shape.shared, on the device `layout.lot_place`
  Compact<Shards> shards;  ///< sharded over several devices
  /// Its bytes as the CPU sees them.
  struct HostMemory {
    unsigned char *registered = nullptr;  ///< the caller's own host memory (weir_host_register)
    unsigned char *alias = nullptr;       ///< contiguous CPU view of host slots (host leases)
    uint64_t alias_bytes = 0;
  } host;

  /// Whether a hold keeps its pages on the device.
  bool held_on(uint8_t place) const noexcept {
    return holds.count != 0 && (shards != nullptr || place == holds.at);
  }
  /// The one place of the page that may count as the latest, as a bit; 0: any.
  uint32_t only_latest(uint32_t page) const noexcept {
    if (!holds.to_write) return 0;
    return uint32_t{1} << (shards != nullptr ? shards->place_of(page) : holds.at);
  }
  std::pmr::memory_resource *memory() const noexcept { return pages.memory(); }
  /// A slab without tenants. Its pages have no owner, and it ends with the last of them.
  bool vacant() const noexcept { return is.slab && tenants->count == 0; }
  /// Whether the page has no owner: charged to no client, it waits to be reused or dropped.
  bool idle(uint32_t page) const noexcept {
    return is.kept || (is.slab && tenants->pages[page].tenants == 0);
  }
  /// Whether memory of weir_malloc keeps a slab's page where it is.
  bool pins(uint32_t page) const noexcept {
    return is.pinned && is.slab && tenants->pages[page].tenants != 0;
  }
  /// Whether that or a hold keeps the page on the device.
  bool held(uint32_t page, uint8_t place) const noexcept { return held_on(place) || pins(page); }
  /// It counts as used at the tick: what was used longer ago leaves first.
  void used_at(uint64_t tick) noexcept { past.last_use = std::max(past.last_use, tick); }
  /// Leased: what was advised COLD is so no more, unless it is STREAMING.
  void leased_at(uint64_t tick) noexcept {
    is.cold = is.streaming;
    used_at(tick);
  }
  /// One more, or one less, needs the page where it is (Page::leases).
  void count_lease(uint32_t page, int delta) noexcept {
    pages.edit(page).leases = static_cast<uint16_t>(pages[page].leases + delta);
  }
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
    if (owner.buffer != UINT32_MAX) visit(owner.buffer);
    if (!is.slab) return;
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

}  // namespace weir::page
