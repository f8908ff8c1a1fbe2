// SPDX-License-Identifier: Apache-2.0
//
// Devices that come and go, until what leaves is empty (departure.cpp has the rest).

#include "core/pool/membership.hpp"

#include "core/base/amount.hpp"

#include <algorithm>

namespace weir::pool {
namespace {

/// Moved at a time. Between two such lots the removal can be cancelled.
constexpr uint64_t listed_bytes = uint64_t{32} << 20U;
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
  WEIR_TRY(find_member(others_.devices, device_id, &place));
  PoolDevice &device = device_at(place);
  if (device.leaving())
    return fail(WEIR_ERROR_BUSY, "device %u is being removed already", device.device.id);
  PoolDevice *to = nullptr;
  WEIR_TRY(find_heir(device, &to));
  if (device.memory.held_bytes() != 0)
    return fail(WEIR_ERROR_BUSY,
                "%llu bytes of device %u are held (weir_hold, weir_malloc): they can't move",
                llu(device.memory.held_bytes()), device.device.id);
  using page::PlaceIndex;
  for (Region &region : page::Walk(page_.places, PlaceIndex::sharded(), page_.regions)) {
    if (!last_of_shards(region, device)) continue;
    return fail(WEIR_ERROR_BUSY,
                "device %u is the last one of the pool that a buffer is sharded over",
                device.device.id);
  }
  const uint64_t now = config_.clock->now_ns();
  device.begin_leaving(timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX);
  env_.sync.changed.notify_all();
  *out = &device;
  return {};
}

Status Membership::remove(uint32_t device_id, uint64_t timeout_ns) {
  const Scrubbing scrubbing(env_.scrub_turns, true);
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
  WEIR_TRY(find_member(others_.devices, device_id, &place));
  PoolDevice &device = device_at(place);
  if (!device.leaving() || device.parting())
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "device %u is not being removed%s", device.device.id,
                device.leaving() ? " any more: it is empty" : "");
  device.stay();
  env_.sync.changed.notify_all();
  return {};
}

Status Membership::fail_cancelled(const PoolDevice &device) noexcept {
  return fail(WEIR_ERROR_CANCELLED, "the removal of device %u was cancelled", device.device.id);
}

Status Membership::fail_late(PoolDevice &device) noexcept {
  const ErrorDetail detail{.tier = WEIR_TIER_DEVICE,
                           .device = device.device.id,
                           .asked = device.memory.in_use(),
                           .cause = Cause::removal};
  return fail(WEIR_ERROR_TIMEOUT, detail,
              "%s of device %u are leased, in use by work that has not ended, or still to be moved",
              Amount(device.memory.in_use()).c_str(), device.device.id);
}

Status Membership::drain(Releasable &lock, PoolDevice &device) {
  std::pmr::vector<PageRef> pages(env_.memory);
  PageRef from;
  uint32_t barren = 0;
  bool moved = false;
  // New leases come the slow way from now on, where they are refused.
  close_hits(lock, device);
  for (;;) {
    if (env_.sync.lock.stopping() || device.to_stay()) return fail_cancelled(device);
    const bool late = config_.clock->now_ns() >= device.leave_by_ns();
    if (!device.lost()) (void)others_.idle.give_bounce_back(lock, device);
    const bool rested = list_pages(lock, device, &from, &pages);
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
    // The end of work on a device gives no signal, and a signal that was given while the lock was dropped is over: look again by the clock.
    const bool watched =
        rested || device.bounce->claimed() || !device.limbo.empty() || has_leases(device);
    const uint64_t until =
        watched ? std::min(device.leave_by_ns(), now + look_ns) : device.leave_by_ns();
    const Status waited = env_.sync.await_change(lock, nullptr, *config_.clock, until);
    if (!waited && waited.code() != WEIR_ERROR_TIMEOUT) return waited;
  }
}

uint64_t Membership::list_pages_of(Region &region, PoolDevice &device, uint32_t *from,
                                   uint64_t *bytes, std::pmr::vector<PageRef> *pages) {
  const Residence &here = *region.on(device.place);
  const uint32_t first = *from;
  for (; *from < here.pages.size() && *bytes < listed_bytes; ++*from) {
    if (here.pages[*from].state() != PageState::resident) continue;
    const bool spare = region.pages[*from].busy() == 0 && is_spare(region, *from, here);
    if (!spare && lease_.leases.in_use(region, *from, device.place)) continue;
    pages->push_back(PageRef{region.id, *from, page_.regions.generation(region)});
    *bytes += region.shape.granule_bytes(*from);
  }
  return *from - first;
}

bool Membership::list_pages(Releasable &lock, PoolDevice &device, PageRef *from,
                            std::pmr::vector<PageRef> *pages) {
  pages->clear();
  bool rested = false;
  uint64_t bytes = 0, looked = 0;
  // What was passed over is looked at once more before there is said to be none.
  bool whole = from->region == 0 && from->page == 0;
  while (!device.lost()) {
    const uint32_t id = page_.places.next(device.pages_there(), from->region);
    if (id != from->region) from->page = 0;
    from->region = id;
    if (id == page::PlaceIndex::none) {
      from->region = 0;
      if (!pages->empty() || whole) break;
      whole = true;
      continue;
    }
    looked += 1 + list_pages_of(page_.regions.at(id), device, &from->page, &bytes, pages);
    if (bytes >= listed_bytes) break;
    ++from->region;
    from->page = 0;
    if (looked < most_records) continue;
    if (!pages->empty()) break;
    looked = 0;
    rested = true;
    rest(lock);
  }
  return rested;
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
  // What a plan has claimed and not yet filled is in no page; it gives it back as soon as it looks.
  if (!device.lost())
    return page_.places.count(Place(device.place)) == 0 && device.memory.in_use() == 0;
  for (Region &region : page::Walk(page_.places, device.pages_there(), page_.regions)) {
    const Residence &here = *region.on(device.place);
    for (uint32_t p = 0; p < here.pages.size(); ++p) {
      const PageState state = here.pages[p].state();
      if (state == PageState::absent) continue;
      if (state != PageState::resident || lease_.leases.in_use(region, p, device.place))
        return false;
    }
  }
  return true;
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

}  // namespace weir::pool
