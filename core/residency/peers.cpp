// SPDX-License-Identifier: Apache-2.0
//
// PEER: a page that must leave a device goes to a neighbour's idle memory first, where the link there is better than the
// host's. There it is an ordinary page of that device but for one thing: it is borrowed. Borrowed pages are the first to
// be evicted when the owner of the memory needs it, and they never pass to a third device; so what is lent is given back
// within the time that copying it to HOST takes. Only memory above the high watermark is lent: an owner that grows meets
// free granules first, while the background makes more of them.
//
// Whole pages of devices with virtual memory only, and no slabs: the rest goes to HOST.

#include "core/residency/plan.hpp"
#include "core/transfer/copier.hpp"

#include <algorithm>

namespace weir::residency {

/// A borrowed page that lies elsewhere too, or is an older version: it is not leased where it is, so leases and holds on
/// other devices are no reason to keep it. One that was leased there by a stream of another device may be leased so now, or
/// that one's work may not have ended: it goes like any other page, but first.
bool Engine::is_spare(const Region &region, uint32_t page,
                      const Residence &residence) const noexcept {
  const uint32_t latest = region.pages[page].latest();
  const DevicePage &state = residence.pages[page];
  return state.borrowed && !state.visited && latest != residence.place_bit();
}

/// Whether a neighbour could take the page, if it had the room.
bool Engine::may_lend(const Victim &victim, const PoolDevice &from, const PoolDevice &to) {
  const Region &region = *victim.region;
  const auto page_class = region.shape.page_class(victim.page);
  // To a device whose memory is the host's the host is as near as itself, and as little worth going to.
  const bool worth = from.integrated ? config_.routes.direct(from.place, to.place) && !to.integrated
                                     : config_.routes.beats_host(from.place, to.place);
  return to.place != from.place && to.open() && to.vmm() && worth &&
         to.memory.granules().page_size(page_class) ==
             from.memory.granules().page_size(page_class) &&
         accounts_.quota(region.client, to.place).room() >=
             region.shape.charged_bytes(victim.page) &&
         to.no_loan_before_ns <= now_ns();
}

/// Who has memory to spare for the page, by the best link, and of links that are alike whoever has the most; `dropping`: or
/// would have, if others left. Each borrower looks round from its own place on, so that several of them do not fall on the same
/// neighbour first.
PoolDevice *Engine::neighbour_for(const Victim &victim, const PoolDevice &from, bool dropping) {
  PoolDevice *best = nullptr;
  uint64_t most = 0;
  for (size_t i = 1; i < devices_.size(); ++i) {
    PoolDevice &device = *devices_[(from.place + i) % devices_.size()];
    if (!may_lend(victim, from, device)) continue;
    const uint64_t idle = device.memory.spare();
    if (idle < victim.bytes && !dropping) continue;
    const int link =
        best != nullptr ? config_.routes.compare(from.place, device.place, best->place) : 1;
    if (link < 0 || (link == 0 && idle <= most)) continue;
    best = &device;
    most = idle;
  }
  return best;
}

/// A place with a neighbour for a dirty page, which is marked FILLING there. False: nobody has one, and nothing was done.
/// May drop the lock.
bool Engine::borrow_place(Releasable &lock, Victim &victim, const PoolDevice &from,
                          bool last_resort) {
  Region &region = *victim.region;
  const DevicePage &here = region.on(from.place)->pages[victim.page];
  // What can't go on to HOST or below can't be given back: that is lent only where the page has nowhere else to go.
  if (!last_resort && !cold_.any() && tiers_.host().room() < borrowed_bytes() + victim.used)
    return false;
  if (config_.no_peer || !from.vmm() || here.borrowed || region.slab || region.scrub ||
      region.shards != nullptr || region.kept || region.cold || region.streaming ||
      region.shape.fragment(victim.page))
    return false;
  PoolDevice *to = neighbour_for(victim, from, false);
  if (to == nullptr) {
    to = neighbour_for(victim, from, true);
    if (to == nullptr || to->no_drop_before_ns > now_ns()) return false;
    if (!drop_disposable(lock, *to, victim.bytes)) {
      constexpr uint64_t drop_rest_ns = 2'000'000;  // before it is searched again
      to->no_drop_before_ns = now_ns() + drop_rest_ns;
      return false;
    }
    to = neighbour_for(victim, from, false);
    if (to == nullptr) return false;
  }
  if (!make_residence(region, *to)) return false;
  Residence *there = region.on(to->place);
  DevicePage &state = there->pages[victim.page];
  // An older version may still be there, and its granule with it.
  const bool stale = state.state() == PageState::resident;
  if (!stale && state.state() != PageState::absent) return false;
  if (stale && !reads_directly(from, *there, victim.page)) return false;
  physical::DoomedList doomed(&memory_);
  if (!stale) {
    Charge charge =
        accounts_.charge(region.client, to->place, region.shape.charged_bytes(victim.page));
    GranuleId granule = physical::no_granule;
    const auto claim = [&] {
      granule =
          to->memory.granules().claim(region.shape.page_class(victim.page), victim.bytes, &doomed);
      return granule != physical::no_granule;
    };
    if (!charge || !charge.pay_for(claim)) return false;
    // First: what is borrowed is not counted as held.
    to->memory.set_borrowed(region, victim.page, true);
    state.granule = granule;
  }
  step(region, victim.page, *to, places_, stale ? Step::begin_refill : Step::begin_fill);
  victim.loan.to = to;
  victim.loan.fresh = !stale;
  victim.loan.memory = &to->memory.at(state.granule);
  victim.loan.address = to->memory.page_address(region, *there, victim.page);
  victim.loan.wipe = victim.used < victim.bytes && victim.loan.memory->client() != region.client;
  victim.destination = reinterpret_cast<void *>(victim.loan.address);
  if (!doomed.empty()) give_to_system(lock, *to, doomed);
  return true;
}

/// Gives up what costs no copy: borrowed pages that lie elsewhere too, which many do that were brought back and not
/// written, and those of dead buffers. False: there are none. Drops the lock.
bool Engine::drop_disposable(Releasable &lock, PoolDevice &device, uint64_t bytes) {
  constexpr uint64_t least = uint64_t{8} << 20U;
  const Wanted wanted{.bytes = std::max(bytes, least), .clean_only = true, .disposable_only = true};
  std::pmr::vector<PageRef> pages(&memory_);
  device.policy->choose(wanted, &pages);
  // Nobody here waits for what the neighbour is computing.
  std::pmr::vector<Stamp> fences(&memory_);
  const auto running = [&](const PageRef &ref) WEIR_HELD {
    fences.clear();
    try {
      Region &region = regions_.at(ref.region);
      history_.collect(region, ref.page, &fences,
                       is_spare(region, ref.page, *region.on(device.place)));
      if (fences.empty()) return false;
    } catch (const std::bad_alloc &) {
      fences.clear();  // not known: as if it ran
    }
    offer_borrowed(regions_.at(ref.region), ref.page, device);
    return true;
  };
  std::erase_if(pages, running);
  Status why;
  return !pages.empty() && evict(lock, device, pages, true, &why) != 0;
}

/// Outside the lock: the granule is mapped where the copy goes.
Status Engine::open_loan(Loan &loan, uint64_t bytes) {
  if (!loan.fresh) return {};
  PoolDevice &to = *loan.to;
  WEIR_TRY(to.memory.granules().materialize(*loan.memory));
  WEIR_TRY(to.memory.mapper().map(loan.address, bytes, loan.memory->place, &loan.opened));
  loan.mapped = true;
  if (!loan.wipe) return {};
  // Somebody else's bytes behind the page's last one.
  transfer::Copier copier(*to.streams.up());
  WEIR_TRY(copier.zero(loan.address, bytes));
  return copier.finish();
}

/// Outside the lock: nothing has come of it.
void Engine::close_loan(Loan &loan, uint64_t bytes) noexcept {
  if (loan.wipe && loan.mapped) loan.to->streams.up()->synchronize();
  if (loan.mapped && loan.to->memory.mapper().unmap(loan.address, bytes)) loan.mapped = false;
}

/// Under the lock: the page is with the neighbour now, or is not. `arrived`: with all of its bytes.
void Engine::settle_loan(Victim &victim, bool arrived) noexcept {
  Loan &loan = victim.loan;
  if (loan.to == nullptr) return;
  PoolDevice &to = *loan.to;
  Region &region = *victim.region;
  Residence &there = *region.on(to.place);
  DevicePage &state = there.pages[victim.page];
  step(region, victim.page, to, places_,
       arrived       ? loan.fresh ? Step::filled : Step::refilled
       : !loan.fresh ? Step::refill_failed
       : loan.mapped ? Step::stuck
                     : Step::fill_failed);
  tiers_.forget_idle(region, victim.page);
  state.wanted = false;
  if (arrived) {
    state.ready = Stamp{};
    state.visited = false;  // what had used the older version there has ended
    if (loan.fresh) {
      state.set_mapped(loan.opened);
      loan.memory->set_client(region.client);
    }
    if (region.buffer != vm::BufferTable::none) set_flags(region.buffer, 0, Word::sole);
    if (!region.kept) places_.note(region, region.pages[victim.page].arrived(to.bit()));
    if (loan.fresh || !state.borrowed) {  // else it is listed already
      to.memory.set_borrowed(region, victim.page, true);
      offer_borrowed(region, victim.page, to);
    }
    events_.tell({What::lent, 0, to.place, region.id, victim.page, victim.used});
  } else if (loan.fresh) {
    give_loan_back(victim, state);
  }
  // Its owner has gone, and left this page to the move.
  if (region.kept && state.state() == PageState::resident) uncharge(region, victim.page, to.place);
  loan.to = nullptr;
}

/// The page's charge ends, by the rule in base/accounts.hpp.
void Engine::uncharge(const Region &region, uint32_t page, uint8_t place) noexcept {
  accounts_.freed(region.client, place, region.shape.charged_bytes(page));
}

/// The granule, and what was charged for it.
void Engine::give_loan_back(Victim &victim, DevicePage &state) noexcept {
  Loan &loan = victim.loan;
  PoolDevice &to = *loan.to;
  Region &region = *victim.region;
  constexpr uint64_t rest_ns = 1'000'000'000;  // the runtime refused the memory, or to map it
  to.no_loan_before_ns = now_ns() + rest_ns;
  uncharge(region, victim.page, to.place);
  const GranuleId granule = state.granule;
  state.granule = physical::no_granule;
  to.memory.set_borrowed(region, victim.page, false);
  loan.memory->set_client(physical::client_unknown);  // some of the bytes may have come
  if (loan.mapped) {
    to.memory.note_stuck(victim.bytes);
  } else {
    to.memory.unclaim(region, victim.page, granule);
  }
}

/// Tells a neighbour's policy that the page is to go before all else there.
void Engine::offer_borrowed(Region &region, uint32_t page, PoolDevice &to) noexcept {
  try {
    to.policy->dispose(PageRef{region.id, page, regions_.generation(region)});
    region.on(to.place)->pages[page].queued = true;
  } catch (const std::bad_alloc &) {
    offer(region, page, to);
  }
}

/// Somebody uses the page on the neighbour himself: it is there for its own sake from now on.
void Engine::keep_borrowed(Region &region, uint32_t page, PoolDevice &device) noexcept {
  if (!region.on(device.place)->pages[page].borrowed) return;
  device.memory.set_borrowed(region, page, false);
  offer(region, page, device);
}

}  // namespace weir::residency
