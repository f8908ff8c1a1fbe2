// SPDX-License-Identifier: Apache-2.0
//
// What plans are about, and counting it in and out.

#include "core/acquire/claims.hpp"

#include "core/acquire/refused.hpp"

#include <algorithm>
#include <utility>

namespace weir::acquire {

uint64_t Claims::settled_word(uint32_t index) noexcept {
  std::atomic<uint64_t> &word = page_.buffers.hot(index).word;
  constexpr uint64_t open = Word::virgin | Word::resident;
  if ((word.load(std::memory_order_relaxed) & open) == open)
    word.fetch_and(~Word::resident, std::memory_order_acq_rel);
  return word.load(std::memory_order_relaxed);
}

Status Claims::resolve(move::Plan &plan) {
  for (move::PlanItem &item : plan.items) {
    const uint64_t word = settled_word(item.buffer);
    if ((word & (Word::alive | Word::generation_mask)) != (Word::alive | item.generation))
      return of_use(item.use, fail(WEIR_ERROR_INVALID_HANDLE,
                                   "the buffer of uses[%u] was destroyed", item.use));
    const page::Target where = page_.buffers.target(item.buffer);
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
    WEIR_TRY(life_.make_residence(*item.region, *plan.device));
  }
  return {};
}

Status Claims::check_conflicts(move::Plan &plan) {
  if (plan.lease == nullptr) return {};  // brings bytes in for nobody in particular
  for (const move::PlanItem &item : plan.items) {
    const ClaimScope scope = plan.scope(*item.region);
    if (page_.buffers.hold_forbids(item.buffer, item.writes(), scope)) return fail_held(item);
    const lease::LeaseTable::Conflict other = lease_.leases.conflict(item, item.writes(), scope);
    if (other.end != 0) return fail_leased(item, other);
  }
  return {};
}

Status Claims::fail_held(const move::PlanItem &item) noexcept {
  env_.events.tell(What::conflict);
  return fail_later(
      WEIR_ERROR_LEASE_CONFLICT,
      {.use_index = item.use, .cause = Cause::hold, .buffer = page_.buffers.handle(item.buffer)},
      refused::Held{page_.buffers.quoted(item.buffer), item.use, item.writes()});
}

Status Claims::fail_leased(const move::PlanItem &item,
                           const lease::LeaseTable::Conflict &other) noexcept {
  env_.events.tell(What::conflict);
  return fail_later(
      WEIR_ERROR_LEASE_CONFLICT,
      {.use_index = item.use, .cause = Cause::lease, .buffer = page_.buffers.handle(item.buffer)},
      refused::Leased{page_.buffers.quoted(item.buffer), other, item.begin, item.end, item.use,
                      item.writes()});
}

bool Claims::scan_pages(move::Plan &plan) {
  bool busy = false;
  plan.pages.clear();
  plan.work = plan.absent = false;
  for (uint32_t i = 0; i < plan.items.size(); ++i) {
    move::PlanItem &item = plan.items[i];
    item.missed = item.zeroes() || item.brought;
    plan.work = plan.work || item.zeroes();
    for (uint32_t p = item.first; p <= item.last; ++p) {
      if (item.region->shards != nullptr && item.region->home_of(p) != plan.place()) continue;
      const page::Geometry &shape = item.region->shape;
      const uint64_t at = shape.offset(p);
      plan.pages.push_back({.region = item.region,
                            .page = p,
                            .item = i,
                            .discard = item.mode == WEIR_DISCARD_WRITE && !item.region->is.slab &&
                                       item.base + item.begin <= at &&
                                       at + shape.used_bytes(p) <= item.base + item.end,
                            .bytes = shape.granule_bytes(p),
                            .charged = shape.charged_bytes(p)});
    }
  }
  const auto key = [](const move::PlanPage &p) { return std::pair(p.region->id, p.page); };
  std::sort(plan.pages.begin(), plan.pages.end(),
            [&key](const move::PlanPage &a, const move::PlanPage &b) { return key(a) < key(b); });
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
  for (move::PlanPage &page : plan.pages) {
    Region &region = *page.region;
    const Page &copies = region.pages[page.page];
    page.latest = copies.latest();
    const DevicePage &here = region.on(plan.place())->pages[page.page];
    busy = pages_.note_waiter(region, page.page) || busy;
    if (!plan.terms.in_place && !plan.terms.lends)
      pages_.keep_borrowed(region, page.page, *plan.device);
    page.absent = here.state() == PageState::absent;
    page.stale = here.state() == PageState::resident &&
                 (copies.latest() & plan.device->bit()) == 0 && !page.discard &&
                 !(region.is.slab && copies.latest() == 0);
    plan.absent = plan.absent || page.absent;
    if (page.absent || page.stale) {
      plan.work = true;
      plan.items[page.item].missed = true;
    }
  }
  plan.count_need(&busy);
  return busy;
}

Status Claims::take(move::Plan &plan) {
  const auto take = [&]() WEIR_HELD -> Status {
    for (move::PlanItem &item : plan.items) {
      item.claimed = lease_.leases.take(item, item.mode, plan.scope(*item.region), plan.lease);
      if (!item.claimed)
        return of_use(item.use,
                      fail(WEIR_ERROR_LEASE_CONFLICT, "uses[%u]: leased meanwhile", item.use));
    }
    return {};
  };
  const Status taken = or_undo(take, [&]() WEIR_HELD { drop(plan); });
  if (!taken) WEIR_TRY(check_conflicts(plan));  // which says more of it
  return taken;
}

void Claims::drop(move::Plan &plan) noexcept {
  for (move::PlanItem &item : plan.items) {
    if (std::exchange(item.claimed, false)) lease_.leases.drop(item, item.mode, plan.lease);
  }
  env_.sync.changed.notify_all();
}

Status Claims::check_lost(const move::Plan &plan) {
  for (const move::PlanPage &page : plan.pages) {
    if (!page.region->pages[page.page].lost() || page.discard) continue;
    const move::PlanItem &item = plan.items[page.item];
    return page_.buffers.fail_lost(item.buffer, page.page, item.use);
  }
  return {};
}

bool Claims::still_absent(const move::Plan &plan, const move::PlanPage &page) noexcept {
  const Residence *here = page.region->on(plan.place());
  return here != nullptr && here->pages[page.page].state() == PageState::absent;
}

bool Claims::still_stands(move::Plan &plan) {
  bool same = true;
  // Another reader of the same pages may have been faster.
  plan.each([&same](const move::Plan &part) {
    const auto stands = [&part](const move::PlanPage &page) {
      const PageState state = page.region->on(part.place())->pages[page.page].state();
      const Page &copies = page.region->pages[page.page];
      return copies.busy() == 0 && copies.latest() == page.latest &&
             state == (page.absent ? PageState::absent : PageState::resident);
    };
    // A device that has left, or is lost, has none of these any more.
    same = same && part.check_device().ok() &&
           std::all_of(part.pages.begin(), part.pages.end(), stands);
  });
  if (!same || plan.lease != nullptr) return same;
  // What no lease keeps in place may have been moved.
  return std::all_of(plan.items.begin(), plan.items.end(),
                     [this](const move::PlanItem &item) WEIR_HELD {
                       if (!page_.buffers.hot(item.buffer).lives(item.generation)) return false;
                       const page::Target where = page_.buffers.target(item.buffer);
                       return where.region == item.region && where.base == item.base;
                     });
}

Status Claims::check_reach(const move::Plan &plan, const move::PlanItem &item) {
  Region &region = *item.region;
  const page::Shards &shards = *region.shards;
  const PoolDevice &device = *plan.device;
  const ErrorDetail detail{.use_index = item.use};
  if (shards.stranded)
    return fail(WEIR_ERROR_DEVICE_LOST, detail,
                "uses[%u]: a part of the buffer was mapped on a device that is lost, and nothing "
                "can take its place",
                item.use);
  if (shards.has(device.place)) return {};
  for (uint32_t p = item.first; p <= item.last; ++p) {
    const uint8_t place = shards.place_of(p);
    const Residence &there = *region.on(place);
    const bool mapped = there.pages[p].state() == PageState::resident;
    if (env_.config.routes.direct(place, device.place) &&
        (!mapped || pages_.reads_directly(device, there, p)))
      continue;
    return fail(WEIR_ERROR_NOT_SUPPORTED, detail,
                "uses[%u]: device %u does not reach page %u of the sharded buffer on device %u%s",
                item.use, device.device.id, p, page_.devices[place]->device.id,
                env_.config.routes.direct(place, device.place)
                    ? ": it was mapped before the device joined the pool"
                    : "");
  }
  return {};
}

Status Claims::spread(move::Plan &plan) {
  plan.others.clear();
  if (!plan.sharded()) return {};
  plan.others.reserve(page_.devices.size());  // they are pointed to
  for (uint32_t i = 0; i < plan.items.size(); ++i) {
    const move::PlanItem &item = plan.items[i];
    if (item.region->shards == nullptr) continue;
    WEIR_TRY(check_reach(plan, item));
    uint32_t places = 0;
    for (uint32_t p = item.first; p <= item.last; ++p)
      places |= uint32_t{1} << item.region->home_of(p);
    for (const auto &device : page_.devices) {
      if ((places & device->bit()) == 0 || device->place == plan.place()) continue;
      auto other = std::ranges::find(plan.others, device.get(), &move::Plan::device);
      if (other == plan.others.end()) {
        plan.others.emplace_back(env_.memory, plan.stream, device.get());
        other = std::prev(plan.others.end());
        other->lease = plan.lease;
        other->terms.quiet = plan.terms.quiet;
        other->terms.not_before = plan.terms.not_before;
      }
      other->items.push_back(item);
      other->items.back().claimed = false;
      other->items.back().of = i;
    }
  }
  return {};
}

bool Claims::scan_all(move::Plan &plan) {
  bool any = false;
  plan.each([&](move::Plan &part) WEIR_HELD { any = scan_pages(part) || any; });
  for (const move::Plan &other : plan.others) {
    for (const move::PlanItem &item : other.items)
      plan.items[item.of].missed = plan.items[item.of].missed || item.missed;
  }
  return any;
}

}  // namespace weir::acquire
