// SPDX-License-Identifier: Apache-2.0
//
// Slabs: regions whose pages tenants share, buffers below a page, placed by the offset allocator and grouped by device,
// client and priority, so that they grow cold together. A tenant that is used elsewhere than on its home device
// leaves its slab for pages of its own.

#include "core/residency/plan.hpp"

#include <algorithm>

namespace weir::residency {
namespace {

// More pages waste less at a page's end; each is resident on its own.
constexpr uint32_t slab_pages = 4;

uint64_t group_key(uint8_t home, uint32_t client, int32_t priority, bool pinned) noexcept {
  return (uint64_t{client} << 32) | (uint64_t{home} << 16) |
         (static_cast<uint64_t>(priority + 128) << 8) | (pinned ? 1U : 0U);
}

}  // namespace

Status Engine::place_tenant(uint32_t index, const weir_buffer_desc &desc, uint8_t home,
                            uint32_t client, bool pinned) {
  PoolDevice &device = *devices_[home];
  const int32_t priority = std::clamp<int32_t>(desc.priority + clients_[client]->priority,
                                               WEIR_PRIORITY_LOWEST, WEIR_PRIORITY_HIGHEST);
  auto [group, fresh] = slabs_.try_emplace(group_key(home, client, priority, pinned));
  auto &slabs = group->second;
  const uint64_t alignment = std::max<uint64_t>(desc.alignment, 256);
  physical::SmallArena::Allocation place;
  Region *region = nullptr;
  // The newest first: tenants made together are used together. A bounded look.
  for (size_t i = slabs.size(); i-- > 0 && i + 8 >= slabs.size() && !place;) {
    region = regions_[slabs[i]].get();
    place = region->tenants->allocate(desc.size, alignment);
  }
  if (!place) {
    slabs.reserve(slabs.size() + 1);
    const vm::Geometry shape =
        device.vmm() ? vm::Geometry::paged(device.page_size * slab_pages, device.page_size, 0)
                     : vm::Geometry::whole(device.page_size);
    WEIR_TRY(make_home_region(shape, home, client, &region));
    try {
      region->tenants = make_owned<physical::SmallArena>(&memory_, shape.physical_bytes(),
                                                         uint64_t{256}, &memory_);
      place = region->tenants->allocate(desc.size, alignment);
    } catch (...) {
      free_region(*region);
      throw;
    }
    region->slab = true;
    region->pinned = pinned;
    region->priority = static_cast<int8_t>(priority);
    slabs.push_back(region->id);
    ++slab_count_;
  }
  region->tenants->set_owner(place.node, index);
  buffers_.cold(index) = vm::Cold{region->id, place.node};
  try {
    // Work of dead tenants that may still run on this place is now this buffer's past.
    std::erase_if(region->tombstones,
                  [this](const vm::Tombstone &dead) { return streams_.passed(dead.stamp); });
    History inherited(&memory_);
    for (const vm::Tombstone &dead : region->tombstones) {
      if (dead.begin >= place.offset + desc.size || dead.end <= place.offset) continue;
      inherited.add(PastUse{0, desc.size, dead.stamp}, streams_);
    }
    if (!inherited.empty()) history_.emplace(index, std::move(inherited));
    if (desc.tag != 0) tags_.emplace(index, desc.tag);
  } catch (...) {
    history_.erase(index);
    remove_tenant(index);
    throw;
  }
  return {};
}

void Engine::remove_tenant(uint32_t index) noexcept {
  const vm::Cold cold = buffers_.cold(index);
  free_place(*regions_[cold.region], cold.node);
}

/// A place in a slab; with the last one the slab ends.
void Engine::free_place(Region &region, uint32_t node) noexcept {
  region.tenants->free(node);
  if (!region.tenants->empty()) return;
  auto group = slabs_.find(group_key(region.home, region.client, region.priority, region.pinned));
  if (group != slabs_.end()) std::erase(group->second, region.id);
  --slab_count_;
  keep_or_free(region);
}

/// The slab is to have another home. Throws std::bad_alloc with nothing changed.
void Engine::move_group(Region &region, uint8_t home) {
  const auto key = [&region](uint8_t place) {
    return group_key(place, region.client, region.priority, region.pinned);
  };
  auto [to, fresh] = slabs_.try_emplace(key(home));
  to->second.push_back(region.id);
  if (const auto from = slabs_.find(key(region.home)); from != slabs_.end())
    std::erase(from->second, region.id);
}

/// A tenant whose bytes are lost, and which nobody leases, parts from its slab; its own page says that it is lost. True: it was the
/// last of the slab, which ends. Throws std::bad_alloc with nothing changed.
bool Engine::own_lost_page(uint32_t index, uint8_t home) {
  const Target where = target(index);
  const physical::SmallArena &others = *where.region->tenants;
  const uint8_t before = where.region->home;
  const bool last = others.next(others.first()) == physical::SmallArena::none;
  Region *fresh = nullptr;
  (void)make_region(shape_for(home, where.size), home, where.region->client, &fresh);
  fresh->buffer = index;
  fresh->priority = where.region->priority;
  fresh->tag = tag_of(index);
  fresh->pages[0].latest = vm::lost_bit;
  remove_tenant(index);
  buffers_.cold(index) = vm::Cold{fresh->id, physical::SmallArena::none};
  count_promise(index, before, where.size, false);
  buffers_.hot(index).set_size_home(where.size, device_at(home).device.id);
  count_promise(index, home, where.size, true);
  set_flags(index, 0, Word::resident | Word::sole);
  return last;
}

// ---- a tenant that can't stay one ----

Status Engine::unslab_for(Lock &lock, uint32_t index, uint8_t place) {
  const Target where = target(index);
  if (!where.region->slab || where.region->home == place) return {};
  return unslab(lock, index);
}

/// Gives a tenant pages of its own, through HOST: tenants share a page, and a page has one latest version, so
/// one of them can't be used elsewhere alone.
Status Engine::unslab(Lock &lock, uint32_t index) {
  std::atomic<uint64_t> &word = buffers_.hot(index).word;
  uint64_t seen = word.load(std::memory_order_relaxed);
  do {
    if (Word::leases(seen) != 0 || (seen & Word::partial) != 0 || holds_.contains(index)) {
      return fail(WEIR_ERROR_LEASE_CONFLICT,
                  "a buffer below a page is leased on its home device; it can be used "
                  "elsewhere only when it is not");
    }
  } while (!word.compare_exchange_weak(seen, (seen | Word::writer) & ~Word::resident,
                                       std::memory_order_acq_rel));
  const Target where = target(index);
  count_pages(*where.region, where.base, where.base + where.size, 1);
  const bool virgin = (seen & Word::virgin) != 0;
  Region *fresh = nullptr;
  tier::HostSlot slot;
  const auto work = [&]() -> Status {
    WEIR_TRY(make_region(shape_for(where.region->home, where.size), where.region->home,
                         where.region->client, &fresh));
    // Readers too: another tenant may get the place as soon as it is free.
    WEIR_TRY(wait_range(lock, index, 0, where.size, true));
    if (virgin) return {};
    WEIR_TRY(host_slot(lock, where.region->client, node_of(*where.region), where.size, &slot));
    return copy_pieces(lock, index, where, 0, where.size,
                       static_cast<unsigned char *>(host_->address(slot)), nullptr);
  };
  Status status;
  try {
    status = work();
  } catch (const std::bad_alloc &) {
    status = fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory to move a small buffer");
  }
  count_pages(*where.region, where.base, where.base + where.size, -1);
  if (status) {
    fresh->buffer = index;
    fresh->priority = where.region->priority;
    if (const auto tag = tags_.find(index); tag != tags_.end()) fresh->tag = tag->second;
    fresh->pages[0].host = slot;
    fresh->pages[0].latest = virgin ? 0 : vm::host_bit;
    if (!virgin) note_in_order(*fresh, 0, vm::host_bit);
    remove_tenant(index);
    buffers_.cold(index) = vm::Cold{fresh->id, physical::SmallArena::none};
    // A prefetch may have opened the hit path to the old place while the lock was dropped.
    set_flags(index, 0, Word::virgin | Word::resident | Word::sole);
  } else {
    const LastError why = last_error();
    if (slot) free_slot(where.region->client, slot);
    if (fresh != nullptr) free_region(*fresh);
    last_error() = why;
  }
  word.fetch_sub(Word::writer);
  changed_.notify_all();
  return status;
}

}  // namespace weir::residency
