// SPDX-License-Identifier: Apache-2.0
//
// Devices that come and go.

#include "core/pool/membership.hpp"

#include <algorithm>

namespace weir::pool {
namespace {

/// Moved at a time: so much passes before somebody who wants the device to stay is heard.
constexpr uint64_t batch_bytes = uint64_t{32} << 20U;
/// Rounds in a row that free nothing and fail: then the failure is the answer.
constexpr uint32_t most_barren = 3;
/// Between two looks at work that nobody tells the end of.
constexpr uint64_t look_ns = 5'000'000;

}  // namespace

void Membership::list(std::pmr::vector<uint32_t> *ids) {
  Locked lock(env_.sync.lock);
  ids->reserve(others_.devices.size() + 1);
  for (const auto &device : others_.devices) ids->push_back(device->device.id);
}

// ---- coming ----

Status Membership::admit(const page::EngineConfig::DeviceBudget &budget, PoolDevice **back) {
  const backend::Device &device = *budget.device;
  const PoolDevice &first = *others_.devices.front();
  *back = nullptr;
  for (auto &known : others_.devices) {
    if (&known->device != &device) continue;
    if (!known->gone())
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "device %u is of this pool already", device.id);
    if (known->lost()) return fail(WEIR_ERROR_DEVICE_LOST, "device %u is lost", device.id);
    *back = known.get();
  }
  if (device.runtime != first.device.runtime)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "a pool over devices of several backends is not supported: device %u is of another "
                "one than device %u",
                device.id, first.device.id);
  if (device.has(WEIR_CAP_HOST_REGISTER) != first.device.has(WEIR_CAP_HOST_REGISTER))
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "devices %u and %u differ in whether they can register host memory", device.id,
                first.device.id);
  if (*back == nullptr && others_.devices.size() == page::max_devices)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "a pool has %u devices at most, in all its life",
                page::max_devices);
  if (others_.losses.generation() >= move::Losses::most_generations)
    return fail(WEIR_ERROR_NOT_SUPPORTED, "the pool's devices have changed %llu times",
                llu(move::Losses::most_generations));
  return {};
}

Status Membership::add(const page::EngineConfig::DeviceBudget &budget, transfer::Routes routes) {
  PoolDevice *back = nullptr;
  size_t place = 0;
  {
    Locked lock(env_.sync.lock);
    WEIR_TRY(admit(budget, &back));
    place = others_.devices.size();
    if (back == nullptr) page_.places.open(static_cast<uint8_t>(place));  // may throw
  }
  Owned<PoolDevice> fresh;
  if (back == nullptr) WEIR_TRY(maker_.make(budget, static_cast<uint8_t>(place), &fresh));
  transfer::Paths paths;
  paths.find(routes, config_.split_sizes);
  Locked lock(env_.sync.lock);
  if (back != nullptr) WEIR_TRY(bring_back(*back, budget.budget));
  PoolDevice &device = back != nullptr ? *back : *fresh;
  device.join(others_.losses.next_generation());
  // All have room for what a pool may have: nothing throws from here on.
  if (back == nullptr) {
    config_.devices.push_back(budget);
    others_.devices.push_back(std::move(fresh));
  }
  config_.routes = std::move(routes);
  others_.carriage.set_paths(std::move(paths));
  others_.losses.tell_peers();
  others_.prefetcher.note_device();
  env_.sync.changed.notify_all();
  env_.sync.wakes.all();
  return {};
}

Status Membership::bring_back(PoolDevice &device, uint64_t budget) {
  WEIR_TRY(others_.sizes.check_device_budget(device.device, budget));
  device.memory.set_budget(budget);
  config_.devices[device.place].budget = budget;
  return {};
}

// ---- going ----

Status Membership::begin_leaving(uint32_t device_id, uint64_t timeout_ns, PoolDevice **out) {
  uint8_t place = 0;
  WEIR_TRY(find_place(others_.devices, device_id, &place));
  PoolDevice &device = device_at(place);
  if (device.leaving())
    return fail(WEIR_ERROR_BUSY, "device %u is being removed already", device.device.id);
  PoolDevice *to = nullptr;
  WEIR_TRY(find_heir(device, &to));
  if (device.memory.held_bytes() != 0)
    return fail(WEIR_ERROR_BUSY,
                "%llu bytes of device %u are held (weir_hold, weir_malloc): they can't move",
                llu(device.memory.held_bytes()), device.device.id);
  for (Region &region : page_.regions) {
    if (!last_of_shards(region, device)) continue;
    return fail(WEIR_ERROR_BUSY,
                "device %u is the last one of the pool that a buffer is sharded over",
                device.device.id);
  }
  const uint64_t now = config_.clock->now_ns();
  device.begin_leaving(timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX);
  // New leases come the slow way from now on, where they are refused.
  others_.pages.close_at_home(place);
  env_.sync.changed.notify_all();
  *out = &device;
  return {};
}

Status Membership::remove(uint32_t device_id, uint64_t timeout_ns) {
  const policy::Scrubbing scrubbing(env_.scrub_turns, true);
  Locked lock(env_.sync.lock);
  PoolDevice *device = nullptr;
  WEIR_TRY(begin_leaving(device_id, timeout_ns, &device));
  const lease::Admission::Watch watch(lease_.admission);
  Status status;
  try {
    status = drain(lock, *device);
    if (status) status = leave(lock, *device);
  } catch (const std::bad_alloc &) {
    status = fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory to move the pages of device %u",
                  device->device.id);
  }
  device->end_leaving();
  env_.sync.changed.notify_all();
  return status;
}

Status Membership::cancel(uint32_t device_id) {
  Locked lock(env_.sync.lock);
  uint8_t place = 0;
  WEIR_TRY(find_place(others_.devices, device_id, &place));
  PoolDevice &device = device_at(place);
  if (!device.leaving())
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "device %u is not being removed", device.device.id);
  device.stay();
  env_.sync.changed.notify_all();
  return {};
}

Status Membership::fail_late(PoolDevice &device) noexcept {
  return fail(WEIR_ERROR_TIMEOUT,
              "%llu bytes of device %u are leased, in use by work that has not ended, or still to "
              "be moved",
              llu(device.memory.in_use()), device.device.id);
}

Status Membership::drain(Releasable &lock, PoolDevice &device) {
  std::pmr::vector<PageRef> pages(env_.memory);
  uint32_t barren = 0;
  bool moved = false;
  for (;;) {
    if (env_.sync.lock.stopping() || device.to_stay())
      return fail(WEIR_ERROR_CANCELLED, "the removal of device %u was cancelled", device.device.id);
    const bool late = config_.clock->now_ns() >= device.leave_by_ns();
    if (!device.lost()) (void)others_.idle.give_bounce_back(lock, device);
    list_pages(device, &pages);
    if (late && moved && !pages.empty()) return fail_late(device);
    if (!pages.empty()) {
      Status why;
      if (evictor_.evict(lock, device, pages, false, &why) != 0) {
        barren = 0;
        moved = true;
        continue;
      }
      // Work that had not ended within the bound of one eviction is waited for again, as long as there is time.
      const bool running = why.code() == WEIR_ERROR_TIMEOUT;
      if (!why && !running && !device.lost() && ++barren == most_barren) return why;
      if (!running || config_.clock->now_ns() < device.leave_by_ns()) continue;
    } else if (others_.relocator.await_limbo(lock, device)) {
      continue;
    }
    if (empty(device)) return {};
    const uint64_t now = config_.clock->now_ns();
    if (now >= device.leave_by_ns()) return fail_late(device);
    // Of work that ends on a device nobody tells.
    const bool watched = device.bounce->claimed() || !device.limbo.empty() || has_leases(device);
    const uint64_t until =
        watched ? std::min(device.leave_by_ns(), now + look_ns) : device.leave_by_ns();
    const Status waited = env_.sync.await_change(lock, nullptr, *config_.clock, until);
    if (!waited && waited.code() != WEIR_ERROR_TIMEOUT) return waited;
  }
}

void Membership::list_pages(PoolDevice &device, std::pmr::vector<PageRef> *pages) {
  pages->clear();
  if (device.lost()) return;
  uint64_t bytes = 0;
  for (Region &region : page::Walk(page_.places, device.pages_there(), page_.regions)) {
    const Residence &here = *region.on(device.place);
    for (uint32_t p = 0; p < here.pages.size() && bytes < batch_bytes; ++p) {
      if (here.pages[p].state() != PageState::resident) continue;
      const bool spare = region.pages[p].busy() == 0 && is_spare(region, p, here);
      if (!spare && lease_.leases.in_use(region, p, device.place)) continue;
      pages->push_back(PageRef{region.id, p, page_.regions.generation(region)});
      bytes += region.shape.granule_bytes(p);
    }
    if (bytes >= batch_bytes) return;
  }
}

bool Membership::has_leases(const PoolDevice &device) noexcept {
  if (lease_.remote_writes.any_by(device.device)) return true;
  const auto &states = lease_.states.all();
  return std::any_of(states.begin(), states.end(), [&device](const auto &state) {
    return state->device == &device.device && state->has_leases();
  });
}

bool Membership::empty(PoolDevice &device) noexcept {
  if (device.in_flight != 0 || has_leases(device)) return false;
  for (Region &region : page::Walk(page_.places, device.pages_there(), page_.regions)) {
    const Residence &here = *region.on(device.place);
    for (uint32_t p = 0; p < here.pages.size(); ++p) {
      const PageState state = here.pages[p].state();
      if (state == PageState::absent) continue;
      if (!device.lost() || state != PageState::resident ||
          lease_.leases.in_use(region, p, device.place))
        return false;
    }
  }
  // What a plan has claimed and not yet filled is in no page; it gives it back as soon as it looks.
  return device.lost() || device.memory.in_use() == 0;
}

Status Membership::find_heir(const PoolDevice &device, PoolDevice **heir) noexcept {
  const transfer::Routes &routes = config_.routes;
  PoolDevice *best = nullptr;
  const auto worth = [&](const PoolDevice &d) {
    const bool direct = routes.direct(device.place, d.place);
    return std::tuple(d.open(), direct ? routes.bandwidth(device.place, d.place) : 0,
                      d.memory.room());
  };
  for (const auto &other : others_.devices) {
    if (other->place == device.place || other->gone() || other->leaving()) continue;
    if (best == nullptr || worth(*other) > worth(*best)) best = other.get();
  }
  *heir = best;
  if (best != nullptr) return {};
  return fail(WEIR_ERROR_INVALID_ARGUMENT, "device %u is the only one of its pool that is left",
              device.device.id);
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
  PoolDevice *to = nullptr;
  WEIR_TRY(find_heir(device, &to));
  strip(device);
  const auto home = page::PlaceIndex::home(device.place);
  for (Region &region : page::Walk(page_.places, home, page_.regions))
    part_from_lost(region, to->place);
  for (Region &region : page::Walk(page_.places, home, page_.regions)) {
    if (!region.is.kept && region.shards == nullptr) rehome(region, home_for(region, *to));
  }
  // From here on nothing throws: the device leaves.
  for (Region &region : page_.regions) {
    if (region.shards != nullptr && region.shards->has(device.place)) reshard(region, device);
    Residence *here = region.on(device.place);
    // Where something of a lost device is still mapped nothing else ever is.
    if (here != nullptr && here->range && device.vmm() && !device.lost())
      device.memory.addresses().free(here->range);
    region.residences.erase_if([here](const auto &r) { return r.get() == here; });
    others_.life.retire_region(region);
  }
  device.leave();
  device.memory.granules().set_budget(0);
  config_.devices[device.place].budget = 0;
  (void)others_.losses.next_generation();
  others_.losses.tell_peers();
  env_.sync.lock.note(WEIR_LOG_INFO, "device %u has left the pool", device.device.id);
  return {};
}

void Membership::strip(PoolDevice &device) noexcept {
  device.limbo.clear();
  device.emptied.clear();
  for (Region &region : page::Walk(page_.places, device.pages_there(), page_.regions)) {
    const Residence &here = *region.on(device.place);
    for (uint32_t p = 0; p < here.pages.size(); ++p) {
      if (here.pages[p].state() == PageState::resident) others_.pages.vanish(region, p, device);
    }
  }
}

void Membership::part_from_lost(Region &slab, uint8_t home) {
  if (!slab.is.slab) return;
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
    hot.set_size_home(hot.size(), id);
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
    if (alive) {
      page::Hot &hot = page_.buffers.hot(region.owner.buffer);
      hot.set_size_home(hot.size(), device_at(region.home).device.id);
    }
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
