// SPDX-License-Identifier: Apache-2.0
//
// Commit: the caller's stream is made to wait for what is still in flight; then versions change and flags are
// set. Enqueueing the waits is the last thing that can fail. It is done without the lock: a stream whose channel is full keeps
// the call for as long as its work takes. Everything is claimed by then, so that nothing that comes meanwhile is older.

#include "core/residency/remote.hpp"

#include <algorithm>

namespace weir::residency {

/// Under the lock: what the caller's stream has to wait for before any part of the set.
void Engine::gather_waits(Plan &plan) {
  plan.waits.clear();
  const auto gather = [this, &plan](Plan &from) WEIR_HELD {
    for (const PlanItem &item : from.items) history_.gather(item, item.writes(), &plan.waits);
    from.each([&plan](const Plan &part) {
      for (const PlanPage &page : part.pages) {
        if (part.device == nullptr) break;
        const Stamp ready = page.region->on(part.place())->pages[page.page].ready;
        if (ready) plan.waits.push_back(ready);
      }
      if (part.work && part.ready) plan.waits.push_back(part.ready);
    });
  };
  gather(plan);
  if (plan.remote != nullptr) {
    for (const auto &part : plan.remote->plans) gather(*part);
  }
  lease::History::keep_latest(&plan.waits);
}

/// Outside the lock.
Status Engine::enqueue_waits(const Plan &plan) noexcept {
  for (const Stamp stamp : plan.waits) {
    if (plan.stream != nullptr && plan.stream->device != nullptr) {
      WEIR_TRY(streams_.enqueue_wait(*plan.stream, stamp));
    } else {
      WEIR_TRY(streams_.wait(stamp, UINT64_MAX));
    }
  }
  return {};
}

/// The lock was dropped with everything claimed. A page that a write is about to make stale elsewhere may have come to be worked on
/// meanwhile: that ends by itself. What only sinks sees that it was overwritten.
void Engine::await_copies(Releasable &lock, const Plan &plan) {
  const auto busy = [](const PlanItem &item) {
    const auto pages = item.region->pages.begin();
    return item.writes() && std::any_of(pages + item.first, pages + item.last + 1,
                                        [](const Page &page) { return page.busy != 0; });
  };
  while (std::any_of(plan.items.begin(), plan.items.end(), busy)) changed_.wait(lock);
}

/// Page::latest of each page that the set is to write, in the order of items and pages.
std::pmr::vector<uint32_t> Engine::versions(const Plan &plan) {
  std::pmr::vector<uint32_t> latest(&memory_);
  for (const PlanItem &item : plan.items) {
    if (!item.writes()) continue;
    for (uint32_t p = item.first; p <= item.last; ++p)
      latest.push_back(item.region->pages[p].latest());
  }
  return latest;
}

/// Whether the set still has the latest version of every page that it is to write. weir_buffer_write may have written other bytes
/// of the page into another place's copy meanwhile: commit() would make that copy stale. A whole discard keeps no old bytes.
bool Engine::writes_stand(const Plan &plan, const std::pmr::vector<uint32_t> &before) noexcept {
  size_t i = 0;
  for (const PlanItem &item : plan.items) {
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

/// Where the set writes the page.
uint32_t Engine::written_bit(const Plan &plan, const Region &region, uint32_t page) noexcept {
  if (plan.device == nullptr) return vm::host_bit;
  return region.shards != nullptr ? uint32_t{1} << region.home_of(page) : plan.device->bit();
}

/// Enqueues the waits that have been gathered. Drops the lock meanwhile: the stream may be full, and take its time. On failure
/// what was claimed still is; *stands: whether the plan is as it was.
Status Engine::order_unlocked(Releasable &lock, Plan &plan, bool *stands) {
  // On the CPU a claim of a whole buffer alone does not keep what is no version yet.
  const auto count = [&](int delta) {
    if (plan.device != nullptr) return;
    for (const PlanItem &item : plan.items)
      leases_.count_pages(*item.region, item.begin, item.end, delta);
  };
  const std::pmr::vector<uint32_t> before = versions(plan);
  count(1);
  const Status status = lock.unlocked([&] {
    points.at("acquire.order");
    return enqueue_waits(plan);
  });
  if (status) await_copies(lock, plan);
  count(-1);
  WEIR_TRY(status);
  *stands = writes_stand(plan, before);
  if (plan.device == nullptr || !*stands) return {};
  if (plan.remote != nullptr) {
    for (const auto &part : plan.remote->plans) await_copies(lock, *part);
  }
  WEIR_TRY(plan.try_each([](Plan &part) { return part.check_device(); }));
  WEIR_TRY(plan.try_each([this](Plan &part) { return check_lost(part); }));
  *stands = remote_stands(plan);
  return {};
}

/// Makes the caller's stream wait for everything older. On failure nothing is leased any more. *again: another device was
/// lost, whose fences the stream was to wait for, or whose memory it was to use, or a page was written there, and everything is
/// to be looked at anew.
Status Engine::order_after_past(Releasable &lock, Plan &plan, bool *again) {
  *again = false;
  Status waits;
  bool stands = true;
  try {
    gather_waits(plan);
    if (!plan.waits.empty()) waits = order_unlocked(lock, plan, &stands);
    const size_t beside = plan.remote != nullptr ? plan.remote->asked.size() : 0;
    if (waits && stands && (plan.remote != nullptr || plan.sharded()))
      remote_writes_.reserve(plan.items.size() + beside);
  } catch (...) {
    drop_all(plan);
    throw;
  }
  if (waits && stands) return {};
  *again = !stands;
  const KeepError keep;
  if (plan.device != nullptr && waits.code() == WEIR_ERROR_DEVICE_LOST) {
    PoolDevice *lost = lock.unlocked([&] { return &lost_in(*plan.device); });
    *again = lost != plan.device && !lost->lost();
    note_loss(*lost, waits);
  }
  drop_all(plan);
  return *again ? Status{} : waits;
}

/// Sets what the hit path may rely on, from the pages as they are. Under the lock, with the buffer claimed.
void Engine::refresh_word(uint32_t index, Region &region, uint64_t base, uint64_t size) noexcept {
  uint64_t set = 0, clear = 0;
  bool pending = history_.pending(index);
  Residence *home = region.on(region.home);
  // A device that is to leave takes no hits: what is left of it must not be leased again. Nor do several devices at once.
  bool resident = home != nullptr && region.shards == nullptr && !device_at(region.home).leaving();
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
    if (state.ready && streams_.passed(state.ready)) state.ready = Stamp{};
    pending = pending || state.ready;
  }
  vm::Hot &hot = buffers_.hot(index);
  const uint64_t word = hot.word.load(std::memory_order_relaxed);
  if ((word & Word::virgin) != 0) resident = false;
  if (const Hold *hold = buffers_.hold_of(index)) {
    resident = resident && hold->kind != HoldKind::alone;
    sole = sole && hold->kind != HoldKind::read;
  }
  (resident ? set : clear) |= Word::resident;
  (resident && sole ? set : clear) |= Word::sole;
  (pending ? set : clear) |= Word::history;
  // Where the hit path is open already the address is the same, and being read.
  const uint64_t address = resident ? address_of(region, *home) + base : hot.address;
  if (hot.address != address) hot.address = address;
  set_flags(index, set, clear);
}

/// Nothing fails here. The caller's stream waits for everything older, so what an exclusive lease covers is from
/// now on represented by the stamp its release will leave.
void Engine::commit(Plan &plan) noexcept {
  plan.each([this](const Plan &part) WEIR_HELD {
    for (const PlanPage &page : part.pages) {
      if (!page.region->on(part.place())->pages[page.page].queued)
        offer(*page.region, page.page, *part.device);
    }
  });
  for (PlanItem &item : plan.items) {
    Region &region = *item.region;
    region.cold = region.streaming;
    if (item.virgin) set_flags(item.buffer, 0, Word::virgin);
    if (item.writes()) {
      const uint32_t last = region.shape.page_at(item.base + item.end - 1);
      for (uint32_t p = region.shape.page_at(item.base + item.begin); p <= last; ++p)
        tiers_.invalidate(region, p, written_bit(plan, region, p));
    }
    if (item.whole) history_.grant_whole(item.buffer, item.writes(), plan.stream);
    region.last_use = std::max(region.last_use, ticks_.now());
    prefetcher_.note_use(item.buffer, item.begin, item.end);
    refresh_word(item.buffer, region, item.base, item.size);
    events_.tell(item.missed ? What::miss : What::hit);
    ++gauges_.granted;
  }
}

}  // namespace weir::residency
