// SPDX-License-Identifier: Apache-2.0
//
// Slabs: regions whose pages tenants share, buffers below a page, placed by the offset allocator and grouped by device,
// client and priority, so that they grow cold together. A tenant that is used elsewhere than on its home device
// leaves its slab for pages of its own.

#include "core/base/grow.hpp"
#include "core/residency/plan.hpp"

#include <algorithm>

namespace weir::residency {
namespace {

// More pages waste less at a page's end; each is resident on its own.
constexpr uint32_t slab_pages = 4;
/// Slabs with room that are asked for a place at an alignment, or with the page there, before one is taken that is sure.
constexpr uint32_t most_looks = 4;

uint64_t group_key(uint8_t home, uint32_t client, int32_t priority, bool pinned) noexcept {
  return (uint64_t{client} << 32) | (uint64_t{home} << 16) |
         (static_cast<uint64_t>(priority + 128) << 8) | (pinned ? 1U : 0U);
}

/// So that a slab can join the group without allocating. Throws std::bad_alloc with nothing changed.
template <class Group>
void reserve_slab(Group &group) {
  grow_by(group.slabs);
  group.rooms.reserve(group.slabs.size() + 1);
}

/// Whether a page below the range has no tenants and is on its way in, out or elsewhere: who takes the range waits for work
/// that is none of his.
bool idle_on_its_way(const Region &slab, uint64_t offset, uint64_t size) noexcept {
  const uint32_t last = slab.shape.page_at(offset + size - 1);
  for (uint32_t p = slab.shape.page_at(offset); p <= last; ++p) {
    if (slab.idle(p) && slab.pages[p].busy != 0) return true;
  }
  return false;
}

}  // namespace

// ---- groups ----

/// Made at first use, and never moved nor erased. Most calls are about the group of the call before.
Engine::SlabGroup &Engine::group_at(uint64_t key) {
  if (recent_group_ == nullptr || recent_key_ != key) {
    recent_group_ = &slabs_.try_emplace(key, &memory_).first->second;
    recent_key_ = key;
  }
  return *recent_group_;
}

Engine::SlabGroup &Engine::group_of(const Region &slab) {
  return group_at(group_key(slab.home, slab.client, slab.priority, slab.pinned));
}

/// The group's index of rooms says what the slab has.
void Engine::note_room(Region &slab) noexcept {
  physical::RoomTree &rooms = *slab.tenants->rooms;
  const uint32_t position = slab.tenants->position;
  const uint64_t room = slab.tenants->largest_free();
  const uint64_t run = slab.pinned ? slab.tenants->longest_closed : 0;
  if (rooms.contains(position)) {
    rooms.change(position, room, run);
  } else {
    rooms.insert(position, room, run);
  }
}

/// Throws std::bad_alloc with nothing changed.
void Engine::join_group(SlabGroup &group, Region &slab) {
  reserve_slab(group);
  slab.tenants->position = static_cast<uint32_t>(group.slabs.size());
  slab.tenants->rooms = &group.rooms;
  group.slabs.push_back(slab.id);
  note_room(slab);
}

void Engine::leave_group(Region &slab) noexcept {
  const auto found = slabs_.find(group_key(slab.home, slab.client, slab.priority, slab.pinned));
  if (found == slabs_.end()) return;
  SlabGroup &group = found->second;
  const uint32_t position = slab.tenants->position;
  const auto last = static_cast<uint32_t>(group.slabs.size() - 1);
  if (position > last || group.slabs[position] != slab.id) return;
  group.rooms.erase(position);
  if (position != last) {
    Region &moved = *regions_[group.slabs[last]];
    group.rooms.erase(last);
    group.slabs[position] = moved.id;
    moved.tenants->position = position;
    note_room(moved);
  }
  group.slabs.pop_back();
}

/// The slab is to have another home. Throws std::bad_alloc with nothing changed.
void Engine::move_group(Region &region, uint8_t home) {
  const uint64_t key = group_key(home, region.client, region.priority, region.pinned);
  SlabGroup &to = group_at(key);
  reserve_slab(to);
  leave_group(region);
  join_group(to, region);
}

// ---- places ----

/// A range has a tenant from now on. Its pages that were nobody's are the client's; false, with nothing changed: his quota
/// has no room for them.
bool Engine::occupy(Region &slab, uint64_t offset, uint64_t size) noexcept {
  const uint32_t first = slab.shape.page_at(offset);
  const uint32_t last = slab.shape.page_at(offset + size - 1);
  Residence *here = slab.on(slab.home);
  Budget &quota = clients_[slab.client]->device[slab.home];
  const auto charged = [&](uint32_t p) {
    return here != nullptr && slab.tenants->pages[p].tenants == 0 &&
           here->pages[p].granule != physical::no_granule &&
           here->pages[p].state() != PageState::filling;
  };
  for (uint32_t p = first; p <= last; ++p) {
    if (!charged(p) || quota.charge(slab.shape.charged_bytes(p))) continue;
    while (p-- > first) {
      if (charged(p)) quota.refund(slab.shape.charged_bytes(p));
    }
    return false;
  }
  for (uint32_t p = first; p <= last; ++p) {
    const bool fresh = slab.tenants->pages[p].tenants++ == 0;
    const bool there = here != nullptr && here->pages[p].granule != physical::no_granule;
    if (fresh && slab.pinned && there) count_held(slab, p, device_at(slab.home), true);
  }
  slab.tenants->taken += size;
  if (slab.tenants->count++ == 0) ++slab_count_;
  return true;
}

/// A page without tenants has no versions: nothing of it is copied anywhere. While somebody is at work on it it keeps them,
/// and is looked at again by whoever takes it out.
void Engine::forget_idle(Region &slab, uint32_t page) noexcept {
  if (!slab.slab || !slab.idle(page) || slab.pages[page].busy != 0) return;
  free_host(slab, page);
  free_lower(slab, page);
  places_.note(slab, slab.pages[page].discarded());
}

/// The range has no tenant any more. Pages that have none now are idle: nobody's, and the first to go.
void Engine::vacate_place(Region &slab, uint64_t offset, uint64_t size) noexcept {
  const uint32_t last = slab.shape.page_at(offset + size - 1);
  Residence *here = slab.on(slab.home);
  bool idle = false;
  for (uint32_t p = slab.shape.page_at(offset); p <= last; ++p) {
    vm::SlabPage &page = slab.tenants->pages[p];
    if (--page.tenants != 0) continue;
    page.idle_since = looks_;
    forget_idle(slab, p);
    if (here == nullptr || here->pages[p].granule == physical::no_granule) continue;
    PoolDevice &device = device_at(slab.home);
    if (slab.pinned) count_held(slab, p, device, false);
    if (here->pages[p].state() == PageState::filling) continue;  // settle_fill() refunds
    clients_[slab.client]->device[slab.home].refund(slab.shape.charged_bytes(p));
    idle = true;
    if (page.told) continue;
    try {
      device.policy->dispose(PageRef{slab.id, p, region_generations_[slab.id]});
      page.told = true;
    } catch (const std::bad_alloc &) {
      // It is among the policy's pages already; it only goes a little later.
    }
  }
  slab.tenants->taken -= size;
  if (--slab.tenants->count == 0) --slab_count_;
  if (idle) watch_idle();
}

/// A place in a slab of a group, if a few looks find one; none: none of them has room, what there is lies on an idle page that
/// is on its way, or the client has no room for pages that were nobody's. Throws std::bad_alloc with nothing changed.
Region *Engine::find_place(SlabGroup &group, uint64_t size, uint64_t alignment,
                           physical::SmallArena::Allocation *place) {
  bool full = false;  // his quota
  const auto take = [&](uint32_t position) WEIR_HELD -> Region * {
    Region &slab = *regions_[group.slabs[position]];
    *place = slab.tenants->allocate(size, alignment);
    if (!*place) return nullptr;
    const uint64_t bytes = slab.tenants->size(place->node);
    if (!idle_on_its_way(slab, place->offset, bytes)) {
      if (occupy(slab, place->offset, bytes)) return &slab;
      full = true;
    }
    slab.tenants->free(place->node);
    *place = {};
    return nullptr;
  };
  uint32_t looks = most_looks;
  for (uint32_t at = group.rooms.at_least(size); at != physical::RoomTree::none && looks-- > 0;
       at = group.rooms.next(at)) {
    if (Region *slab = take(at)) return slab;
    if (full && alignment <= 256) break;
  }
  // Here any alignment can be had.
  const uint32_t sure =
      alignment > 256 ? group.rooms.at_least(size + alignment - 256) : physical::RoomTree::none;
  return sure != physical::RoomTree::none ? take(sure) : nullptr;
}

/// A slab of its group, without tenants.
Status Engine::open_slab(SlabGroup &group, const vm::Geometry &shape, uint8_t home, uint32_t client,
                         int32_t priority, bool pinned, Region **out) {
  Region *region = nullptr;
  WEIR_TRY(make_home_region(shape, home, client, &region));
  try {
    region->tenants =
        make_owned<vm::Slab>(&memory_, shape.physical_bytes(), shape.pages(), &memory_);
    region->pinned = pinned;
    region->priority = static_cast<int8_t>(priority);
    if (pinned) region->tenants->close_all(shape.physical_bytes() / shape.pages());
    join_group(group, *region);
  } catch (...) {
    free_region(*region);
    throw;
  }
  region->slab = true;
  *out = region;
  return {};
}

Status Engine::place_tenant(uint32_t index, const weir_buffer_desc &desc, uint8_t home,
                            uint32_t client, bool pinned) {
  PoolDevice &device = *devices_[home];
  const int32_t priority = std::clamp<int32_t>(desc.priority + clients_[client]->priority,
                                               WEIR_PRIORITY_LOWEST, WEIR_PRIORITY_HIGHEST);
  SlabGroup &group = group_at(group_key(home, client, priority, pinned));
  const uint64_t alignment = std::max<uint64_t>(desc.alignment, 256);
  physical::SmallArena::Allocation place;
  Region *region = nullptr;
  if (pinned) {
    WEIR_TRY(place_pinned(group, desc.size, home, client, priority, &region, &place));
  } else {
    region = find_place(group, desc.size, alignment, &place);
    if (region == nullptr) {
      const vm::Geometry shape =
          device.vmm() ? vm::Geometry::paged(device.page_size * slab_pages, device.page_size, 0)
                       : vm::Geometry::whole(device.page_size);
      WEIR_TRY(open_slab(group, shape, home, client, priority, false, &region));
      try {
        place = region->tenants->allocate(desc.size, alignment);
      } catch (...) {
        retire_region(*region);
        throw;
      }
      (void)occupy(*region, place.offset, region->tenants->size(place.node));  // of absent pages
    }
    note_room(*region);
  }
  region->tenants->set_owner(place.node, index);
  buffers_.cold(index) = vm::Cold{region->id, place.node};
  try {
    if (desc.tag != 0) tags_.emplace(index, desc.tag);
  } catch (...) {
    remove_tenant(index);
    throw;
  }
  return {};
}

void Engine::remove_tenant(uint32_t index) noexcept {
  const vm::Cold cold = buffers_.cold(index);
  free_place(*regions_[cold.region], cold.node);
}

/// A place in a slab. One that has no tenants stays for as long as pages of it are there: it is used again before another is
/// opened, and its pages go before any other.
void Engine::free_place(Region &region, uint32_t node) noexcept {
  vm::Slab &slab = *region.tenants;
  const uint64_t offset = slab.offset(node);
  const uint64_t size = slab.size(node);
  const auto next = slab.next(node);
  slab.free(node);
  vacate_place(region, offset, size);
  if (region.pinned)
    slab.close_idle(next, region.shape.page_at(offset), region.shape.page_at(offset + size - 1),
                    region.shape.small_bytes);
  note_room(region);
  retire_region(region);
}

/// A tenant whose bytes are lost, and which nobody leases, parts from its slab; its own page says that it is lost. True: it was the
/// last of the slab, which ends. Throws std::bad_alloc with nothing changed.
bool Engine::own_lost_page(uint32_t index, uint8_t home) {
  const Target where = target(index);
  const uint8_t before = where.region->home;
  const bool last = where.region->tenants->count == 1;
  Region *fresh = nullptr;
  (void)make_region(shape_for(home, where.size), home, where.region->client, &fresh);
  fresh->buffer = index;
  fresh->priority = where.region->priority;
  fresh->tag = tag_of(index);
  places_.note(*fresh, fresh->pages[0].device_lost());
  remove_tenant(index);
  buffers_.cold(index) = vm::Cold{fresh->id, physical::SmallArena::none};
  count_promise(index, before, where.size, false);
  buffers_.hot(index).set_size_home(where.size, device_at(home).device.id);
  count_promise(index, home, where.size, true);
  set_flags(index, 0, Word::resident | Word::sole);
  return last;
}

// ---- a tenant that can't stay one ----

Status Engine::unslab_for(Releasable &lock, uint32_t index, uint8_t place) {
  const Target where = target(index);
  if (!where.region->slab || where.region->home == place) return {};
  return unslab(lock, index);
}

/// Gives a tenant pages of its own, through HOST: tenants share a page, and a page has one latest version, so
/// one of them can't be used elsewhere alone.
Status Engine::unslab(Releasable &lock, uint32_t index) {
  std::atomic<uint64_t> &word = buffers_.hot(index).word;
  uint64_t seen = word.load(std::memory_order_relaxed);
  do {
    if (Word::leases(seen) != 0 || (seen & Word::partial) != 0 || holds_.contains(index)) {
      return fail(WEIR_ERROR_LEASE_CONFLICT,
                  "a buffer below a page is leased or held on its home device; it can be used "
                  "elsewhere only when it is not");
    }
  } while (!word.compare_exchange_weak(seen, (seen | Word::writer) & ~Word::resident,
                                       std::memory_order_acq_rel));
  const Target where = target(index);
  count_pages(*where.region, where.base, where.base + where.size, 1);
  const bool virgin = (seen & Word::virgin) != 0;
  Region *fresh = nullptr;
  tier::HostSlot slot;
  const auto work = [&]() WEIR_HELD -> Status {
    WEIR_TRY(make_region(shape_for(where.region->home, where.size), where.region->home,
                         where.region->client, &fresh));
    // Readers too: another tenant may get the place as soon as it is free.
    WEIR_TRY(wait_range(lock, index, 0, where.size, true));
    if (virgin) return {};
    WEIR_TRY(host_slot(lock, where.region->client, node_of(*where.region), where.size, &slot));
    WEIR_TRY(copy_pieces(lock, index, where, 0, where.size,
                         static_cast<unsigned char *>(host_->address(slot)), nullptr));
    host_->take_over(slot, where.region->client, where.size);
    return {};
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
    places_.note(*fresh, fresh->pages[0].take_slot(slot));
    if (!virgin) places_.note(*fresh, fresh->pages[0].arrived(vm::host_bit));
    if (!virgin) note_in_order(*fresh, 0, vm::host_bit);
    remove_tenant(index);
    buffers_.cold(index) = vm::Cold{fresh->id, physical::SmallArena::none};
    // A prefetch may have opened the hit path to the old place while the lock was dropped.
    set_flags(index, 0, Word::virgin | Word::resident | Word::sole);
  } else {
    const LastError why = last_error();
    if (slot) free_slot(where.region->client, slot, where.region->scrub);
    if (fresh != nullptr) free_region(*fresh);
    last_error() = why;
  }
  word.fetch_sub(Word::writer);
  changed_.notify_all();
  return status;
}

}  // namespace weir::residency
