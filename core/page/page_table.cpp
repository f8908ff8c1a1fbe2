// SPDX-License-Identifier: Apache-2.0
//
// Pages on their devices.

#include "core/page/page_table.hpp"

#include "core/codec/checksum.hpp"

#include <utility>

namespace weir::page {

// ---- states ----

void PageTable::transition(Region &region, uint32_t page, PoolDevice &device, Step step) noexcept {
  Residence &here = *region.on(device.place);
  DevicePage &state = here.pages.edit(page);
  const Rule &rule = state.apply(step);
  const int came = static_cast<int>(rule.to != PageState::absent) -
                   static_cast<int>(rule.from != PageState::absent);
  here.resident += static_cast<uint32_t>(int32_t{rule.in_place});
  here.coming = (here.coming + static_cast<uint32_t>(came - rule.in_place)) & 0xffffffU;
  if (came != 0) page_.places.note(region, here);
  if (step == Step::begin_evict) state.wanted = false;
  if (rule.busy > 0) mark_busy(region, page, device);
  if (rule.busy < 0) end_work(region, page, device);
}

bool PageTable::note_waiter(Region &region, uint32_t page) noexcept {
  if (region.pages[page].busy() == 0) return false;
  for (auto &r : region.residences) r->pages.edit(page).wanted = true;
  return true;
}

// ---- fills ----

void PageTable::begin_fill(Region &region, uint32_t page, PoolDevice &device,
                           GranuleId granule) noexcept {
  DevicePage &state = region.on(device.place)->pages.edit(page);
  const bool fresh = state.state() == PageState::absent;
  if (fresh) {
    state.granule = granule;
    if (region.held(page, device.place) && !state.borrowed)
      device.memory.count_held(region, page, true);
  }
  transition(region, page, device, fresh ? Step::begin_fill : Step::begin_refill);
}

void PageTable::end_fill(Region &region, uint32_t page, PoolDevice &device, Stamp ready,
                         const uint16_t *mapped) noexcept {
  transition(region, page, device, mapped != nullptr ? Step::filled : Step::refilled);
  DevicePage &state = region.on(device.place)->pages.edit(page);
  state.ready = ready;
  if (mapped != nullptr) state.set_mapped(*mapped);
}

GranuleId PageTable::fail_fill(Region &region, uint32_t page, PoolDevice &device, bool fresh,
                               bool stuck) noexcept {
  transition(region, page, device,
             !fresh  ? Step::refill_failed
             : stuck ? Step::stuck
                     : Step::fill_failed);
  return fresh ? drop_granule(region, page, device) : physical::no_granule;
}

GranuleId PageTable::drop_granule(Region &region, uint32_t page, PoolDevice &device) noexcept {
  DevicePage &state = region.on(device.place)->pages.edit(page);
  if (region.held(page, device.place) && !state.borrowed)
    device.memory.count_held(region, page, false);  // or a hold on its slab came meanwhile
  const GranuleId granule = std::exchange(state.granule, physical::no_granule);
  device.memory.set_borrowed(region, page, false);
  return granule;
}

void PageTable::set_ready(Region &region, uint32_t first, uint32_t last, const PoolDevice &device,
                          Stamp ready) noexcept {
  Residence &here = *region.on(device.place);
  for (uint32_t p = first; p <= last; ++p) here.pages.edit(p).ready = ready;
}

// ---- a device's policy, and what leaves ----

void PageTable::lend(Region &region, uint32_t page, PoolDevice &to, bool fresh) noexcept {
  DevicePage &state = region.on(to.place)->pages.edit(page);
  state.visited = false;                 // what had used an older version there has ended
  if (!fresh && state.borrowed) return;  // listed already
  to.memory.set_borrowed(region, page, true);
  offer_borrowed(region, page, to);
}

void PageTable::give_back(Region &region, const PageRef &ref, PoolDevice &device) noexcept {
  region.on(device.place)->pages.edit(ref.page).queued =
      device.policy->give_back(ref, env_.ticks.advance(env_.ticks.now() + 1));
}

void PageTable::vacate(Region &region, uint32_t page, PoolDevice &device,
                       uint32_t granule_client) noexcept {
  if (region.is.slab) region.tenants->pages[page].told = false;  // the policy forgets it
  if (!region.idle(page)) uncharge(region, page, device.place);
  (void)device.memory.give(device.memory.bundle_of(region, page),
                           drop_granule(region, page, device), granule_client);
  idle_.watch(device);
  const uint64_t bytes = region.shape.charged_bytes(page);
  device.evictions.count(bytes);
  env_.events.tell({What::evicted, 0, device.place, region.id, page, bytes});
  left(region, page, device.bit());
  DevicePage &state = region.on(device.place)->pages.edit(page);
  state.ready = Stamp{};
  state.set_evicted(device.evictions.now());
}

void PageTable::vanish(Region &region, uint32_t page, PoolDevice &device) noexcept {
  transition(region, page, device, Step::vanished);
  vacate(region, page, device, physical::client_unknown);
}

void PageTable::offer_borrowed(Region &region, uint32_t page, PoolDevice &to) noexcept {
  try {
    to.policy->dispose(PageRef{region.id, page, page_.regions.generation(region)}, true);
    region.on(to.place)->pages.edit(page).queued = true;
  } catch (const std::bad_alloc &) {
    offer(region, page, to);
  }
}

void PageTable::keep_borrowed(Region &region, uint32_t page, PoolDevice &device) noexcept {
  if (!region.on(device.place)->pages[page].borrowed) return;
  device.memory.set_borrowed(region, page, false);
  offer(region, page, device);
}

bool PageTable::reads_directly(const PoolDevice &to, const Residence &from,
                               uint32_t page) const noexcept {
  if (!env_.config.routes.direct(from.place, to.place)) return false;
  return !page_.devices[from.place]->vmm() || from.pages[page].mapped() >= to.joined();
}

void PageTable::offer(Region &region, uint32_t page, PoolDevice &device) noexcept {
  DevicePage &state = region.on(device.place)->pages.edit(page);
  try {
    device.policy->admit(PageRef{region.id, page, page_.regions.generation(region)},
                         env_.ticks.advance(env_.ticks.now() + 1));
    state.queued = true;
  } catch (const std::bad_alloc &) {
    state.queued = false;
  }
}

void PageTable::forsake(Region &region, uint32_t page) noexcept {
  page_.tiers.end_version(region, page);
  page_.tiers.free_host(region, page);
  page_.places.note(region, region.pages.edit(page).forsake());
}

void PageTable::forsake_copy(Region &region, uint32_t page, uint32_t bit) noexcept {
  const Page &copies = region.pages[page];
  if ((copies.latest() & ~bit) == 0 || (copies.latest() & bit) == 0 || copies.sinking) return;
  page_.tiers.leave(region, page, bit);
}

Status fail_corrupt(uint32_t use, uint32_t page, uint32_t bit) noexcept {
  using Tier = std::pair<uint32_t, const char *>;
  const auto [tier, name] = bit == host_bit         ? Tier{WEIR_TIER_HOST, "HOST"}
                            : bit == compressed_bit ? Tier{WEIR_TIER_COMPRESSED, "COMPRESSED"}
                                                    : Tier{WEIR_TIER_STORAGE, "STORAGE"};
  return fail(WEIR_ERROR_CORRUPT, {.tier = tier, .use_index = use},
              "uses[%u]: the bytes of page %u in %s are not those that were demoted", use, page,
              name);
}

Status PageTable::verify_host(Region &region, uint32_t page, uint32_t use) {
  const Page &copies = region.pages[page];
  const uint64_t sum = page_.tiers.checksum(copies);
  if (!page_.tiers.sums_host(region) || sum == 0 || !copies.host()) return {};
  if (codec::checksum_of(page_.tiers.host_bytes(region, page), region.shape.used_bytes(page)) ==
      sum)
    return {};
  env_.events.tell({What::corrupt, 0, Event::nowhere, region.id, page});
  env_.sync.lock.note(WEIR_LOG_ERROR, "a page of a buffer%s has been changed in HOST%s",
                      page_.buffers.quoted(region.owner.buffer).c_str(),
                      (copies.latest() & ~host_bit) == 0 ? "" : ": it is read from elsewhere");
  if ((copies.latest() & ~host_bit) == 0) return fail_corrupt(use, page, host_bit);
  forsake_copy(region, page, host_bit);
  return {};
}

}  // namespace weir::page
