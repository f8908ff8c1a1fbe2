// SPDX-License-Identifier: Apache-2.0
//
// Claims: what forbids a lease, and counting one in and out. All under the pool's lock; the words are changed
// by compare-and-swap all the same, because the hit path does not take it.

#include "core/residency/plan.hpp"

#include <algorithm>

namespace weir::residency {

/// The word of a buffer, which stays virgin if it is: the hit path grants its first lease no more.
uint64_t Engine::settled_word(uint32_t index) noexcept {
  std::atomic<uint64_t> &word = buffers_.hot(index).word;
  constexpr uint64_t open = Word::virgin | Word::resident;
  if ((word.load(std::memory_order_relaxed) & open) == open)
    word.fetch_and(~Word::resident, std::memory_order_acq_rel);
  return word.load(std::memory_order_relaxed);
}

// Buffers may have died, moved or changed since the plan was made: everything derived is derived again.
Status Engine::resolve(Plan &plan) {
  for (PlanItem &item : plan.items) {
    const uint64_t word = settled_word(item.buffer);
    if ((word & (Word::alive | Word::generation_mask)) != (Word::alive | item.generation))
      return of_use(item.use, fail(WEIR_ERROR_INVALID_HANDLE,
                                   "the buffer of uses[%u] was destroyed", item.use));
    const Target where = buffers_.target(item.buffer);
    item.region = where.region;
    item.base = where.base;
    item.size = where.size;
    item.whole = item.begin == 0 && item.end == item.size;
    item.virgin = (word & Word::virgin) != 0;
    item.first = where.region->shape.page_at(where.base + item.begin);
    item.last = where.region->shape.page_at(where.base + item.end - 1);
    if (item.zeroes()) {  // the whole place is zeroed, so all its pages are needed
      item.first = where.region->shape.page_at(where.base);
      item.last = where.region->shape.page_at(where.base + where.size - 1);
    }
    if (plan.device == nullptr || item.region->shards != nullptr) continue;
    WEIR_TRY(make_residence(*item.region, *plan.device));
  }
  return {};
}

Status Engine::check_conflicts(Plan &plan) {
  if (plan.lease == nullptr) return {};  // brings bytes in for nobody in particular
  for (const PlanItem &item : plan.items) {
    const ClaimScope scope = plan.scope(*item.region);
    const bool held = buffers_.hold_forbids(item.buffer, item.writes(), scope);
    if (!held && !leases_.conflicts(item, item.writes(), scope)) continue;
    events_.tell(What::conflict);
    return of_use(
        item.use,
        held ? fail(WEIR_ERROR_LEASE_CONFLICT, "uses[%u]: a hold on the buffer forbids %s",
                    item.use, item.writes() ? "writing here" : "reading")
             : fail(WEIR_ERROR_LEASE_CONFLICT,
                    "uses[%u]: an unreleased lease on bytes %llu..%llu forbids %s", item.use,
                    llu(item.begin), llu(item.end), item.writes() ? "writing" : "reading"));
  }
  return {};
}

// Lists every page of the set once, with what it lacks. *busy: another thread is working on one of them.
void Engine::scan_pages(Plan &plan, bool *busy) {
  *busy = false;
  plan.pages.clear();
  plan.work = plan.absent = false;
  for (uint32_t i = 0; i < plan.items.size(); ++i) {
    PlanItem &item = plan.items[i];
    item.missed = item.zeroes() || item.brought;
    plan.work = plan.work || item.zeroes();
    for (uint32_t p = item.first; p <= item.last; ++p) {
      if (item.region->shards != nullptr && item.region->home_of(p) != plan.place()) continue;
      const vm::Geometry &shape = item.region->shape;
      const uint64_t at = shape.offset(p);
      plan.pages.push_back({.region = item.region,
                            .page = p,
                            .item = i,
                            .discard = item.mode == WEIR_DISCARD_WRITE && !item.region->slab &&
                                       item.base + item.begin <= at &&
                                       at + shape.used_bytes(p) <= item.base + item.end,
                            .bytes = shape.granule_bytes(p),
                            .charged = shape.charged_bytes(p)});
    }
  }
  const auto key = [](const PlanPage &p) { return std::pair(p.region->id, p.page); };
  std::sort(plan.pages.begin(), plan.pages.end(),
            [&key](const PlanPage &a, const PlanPage &b) { return key(a) < key(b); });
  // Two items on one page: neither covers it alone.
  size_t kept = 0;
  for (size_t i = 0; i < plan.pages.size(); ++i) {
    if (kept > 0 && key(plan.pages[kept - 1]) == key(plan.pages[i])) {
      plan.pages[kept - 1].discard = false;
    } else {
      plan.pages[kept++] = plan.pages[i];
    }
  }
  plan.pages.resize(kept);
  for (PlanPage &page : plan.pages) {
    Region &region = *page.region;
    Page &copies = region.pages[page.page];
    page.latest = copies.latest();
    DevicePage &here = region.on(plan.place())->pages[page.page];
    if (copies.busy != 0) {
      for (auto &r : region.residences) r->pages[page.page].wanted = true;
      *busy = true;
    }
    if (!plan.in_place && !plan.lends) keep_borrowed(region, page.page, *plan.device);
    page.absent = here.state() == PageState::absent;
    page.stale = here.state() == PageState::resident &&
                 (copies.latest() & plan.device->bit()) == 0 && !page.discard &&
                 !(region.slab && copies.latest() == 0);
    plan.absent = plan.absent || page.absent;
    if (page.absent || page.stale) {
      plan.work = true;
      plan.items[page.item].missed = true;
    }
  }
  plan.count_need(busy);
}

void Plan::count_need(bool *busy) noexcept {
  set_bytes = need_bytes = held_in_set = 0;
  device->memory.begin_count();
  for (const PlanPage &page : pages) {
    const vm::Bundle *bundle = device->memory.bundle_of(*page.region, page.page);
    const uint64_t bytes = device->memory.count_granule(*page.region, page.page);
    const bool held = bundle != nullptr ? bundle->held != 0
                                        : page.region->held(page.page, place()) && !page.absent;
    set_bytes += bytes;
    if (held) held_in_set += bytes;
    if (page.absent && (bundle == nullptr || bundle->granule == physical::no_granule))
      need_bytes += bytes;
    *busy = *busy || (bundle != nullptr && bundle->maker != nullptr);
  }
}

/// Counts every item in. The hit path may have granted a conflicting lease since the check: then what was
/// counted is taken back, as it is before std::bad_alloc leaves here.
Status Engine::take_claims(Plan &plan) {
  const auto take = [&]() WEIR_HELD -> Status {
    for (PlanItem &item : plan.items) {
      item.claimed = leases_.take(item, item.mode, plan.scope(*item.region), plan.lease);
      if (!item.claimed)
        return of_use(item.use,
                      fail(WEIR_ERROR_LEASE_CONFLICT, "uses[%u]: leased meanwhile", item.use));
    }
    return {};
  };
  const Status taken = or_undo(take, [&]() WEIR_HELD { drop_claims(plan); });
  if (!taken) WEIR_TRY(check_conflicts(plan));  // which says more of it
  return taken;
}

void Engine::drop_claims(Plan &plan) noexcept {
  for (PlanItem &item : plan.items) {
    if (std::exchange(item.claimed, false)) leases_.drop(item, item.mode, plan.lease);
  }
  changed_.notify_all();
}

}  // namespace weir::residency
