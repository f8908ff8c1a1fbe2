// SPDX-License-Identifier: Apache-2.0
//
// Extents: where there is no VMM, regions move within and between segments, so that what is free comes together. A region
// that moves is MOVING: claimed like an eviction's victim (nobody leases it, the hit path is closed), and in its new place
// as soon as the copy has been handed to the device. The copy comes after all work on the bytes, on any device; what uses
// them next waits for it by the page's `ready` stamp. The old extent stays in limbo until the copy has passed: extents
// know of no fences, so nobody may get it before.

#include "core/base/grow.hpp"
#include "core/residency/plan.hpp"
#include "core/residency/scrub.hpp"
#include "core/transfer/copier.hpp"

#include <algorithm>

namespace weir::residency {

struct ExtentMove {
  Region *region = nullptr;
  GranuleId granule = physical::no_granule;  ///< the new one
};

// ---- surveys ----

Blocker Engine::blocker_of_extent(PoolDevice &device, Region &region) noexcept {
  const Residence &here = *region.on(device.place);
  if (region.pinned) return Blocker::pinned;
  if (region.stable) return Blocker::stable;
  if (region.held_on(device.place)) return Blocker::held;
  if (here.pages[0].state() != PageState::resident || region.pages[0].busy != 0 || region.idle(0))
    return Blocker::busy;
  if (leases_.in_use(region, 0, device.place)) return Blocker::leased;
  return Blocker::none;
}

void Engine::survey_segments(uint8_t place, Survey *survey) {
  Locked lock(lock_);
  survey->clear();
  PoolDevice &device = device_at(place);
  if (device.vmm() || device.lost()) return;
  std::pmr::vector<physical::Segments::Piece> pieces(&memory_);
  device.granules->survey(&pieces);
  std::pmr::vector<uint32_t> owners(&memory_);  // of extents
  for (Region &region : regions_in(device.pages_there())) {
    const uint32_t extent = device.granules->at(region.on(place)->pages[0].granule).node;
    if (extent >= owners.size()) owners.resize(extent + 1, UINT32_MAX);
    owners[extent] = region.id;
  }
  for (const physical::Segments::Piece &piece : pieces) {
    if (piece.extent == physical::Segments::none) {
      SurveyedPlace segment;
      segment.id = piece.segment;
      segment.size = segment.worth = piece.size;
      segment.first = survey->occupants.size();
      survey->places.push_back(segment);
      continue;
    }
    Occupant tenant;
    tenant.offset = piece.offset;
    tenant.size = piece.size;
    tenant.node = piece.extent;
    // What no region has is somebody's who is about to fill it, or was left a moment ago.
    tenant.blocker = Blocker::busy;
    if (piece.extent < owners.size() && owners[piece.extent] != UINT32_MAX) {
      tenant.owner = owners[piece.extent];
      Region &owner = regions_.at(tenant.owner);
      tenant.generation = regions_.generation(owner);
      tenant.blocker = blocker_of_extent(device, owner);
    }
    survey->occupants.push_back(tenant);
    ++survey->places.back().count;
  }
}

// ---- moving ----

/// Closes the region to everybody and claims its new extent.
bool Engine::claim_extent(PoolDevice &device, const MoveOrder &order, ExtentMove *move,
                          std::pmr::vector<Stamp> *waits, MoveResult *result) {
  const Occupant &tenant = order.tenant;
  const auto refuse = [&](Blocker why) {
    result->block(why, tenant.size);
    return false;
  };
  Region *found = regions_.find(tenant.owner, tenant.generation);
  Residence *here = found != nullptr ? found->on(device.place) : nullptr;
  if (here == nullptr || here->pages[0].granule == physical::no_granule ||
      device.granules->at(here->pages[0].granule).node != tenant.node)
    return refuse(Blocker::busy);
  Region &region = *found;
  const Blocker why = blocker_of_extent(device, region);
  if (why != Blocker::none) return refuse(why);
  // Closed before its fences are looked at: a hit may come and go until then.
  if (!leases_.close(region, 0, device.place)) return refuse(Blocker::leased);
  history_.collect(region, 0, waits);
  device.limbo.reserve();
  move->granule =
      device.granules->claim_at(order.to, order.offset, region.shape.page_bytes(0), order.before);
  if (move->granule == physical::no_granule) return refuse(Blocker::busy);
  move->region = &region;
  step(region, 0, device, Step::begin_move);
  device.limbo.enter(move->granule, region.shape.page_bytes(0), region.scrub);
  if (region.scrub) scrub_turns_.note();
  return true;
}

/// Back in one place: the new one if `done`, or the old.
void Engine::settle_extent(PoolDevice &device, ExtentMove &move, Stamp done) noexcept {
  Region &region = *move.region;
  Residence &here = *region.on(device.place);
  DevicePage &page = here.pages[0];
  step(region, 0, device, done && !device.lost() ? Step::moved : Step::move_failed);
  forget_idle(region, 0);
  if (page.wanted) page.wanted = false;
  Stream *side = device.streams.side();
  if (!done && region.scrub && !device.lost() && side != nullptr) {
    // Some of the bytes may have come to the new place, which is left in their stead.
    const Stamp last = Stamp::make(side->slot, side->timeline.last(), true);
    device.limbo.settle(move.granule, move.granule, last);
  } else if (!done || device.lost()) {
    device.limbo.cancel(move.granule);
    device.granules->release(move.granule);
  } else {
    device.limbo.settle(move.granule, page.granule, done);
    page.granule = move.granule;
    page.ready = done;
    device.granules->at(page.granule).set_client(region.client);
    here.range.address = device.granules->at(page.granule).place;
    events_.tell({What::moved, 0, device.place, region.id, 0, region.shape.used_bytes(0)});
  }
  retire_region(region);
}

Status Engine::move_extents(uint8_t place, const MoveOrder *orders, size_t count,
                            MoveResult *result) {
  PoolDevice &device = device_at(place);
  std::pmr::vector<ExtentMove> moves(&memory_);
  std::pmr::vector<Stamp> waits(&memory_);
  std::pmr::vector<weir_be_copy> copies(
      &memory_);  // of whole extents: behind the last byte, too, nobody else's may show
  std::pmr::vector<uint64_t> sizes(&memory_);
  Locked lock(lock_);
  if (device.lost()) return fail(WEIR_ERROR_DEVICE_LOST, "device %u is lost", device.device.id);
  moves.reserve(count);
  copies.reserve(count);
  sizes.reserve(count);
  try {
    for (size_t i = 0; i < count; ++i) {
      ExtentMove move;
      if (!claim_extent(device, orders[i], &move, &waits, result)) continue;
      moves.push_back(move);
      const GranuleId old = move.region->on(place)->pages[0].granule;
      sizes.push_back(move.region->shape.used_bytes(0));
      copies.push_back(weir_be_copy{device.granules->at(move.granule).place,
                                    device.granules->at(old).place,
                                    move.region->shape.page_bytes(0)});
    }
  } catch (const std::bad_alloc &) {
    for (ExtentMove &move : moves) settle_extent(device, move, Stamp{});
    changed_.notify_all();
    throw;
  }
  if (moves.empty()) return {};
  Stamp done;
  const Status status = lock.unlocked([&] { return enqueue_moves(device, &waits, copies, &done); });
  const KeepError keep;
  note_loss(device, status);
  for (size_t i = 0; i < moves.size(); ++i) {
    const bool moved = done && !device.lost();
    settle_extent(device, moves[i], done);
    if (moved) {
      ++result->moves;
      result->bytes += sizes[i];
    } else {
      result->block(Blocker::busy, sizes[i]);
    }
  }
  changed_.notify_all();
  return status;
}

/// *gone: how many have left.
uint64_t Engine::evict_extents(uint8_t place, const Occupant *tenants, size_t count, size_t *gone,
                               Status *why) {
  const Scrubbing scrubbing(*this);
  Locked lock(lock_);
  PoolDevice &device = device_at(place);
  std::pmr::vector<PageRef> victims(&memory_);
  victims.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const Occupant &tenant = tenants[i];
    if (regions_.find(tenant.owner, tenant.generation) == nullptr) continue;
    victims.push_back(PageRef{tenant.owner, 0, static_cast<uint16_t>(tenant.generation)});
  }
  *gone = 0;
  const uint64_t freed = victims.empty() ? 0 : evict(lock, device, victims, false, why);
  for (const PageRef &ref : victims) {
    Region *region = regions_.find(ref.region, ref.generation);
    const Residence *here = region != nullptr ? region->on(place) : nullptr;
    *gone += here == nullptr || here->pages[0].state() == PageState::absent ? 1 : 0;
  }
  return freed;
}

// ---- what is left behind ----

/// Frees the extents in limbo whose copies have passed. True: there were any.
bool Engine::sweep_limbo(PoolDevice &device) noexcept {
  const bool any =
      device.limbo.sweep(streams_, *device.granules, device.lost(), device.streams.side());
  if (any) changed_.notify_all();
  return any;
}

/// Waits for one of them. False: there is none, or it takes too long.
bool Engine::await_limbo(Releasable &lock, PoolDevice &device) {
  if (sweep_limbo(device)) return true;
  const Stamp stamp = device.limbo.first();
  if (!stamp) return false;
  const uint64_t wait_ns = patience(device);
  if (!lock.unlocked([&] { return streams_.wait(stamp, wait_ns); })) return false;
  // Else the copy has passed, but not what overwrites the place it left.
  return sweep_limbo(device) || device.limbo.wiping();
}

/// The bytes are there, but in pieces, or (`slabs`) may be, in slabs and in shared granules. Drops the lock.
bool Engine::compact_for(Releasable &lock, PoolDevice &device, uint64_t bytes, bool slabs) {
  if (compactor_ == nullptr || device.lost()) return false;
  if (!slabs && device.granules->idle() < bytes) return false;
  return lock.unlocked([&] {
    points.at("compact");
    try {
      return slabs ? compactor_->make_pages(device.place, bytes)
                   : compactor_->make_range(device.place, bytes);
    } catch (const std::bad_alloc &) {
      return false;  // then something leaves the device instead
    }
  });
}

}  // namespace weir::residency
