// SPDX-License-Identifier: Apache-2.0
//
// Ids and their free list; the lists of kept regions.

#include "core/page/region_store.hpp"

#include <algorithm>
#include <cassert>

namespace weir::page {
namespace {

/// The key of the kept regions that a new region of that shape could take over. Regions that share granules match by size alone,
/// wherever in a granule they begin.
uint64_t shape_key(const Geometry &shape, uint8_t home, uint32_t client) noexcept {
  uint64_t key = shape.shared ? ~shape.size : shape.large;
  for (const uint64_t part : {shape.shared ? 0 : uint64_t{shape.small}, shape.small_bytes,
                              uint64_t{home}, uint64_t{client}}) {
    key = (key ^ part) * 0x9e3779b97f4a7c15ULL;
  }
  return key;
}

bool fits(const Geometry &kept, const Geometry &wanted, uint64_t alignment) noexcept {
  if (kept.shared != wanted.shared) return false;
  if (!kept.shared) return kept.same_shape(wanted);
  return kept.size == wanted.size && kept.small_bytes == wanted.small_bytes &&
         kept.large_bytes == wanted.large_bytes && kept.lead % alignment == 0;
}

}  // namespace

RegionStore::RegionStore(std::pmr::memory_resource *memory, Releaser *releaser)
    : memory_(memory),
      releaser_(releaser),
      regions_(memory),
      generations_(memory),
      next_free_(memory),
      kept_(memory) {}

Region &RegionStore::make(const Geometry &shape, uint8_t home, uint32_t client) {
  const bool again = free_ != none;
  const uint32_t id = again ? free_ : ids();
  Compact<Region> fresh = make_owned<Region>(memory_, id, memory_);
  fresh->pages.resize(shape.pages());
  fresh->residences.reserve(1);
  if (again) {
    free_ = next_free_[id];
    regions_[id] = std::move(fresh);
  } else {
    // The places beside it first: one that was made for nothing is there the next time, and free() can't fail.
    generations_.resize(id + size_t{1}, 1);
    next_free_.resize(id + size_t{1});
    regions_.push_back(std::move(fresh));
  }
  Region &region = *regions_[id];
  region.shape = shape;
  region.home = home;
  region.owner.client = client;
  pages_ += shape.pages();
  return region;
}

bool RegionStore::ended(const Region &region) noexcept {
  return (region.is.kept || region.vacant()) && !region.pin_count.any() &&
         std::ranges::all_of(region.residences, [](const auto &r) { return r->resident == 0; });
}

void RegionStore::free(Region &region) noexcept {
  unlist_kept(region);
  pages_ -= region.pages.size();
  const uint32_t id = region.id;
  regions_[id].reset();
  ++generations_[id];
  next_free_[id] = free_;
  free_ = id;
}

void RegionStore::reshape(Region &region, const Geometry &shape) {
  pages_ += shape.pages();
  pages_ -= region.pages.size();
  region.shape = shape;
  region.pages.resize(shape.pages());
}

Region *RegionStore::find_slab(uint32_t id, uint64_t generation) noexcept {
  Region *region = find(id, generation);
  return region != nullptr && region->is.slab && !region->is.kept ? region : nullptr;
}

// ---- kept regions ----

void RegionStore::list_kept(Region &region) noexcept {
  if_memory([&]() WEIR_HELD {
    auto [entry, first] =
        kept_.try_emplace(shape_key(region.shape, region.home, region.owner.client), none);
    region.kept.before = none;
    region.kept.after = entry->second;
    if (!first) at(entry->second).kept.before = region.id;
    entry->second = region.id;
    region.is.listed = true;
  });
}

void RegionStore::unlist_kept(Region &region) noexcept {
  if (!region.is.listed) return;
  region.is.listed = false;
  if (region.kept.after != none) at(region.kept.after).kept.before = region.kept.before;
  if (region.kept.before != none) {
    at(region.kept.before).kept.after = region.kept.after;
    return;
  }
  const auto entry = kept_.find(shape_key(region.shape, region.home, region.owner.client));
  assert(entry != kept_.end());
  if (region.kept.after != none) {
    entry->second = region.kept.after;
  } else {
    kept_.erase(entry);
  }
}

Region *RegionStore::find_kept(const Geometry &shape, uint64_t alignment, uint8_t home,
                               uint32_t client) noexcept {
  const auto entry = kept_.find(shape_key(shape, home, client));
  for (uint32_t id = entry != kept_.end() ? entry->second : none; id != none;) {
    Region &region = at(id);
    id = region.kept.after;
    const bool same = region.is.kept && !region.pin_count.any() && region.home == home &&
                      region.owner.client == client;
    const bool whole = same && region.residences[0]->resident == region.pages.size();
    if (!whole) {
      unlist_kept(region);
    } else if (fits(region.shape, shape, alignment)) {
      return &region;
    }
  }
  return nullptr;
}

void RegionStore::adopt(Region &region, uint64_t size) noexcept {
  unlist_kept(region);
  region.is.kept = false;
  region.shape.size = size;
}

}  // namespace weir::page
