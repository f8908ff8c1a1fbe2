// SPDX-License-Identifier: Apache-2.0
//
// Small buffers: their places, and their first use.

#include "core/acquire/slabs.hpp"

#include "core/acquire/cpu_copies.hpp"

#include <algorithm>
#include <cassert>

namespace weir::acquire {
namespace {

/// Whether the page's copy on the device is its only one, so that a write makes none stale.
bool sole_version(const Page &copies, const PoolDevice &device) noexcept {
  return copies.latest() == device.bit() && copies.lower == tier::ColdTiers::none &&
         !copies.host() && !copies.sinking;
}

}  // namespace

// ---- places ----

Status Slabs::open(const page::Geometry &shape, const page::Kin &kin, Region **out) {
  WEIR_TRY(life_.make_at_home(shape, kin.home, kin.client, out));
  return or_undo([&]() WEIR_HELD { return page_.slabs.open(**out, kin), Status{}; },
                 [&]() WEIR_HELD { life_.free(**out); });
}

Status Slabs::place_tenant(uint32_t index, const weir_buffer_desc &desc, uint8_t home,
                           uint32_t client, bool pinned) {
  PoolDevice &device = *page_.devices[home];
  const page::Kin kin{home, client, page_.accounts.priority(client, desc.priority), pinned};
  const uint64_t alignment = std::max<uint64_t>(desc.alignment, 256);
  page::SlabAllocator::Place place;
  Region *region = nullptr;
  if (pinned) {
    WEIR_TRY(place_pinned(kin, desc.size, &region, &place));
  } else {
    region = page_.slabs.find(kin, desc.size, alignment, &place);
    if (region == nullptr) {
      // More pages waste less at a page's end; each is resident on its own.
      constexpr uint32_t slab_pages = 4;
      WEIR_TRY(open(device.memory.small_pages(slab_pages), kin, &region));
      const auto take = [&] {
        return place = region->tenants->allocate(desc.size, alignment), Status{};
      };
      WEIR_TRY(or_undo(take, [&]() WEIR_HELD { life_.retire_region(*region); }));
      (void)page_.slabs.occupy(*region, place);  // of absent pages
    }
  }
  region->tenants->set_owner(place.node, index);
  page_.buffers.settle(index, *region, place.node);
  return or_undo([&]() WEIR_HELD { return page_.buffers.set_tag(index, desc.tag), Status{}; },
                 [&]() WEIR_HELD { life_.free_place(*region, place.node); });
}

Status Slabs::place_pinned(const page::Kin &kin, uint64_t size, Region **out,
                           page::SlabAllocator::Place *place) {
  PoolDevice &device = *page_.devices[kin.home];
  const uint64_t bytes = (size + 255) / 256 * 256;
  Region *slab = page_.slabs.find_pinned(kin, bytes, device.memory.page_size(), place);
  if (slab == nullptr) {
    WEIR_TRY(open(device.memory.small_pages(device.memory.line_pages()), kin, &slab));
    *place = page::SlabAllocator::open_pages(*slab, bytes);
  }
  assert(*place);
  (void)page_.slabs.occupy(*slab, *place);  // the pool's: no quota
  const Residence *here = slab->on(kin.home);
  const uint32_t last = slab->shape.page_at(place->offset + bytes - 1);
  for (uint32_t p = slab->shape.page_at(place->offset); here != nullptr && p <= last; ++p) {
    if (slab->tenants->pages[p].tenants == 1 && here->pages[p].granule != physical::no_granule)
      device.memory.count_held(*slab, p, true);
  }
  *out = slab;
  return {};
}

/// Its device may have left meanwhile: then its slab went to one home, and its own region to another.
void Slabs::note_home(uint32_t index, uint64_t size, uint8_t before, uint8_t home) noexcept {
  homes_.count_promise(index, before, size, false);
  page_.buffers.hot(index).set_size_device(size, page_.devices[home]->device.id);
  homes_.count_promise(index, home, size, true);
}

bool Slabs::own_lost_page(uint32_t index, uint8_t home) {
  const page::Target where = page_.buffers.target(index);
  const uint8_t before = where.region->home;
  const bool last = where.region->tenants->count == 1;
  Region &fresh =
      life_.make(page_.devices[home]->memory.shape(where.size), home, where.region->owner.client);
  fresh.owner.buffer = index;
  fresh.priority = page_.buffers.priority_of(index);
  fresh.tag = page_.buffers.tag_of(index);
  others_.pages.device_lost(fresh, 0);
  life_.free_place(*where.region, page_.buffers.node(index));
  page_.buffers.settle(index, fresh);
  note_home(index, where.size, before, home);
  page_.buffers.hot(index).set_flags(0, Word::resident | Word::sole);
  return last;
}

// ---- a tenant that can't stay one ----

Status Slabs::unslab_for(Releasable &lock, uint32_t index, uint8_t place) {
  const page::Target where = page_.buffers.target(index);
  if (!where.region->is.slab || where.region->home == place) return {};
  std::atomic<uint64_t> &word = page_.buffers.hot(index).word;
  if (page_.buffers.held(index) || !lease_.leases.take_alone(index))
    return fail(WEIR_ERROR_LEASE_CONFLICT,
                {.cause = Cause::small_buffer, .buffer = page_.buffers.handle(index)},
                "a buffer below a page%s is leased or held on its home device; it can be used "
                "elsewhere only when it is not",
                page_.buffers.quoted(index).c_str());
  lease_.leases.count_pages(*where.region, where.base, where.base + where.size, 1);
  const bool virgin = (word.load() & Word::virgin) != 0;
  Region *fresh = nullptr;
  tier::HostSlot slot;
  const auto work = [&]() WEIR_HELD -> Status {
    fresh = &life_.make(page_.devices[where.region->home]->memory.shape(where.size),
                        where.region->home, where.region->owner.client);
    // Readers too: another tenant may get the place as soon as it is free.
    WEIR_TRY(cpu_.wait_range(lock, index, 0, where.size, true));
    if (virgin) return {};
    WEIR_TRY(others_.host_room.take(lock, where.region->owner.client,
                                    page_.devices[where.region->home]->node, where.size, &slot));
    WEIR_TRY(cpu_.copy_pieces(lock, index, where, 0, where.size,
                              static_cast<unsigned char *>(page_.tiers.host().address(slot)),
                              nullptr));
    page_.tiers.host().take_over(slot, where.region->owner.client, where.size);
    return {};
  };
  const Status status = with_memory(lock, "to move a small buffer", work);
  lease_.leases.count_pages(*where.region, where.base, where.base + where.size, -1);
  if (status) {
    fresh->owner.buffer = index;
    fresh->priority = page_.buffers.priority_of(index);
    fresh->tag = page_.buffers.tenant_tag(index);
    page_.tiers.take_slot(*fresh, 0, slot);
    if (!virgin) others_.pages.arrived(*fresh, 0, page::host_bit);
    if (!virgin) page_.tiers.note(*fresh, 0, page::host_bit);
    const uint8_t before = where.region->home;
    life_.free_place(*where.region, page_.buffers.node(index));
    page_.buffers.settle(index, *fresh);
    if (before != fresh->home) note_home(index, where.size, before, fresh->home);
    // A prefetch may have opened the hit path to the old place while the lock was dropped.
    page_.buffers.hot(index).set_flags(0, Word::virgin | Word::resident | Word::sole);
  } else {
    const KeepError keep;
    if (slot) page_.tiers.free_slot(where.region->owner.client, slot, where.region->is.secret);
    if (fresh != nullptr) life_.free(*fresh);
  }
  word.fetch_sub(Word::writer);
  env_.sync.changed.notify_all();
  return status;
}

// ---- first use ----

bool Slabs::in_place(Region &slab, uint64_t begin, uint64_t size, PoolDevice &device) noexcept {
  Residence *here = slab.on(device.place);
  if (!device.open() || here == nullptr) return false;
  const uint32_t last = slab.shape.page_at(begin + size - 1);
  for (uint32_t p = slab.shape.page_at(begin); p <= last; ++p) {
    const Page &copies = slab.pages[p];
    if (!on_device(slab, *here, p) || (copies.latest() & ~device.bit()) != 0 ||
        !here->pages[p].queued || !others_.pages.arrived_at(*here, p))
      return false;
  }
  return true;
}

void Slabs::write_pages(Region &slab, uint64_t begin, uint64_t size, PoolDevice &device) noexcept {
  const uint32_t last = slab.shape.page_at(begin + size - 1);
  for (uint32_t p = slab.shape.page_at(begin); p <= last; ++p) {
    if (!sole_version(slab.pages[p], device)) page_.tiers.invalidate(slab, p, device.bit());
  }
}

uint64_t Slabs::open_to_first(uint32_t index, PoolDevice &device) noexcept {
  const page::Target where = page_.buffers.target(index);
  Region &slab = *where.region;
  const uint32_t last = slab.shape.page_at(where.base + where.size - 1);
  for (uint32_t p = slab.shape.page_at(where.base); p <= last; ++p) {
    if (!sole_version(slab.pages[p], device)) return 0;
  }
  Stamp past;
  if (slab.is.cold || !in_place(slab, where.base, where.size, device) ||
      !lease_.history.past_of(slab, where.base, where.base + where.size, &past))
    return 0;
  page::Hot &hot = page_.buffers.hot(index);
  hot.stamp.store(past.bits, std::memory_order_relaxed);
  hot.address = address_of(slab, *slab.on(slab.home)) + where.base;
  return Word::resident | Word::sole;
}

}  // namespace weir::acquire
