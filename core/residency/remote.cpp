// SPDX-License-Identifier: Apache-2.0
//
// Leases on another device's memory: a use that allows it is granted where its pages are, if one device that the stream's
// reaches directly has them all. To the pool it is a lease on that device like any other (its place in a conflict, the pages
// it keeps from leaving, whose copy is the only one after a write); but the stream that waits for the bytes and leaves
// the fence is of another device. Stamps name streams, not devices, so whoever waits for a buffer's past waits for it too.
//
// What must hold: it costs no memory and waits for no lease, so it is claimed first and never makes anybody wait in turn. On
// any obstacle the use is an ordinary one. While an acquire waits for leases it holds none of these either: two sets
// that had something of each other's would wait for ever. A borrowed page stays borrowed, but is no spare any more.
//
// Loss: the writer's device may be lost while its work on another's memory runs. Those bytes are on a device that is well, and
// wrong all the same: what was being written so is lost with the writer (lose_remote_writes).

#include "core/residency/remote.hpp"

#include <algorithm>

namespace weir::residency {

/// Whether a stream of `device` can use the pages as they are mapped on the other: the mapper gave access to those that the
/// routes named, and that were there then. One that is leaving its pool is to have no more leases.
bool Engine::reaches(const PoolDevice &device, const Residence &there, uint32_t first,
                     uint32_t last) const noexcept {
  const PoolDevice &memory = *devices_[there.place];
  const bool may = memory.open() && memory.vmm() && memory.device.has(WEIR_CAP_PEER) &&
                   device.device.has(WEIR_CAP_PEER) &&
                   device.device.runtime == memory.device.runtime;
  for (uint32_t p = first; may && p <= last; ++p) {
    if (!reads_directly(device, there, p)) return false;
  }
  return may;
}

/// The device on which a stream of `device` can use the bytes as they lie; nullptr: none, or it has them all itself. *busy:
/// somebody is working on a page of them, so it is not known yet.
PoolDevice *Engine::remote_place(const PlanItem &item, const PoolDevice &device, bool *busy,
                                 uint32_t not_there) noexcept {
  if (!buffers_.hot(item.buffer).lives(item.generation, Word::virgin)) return nullptr;
  const Target where = buffers_.target(item.buffer);
  Region &region = *where.region;
  // Of a slab's page it could not be told whose bytes are lost with the writer.
  if (region.slab && item.writes()) return nullptr;
  if (region.shards != nullptr) return nullptr;  // it is on several devices in any case
  const uint32_t first = region.shape.page_at(where.base + item.begin);
  const uint32_t last = region.shape.page_at(where.base + item.end - 1);
  uint32_t common = vm::device_bits & ~not_there;
  bool moving = false;
  for (uint32_t p = first; p <= last; ++p) {
    if (region.pages[p].busy != 0) {
      for (auto &r : region.residences) r->pages[p].wanted = true;
      moving = *busy = true;
    }
    common &= region.pages[p].latest();
  }
  if (moving || (common & device.bit()) != 0) return nullptr;
  PoolDevice *best = nullptr;
  for (const auto &r : region.residences) {
    PoolDevice &memory = device_at(r->place);
    if ((common & memory.bit()) == 0 || !reaches(device, *r, first, last)) continue;
    // Between places ranges conflict by pages: perhaps it is on the device itself that they don't.
    const ClaimScope scope = ClaimScope::on(Place(memory.place));
    if (buffers_.hold_forbids(item.buffer, item.writes(), scope) ||
        leases_.conflicts(lease::part_of(where, item.buffer, item.begin, item.end), item.writes(),
                          scope))
      continue;
    const transfer::Routes &routes = config_.routes;
    if (best == nullptr ||
        routes.bandwidth(memory.place, device.place) > routes.bandwidth(best->place, device.place))
      best = &memory;
  }
  return best;
}

/// The part of the set that is used on the device's memory.
Plan &Engine::plan_on(Plan &plan, PoolDevice &memory) {
  auto &plans = plan.remote->plans;
  for (const auto &part : plans) {
    if (part->device == &memory) return *part;
  }
  plans.push_back(make_owned<Plan>(&memory_, &memory_, plan.stream, &memory));
  plans.back()->lease = plan.lease;
  plans.back()->in_place = true;
  return *plans.back();
}

/// Divides the set: what can be used where it lies goes to a plan of that device's, the rest stays. Called and returns with the
/// lock held; drops it if it has to wait for work of Weir's own, and looks at everything again then.
Status Engine::divide(Releasable &lock, Plan &plan) {
  Remote &remote = *plan.remote;
  for (;;) {
    plan.items.clear();
    remote.plans.clear();
    bool busy = false;
    for (size_t i = 0, end = 0; i < remote.asked.size() && !busy; i = end) {
      const uint32_t buffer = remote.asked[i].buffer;
      // A buffer's uses go together: two places in one set would conflict with each other.
      PoolDevice *place = nullptr;
      for (end = i; end < remote.asked.size() && remote.asked[end].buffer == buffer; ++end) {
        const PlanItem &item = remote.asked[end];
        PoolDevice *of_item =
            item.remote ? remote_place(item, *plan.device, &busy, plan.not_there) : nullptr;
        place = end == i || of_item == place ? of_item : nullptr;
      }
      auto &items = place != nullptr ? plan_on(plan, *place).items : plan.items;
      items.insert(items.end(), remote.asked.begin() + static_cast<ptrdiff_t>(i),
                   remote.asked.begin() + static_cast<ptrdiff_t>(end));
    }
    if (busy) {
      changed_.wait(lock);
      continue;
    }
    bool moved = false;
    for (const PlanItem &item : plan.items) {
      if (!buffers_.hot(item.buffer).lives(item.generation)) continue;
      const Region &region = *buffers_.target(item.buffer).region;
      if (!region.slab || region.home == plan.place()) continue;
      WEIR_TRY(of_use(item.use, unslab_for(lock, item.buffer, plan.place())));
      moved = true;
    }
    if (moved) continue;
    for (const auto &part : remote.plans) {
      bool of_part = false;  // a granule that it shares may be in the making
      WEIR_TRY(resolve(*part));
      scan_pages(*part, &of_part);
      busy = busy || of_part;
    }
    if (!busy) return {};
    changed_.wait(lock);
  }
}

/// Leases what divide() has found; the lock has not been dropped since. On failure nothing of it is leased.
Status Engine::claim_remote(Plan &plan) {
  if (plan.remote == nullptr) return {};
  for (const auto &part : plan.remote->plans) {
    const Status status = take_claims(*part);
    if (!status) {
      drop_remote(plan);
      return status;
    }
    for (const PlanPage &page : part->pages) {
      DevicePage &state = page.region->on(part->place())->pages[page.page];
      state.visited = state.borrowed;
    }
  }
  return {};
}

void Engine::drop_remote(Plan &plan) noexcept {
  if (plan.remote == nullptr) return;
  for (const auto &part : plan.remote->plans) drop_claims(*part);
}

void Engine::drop_all(Plan &plan) noexcept {
  drop_remote(plan);
  drop_claims(plan);
}

/// What is leased where it lies can't be evicted, but lost.
bool Engine::remote_stands(const Plan &plan) noexcept {
  if (plan.remote == nullptr) return true;
  for (const auto &part : plan.remote->plans) {
    for (const PlanPage &page : part->pages) {
      const bool latest = (page.region->pages[page.page].latest() & part->device->bit()) != 0;
      const PageState state = page.region->on(part->place())->pages[page.page].state();
      if (!latest || state != PageState::resident || part->device->lost()) return false;
    }
  }
  return true;
}

/// Where the set uses a buffer.
uint8_t Engine::place_in(const Plan &plan, uint32_t buffer) const noexcept {
  if (plan.remote == nullptr) return plan.place();
  for (const auto &part : plan.remote->plans) {
    const auto at =
        std::lower_bound(part->items.begin(), part->items.end(), buffer,
                         [](const PlanItem &item, uint32_t of) { return item.buffer < of; });
    if (at != part->items.end() && at->buffer == buffer) return part->place();
  }
  return plan.place();
}

/// As commit(), for what is used where it lies; and notes who is to write on others' memory. remote_writes_ has the room.
void Engine::commit_remote(Plan &plan, const Lease *lease) noexcept {
  const auto note = [&](const PlanItem &item) WEIR_HELD {
    if (!item.writes()) return;
    remote_writes_.note(
        {lease, item.buffer, item.generation, item.begin, item.end, &plan.device->device});
  };
  for (const PlanItem &item : plan.items) {
    if (plan.device != nullptr && item.region->shards != nullptr) note(item);
  }
  if (plan.remote == nullptr) return;
  for (const auto &part : plan.remote->plans) {
    for (const PlanItem &item : part->items) note(item);
    commit(*part);
    events_.tell(What::remote_use, part->items.size());
  }
}

// ---- what a lost writer takes along ----

/// The writer is lost: nobody knows what of its unfinished work has come to the other devices, so no copy of those pages is
/// good. Returns the bytes.
uint64_t Engine::lose_remote_writes(const PoolDevice &writer) noexcept {
  uint64_t lost_bytes = 0;
  remote_writes_.lose(writer.device, [&](const lease::RemoteWrite &write) WEIR_HELD {
    if (!buffers_.hot(write.buffer).lives(write.generation)) return;
    const Target where = buffers_.target(write.buffer);
    Region &region = *where.region;
    const uint32_t last = region.shape.page_at(where.base + write.end - 1);
    for (uint32_t p = region.shape.page_at(where.base + write.begin); p <= last; ++p) {
      Page &copies = region.pages[p];
      if (copies.latest() == 0) continue;
      const bool known = copies.lost();
      forsake(region, p);
      if (!known) lost_bytes += region.shape.used_bytes(p);
    }
    set_flags(write.buffer, 0, Word::resident | Word::sole);
  });
  return lost_bytes;
}

/// No copy of the page is any good, nor will one be that is on its way.
void Engine::forsake(Region &region, uint32_t page) noexcept {
  tiers_.end_version(region, page);
  tiers_.free_host(region, page);
  places_.note(region, region.pages[page].forsake());
}

}  // namespace weir::residency
