// SPDX-License-Identifier: Apache-2.0
//
// Extents: where there is no VMM, regions move within and between segments, so that what is free comes together. A region that moves
// is MOVING: claimed like an eviction's victim (nobody leases it, the hit path is closed), and in its new place as soon as the copy
// has been handed to the device. The copy comes after all work on the bytes, on any device; what uses them next waits for it by the
// page's `ready` stamp. The old extent stays in limbo until the copy has passed: extents know of no fences, so nobody may get it
// before.

#include "core/move/evictor.hpp"
#include "core/move/relocator.hpp"

namespace weir::move {

// ---- surveys ----

Blocker Relocator::blocker_of_extent(PoolDevice &device, Region &region) noexcept {
  const Residence &here = *region.on(device.place);
  if (region.is.pinned) return Blocker::pinned;
  if (region.is.stable) return Blocker::stable;
  if (region.held_on(device.place)) return Blocker::held;
  if (here.pages[0].state() != PageState::resident || region.pages[0].busy() != 0 || region.idle(0))
    return Blocker::busy;
  if (lease_.leases.in_use(region, 0, device.place)) return Blocker::leased;
  return Blocker::none;
}

void Relocator::survey_segments(uint8_t place, Survey *survey) {
  Locked lock(env_.sync.lock);
  survey->clear();
  PoolDevice &device = device_at(place);
  if (device.vmm() || device.lost()) return;
  std::pmr::vector<physical::Segments::Piece> pieces(env_.memory);
  device.memory.granules().survey(&pieces);
  std::pmr::vector<uint32_t> owners(env_.memory);  // of extents
  for (Region &region : page::Walk(page_.places, device.pages_there(), page_.regions)) {
    const uint32_t extent = device.memory.at(region.on(place)->pages[0].granule).node;
    if (extent >= owners.size()) owners.resize(extent + 1, UINT32_MAX);
    owners[extent] = region.id;
  }
  for (const physical::Segments::Piece &piece : pieces) {
    if (piece.extent == physical::Segments::none) {
      survey->places.push_back({.id = piece.segment,
                                .size = piece.size,
                                .worth = piece.size,
                                .first = survey->occupants.size()});
      continue;
    }
    // An extent that no region has: a plan is about to fill it, or a region has left it a moment ago.
    Occupant tenant{
        .offset = piece.offset, .size = piece.size, .node = piece.extent, .blocker = Blocker::busy};
    if (piece.extent < owners.size() && owners[piece.extent] != UINT32_MAX) {
      tenant.owner = owners[piece.extent];
      Region &owner = page_.regions.at(tenant.owner);
      tenant.generation = page_.regions.generation(owner);
      tenant.blocker = blocker_of_extent(device, owner);
    }
    survey->occupants.push_back(tenant);
    ++survey->places.back().count;
  }
}

// ---- moving ----

/// Closes the region to everybody and claims its new extent.
Blocker Relocator::claim_extent(PoolDevice &device, const MoveOrder &order, Move *move,
                                std::pmr::vector<Stamp> *waits) {
  const Occupant &tenant = order.tenant;
  Region *found = page_.regions.find(tenant.owner, tenant.generation);
  Residence *here = found != nullptr ? found->on(device.place) : nullptr;
  if (here == nullptr || here->pages[0].granule == physical::no_granule ||
      device.memory.at(here->pages[0].granule).node != tenant.node)
    return Blocker::busy;
  Region &region = *found;
  const Blocker why = blocker_of_extent(device, region);
  if (why != Blocker::none) return why;
  // Closed before its fences are looked at: a hit may come and go until then.
  if (!lease_.leases.close(region, 0, device.place)) return Blocker::leased;
  lease_.history.collect(region, 0, waits);
  device.limbo.reserve();
  const GranuleId granule = device.memory.granules().claim_at(
      order.to, order.offset, region.shape.page_bytes(0), order.before);
  if (granule == physical::no_granule) return Blocker::busy;
  *move = Move{&order, &region, nullptr, 0, granule, region.shape.used_bytes(0)};
  others_.pages.transition(region, 0, device, Step::begin_move);
  device.limbo.enter(granule, region.shape.page_bytes(0), region.is.secret);
  if (region.is.secret) env_.scrub_turns.note();
  return Blocker::none;
}

/// Back in one place: the new one (true), or the old.
bool Relocator::settle_extent(PoolDevice &device, const Move &move, Stamp done) noexcept {
  Region &region = *move.from;
  const bool moved = done && !device.lost();
  Residence &here = *region.on(device.place);
  others_.pages.transition(region, 0, device, moved ? Step::moved : Step::move_failed);
  page_.tiers.forget_idle(region, 0);
  Stream *side = device.streams.side();
  if (!done && region.is.secret && !device.lost() && side != nullptr) {
    // Some of the bytes may have come to the new place, which is left in their stead.
    const Stamp last = Stamp::make(side->slot, side->timeline.last(), true);
    device.limbo.settle(move.granule, move.granule, last);
  } else if (!moved) {
    device.limbo.cancel(move.granule);
    device.memory.granules().release(move.granule);
  } else {
    device.limbo.settle(move.granule, here.pages[0].granule, done);
    others_.pages.set_granule(region, 0, device, move.granule);
    others_.pages.set_ready(region, 0, 0, device, done);
    // What lies behind the bytes that were copied is as it was.
    const bool all = move.bytes == region.shape.granule_bytes(0);
    device.memory.at(move.granule).set_client(all ? region.owner.client : physical::client_unknown);
    here.range.address = device.memory.at(move.granule).place;
    env_.events.tell({What::moved, 0, device.place, region.id, 0, move.bytes});
  }
  page_.regions.retire(region);
  return moved;
}

uint64_t Relocator::evict_extents(uint8_t place, std::span<const Occupant> tenants, size_t *gone,
                                  Status *why) {
  const uint64_t noted = env_.scrub_turns.noted();
  const AtEnd scrubbed([&] { env_.scrub_turns.finish(false, env_.scrub_turns.noted() != noted); });
  Locked lock(env_.sync.lock);
  PoolDevice &device = device_at(place);
  std::pmr::vector<PageRef> victims(env_.memory);
  victims.reserve(tenants.size());
  for (const Occupant &tenant : tenants) {
    if (page_.regions.find(tenant.owner, tenant.generation) != nullptr)
      victims.push_back(PageRef{tenant.owner, 0, static_cast<uint16_t>(tenant.generation)});
  }
  *gone = 0;
  const uint64_t freed =
      victims.empty() ? 0 : others_.evictor.evict(lock, device, victims, false, why);
  for (const PageRef &ref : victims) {
    Region *region = page_.regions.find(ref.region, ref.generation);
    const Residence *here = region != nullptr ? region->on(place) : nullptr;
    *gone += here == nullptr || here->pages[0].state() == PageState::absent ? 1 : 0;
  }
  return freed;
}

// ---- what is left behind ----

bool Relocator::sweep_limbo(PoolDevice &device) noexcept {
  const bool any = device.limbo.sweep(env_.streams, device.memory.granules(), device.lost(),
                                      device.streams.side());
  if (any) env_.sync.changed.notify_all();
  return any;
}

bool Relocator::scrub_limbo(Releasable &lock, bool wait) noexcept {
  bool all = true;
  for (size_t place = 0; place < page_.devices.size(); ++place) {
    PoolDevice &device = *page_.devices[place];
    for (;;) {
      (void)sweep_limbo(device);
      Stamp stamp;
      if (!device.limbo.any_secret(&stamp) || device.lost()) break;
      const bool stuck = !wait || !stamp || env_.streams.passed(stamp);  // and could not be wiped
      if (!stuck && lock.unlocked([&] { return env_.streams.wait(stamp, UINT64_MAX); })) continue;
      all = false;
      break;
    }
  }
  return all;
}

bool Relocator::await_limbo(Releasable &lock, PoolDevice &device) {
  if (sweep_limbo(device)) return true;
  const Stamp stamp = device.limbo.first();
  if (!stamp) return false;
  const uint64_t wait_ns = others_.idle.patience(device);
  if (!lock.unlocked([&] { return env_.streams.wait(stamp, wait_ns); })) return false;
  // Else the copy has passed, but not what overwrites the place it left.
  return sweep_limbo(device) || device.limbo.wiping();
}

bool Relocator::compact_for(Releasable &lock, PoolDevice &device, uint64_t bytes, bool slabs) {
  if (compactor_ == nullptr || device.lost()) return false;
  if (!slabs && device.memory.granules().idle() < bytes) return false;
  return lock.unlocked([&] {
    env_.sync.points.at("compact");
    try {
      return compactor_->make_range(device.place, bytes, slabs);
    } catch (const std::bad_alloc &) {
      return false;  // then something leaves the device instead
    }
  });
}

}  // namespace weir::move
