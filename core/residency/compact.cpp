// SPDX-License-Identifier: Apache-2.0
//
// Compact: small buffers move from slab to slab of one group, so that emptied slabs can be given back. As everything else
// here: claimed under the lock, carried out without it, settled under it again.
//
// The pages of both places are busy from the claim to the settling, which is no longer than it takes to hand the copies to
// the device: who comes for the buffer meanwhile waits for that. The copies themselves are ordered after all older work
// on both places, and all newer work after them, by stamps: nobody waits for them on the CPU. A buffer that was leased,
// held or destroyed between claim and settling has not been moved. Until it is settled the old place is the buffer's, and
// the new one a reserved node with the buffer as its owner.

#include "core/residency/plan.hpp"
#include "core/transfer/copier.hpp"

#include <algorithm>

namespace weir::residency {

struct TenantMove {
  const MoveOrder *order = nullptr;
  Region *from = nullptr;
  Region *to = nullptr;
  uint32_t node = physical::SmallArena::none;  ///< in `to`
  bool copy = false;                           ///< it has bytes
  std::array<vm::RegionPin, 2> pins{};         ///< of both, until the whole batch is settled
};

namespace {

uint32_t last_page(const Region &region, uint64_t begin, uint64_t size) noexcept {
  return region.shape.page_at(begin + size - 1);
}

}  // namespace

// ---- handing copies to the device ----

/// Outside the lock: all the copies after all the waits. *done: when they have ended. Failure: none of them is running.
Status Engine::enqueue_moves(PoolDevice &device, std::pmr::vector<Stamp> *waits,
                             const std::pmr::vector<weir_be_copy> &copies, Stamp *done) {
  points.at("compact.claimed");
  if (copies.empty()) return {};
  Stream *side = nullptr;
  try {
    WEIR_TRY(device.streams.open_side(streams_, device.device, this, &side));
  } catch (const std::bad_alloc &) {
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory for a stream of device %u",
                device.device.id);
  }
  // One wait a stream: its latest point stands for the earlier ones.
  std::sort(waits->begin(), waits->end(), [](Stamp a, Stamp b) {
    return a.slot() != b.slot() ? a.slot() < b.slot() : a.point() > b.point();
  });
  transfer::Copier copier(*side);
  const auto run = [&]() -> Status {
    uint32_t slot = 0;
    for (const Stamp stamp : *waits) {
      if (stamp.slot() == slot) continue;
      slot = stamp.slot();
      WEIR_TRY(streams_.enqueue_wait(*side, stamp));
    }
    for (const weir_be_copy &copy : copies)
      WEIR_TRY(copier.copy(copy.destination, copy.source, copy.bytes));
    WEIR_TRY(copier.flush());
    uint64_t point = 0;
    WEIR_TRY(side->timeline.record(&point));
    *done = Stamp::make(side->slot, point, true);
    return {};
  };
  const Status status = run();
  if (!status) {
    const KeepError keep;
    // What they were to fill is about to be someone else's.
    if (copier.enqueued())
      (void)device.device.table().stream_synchronize(device.device.state(), side->native);
  }
  points.at("compact.copied");
  return status;
}

// ---- moving ----

/// Checks the order against what is there now, closes the buffer's hit path and reserves its new place. Nothing is marked.
Blocker Engine::claim_tenant(PoolDevice &device, const MoveOrder &order, TenantMove *move,
                             std::pmr::vector<Stamp> *waits) {
  const Occupant &tenant = order.tenant;
  Region *from = regions_.find_slab(order.from, order.from_generation);
  Region *to = regions_.find_slab(order.to, order.to_generation);
  if (from == nullptr || to == nullptr || from->home != device.place || to->home != device.place)
    return Blocker::busy;
  const auto same = [](const physical::SmallArena &arena, uint32_t node, uint32_t generation) {
    return arena.live(node) && arena.generation(node) == generation;
  };
  if (!same(*from->tenants, tenant.node, tenant.node_generation)) return Blocker::busy;
  const bool before = order.before != UINT32_MAX;
  if (before && !same(*to->tenants, order.before, order.before_generation)) return Blocker::busy;
  std::atomic<uint64_t> &word = buffers_.hot(tenant.owner).word;
  uint64_t seen = word.load(std::memory_order_acquire);
  if ((seen & Word::generation_mask) != tenant.generation ||
      !buffers_.lies_at(tenant.owner, *from, tenant.node))
    return Blocker::busy;
  const uint64_t at = from->tenants->offset(tenant.node);
  const uint64_t size = buffers_.hot(tenant.owner).size();
  const Blocker why = blocker_of(*from, tenant.owner, at, at + size);
  if (why != Blocker::none) return why;
  Residence *there = to->on(device.place);
  for (uint32_t p = to->shape.page_at(order.offset); p <= last_page(*to, order.offset, size); ++p) {
    if (there == nullptr || !on_device(*to, *there, p)) return Blocker::busy;
  }
  const auto place = to->tenants->allocate_before(
      before ? order.before : physical::SmallArena::none, order.offset, size);
  if (!place) return Blocker::busy;
  if (!slabs_.occupy(*to, place)) {
    to->tenants->free(place.node);
    return Blocker::no_room;
  }
  to->tenants->set_owner(place.node, tenant.owner);
  const uint64_t virgin = seen & Word::virgin;
  *move = TenantMove{&order, from, to, place.node, virgin == 0};
  // Closed before its fences are looked at: a hit may come and go until then.
  do {
    if (Word::leases(seen) != 0 || (seen & Word::virgin) != virgin) {
      free_place(*to, place.node);
      return Blocker::leased;
    }
  } while (!word.compare_exchange_weak(seen, seen & ~Word::resident, std::memory_order_acq_rel));
  try {
    history_.gather({0, size, tenant.owner, from, at}, true, waits);
    for (uint32_t p = from->shape.page_at(at); move->copy && p <= last_page(*from, at, size); ++p)
      waits->push_back(from->on(device.place)->pages[p].ready);
    for (uint32_t p = to->shape.page_at(order.offset); p <= last_page(*to, order.offset, size); ++p)
      waits->push_back(there->pages[p].ready);
    history_.gather_place(*to, order.offset, order.offset + size, waits);
  } catch (const std::bad_alloc &) {
    free_place(*to, place.node);
    return Blocker::busy;
  }
  return Blocker::none;
}

/// Both places are ours, or no more.
void Engine::mark_tenant(PoolDevice &device, const TenantMove &move, int delta) noexcept {
  const uint64_t size = move.order->tenant.size;
  const auto mark = [&](Region &region, uint64_t at) WEIR_HELD {
    for (uint32_t p = region.shape.page_at(at); p <= last_page(region, at, size); ++p)
      delta > 0 ? begin_work(region, p, device) : end_work(region, p, device);
  };
  mark(*move.from, move.order->tenant.offset);
  mark(*move.to, move.order->offset);
}

/// True: the buffer is in its new place. It leaves the marks to the caller.
bool Engine::settle_tenant(PoolDevice &device, TenantMove &move, Stamp done) noexcept {
  const Occupant &tenant = move.order->tenant;
  Region &from = *move.from;
  Region &to = *move.to;
  vm::Hot &hot = buffers_.hot(tenant.owner);
  const uint64_t word = hot.word.load(std::memory_order_acquire);
  const bool same = (word & (Word::alive | Word::closing | Word::generation_mask)) ==
                        (Word::alive | tenant.generation) &&
                    buffers_.lies_at(tenant.owner, from, tenant.node);
  const bool in_use =
      Word::leases(word) != 0 || (word & Word::partial) != 0 || buffers_.held(tenant.owner);
  const uint64_t size = tenant.size;
  if (!same || in_use || device.lost() || (move.copy && !done)) {
    // The copy may be running all the same: nobody may write what it reads, use what it writes, or take either away. Who waits
    // at these pages has looked at his fences already, but looks at `ready` again.
    history_.bury(to, move.order->offset, move.order->offset + size, done);
    history_.bury(from, tenant.offset, tenant.offset + size, done);
    const auto bar = [&](Region &region, uint64_t at) {
      Residence &here = *region.on(device.place);
      for (uint32_t p = region.shape.page_at(at); done && p <= last_page(region, at, size); ++p)
        here.pages[p].ready = done;
    };
    bar(from, tenant.offset);
    bar(to, move.order->offset);
    free_place(to, move.node);
    return false;
  }
  // What runs on the old place: the copy, which comes after all else; without one, whatever the history names.
  if (!move.copy) history_.bury_all({0, size, tenant.owner, &from, tenant.offset});
  history_.bury(from, tenant.offset, tenant.offset + size, done);
  hot.stamp.exchange(0, std::memory_order_acquire);
  history_.forget(tenant.owner);
  buffers_.settle(tenant.owner, to, move.node);
  set_flags(tenant.owner, 0, Word::resident | Word::sole);
  if (move.copy) {
    history_.note(tenant.owner, 0, hot.size(), done);
    for (uint32_t p = to.shape.page_at(move.order->offset);
         p <= last_page(to, move.order->offset, size); ++p)
      invalidate(to, p, device.bit());
  } else {
    history_.take_over({0, size, tenant.owner, &to, move.order->offset});
  }
  to.last_use = std::max(to.last_use, from.last_use);
  events_.tell({What::moved, 0, device.place, to.id, 0, move.copy ? hot.size() : 0});
  // What pages it was the last one on is told, so that they can be given back soon.
  Residence *here = from.on(device.place);
  free_place(from, tenant.node);
  const bool all = from.vacant();  // pages that were empty before too: the slab ends with the last
  const uint32_t first = all ? 0 : from.shape.page_at(tenant.offset);
  const uint32_t last = last_page(from, all ? from.shape.size - 1 : tenant.offset, all ? 1 : size);
  try {
    for (uint32_t p = first; p <= last; ++p) {
      if (from.idle(p) && here->pages[p].state() == PageState::resident)
        device.emptied.push_back(PageRef{from.id, p, regions_.generation(from)});
    }
  } catch (const std::bad_alloc &) {
    // Whoever needs memory takes them first.
  }
  return true;
}

Status Engine::move_tenants(uint8_t place, const MoveOrder *orders, size_t count,
                            MoveResult *result) {
  PoolDevice &device = device_at(place);
  std::pmr::vector<TenantMove> moves(&memory_);
  std::pmr::vector<Stamp> waits(&memory_);
  std::pmr::vector<weir_be_copy> copies(&memory_);
  Locked lock(lock_);
  if (device.lost()) return fail(WEIR_ERROR_DEVICE_LOST, "device %u is lost", device.device.id);
  moves.reserve(count);
  copies.reserve(3 * count);  // a tenant is smaller than a page: it lies on two at most
  for (size_t i = 0; i < count; ++i) {
    TenantMove move;
    const Blocker why = claim_tenant(device, orders[i], &move, &waits);
    if (why == Blocker::none) {
      moves.push_back(std::move(move));
    } else {
      result->block(why, orders[i].tenant.size);
    }
  }
  if (moves.empty()) return {};
  for (TenantMove &move : moves) {
    mark_tenant(device, move, 1);
    move.pins = {vm::RegionPin(*move.from), vm::RegionPin(*move.to)};
  }
  for (const TenantMove &move : moves) {
    if (!move.copy) continue;
    uint64_t from = move.order->tenant.offset;
    uint64_t to = move.order->offset;
    const uint64_t end = from + buffers_.hot(move.order->tenant.owner).size();
    const auto left_on_page = [](const Region &region, uint64_t at) {
      const uint32_t p = region.shape.page_at(at);
      return region.shape.offset(p) + region.shape.page_bytes(p) - at;
    };
    const auto address = [&](Region &region, uint64_t at) {
      return address_of(region, *region.on(place)) + at;
    };
    while (from < end) {  // within one mapping on both sides
      const uint64_t step =
          std::min({end - from, left_on_page(*move.from, from), left_on_page(*move.to, to)});
      copies.push_back(weir_be_copy{address(*move.to, to), address(*move.from, from), step});
      from += step;
      to += step;
    }
  }
  Stamp done;
  const Status status = lock.unlocked([&] { return enqueue_moves(device, &waits, copies, &done); });
  const KeepError keep;
  note_loss(device, status);
  for (TenantMove &move : moves) {
    const uint64_t bytes = move.copy ? buffers_.hot(move.order->tenant.owner).size() : 0;
    if (settle_tenant(device, move, done)) {
      ++result->moves;
      result->bytes += bytes;
    } else {
      result->block(Blocker::busy, move.order->tenant.size);
    }
  }
  for (const TenantMove &move : moves) mark_tenant(device, move, -1);
  for (TenantMove &move : moves) {
    for (vm::RegionPin &pin : move.pins) regions_.unpin(pin);
  }
  changed_.notify_all();
  return status;
}

// ---- what is left behind ----

/// Nothing is at work on a page that has no owner.
bool Engine::idle_page(Region &region, uint32_t page) noexcept {
  return region.idle(page) && region.pages[page].busy == 0 && history_.at_rest(region, page);
}

uint64_t Engine::reclaim(uint8_t place, bool wait) {
  Locked lock(lock_);
  PoolDevice &device = device_at(place);
  if (wait) {
    while (await_limbo(lock, device)) {
    }
  } else {
    (void)sweep_limbo(device);
  }
  std::pmr::vector<PageRef> victims(&memory_);
  victims.reserve(device.emptied.size());
  const auto take = [&](const PageRef &ref) WEIR_HELD {
    Region *region = regions_.find(ref.region, ref.generation);
    const Residence *here = region != nullptr ? region->on(place) : nullptr;
    if (here == nullptr || !region->idle(ref.page) ||
        here->pages[ref.page].state() == PageState::absent)
      return true;
    if (!wait && !idle_page(*region, ref.page)) return false;
    victims.push_back(ref);
    return true;
  };
  std::erase_if(device.emptied, take);
  // Without VMM extents of dead regions lie in the way of the living.
  for (Region &region : regions_in(device.vmm() ? 0 : device.pages_there())) {
    if (!region.idle(0) || region.on(place)->resident == 0 || region.pin_count.any()) continue;
    const PageRef ref{region.id, 0, regions_.generation(region)};
    const bool listed = std::any_of(victims.begin(), victims.end(), [&](const PageRef &other) {
      return other.region == region.id;
    });
    if (!listed && (wait || idle_page(region, 0))) victims.push_back(ref);
  }
  Status why;
  return victims.empty() ? 0 : evict(lock, device, victims, false, &why);
}

void Engine::count_defragmentation(uint64_t evicted_bytes, uint64_t won_bytes) {
  Locked lock(lock_);
  events_.tell(What::made_way, evicted_bytes);
  events_.tell(What::won, won_bytes);
}

}  // namespace weir::residency
