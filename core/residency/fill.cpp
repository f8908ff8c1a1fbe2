// SPDX-License-Identifier: Apache-2.0
//
// Fill: granules become pages with the right bytes in them. Marked under the lock, done outside of it,
// settled under it again. Until it is settled nothing but this plan touches the pages; if any step fails they
// are as absent (or as stale) as before and every older copy is still the latest.

#include "core/residency/plan.hpp"
#include "core/tier/checksum.hpp"
#include "core/transfer/copier.hpp"

namespace weir::residency {

/// What marking needs of memory, so that it can't fail.
void Engine::prepare_filling(Plan &plan) {
  plan.before.clear();
  bool into_place = false, from_peer = false;
  uint64_t parts = 0;  // below HOST, at most
  for (const PlanPage &page : plan.pages) {
    const uint32_t latest = page.region->pages[page.page].latest();
    into_place = into_place || page.stale;
    from_peer = from_peer || (page.absent && !page.discard && (latest & vm::host_bit) == 0 &&
                              (latest & vm::device_bits) != 0);
    if (cold_.any()) parts += cold_.parts_of(page.region->shape.used_bytes(page.page));
  }
  // What is written where bytes already are must come after everything that may still use them; and a copy from another
  // device after what writes there. All else waits for no work of the caller's, nor does the staging it comes through.
  for (const PlanItem &item : plan.items) {
    if (into_place || from_peer || item.zeroes())
      history_.gather({0, item.size, item.buffer, item.region, item.base}, true, &plan.before);
    // A copy may be under way that touches a tenant's place before its first use.
    for (uint32_t p = item.first; item.zeroes() && p <= item.last; ++p) {
      const Stamp ready = item.region->on(plan.place())->pages[p].ready;
      if (ready) plan.before.push_back(ready);
    }
  }
  plan.before.reserve(plan.before.size() + 3 * plan.pages.size());
  plan.parts.clear();
  plan.parts.reserve(parts);
  plan.freights.clear();
  plan.rerouted = false;
  plan.freights.reserve(devices_.size() * (generation_ == 0 ? 2 : 3));
  plan.cargo.clear();
  if (devices_.size() > 1) {
    plan.cargo.reserve(plan.pages.size());
    doubts_.settle([this](Stamp stamp) { return streams_.done(stamp); });
    doubts_.make_room(plan.pages.size());
    plan.carrying = plan.pages.size();
  }
}

/// Prepared, and not marked after all.
void Engine::forgo_filling(Plan &plan) noexcept {
  doubts_.give_room_back(plan.carrying);
  plan.carrying = 0;
}

void Engine::mark_filling(Plan &plan) noexcept {
  PoolDevice &device = *plan.device;
  plan.relays = usable_relays(device);
  for (PlanPage &page : plan.pages) {
    Region &region = *page.region;
    Residence &here = *region.on(plan.place());
    Page &copies = region.pages[page.page];
    region.unsettled = 0;
    page.used = region.shape.used_bytes(page.page);
    page.address = address_of(region, here) + region.shape.offset(page.page);
    page.granule_address = page.address - region.shape.before(page.page);
    // Of a set that comes by parts, what has no granule yet is another part's.
    if (page.absent ? page.granule == physical::no_granule : !page.stale) continue;
    page.source = page.checksum = 0;
    page.freight = no_freight;
    page.from = 0;
    // As it is now: the hold may have gone when the copy has come. One that comes waits for it.
    const uint32_t only = region.only_latest(page.page);
    page.counts = only == 0 || only == device.bit();
    page.corrupt = page.zero = page.wipe = page.rest = false;
    bool foreign = page.absent && device.memory.at(page.granule).client() != region.client;
    const vm::Bundle *bundle = device.memory.bundle_of(region, page.page);
    const bool shared = bundle != nullptr;
    page.shared = shared ? bundle->mapping.get() : nullptr;
    if (shared && page.absent && bundle->wiped) plan.before.push_back(bundle->wiped);
    if (foreign && device.vmm() && (shared || page.used < page.bytes)) {
      // All of it, whatever of it the page has. Once for all who share it: they look at whose it was.
      if (shared) device.memory.at(page.granule).set_client(region.client);
      page.wipe = true;
      foreign = false;
    }
    page.rest = foreign && page.used < page.bytes;
    Residence *other = device_source(region, page.page, plan);
    Freight *freight = other != nullptr ? &freight_from(plan, region, *other, page.page) : nullptr;
    const bool near = freight != nullptr && freight->near;
    if (copies.latest() == 0 || page.discard) {
      page.zero = foreign || (!page.discard && !region.slab);
    } else if (!near && tiers_.has_host(region, page.page) &&
               (copies.latest() & vm::host_bit) != 0) {
      page.from = vm::host_bit;
      page.source = reinterpret_cast<uint64_t>(tiers_.host_bytes(region, page.page));
      if (sums_host(region)) page.checksum = tiers_.checksum(copies);
    } else if ((copies.latest() & vm::below_host) != 0 &&
               (freight == nullptr || !freight->past_host)) {
      list_parts(region, page.page, static_cast<uint32_t>(&page - plan.pages.data()), &plan.parts);
      page.from = plan.parts.back().bit();
      page.checksum = tiers_.checksum(copies);
    } else if (other != nullptr) {
      const DevicePage &there = other->pages[page.page];
      PoolDevice &peer = device_at(other->place);
      page.from = other->place_bit();
      page.source = peer.memory.page_address(region, *other, page.page);
      if (there.ready) plan.before.push_back(there.ready);
      page.freight = static_cast<uint32_t>(freight - plan.freights.data());
      freight->bytes += page.used;
      freight->order.secret = freight->order.secret || region.scrub;
    }
    DevicePage &state = here.pages[page.page];
    if (page.absent) {
      state.granule = page.granule;
      page.memory = &device.memory.at(page.granule);
      if (region.held(page.page, device.place)) device.memory.count_held(region, page.page, true);
    }
    if (page.stale && state.ready) plan.before.push_back(state.ready);
    step(region, page.page, device, places_, page.absent ? Step::begin_fill : Step::begin_refill);
    page.filling = true;
  }
  for (const PlanItem &item : plan.items) {
    if (item.zeroes()) mark_zeroing(plan, item);
  }
  choose_ways(plan);
}

/// Of the devices that have the latest version, the one it comes from soonest; nullptr: none has it.
Residence *Engine::device_source(Region &region, uint32_t page, const Plan &plan) noexcept {
  const uint8_t to = plan.device->place;
  const auto ns = [&](const Residence &from) WEIR_HELD {
    const Reach reach = reach_of(plan, region, from, page);
    return paths_.choose(from.place, to, region.shape.used_bytes(page), reach.relays, reach.direct)
        .ns;
  };
  Residence *best = nullptr;
  for (auto &other : region.residences) {
    const bool has = (region.pages[page].latest() & other->place_bit()) != 0;
    if (!has || other->place == to) continue;
    if (best == nullptr || ns(*other) < ns(*best)) best = other.get();
  }
  return best;
}

/// Whether the device reaches the page where it lies: by the link, and because it was there when the page was mapped.
bool Engine::reads_directly(const PoolDevice &to, const Residence &from,
                            uint32_t page) const noexcept {
  if (!config_.routes.direct(from.place, to.place)) return false;
  return !devices_[from.place]->vmm() || from.pages[page].mapped() >= to.joined();
}

/// The place of a tenant never written is zeroed once, for whoever comes first, also on pages of it that he does not
/// lease: nobody else may do so, use it or move these pages until it is done.
void Engine::mark_zeroing(Plan &plan, const PlanItem &item) noexcept {
  for (PlanPage &page : plan.pages) {
    if (page.region != item.region || page.page < item.first || page.page > item.last) continue;
    if (page.filling || page.zeroing) continue;
    page.zeroing = true;
    begin_work(*page.region, page.page, *plan.device);
  }
}

Status Engine::prepare_page(Plan &plan, PlanPage &page) {
  PoolDevice &device = *plan.device;
  WEIR_TRY(device.memory.granules().materialize(*page.memory));
  if (!device.vmm()) {
    page.address = page.memory->place;
    return {};
  }
  WEIR_TRY(device.memory.map(page.granule_address, page.bytes, page.memory->place, page.shared,
                             &page.opened));
  page.mapped = true;
  return {};
}

/// Outside the lock, before a copy up: the bytes are those that were demoted.
Status Engine::verify_source(const Plan &plan, PlanPage *page) {
  if (page->checksum == 0) return {};
  const auto *bytes = reinterpret_cast<const unsigned char *>(page->source);
  if (tier::checksum_of(bytes, page->used) == page->checksum) return {};
  page->corrupt = true;
  return fail_corrupt(plan.items[page->item].use, page->page, page->from);
}

/// Outside the lock: the pages that come from below HOST, through staging. Their reads have begun.
Status Engine::fill_from_below(Plan &plan, tier::Lift &lift, transfer::Copier &copier) {
  tier::PageChecksum sum;
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const tier::LiftPart &part = plan.parts[i];
    PlanPage &page = plan.pages[part.page];
    lift.begin(plan.parts);
    tier::StagingSlot *slot = nullptr;
    const Status read = lift.finish(part, &slot);
    if (part.offset == 0) sum.reset();
    if (read) sum.add(slot->pinned, part.bytes);
    const bool last = part.offset + part.bytes == page.used;
    const bool damaged =
        read.ok() ? last && sum.sum() != page.checksum : read.code() == WEIR_ERROR_CORRUPT;
    if (damaged) {
      page.corrupt = true;
      return fail_corrupt(plan.items[page.item].use, page.page, part.bit());
    }
    WEIR_TRY(read);
    // If a step fails the slot stays taken until the stream has been synchronized.
    WEIR_TRY(copier.copy(page.address + part.offset, reinterpret_cast<uint64_t>(slot->pinned),
                         part.bytes));
    Stamp copied;
    WEIR_TRY(copier.mark(&copied));
    lift.give(copied);
    if (part.secret) scrub_turns_.note();
  }
  return {};
}

/// Outside the lock. Maps page by page and enqueues as it goes, so that mapping overlaps with copying.
Status Engine::fill(Plan &plan) {
  PoolDevice &device = *plan.device;
  transfer::Copier copier(*device.streams.up());
  tier::Lift lift(cold_, plan.quiet);
  const auto run = [&]() -> Status {
    if (!plan.parts.empty()) lift.begin(plan.parts);
    for (const Stamp stamp : plan.before)
      WEIR_TRY(streams_.enqueue_wait(*device.streams.up(), stamp));
    for (PlanPage &page : plan.pages) {
      if (!page.filling) continue;
      if (page.absent) WEIR_TRY(prepare_page(plan, page));
      if (page.wipe) WEIR_TRY(copier.zero(page.granule_address, page.bytes));
      plan.wiping = plan.wiping || page.wipe;
      if (page.zero) {
        const bool fragment = page.region->shape.fragment(page.page);
        if (!page.wipe) WEIR_TRY(copier.zero(page.address, fragment ? page.used : page.bytes));
      } else if (page.freight != no_freight) {
        WEIR_TRY(carry_page(plan, page, copier));
      } else if (page.source != 0) {
        WEIR_TRY(verify_source(plan, &page));
        WEIR_TRY(copier.copy(page.address, page.source, page.used));
      }
      if (page.rest && !page.zero)
        WEIR_TRY(copier.zero(page.address + page.used, page.bytes - page.used));
    }
    WEIR_TRY(finish_carrying(plan, copier));
    WEIR_TRY(fill_from_below(plan, lift, copier));
    for (const PlanItem &item : plan.items) {
      if (!item.zeroes()) continue;
      // A page at a time: a fill, too, stays within one mapping.
      for (uint32_t p = item.first; p <= item.last; ++p) {
        const uint64_t at = item.region->shape.offset(p);
        const uint64_t from = std::max(at, item.base);
        const uint64_t to = std::min(at + item.region->shape.page_bytes(p), item.base + item.size);
        const auto page = std::find_if(
            plan.pages.begin(), plan.pages.end(),
            [&](const PlanPage &of) { return of.region == item.region && of.page == p; });
        WEIR_TRY(copier.zero(page->address + (from - at), to - from));
      }
    }
    return copier.mark(&plan.ready);
  };
  points.at("fill");
  const Status status = run();
  if (status) return {};
  const KeepError keep;
  // Nothing may still be writing into memory that is about to be someone else's.
  end_carrying(plan);
  copier.synchronize();
  for (PlanPage &page : plan.pages) {
    if (page.mapped && device.memory.unmap(page.granule_address, page.bytes, page.shared))
      page.mapped = false;
  }
  return status;
}

/// Tells the policy of a page that became resident. Without memory for that it is told at the page's next use.
void Engine::offer(Region &region, uint32_t page, PoolDevice &device) noexcept {
  DevicePage &state = region.on(device.place)->pages[page];
  try {
    device.policy->admit(PageRef{region.id, page, regions_.generation(region)}, tick());
    state.queued = true;
  } catch (const std::bad_alloc &) {
    state.queued = false;
  }
}

/// A virgin tenant's place has been zeroed, on pages that may have been resident before: the next use waits for that. The place
/// counts as written now and not at commit(), because pages that the lease does not name may be evicted before that.
void Engine::settle_zeroing(const Plan &plan, const PlanItem &item) noexcept {
  Residence &here = *item.region->on(plan.place());
  for (uint32_t p = item.first; p <= item.last; ++p) here.pages[p].ready = plan.ready;
  if (!item.claimed) return;
  for (uint32_t p = item.first; p <= item.last; ++p)
    tiers_.invalidate(*item.region, p, plan.device->bit());
  set_flags(item.buffer, 0, Word::virgin);
}

/// `how`: what is known of it as bits of Event::how, beside where the bytes came from.
void Engine::tell_filled(const Plan &plan, const PlanPage &page, uint8_t how) noexcept {
  Event event{What::filled, how, plan.device->place, page.region->id, page.page, page.used};
  if ((page.from & vm::device_bits) != 0) {
    event.how |= Event::from_device;
  } else if (page.from != 0) {
    event.how |= Event::from_host;
    gauges_.promoted += page.used;
  }
  if ((page.from & vm::below_host) != 0) event.how |= Event::from_below;
  if (page.from != 0 && plan.quiet) event.how |= Event::ahead;
  events_.tell(event);
  if (page.zero) events_.tell({What::zeroed, 0, event.place, event.region, event.page, page.bytes});
}

void Engine::settle_fill(Plan &plan, bool filled) noexcept {
  PoolDevice &device = *plan.device;
  settle_freights(plan, filled);
  for (PlanPage &page : plan.pages) {
    if (page.zeroing) end_work(*page.region, page.page, device, tiers_);
    page.zeroing = false;
    if (!page.filling) continue;
    page.filling = false;
    Region &region = *page.region;
    Residence &here = *region.on(plan.place());
    DevicePage &state = here.pages[page.page];
    Page &copies = region.pages[page.page];
    // forget_idle() comes when `ready` is known.
    step(region, page.page, device, places_,
         filled        ? page.absent ? Step::filled : Step::refilled
         : page.stale  ? Step::refill_failed
         : page.mapped ? Step::stuck
                       : Step::fill_failed);
    state.wanted = false;
    // Of a page whose owner is gone, the copies may have gone while they were read.
    const bool idle = region.idle(page.page);
    if (page.corrupt && !idle)
      events_.tell({What::corrupt, 0, Event::nowhere, region.id, page.page});
    if (filled) {
      uint8_t how = 0;
      if (page.freight != no_freight && page.counts) note_carried(plan, page);
      state.ready = plan.ready;
      if (region.buffer != vm::BufferTable::none) set_flags(region.buffer, 0, Word::sole);
      if (page.absent) {
        if (device.evicted_lately(state.evicted())) how |= Event::refault;
        state.set_mapped(page.opened);
        device.memory.at(page.granule).set_client(region.client);
        if (!device.vmm()) here.range.address = page.address;
        device.memory.end_making(region, page.page, page.wipe ? plan.ready : Stamp{});
        if (idle) uncharge(region, page.page, device.place);  // its tenants have left meanwhile
        if (plan.lends && !idle) {
          device.memory.set_borrowed(region, page.page, true);
          offer_borrowed(region, page.page, device);
          how |= Event::balance;
          gauges_.rebalanced += page.used;
        } else {
          offer(region, page.page, device);
        }
      }
      // The bytes are here; where they came from they still are too. A page to be overwritten, or a slab's
      // untouched one, has no version yet.
      if (idle) {
        tiers_.forget_idle(region, page.page);
        places_.note(region, copies.discarded());
      } else if (copies.latest() != 0 && !page.discard) {
        // What has been lost meanwhile (remote.cpp) is not found again.
        if (!copies.lost() && page.counts) places_.note(region, copies.arrived(device.bit()));
      } else if (page.zero && !page.discard && !region.slab) {
        places_.note(region, copies.arrived(device.bit()));
      }
      tell_filled(plan, page, how);
      page.granule = physical::no_granule;
      page.absent = page.stale = page.mapped = false;
      continue;
    }
    if (page.corrupt) forsake_copy(region, page.page, page.from);
    if (!page.stale) {
      state.granule = physical::no_granule;
      if (region.held(page.page, device.place)) device.memory.count_held(region, page.page, false);
    }
    if (!page.stale && page.mapped) {
      // It could not be unmapped: the granule can't be used again. It stays charged, and nobody's.
      // One that others were in before stays as it is: what they have there must not be zeroed for the next.
      if (!device.memory.leave(region, page.page) && !page.joined)
        device.memory.at(page.granule).set_client(physical::client_unknown);
      if (page.shared != nullptr) page.shared->forsake();
      device.memory.note_stuck(page.bytes);
      page.granule = physical::no_granule;
      // At that address nothing else can be, of whichever device.
      if (region.shards != nullptr) region.shards->stranded = true;
    }
    tiers_.forget_idle(region, page.page);
  }
  for (const PlanItem &item : plan.items) {
    if (filled && item.zeroes()) settle_zeroing(plan, item);
  }
  // Some bytes may have come to granules that are nobody's now.
  for (const PlanPage &page : plan.pages) {
    if (!filled && page.granule != physical::no_granule && !page.joined)
      device.memory.at(page.granule).set_client(physical::client_unknown);
  }
  if (!filled) return_granules(plan);
  forgo_filling(plan);
  changed_.notify_all();
}

}  // namespace weir::residency
