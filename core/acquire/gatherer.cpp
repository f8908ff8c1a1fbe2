// SPDX-License-Identifier: Apache-2.0
//
// Granules for plans.

#include "core/acquire/gatherer.hpp"

#include "core/acquire/claims.hpp"
#include "core/acquire/early_fill.hpp"
#include "core/acquire/refused.hpp"
#include "core/acquire/remote_uses.hpp"
#include "core/move/evictor.hpp"
#include "core/move/filler.hpp"
#include "core/move/own_pages.hpp"

#include <algorithm>
#include <functional>

namespace weir::acquire {

Status Gatherer::check_budget(move::Plan &plan) {
  PoolDevice &device = *plan.device;
  const uint64_t all_held = device.memory.held_bytes(), unit = device.memory.page_size();
  const uint64_t held = all_held - std::min(all_held, plan.need.held_bytes);
  const uint64_t budget = device.memory.budget();
  const uint64_t available = budget > held ? budget - held : 0;
  const auto over_budget = [&](uint64_t asked, uint64_t there, Cause cause,
                               uint32_t client = UINT32_MAX) WEIR_HELD {
    if (!plan.terms.quiet) env_.events.tell(What::over_budget);
    return ErrorDetail{.tier = WEIR_TIER_DEVICE,
                       .device = device.device.id,
                       .asked = asked,
                       .available = there,
                       .cause = cause,
                       .client = client};
  };
  if (plan.need.set_bytes > available) {
    const bool lowered = budget < env_.config.devices[device.place].budget / unit * unit;
    const Cause cause = lowered                        ? Cause::device_lowered
                        : plan.need.set_bytes > budget ? Cause::device_budget
                                                       : Cause::device_held;
    return fail_later(
        lowered ? WEIR_ERROR_DEVICE_OOM : WEIR_ERROR_OVER_BUDGET,
        over_budget(plan.need.set_bytes, available, cause),
        refused::OverBudget{plan.need.set_bytes, budget, held, available, device.device.id});
  }
  // Quotas: what the set holds of each client at once.
  for (uint32_t client = 0; client < page_.accounts.clients(); ++client) {
    const uint64_t quota = page_.accounts.quota(client, device.place).limit();
    if (quota == UINT64_MAX) continue;
    uint64_t of_client = 0;
    for (const move::PlanPage &page : plan.pages) {
      if (page.region->owner.client == client) of_client += page.charged;
    }
    if (of_client <= quota) continue;
    return fail_later(
        WEIR_ERROR_OVER_BUDGET, over_budget(of_client, quota, Cause::device_quota, client),
        refused::OverQuota{page_.accounts.quoted(client), of_client, quota, device.device.id});
  }
  return {};
}

Status Gatherer::make_room(Releasable &lock, PoolDevice &device, const Wanted &wanted,
                           EarlyFill &early, uint32_t *barren) {
  const bool quiet = wanted.all_or_nothing;
  // The carrier's bounce memory is charged to no client, so giving it back makes no room in a quota.
  if (wanted.client == UINT32_MAX && others_.idle.give_bounce_back(lock, device)) return {};
  if (wanted.client != UINT32_MAX && move::list_own(env_, lock, *device.policy, wanted.client))
    return {};
  std::pmr::vector<PageRef> victims(env_.memory);
  victims.reserve(64);
  // What is nobody's goes first, and alone: it may be enough.
  Wanted disposable = wanted;
  disposable.disposable_only = true;
  if (device.policy->any_disposable()) device.policy->choose(disposable, &victims);
  // While HOST is short a dirty page costs a write below it: what can be dropped goes first then.
  Wanted clean = wanted;
  clean.clean_only = true;
  clean.most_looks = 1024;
  if (victims.empty() && others_.host_room.is_short()) device.policy->choose(clean, &victims);
  if (victims.empty()) device.policy->choose(wanted, &victims);
  if (!victims.empty()) {
    Status why;
    const WaitScope waits(Wait::eviction);
    if (evictor_.evict(lock, device, victims, false, &why, &early) != 0) {
      *barren = 0;
      if (!quiet) {
        for (const PageRef &victim : victims) others_.prefetcher.note_evicted(victim, device);
      }
      return {};
    }
    // Pages that stayed because they are wanted are no failure: there are others.
    if (++*barren < (why.ok() ? 32U : 3U)) return {};
    // What another thread is taking out was nobody's, or has a place to go to: these had none.
    constexpr uint32_t most_waits = 64;
    if (device.in_flight != 0 && !quiet && *barren < most_waits) {
      env_.sync.changed.wait(lock);
      return {};
    }
    return why.ok() ? Status(WEIR_ERROR_WOULD_BLOCK) : why;
  }
  // Somebody's drain or fill ends soon, whatever other leases do; and so does a prefetch that holds granules, which itself
  // waits for no other.
  if (device.in_flight != 0 || (device.gathering != 0 && !quiet)) {
    const WaitScope waits(Wait::eviction, device.evictions.last_round());
    env_.sync.changed.wait(lock);
    return {};
  }
  return Status(WEIR_ERROR_WOULD_BLOCK);
}

Status Gatherer::claim_page(move::Plan &plan, move::PlanPage &page, Short *what) {
  *what = Short::quota;
  Charge charge =
      page_.accounts.charge(page.region->owner.client, plan.device->place, page.charged);
  if (!charge) return {};
  const size_t doomed = plan.doomed.size();
  Status claimed;
  const auto claim = [&]() WEIR_HELD {
    claimed = plan.device->memory.claim(*page.region, page.page, &plan, &plan.doomed,
                                        &page.memory.granule, &page.memory.joined);
    return page.memory.granule != physical::no_granule;
  };
  *what = charge.pay_for(claim) ? Short::nothing : Short::memory;
  if (*what != Short::nothing) plan.doomed.resize(doomed);
  return claimed;
}

Status Gatherer::gather(Releasable &lock, move::Plan &plan) {
  PoolDevice &device = *plan.device;
  // The background evicts when this has ended: beside it, it would take what the set is about to take, and then what has just come.
  ++device.making_room;
  const AtEnd made_room([&]() WEIR_HELD {
    --device.making_room;
    if (!env_.config.background || device.memory.room() >= device.memory.low_water()) return;
    env_.sync.wakes.evictor.notify_all();
    env_.sync.wakes.prefetcher.notify_all();  // what was spilled may go to neighbours
  });
  uint32_t barren = 0;
  // Others may be faster to take what was made free: not for ever.
  constexpr uint32_t most_compactions = 4;
  uint32_t compactions = 0;
  bool packed = false;
  device.policy->reserve(plan.pages.size());
  // Extents of different sizes fit best with the largest first.
  if (!device.vmm()) std::ranges::stable_sort(plan.pages, std::greater{}, &move::PlanPage::bytes);
  EarlyFill early(*this, filler_, claims_, plan);
  while (move::PlanPage *page = early.wanting()) {
    WEIR_TRY(plan.check_device());  // it may be lost, or leaving, since the lock was dropped
    Wanted wanted;
    wanted.not_before = plan.terms.not_before;
    wanted.keep_prefetched = wanted.all_or_nothing = plan.terms.quiet;
    wanted.given_up_only = plan.terms.planned;
    Short what = Short::nothing;
    WEIR_TRY(claim_page(plan, *page, &what));
    if (what == Short::nothing) {
      early.note(*page);
      continue;
    }
    if (early.due()) {
      early.bring(lock);
      if (early.failed()) return Status(WEIR_NOT_READY);
      continue;
    }
    if (what == Short::memory) {
      if (!device.vmm()) {
        // What was moved a moment ago is nearer than a victim, and moving than evicting.
        if (others_.relocator.sweep_limbo(device)) continue;
        if (!plan.terms.quiet && compactions++ < most_compactions &&
            others_.relocator.compact_for(lock, device, page->bytes, false))
          continue;
        if (!plan.terms.quiet && others_.relocator.await_limbo(lock, device)) continue;
      }
      const uint64_t room = device.memory.room();
      wanted.bytes = std::max(page->bytes, early.left() > room ? early.left() - room : 0);
    } else {
      wanted.client = page->region->owner.client;
      wanted.bytes = page->charged;
    }
    const uint64_t generation = device.evictions.total();
    const Status made = make_room(lock, device, wanted, early, &barren);
    if (early.failed()) return Status(WEIR_NOT_READY);
    // The lock was dropped: a prefetch may have brought what is wanted here, and the set's own claim keeps it there.
    page = early.wanting();
    if (page != nullptr &&
        (!made.ok() ? !claims_.still_stands(plan) : !claims_.still_absent(plan, *page)))
      return Status(WEIR_NOT_READY);
    if (!made && page != nullptr) {
      // Nothing can leave. What small buffers and parts of large ones do not fill is all there is left.
      if (plan.terms.quiet || packed || wanted.client != UINT32_MAX) return made;
      packed = true;
      // Whether it moved anything or not, try again: the lock was dropped, and a release meanwhile has woken no thread for this set.
      (void)others_.relocator.compact_for(lock, device, wanted.bytes, true);
      continue;
    }
    if (plan.terms.quiet && device.evictions.total() == generation)
      return Status(WEIR_ERROR_WOULD_BLOCK);
  }
  return {};
}

bool Gatherer::give_way(Releasable &lock, move::Plan &plan, PoolDevice &device) {
  if (plan.device == &device) return false;
  if (plan.remote != nullptr && (plan.not_there & device.bit()) == 0) {
    plan.not_there |= device.bit();
    for (const auto &part : plan.remote->plans) {
      if (part->device == &device) return true;
    }
  }
  std::pmr::vector<PageRef> pages(env_.memory);
  for (const move::PlanItem &item : plan.items) {
    Region &region = *item.region;
    const Residence *there = region.shards == nullptr ? region.on(device.place) : nullptr;
    for (uint32_t p = item.first; there != nullptr && p <= item.last; ++p) {
      if (there->pages[p].state() == PageState::resident)
        pages.push_back(PageRef{region.id, p, page_.regions.generation(region)});
    }
  }
  Status why;
  return !pages.empty() && evictor_.evict(lock, device, pages, false, &why) != 0;
}

}  // namespace weir::acquire
