// SPDX-License-Identifier: Apache-2.0
//
// Sharded buffers: the pages of one buffer lie on several devices, each on one of them at a time, at one range of addresses
// that all of them use (virtual/shards.hpp). A set that uses such a buffer is several plans: one for the device of the
// stream, and one for each other device that has pages of it. They are claimed, given room and filled as one: the claims
// are the first plan's, so a set waits for leases holding nothing, as every other does.
//
// What must hold: a page is mapped from one device at a time, so it is neither lent to a neighbour nor brought anywhere but
// to its shard's device. No hit is granted on such a buffer: leases of it are of several devices. The stream that writes may
// be of another device than the memory, so writers are noted as those of WEIR_USE_ALLOW_REMOTE are (remote.cpp).

#include "core/base/descriptor.hpp"
#include "core/residency/remote.hpp"

#include <algorithm>
#include <iterator>

namespace weir::residency {

// ---- what is asked for ----

namespace {

Status check_layout(const weir_shard_desc &desc, uint64_t page) {
  if (desc.reserved != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "shards: reserved is %u", desc.reserved);
  if (desc.policy != WEIR_SHARD_STRIPED && desc.policy != WEIR_SHARD_BLOCKED)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "shards: policy is %u", desc.policy);
  if (desc.device_count == 0 || desc.device_count > vm::Shards::most_places ||
      desc.devices == nullptr) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "shards: device_count is %u%s", desc.device_count,
                desc.devices == nullptr ? ", and devices is NULL" : ", not 1 to 28");
  }
  if (desc.policy == WEIR_SHARD_BLOCKED && desc.stripe != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "shards: stripe is %llu, and blocks have none",
                llu(desc.stripe));
  if (desc.stripe % page != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "shards: stripe %llu is no multiple of the page size %llu", llu(desc.stripe),
                llu(page));
  for (uint32_t i = 0; desc.weights != nullptr && i < desc.device_count; ++i) {
    if (desc.weights[i] == 0 || desc.weights[i] > vm::Shards::most_weight)
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "shards: weights[%u] is %u, not 1 to %u", i,
                  desc.weights[i], vm::Shards::most_weight);
  }
  return {};
}

}  // namespace

/// What the descriptor says of shards. All on one device: there are none, and the device is the home.
Status Engine::read_shards(const weir_buffer_desc &desc, ShardWish *wish) {
  weir_shard_desc given = WEIR_SHARD_DESC_INIT;
  WEIR_TRY(read_descriptor(desc.shards, "desc.shards", &given));
  WEIR_TRY(check_layout(given, config_.page_size));
  if (desc.user_count != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "user_count is %u: where a sharded buffer lies is said by its shards",
                desc.user_count);
  Owned<vm::Shards> shards = make_owned<vm::Shards>(&memory_, &memory_);
  for (uint32_t i = 0; i < given.device_count; ++i) {
    uint8_t place = 0;
    WEIR_TRY(place_of(given.devices[i], &place));
    const PoolDevice &device = device_at(place);
    if (shards->has(place))
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "shards: devices[%u] is device %u once more", i,
                  device.device.id);
    if (device.lost()) return fail(WEIR_ERROR_DEVICE_LOST, "device %u is lost", device.device.id);
    if (!device.open())
      return fail(WEIR_ERROR_DEVICE_REMOVED, "device %u is leaving the pool", device.device.id);
    shards->add(place, given.weights != nullptr ? given.weights[i] : 1);
  }
  wish->home = shards->place(0);
  const bool named = desc.home != WEIR_DEVICE_DEFAULT && desc.home != WEIR_DEVICE_ANY;
  if (named && desc.home != device_at(wish->home).device.id)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "home is device %u, and the first of the shards' devices %u", desc.home,
                device_at(wish->home).device.id);
  if (shards->count() == 1) return {};
  WEIR_TRY(check_shard_links(*shards));
  wish->policy = given.policy;
  wish->stripe = given.stripe;
  wish->shards = std::move(shards);
  return {};
}

/// Each of the devices must reach what the others have of the buffer.
Status Engine::check_shard_links(const vm::Shards &shards) {
  for (uint32_t i = 0; i < shards.count(); ++i) {
    const PoolDevice &device = device_at(shards.place(i));
    if (!device.vmm() || !device.device.has(WEIR_CAP_SHARED_RANGE))
      return fail(WEIR_ERROR_NOT_SUPPORTED,
                  "shards: device %u has no address ranges that several devices share "
                  "(WEIR_CAP_SHARED_RANGE)",
                  device.device.id);
    for (uint32_t j = 0; j < shards.count(); ++j) {
      const PoolDevice &other = device_at(shards.place(j));
      if (i == j || config_.routes.direct(other.place, device.place)) continue;
      return fail(WEIR_ERROR_NOT_SUPPORTED, "shards: device %u does not reach device %u directly",
                  device.device.id, other.device.id);
    }
  }
  return {};
}

/// A region with its pages dealt out and its addresses on all of the devices.
Status Engine::make_sharded_region(uint64_t size, uint32_t client, ShardWish &wish,
                                   Region **region) {
  vm::Shards &shards = *wish.shards;
  const vm::Geometry shape = vm::Shards::shape_of(size, config_.page_size, config_.large_page_size,
                                                  wish.stripe, shards.count());
  if (wish.policy == WEIR_SHARD_BLOCKED) {
    shards.deal_blocks(shape);
  } else {
    const uint64_t usual = shape.large != 0 ? shape.large_bytes : shape.small_bytes;
    shards.deal_stripes(shape, wish.stripe != 0 ? wish.stripe : usual);
  }
  Region &fresh = make_region(shape, wish.home, client);
  const auto open = [&] {
    fresh.residences.reserve(shards.count());
    for (uint32_t i = 0; i < shards.count(); ++i) {
      fresh.residences.push_back(make_owned<Residence>(&memory_, shards.place(i), &memory_));
      fresh.residences.back()->pages.resize(shape.pages());
    }
    return device_at(wish.home).memory.addresses().allocate(
        shape.address_bytes(), shape.address_alignment(), &shards.range);
  };
  WEIR_TRY(or_undo(open, [&]() WEIR_HELD { free_region(fresh); }));
  shards.range_place = wish.home;
  for (const auto &residence : fresh.residences) residence->range.address = shards.range.address;
  fresh.shards = std::move(wish.shards);
  *region = &fresh;
  return {};
}

// ---- use ----

/// Of the region's first byte, as the device at the place reaches it.
uint64_t Engine::address_on(Region &region, uint8_t place) const noexcept {
  if (region.shards != nullptr) return region.shards->range.address;
  return address_of(region, *region.on(place));
}

/// Whether the plan's device can use the item's bytes wherever they are, or will be.
Status Engine::check_reach(const Plan &plan, const PlanItem &item) {
  Region &region = *item.region;
  const vm::Shards &shards = *region.shards;
  const PoolDevice &device = *plan.device;
  const ErrorDetail detail{.use_index = item.use};
  if (shards.stranded)
    return fail(WEIR_ERROR_DEVICE_LOST, detail,
                "uses[%u]: a part of the buffer was mapped on a device that is lost, and nothing "
                "can take its place",
                item.use);
  if (shards.has(device.place)) return {};
  for (uint32_t p = item.first; p <= item.last; ++p) {
    const uint8_t place = shards.place_of(p);
    const Residence &there = *region.on(place);
    const bool mapped = there.pages[p].state() == PageState::resident;
    if (config_.routes.direct(place, device.place) && (!mapped || reads_directly(device, there, p)))
      continue;
    return fail(WEIR_ERROR_NOT_SUPPORTED, detail,
                "uses[%u]: device %u does not reach page %u of the sharded buffer on device %u%s",
                item.use, device.device.id, p, device_at(place).device.id,
                config_.routes.direct(place, device.place)
                    ? ": it was mapped before the device joined the pool"
                    : "");
  }
  return {};
}

/// Makes the plans for what lies on other devices than the plan's own. The items have been resolved.
Status Engine::spread(Plan &plan) {
  plan.others.clear();
  if (!plan.sharded()) return {};
  plan.others.reserve(devices_.size());  // they are pointed to
  for (uint32_t i = 0; i < plan.items.size(); ++i) {
    const PlanItem &item = plan.items[i];
    if (item.region->shards == nullptr) continue;
    WEIR_TRY(check_reach(plan, item));
    uint32_t places = 0;
    for (uint32_t p = item.first; p <= item.last; ++p)
      places |= uint32_t{1} << item.region->home_of(p);
    for (const auto &device : devices_) {
      if ((places & device->bit()) == 0 || device->place == plan.place()) continue;
      auto other = std::ranges::find(plan.others, device.get(), &Plan::device);
      if (other == plan.others.end()) {
        plan.others.emplace_back(&memory_, plan.stream, device.get());
        other = std::prev(plan.others.end());
        other->lease = plan.lease;
        other->quiet = plan.quiet;
        other->not_before = plan.not_before;
      }
      other->items.push_back(item);
      other->items.back().claimed = false;
      other->items.back().of = i;
    }
  }
  return {};
}

/// True: another thread is working on a page of the set.
bool Engine::scan_all(Plan &plan) {
  bool any = false;
  plan.each([&](Plan &part) WEIR_HELD {
    bool busy = false;
    scan_pages(part, &busy);
    any = any || busy;
  });
  for (const Plan &other : plan.others) {
    for (const PlanItem &item : other.items)
      plan.items[item.of].missed = plan.items[item.of].missed || item.missed;
  }
  return any;
}

/// The set is short of room on a device where buffers that it uses elsewhere lie: claimed, they would be in its own way for ever.
/// They leave first, and what it was to use there in place comes to the stream's device. True: something has changed.
bool Engine::give_way(Releasable &lock, Plan &plan, PoolDevice &device) {
  if (plan.device == &device) return false;
  if (plan.remote != nullptr && (plan.not_there & device.bit()) == 0) {
    plan.not_there |= device.bit();
    for (const auto &part : plan.remote->plans) {
      if (part->device == &device) return true;
    }
  }
  std::pmr::vector<PageRef> pages(&memory_);
  for (const PlanItem &item : plan.items) {
    Region &region = *item.region;
    const Residence *there = region.shards == nullptr ? region.on(device.place) : nullptr;
    for (uint32_t p = item.first; there != nullptr && p <= item.last; ++p) {
      if (there->pages[p].state() == PageState::resident)
        pages.push_back(PageRef{region.id, p, regions_.generation(region)});
    }
  }
  Status why;
  return !pages.empty() && evict(lock, device, pages, false, &why) != 0;
}

// ---- devices that leave ----

/// Whether a buffer would be left without a device if this one left.
bool Engine::last_of_shards(const Region &region, const PoolDevice &device) const noexcept {
  if (region.shards == nullptr || region.kept || !region.shards->has(device.place)) return false;
  return std::none_of(devices_.begin(), devices_.end(), [&](const auto &other) {
    return other->place != device.place && other->open() && region.shards->has(other->place);
  });
}

/// Nothing of the region is on the device any more: its pages are others' from now on.
void Engine::reshard(Region &region, const PoolDevice &device) noexcept {
  vm::Shards &shards = *region.shards;
  uint32_t closed = 0;
  uint32_t gone = 0;
  for (const auto &other : devices_) {
    if (!other->open()) closed |= other->bit();
    if (other->gone() || other->leaving()) gone |= other->bit();
  }
  const bool alive = region.buffer != vm::BufferTable::none;
  if (alive) count_promise(region.buffer, region.home, region.shape.size, false);
  // What is lost, and still of the pool, is better than nothing: the bytes can be read, and destroyed.
  const bool dealt =
      shards.deal_again(device.place, closed) || shards.deal_again(device.place, gone);
  if (!dealt && alive) shards.stranded = true;
  if (region.home == device.place && dealt) {
    uint8_t home = shards.place(0);  // or the first that is not lost
    for (uint32_t i = shards.count(); i-- > 0;) {
      if (device_at(shards.place(i)).open()) home = shards.place(i);
    }
    places_.settle(region, home);
    if (alive) {
      vm::Hot &hot = buffers_.hot(region.buffer);
      hot.set_size_home(hot.size(), device_at(region.home).device.id);
    }
  }
  if (alive) count_promise(region.buffer, region.home, region.shape.size, true);
}

/// What a plan has mapped in ranges that others use, on a device that was lost while it did so, is taken out again, once its
/// copies have ended, as far as the device still makes them: their sources may be freed next.
void Engine::clear_mappings(Releasable &lock, Plan &plan) noexcept {
  lock.unlocked([&] {
    PoolDevice &device = *plan.device;
    device.streams.up()->synchronize();
    for (PlanPage &page : plan.pages) {
      if (page.region->shards == nullptr || !page.mapped) continue;
      if (plan.device->memory.mapper().unmap(page.granule_address, page.bytes)) page.mapped = false;
    }
  });
}

/// Of a lost device, which is about to be forgotten: what it has mapped in ranges that others use is in their way.
void Engine::clear_shards(Releasable &lock, PoolDevice &device) {
  struct Left {
    uint32_t region, page;
    uint64_t address, bytes;
    vm::RegionPin pin;
  };
  std::pmr::vector<Left> left(&memory_);
  for (Region &region : regions_in(device.pages_there())) {
    if (region.shards == nullptr) continue;
    const Residence &here = *region.on(device.place);
    for (uint32_t p = 0; p < here.pages.size(); ++p) {
      if (here.pages[p].state() == PageState::resident)
        left.push_back(
            {region.id, p, granule_address(region, here, p), region.shape.granule_bytes(p), {}});
    }
  }
  for (Left &page : left) page.pin = vm::RegionPin(regions_.at(page.region));
  lock.unlocked([&] {
    for (Left &page : left) {
      if (device.memory.mapper().unmap(page.address, page.bytes)) page.bytes = 0;
    }
  });
  for (const Left &page : left) {
    Region &region = regions_.at(page.region);
    region.shards->stranded = region.shards->stranded || page.bytes != 0;
    if (page.bytes == 0) vanish(region, page.page, device);
  }
  for (Left &page : left) regions_.unpin(page.pin);
  changed_.notify_all();
}

}  // namespace weir::residency
