// SPDX-License-Identifier: Apache-2.0
//
// Pages on their devices.

#include "core/residency/page_table.hpp"

#include "core/tier/checksum.hpp"

#include <utility>

namespace weir::residency {

void PageTable::give_back(Region &region, const PageRef &ref, PoolDevice &device) noexcept {
  region.on(device.place)->pages[ref.page].queued =
      device.policy->give_back(ref, env_.ticks.advance(env_.ticks.now() + 1));
}

void PageTable::vacate(Region &region, uint32_t page, PoolDevice &device,
                       uint32_t granule_client) noexcept {
  Residence &here = *region.on(device.place);
  DevicePage &state = here.pages[page];
  device.memory.set_borrowed(region, page, false);
  if (region.slab) region.tenants->pages[page].told = false;  // the policy forgets it
  if (!region.idle(page)) uncharge(region, page, device.place);
  if (region.held(page, device.place))
    device.memory.count_held(region, page, false);  // a hold on its slab that came meanwhile
  (void)device.memory.give(device.memory.bundle_of(region, page), state.granule, granule_client);
  idle_.watch(device);
  const uint64_t bytes = region.shape.charged_bytes(page);
  device.evictions.count(bytes);
  env_.events.tell({What::evicted, 0, device.place, region.id, page, bytes});
  page_.places.note(region, region.pages[page].left(device.bit()));
  state.granule = physical::no_granule;
  state.ready = Stamp{};
  state.set_evicted(device.evictions.now());
}

void PageTable::vanish(Region &region, uint32_t page, PoolDevice &device) noexcept {
  step(region, page, device, page_.places, Step::vanished);
  vacate(region, page, device, physical::client_unknown);
}

void PageTable::offer_borrowed(Region &region, uint32_t page, PoolDevice &to) noexcept {
  try {
    to.policy->dispose(PageRef{region.id, page, page_.regions.generation(region)});
    region.on(to.place)->pages[page].queued = true;
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
  DevicePage &state = region.on(device.place)->pages[page];
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
  page_.places.note(region, region.pages[page].forsake());
}

void PageTable::forsake_copy(Region &region, uint32_t page, uint32_t bit) noexcept {
  const Page &copies = region.pages[page];
  if ((copies.latest() & ~bit) == 0 || (copies.latest() & bit) == 0 || copies.sinking) return;
  page_.tiers.leave(region, page, bit);
}

void PageTable::refresh_word(uint32_t index, Region &region, uint64_t base,
                             uint64_t size) noexcept {
  uint64_t set = 0, clear = 0;
  bool pending = lease_.history.pending(index);
  Residence *home = region.on(region.home);
  // A device that is to leave takes no hits: what is left of it must not be leased again. Nor do several devices at once.
  bool resident =
      home != nullptr && region.shards == nullptr && !page_.devices[region.home]->leaving();
  bool sole = resident;
  const uint32_t bit = uint32_t{1} << region.home;
  const uint32_t last = region.shape.page_at(base + size - 1);
  for (uint32_t p = region.shape.page_at(base); resident && p <= last; ++p) {
    DevicePage &state = home->pages[p];
    const Page &copies = region.pages[p];
    // Busy: another device is being filled from it, so writers must come the slow way.
    // So must whoever makes a borrowed page his own.
    resident = state.state() == PageState::resident && copies.busy == 0 &&
               (copies.latest() & bit) != 0 && !state.borrowed;
    sole = sole && copies.latest() == bit;
    if (state.ready && env_.streams.passed(state.ready)) state.ready = Stamp{};
    pending = pending || state.ready;
  }
  vm::Hot &hot = page_.buffers.hot(index);
  const uint64_t word = hot.word.load(std::memory_order_relaxed);
  if ((word & Word::virgin) != 0) resident = false;
  if (const page::Hold *hold = page_.buffers.hold_of(index)) {
    resident = resident && hold->kind != page::HoldKind::alone;
    sole = sole && hold->kind != page::HoldKind::read;
  }
  (resident ? set : clear) |= Word::resident;
  (resident && sole ? set : clear) |= Word::sole;
  (pending ? set : clear) |= Word::history;
  // Where the hit path is open already the address is the same, and being read.
  const uint64_t address = resident ? address_of(region, *home) + base : hot.address;
  if (hot.address != address) hot.address = address;
  page_.buffers.hot(index).set_flags(set, clear);
}

void PageTable::close_at_home(uint8_t place) noexcept {
  for (Region &region : page::Walk(page_.places, page::PlaceIndex::home(place), page_.regions)) {
    region.for_each_buffer([this](uint32_t index) {
      if ((page_.buffers.hot(index).word.load(std::memory_order_relaxed) & Word::alive) != 0)
        page_.buffers.hot(index).set_flags(0, Word::resident);
    });
  }
}

Status fail_corrupt(uint32_t use, uint32_t page, uint32_t bit) noexcept {
  using Tier = std::pair<uint32_t, const char *>;
  const auto [tier, name] = bit == vm::host_bit         ? Tier{WEIR_TIER_HOST, "HOST"}
                            : bit == vm::compressed_bit ? Tier{WEIR_TIER_COMPRESSED, "COMPRESSED"}
                                                        : Tier{WEIR_TIER_STORAGE, "STORAGE"};
  return fail(WEIR_ERROR_CORRUPT, {.tier = tier, .use_index = use},
              "uses[%u]: the bytes of page %u in %s are not those that were demoted", use, page,
              name);
}

Status PageTable::verify_host(Region &region, uint32_t page, uint32_t use) {
  const Page &copies = region.pages[page];
  const uint64_t sum = page_.tiers.checksum(copies);
  if (!page_.tiers.sums_host(region) || sum == 0 || !copies.host()) return {};
  if (tier::checksum_of(page_.tiers.host_bytes(region, page), region.shape.used_bytes(page)) == sum)
    return {};
  env_.events.tell({What::corrupt, 0, Event::nowhere, region.id, page});
  if ((copies.latest() & ~vm::host_bit) == 0) return fail_corrupt(use, page, vm::host_bit);
  forsake_copy(region, page, vm::host_bit);
  return {};
}

}  // namespace weir::residency
