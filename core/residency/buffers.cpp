// SPDX-License-Identifier: Apache-2.0
//
// Buffers: creating and destroying them, and what becomes of their regions. A buffer of a page or more owns a
// region; a smaller one is a tenant of a slab. A destroyed buffer's region is "kept": its pages stay mapped and are
// the first to be evicted, unless a new buffer of the same shape and client takes them over as they are, with
// the fences of the work that may still be running on them. So destruction never waits for a device.

#include "core/base/descriptor.hpp"
#include "core/base/grow.hpp"
#include "core/residency/plan.hpp"
#include "core/residency/scrub.hpp"
#include "core/tier/codec/form.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace weir::residency {
namespace {

uint64_t alignment_bits(uint64_t alignment) noexcept {
  const auto log2 = static_cast<uint64_t>(std::countr_zero(std::max<uint64_t>(alignment, 256)));
  return std::min(log2, Word::alignment_mask) << Word::alignment_shift;
}

}  // namespace

Status Engine::place_of(uint32_t device_id, uint8_t *place) {
  for (const auto &device : devices_) {
    const bool meant = device_id == WEIR_DEVICE_DEFAULT || device->device.id == device_id;
    if (!meant || device->gone()) continue;
    *place = device->place;
    return {};
  }
  if (device_id == WEIR_DEVICE_ANY)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "device is WEIR_DEVICE_ANY, which only the home of a buffer can be");
  return fail(WEIR_ERROR_INVALID_ARGUMENT, "device %u is not of this pool", device_id);
}

/// Where a stream's work is done. One that has left the pool is told from one that never was of it.
Status Engine::place_of(const Stream &stream, uint8_t *place) {
  for (const auto &device : devices_) {
    if (&device->device == stream.device && device->gone())
      return fail(WEIR_ERROR_DEVICE_REMOVED, "device %u has left the pool", device->device.id);
  }
  return place_of(stream.device->id, place);
}

// ---- regions ----

/// The lot of a shape that shares granules becomes the region's, or is left.
Region &Engine::make_region(const vm::Geometry &shape, uint8_t home, uint32_t client,
                            const vm::Sharing::Lot &lot) {
  try {
    places_.reserve(regions_.ids() + size_t{1});
    Region &fresh = regions_.make(shape, home, client);
    places_.settle(fresh, home);
    fresh.lot = lot;
    fresh.lot_place = shape.shared ? home : Region::no_lot;
    return fresh;
  } catch (...) {
    if (shape.shared) devices_[home]->memory.sharing()->leave(client, lot);
    throw;
  }
}

/// A region that has its addresses on its home device.
Status Engine::make_home_region(const vm::Geometry &shape, uint8_t home, uint32_t client,
                                Region **region, const vm::Sharing::Lot &lot) {
  Region &fresh = make_region(shape, home, client, lot);
  WEIR_TRY(or_undo([&]() WEIR_HELD { return make_residence(fresh, *devices_[home]); },
                   [&]() WEIR_HELD { free_region(fresh); }));
  *region = &fresh;
  return {};
}

/// The region's state on a device, made at first use.
Status Engine::make_residence(Region &region, PoolDevice &device) {
  if (region.on(device.place) != nullptr) return {};
  // The first has been counted with the buffer.
  if (!region.residences.empty())
    WEIR_TRY(
        room_for_records("a copy on another device", region.shape.size, region.shape.pages(), 1));
  region.residences.reserve(region.residences.size() + 1);  // one for each device at most
  Compact<Residence> fresh = make_owned<Residence>(&memory_, device.place, &memory_);
  fresh->pages.resize(region.shape.pages());
  WEIR_TRY(device.memory.reserve(region, &fresh->range));
  region.residences.push_back(std::move(fresh));
  return {};
}

/// Nothing of the region is on the device that it shares granules of.
void Engine::leave_lot(Region &region) noexcept {
  if (region.lot_place == Region::no_lot) return;
  device_at(region.lot_place).memory.sharing()->leave(region.client, region.lot);
  region.lot_place = Region::no_lot;
}

void Engine::free_region(Region &region) noexcept {
  page::Aliases::drop(region);
  for (auto &r : region.residences) {
    if (r->range) devices_[r->place]->memory.addresses().free(r->range);
  }
  // Where something of a lost device is still mapped nothing else ever is.
  if (region.shards != nullptr && !region.shards->stranded)
    devices_[region.shards->range_place]->memory.addresses().free(region.shards->range);
  leave_lot(region);
  prefetcher_.forget_region(region.id);
  places_.forget(region);
  regions_.free(region);
}

/// The region has lost its owner. Nobody leases it; its host copies go, its device pages become disposable.
void Engine::keep_or_free(Region &region) noexcept {
  page::Aliases::drop(region);
  region.registered = nullptr;
  region.buffer = vm::BufferTable::none;
  region.cold = region.streaming = false;
  prefetcher_.forget_region(region.id);
  region.tag = 0;
  uint32_t resident = 0;
  for (uint32_t p = 0; p < region.pages.size(); ++p) {
    tiers_.free_host(region, p);
    tiers_.end_version(region, p);
    places_.note(region, region.pages[p].discarded());
  }
  for (auto &r : region.residences) {
    PoolDevice &device = *devices_[r->place];
    for (uint32_t p = 0; p < r->pages.size(); ++p) {
      if (r->pages[p].state() == PageState::absent || r->pages[p].state() == PageState::filling)
        continue;
      ++resident;
      uncharge(region, p, r->place);
      // If not, it is among the policy's pages already; it only goes a little later.
      const PageRef ref{region.id, p, regions_.generation(region)};
      if_memory([&]() WEIR_HELD { device.policy->dispose(ref); });
    }
  }
  region.kept = true;
  region.dead_since = idle_scan_.looks();
  if (resident != 0) watch_idle();
  const bool whole = region.shards == nullptr && region.residences.size() == 1 &&
                     region.residences[0]->place == region.home &&
                     region.residences[0]->resident == region.pages.size();
  if (whole && !region.scrub) regions_.list_kept(region);
  retire_region(region);
}

/// Something that kept the region may have gone: its owner or last tenant, a page on a device, or work on it. If nothing keeps it
/// now it is gone afterwards.
void Engine::retire_region(Region &region) noexcept {
  if (!page::RegionStore::ended(region)) return;
  assert(std::all_of(region.pages.begin(), region.pages.end(), [](const Page &page) {
    return !page.host() && page.lower == tier::ColdTiers::none;
  }));
  if (region.slab) slabs_.close(region);
  free_region(region);
}

/// A kept region of the shape, with everything in place and paid for, or nullptr.
Region *Engine::adopt_kept(const vm::Geometry &shape, uint64_t alignment, uint8_t home,
                           uint32_t client) {
  Region *region = regions_.find_kept(shape, alignment, home, client);
  if (region == nullptr) return nullptr;
  Charge charge = accounts_.charge(client, home, region->shape.charged_bytes());
  if (!charge) return nullptr;
  charge.absorb();
  regions_.adopt(*region, shape.size);
  return region;
}

// ---- buffers ----

Status Engine::own_region(uint32_t index, const weir_buffer_desc &desc, uint8_t home,
                          uint32_t client, ShardWish &wish) {
  vm::Geometry shape = devices_[home]->memory.shape(desc.size);
  const uint64_t alignment = std::max<uint64_t>(desc.alignment, 1);
  Region *region = nullptr;
  // What is to be scrubbed is zeroed by whole granules, and keeps its bytes to itself.
  if ((desc.flags & WEIR_BUFFER_SCRUB) == 0 && wish.shards == nullptr) {
    region = adopt_kept(shape, alignment, home, client);
    vm::Geometry sharing = shape;
    sharing.shared = true;
    if (region == nullptr) region = adopt_kept(sharing, alignment, home, client);
  }
  if (region != nullptr) {
    WEIR_TRY(
        or_undo([&]() WEIR_HELD { return history_.inherit(index, desc.size, *region), Status{}; },
                [&]() WEIR_HELD { keep_or_free(*region); }));
  } else if (wish.shards != nullptr) {
    WEIR_TRY(make_sharded_region(desc.size, client, wish, &region));
  } else {
    vm::Sharing::Lot lot;
    vm::Sharing *sharing = devices_[home]->memory.sharing();
    if (sharing != nullptr && (desc.flags & WEIR_BUFFER_SCRUB) == 0)
      shape = sharing->place(client, desc.size, alignment, &lot);
    WEIR_TRY(make_home_region(shape, home, client, &region, lot));
    if (shape.shared) region->unsettled = static_cast<uint8_t>(std::bit_width(alignment));
  }
  region->buffer = index;
  region->priority = accounts_.priority(client, desc.priority);
  region->stable = (desc.flags & WEIR_BUFFER_STABLE_ADDRESS) != 0;
  region->scrub = (desc.flags & WEIR_BUFFER_SCRUB) != 0;
  region->tag = desc.tag;
  region->codec.hint = region->dense_codec.hint = static_cast<tier::Form>(desc.element);
  region->rounds = (desc.flags & WEIR_BUFFER_LOSSY_BF16) != 0  ? tier::Form::bf16
                   : (desc.flags & WEIR_BUFFER_LOSSY_F16) != 0 ? tier::Form::f16
                                                               : tier::Form::bytes;
  region->last_use = ticks_.now();
  buffers_.settle(index, *region);
  return {};
}

Status Engine::create_locked(const weir_buffer_desc &desc, uint32_t client, bool pinned,
                             uint32_t *index) {
  Users users;
  const bool known_users = desc.user_count != 0;
  if (known_users || desc.reserved != 0) WEIR_TRY(read_users(desc, &users));
  ShardWish wish;
  if (desc.shards != nullptr) {
    WEIR_TRY(read_shards(desc, &wish));
  } else {
    WEIR_TRY(home_for(desc, users, &wish.home));
  }
  const uint8_t home = wish.home;
  PoolDevice &device = *devices_[home];
  if ((desc.flags & WEIR_BUFFER_STABLE_ADDRESS) != 0 && !device.vmm())
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "STABLE_ADDRESS: device %u has no virtual-memory management", device.device.id);
  if (desc.alignment > device.memory.page_size())
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "alignment %llu is more than the page size %llu",
                llu(desc.alignment), llu(device.memory.page_size()));
  // Tenants share pages and may have to leave them (unslab_for); what must be scrubbed or stay owns its pages.
  const bool alone = wish.shards != nullptr ||
                     (desc.flags & (WEIR_BUFFER_SCRUB | WEIR_BUFFER_STABLE_ADDRESS)) != 0;
  const bool tenant = !alone && (desc.size < device.memory.page_size() ||
                                 (pinned && device.memory.belongs_in_line(desc.size)));
  WEIR_TRY(room_for_buffer(desc, wish, tenant));
  const uint32_t fresh = buffers_.take(known_users ? &users : nullptr);
  const auto place = [&]() WEIR_HELD {
    return tenant ? place_tenant(fresh, desc, home, client, pinned)
                  : own_region(fresh, desc, home, client, wish);
  };
  WEIR_TRY(or_undo(place, [&]() WEIR_HELD { buffers_.give(fresh); }));
  buffers_.describe(fresh, desc.size, device.device.id);
  const uint64_t open = tenant && !pinned ? open_to_first(fresh, device) : 0;
  buffers_.publish(fresh, open | (tenant ? Word::virgin | alignment_bits(desc.alignment) : 0) |
                              (history_.knows(fresh) ? Word::history : 0));
  accounts_.add_buffer(client);
  count_promise(fresh, home, desc.size, true);
  *index = fresh;
  return {};
}

/// What is wrong with a descriptor whatever the state of the pool.
Status Engine::check_desc(const weir_buffer_desc &desc) {
  constexpr uint64_t lossy = WEIR_BUFFER_LOSSY_BF16 | WEIR_BUFFER_LOSSY_F16;
  constexpr uint64_t known = WEIR_BUFFER_STABLE_ADDRESS | WEIR_BUFFER_SCRUB | lossy;
  WEIR_TRY(check_flags(desc.flags, known));
  if ((desc.flags & lossy) == lossy)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "flags: LOSSY_BF16 and LOSSY_F16 exclude each other");
  if ((desc.flags & lossy) != 0 && desc.element != WEIR_ELEMENT_F32)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "flags: LOSSY_* is for elements of WEIR_ELEMENT_F32 (%d); element is %u",
                WEIR_ELEMENT_F32, desc.element);
  WEIR_TRY(check_size(desc.size));
  if ((desc.alignment & (desc.alignment - 1)) != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "alignment %llu is not a power of two",
                llu(desc.alignment));
  if (desc.priority < WEIR_PRIORITY_LOWEST || desc.priority > WEIR_PRIORITY_HIGHEST)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "priority is %d, not %d..%d", desc.priority,
                WEIR_PRIORITY_LOWEST, WEIR_PRIORITY_HIGHEST);
  if (desc.element >= tier::form_count)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "element is %u, no WEIR_ELEMENT_*", desc.element);
  return {};
}

Status Engine::create_buffer(const weir_buffer_desc &desc, uint32_t client, weir_buffer *buffer) {
  WEIR_TRY(check_desc(desc));
  Locked lock(lock_);
  uint32_t index = 0;
  WEIR_TRY(create_locked(desc, client, false, &index));
  *buffer = buffers_.handle(index);
  return {};
}

/// Dead at once: nobody leases it and nothing of Weir's own is working on it.
void Engine::destroy_locked(uint32_t index) noexcept {
  const Target where = buffers_.target(index);
  accounts_.remove_buffer(where.region->client);
  count_promise(index, where.region->home, where.size, false);
  // What may still run on its bytes is remembered by the place, not by the buffer.
  history_.bury_all(lease::all_of(where, index));
  buffers_.kill(index);
  if (buffers_.tenant(index)) {
    free_place(*where.region, buffers_.node(index));
  } else {
    keep_or_free(*where.region);
  }
  buffers_.give(index);
  changed_.notify_all();
}

Status Engine::destroy_buffer(weir_buffer buffer) {
  Scrubbing scrubbing(*this);
  Locked lock(lock_);
  uint32_t index = 0;
  WEIR_TRY(buffers_.find(buffer, &index));
  std::atomic<uint64_t> &word = buffers_.hot(index).word;
  uint64_t seen = word.load(std::memory_order_relaxed);
  do {
    if (Word::leases(seen) != 0 || (seen & Word::partial) != 0)
      return fail(WEIR_ERROR_BUSY, "the buffer has unreleased leases");
    if (buffers_.held(index)) return fail(WEIR_ERROR_BUSY, "the buffer is held (weir_hold)");
  } while (!word.compare_exchange_weak(seen, (seen | Word::closing) & ~Word::resident,
                                       std::memory_order_acq_rel));
  // A prefetch or an eviction under way ends by itself. A slab outlives its tenant.
  if (!buffers_.tenant(index)) {
    Region &region = *buffers_.target(index).region;
    demoter_.await_unpinned(lock, region);
    if (region.registered != nullptr) unregister_memory(lock, region);
  }
  const Region &region = *buffers_.target(index).region;
  const uint32_t id = region.id;
  const uint16_t generation = regions_.generation(region);
  const bool secret = region.scrub;
  destroy_locked(index);
  if (secret) {
    scrubbing.wait();
    scrub_device(lock, id, generation, false);
  }
  return {};
}

}  // namespace weir::residency
