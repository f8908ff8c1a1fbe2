// SPDX-License-Identifier: Apache-2.0
//
// Drain: pages leave a device. Claimed under the lock (nobody leases them, the hit path is closed), copied
// and unmapped outside of it, settled under it. A page whose bytes could not be brought to safety stays where it is;
// one that somebody asked for meanwhile stays too, clean now.

#include "core/residency/plan.hpp"
#include "core/tier/checksum.hpp"
#include "core/transfer/copier.hpp"

#include <algorithm>

namespace weir::residency {

bool Engine::claim_victim(PoolDevice &device, const PageRef &ref, Victim *victim) {
  Region *found = regions_.find(ref.region, ref.generation);
  Residence *here = found != nullptr ? found->on(device.place) : nullptr;
  if (here == nullptr) return false;
  Region &region = *found;
  const PageState state = here->pages[ref.page].state();
  if (state == PageState::filling) give_back(region, ref, device);
  if (state != PageState::resident && state != PageState::moving) return false;
  const bool spare = is_spare(region, ref.page, *here);
  if (region.pages[ref.page].busy != 0 ||
      (!spare && !leases_.close(region, ref.page, device.place))) {
    give_back(region, ref, device);
    return false;
  }
  tiers_.forget_idle(region, ref.page);
  const Page &copies = region.pages[ref.page];
  const bool latest_here = (copies.latest() & device.bit()) != 0;
  victim->ref = ref;
  victim->region = &region;
  victim->page = ref.page;
  victim->had_content = copies.latest() != 0;
  victim->copy = latest_here && (copies.latest() & ~device.bit()) == 0;
  const bool near = (copies.latest() & ~device.bit() & ~vm::below_host) != 0;
  victim->cached = latest_here && !victim->copy && !near && !region.cold && !region.scrub &&
                   region.registered == nullptr && !device.integrated;
  victim->bytes = region.shape.granule_bytes(ref.page);
  victim->used = region.shape.used_bytes(ref.page);
  victim->address = device.memory.page_address(region, *here, ref.page);
  victim->granule_address = victim->address - region.shape.before(ref.page);
  victim->shared = device.memory.mapping_of(region, ref.page);
  try {
    history_.collect(region, ref.page, &victim->fences, spare);
  } catch (const std::bad_alloc &) {
    give_back(region, ref, device);
    return false;
  }
  return true;
}

void Engine::give_back(Region &region, const PageRef &ref, PoolDevice &device) noexcept {
  region.on(device.place)->pages[ref.page].queued = device.policy->give_back(ref, tick());
}

/// A dirty page gets a place with a neighbour or in HOST, or is marked to pass it by: what is not expected back soon, and what HOST can't
/// make room for. May drop the lock.
Status Engine::place_victim(Releasable &lock, PoolDevice &device, Victim &victim) {
  Region &region = *victim.region;
  tiers_.free_host(region, victim.page);  // one that an acquire which failed has left there
  if (borrow_place(lock, victim, device, false)) return {};
  victim.straight = (cold_.any() && region.cold) || passes_host(device, victim.used);
  if (device.integrated && !victim.straight && borrow_place(lock, victim, device, true)) return {};
  Status slot;
  if (!victim.straight)
    slot = host_room_.take(lock, region.client, device.node, victim.used, &victim.slot);
  const bool none =
      slot.code() == WEIR_ERROR_OVER_BUDGET || slot.code() == WEIR_ERROR_OUT_OF_HOST_MEMORY;
  if (none && cold_.any()) victim.straight = true;
  if (none && !victim.straight && borrow_place(lock, victim, device, true)) return {};
  if (!slot && !victim.straight) return slot;
  victim.plan = region.codec;
  if (victim.slot) victim.destination = tiers_.host().address(victim.slot);
  if (victim.straight || sums_host(region)) victim.chain = cold_.take_chain(victim.used);
  return {};
}

/// Memory of an integrated device is the host's: in HOST a page would take as much of it, and nothing would be won. True: a tier below
/// has room for it.
bool Engine::passes_host(const PoolDevice &device, uint64_t bytes) const noexcept {
  if (!device.integrated) return false;
  return (cold_.compressed() != nullptr && cold_.compressed()->room() >= bytes) ||
         (cold_.storage() != nullptr && cold_.storage()->room() >= bytes);
}

/// A page that could be dropped, were it not for the time it takes to bring it up from below HOST, is copied to HOST if a
/// slot can be had there for nothing.
void Engine::cache_victim(const PoolDevice &device, Victim &victim) noexcept {
  const uint32_t client = victim.region->client;
  try {
    tiers_.free_host(*victim.region, victim.page);
    victim.slot = tiers_.try_slot(client, device.node, victim.used, true);
    const bool quota =
        accounts_.quota(client, Accounts::host).room() < tier::HostStore::rounded(victim.used);
    if (!victim.slot && demoter_.drop_clean(victim.used, quota ? client : UINT32_MAX))
      victim.slot = tiers_.try_slot(client, device.node, victim.used, true);
  } catch (const std::bad_alloc &) {
    victim.slot = {};
  }
  victim.cached = victim.copy = static_cast<bool>(victim.slot);
  if (victim.slot) victim.destination = tiers_.host().address(victim.slot);
}

/// What place_victim() gave, if the page does not go after all.
void Engine::unplace_victim(Victim &victim) noexcept {
  const Region &region = *victim.region;
  settle_loan(victim, false);
  if (victim.slot) tiers_.free_slot(region.client, victim.slot, region.scrub);
  tiers_.free_chain(region, victim.chain);
  victim.slot = {};
  victim.chain = tier::ColdTiers::none;
}

/// Claims what can go of `pages` and gives each dirty page a place to go to. May drop the lock.
void Engine::claim_victims(Releasable &lock, PoolDevice &device,
                           const std::pmr::vector<PageRef> &pages,
                           std::pmr::vector<Victim> *victims, Status *why) {
  for (const PageRef &ref : pages) {
    Victim victim(&memory_);
    if (!claim_victim(device, ref, &victim)) continue;
    Region &region = *victim.region;
    if (victim.copy && region.registered != nullptr) {
      victim.destination = region.registered + region.shape.offset(victim.page);
    } else if (victim.copy) {
      // A place may need the lock dropped; the mark keeps the page ours until then.
      begin_work(region, victim.page, device);
      const Status slot = with_memory(lock, "for the records of a demotion", [&]() WEIR_HELD {
        return place_victim(lock, device, victim);
      });
      if (!slot) unplace_victim(victim);
      end_work(region, victim.page, device, tiers_);
      if (!slot) {
        *why = slot;
        give_back(region, ref, device);
        events_.tell({What::evict_failed, 0, device.place, region.id, victim.page});
        changed_.notify_all();
        retire_region(region);
        continue;
      }
    }
    if (victim.cached) cache_victim(device, victim);
    DevicePage &state = region.on(device.place)->pages[victim.page];
    step(region, victim.page, device, places_, Step::begin_evict);
    state.wanted = false;
    victims->push_back(std::move(victim));  // reserved by evict()
  }
}

/// Evicts what can go of `pages`; returns the bytes freed on the device. Drops the lock meanwhile. Pages are finished
/// in the order their copies end, so that unmapping one overlaps with copying the next and its granule is free at once.
uint64_t Engine::evict(Releasable &lock, PoolDevice &device, const std::pmr::vector<PageRef> &pages,
                       bool background, Status *why, EarlyFill *early) {
  std::pmr::vector<Victim> victims(&memory_);
  try {
    victims.reserve(pages.size());
  } catch (const std::bad_alloc &) {
    for (const PageRef &ref : pages) give_back(regions_.at(ref.region), ref, device);
    throw;
  }
  // Chosen, they are known to nobody while places are found for them: who finds nothing else to take waits.
  {
    ++device.in_flight;
    const AtEnd placed([&device] { --device.in_flight; });
    claim_victims(lock, device, pages, &victims, why);
  }
  if (victims.empty()) {
    changed_.notify_all();
    return 0;
  }
  Drain drain{device, background, patience(device)};
  lock.unlocked([&] {
    points.at("evict.claimed");
    transfer::Copier copier(*device.streams.down());
    const auto passed = [this](Stamp stamp) { return streams_.passed(stamp); };
    size_t finished = 0;
    for (size_t i = 0; i < victims.size(); ++i) {
      // Before waiting for work of the caller's, what has been copied is let go of.
      const bool idle = std::all_of(victims[i].fences.begin(), victims[i].fences.end(), passed);
      while (finished < i && (!idle || passed(victims[finished].copied)))
        finish_next(drain, victims[finished++], early);
      start_victim(drain, copier, victims[i]);
    }
    while (finished < victims.size()) finish_next(drain, victims[finished++], early);
  });
  changed_.notify_all();
  if (!drain.why) *why = drain.why;
  note_loss(device, drain.why);
  return drain.freed;
}

/// The same with what the policy chooses.
uint64_t Engine::evict_chosen(Releasable &lock, PoolDevice &device, const Wanted &wanted,
                              bool background) {
  std::pmr::vector<PageRef> victims(&memory_);
  device.policy->choose(wanted, &victims);
  Status why;
  return victims.empty() ? 0 : evict(lock, device, victims, background, &why);
}

/// Outside the lock. Whoever the room is for gets it by parts, while the next copies down go on.
void Engine::finish_next(Drain &drain, Victim &victim, EarlyFill *early) {
  finish_victim(drain, victim);
  if (early == nullptr || drain.freed - drain.seen < early->look_after()) return;
  drain.seen = drain.freed;
  Locked lock(lock_);
  early->more_room(lock);
}

/// What was handed to the transfer stream has to end before its memory can be let go of.
void Engine::end_copies(PoolDevice &device) noexcept {
  (void)answers_lost(device);  // which waits for them
}

/// Zeroes a page whose bytes are in HOST already, and waits for it.
Status Engine::wipe(PoolDevice &device, Victim &victim) {
  transfer::Copier copier(*device.streams.down());
  victim.wiped = true;
  WEIR_TRY(copier.zero(victim.address, victim.bytes));
  const Status status = copier.finish();
  if (!status) end_copies(device);
  return status;
}

/// Outside the lock: waits for the fences and sends the copy on its way. What went well so far is marked `safe`.
void Engine::start_victim(Drain &drain, transfer::Copier &copier, Victim &victim) {
  PoolDevice &device = drain.device;
  Status status;
  for (const Stamp stamp : victim.fences) {
    status = streams_.wait(stamp, drain.wait_ns);
    if (!status) break;
  }
  if (status && victim.loan.to != nullptr) {
    const Status opened = open_loan(victim.loan, victim.bytes);
    victim.loan.lost = opened.code() == WEIR_ERROR_DEVICE_LOST;
    if (!opened)
      return;  // the neighbour's affair: the page stays, and has another place to go to the next time
  }
  if (status && victim.copy && !victim.straight) {
    status =
        copier.copy(reinterpret_cast<uint64_t>(victim.destination), victim.address, victim.used);
    if (status) status = copier.flush();
  }
  if (status && victim.region->scrub && !victim.copy) {
    victim.wiped = true;
    status = copier.zero(victim.address, victim.bytes);
  }
  if (status && !victim.straight && (victim.copy || victim.region->scrub)) {
    status = copier.mark(&victim.copied, false);
    if (!status) end_copies(device);  // enqueued, but without a mark
  }
  victim.safe = status.ok();
  note_failure(drain, victim, status);
}

/// Outside the lock: a loan that fails because the neighbour is lost is no failure of this device's.
void Engine::note_failure(Drain &drain, Victim &victim, const Status &status) noexcept {
  const bool ask = status.code() == WEIR_ERROR_DEVICE_LOST && victim.loan.to != nullptr;
  victim.loan.lost = victim.loan.lost || (ask && answers_lost(*victim.loan.to));
  if (!victim.loan.lost) drain.note(status);
}

/// Outside the lock, which it takes in between: waits for the copy, unmaps, settles.
void Engine::finish_victim(Drain &drain, Victim &victim) {
  PoolDevice &device = drain.device;
  if (victim.safe && victim.copied) {
    Status status = streams_.finish(victim.copied);
    if (!status) end_copies(device);  // its slot is about to be someone else's
    if (status && victim.copy && victim.region->scrub) status = wipe(device, victim);
    victim.safe = status.ok();
    note_failure(drain, victim, status);
    if ((status || victim.wiped) && victim.copy && !victim.cached && sums_host(*victim.region) &&
        victim.slot) {
      victim.checksum = tier::checksum_of(victim.destination, victim.used);
    }
  }
  if (victim.safe && victim.straight) {
    Status status =
        with_memory("for a place below HOST", [&] { return send_straight(drain, victim); });
    if (status && victim.region->scrub) status = wipe(device, victim);
    victim.safe = status.ok();
    drain.note(status);
  }
  if (victim.loan.to != nullptr && !victim.safe) close_loan(victim.loan, victim.bytes);
  {
    const Locked lock(lock_);
    decide_victim(device, victim);
  }
  if (victim.out) {
    const Status unmapped =
        device.memory.unmap(victim.granule_address, victim.bytes, victim.shared);
    victim.gone = unmapped.ok();
    drain.note(unmapped);
  }
  points.at("evict.unmapped");
  const Locked lock(lock_);
  settle_victim(drain, victim);
  drain.untold += victim.bytes;
  if (drain.untold < Drain::worth_telling) return;
  drain.untold = 0;
  changed_.notify_all();
}

/// Whether a page whose copy has ended leaves the device, or stays there after all.
void Engine::decide_victim(const PoolDevice &device, Victim &victim) noexcept {
  // Somebody asked for it meanwhile: it stays, unless it has no bytes worth staying for.
  const DevicePage &state = victim.region->on(device.place)->pages[victim.page];
  // The other copy that it was to be dropped for may have been lost with its device.
  const bool dropped = victim.had_content && !victim.copy && !victim.region->idle(victim.page);
  const uint32_t others = victim.region->pages[victim.page].latest() & ~device.bit();
  victim.safe = victim.safe && !(dropped && others == 0);
  if (victim.loan.to != nullptr && victim.loan.to->lost()) victim.safe = false;
  victim.out = victim.safe && (victim.region->scrub || !(state.wanted && victim.had_content));
}

/// The page's bytes have come to where place_victim() meant them to.
void Engine::settle_place(Victim &victim) noexcept {
  Region &region = *victim.region;
  Page &copies = region.pages[victim.page];
  places_.note(region, copies.revived());  // lost, but the copy had ended; or see `forsaken` there
  if (victim.lent) return;
  if (victim.straight) {
    region.codec = victim.plan;
    cold_.set_checksum(victim.chain, victim.checksum);
    tiers_.publish(region, victim.page, victim.chain, victim.into);
    if (victim.into == vm::compressed_bit) demoter_.note_compressed(region, victim.page);
    events_.tell({What::sunk, 0, Event::nowhere, region.id, victim.page, victim.used});
    return;
  }
  if (victim.chain != tier::ColdTiers::none) {
    if (copies.lower == tier::ColdTiers::none) {
      copies.lower = victim.chain;
    } else {
      cold_.give_chain(victim.chain);
    }
    cold_.set_checksum(copies.lower, victim.checksum);
  }
  if (victim.slot) {
    tiers_.host().take_over(victim.slot, region.client, victim.used);
    places_.note(region, copies.take_slot(victim.slot));
  }
  places_.note(region, copies.arrived(vm::host_bit));
  if (victim.slot) tiers_.note(region, victim.page, vm::host_bit);
}

void Engine::settle_victim(Drain &drain, Victim &victim) noexcept {
  PoolDevice &device = drain.device;
  Region &region = *victim.region;
  Residence &here = *region.on(device.place);
  DevicePage &state = here.pages[victim.page];
  Page &copies = region.pages[victim.page];
  const auto tell = [&](What what, int how) WEIR_HELD {
    events_.tell(
        {what, static_cast<uint8_t>(how), device.place, region.id, victim.page, victim.used});
  };
  step(region, victim.page, device, places_, victim.gone ? Step::evicted : Step::kept);
  tiers_.forget_idle(region, victim.page);
  // What it had from a writer that has been lost meanwhile (remote.cpp): the copy is none.
  const bool forsaken = copies.forsaken();
  if (victim.loan.lost) note_loss(*victim.loan.to, Status(WEIR_ERROR_DEVICE_LOST));
  if (victim.loan.to != nullptr && victim.loan.to->lost()) victim.safe = false;
  victim.lent = victim.safe && victim.loan.to != nullptr;
  if (victim.lent) settle_loan(victim, true);
  if (victim.copy && (victim.safe || victim.wiped) && !region.idle(victim.page)) {
    settle_place(victim);
    const int how = (victim.cached ? Event::cached : 0) | (drain.background ? Event::ahead : 0);
    tell(What::demoted, how);
  } else {
    unplace_victim(victim);
  }
  if (victim.gone) {
    if (!victim.had_content) {
      tell(What::discarded, 0);
    } else if (!victim.copy || victim.cached) {
      tell(What::dropped, 0);
    }
    drain.freed += region.shape.charged_bytes(victim.page);
    vacate(region, victim.page, device, region.scrub ? physical::client_unknown : region.client);
  } else {
    if (victim.wiped || region.idle(victim.page)) places_.note(region, copies.left(device.bit()));
    if (!state.wanted) tell(What::evict_failed, 0);
    give_back(region, victim.ref, device);
  }
  const bool owned = !region.idle(victim.page), nowhere = copies.latest() == 0;
  if (victim.had_content && owned && nowhere) places_.note(region, copies.device_lost());
  if (forsaken && owned) forsake(region, victim.page);
  state.wanted = false;
  retire_region(region);
}

/// The page has left the device, and nothing is mapped there any more: its granule goes back to the pool.
void Engine::vacate(Region &region, uint32_t page, PoolDevice &device,
                    uint32_t granule_client) noexcept {
  Residence &here = *region.on(device.place);
  DevicePage &state = here.pages[page];
  device.memory.set_borrowed(region, page, false);
  if (region.slab) region.tenants->pages[page].told = false;  // the policy forgets it
  if (!region.idle(page)) uncharge(region, page, device.place);
  if (region.held(page, device.place))
    device.memory.count_held(region, page, false);  // a hold on its slab that came meanwhile
  (void)device.memory.give(device.memory.bundle_of(region, page), state.granule, granule_client);
  if (!idle_scan_.watching() && worth_watching(device)) watch_idle();
  const uint64_t bytes = region.shape.charged_bytes(page);
  device.evictions.count(bytes);
  events_.tell({What::evicted, 0, device.place, region.id, page, bytes});
  places_.note(region, region.pages[page].left(device.bit()));
  state.granule = physical::no_granule;
  state.ready = Stamp{};
  state.set_evicted(device.evictions.now());
}

/// Without an eviction: its device has left, or the runtime has taken the mapping and gives none back.
void Engine::vanish(Region &region, uint32_t page, PoolDevice &device) noexcept {
  step(region, page, device, places_, Step::vanished);
  vacate(region, page, device, physical::client_unknown);
}

}  // namespace weir::residency
