// SPDX-License-Identifier: Apache-2.0
//
// Uses where the bytes lie.

#include "core/acquire/remote_uses.hpp"

#include "core/acquire/slabs.hpp"

#include <algorithm>

namespace weir::acquire {

bool RemoteUses::reaches(const PoolDevice &device, const Residence &there, uint32_t first,
                         uint32_t last) const noexcept {
  const PoolDevice &memory = *page_.devices[there.place];
  const bool may = memory.open() && memory.vmm() && memory.device.has(WEIR_CAP_PEER) &&
                   device.device.has(WEIR_CAP_PEER) &&
                   device.device.runtime == memory.device.runtime;
  for (uint32_t p = first; may && p <= last; ++p) {
    if (!pages_.reads_directly(device, there, p)) return false;
  }
  return may;
}

PoolDevice *RemoteUses::place_for(const move::PlanItem &item, const PoolDevice &device, bool *busy,
                                  uint32_t not_there) noexcept {
  if (!page_.buffers.hot(item.buffer).lives(item.generation, Word::virgin)) return nullptr;
  const page::Target where = page_.buffers.target(item.buffer);
  Region &region = *where.region;
  // Of a slab's page it could not be told whose bytes are lost with the writer.
  if (region.is.slab && item.writes()) return nullptr;
  if (region.shards != nullptr) return nullptr;  // it is on several devices in any case
  const uint32_t first = region.shape.page_at(where.base + item.begin);
  const uint32_t last = region.shape.page_at(where.base + item.end - 1);
  uint32_t common = page::device_bits & ~not_there;
  bool moving = false;
  for (uint32_t p = first; p <= last; ++p) {
    if (pages_.note_waiter(region, p)) moving = *busy = true;
    common &= region.pages[p].latest();
  }
  if (moving || (common & device.bit()) != 0) return nullptr;
  PoolDevice *best = nullptr;
  for (const auto &r : region.residences) {
    PoolDevice &memory = *page_.devices[r->place];
    if ((common & memory.bit()) == 0 || !reaches(device, *r, first, last)) continue;
    // Between places ranges conflict by pages: perhaps it is on the device itself that they don't.
    const ClaimScope scope = ClaimScope::on(Place(memory.place));
    if (page_.buffers.hold_forbids(item.buffer, item.writes(), scope) ||
        lease_.leases.conflicts(lease::part_of(where, item.buffer, item.begin, item.end),
                                item.writes(), scope))
      continue;
    const transfer::Routes &routes = env_.config.routes;
    if (best == nullptr ||
        routes.bandwidth(memory.place, device.place) > routes.bandwidth(best->place, device.place))
      best = &memory;
  }
  return best;
}

move::Plan &RemoteUses::plan_on(move::Plan &plan, PoolDevice &memory) {
  auto &plans = plan.remote->plans;
  for (const auto &part : plans) {
    if (part->device == &memory) return *part;
  }
  plans.push_back(make_owned<move::Plan>(env_.memory, env_.memory, plan.stream, &memory));
  plans.back()->lease = plan.lease;
  plans.back()->terms.in_place = true;
  return *plans.back();
}

Status RemoteUses::divide(Releasable &lock, move::Plan &plan) {
  move::RemoteParts &remote = *plan.remote;
  for (;;) {
    plan.items.clear();
    remote.plans.clear();
    bool busy = false;
    for (size_t i = 0, end = 0; i < remote.asked.size() && !busy; i = end) {
      const uint32_t buffer = remote.asked[i].buffer;
      // A buffer's uses go together: two places in one set would conflict with each other.
      PoolDevice *place = nullptr;
      for (end = i; end < remote.asked.size() && remote.asked[end].buffer == buffer; ++end) {
        const move::PlanItem &item = remote.asked[end];
        PoolDevice *of_item =
            item.remote ? place_for(item, *plan.device, &busy, plan.not_there) : nullptr;
        place = end == i || of_item == place ? of_item : nullptr;
      }
      auto &items = place != nullptr ? plan_on(plan, *place).items : plan.items;
      items.insert(items.end(), remote.asked.begin() + static_cast<ptrdiff_t>(i),
                   remote.asked.begin() + static_cast<ptrdiff_t>(end));
    }
    if (busy) {
      const WaitScope waits(Wait::conflict);
      env_.sync.changed.wait(lock);
      continue;
    }
    bool moved = false;
    for (const move::PlanItem &item : plan.items) {
      if (!page_.buffers.hot(item.buffer).lives(item.generation)) continue;
      const Region &region = *page_.buffers.target(item.buffer).region;
      if (!region.is.slab || region.home == plan.place()) continue;
      WEIR_TRY(of_use(item.use, slabs_.unslab_for(lock, item.buffer, plan.place())));
      moved = true;
    }
    if (moved) continue;
    for (const auto &part : remote.plans) {
      WEIR_TRY(claims_.resolve(*part));
      // A granule that it shares may be in the making.
      busy = claims_.scan_pages(*part) || busy;
    }
    if (!busy) return {};
    const WaitScope waits(Wait::conflict);
    env_.sync.changed.wait(lock);
  }
}

Status RemoteUses::take(move::Plan &plan) {
  for (const auto &part : remote_parts(plan)) {
    const Status status = claims_.take(*part);
    if (!status) {
      drop(plan);
      return status;
    }
    for (const move::PlanPage &page : part->pages)
      pages_.visit(*page.region, page.page, *part->device);
  }
  return {};
}

void RemoteUses::drop(move::Plan &plan) noexcept {
  for (const auto &part : remote_parts(plan)) claims_.drop(*part);
}

bool RemoteUses::stand(const move::Plan &plan) noexcept {
  for (const auto &part : remote_parts(plan)) {
    for (const move::PlanPage &page : part->pages) {
      const bool latest = (page.region->pages[page.page].latest() & part->device->bit()) != 0;
      const PageState state = page.region->on(part->place())->pages[page.page].state();
      if (!latest || state != PageState::resident || part->device->lost()) return false;
    }
  }
  return true;
}

uint8_t RemoteUses::place_in(const move::Plan &plan, uint32_t buffer) noexcept {
  for (const auto &part : remote_parts(plan)) {
    const auto at =
        std::lower_bound(part->items.begin(), part->items.end(), buffer,
                         [](const move::PlanItem &item, uint32_t of) { return item.buffer < of; });
    if (at != part->items.end() && at->buffer == buffer) return part->place();
  }
  return plan.place();
}

}  // namespace weir::acquire
