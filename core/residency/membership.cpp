// SPDX-License-Identifier: Apache-2.0
//
// Devices that come and go.

#include "core/residency/membership.hpp"

#include "core/residency/plan.hpp"
#include "core/residency/scrub.hpp"

#include <algorithm>

namespace weir::residency {
namespace {

/// Moved at a time: so much passes before somebody who wants the device to stay is heard.
constexpr uint64_t batch_bytes = uint64_t{32} << 20U;
/// Rounds in a row that free nothing and fail: then the failure is the answer.
constexpr uint32_t most_barren = 3;
/// Between two looks at work that nobody tells the end of.
constexpr uint64_t look_ns = 5'000'000;
/// DevicePage::mapped has no more.
constexpr uint64_t most_generations = UINT16_MAX;

}  // namespace

void Membership::list(std::pmr::vector<uint32_t> *ids) {
  Locked lock(engine_.lock_);
  ids->reserve(engine_.devices_.size() + 1);
  for (const auto &device : engine_.devices_) ids->push_back(device->device.id);
}

void Membership::tell_peers() noexcept {
  const auto generation =
      static_cast<uint16_t>(std::min<uint64_t>(engine_.generation_, most_generations));
  for (auto &device : engine_.devices_) {
    physical::Mapper::Peers peers;
    peers.generation = generation;
    for (auto &other : engine_.devices_) {
      const bool same = other->device.runtime == device->device.runtime;
      if (other == device || !same || other->gone() || other->lost()) continue;
      if (!engine_.config_.routes.direct(device->place, other->place)) continue;
      peers.devices[peers.count++] = other->device.index;
    }
    device->memory.mapper().set_peers(peers);
  }
}

// ---- coming ----

/// Whether the device may join. *back: it was here before.
Status Membership::admit(const EngineConfig::DeviceBudget &budget, PoolDevice **back) {
  const backend::Device &device = *budget.device;
  const PoolDevice &first = *engine_.devices_.front();
  *back = nullptr;
  for (auto &known : engine_.devices_) {
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
  if (*back == nullptr && engine_.devices_.size() == vm::max_devices)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "a pool has %u devices at most, in all its life",
                vm::max_devices);
  if (engine_.generation_ >= most_generations)
    return fail(WEIR_ERROR_NOT_SUPPORTED, "the pool's devices have changed %llu times",
                llu(most_generations));
  return {};
}

Status Membership::add(const EngineConfig::DeviceBudget &budget, transfer::Routes routes) {
  Engine &engine = engine_;
  PoolDevice *back = nullptr;
  size_t place = 0;
  {
    Locked lock(engine.lock_);
    WEIR_TRY(admit(budget, &back));
    place = engine.devices_.size();
    if (back == nullptr) engine.places_.open(static_cast<uint8_t>(place));  // may throw
  }
  Owned<PoolDevice> fresh;
  if (back == nullptr) WEIR_TRY(engine.make_device(budget, static_cast<uint8_t>(place), &fresh));
  transfer::Paths paths;
  paths.find(routes, engine.config_.split_sizes);
  Locked lock(engine.lock_);
  if (back != nullptr) WEIR_TRY(bring_back(*back, budget.budget));
  ++engine.generation_;
  PoolDevice &device = back != nullptr ? *back : *fresh;
  device.join(engine.generation_);
  // All have room for what a pool may have: nothing throws from here on.
  if (back == nullptr) {
    engine.config_.devices.push_back(budget);
    engine.devices_.push_back(std::move(fresh));
  }
  engine.config_.routes = std::move(routes);
  engine.paths_ = std::move(paths);
  tell_peers();
  engine.prefetcher_.note_device();
  engine.changed_.notify_all();
  engine.work_.notify_all();
  return {};
}

Status Membership::bring_back(PoolDevice &device, uint64_t budget) {
  WEIR_TRY(engine_.check_device_budget(device.device, budget));
  device.memory.set_budget(budget);
  engine_.config_.devices[device.place].budget = budget;
  return {};
}

// ---- going ----

Status Membership::begin_leaving(uint32_t device_id, uint64_t timeout_ns, PoolDevice **out) {
  uint8_t place = 0;
  WEIR_TRY(engine_.place_of(device_id, &place));
  PoolDevice &device = engine_.device_at(place);
  if (device.leaving())
    return fail(WEIR_ERROR_BUSY, "device %u is being removed already", device.device.id);
  PoolDevice *to = nullptr;
  WEIR_TRY(find_heir(device, &to));
  if (device.memory.held_bytes() != 0)
    return fail(WEIR_ERROR_BUSY,
                "%llu bytes of device %u are held (weir_hold, weir_malloc): they can't move",
                llu(device.memory.held_bytes()), device.device.id);
  for (Region &region : engine_.regions_) {
    if (!engine_.last_of_shards(region, device)) continue;
    return fail(WEIR_ERROR_BUSY,
                "device %u is the last one of the pool that a buffer is sharded over",
                device.device.id);
  }
  const uint64_t now = engine_.now_ns();
  device.begin_leaving(timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX);
  // New leases come the slow way from now on, where they are refused.
  engine_.close_at_home(place);
  engine_.changed_.notify_all();
  *out = &device;
  return {};
}

Status Membership::remove(uint32_t device_id, uint64_t timeout_ns) {
  const Engine::Scrubbing scrubbing(engine_, true);
  Locked lock(engine_.lock_);
  PoolDevice *device = nullptr;
  WEIR_TRY(begin_leaving(device_id, timeout_ns, &device));
  const lease::Admission::Watch watch(engine_.admission_);
  Status status;
  try {
    status = drain(lock, *device);
    if (status) status = leave(lock, *device);
  } catch (const std::bad_alloc &) {
    status = fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory to move the pages of device %u",
                  device->device.id);
  }
  device->end_leaving();
  engine_.changed_.notify_all();
  return status;
}

Status Membership::cancel(uint32_t device_id) {
  Locked lock(engine_.lock_);
  uint8_t place = 0;
  WEIR_TRY(engine_.place_of(device_id, &place));
  PoolDevice &device = engine_.device_at(place);
  if (!device.leaving())
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "device %u is not being removed", device.device.id);
  device.stay();
  engine_.changed_.notify_all();
  return {};
}

Status Membership::fail_late(PoolDevice &device) noexcept {
  return fail(WEIR_ERROR_TIMEOUT,
              "%llu bytes of device %u are leased, in use by work that has not ended, or still to "
              "be moved",
              llu(device.memory.in_use()), device.device.id);
}

/// Until nothing of the pool is on the device any more. May drop the lock.
Status Membership::drain(Releasable &lock, PoolDevice &device) {
  std::pmr::vector<PageRef> pages(&engine_.memory_);
  uint32_t barren = 0;
  bool moved = false;
  for (;;) {
    if (engine_.lock_.stopping() || device.to_stay())
      return fail(WEIR_ERROR_CANCELLED, "the removal of device %u was cancelled", device.device.id);
    const bool late = engine_.now_ns() >= device.leave_by_ns();
    if (!device.lost()) (void)engine_.give_bounce_back(lock, device);
    list_pages(device, &pages);
    if (late && moved && !pages.empty()) return fail_late(device);
    if (!pages.empty()) {
      Status why;
      if (engine_.evict(lock, device, pages, false, &why) != 0) {
        barren = 0;
        moved = true;
        continue;
      }
      // Work that had not ended within the bound of one eviction is waited for again, as long as there is time.
      const bool running = why.code() == WEIR_ERROR_TIMEOUT;
      if (!why && !running && !device.lost() && ++barren == most_barren) return why;
      if (!running || engine_.now_ns() < device.leave_by_ns()) continue;
    } else if (engine_.relocator_.await_limbo(lock, device)) {
      continue;
    }
    if (empty(device)) return {};
    const uint64_t now = engine_.now_ns();
    if (now >= device.leave_by_ns()) return fail_late(device);
    // Of work that ends on a device nobody tells.
    const bool watched = device.bounce->claimed() || !device.limbo.empty() || has_leases(device);
    const uint64_t until =
        watched ? std::min(device.leave_by_ns(), now + look_ns) : device.leave_by_ns();
    const Status waited = engine_.wait_changed(lock, AcquireOptions{}, until);
    if (!waited && waited.code() != WEIR_ERROR_TIMEOUT) return waited;
  }
}

/// A batch of pages that could go now.
void Membership::list_pages(PoolDevice &device, std::pmr::vector<PageRef> *pages) {
  pages->clear();
  if (device.lost()) return;
  uint64_t bytes = 0;
  for (Region &region : engine_.regions_in(device.pages_there())) {
    const Residence &here = *region.on(device.place);
    for (uint32_t p = 0; p < here.pages.size() && bytes < batch_bytes; ++p) {
      if (here.pages[p].state() != PageState::resident) continue;
      const bool spare = region.pages[p].busy == 0 && engine_.is_spare(region, p, here);
      if (!spare && engine_.leases_.in_use(region, p, device.place)) continue;
      pages->push_back(PageRef{region.id, p, engine_.regions_.generation(region)});
      bytes += region.shape.granule_bytes(p);
    }
    if (bytes >= batch_bytes) return;
  }
}

/// Its streams may have leases on other devices' memory (WEIR_USE_ALLOW_REMOTE), and work under them.
bool Membership::has_leases(const PoolDevice &device) noexcept {
  if (engine_.remote_writes_.any_by(device.device)) return true;
  const auto &states = engine_.states_.all();
  return std::any_of(states.begin(), states.end(), [&device](const auto &state) {
    return state->device == &device.device && state->has_leases();
  });
}

/// Whether nothing keeps the device. A lost one is kept by leases alone, which have yet to be released.
bool Membership::empty(PoolDevice &device) noexcept {
  if (device.in_flight != 0 || has_leases(device)) return false;
  for (Region &region : engine_.regions_in(device.pages_there())) {
    const Residence &here = *region.on(device.place);
    for (uint32_t p = 0; p < here.pages.size(); ++p) {
      const PageState state = here.pages[p].state();
      if (state == PageState::absent) continue;
      if (!device.lost() || state != PageState::resident ||
          engine_.leases_.in_use(region, p, device.place))
        return false;
    }
  }
  // What a plan has claimed and not yet filled is in no page; it gives it back as soon as it looks.
  return device.lost() || device.memory.in_use() == 0;
}

/// Who takes over what has its home on the device: the nearest by link, then the one with the most room.
Status Membership::find_heir(const PoolDevice &device, PoolDevice **heir) noexcept {
  const transfer::Routes &routes = engine_.config_.routes;
  PoolDevice *best = nullptr;
  const auto worth = [&](const PoolDevice &d) {
    const bool direct = routes.direct(device.place, d.place);
    return std::tuple(d.open(), direct ? routes.bandwidth(device.place, d.place) : 0,
                      d.memory.room());
  };
  for (const auto &other : engine_.devices_) {
    if (other->place == device.place || other->gone() || other->leaving()) continue;
    if (best == nullptr || worth(*other) > worth(*best)) best = other.get();
  }
  *heir = best;
  if (best != nullptr) return {};
  return fail(WEIR_ERROR_INVALID_ARGUMENT, "device %u is the only one of its pool that is left",
              device.device.id);
}

/// The device is empty. Throws std::bad_alloc with everything whole, and some homes elsewhere.
Status Membership::leave(Releasable &lock, PoolDevice &device) {
  while (!device.lost() && device.memory.granules().idle() != 0) {
    if (engine_.give_idle(lock, device, UINT64_MAX) == 0) break;
  }
  if (device.lost()) engine_.clear_shards(lock, device);
  // The lock has been dropped: a lease that was being granted may have come to its end.
  if (!empty(device)) {
    WEIR_TRY(drain(lock, device));
    return leave(lock, device);
  }
  PoolDevice *to = nullptr;
  WEIR_TRY(find_heir(device, &to));
  strip(device);
  const auto home = page::PlaceIndex::home(device.place);
  for (Region &region : engine_.regions_in(home)) part_from_lost(region, to->place);
  for (Region &region : engine_.regions_in(home)) {
    if (!region.kept && region.shards == nullptr) rehome(region, home_for(region, *to));
  }
  // From here on nothing throws: the device leaves.
  for (Region &region : engine_.regions_) {
    if (region.shards != nullptr && region.shards->has(device.place))
      engine_.reshard(region, device);
    Residence *here = region.on(device.place);
    // Where something of a lost device is still mapped nothing else ever is.
    if (here != nullptr && here->range && device.vmm() && !device.lost())
      device.memory.addresses().free(here->range);
    erase_if(region.residences, [here](const auto &r) { return r.get() == here; });
    engine_.retire_region(region);
  }
  device.leave();
  device.memory.granules().set_budget(0);
  engine_.config_.devices[device.place].budget = 0;
  ++engine_.generation_;
  tell_peers();
  engine_.lock_.note(WEIR_LOG_INFO, "device %u has left the pool", device.device.id);
  return {};
}

/// Of a lost device: what is on it is nobody's from now on.
void Membership::strip(PoolDevice &device) noexcept {
  device.limbo.clear();
  device.emptied.clear();
  for (Region &region : engine_.regions_in(device.pages_there())) {
    const Residence &here = *region.on(device.place);
    for (uint32_t p = 0; p < here.pages.size(); ++p) {
      if (here.pages[p].state() == PageState::resident) engine_.vanish(region, p, device);
    }
  }
}

/// Small buffers with lost bytes get a lost page of their own: their slab is to be used by others. Throws std::bad_alloc with
/// everything whole.
void Membership::part_from_lost(Region &slab, uint8_t home) {
  if (!slab.slab) return;
  const auto lost = [&](uint32_t page) { return slab.pages[page].lost(); };
  vm::Slab &tenants = *slab.tenants;
  for (auto node = tenants.first_tenant(); node != physical::SmallArena::none;) {
    const uint32_t index = tenants.owner(node);
    const uint64_t base = tenants.offset(node);
    const uint64_t size = engine_.buffers_.hot(index).size();
    node = tenants.next_tenant(node);
    const bool written = (engine_.buffers_.hot(index).word.load() & Word::virgin) == 0;
    const uint32_t last = slab.shape.page_at(base + size - 1);
    bool any = false;
    for (uint32_t p = slab.shape.page_at(base); p <= last; ++p) any = any || lost(p);
    if (!any || !written) continue;
    if (engine_.own_lost_page(index, home)) return;  // it was the last: the slab is no more
  }
  for (Page &page : slab.pages) {
    if (page.lost()) engine_.places_.note(slab, page.discarded());
  }
}

/// Where the region is to be at home from now on: as if its buffer were made now; slabs go to the heir.
uint8_t Membership::home_for(const Region &region, const PoolDevice &to) {
  if (region.slab) return to.place;
  const policy::Users *users = engine_.buffers_.users_of(region.buffer);
  if (users == nullptr) return to.place;
  const uint32_t leaving = engine_.device_at(region.home).bit();
  const uint8_t home = engine_.choose_home(region.shape.size, *users, leaving);
  return home != Placement::nowhere ? home : to.place;
}

/// Nothing of the region is on its home any more, and so no hit can read what is changed here. Throws std::bad_alloc with
/// nothing changed.
void Membership::rehome(Region &region, uint8_t home) {
  if (region.slab) engine_.slabs_.move(region, home);
  engine_.leave_lot(region);
  const uint8_t before = region.home;
  engine_.places_.settle(region, home);
  const uint32_t id = engine_.device_at(home).device.id;
  // A tenant that is on its way out of its slab has a region already, which is not its own yet.
  region.for_each_buffer([&](uint32_t index) WEIR_HELD {
    vm::Hot &hot = engine_.buffers_.hot(index);
    engine_.count_promise(index, before, hot.size(), false);
    hot.set_size_home(hot.size(), id);
    engine_.count_promise(index, home, hot.size(), true);
  });
  const Residence *there = region.on(home);
  for (uint32_t p = 0; there != nullptr && p < there->pages.size(); ++p)
    engine_.keep_borrowed(region, p, engine_.device_at(home));
}

}  // namespace weir::residency
