// SPDX-License-Identifier: Apache-2.0
//
// Layouts that are chosen anew.

#include "core/acquire/layouts.hpp"

#include "core/move/evictor.hpp"
#include "core/move/region_life.hpp"

#include <algorithm>

namespace weir::acquire {

bool Layouts::may_lay_anew(const Region &region) noexcept {
  if (region.layout.unsettled == 0 || region.pin_count.any() || region.holds.count != 0 ||
      region.is.kept || region.owner.buffer == page::BufferTable::none ||
      region.host.registered != nullptr || region.host.alias != nullptr ||
      region.residences.size() > 1)
    return false;
  const uint64_t word = page_.buffers.hot(region.owner.buffer).word.load(std::memory_order_relaxed);
  if (Word::leases(word) != 0 || (word & (Word::partial | Word::closing)) != 0) return false;
  const auto untouched = [](const Page &page) {
    return page.latest() == 0 && !page.host() && page.lower == tier::ColdTiers::none &&
           page.busy() == 0 && page.leases == 0;
  };
  const auto absent = [](const DevicePage &page) { return page.state() == PageState::absent; };
  return std::ranges::all_of(region.pages, untouched) &&
         std::ranges::all_of(region.residences, [&absent](const auto &r) {
           return std::ranges::all_of(r->pages, absent);
         });
}

void Layouts::lay_anew(Region &region) {
  PoolDevice &device = *page_.devices[region.home];
  const uint64_t size = region.shape.size;
  const page::Geometry alone = device.memory.shape(size);
  region.pages.reserve(std::max<size_t>(alone.pages() + size_t{1}, region.pages.size()));
  for (auto &r : region.residences) {
    if (r->range) device.memory.addresses().free(r->range);
  }
  region.residences.clear();
  life_.leave_lot(region);
  page::Sharing::Lot lot;
  try {
    const uint64_t alignment = uint64_t{1} << (region.layout.unsettled - 1U);
    page_.regions.reshape(
        region, device.memory.sharing()->place(region.owner.client, size, alignment, &lot));
  } catch (...) {
    page_.regions.reshape(region, alone);
    throw;
  }
  region.lot = lot;
  region.layout.lot_place = region.shape.shared ? region.home : Region::no_lot;
}

void Layouts::list_neighbours(PoolDevice &device, std::pmr::vector<PageRef> *pages) {
  page_.regions.for_each_kept([&](const Region &region) WEIR_HELD {
    if (!region.shape.shared) return false;
    if (region.layout.lot_place != device.place || region.pin_count.any()) return true;
    const uint32_t last = region.shape.pages() - 1;
    const auto crowded = [&](uint32_t page) WEIR_HELD {
      const page::Bundle *bundle = device.memory.bundle_of(region, page);
      return bundle != nullptr && bundle->users > 1;
    };
    if (!crowded(0) && !crowded(last)) return true;
    for (uint32_t p = 0; p <= last; ++p)
      pages->push_back(PageRef{region.id, p, page_.regions.generation(region)});
    return true;
  });
}

bool Layouts::opens_granule(const Region &region) noexcept {
  const PoolDevice &device = *page_.devices[region.home];
  for (const uint32_t p : {uint32_t{0}, region.shape.pages() - 1}) {
    const page::Bundle *bundle = device.memory.bundle_of(region, p);
    if (bundle != nullptr && bundle->granule == physical::no_granule) return true;
  }
  return false;
}

void Layouts::settle(Releasable &lock, move::Plan &plan) {
  if (plan.terms.quiet || plan.device == nullptr || plan.device->memory.sharing() == nullptr)
    return;
  PoolDevice &device = *plan.device;
  const auto each = [&](auto &&visit) WEIR_HELD {
    for (const move::PlanItem &item : plan.items) {
      if (!page_.buffers.hot(item.buffer).lives(item.generation)) continue;
      Region &region = *page_.buffers.target(item.buffer).region;
      if (region.layout.unsettled != 0 && region.home == device.place && opens_granule(region) &&
          may_lay_anew(region))
        visit(region);
    }
  };
  uint64_t bytes = 0;
  each([&bytes](const Region &region) { bytes += region.shape.physical_bytes(); });
  if (bytes == 0) return;
  // Not only when the last granule is gone: what is badly laid shortly before that stays so.
  constexpr uint64_t near = 16;
  if (bytes + device.memory.budget() / near > device.memory.room()) {
    std::pmr::vector<PageRef> neighbours(env_.memory);
    list_neighbours(device, &neighbours);
    Status why;
    if (!neighbours.empty()) (void)evictor_.evict(lock, device, neighbours, false, &why);
  }
  each([this](Region &region) WEIR_HELD { lay_anew(region); });
}

}  // namespace weir::acquire
