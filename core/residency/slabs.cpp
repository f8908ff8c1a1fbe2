// SPDX-License-Identifier: Apache-2.0
//
// Slabs: regions whose pages tenants share, buffers below a page, placed by the offset allocator and grouped by device,
// client and priority, so that they grow cold together. A tenant that is used elsewhere than on its home device
// leaves its slab for pages of its own.

#include "core/residency/plan.hpp"

#include <algorithm>

namespace weir::residency {

// ---- places ----

/// A slab without tenants.
Status Engine::open_slab(const vm::Geometry &shape, const page::Kin &kin, Region **out) {
  WEIR_TRY(make_home_region(shape, kin.home, kin.client, out));
  return or_undo([&]() WEIR_HELD { return slabs_.open(**out, kin), Status{}; },
                 [&]() WEIR_HELD { free_region(**out); });
}

Status Engine::place_tenant(uint32_t index, const weir_buffer_desc &desc, uint8_t home,
                            uint32_t client, bool pinned) {
  PoolDevice &device = *devices_[home];
  const page::Kin kin{home, client, accounts_.priority(client, desc.priority), pinned};
  const uint64_t alignment = std::max<uint64_t>(desc.alignment, 256);
  page::SlabAllocator::Place place;
  Region *region = nullptr;
  if (pinned) {
    WEIR_TRY(place_pinned(kin, desc.size, &region, &place));
  } else {
    region = slabs_.find(kin, desc.size, alignment, &place);
    if (region == nullptr) {
      // More pages waste less at a page's end; each is resident on its own.
      constexpr uint32_t slab_pages = 4;
      WEIR_TRY(open_slab(device.memory.small_pages(slab_pages), kin, &region));
      const auto take = [&] {
        return place = region->tenants->allocate(desc.size, alignment), Status{};
      };
      WEIR_TRY(or_undo(take, [&]() WEIR_HELD { retire_region(*region); }));
      (void)slabs_.occupy(*region, place);  // of absent pages
    }
  }
  region->tenants->set_owner(place.node, index);
  buffers_.settle(index, *region, place.node);
  return or_undo([&]() WEIR_HELD { return buffers_.set_tag(index, desc.tag), Status{}; },
                 [&]() WEIR_HELD { free_place(*region, place.node); });
}

/// A place in a slab. One that has no tenants stays for as long as pages of it are there: it is used again before another is
/// opened, and its pages go before any other.
void Engine::free_place(Region &region, uint32_t node) noexcept {
  const uint64_t begin = region.tenants->offset(node);
  const uint32_t last = region.shape.page_at(begin + region.tenants->size(node) - 1);
  slabs_.vacate(region, node, idle_scan_.looks());
  Residence *here = region.on(region.home);
  bool idle = false;
  for (uint32_t p = region.shape.page_at(begin); p <= last; ++p) {
    if (!region.idle(p)) continue;
    tiers_.forget_idle(region, p);
    if (here == nullptr || here->pages[p].granule == physical::no_granule) continue;
    PoolDevice &device = device_at(region.home);
    if (region.pinned) device.memory.count_held(region, p, false);
    if (here->pages[p].state() == PageState::filling) continue;  // settle_fill() refunds
    uncharge(region, p, region.home);
    idle = true;
    bool &told = region.tenants->pages[p].told;
    if (told) continue;
    // If not, it is among the policy's pages already; it only goes a little later.
    const PageRef ref{region.id, p, regions_.generation(region)};
    told = if_memory([&]() WEIR_HELD { device.policy->dispose(ref); });
  }
  if (idle) watch_idle();
  retire_region(region);
}

/// A tenant whose bytes are lost, and which nobody leases, parts from its slab; its own page says that it is lost. True: it was the
/// last of the slab, which ends. Throws std::bad_alloc with nothing changed.
bool Engine::own_lost_page(uint32_t index, uint8_t home) {
  const Target where = buffers_.target(index);
  const uint8_t before = where.region->home;
  const bool last = where.region->tenants->count == 1;
  Region &fresh = make_region(device_at(home).memory.shape(where.size), home, where.region->client);
  fresh.buffer = index;
  fresh.priority = where.region->priority;
  fresh.tag = buffers_.tag_of(index);
  places_.note(fresh, fresh.pages[0].device_lost());
  free_place(*where.region, buffers_.node(index));
  buffers_.settle(index, fresh);
  count_promise(index, before, where.size, false);
  buffers_.hot(index).set_size_home(where.size, device_at(home).device.id);
  count_promise(index, home, where.size, true);
  set_flags(index, 0, Word::resident | Word::sole);
  return last;
}

// ---- a tenant that can't stay one ----

/// Gives a tenant that is to be used elsewhere than at home pages of its own, through HOST: tenants share a page, and a page has
/// one latest version, so one of them can't be used elsewhere alone.
Status Engine::unslab_for(Releasable &lock, uint32_t index, uint8_t place) {
  const Target where = buffers_.target(index);
  if (!where.region->slab || where.region->home == place) return {};
  std::atomic<uint64_t> &word = buffers_.hot(index).word;
  if (buffers_.held(index) || !leases_.take_alone(index))
    return fail(WEIR_ERROR_LEASE_CONFLICT,
                "a buffer below a page is leased or held on its home device; it can be used "
                "elsewhere only when it is not");
  leases_.count_pages(*where.region, where.base, where.base + where.size, 1);
  const bool virgin = (word.load() & Word::virgin) != 0;
  Region *fresh = nullptr;
  tier::HostSlot slot;
  const auto work = [&]() WEIR_HELD -> Status {
    fresh = &make_region(device_at(where.region->home).memory.shape(where.size), where.region->home,
                         where.region->client);
    // Readers too: another tenant may get the place as soon as it is free.
    WEIR_TRY(wait_range(lock, index, 0, where.size, true));
    if (virgin) return {};
    WEIR_TRY(
        host_room_.take(lock, where.region->client, node_of(*where.region), where.size, &slot));
    WEIR_TRY(copy_pieces(lock, index, where, 0, where.size,
                         static_cast<unsigned char *>(tiers_.host().address(slot)), nullptr));
    tiers_.host().take_over(slot, where.region->client, where.size);
    return {};
  };
  const Status status = with_memory(lock, "to move a small buffer", work);
  leases_.count_pages(*where.region, where.base, where.base + where.size, -1);
  if (status) {
    fresh->buffer = index;
    fresh->priority = where.region->priority;
    fresh->tag = buffers_.tenant_tag(index);
    places_.note(*fresh, fresh->pages[0].take_slot(slot));
    if (!virgin) places_.note(*fresh, fresh->pages[0].arrived(vm::host_bit));
    if (!virgin) tiers_.note(*fresh, 0, vm::host_bit);
    free_place(*where.region, buffers_.node(index));
    buffers_.settle(index, *fresh);
    // A prefetch may have opened the hit path to the old place while the lock was dropped.
    set_flags(index, 0, Word::virgin | Word::resident | Word::sole);
  } else {
    const KeepError keep;
    if (slot) tiers_.free_slot(where.region->client, slot, where.region->scrub);
    if (fresh != nullptr) free_region(*fresh);
  }
  word.fetch_sub(Word::writer);
  changed_.notify_all();
  return status;
}

}  // namespace weir::residency
