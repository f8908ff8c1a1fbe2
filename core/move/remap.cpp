// SPDX-License-Identifier: Apache-2.0
//
// Remapping: a fragment that has a shared granule to itself moves into another one that has room for it, so that its own is
// free. Its bytes are copied there, then that granule is mapped where the old one was: the buffer's address stays. Until it
// is done the page is marked as worked on, and whoever needs it waits for one copy of less than a page. If a step fails the
// page is where it was.

#include "core/move/relocator.hpp"
#include "core/page/granule_sharing.hpp"
#include "core/page/page_walk.hpp"

#include <algorithm>

namespace weir::move {

struct Relocator::FragmentMove {
  std::pmr::vector<Stamp> fences;
  PoolDevice *device = nullptr;
  Region *region = nullptr;
  uint32_t page = 0;
  physical::GranuleLedger::Piece place{};  ///< in the target
  weir_be_granule from = 0, to = 0;        ///< the runtime's granules
  page::AddressRange scratch{};            ///< where the target is mapped for the copy
  weir_be_copy copy{};
  uint64_t address = 0;  ///< where the page's granule is mapped
  uint64_t bytes = 0;    ///< of a granule
  bool lost = false;     ///< it is mapped nowhere any more
};

void Relocator::survey_fragments(uint8_t place, std::pmr::vector<LooseFragment> *loose) {
  PoolDevice &device = device_at(place);
  loose->clear();
  const auto list = [&](Region &region) WEIR_HELD {
    if (region.layout.lot_place != place || region.is.kept) return false;
    for (const uint32_t p : {uint32_t{0}, region.shape.pages() - 1}) {
      if (region.on(place)->pages[p].state() != PageState::resident) continue;
      const page::Bundle *bundle = device.memory.bundle_of(region, p);
      if (bundle == nullptr || bundle->users != 1) continue;
      loose->push_back(LooseFragment{region.id, page_.regions.generation(region), p,
                                     region.shape.used_bytes(p), region.shape.granule_bytes(p)});
    }
    return false;  // no other page of it is of interest
  };
  const auto none = [](const Region &, uint32_t) { return true; };
  policy::PageCursor from;
  in_parts([&]() WEIR_HELD {
    if (device.memory.sharing() == nullptr || device.memory.sharing()->movable() == nullptr)
      return true;
    return page::walk_pages(page_.places, device.pages_there(), page_.regions, &from, list, none);
  });
  std::ranges::sort(*loose, {}, &LooseFragment::bytes);
}

/// Under the lock: checks what was surveyed against what is there now, closes the hit path and takes the new place. Throws
/// std::bad_alloc with nothing changed.
Blocker Relocator::claim_fragment(PoolDevice &device, const LooseFragment &loose, bool wait,
                                  FragmentMove *move) {
  Region *known = page_.regions.find(loose.region, loose.generation);
  if (known == nullptr) return Blocker::busy;
  Region &region = *known;
  Residence *here = region.on(device.place);
  const bool there = !region.is.kept && here != nullptr && loose.page < here->pages.size() &&
                     here->pages[loose.page].state() == PageState::resident;
  page::Bundle *own = there ? device.memory.bundle_of(region, loose.page) : nullptr;
  if (own == nullptr || own->users != 1 || region.pages[loose.page].busy() != 0)
    return Blocker::busy;
  if (region.held_on(device.place)) return Blocker::held;
  if (lease_.leases.in_use(region, loose.page, device.place) ||
      !lease_.leases.close(region, loose.page, device.place))
    return Blocker::leased;
  lease_.history.collect(region, loose.page, &move->fences);
  // And after what fills the device: a wipe of the granule it goes to may still be among that.
  move->fences.push_back(
      Stamp::make(device.streams.up()->slot, device.streams.up()->timeline.last(), true));
  const auto passed = [this](Stamp stamp) { return env_.streams.passed(stamp); };
  // Nor behind what other moves wait for on the stream that copies it.
  Stream *side = device.streams.side();
  const bool queued = side != nullptr && !side->timeline.passed(side->timeline.last());
  if (!wait && (queued || !std::all_of(move->fences.begin(), move->fences.end(), passed)))
    return Blocker::busy;
  move->device = &device;
  move->region = &region;
  move->page = loose.page;
  move->bytes = region.shape.granule_bytes(loose.page);
  move->address = granule_address(region, *here, loose.page);
  if (!device.memory.addresses().allocate(move->bytes, move->bytes, &move->scratch))
    return Blocker::no_room;
  page::GranuleSharing &sharing = *device.memory.sharing()->movable();
  bool found = false;
  const AtEnd undo([&] {
    if (!found) device.memory.addresses().free(move->scratch);
  });
  found = sharing.find_other(region.owner.client, region.lot, loose.page < region.shape.front,
                             &move->place);
  if (!found) return Blocker::no_room;
  page::Bundle &target = sharing.bundle_of(region.owner.client, move->place);
  ++target.users;
  move->from = device.memory.at(own->granule).place;
  move->to = device.memory.at(target.granule).place;
  const uint64_t into = move->scratch.address + sharing.offset(region.owner.client, move->place);
  move->copy = {into, move->address + region.shape.before(loose.page),
                region.shape.used_bytes(loose.page)};
  others_.pages.mark_busy(region, loose.page, device);
  return Blocker::none;
}

/// Outside the lock: the bytes into the target, and the target to the page's address.
Status Relocator::carry_fragment(FragmentMove &move) {
  PoolDevice &device = *move.device;
  physical::Mapper &mapper = device.memory.mapper();
  WEIR_TRY(mapper.map(move.scratch.address, move.bytes, move.to));
  Stamp done;
  Status status = enqueue_moves(device, &move.fences, {&move.copy, 1}, &done);
  if (status && done) {
    status = env_.streams.finish(done);
    // The target may be someone else's next.
    if (!status) env_.streams.at(done.slot()).synchronize();
  }
  {
    const KeepError keep;
    // A range that something is mapped in is never given out again.
    if (!mapper.unmap(move.scratch.address, move.bytes)) move.scratch = {};
  }
  WEIR_TRY(status);
  WEIR_TRY(mapper.unmap(move.address, move.bytes));
  status = mapper.map(move.address, move.bytes, move.to);
  if (status) return {};
  const KeepError keep;
  move.lost = !mapper.map(move.address, move.bytes, move.from);
  return status;
}

/// Under the lock: the page has its new granule, or everything is as it was. Returns the device memory won.
uint64_t Relocator::settle_fragment(FragmentMove &move, bool moved) noexcept {
  PoolDevice &device = *move.device;
  Region &region = *move.region;
  bool freed = false;
  page::GranuleSharing &sharing = *device.memory.sharing()->movable();
  page::Bundle &target = sharing.bundle_of(region.owner.client, move.place);
  if (move.scratch) device.memory.addresses().free(move.scratch);
  others_.pages.unmark_busy(region, move.page, device);
  if (moved) {
    freed =
        device.memory.give(device.memory.bundle_of(region, move.page),
                           region.on(device.place)->pages[move.page].granule, region.owner.client);
    others_.pages.set_granule(region, move.page, device, target.granule);
    sharing.settle(region.owner.client, &region.lot, move.page < region.shape.front, move.place);
    env_.events.tell(
        {What::moved, 0, device.place, region.id, move.page, region.shape.used_bytes(move.page)});
  } else {
    // The others may have left its granule meanwhile, and left it to this one: then nobody else gives it back.
    freed = device.memory.give(&target, target.granule, region.owner.client);
    sharing.give_up(region.owner.client, move.place);
  }
  if (move.lost) {  // the runtime took the old mapping and gives none back
    const bool had_content = region.pages[move.page].latest() != 0;
    others_.pages.vanish(region, move.page, device);
    if (had_content && region.pages[move.page].latest() == 0)
      others_.pages.device_lost(region, move.page);
  }
  page_.regions.retire(region);
  env_.sync.changed.notify_all();
  return freed ? move.bytes : 0;
}

Status Relocator::remap_fragment(uint8_t place, const LooseFragment &loose, bool wait,
                                 MoveResult *result, uint64_t *won) {
  PoolDevice &device = device_at(place);
  FragmentMove move{std::pmr::vector<Stamp>(env_.memory)};
  Locked lock(env_.sync.lock);
  if (device.lost()) return fail(WEIR_ERROR_DEVICE_LOST, "device %u is lost", device.device.id);
  const Blocker why = claim_fragment(device, loose, wait, &move);
  if (why != Blocker::none) {
    result->block(why, loose.bytes);
    return {};
  }
  const Status status = lock.unlocked([&] {
    const RangeScope range(env_.sync.tap.ranges(), RangeKind::move, [&](RangeText &text) {
      text.add("compact a part of a buffer, device %u", device.device.id);
    });
    return with_memory("to move a part of a buffer", [&] { return carry_fragment(move); });
  });
  const KeepError keep;
  others_.losses.note(device, status);
  *won += settle_fragment(move, status.ok() && !device.lost());
  if (status) {
    ++result->moves;
    result->bytes += loose.bytes;
  }
  return status;
}

}  // namespace weir::move
