// SPDX-License-Identifier: Apache-2.0
//
// Fragments: pages that have only a part of their granule (virtual/sharing.hpp). The granule comes with the first of its
// fragments and goes with the last one; every other page has a granule of its own. What is counted in granules counts a
// shared one once, however many of its fragments are meant. All under the pool's lock.

#include "core/residency/plan.hpp"

namespace weir::residency {

/// What the page shares its granule through; nullptr if the granule is its own.
vm::Bundle *Engine::bundle_of(const Region &region, uint32_t page,
                              const PoolDevice &device) noexcept {
  if (device.place != region.lot_place || !region.shape.fragment(page)) return nullptr;
  return &device.sharing->bundle(region.client, region.lot, page < region.shape.front);
}

/// What maps the page's granule for all that have a part of it; nullptr: the page has addresses of its own.
physical::SharedMapping *Engine::mapping_of(const Region &region, uint32_t page,
                                            const PoolDevice &device) noexcept {
  vm::Bundle *bundle = bundle_of(region, page, device);
  return bundle != nullptr ? bundle->mapping.get() : nullptr;
}

/// Outside the lock. Nothing of the page is mapped any more that others do not need.
Status Engine::unmap_page(PoolDevice &device, uint64_t address, uint64_t bytes,
                          physical::SharedMapping *shared) {
  return shared != nullptr ? shared->unmap(*device.mapper, address, bytes)
                           : device.mapper->unmap(address, bytes);
}

/// Bytes of the page's granule, or 0 if it was counted since Sharing::begin_count.
uint64_t Engine::count_granule(const Region &region, uint32_t page, PoolDevice &device) noexcept {
  vm::Bundle *bundle = bundle_of(region, page, device);
  if (bundle != nullptr && device.sharing->counted(*bundle)) return 0;
  return region.shape.granule_bytes(page);
}

void Engine::begin_count(PoolDevice &device) noexcept {
  if (device.sharing != nullptr) device.sharing->begin_count();
}

/// What the set needs in granules, all in all and of such as are not there, and what of it is held already. *busy: somebody
/// else is making one of them.
void Engine::count_need(Plan &plan, bool *busy) noexcept {
  plan.set_bytes = plan.need_bytes = plan.held_in_set = 0;
  begin_count(*plan.device);
  for (const PlanPage &page : plan.pages) {
    const vm::Bundle *bundle = bundle_of(*page.region, page.page, *plan.device);
    const uint64_t bytes = count_granule(*page.region, page.page, *plan.device);
    const bool held = bundle != nullptr
                          ? bundle->held != 0
                          : page.region->held(page.page, plan.place()) && !page.absent;
    plan.set_bytes += bytes;
    if (held) plan.held_in_set += bytes;
    if (page.absent && (bundle == nullptr || bundle->granule == physical::no_granule))
      plan.need_bytes += bytes;
    *busy = *busy || (bundle != nullptr && bundle->maker != nullptr);
  }
}

/// A granule for one page of the plan; the client has been charged for it. NOT_READY: another plan is making it.
/// no_granule with success: there is no room. Throws std::bad_alloc with nothing changed.
Status Engine::claim_granule(Plan &plan, PlanPage &page) {
  PoolDevice &device = *plan.device;
  vm::Bundle *bundle = bundle_of(*page.region, page.page, device);
  if (bundle != nullptr && bundle->granule != physical::no_granule) {
    if (bundle->maker != nullptr && bundle->maker != &plan) return Status(WEIR_NOT_READY);
    ++bundle->users;
    page.granule = bundle->granule;
    page.joined = true;
    return {};
  }
  page.granule =
      device.granules->claim(page.region->shape.page_class(page.page), page.bytes, &plan.doomed);
  if (bundle == nullptr || page.granule == physical::no_granule) return {};
  bundle->granule = page.granule;
  bundle->users = 1;
  bundle->maker = &plan;
  return {};
}

/// The page does not need its granule any more. False: others do.
bool Engine::leave_granule(const Region &region, uint32_t page, PoolDevice &device) noexcept {
  vm::Bundle *bundle = bundle_of(region, page, device);
  if (bundle == nullptr) return true;
  if (--bundle->users != 0) return false;
  bundle->granule = physical::no_granule;
  bundle->maker = nullptr;
  bundle->wiped = Stamp{};
  return true;
}

/// The page has come into place: who shares its granule need not wait any longer, but for its memory to be zeroed.
void Engine::end_making(const Region &region, uint32_t page, PoolDevice &device,
                        Stamp wiped) noexcept {
  vm::Bundle *bundle = bundle_of(region, page, device);
  if (bundle == nullptr) return;
  bundle->maker = nullptr;
  if (wiped) bundle->wiped = wiped;
}

/// The page's granule is held from now on, or is held no more by it.
void Engine::count_held(const Region &region, uint32_t page, PoolDevice &device,
                        bool more) noexcept {
  const uint64_t bytes = region.shape.granule_bytes(page);
  if (vm::Bundle *bundle = bundle_of(region, page, device); bundle != nullptr) {
    if (more ? bundle->held++ != 0 : --bundle->held != 0) return;
  }
  device.held_bytes += more ? bytes : uint64_t{0} - bytes;
}

void Engine::count_held(const Region &region, const Residence &residence, bool more) noexcept {
  for (uint32_t p = 0; p < residence.pages.size(); ++p) {
    // A page is never held where it is borrowed.
    if (residence.pages[p].granule != physical::no_granule && !residence.pages[p].borrowed)
      count_held(region, p, device_at(residence.place), more);
  }
}

}  // namespace weir::residency
