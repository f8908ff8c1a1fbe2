// SPDX-License-Identifier: Apache-2.0
//
// Ordering and granting.

#include "core/acquire/grants.hpp"

#include <algorithm>
#include <optional>

namespace weir::acquire {

void Grants::gather_waits(move::Plan &plan) {
  plan.waits.clear();
  const auto gather = [this, &plan](move::Plan &from) WEIR_HELD {
    for (const move::PlanItem &item : from.items)
      lease_.history.gather(item, item.writes(), &plan.waits);
    from.each([&plan](const move::Plan &part) {
      for (const move::PlanPage &page : part.pages) {
        if (part.device == nullptr) break;
        const Stamp ready = page.region->on(part.place())->pages[page.page].ready;
        if (ready) plan.waits.push_back(ready);
      }
      if (part.work && part.fill.ready) plan.waits.push_back(part.fill.ready);
    });
  };
  gather(plan);
  for (const auto &part : remote_parts(plan)) gather(*part);
  lease::History::keep_latest(&plan.waits);
}

Status Grants::enqueue_waits(const move::Plan &plan) noexcept {
  for (const Stamp stamp : plan.waits) {
    if (plan.stream != nullptr && plan.stream->device != nullptr) {
      WEIR_TRY(env_.streams.enqueue_wait(*plan.stream, stamp));
    } else {
      WEIR_TRY(env_.streams.wait(stamp, UINT64_MAX));
    }
  }
  return {};
}

void Grants::await_copies(Releasable &lock, const move::Plan &plan) {
  const auto busy = [](const move::PlanItem &item) {
    const auto pages = item.region->pages.begin();
    return item.writes() && std::any_of(pages + item.first, pages + item.last + 1,
                                        [](const Page &page) { return page.busy() != 0; });
  };
  while (std::any_of(plan.items.begin(), plan.items.end(), busy)) {
    const WaitScope waits(Wait::conflict);
    env_.sync.changed.wait(lock);
  }
}

std::pmr::vector<uint32_t> Grants::versions(const move::Plan &plan) {
  std::pmr::vector<uint32_t> latest(env_.memory);
  for (const move::PlanItem &item : plan.items) {
    if (!item.writes()) continue;
    for (uint32_t p = item.first; p <= item.last; ++p)
      latest.push_back(item.region->pages[p].latest());
  }
  return latest;
}

bool Grants::writes_stand(const move::Plan &plan,
                          const std::pmr::vector<uint32_t> &before) noexcept {
  size_t i = 0;
  for (const move::PlanItem &item : plan.items) {
    if (!item.writes()) continue;
    const bool discards = item.mode == WEIR_DISCARD_WRITE && item.whole;
    for (uint32_t p = item.first; p <= item.last; ++p, ++i) {
      const uint32_t now = item.region->pages[p].latest();
      if (!discards && now != before[i] && (now & written_bit(plan, *item.region, p)) == 0)
        return false;
    }
  }
  return true;
}

uint32_t Grants::written_bit(const move::Plan &plan, const Region &region, uint32_t page) noexcept {
  if (plan.device == nullptr) return page::host_bit;
  return region.shards != nullptr ? uint32_t{1} << region.home_of(page) : plan.device->bit();
}

Status Grants::order_unlocked(Releasable &lock, move::Plan &plan, bool *stands) {
  // On the CPU a claim of a whole buffer alone does not keep what is no version yet.
  const auto count = [&](int delta) {
    if (plan.device != nullptr) return;
    for (const move::PlanItem &item : plan.items)
      lease_.leases.count_pages(*item.region, item.begin, item.end, delta);
  };
  const std::pmr::vector<uint32_t> before = versions(plan);
  count(1);
  const Status status = lock.unlocked([&] {
    env_.sync.points.at("acquire.order");
    return enqueue_waits(plan);
  });
  if (status) await_copies(lock, plan);
  count(-1);
  WEIR_TRY(status);
  *stands = writes_stand(plan, before);
  if (plan.device == nullptr || !*stands) return {};
  for (const auto &part : remote_parts(plan)) await_copies(lock, *part);
  WEIR_TRY(plan.try_each([](move::Plan &part) { return part.check_device(); }));
  WEIR_TRY(plan.try_each([this](move::Plan &part) WEIR_HELD { return claims_.check_lost(part); }));
  *stands = remote_.stand(plan);
  return {};
}

void Grants::drop_all(move::Plan &plan) noexcept {
  remote_.drop(plan);
  claims_.drop(plan);
}

Status Grants::order_after_past(Releasable &lock, move::Plan &plan, bool *again) {
  *again = false;
  Status waits;
  bool stands = true;
  try {
    gather_waits(plan);
    if (!plan.waits.empty()) waits = order_unlocked(lock, plan, &stands);
    const size_t beside = plan.remote != nullptr ? plan.remote->asked.size() : 0;
    if (waits && stands && (plan.remote != nullptr || plan.sharded()))
      lease_.remote_writes.reserve(plan.items.size() + beside);
  } catch (...) {
    drop_all(plan);
    throw;
  }
  if (waits && stands) return {};
  *again = !stands;
  const KeepError keep;
  if (plan.device != nullptr && waits.code() == WEIR_ERROR_DEVICE_LOST) {
    PoolDevice *lost = lock.unlocked([&] { return &losses_.lost_in(*plan.device); });
    *again = lost != plan.device && !lost->lost();
    losses_.note(*lost, waits);
  }
  drop_all(plan);
  return *again ? Status{} : waits;
}

void Grants::commit_part(move::Plan &plan) noexcept {
  plan.each([this](const move::Plan &part) WEIR_HELD {
    for (const move::PlanPage &page : part.pages) {
      if (!page.region->on(part.place())->pages[page.page].queued)
        pages_.offer(*page.region, page.page, *part.device);
    }
  });
  // What is used from afar leaves the hit path to the device on which it is.
  std::optional<uint8_t> place;
  if (plan.device != nullptr && !plan.terms.in_place) place = plan.place();
  for (move::PlanItem &item : plan.items) {
    Region &region = *item.region;
    region.leased_at(env_.ticks.now());
    if (item.virgin) page_.buffers.hot(item.buffer).set_flags(0, Word::virgin);
    if (item.writes()) {
      const uint32_t last = region.shape.page_at(item.base + item.end - 1);
      for (uint32_t p = region.shape.page_at(item.base + item.begin); p <= last; ++p)
        page_.tiers.invalidate(region, p, written_bit(plan, region, p));
    }
    if (item.whole) lease_.history.grant_whole(item.buffer, item.writes(), plan.stream);
    prefetcher_.note_use(item.buffer, item.begin, item.end);
    pages_.refresh_word(item.buffer, region, item.base, item.size,
                        lease_.history.pending(item.buffer),
                        {place, item.whole ? Word::counted(item.mode) : 0});
    env_.events.tell(item.missed ? What::miss : What::hit);
    ++env_.gauges.granted;
  }
}

void Grants::commit(move::Plan &plan, const Lease *lease) noexcept {
  const auto note = [&](const move::PlanItem &item) WEIR_HELD {
    if (!item.writes()) return;
    lease_.remote_writes.note(
        {lease, item.buffer, item.generation, item.begin, item.end, &plan.device->device});
  };
  for (const move::PlanItem &item : plan.items) {
    if (plan.device != nullptr && item.region->shards != nullptr) note(item);
  }
  for (const auto &part : remote_parts(plan)) {
    for (const move::PlanItem &item : part->items) note(item);
    commit_part(*part);
    env_.events.tell(What::remote_use, part->items.size());
  }
  commit_part(plan);
}

void Grants::fill_lease(move::Plan &plan, weir_use *uses, size_t count, Lease *lease) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t index = 0;
    (void)page_.buffers.find(uses[i].buffer, &index);
    const page::Target where = page_.buffers.target(index);
    const Region &region = *where.region;
    const uint64_t start =
        plan.device != nullptr
            ? address_on(*where.region, remote_.place_in(plan, index)) + where.base
        : region.host.registered != nullptr ? reinterpret_cast<uint64_t>(region.host.registered)
                                            : reinterpret_cast<uint64_t>(region.host.alias);
    uses[i].address = start + uses[i].offset;
  }
  const size_t items = (plan.remote != nullptr ? plan.remote->asked : plan.items).size();
  // Only now does the record count as a lease: release looks at `count` under the timeline's lock.
  const Guard hold(plan.stream->timeline.lock);
  if (items > Lease::inline_items) lease->more.resize(items);
  lease->count = static_cast<uint32_t>(items);
  LeaseItem *next = lease->items();
  const auto list = [&next](const move::Plan &part) {
    for (const move::PlanItem &item : part.items) {
      const bool remote =
          part.terms.in_place || (item.region->shards != nullptr && part.device != nullptr);
      const LeaseKind kinds[] = {LeaseKind::partial, LeaseKind::whole, LeaseKind::partial_remote,
                                 LeaseKind::whole_remote};
      const LeaseKind kind = kinds[(remote ? 2 : 0) + (item.whole ? 1 : 0)];
      *next++ = LeaseItem{item.begin, item.end, item.buffer, item.mode, kind};
    }
  };
  list(plan);
  for (const auto &part : remote_parts(plan)) list(*part);
}

void Grants::leave_latest(move::Plan &plan) noexcept {
  const move::PlanItem &item = plan.items[0];
  Region &region = *item.region;
  const uint64_t word = page_.buffers.hot(item.buffer).word.load(std::memory_order_relaxed);
  const uint64_t own = item.writes() ? 0 : Word::reader;
  const bool leased =
      (word & (Word::partial | Word::part)) != 0 || (word & Word::readers_mask) > own;
  for (uint32_t p = item.first; p <= item.last; ++p) {
    page_.tiers.end_version(region, p);
    pages_.written(region, p, written_bit(plan, region, p));
    if (region.pages[p].leases == 0 && !leased) page_.tiers.free_host(region, p);
  }
  page_.buffers.hot(item.buffer).set_flags(0, Word::virgin);
}

}  // namespace weir::acquire
