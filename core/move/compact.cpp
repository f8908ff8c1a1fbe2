// SPDX-License-Identifier: Apache-2.0
//
// Compact: small buffers move from slab to slab of one group, so that emptied slabs can be given back; and what all orders have in
// common: claimed under the lock, carried out without it, settled under it again.
//
// The pages of both places are busy from the claim to the settling, which is no longer than it takes to hand the copies to the
// device: an acquire of the buffer waits for that long, and no thread waits for the copies on the CPU. A buffer that was leased,
// held or destroyed between claim and settling has not been moved. Until it is settled the old place is the buffer's, and the new
// one a reserved node with the buffer as its owner.

#include "core/move/evictor.hpp"
#include "core/move/region_life.hpp"
#include "core/move/relocator.hpp"
#include "core/page/page_walk.hpp"
#include "core/transfer/copier.hpp"

#include <algorithm>
#include <utility>

namespace weir::move {
namespace {

uint32_t last_page(const Region &region, uint64_t begin, uint64_t size) noexcept {
  return region.shape.page_at(begin + size - 1);
}

}  // namespace

// ---- handing copies to the device ----

/// Outside the lock: all the copies after all the waits. *done: when they have ended. Failure: none of them is running.
Status Relocator::enqueue_moves(PoolDevice &device, std::pmr::vector<Stamp> *waits,
                                std::span<const weir_be_copy> copies, Stamp *done) {
  env_.sync.points.at("compact.claimed");
  if (copies.empty()) return {};
  Stream *side = nullptr;
  try {
    WEIR_TRY(device.streams.open_side(env_.streams, &side));
  } catch (const std::bad_alloc &) {
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory for a stream of device %u",
                device.device.id);
  }
  lease::History::keep_latest(waits);
  transfer::Copier copier(*side);
  const auto run = [&]() -> Status {
    for (const Stamp stamp : *waits) WEIR_TRY(env_.streams.enqueue_wait(*side, stamp));
    for (const weir_be_copy &copy : copies)
      WEIR_TRY(copier.copy(copy.destination, copy.source, copy.bytes));
    return copier.mark(done);
  };
  const Status status = run();
  if (!status) {
    const KeepError keep;
    copier.synchronize();  // what they were to fill is about to be someone else's
  }
  env_.sync.points.at("compact.copied");
  return status;
}

void Relocator::list_copies(PoolDevice &device, const Move &move,
                            std::pmr::vector<weir_be_copy> *copies) noexcept {
  Residence &here = *move.from->on(device.place);
  if (move.to == nullptr) {  // the whole extent: behind the last byte, too, nobody else's may show
    copies->push_back(weir_be_copy{device.memory.at(move.granule).place,
                                   device.memory.at(here.pages[0].granule).place,
                                   move.from->shape.page_bytes(0)});
    return;
  }
  uint64_t from = move.order->tenant.offset;
  uint64_t to = move.order->offset;
  const auto left_on_page = [](const Region &region, uint64_t at) {
    const uint32_t p = region.shape.page_at(at);
    return region.shape.offset(p) + region.shape.page_bytes(p) - at;
  };
  const uint64_t base = address_of(*move.from, here);
  const uint64_t base_to = address_of(*move.to, *move.to->on(device.place));
  for (uint64_t left = move.bytes; left != 0;) {  // within one mapping on both sides
    const uint64_t step =
        std::min({left, left_on_page(*move.from, from), left_on_page(*move.to, to)});
    copies->push_back(weir_be_copy{base_to + to, base + from, step});
    from += step;
    to += step;
    left -= step;
  }
}

Status Relocator::execute(uint8_t place, std::span<const MoveOrder> orders, bool extents,
                          MoveResult *result) {
  PoolDevice &device = device_at(place);
  std::pmr::vector<Move> moves(env_.memory);
  std::pmr::vector<Stamp> waits(env_.memory);
  std::pmr::vector<weir_be_copy> copies(env_.memory);
  Locked lock(env_.sync.lock);
  if (device.lost()) return fail(WEIR_ERROR_DEVICE_LOST, "device %u is lost", device.device.id);
  moves.reserve(orders.size());
  if (!extents)
    for (const MoveOrder &order : orders) page_.buffers.prefetch(order.tenant.owner);
  copies.reserve(3 * orders.size());  // a tenant is smaller than a page: it lies on two at most
  try {
    for (const MoveOrder &order : orders) {
      Move move;
      const Blocker why = extents ? claim_extent(device, order, &move, &waits)
                                  : claim_tenant(device, order, &move, &waits);
      if (why == Blocker::none) moves.push_back(std::move(move));
      if (why != Blocker::none) result->block(why, order.tenant.size);
    }
  } catch (const std::bad_alloc &) {
    for (const Move &move : moves) {
      extents ? (void)settle_extent(device, move, Stamp{})
              : others_.life.free_place(*move.to, move.node);
    }
    env_.sync.changed.notify_all();
    throw;
  }
  if (moves.empty()) return {};
  for (Move &move : moves) {
    mark(device, move, true);
    list_copies(device, move, &copies);
  }
  Stamp done;
  const Status status = lock.unlocked([&] {
    const RangeScope range(env_.sync.tap.ranges(), RangeKind::move, [&](RangeText &text) {
      text.add("compact %zu places, device %u", moves.size(), device.device.id);
    });
    return enqueue_moves(device, &waits, copies, &done);
  });
  const KeepError keep;
  others_.losses.note(device, status);
  for (Move &move : moves) {
    if (extents ? settle_extent(device, move, done) : settle_tenant(device, move, done)) {
      ++result->moves;
      result->bytes += move.bytes;
    } else {
      result->block(Blocker::busy, extents ? move.bytes : move.order->tenant.size);
    }
  }
  for (Move &move : moves) mark(device, move, false);
  env_.sync.changed.notify_all();
  return status;
}

// ---- small buffers ----

/// Checks the order against what is there now, closes the buffer's hit path and reserves its new place. Nothing is marked.
Blocker Relocator::claim_tenant(PoolDevice &device, const MoveOrder &order, Move *move,
                                std::pmr::vector<Stamp> *waits) {
  const Occupant &tenant = order.tenant;
  Region *from = page_.regions.find_slab(order.from, order.from_generation);
  Region *to = page_.regions.find_slab(order.to, order.to_generation);
  if (from == nullptr || to == nullptr || from->home != device.place || to->home != device.place)
    return Blocker::busy;
  const auto same = [](const physical::SmallArena &arena, uint32_t node, uint32_t generation) {
    return arena.live(node) && arena.generation(node) == generation;
  };
  if (!same(*from->tenants, tenant.node, tenant.node_generation)) return Blocker::busy;
  const bool before = order.before != UINT32_MAX;
  if (before && !same(*to->tenants, order.before, order.before_generation)) return Blocker::busy;
  std::atomic<uint64_t> &word = page_.buffers.hot(tenant.owner).word;
  uint64_t seen = word.load(std::memory_order_acquire);
  if ((seen & Word::generation_mask) != tenant.generation ||
      !page_.buffers.lies_at(tenant.owner, *from, tenant.node))
    return Blocker::busy;
  const uint64_t at = from->tenants->offset(tenant.node);
  const uint64_t size = page_.buffers.hot(tenant.owner).size();
  const Blocker why = blocker_of(*from, tenant.owner, at, at + size);
  if (why != Blocker::none) return why;
  Residence *there = to->on(device.place);
  const uint32_t first = to->shape.page_at(order.offset);
  const uint32_t last = last_page(*to, order.offset, size);
  for (uint32_t p = first; p <= last; ++p) {
    if (there == nullptr || !on_device(*to, *there, p)) return Blocker::busy;
  }
  const auto place = to->tenants->allocate_before(
      before ? order.before : physical::SmallArena::none, order.offset, size);
  if (!place) return Blocker::busy;
  if (!page_.slabs.occupy(*to, place)) {
    to->tenants->free(place.node);
    return Blocker::no_room;
  }
  to->tenants->set_owner(place.node, tenant.owner);
  const uint64_t virgin = seen & Word::virgin;
  *move = Move{&order, from, to, place.node, physical::no_granule, virgin == 0 ? size : 0};
  // Closed before its fences are looked at: a hit may come and go until then.
  do {
    if (Word::leases(seen) != 0 || (seen & Word::virgin) != virgin) {
      others_.life.free_place(*to, place.node);
      return Blocker::leased;
    }
  } while (!word.compare_exchange_weak(seen, seen & ~Word::resident, std::memory_order_acq_rel));
  try {
    lease_.history.gather({0, size, tenant.owner, from, at}, true, waits);
    for (uint32_t p = from->shape.page_at(at); virgin == 0 && p <= last_page(*from, at, size); ++p)
      waits->push_back(from->on(device.place)->pages[p].ready);
    for (uint32_t p = first; p <= last; ++p) waits->push_back(there->pages[p].ready);
    lease_.history.gather_place(*to, order.offset, order.offset + size, waits);
  } catch (const std::bad_alloc &) {
    others_.life.free_place(*to, place.node);
    return Blocker::busy;
  }
  return Blocker::none;
}

/// Both places of a tenant are ours, or no more. An extent's region says so itself: it is MOVING.
void Relocator::mark(PoolDevice &device, Move &move, bool ours) noexcept {
  if (move.to == nullptr) return;
  const auto each = [&](Region &region, uint64_t at, page::RegionPin &pin) WEIR_HELD {
    const uint32_t last = last_page(region, at, move.order->tenant.size);
    for (uint32_t p = region.shape.page_at(at); p <= last; ++p)
      ours ? others_.pages.mark_busy(region, p, device)
           : others_.pages.unmark_busy(region, p, device);
    if (ours) pin = page::RegionPin(region);
    if (!ours) page_.regions.unpin(pin);
  };
  each(*move.from, move.order->tenant.offset, move.pins[0]);
  each(*move.to, move.order->offset, move.pins[1]);
}

/// True: the buffer is in its new place. It leaves the marks to the caller.
bool Relocator::settle_tenant(PoolDevice &device, const Move &move, Stamp done) noexcept {
  const Occupant &tenant = move.order->tenant;
  Region &from = *move.from;
  Region &to = *move.to;
  page::Hot &hot = page_.buffers.hot(tenant.owner);
  const uint64_t word = hot.word.load(std::memory_order_acquire);
  const bool same = (word & (Word::alive | Word::closing | Word::generation_mask)) ==
                        (Word::alive | tenant.generation) &&
                    page_.buffers.lies_at(tenant.owner, from, tenant.node);
  const bool in_use =
      Word::leases(word) != 0 || (word & Word::partial) != 0 || page_.buffers.held(tenant.owner);
  const uint64_t size = tenant.size;
  if (!same || in_use || device.lost() || (move.bytes != 0 && !done)) {
    // The copy may be running all the same: nobody may write what it reads, use what it writes, or take either away. Who waits
    // at these pages has looked at his fences already, but looks at `ready` again.
    const auto bar = [&](Region &region, uint64_t at) WEIR_HELD {
      lease_.history.bury(region, at, at + size, done);
      if (done)
        others_.pages.set_ready(region, region.shape.page_at(at), last_page(region, at, size),
                                device, done);
    };
    bar(to, move.order->offset);
    bar(from, tenant.offset);
    others_.life.free_place(to, move.node);
    return false;
  }
  // What runs on the old place: the copy, which comes after all else; without one, whatever the history names.
  if (move.bytes == 0) lease_.history.bury_all({0, size, tenant.owner, &from, tenant.offset});
  lease_.history.bury(from, tenant.offset, tenant.offset + size, done);
  hot.stamp.exchange(0, std::memory_order_acquire);
  lease_.history.forget(tenant.owner);
  page_.buffers.settle(tenant.owner, to, move.node);
  hot.set_flags(0, Word::resident | Word::sole);
  if (move.bytes != 0) {
    lease_.history.note(tenant.owner, 0, hot.size(), done);
    const uint32_t last = last_page(to, move.order->offset, size);
    for (uint32_t p = to.shape.page_at(move.order->offset); p <= last; ++p)
      page_.tiers.invalidate(to, p, device.bit());
  } else {
    lease_.history.take_over({0, size, tenant.owner, &to, move.order->offset});
  }
  to.past.last_use = std::max(to.past.last_use, from.past.last_use);
  env_.events.tell({What::moved, 0, device.place, to.id, 0, move.bytes});
  // What pages it was the last one on is told, so that they can be given back soon.
  Residence *here = from.on(device.place);
  others_.life.free_place(from, tenant.node);
  const bool all = from.vacant();  // pages that were empty before too: the slab ends with the last
  const uint32_t last = all ? from.shape.pages() - 1 : last_page(from, tenant.offset, size);
  try {
    for (uint32_t p = all ? 0 : from.shape.page_at(tenant.offset); p <= last; ++p) {
      if (from.idle(p) && here->pages[p].state() == PageState::resident)
        device.emptied.push_back(PageRef{from.id, p, page_.regions.generation(from)});
    }
  } catch (const std::bad_alloc &) {
    // Whoever needs memory takes them first.
  }
  return true;
}

// ---- what is left behind ----

uint64_t Relocator::reclaim(uint8_t place, bool wait) {
  constexpr size_t most_victims = 1024;  // in a taking of the lock
  Locked lock(env_.sync.lock);
  PoolDevice &device = device_at(place);
  while (wait && await_limbo(lock, device)) {
  }
  if (!wait) (void)sweep_limbo(device);
  std::pmr::vector<PageRef> victims(env_.memory);
  // Whatever is at work on a page without an owner is waited for, or not.
  const auto may = [&](const Region &region, uint32_t page) WEIR_HELD {
    return wait || (region.pages[page].busy() == 0 && lease_.history.at_rest(region, page));
  };
  const auto take = [&](const PageRef &ref) WEIR_HELD {
    Region *region = page_.regions.find(ref.region, ref.generation);
    const Residence *here = region != nullptr ? region->on(place) : nullptr;
    if (here == nullptr || !region->idle(ref.page) ||
        here->pages[ref.page].state() == PageState::absent)
      return true;
    if (!may(*region, ref.page)) return false;
    victims.push_back(ref);
    return true;
  };
  uint64_t freed = 0;
  const auto evict = [&]() WEIR_HELD {
    Status why;
    if (victims.empty()) {
      lock.unlocked([this] {
        env_.sync.points.at("defrag.part");
        std::this_thread::yield();  // to who waits for it
      });
    } else {
      freed += others_.evictor.evict(lock, device, victims, false, &why);
    }
    victims.clear();
  };
  const std::pmr::vector<PageRef> emptied(std::move(device.emptied));
  device.emptied.clear();
  for (size_t at = 0; at < emptied.size(); evict()) {
    const size_t stop = std::min(emptied.size(), at + most_victims);
    visits::count(stop - at);
    for (; at < stop; ++at) {
      // One that can't be listed again for want of memory stays until an acquire needs its room.
      if (!take(emptied[at])) if_memory([&] { device.emptied.push_back(emptied[at]); });
    }
  }
  if (device.vmm()) return freed;
  // Extents of dead regions lie in the way of the living.
  const auto dead = [&](Region &region) WEIR_HELD {
    return region.idle(0) && region.on(place)->resident != 0 && !region.pin_count.any() &&
           may(region, 0);
  };
  const auto list = [&](const Region &region, uint32_t page) WEIR_HELD {
    if (page == 0) victims.push_back(PageRef{region.id, 0, page_.regions.generation(region)});
    return victims.size() < most_victims;
  };
  policy::PageCursor from;
  for (bool ended = false; !ended; evict())
    ended = page::walk_pages(page_.places, device.pages_there(), page_.regions, &from, dead, list);
  return freed;
}

void Relocator::count_defragmentation(uint64_t evicted_bytes, uint64_t won_bytes) {
  Locked lock(env_.sync.lock);
  env_.events.tell(What::made_way, evicted_bytes);
  env_.events.tell(What::won, won_bytes);
}

}  // namespace weir::move
