// SPDX-License-Identifier: Apache-2.0
//
// A place with a neighbour: found, opened, settled.

#include "core/move/lender.hpp"

#include "core/move/evictor.hpp"
#include "core/transfer/copier.hpp"

#include <algorithm>

namespace weir::move {

bool Lender::may_lend(const Victim &victim, const PoolDevice &from, const PoolDevice &to) {
  const Region &region = *victim.region;
  const auto page_class = region.shape.page_class(victim.page);
  // To a device whose memory is the host's the host is as near as itself, and as little worth going to.
  const bool worth = from.integrated
                         ? env_.config.routes.direct(from.place, to.place) && !to.integrated
                         : env_.config.routes.beats_host(from.place, to.place);
  return to.place != from.place && to.open() && to.vmm() && worth &&
         to.memory.granules().page_size(page_class) ==
             from.memory.granules().page_size(page_class) &&
         page_.accounts.quota(region.owner.client, to.place).room() >=
             region.shape.charged_bytes(victim.page) &&
         to.no_loan_before_ns <= env_.now_ns();
}

PoolDevice *Lender::neighbour_for(const Victim &victim, const PoolDevice &from, bool dropping) {
  PoolDevice *best = nullptr;
  uint64_t most = 0;
  for (size_t i = 1; i < page_.devices.size(); ++i) {
    PoolDevice &device = *page_.devices[(from.place + i) % page_.devices.size()];
    if (!may_lend(victim, from, device)) continue;
    const uint64_t idle = device.memory.spare();
    if (idle < victim.bytes && !dropping) continue;
    const int link =
        best != nullptr ? env_.config.routes.compare(from.place, device.place, best->place) : 1;
    if (link < 0 || (link == 0 && idle <= most)) continue;
    best = &device;
    most = idle;
  }
  return best;
}

bool Lender::borrow(Releasable &lock, Victim &victim, const PoolDevice &from, bool last_resort) {
  Region &region = *victim.region;
  const DevicePage &here = region.on(from.place)->pages[victim.page];
  // What can't go on to HOST or below can't be given back: that is lent only where the page has nowhere else to go.
  if (!last_resort && !page_.cold.any() &&
      page_.tiers.host().room() < borrowed_bytes() + victim.used)
    return false;
  if (env_.config.no_peer || !from.vmm() || here.borrowed || region.is.slab || region.is.secret ||
      region.shards != nullptr || region.is.kept || region.is.cold || region.is.streaming ||
      region.shape.fragment(victim.page))
    return false;
  PoolDevice *to = neighbour_for(victim, from, false);
  if (to == nullptr) {
    to = neighbour_for(victim, from, true);
    if (to == nullptr || to->no_drop_before_ns > env_.now_ns()) return false;
    if (!drop_disposable(lock, *to, victim.bytes)) {
      constexpr uint64_t drop_rest_ns = 2'000'000;  // before it is searched again
      to->no_drop_before_ns = env_.now_ns() + drop_rest_ns;
      return false;
    }
    to = neighbour_for(victim, from, false);
    if (to == nullptr) return false;
  }
  if (!life_.make_residence(region, *to)) return false;
  Residence *there = region.on(to->place);
  const DevicePage &state = there->pages[victim.page];
  // An older version may still be there, and its granule with it.
  const bool stale = state.state() == PageState::resident;
  if (!stale && state.state() != PageState::absent) return false;
  if (stale && !pages_.reads_directly(from, *there, victim.page)) return false;
  physical::DoomedList doomed(env_.memory);
  GranuleId granule = physical::no_granule;
  if (!stale) {
    Charge charge = page_.accounts.charge(region.owner.client, to->place,
                                          region.shape.charged_bytes(victim.page));
    const auto claim = [&] {
      granule =
          to->memory.granules().claim(region.shape.page_class(victim.page), victim.bytes, &doomed);
      return granule != physical::no_granule;
    };
    if (!charge || !charge.pay_for(claim)) return false;
    // First: what is borrowed is not counted as held.
    to->memory.set_borrowed(region, victim.page, true);
  }
  pages_.begin_fill(region, victim.page, *to, granule);
  victim.loan.to = to;
  victim.loan.fresh = !stale;
  victim.loan.memory = &to->memory.at(state.granule);
  victim.loan.address = to->memory.page_address(region, *there, victim.page);
  victim.loan.wipe =
      victim.used < victim.bytes && victim.loan.memory->client() != region.owner.client;
  victim.to.address = reinterpret_cast<void *>(victim.loan.address);
  if (!doomed.empty()) idle_.give_to_system(lock, *to, doomed);
  return true;
}

uint64_t Lender::borrowed_bytes() const noexcept {
  uint64_t bytes = 0;
  for (const auto &device : page_.devices) bytes += device->memory.borrowed_bytes();
  return bytes;
}

bool Lender::drop_disposable(Releasable &lock, PoolDevice &device, uint64_t bytes) {
  constexpr uint64_t least = uint64_t{8} << 20U;
  const Wanted wanted{.bytes = std::max(bytes, least), .clean_only = true, .disposable_only = true};
  std::pmr::vector<PageRef> pages(env_.memory);
  device.policy->choose(wanted, &pages);
  // Nobody here waits for what the neighbour is computing.
  std::pmr::vector<Stamp> fences(env_.memory);
  const auto running = [&](const PageRef &ref) WEIR_HELD {
    fences.clear();
    try {
      Region &region = page_.regions.at(ref.region);
      lease_.history.collect(region, ref.page, &fences,
                             is_spare(region, ref.page, *region.on(device.place)));
      if (fences.empty()) return false;
    } catch (const std::bad_alloc &) {
      fences.clear();  // not known: as if it ran
    }
    pages_.offer_borrowed(page_.regions.at(ref.region), ref.page, device);
    return true;
  };
  std::erase_if(pages, running);
  Status why;
  return !pages.empty() && evictor_.evict(lock, device, pages, true, &why) != 0;
}

Status Lender::open(Loan &loan, uint64_t bytes) {
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

void Lender::close(Loan &loan, uint64_t bytes) noexcept {
  if (loan.wipe && loan.mapped) loan.to->streams.up()->synchronize();
  if (loan.mapped && loan.to->memory.mapper().unmap(loan.address, bytes)) loan.mapped = false;
}

void Lender::settle(Victim &victim, bool arrived) noexcept {
  Loan &loan = victim.loan;
  if (loan.to == nullptr) return;
  PoolDevice &to = *loan.to;
  Region &region = *victim.region;
  if (arrived) {
    pages_.end_fill(region, victim.page, to, Stamp{}, loan.fresh ? &loan.opened : nullptr);
    if (loan.fresh) loan.memory->set_client(region.owner.client);
    if (region.owner.buffer != page::BufferTable::none)
      page_.buffers.hot(region.owner.buffer).set_flags(0, Word::sole);
    if (!region.is.kept) pages_.arrived(region, victim.page, to.bit());
    pages_.lend(region, victim.page, to, loan.fresh);
    env_.events.tell({What::lent, 0, to.place, region.id, victim.page, victim.used});
  } else {
    const GranuleId granule = pages_.fail_fill(region, victim.page, to, loan.fresh, loan.mapped);
    if (loan.fresh) give_back(victim, granule);
  }
  page_.tiers.forget_idle(region, victim.page);
  // Its owner has gone, and left this page to the move.
  if (region.is.kept && region.on(to.place)->pages[victim.page].state() == PageState::resident)
    pages_.uncharge(region, victim.page, to.place);
  loan.to = nullptr;
}

void Lender::give_back(Victim &victim, GranuleId granule) noexcept {
  Loan &loan = victim.loan;
  PoolDevice &to = *loan.to;
  Region &region = *victim.region;
  constexpr uint64_t rest_ns = 1'000'000'000;  // the runtime refused the memory, or to map it
  to.no_loan_before_ns = env_.now_ns() + rest_ns;
  pages_.uncharge(region, victim.page, to.place);
  loan.memory->set_client(physical::client_unknown);  // some of the bytes may have come
  if (loan.mapped) {
    to.memory.note_stuck(victim.bytes);
  } else {
    to.memory.unclaim(region, victim.page, granule);
  }
}

}  // namespace weir::move
