// SPDX-License-Identifier: Apache-2.0
//
// Remapping: a fragment that has a shared granule to itself moves into another one that has room for it, so that its own is
// free. Its bytes are copied there, then that granule is mapped where the old one was: the buffer's address stays. Until it
// is done the page is marked as worked on, and whoever needs it waits for one copy of less than a page. If a step fails the
// page is where it was.

#include "core/residency/plan.hpp"
#include "core/virtual/granule_sharing.hpp"

#include <algorithm>

namespace weir::residency {

struct FragmentMove {
  explicit FragmentMove(std::pmr::memory_resource *memory) : fences(memory), copies(memory) {}

  PoolDevice *device = nullptr;
  Region *region = nullptr;
  uint32_t page = 0;
  physical::GranuleLedger::Piece place;  ///< in the target
  weir_be_granule from = 0, to = 0;      ///< the runtime's granules
  vm::AddressRange scratch;              ///< where the target is mapped for the copy
  std::pmr::vector<Stamp> fences;
  std::pmr::vector<weir_be_copy> copies;
  uint64_t address = 0;  ///< where the page's granule is mapped
  uint64_t bytes = 0;    ///< of a granule
  bool lost = false;     ///< it is mapped nowhere any more
};

/// The fragments that have a granule to themselves, the smallest first.
void Engine::survey_fragments(uint8_t place, std::pmr::vector<LooseFragment> *loose) {
  Locked lock(lock_);
  PoolDevice &device = device_at(place);
  loose->clear();
  if (device.sharing == nullptr || device.sharing->movable() == nullptr) return;
  for (Region &region : regions_in(device.pages_there())) {
    if (region.lot_place != place || region.kept) continue;
    for (const uint32_t p : {uint32_t{0}, region.shape.pages() - 1}) {
      if (region.on(place)->pages[p].state() != PageState::resident) continue;
      const vm::Bundle *bundle = bundle_of(region, p, device);
      if (bundle == nullptr || bundle->users != 1) continue;
      loose->push_back(LooseFragment{region.id, regions_.generation(region), p,
                                     region.shape.used_bytes(p), region.shape.granule_bytes(p)});
    }
  }
  std::sort(loose->begin(), loose->end(),
            [](const LooseFragment &a, const LooseFragment &b) { return a.bytes < b.bytes; });
}

/// Under the lock: checks what was surveyed against what is there now, closes the hit path and takes the new place. Throws
/// std::bad_alloc with nothing changed.
Blocker Engine::claim_fragment(PoolDevice &device, const LooseFragment &loose, bool wait,
                               FragmentMove *move) {
  Region *known = regions_.find(loose.region, loose.generation);
  if (known == nullptr) return Blocker::busy;
  Region &region = *known;
  Residence *here = region.on(device.place);
  const bool there = !region.kept && here != nullptr && loose.page < here->pages.size() &&
                     here->pages[loose.page].state() == PageState::resident;
  vm::Bundle *own = there ? bundle_of(region, loose.page, device) : nullptr;
  if (own == nullptr || own->users != 1 || region.pages[loose.page].busy != 0) return Blocker::busy;
  if (region.held_on(device.place)) return Blocker::held;
  if (leases_.in_use(region, loose.page, device.place) ||
      !leases_.close(region, loose.page, device.place))
    return Blocker::leased;
  history_.collect(region, loose.page, &move->fences);
  // And after what fills the device: a wipe of the granule it goes to may still be among that.
  move->fences.push_back(
      Stamp::make(device.streams.up()->slot, device.streams.up()->timeline.last(), true));
  const auto passed = [this](Stamp stamp) { return streams_.passed(stamp); };
  // Nor behind what other moves wait for on the stream that copies it.
  Stream *side = device.streams.side();
  const bool queued = side != nullptr && !side->timeline.passed(side->timeline.last());
  if (!wait && (queued || !std::all_of(move->fences.begin(), move->fences.end(), passed)))
    return Blocker::busy;
  move->copies.reserve(1);
  move->device = &device;
  move->region = &region;
  move->page = loose.page;
  move->bytes = region.shape.granule_bytes(loose.page);
  move->address = granule_address(region, *here, loose.page);
  const bool head = loose.page < region.shape.front;
  if (!device.addresses->allocate(move->bytes, move->bytes, &move->scratch))
    return Blocker::no_room;
  vm::GranuleSharing &sharing = *device.sharing->movable();
  bool found = false;
  try {
    found = sharing.find_other(region.client, region.lot, head, &move->place);
  } catch (...) {
    device.addresses->free(move->scratch);
    throw;
  }
  if (!found) {
    device.addresses->free(move->scratch);
    return Blocker::no_room;
  }
  vm::Bundle &target = sharing.bundle_of(region.client, move->place);
  ++target.users;
  move->from = device.granules->at(own->granule).place;
  move->to = device.granules->at(target.granule).place;
  const uint64_t into = move->scratch.address + sharing.offset(region.client, move->place);
  move->copies.push_back(weir_be_copy{into, move->address + region.shape.before(loose.page),
                                      region.shape.used_bytes(loose.page)});
  begin_work(region, loose.page, device);
  return Blocker::none;
}

/// Outside the lock: the bytes into the target, and the target to the page's address.
Status Engine::carry_fragment(FragmentMove &move) {
  PoolDevice &device = *move.device;
  physical::Mapper &mapper = *device.mapper;
  WEIR_TRY(mapper.map(move.scratch.address, move.bytes, move.to));
  Stamp done;
  Status status = enqueue_moves(device, &move.fences, move.copies, &done);
  if (status && done) {
    status = streams_.finish(done);
    // The target may be someone else's next.
    const weir_be_stream side = streams_.at(done.slot()).native;
    if (!status) (void)device.device.table().stream_synchronize(device.device.state(), side);
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
uint64_t Engine::settle_fragment(FragmentMove &move, bool moved) noexcept {
  PoolDevice &device = *move.device;
  Region &region = *move.region;
  const bool head = move.page < region.shape.front;
  DevicePage &state = region.on(device.place)->pages[move.page];
  uint64_t won = 0;
  vm::GranuleSharing &sharing = *device.sharing->movable();
  vm::Bundle &target = sharing.bundle_of(region.client, move.place);
  if (move.scratch) device.addresses->free(move.scratch);
  end_work(region, move.page, device);
  state.wanted = false;
  if (moved) {
    if (leave_granule(region, move.page, device)) {
      device.granules->at(state.granule).set_client(region.client);
      device.granules->release(state.granule);
      won = move.bytes;
    }
    state.granule = target.granule;
    sharing.settle(region.client, &region.lot, head, move.place);
    events_.tell(
        {What::moved, 0, device.place, region.id, move.page, region.shape.used_bytes(move.page)});
  } else {
    // The others may have left its granule meanwhile, and left it to this one: then nobody else gives it back.
    if (--target.users == 0) {
      const GranuleId granule = target.granule;
      target.granule = physical::no_granule;
      target.maker = nullptr;
      target.wiped = Stamp{};
      device.granules->at(granule).set_client(region.client);
      device.granules->release(granule);
      won = move.bytes;
    }
    sharing.give_up(region.client, move.place);
  }
  if (move.lost) {  // the runtime took the old mapping and gives none back
    const bool had_content = region.pages[move.page].latest() != 0;
    vanish(region, move.page, device);
    if (had_content && region.pages[move.page].latest() == 0)
      places_.note(region, region.pages[move.page].device_lost());
  }
  retire_region(region);
  changed_.notify_all();
  return won;
}

Status Engine::remap_fragment(uint8_t place, const LooseFragment &loose, bool wait,
                              MoveResult *result, uint64_t *won) {
  PoolDevice &device = device_at(place);
  FragmentMove move(&memory_);
  Locked lock(lock_);
  if (device.lost()) return fail(WEIR_ERROR_DEVICE_LOST, "device %u is lost", device.device.id);
  const Blocker why = claim_fragment(device, loose, wait, &move);
  if (why != Blocker::none) {
    result->block(why, loose.bytes);
    return {};
  }
  const Status status = lock.unlocked([&] {
    return with_memory("to move a part of a buffer", [&] { return carry_fragment(move); });
  });
  const KeepError keep;
  note_loss(device, status);
  *won += settle_fragment(move, status.ok() && !device.lost());
  if (status) {
    ++result->moves;
    result->bytes += loose.bytes;
  }
  return status;
}

}  // namespace weir::residency
