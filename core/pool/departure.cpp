// SPDX-License-Identifier: Apache-2.0
//
// What becomes of buffers that are at home on a device, or sharded over it, once it is empty and leaves the pool. In parts: others have
// the lock in between, and nothing new comes to the device, as it is leaving.

#include "core/pool/membership.hpp"

#include <algorithm>
#include <cassert>
#include <thread>

namespace weir::pool {

void Membership::rest(Releasable &lock) {
  lock.unlocked([this] {
    env_.sync.points.at("remove.part");
    std::this_thread::yield();  // to who waits for it
  });
}

template <class Visit>
void Membership::in_parts(Releasable &lock, page::PlaceIndex::Sets sets, Visit &&visit) {
  uint64_t looked = 0;
  for (uint32_t id = page_.places.next(sets, 0); id != page::PlaceIndex::none;
       id = page_.places.next(sets, id + 1)) {
    const uint64_t records = visit(page_.regions.at(id));
    visits::count(records);
    looked += records;
    if (looked < most_records) continue;
    looked = 0;
    rest(lock);
  }
  if (looked != 0) rest(lock);  // the caller goes on to another walk
}

void Membership::close_hits(Releasable &lock, const PoolDevice &device) {
  in_parts(lock, page::PlaceIndex::home(device.place) | device.pages_there(),
           [this](Region &region) WEIR_HELD { return 1 + others_.pages.close(region); });
}

Status Membership::leave(Releasable &lock, PoolDevice &device) {
  while (!device.lost() && device.memory.granules().idle() != 0) {
    if (others_.idle.give_idle(lock, device, UINT64_MAX) == 0) break;
  }
  if (device.lost()) clear_shards(lock, device);
  // The lock has been dropped: a lease that was being granted may have come to its end.
  if (!empty(device)) {
    WEIR_TRY(drain(lock, device));
    return leave(lock, device);
  }
  if (device.to_stay()) return fail_cancelled(device);
  device.part();
  if (device.lost()) strip(lock, device);
  PoolDevice *heir = nullptr;
  while (any_at_home(device))
    in_parts(lock, page::PlaceIndex::home(device.place),
             [&](Region &region) WEIR_HELD { return give_home(region, device, &heir); });
  // From here on nothing throws: the device leaves.
  uint64_t looked = 0;
  for (uint32_t id = 0; id < page_.regions.ids(); ++id) {
    Region *const region = page_.regions.live(id);
    const uint64_t records = region != nullptr ? part_from(*region, device) : 1;
    visits::count(records);
    looked += records;
    if (looked < most_records) continue;
    looked = 0;
    rest(lock);
  }
  assert(!any_at_home(device) && device.in_flight == 0);
  device.leave();
  device.memory.granules().set_budget(0);
  config_.devices[device.place].budget = 0;
  (void)others_.losses.next_generation();
  others_.losses.tell_peers();
  env_.sync.lock.note(WEIR_LOG_INFO, "device %u has left the pool", device.device.id);
  return {};
}

void Membership::strip(Releasable &lock, PoolDevice &device) {
  device.limbo.clear();
  device.emptied.clear();
  in_parts(lock, device.pages_there(), [&](Region &region) WEIR_HELD {
    const Residence &here = *region.on(device.place);
    const auto pages = static_cast<uint32_t>(here.pages.size());
    for (uint32_t p = 0; p < pages; ++p) {
      if (here.pages[p].state() == PageState::resident) others_.pages.vanish(region, p, device);
    }
    return uint64_t{pages};
  });
}

/// A small buffer that leaves its slab has a region at home where the slab was, and may have got it since the walk came by. When no
/// slab is at home there any more no other can come.
bool Membership::any_at_home(const PoolDevice &device) noexcept {
  const auto home = page::PlaceIndex::home(device.place);
  for (Region &region : page::Walk(page_.places, home, page_.regions)) {
    if (moves_home(region)) return true;
  }
  return false;
}

uint64_t Membership::give_home(Region &region, const PoolDevice &device, PoolDevice **heir) {
  // There is one: while this device leaves, the last other one can't begin to.
  if (*heir == nullptr || !(*heir)->open()) (void)find_heir(device, heir);
  PoolDevice *const to = *heir;
  const uint64_t records = 1 + (region.is.slab ? region.tenants->count : 0);
  const uint32_t id = region.id;
  const uint16_t generation = page_.regions.generation(region);
  part_from_lost(region, to->place);
  if (page_.regions.find(id, generation) == nullptr)
    return records;  // its last tenant went that way
  if (moves_home(region)) rehome(region, home_for(region, *to));
  return records;
}

uint64_t Membership::part_from(Region &region, PoolDevice &device) noexcept {
  const bool shared = region.shards != nullptr && region.shards->has(device.place);
  const uint64_t records = 1 + (shared ? region.pages.size() : 0);
  if (shared) reshard(region, device);
  Residence *here = region.on(device.place);
  // Where something of a lost device is still mapped nothing else ever is.
  if (here != nullptr && here->range && device.vmm() && !device.lost())
    device.memory.addresses().free(here->range);
  region.residences.erase_if([here](const auto &r) { return r.get() == here; });
  others_.life.retire_region(region);
  return records;
}

void Membership::part_from_lost(Region &slab, uint8_t home) {
  if (!slab.is.slab ||
      std::ranges::none_of(slab.pages, [](const Page &page) { return page.lost(); }))
    return;
  const auto lost = [&](uint32_t page) { return slab.pages[page].lost(); };
  page::Slab &tenants = *slab.tenants;
  for (auto node = tenants.first_tenant(); node != physical::SmallArena::none;) {
    const uint32_t index = tenants.owner(node);
    const uint64_t base = tenants.offset(node);
    const uint64_t size = page_.buffers.hot(index).size();
    node = tenants.next_tenant(node);
    const bool written = (page_.buffers.hot(index).word.load() & Word::virgin) == 0;
    const uint32_t last = slab.shape.page_at(base + size - 1);
    bool any = false;
    for (uint32_t p = slab.shape.page_at(base); p <= last; ++p) any = any || lost(p);
    if (!any || !written) continue;
    if (others_.small.own_lost_page(index, home)) return;  // it was the last: the slab is no more
  }
  for (uint32_t p = 0; p < slab.pages.size(); ++p)
    if (lost(p)) others_.pages.discarded(slab, p);
}

uint8_t Membership::home_for(const Region &region, const PoolDevice &to) {
  if (region.is.slab) return to.place;
  const page::Users *users = page_.buffers.users_of(region.owner.buffer);
  if (users == nullptr) return to.place;
  const uint32_t leaving = device_at(region.home).bit();
  const uint8_t home = others_.homes.choose(region.shape.size, *users, leaving);
  return home != page::Placement::nowhere ? home : to.place;
}

void Membership::rehome(Region &region, uint8_t home) {
  if (region.is.slab) page_.slabs.move(region, home);
  others_.life.leave_lot(region);
  const uint8_t before = region.home;
  page_.places.settle(region, home);
  const uint32_t id = device_at(home).device.id;
  // A tenant that is on its way out of its slab has a region already, which is not its own yet.
  region.for_each_buffer([&](uint32_t index) WEIR_HELD {
    page::Hot &hot = page_.buffers.hot(index);
    others_.homes.count_promise(index, before, hot.size(), false);
    if (hot.device() == device_at(before).device.id) hot.set_size_device(hot.size(), id);
    others_.homes.count_promise(index, home, hot.size(), true);
  });
  const Residence *there = region.on(home);
  for (uint32_t p = 0; there != nullptr && p < there->pages.size(); ++p)
    others_.pages.keep_borrowed(region, p, device_at(home));
}

// ---- buffers that are sharded over the device ----

bool Membership::last_of_shards(const Region &region, const PoolDevice &device) const noexcept {
  if (region.shards == nullptr || region.is.kept || !region.shards->has(device.place)) return false;
  return std::none_of(others_.devices.begin(), others_.devices.end(), [&](const auto &other) {
    return other->place != device.place && other->open() && region.shards->has(other->place);
  });
}

void Membership::reshard(Region &region, const PoolDevice &device) noexcept {
  page::Shards &shards = *region.shards;
  uint32_t closed = 0;
  uint32_t gone = 0;
  for (const auto &other : others_.devices) {
    if (!other->open()) closed |= other->bit();
    if (other->gone() || other->leaving()) gone |= other->bit();
  }
  const bool alive = region.owner.buffer != page::BufferTable::none;
  if (alive)
    others_.homes.count_promise(region.owner.buffer, region.home, region.shape.size, false);
  // What is lost, and still of the pool, is better than nothing: the bytes can be read, and destroyed.
  const bool dealt =
      shards.deal_again(device.place, closed) || shards.deal_again(device.place, gone);
  if (!dealt && alive) shards.stranded = true;
  if (region.home == device.place && dealt) {
    uint8_t home = shards.place(0);  // or the first that is not lost
    for (uint32_t i = shards.count(); i-- > 0;) {
      if (device_at(shards.place(i)).open()) home = shards.place(i);
    }
    page_.places.settle(region, home);
  }
  if (alive) others_.homes.count_promise(region.owner.buffer, region.home, region.shape.size, true);
}

void Membership::clear_shards(Releasable &lock, PoolDevice &device) {
  struct Left {
    uint32_t region, page;
    uint64_t address, bytes;
    page::RegionPin pin;
  };
  std::pmr::vector<Left> left(env_.memory);
  for (Region &region : page::Walk(page_.places, device.pages_there(), page_.regions)) {
    if (region.shards == nullptr) continue;
    const Residence &here = *region.on(device.place);
    for (uint32_t p = 0; p < here.pages.size(); ++p) {
      if (here.pages[p].state() == PageState::resident)
        left.push_back(
            {region.id, p, granule_address(region, here, p), region.shape.granule_bytes(p), {}});
    }
  }
  for (Left &page : left) page.pin = page::RegionPin(page_.regions.at(page.region));
  lock.unlocked([&] {
    for (Left &page : left) {
      if (device.memory.mapper().unmap(page.address, page.bytes)) page.bytes = 0;
    }
  });
  for (const Left &page : left) {
    Region &region = page_.regions.at(page.region);
    region.shards->stranded = region.shards->stranded || page.bytes != 0;
    if (page.bytes == 0) others_.pages.vanish(region, page.page, device);
  }
  for (Left &page : left) page_.regions.unpin(page.pin);
  env_.sync.changed.notify_all();
}

}  // namespace weir::pool
