// SPDX-License-Identifier: Apache-2.0
//
// Room: how it is made (granules, then victims); who may is Admission's. A thread that has to wait for leases of others holds
// nothing meanwhile.

#include "core/residency/plan.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

namespace weir::residency {

Status Engine::wait_changed(Releasable &lock, const AcquireOptions &options, uint64_t deadline_ns) {
  if (lock_.stopping() || (options.cancelled != nullptr && options.cancelled->load()))
    return fail(WEIR_ERROR_CANCELLED, "the acquire was cancelled");
  if (deadline_ns == UINT64_MAX) {
    changed_.wait(lock);
    return {};
  }
  const uint64_t now = now_ns();
  if (now >= deadline_ns) return Status(WEIR_ERROR_TIMEOUT);
  // Some libraries add it to a time of their own.
  constexpr uint64_t most_ns = uint64_t{1} << 60U;
  changed_.wait_for(lock, std::chrono::nanoseconds(std::min(deadline_ns - now, most_ns)));
  return {};
}

void Engine::wake_all() {
  Locked lock(lock_);
  changed_.notify_all();
}

/// No page is on the move, and nothing is to be prefetched.
bool Engine::idle() noexcept {
  if (recompressor_ != nullptr && recompressor_->working()) return false;
  if (prefetcher_.pending()) return false;
  return !demoter_.working() &&
         std::ranges::all_of(devices_, [](const auto &each) { return each->in_flight == 0; });
}

void Engine::wait_idle() {
  {
    Locked lock(lock_);
    while (!idle()) changed_.wait(lock);
    // Slots of HOST whose copies up are still on their way stay charged until these have ended.
    while (const auto busy = tiers_.retired(false)) {
      if (!lock.unlocked([&] { return streams_.wait(busy->one(), UINT64_MAX); })) return;
      (void)tiers_.sweep_retired();
    }
  }
  // So do places in STORAGE that a thread of the pool's is overwriting.
  scrub_turns_.finish(true, true);
}

Status Engine::check_budget(Plan &plan) {
  PoolDevice &device = *plan.device;
  const uint64_t all_held = device.memory.held_bytes(), unit = device.memory.page_size();
  const uint64_t held = all_held - std::min(all_held, plan.held_in_set);
  const uint64_t budget = device.memory.budget();
  const uint64_t available = budget > held ? budget - held : 0;
  ErrorDetail detail;
  detail.tier = WEIR_TIER_DEVICE;
  detail.device = device.device.id;
  detail.asked = plan.set_bytes;
  if (plan.set_bytes > available) {
    detail.available = available;
    const bool lowered = budget < config_.devices[device.place].budget / unit * unit;
    if (!plan.quiet) events_.tell(What::over_budget);
    return fail(lowered ? WEIR_ERROR_DEVICE_OOM : WEIR_ERROR_OVER_BUDGET, detail,
                "the set needs %llu bytes of device %u in whole pages; its budget is %llu, %llu of "
                "it held: short of %llu",
                llu(plan.set_bytes), device.device.id, llu(budget), llu(held),
                llu(plan.set_bytes - available));
  }
  // Quotas: what the set holds of each client at once.
  for (uint32_t client = 0; client < accounts_.clients(); ++client) {
    const uint64_t quota = accounts_.quota(client, device.place).limit();
    if (quota == UINT64_MAX) continue;
    uint64_t of_client = 0;
    for (const PlanPage &page : plan.pages) {
      if (page.region->client == client) of_client += page.charged;
    }
    if (of_client <= quota) continue;
    detail.asked = of_client;
    detail.available = quota;
    if (!plan.quiet) events_.tell(What::over_budget);
    return fail(WEIR_ERROR_OVER_BUDGET, detail,
                "client \"%s\": the set needs %llu bytes of device %u in whole pages, its quota is "
                "%llu: short of %llu",
                accounts_.name(client), llu(of_client), device.device.id, llu(quota),
                llu(of_client - quota));
  }
  return {};
}

/// Evicts up to wanted.bytes. Success means that something changed and it is worth trying again. `barren`
/// counts rounds that freed nothing, so that a copy that always fails ends in its error.
Status Engine::make_room(Releasable &lock, PoolDevice &device, Wanted wanted, EarlyFill &early,
                         uint32_t *barren) {
  const bool quiet = wanted.all_or_nothing;
  // The carrier's bounce memory is charged to no client, so giving it back makes no room in a quota.
  if (wanted.client == UINT32_MAX && give_bounce_back(lock, device)) return {};
  std::pmr::vector<PageRef> victims(&memory_);
  victims.reserve(64);
  // What is nobody's goes first, and alone: it may be enough.
  if (device.policy->any_disposable()) {
    wanted.disposable_only = true;
    device.policy->choose(wanted, &victims);
    wanted.disposable_only = false;
  }
  // While HOST is short a dirty page costs a write below it: what can be dropped goes first then.
  if (victims.empty() && host_room_.is_short()) {
    wanted.clean_only = true;
    wanted.most_looks = 1024;
    device.policy->choose(wanted, &victims);
    wanted.clean_only = false;
    wanted.most_looks = SIZE_MAX;
  }
  if (victims.empty()) device.policy->choose(wanted, &victims);
  if (!victims.empty()) {
    Status why;
    if (evict(lock, device, victims, false, &why, &early) != 0) {
      *barren = 0;
      if (!quiet) {
        for (const PageRef &victim : victims) prefetcher_.note_evicted(victim, device);
      }
      return {};
    }
    // Pages that stayed because somebody wants them are no failure: there are others.
    if (++*barren < (why.ok() ? 32U : 3U)) return {};
    // What another thread is taking out was nobody's, or has a place to go to: these had none.
    constexpr uint32_t most_waits = 64;
    if (device.in_flight != 0 && !quiet && *barren < most_waits) {
      changed_.wait(lock);
      return {};
    }
    return why.ok() ? Status(WEIR_ERROR_WOULD_BLOCK) : why;
  }
  // Somebody's drain or fill ends soon, whatever other leases do; and so does a prefetch that holds granules, which itself
  // waits for no other.
  if (device.in_flight != 0 || (device.gathering != 0 && !quiet)) {
    changed_.wait(lock);
    return {};
  }
  return Status(WEIR_ERROR_WOULD_BLOCK);
}

/// A granule for a page of the plan, charged to its client. Throws std::bad_alloc with nothing changed.
Status Engine::claim_page(Plan &plan, PlanPage &page, Short *what) {
  *what = Short::quota;
  Charge charge = accounts_.charge(page.region->client, plan.device->place, page.charged);
  if (!charge) return {};
  const size_t doomed = plan.doomed.size();
  Status claimed;
  const auto claim = [&]() WEIR_HELD {
    claimed = plan.device->memory.claim(*page.region, page.page, &plan, &plan.doomed, &page.granule,
                                        &page.joined);
    return page.granule != physical::no_granule;
  };
  *what = charge.pay_for(claim) ? Short::nothing : Short::memory;
  if (*what != Short::nothing) plan.doomed.resize(doomed);
  return claimed;
}

/// Claims a granule for every page that has none. On failure the caller gives back what was claimed.
Status Engine::gather(Releasable &lock, Plan &plan) {
  PoolDevice &device = *plan.device;
  uint32_t barren = 0;
  // Others may be faster to take what was made free: not for ever.
  constexpr uint32_t most_compactions = 4;
  uint32_t compactions = 0;
  bool packed = false;
  device.policy->reserve(plan.pages.size());
  // Extents of different sizes fit best with the largest first.
  if (!device.vmm()) std::ranges::stable_sort(plan.pages, std::greater{}, &PlanPage::bytes);
  EarlyFill early(*this, plan);
  while (PlanPage *page = early.wanting()) {
    WEIR_TRY(plan.check_device());  // it may be lost, or leaving, since the lock was dropped
    Wanted wanted;
    wanted.not_before = plan.not_before;
    wanted.keep_prefetched = wanted.all_or_nothing = plan.quiet;
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
        if (relocator_.sweep_limbo(device)) continue;
        if (!plan.quiet && compactions++ < most_compactions &&
            relocator_.compact_for(lock, device, page->bytes, false))
          continue;
        if (!plan.quiet && relocator_.await_limbo(lock, device)) continue;
      }
      const uint64_t room = device.memory.room();
      wanted.bytes = std::max(page->bytes, early.left() > room ? early.left() - room : 0);
    } else {
      wanted.client = page->region->client;
      wanted.bytes = page->charged;
    }
    const uint64_t generation = device.evictions.total();
    const Status made = make_room(lock, device, wanted, early, &barren);
    if (early.failed()) return Status(WEIR_NOT_READY);
    // The lock was dropped: a prefetch may have brought what is wanted here, and the set's own claim keeps it there.
    page = early.wanting();
    if (page != nullptr && (!made.ok() ? !still_stands(plan) : !still_absent(plan, *page)))
      return Status(WEIR_NOT_READY);
    if (!made && page != nullptr) {
      // Nothing can leave. What small buffers and parts of large ones do not fill is all there is left.
      if (plan.quiet || packed || wanted.client != UINT32_MAX) return made;
      packed = true;
      // Whatever came of it: the lock was dropped, and a release that came meanwhile has woken nobody who waits for it.
      (void)relocator_.compact_for(lock, device, wanted.bytes, true);
      continue;
    }
    if (plan.quiet && device.evictions.total() == generation) return Status(WEIR_ERROR_WOULD_BLOCK);
  }
  if (config_.background && device.memory.room() < device.memory.low_water()) work_.notify_all();
  return {};
}

void Engine::return_granules(Plan &plan) noexcept {
  PoolDevice &device = *plan.device;
  for (PlanPage &page : plan.pages) {
    if (page.granule == physical::no_granule || page.filling) continue;
    uncharge(*page.region, page.page, device.place);
    device.memory.unclaim(*page.region, page.page,
                          std::exchange(page.granule, physical::no_granule));
  }
}

}  // namespace weir::residency
