// SPDX-License-Identifier: Apache-2.0
//
// Groups of slabs, and places in them.

#include "core/page/slab_allocator.hpp"

#include "core/base/grow.hpp"

#include <algorithm>

namespace weir::page {
namespace {

using physical::RoomTree;

/// Slabs with room that are asked for a place at an alignment, or with the page there, before one is taken that is sure; and with
/// closed pages, before another is made.
constexpr uint32_t most_looks = 4;

uint64_t group_key(const Kin &kin) noexcept {
  return (uint64_t{kin.client} << 32) | (uint64_t{kin.home} << 16) |
         (static_cast<uint64_t>(kin.priority + 128) << 8) | (kin.pinned ? 1U : 0U);
}
uint64_t key_of(const Region &slab) noexcept {
  return group_key(Kin{slab.home, slab.owner.client, slab.priority, slab.is.pinned});
}

/// Whether a page below the range has no tenants and is on its way in, out or elsewhere: who takes the range waits for work
/// that is none of his.
bool idle_on_its_way(const Region &slab, uint64_t offset, uint64_t size) noexcept {
  const uint32_t last = slab.shape.page_at(offset + size - 1);
  for (uint32_t p = slab.shape.page_at(offset); p <= last; ++p) {
    if (slab.idle(p) && slab.pages[p].busy() != 0) return true;
  }
  return false;
}

}  // namespace

SlabAllocator::SlabAllocator(RegionStore &regions, Accounts &accounts,
                             std::pmr::memory_resource *memory)
    : regions_(regions), accounts_(accounts), memory_(memory), groups_(memory) {}

void SlabAllocator::Group::reserve_one() {
  grow_by(slabs);
  rooms.reserve(slabs.size() + 1);
}

/// Made at first use, and never moved nor erased. Most calls are about the group of the call before.
SlabAllocator::Group &SlabAllocator::group_at(uint64_t key) {
  if (recent_ == nullptr || recent_key_ != key) {
    recent_ = &groups_.try_emplace(key, memory_).first->second;
    recent_key_ = key;
  }
  return *recent_;
}

/// The group's index of rooms says what the slab has.
void SlabAllocator::note_room(Region &slab) noexcept {
  RoomTree &rooms = *slab.tenants->rooms;
  const uint32_t position = slab.tenants->position;
  const uint64_t room = slab.tenants->largest_free();
  const uint64_t run = slab.is.pinned ? slab.tenants->longest_closed : 0;
  if (rooms.contains(position)) {
    rooms.change(position, room, run);
  } else {
    rooms.insert(position, room, run);
  }
}

/// Throws std::bad_alloc with nothing changed.
void SlabAllocator::join(Group &group, Region &slab) {
  group.reserve_one();
  slab.tenants->position = static_cast<uint32_t>(group.slabs.size());
  slab.tenants->rooms = &group.rooms;
  group.slabs.push_back(slab.id);
  note_room(slab);
}

void SlabAllocator::open(Region &region, const Kin &kin) {
  const Geometry &shape = region.shape;
  region.tenants = make_owned<Slab>(memory_, shape.physical_bytes(), shape.pages(), memory_);
  region.is.pinned = kin.pinned;
  region.priority = static_cast<int8_t>(kin.priority);
  if (kin.pinned) region.tenants->close_all(shape.physical_bytes() / shape.pages());
  join(group_at(group_key(kin)), region);
  region.is.slab = true;
}

void SlabAllocator::close(Region &slab) noexcept {
  const auto found = groups_.find(key_of(slab));
  if (found == groups_.end()) return;
  Group &group = found->second;
  const uint32_t position = slab.tenants->position;
  const auto last = static_cast<uint32_t>(group.slabs.size() - 1);
  if (position > last || group.slabs[position] != slab.id) return;
  group.rooms.erase(position);
  if (position != last) {
    Region &moved = regions_.at(group.slabs[last]);
    group.rooms.erase(last);
    group.slabs[position] = moved.id;
    moved.tenants->position = position;
    note_room(moved);
  }
  group.slabs.pop_back();
}

void SlabAllocator::move(Region &slab, uint8_t home) {
  Group &to = group_at(group_key(Kin{home, slab.owner.client, slab.priority, slab.is.pinned}));
  to.reserve_one();
  close(slab);
  join(to, slab);
}

// ---- places ----

bool SlabAllocator::occupy(Region &slab, const Place &place) noexcept {
  Slab &tenants = *slab.tenants;
  const uint64_t size = tenants.size(place.node);
  const uint32_t first = slab.shape.page_at(place.offset);
  const uint32_t last = slab.shape.page_at(place.offset + size - 1);
  const Residence *here = slab.on(slab.home);
  uint64_t bytes = 0;
  for (uint32_t p = first; here != nullptr && p <= last; ++p) {
    const bool there = here->pages[p].granule != physical::no_granule &&
                       here->pages[p].state() != PageState::filling;
    if (there && tenants.pages[p].tenants == 0) bytes += slab.shape.charged_bytes(p);
  }
  Charge charge = accounts_.charge(slab.owner.client, slab.home, bytes);
  if (!charge) return false;
  charge.absorb();
  for (uint32_t p = first; p <= last; ++p) ++tenants.pages[p].tenants;
  tenants.taken += size;
  if (tenants.count++ == 0) ++count_;
  note_room(slab);
  return true;
}

void SlabAllocator::vacate(Region &slab, uint32_t node, uint64_t look) noexcept {
  Slab &tenants = *slab.tenants;
  const uint64_t size = tenants.size(node);
  const uint32_t first = slab.shape.page_at(tenants.offset(node));
  const uint32_t last = slab.shape.page_at(tenants.offset(node) + size - 1);
  const auto next = tenants.next(node);
  tenants.free(node);
  for (uint32_t p = first; p <= last; ++p) {
    if (--tenants.pages[p].tenants == 0) tenants.pages[p].idle_since = look;
  }
  tenants.taken -= size;
  if (--tenants.count == 0) --count_;
  if (slab.is.pinned) tenants.close_idle(next, first, last, slab.shape.small_bytes);
  note_room(slab);
}

Region *SlabAllocator::find(const Kin &kin, uint64_t size, uint64_t alignment, Place *place) {
  const Group &group = group_at(group_key(kin));
  bool full = false;  // the quota
  const auto take = [&](uint32_t position) WEIR_HELD -> Region * {
    Region &slab = regions_.at(group.slabs[position]);
    *place = slab.tenants->allocate(size, alignment);
    if (!*place) return nullptr;
    if (!idle_on_its_way(slab, place->offset, slab.tenants->size(place->node))) {
      if (occupy(slab, *place)) return &slab;
      full = true;
    }
    slab.tenants->free(place->node);
    *place = {};
    return nullptr;
  };
  uint32_t looks = most_looks;
  for (uint32_t at = group.rooms.at_least(size); at != RoomTree::none && looks-- > 0;
       at = group.rooms.next(at)) {
    if (Region *slab = take(at)) return slab;
    if (full && alignment <= 256) break;
  }
  // Here any alignment can be had.
  const uint32_t sure =
      alignment > 256 ? group.rooms.at_least(size + alignment - 256) : RoomTree::none;
  return sure != RoomTree::none ? take(sure) : nullptr;
}

Region *SlabAllocator::find_pinned(const Kin &kin, uint64_t bytes, uint64_t page_bytes,
                                   Place *place) {
  const Group &group = group_at(group_key(kin));
  const uint64_t pages = (bytes + page_bytes - 1) / page_bytes;
  uint32_t at = group.rooms.at_least(bytes);
  if (at != RoomTree::none) {
    Region &slab = regions_.at(group.slabs[at]);
    *place = slab.tenants->allocate(bytes, 256);
    return &slab;
  }
  uint32_t looks = most_looks;
  for (at = group.rooms.at_least(0, pages); at != RoomTree::none && looks-- > 0;
       at = group.rooms.next(at, pages)) {
    Region &slab = regions_.at(group.slabs[at]);
    slab.tenants->prepare();
    *place = open_pages(slab, bytes);
    if (*place) return &slab;
  }
  return nullptr;
}

SlabAllocator::Place SlabAllocator::open_pages(Region &region, uint64_t bytes) noexcept {
  Slab &slab = *region.tenants;
  const uint64_t page_bytes = region.shape.small_bytes;
  const Residence *here = region.on(region.home);
  uint32_t best = 0, best_count = 0, best_absent = UINT32_MAX;
  uint64_t best_before = 0;
  const auto count = static_cast<uint32_t>(slab.pages.size());
  for (uint32_t p = 0; p < count && best_absent != 0; ++p) {
    if (slab.pages[p].closed == Slab::none) continue;
    const uint64_t before = std::min(slab.free_before(slab.pages[p].closed), bytes - 256);
    const auto need = static_cast<uint32_t>((bytes - before + page_bytes - 1) / page_bytes);
    uint32_t absent = 0;
    uint32_t have = 0;
    while (have < need && p + have < count && slab.pages[p + have].closed != Slab::none &&
           region.pages[p + have].busy() == 0) {
      absent += here->pages[p + have].state() == PageState::absent ? 1 : 0;
      ++have;
    }
    if (have < need || absent > best_absent) continue;
    if (absent == best_absent && before <= best_before) continue;
    best = p;
    best_count = need;
    best_absent = absent;
    best_before = before;
  }
  if (best_count == 0) return {};
  const uint64_t start = best * page_bytes - best_before;
  const auto behind = slab.open(best, best_count);
  return Place{slab.take_before(behind, start, bytes), start};
}

std::string SlabAllocator::validate(const Region &region, uint32_t *page) const {
  const Slab &slab = *region.tenants;
  std::string wrong = slab.validate();
  if (!wrong.empty()) return wrong;
  // Not of the pool's memory, which tests let run out.
  std::vector<uint32_t> tenants(slab.pages.size());
  uint32_t count = 0;
  for (auto node = slab.first_tenant(); node != Slab::none; node = slab.next_tenant(node)) {
    const uint64_t at = slab.offset(node);
    for (uint32_t p = region.shape.page_at(at); p <= region.shape.page_at(at + slab.size(node) - 1);
         ++p)
      ++tenants[p];
    ++count;
  }
  if (count != slab.count) return "its tenants are not as many as were counted";
  uint32_t &p = *page;
  for (p = 0; p < slab.pages.size(); ++p) {
    if (tenants[p] != slab.pages[p].tenants) return "its tenants are not as many as were counted";
    if ((slab.pages[p].closed != Slab::none) != (region.is.pinned && tenants[p] == 0))
      return "closed, and not idle, or the reverse";
    const Page &copies = region.pages[p];
    if (tenants[p] == 0 && copies.busy() == 0 &&
        (copies.latest() != 0 || copies.host() || copies.lower != tier::Chains::none))
      return "nobody's, and has a version";
  }
  const auto found = groups_.find(key_of(region));
  if (found == groups_.end()) return "its group is not known";
  const Group &group = found->second;
  if (slab.position >= group.slabs.size() || group.slabs[slab.position] != region.id ||
      group.rooms.room(slab.position) != slab.largest_free())
    return "its group does not know its room";
  return group.rooms.validate();
}

}  // namespace weir::page
