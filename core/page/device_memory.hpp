// SPDX-License-Identifier: Apache-2.0
//
// DeviceMemory: what pages have of one device's physical memory: granules (extents, where there is no virtual memory), addresses,
// and who shares them. A page has a granule of its own or a fragment, a part of one in which other regions have theirs
// (page/sharing.hpp).
//
// What must hold: a shared granule comes with its first fragment, goes with the last and counts once. Held are those granules in
// which a page lies that is held and not borrowed. It never makes room. Guarded by the pool's lock, but for what says otherwise.
#pragma once

#include "core/base/pool_lock.hpp"
#include "core/page/region.hpp"
#include "core/physical/granule_pool.hpp"
#include "core/physical/mapper.hpp"

namespace weir::page {

class RegionStore;

using physical::GranuleId;

/// Of the region's first byte on a device.
inline uint64_t address_of(const Region &region, const Residence &here) noexcept {
  return here.range.address + region.shape.address_padding() + region.shape.lead;
}
/// Where a page's granule is mapped (with VMM).
inline uint64_t granule_address(const Region &region, const Residence &here,
                                uint32_t page) noexcept {
  return address_of(region, here) + region.shape.offset(page) - region.shape.before(page);
}

class DeviceMemory {
 public:
  struct Terms {
    uint64_t page_size = 0, large_page_size = 0;
    uint64_t budget = 0;
    uint64_t segment_size = 0;
    uint64_t addresses = 0;                          ///< bytes of them that may come to be used
    uint32_t watermark_low = 0, watermark_high = 0;  ///< thousandths of the budget
  };

  DeviceMemory(uint8_t place, const backend::Device &device, const Terms &terms,
               std::pmr::memory_resource *memory);

  physical::GranulePool &granules() noexcept { return granules_; }
  const physical::GranulePool &granules() const noexcept { return granules_; }
  AddressSpace &addresses() noexcept { return addresses_; }
  physical::Mapper &mapper() noexcept { return mapper_; }
  /// nullptr: granules can't be shared there.
  Sharing *sharing() const noexcept { return sharing_.get(); }

  bool vmm() const noexcept { return granules_.vmm(); }
  uint64_t page_size() const noexcept { return terms_.page_size; }
  uint64_t large_page_size() const noexcept { return terms_.large_page_size; }
  uint64_t budget() const { return granules_.budget(); }
  uint64_t room() const { return granules_.room(); }
  physical::Granule &at(GranuleId id) noexcept { return granules_.at(id); }
  /// Bytes in use: pages, plans that have claimed and not yet filled, memory that copies pass.
  uint64_t in_use() const WEIR_HELD {
    return granules_.held() - std::min(granules_.held(), granules_.idle() + stuck_bytes_);
  }

  /// Of free memory: the background makes some below the low one, until there is as much as the high one.
  uint64_t low_water() const noexcept { return terms_.budget / 1000 * terms_.watermark_low; }
  uint64_t high_water() const noexcept { return terms_.budget / 1000 * terms_.watermark_high; }
  /// Room that a neighbour may have, whom the background makes none for.
  uint64_t spare() const { return room() - std::min(room(), high_water()); }
  /// Another budget, for a device that has come back.
  void set_budget(uint64_t bytes) noexcept WEIR_HELD {
    granules_.set_budget(bytes);
    terms_.budget = bytes;
  }

  // ---- shapes ----
  /// Of a region that shares nothing.
  Geometry shape(uint64_t size) const noexcept {
    return vmm() ? Geometry::paged(size, page_size(), large_page_size()) : Geometry::whole(size);
  }
  /// Pages of the small class; without VMM an extent as large as one.
  Geometry small_pages(uint64_t count) const noexcept {
    return vmm() ? Geometry::paged(page_size() * count, page_size(), 0)
                 : Geometry::whole(page_size());
  }
  /// How many pages a slab of weir_malloc has (acquire/slabs.hpp).
  uint64_t line_pages() const { return std::clamp<uint64_t>(budget() / page_size(), 4, 64); }
  bool belongs_in_line(uint64_t size) const;

  // ---- addresses ----
  /// For a region that comes to the device: its lot's, or a range of its own.
  Status reserve(const Region &region, AddressRange *range) WEIR_HELD;
  /// Outside the lock. Through `shared` where that maps a page's granule for all that have a part of it.
  Status map(uint64_t address, uint64_t bytes, weir_be_granule granule,
             physical::SharedMapping *shared, uint16_t *generation) {
    return shared != nullptr ? shared->map(mapper_, address, bytes, granule, generation)
                             : mapper_.map(address, bytes, granule, generation);
  }
  /// Outside the lock. Nothing of the page is mapped any more that others do not need.
  Status unmap(uint64_t address, uint64_t bytes, physical::SharedMapping *shared) {
    if (!vmm()) return {};
    return shared != nullptr ? shared->unmap(mapper_, address, bytes)
                             : mapper_.unmap(address, bytes);
  }
  /// Of a page that has a granule there.
  uint64_t page_address(const Region &region, const Residence &here, uint32_t page) noexcept {
    return vmm() ? address_of(region, here) + region.shape.offset(page)
                 : at(here.pages[page].granule).place;
  }

  // ---- granules and fragments ----
  /// What the page shares its granule through; nullptr if the granule is its own.
  Bundle *bundle_of(const Region &region, uint32_t page) const noexcept WEIR_HELD {
    if (place_ != region.layout.lot_place || !region.shape.fragment(page)) return nullptr;
    return &sharing_->bundle(region.owner.client, region.lot, page < region.shape.front);
  }
  /// What maps the page's granule for all that have a part of it; nullptr: the page has addresses of its own.
  physical::SharedMapping *mapping_of(const Region &region,
                                      uint32_t page) const noexcept WEIR_HELD {
    const Bundle *bundle = bundle_of(region, page);
    return bundle != nullptr ? bundle->mapping.get() : nullptr;
  }
  /// A granule for a page; its client has been charged for it. NOT_READY: another than `maker` is making it. no_granule with
  /// success: there is no room. *joined is set where others have parts of it. Throws std::bad_alloc with nothing changed.
  Status claim(const Region &region, uint32_t page, const void *maker, physical::DoomedList *doomed,
               GranuleId *granule, bool *joined) WEIR_HELD;
  /// Of a granule that was claimed and not written to yet: whether another client's bytes may be anywhere in it. False: at most
  /// the *ends are, which only extents have.
  bool foreign(GranuleId granule, uint32_t client,
               physical::Segments::Foreign *ends) const noexcept WEIR_HELD {
    if (vmm()) return granules_.at(granule).client() != client;
    const auto found = granules_.foreign(granules_.at(granule), client);
    if (!found.all) *ends = found;
    return found.all;
  }
  /// It was claimed, and the page does not come.
  void unclaim(const Region &region, uint32_t page, GranuleId granule) noexcept WEIR_HELD;
  /// The page has come into place: who shares its granule need not wait any longer, but for its memory to be zeroed.
  void end_making(const Region &region, uint32_t page, backend::Stamp wiped) noexcept WEIR_HELD {
    Bundle *bundle = bundle_of(region, page);
    if (bundle == nullptr) return;
    bundle->maker = nullptr;
    if (wiped) bundle->wiped = wiped;
  }
  /// The page does not need its granule any more. False: others do.
  bool leave(const Region &region, uint32_t page) noexcept WEIR_HELD {
    return leave(bundle_of(region, page));
  }
  /// The same of a page's bundle, or none; if nobody does the granule is free, with bytes of `client` in it.
  bool give(Bundle *bundle, GranuleId granule, uint32_t client) noexcept WEIR_HELD {
    if (!leave(bundle)) return false;
    at(granule).set_client(client);
    granules_.release(granule);
    return true;
  }

  // ---- counts ----
  /// Starts a count in which a shared granule counts once.
  void begin_count() noexcept WEIR_HELD {
    if (sharing_ != nullptr) sharing_->begin_count();
  }
  /// Bytes of the page's granule, or 0 if it was counted since begin_count().
  uint64_t count_granule(const Region &region, uint32_t page) noexcept WEIR_HELD {
    Bundle *bundle = bundle_of(region, page);
    return bundle != nullptr && sharing_->counted(*bundle) ? 0 : region.shape.granule_bytes(page);
  }
  /// The page's granule is held from now on, or is held no more by it.
  void count_held(const Region &region, uint32_t page, bool more) noexcept WEIR_HELD;
  /// The same of all that the region has there.
  void count_held(const Region &region, const Residence &here, bool more) noexcept WEIR_HELD {
    // A page is never held where it is borrowed.
    for (uint32_t p = 0; p < here.pages.size(); ++p) {
      const DevicePage &page = here.pages[p];
      if (page.granule != physical::no_granule && !page.borrowed) count_held(region, p, more);
    }
  }
  void set_borrowed(Region &region, uint32_t page, bool borrowed) noexcept WEIR_HELD;
  /// It could not be unmapped: it stays charged, and no page owns it.
  void note_stuck(uint64_t bytes) noexcept WEIR_HELD { stuck_bytes_ += bytes; }
  /// Given back to the system without being asked for.
  void note_returned(uint64_t bytes) noexcept WEIR_HELD { returned_bytes_ += bytes; }
  uint64_t held_bytes() const noexcept WEIR_HELD { return held_bytes_; }
  /// What pages at home elsewhere take.
  uint64_t borrowed_bytes() const noexcept WEIR_HELD { return borrowed_bytes_; }
  uint64_t returned_bytes() const noexcept WEIR_HELD { return returned_bytes_; }

  /// "" or what is wrong, of all regions that there are; for tests.
  std::string validate(RegionStore &regions, bool lost) WEIR_HELD;

 private:
  static bool leave(Bundle *bundle) noexcept {
    if (bundle == nullptr) return true;
    if (--bundle->users != 0) return false;
    bundle->granule = physical::no_granule;
    bundle->maker = nullptr;
    bundle->wiped = backend::Stamp{};
    return true;
  }

  const uint8_t place_;
  const backend::Device &device_;
  Terms terms_;
  physical::GranulePool granules_;
  AddressSpace addresses_;
  Owned<Sharing> sharing_;  ///< where granules can be shared
  physical::Mapper mapper_;
  uint64_t held_bytes_ WEIR_GUARDED = 0;
  uint64_t borrowed_bytes_ WEIR_GUARDED = 0;
  uint64_t returned_bytes_ WEIR_GUARDED = 0;
  uint64_t stuck_bytes_ WEIR_GUARDED = 0;  ///< charged, owned by no page
};

}  // namespace weir::page
