// SPDX-License-Identifier: Apache-2.0
//
// The life of regions.

#include "core/move/region_life.hpp"

#include "core/base/grow.hpp"

#include <algorithm>
#include <cassert>

namespace weir::move {

Region &RegionLife::make(const page::Geometry &shape, uint8_t home, uint32_t client,
                         const page::Sharing::Lot &lot) {
  try {
    page_.places.reserve(page_.regions.ids() + size_t{1});
    Region &fresh = page_.regions.make(shape, home, client);
    page_.places.settle(fresh, home);
    fresh.lot = lot;
    fresh.layout.lot_place = shape.shared ? home : Region::no_lot;
    return fresh;
  } catch (...) {
    if (shape.shared) page_.devices[home]->memory.sharing()->leave(client, lot);
    throw;
  }
}

Status RegionLife::make_at_home(const page::Geometry &shape, uint8_t home, uint32_t client,
                                Region **region, const page::Sharing::Lot &lot) {
  Region &fresh = make(shape, home, client, lot);
  WEIR_TRY(or_undo([&]() WEIR_HELD { return make_residence(fresh, *page_.devices[home]); },
                   [&]() WEIR_HELD { free(fresh); }));
  *region = &fresh;
  return {};
}

Status RegionLife::make_residence(Region &region, PoolDevice &device) {
  if (region.on(device.place) != nullptr) return {};
  // The first has been counted with the buffer.
  if (!region.residences.empty())
    WEIR_TRY(sizes_.room_for_records("a copy on another device", region.shape.size,
                                     region.shape.pages(), 1));
  region.residences.reserve(region.residences.size() + 1);  // one for each device at most
  Compact<Residence> fresh = make_owned<Residence>(env_.memory, device.place, env_.memory);
  fresh->pages.resize(region.shape.pages());
  WEIR_TRY(device.memory.reserve(region, &fresh->range));
  region.residences.push_back(std::move(fresh));
  return {};
}

void RegionLife::leave_lot(Region &region) noexcept {
  if (region.layout.lot_place == Region::no_lot) return;
  page_.devices[region.layout.lot_place]->memory.sharing()->leave(region.owner.client, region.lot);
  region.layout.lot_place = Region::no_lot;
}

void RegionLife::free(Region &region) noexcept {
  page::Aliases::drop(region);
  for (auto &r : region.residences) {
    if (r->range) page_.devices[r->place]->memory.addresses().free(r->range);
  }
  // Where something of a lost device is still mapped nothing else ever is.
  if (region.shards != nullptr && !region.shards->stranded)
    page_.devices[region.shards->range_place]->memory.addresses().free(region.shards->range);
  leave_lot(region);
  prefetcher_.forget_region(region);
  page_.places.forget(region);
  page_.regions.free(region);
}

void RegionLife::keep_or_free(Region &region) noexcept {
  page::Aliases::drop(region);
  region.host.registered = nullptr;
  prefetcher_.forget_region(region);
  region.owner.buffer = page::BufferTable::none;
  region.is.cold = region.is.streaming = false;
  region.tag = 0;
  uint32_t resident = 0;
  for (uint32_t p = 0; p < region.pages.size(); ++p) page_.tiers.discard(region, p);
  for (auto &r : region.residences) {
    PoolDevice &device = *page_.devices[r->place];
    for (uint32_t p = 0; p < r->pages.size(); ++p) {
      if (r->pages[p].state() == PageState::absent || r->pages[p].state() == PageState::filling)
        continue;
      ++resident;
      pages_.uncharge(region, p, r->place);
      // If not, it is among the policy's pages already; it only goes a little later.
      const PageRef ref{region.id, p, page_.regions.generation(region)};
      if_memory([&]() WEIR_HELD { device.policy->dispose(ref, false); });
    }
  }
  region.is.kept = true;
  region.kept.since = idle_.looks();
  if (resident != 0) idle_.watch();
  const bool whole = region.shards == nullptr && region.residences.size() == 1 &&
                     region.residences[0]->place == region.home &&
                     region.residences[0]->resident == region.pages.size();
  if (whole && !region.is.secret) page_.regions.list_kept(region);
  retire_region(region);
}

void RegionLife::retire_region(Region &region) noexcept {
  if (!page::RegionStore::ended(region)) return;
  assert(std::all_of(region.pages.begin(), region.pages.end(), [](const Page &page) {
    return !page.host() && page.lower == tier::ColdTiers::none;
  }));
  if (region.is.slab) page_.slabs.close(region);
  free(region);
}

Region *RegionLife::adopt_kept(const page::Geometry &shape, uint64_t alignment, uint8_t home,
                               uint32_t client) {
  Region *region = page_.regions.find_kept(shape, alignment, home, client);
  if (region == nullptr) return nullptr;
  Charge charge = page_.accounts.charge(client, home, region->shape.charged_bytes());
  if (!charge) return nullptr;
  charge.absorb();
  page_.regions.adopt(*region, shape.size);
  return region;
}

void RegionLife::free_place(Region &region, uint32_t node) noexcept {
  const uint64_t begin = region.tenants->offset(node);
  const uint32_t last = region.shape.page_at(begin + region.tenants->size(node) - 1);
  page_.slabs.vacate(region, node, idle_.looks());
  Residence *here = region.on(region.home);
  bool idle = false;
  for (uint32_t p = region.shape.page_at(begin); p <= last; ++p) {
    if (!region.idle(p)) continue;
    page_.tiers.forget_idle(region, p);
    if (here == nullptr || here->pages[p].granule == physical::no_granule) continue;
    PoolDevice &device = *page_.devices[region.home];
    if (region.is.pinned) device.memory.count_held(region, p, false);
    if (here->pages[p].state() == PageState::filling) continue;  // Filler::settle() refunds
    pages_.uncharge(region, p, region.home);
    idle = true;
    bool &told = region.tenants->pages[p].told;
    if (told) continue;
    // If not, it is among the policy's pages already; it only goes a little later.
    const PageRef ref{region.id, p, page_.regions.generation(region)};
    told = if_memory([&]() WEIR_HELD { device.policy->dispose(ref, false); });
  }
  if (idle) idle_.watch();
  retire_region(region);
}

}  // namespace weir::move
