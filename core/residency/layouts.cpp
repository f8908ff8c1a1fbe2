// SPDX-License-Identifier: Apache-2.0
//
// Layouts: where a region that shares granules begins and ends in them, looked at once more before anybody is told. A lot is
// chosen when a buffer is made, and by then the room that fits best may be a dead buffer's, whose memory is kept for the next of
// its size. While there is memory enough that does not matter; where there is not, each such choice opens a granule too many, and
// holds it for as long as the buffer lives. So when a region is first to be brought in, would open one, and memory is nearly used
// up, dead buffers that lie beside others go, and the lot is chosen anew. From then on it holds for the region's life, as its
// address does.

#include "core/residency/plan.hpp"

#include <algorithm>

namespace weir::residency {

/// Whether nothing of it is or was in place anywhere, and nobody is at work on it: it has no address that anybody knows.
bool Engine::may_lay_anew(const Region &region) noexcept {
  if (region.unsettled == 0 || region.pin_count.any() || region.holds != 0 || region.kept ||
      region.buffer == vm::BufferTable::none || region.registered != nullptr ||
      region.alias != nullptr || region.residences.size() > 1)
    return false;
  const uint64_t word = buffers_.hot(region.buffer).word.load(std::memory_order_relaxed);
  if (Word::leases(word) != 0 || (word & (Word::partial | Word::closing)) != 0) return false;
  const auto untouched = [](const Page &page) {
    return page.latest() == 0 && !page.host() && page.lower == tier::ColdTiers::none &&
           page.busy == 0 && page.leases == 0;
  };
  const auto absent = [](const DevicePage &page) { return page.state() == PageState::absent; };
  return std::ranges::all_of(region.pages, untouched) &&
         std::ranges::all_of(region.residences, [&absent](const auto &r) {
           return std::ranges::all_of(r->pages, absent);
         });
}

/// Another lot, or the same. It has no addresses afterwards: who needs them makes them (residence()). Throws std::bad_alloc with
/// nothing changed, or with a region that shares nothing.
void Engine::lay_anew(Region &region) {
  PoolDevice &device = device_at(region.home);
  const uint64_t size = region.shape.size;
  const vm::Geometry alone = device.memory.shape(size);
  region.pages.reserve(std::max<size_t>(alone.pages() + size_t{1}, region.pages.size()));
  for (auto &r : region.residences) {
    if (r->range) device.memory.addresses().free(r->range);
  }
  region.residences.clear();
  leave_lot(region);
  vm::Sharing::Lot lot;
  try {
    const uint64_t alignment = uint64_t{1} << (region.unsettled - 1U);
    regions_.reshape(region, device.memory.sharing()->place(region.client, size, alignment, &lot));
  } catch (...) {
    regions_.reshape(region, alone);
    throw;
  }
  region.lot = lot;
  region.lot_place = region.shape.shared ? region.home : Region::no_lot;
}

/// Pages of dead regions that have a part of a granule in which others lie.
void Engine::list_neighbours(PoolDevice &device, std::pmr::vector<PageRef> *pages) {
  regions_.for_each_kept([&](const Region &region) WEIR_HELD {
    if (!region.shape.shared) return false;
    if (region.lot_place != device.place || region.pin_count.any()) return true;
    const uint32_t last = region.shape.pages() - 1;
    const auto crowded = [&](uint32_t page) WEIR_HELD {
      const vm::Bundle *bundle = device.memory.bundle_of(region, page);
      return bundle != nullptr && bundle->users > 1;
    };
    if (!crowded(0) && !crowded(last)) return true;
    for (uint32_t p = 0; p <= last; ++p)
      pages->push_back(PageRef{region.id, p, regions_.generation(region)});
    return true;
  });
}

/// Whether it would have a granule for a part of a page that nobody else has in place.
bool Engine::opens_granule(const Region &region) noexcept {
  const PoolDevice &device = device_at(region.home);
  for (const uint32_t p : {uint32_t{0}, region.shape.pages() - 1}) {
    const vm::Bundle *bundle = device.memory.bundle_of(region, p);
    if (bundle != nullptr && bundle->granule == physical::no_granule) return true;
  }
  return false;
}

/// Before a set's regions are brought in: those that nobody has used yet and that would open granules. May drop the lock.
void Engine::settle_layouts(Releasable &lock, Plan &plan) {
  if (plan.quiet || plan.device == nullptr || plan.device->memory.sharing() == nullptr) return;
  PoolDevice &device = *plan.device;
  const auto each = [&](auto &&visit) WEIR_HELD {
    for (const PlanItem &item : plan.items) {
      if (!buffers_.hot(item.buffer).lives(item.generation)) continue;
      Region &region = *buffers_.target(item.buffer).region;
      if (region.unsettled != 0 && region.home == device.place && opens_granule(region) &&
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
    std::pmr::vector<PageRef> neighbours(&memory_);
    list_neighbours(device, &neighbours);
    Status why;
    if (!neighbours.empty()) (void)evict(lock, device, neighbours, false, &why);
  }
  each([this](Region &region) WEIR_HELD { lay_anew(region); });
}

}  // namespace weir::residency
