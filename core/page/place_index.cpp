// SPDX-License-Identifier: Apache-2.0
//
// See place_index.hpp. The sets are those of the tiers, that of what is sharded, and then two for each device: pages there, at home there.

#include "core/page/place_index.hpp"

#include <algorithm>

namespace weir::page {

PlaceIndex::PlaceIndex(std::pmr::memory_resource *memory) : sets_(memory), counts_(memory) {
  for (uint8_t set = 0; set < before_devices; ++set) sets_.emplace_back(memory);
}

void PlaceIndex::open(uint8_t device) {
  const size_t wanted = before_devices + 2 * (size_t{device} + 1);
  sets_.reserve(wanted);
  while (sets_.size() < wanted) {
    IdSet fresh(sets_.get_allocator().resource());
    fresh.reserve(counts_.size());
    sets_.push_back(std::move(fresh));
  }
}

void PlaceIndex::reserve(size_t regions) {
  if (regions <= counts_.size()) return;  // so have the sets, which come first here
  regions = (regions + 63) / 64 * 64;     // a word of each set at a time
  for (IdSet &set : sets_) set.reserve(regions);
  counts_.resize(regions);
}

void PlaceIndex::note(const Region &region, PlaceChange change) noexcept {
  for (uint8_t tier = 0; tier < tiers && change.before != change.after; ++tier) {
    const uint32_t bit = Place::of_tier(tier).bit();
    if (((change.before ^ change.after) & bit) == 0) continue;
    uint32_t &count = counts_[region.id][tier];
    if ((change.after & bit) != 0) {
      if (count++ == 0) sets_[tier].insert(region.id);
    } else {
      assert(count != 0);
      if (--count == 0) sets_[tier].erase(region.id);
    }
  }
}

void PlaceIndex::note(const Region &region, const Residence &here) noexcept {
  IdSet &there = set(at(Place(here.place)));
  if (here.resident + here.coming != 0) {
    there.insert(region.id);
  } else {
    there.erase(region.id);
  }
}

void PlaceIndex::settle(Region &region, uint8_t home_) noexcept {
  set(home(region.home)).erase(region.id);
  region.home = home_;
  set(home(home_)).insert(region.id);
}

void PlaceIndex::forget(const Region &region) noexcept {
  for (IdSet &set : sets_) set.erase(region.id);
  counts_[region.id] = {};
}

/// Group by group through all of the sets, so that an empty one costs a word a group and not a search to its end.
uint32_t PlaceIndex::next(Sets sets, uint32_t from) const noexcept {
  for (uint64_t at = from; at < counts_.size(); at = (at / IdSet::group + 1) * IdSet::group) {
    uint32_t first = none;
    for (Sets left = sets; left != 0; left &= left - 1)
      first = std::min(first, sets_[static_cast<size_t>(std::countr_zero(left))].next_in_group(
                                  static_cast<uint32_t>(at)));
    if (first != none) return first;
  }
  return none;
}

uint32_t PlaceIndex::next_around(Place tier) noexcept {
  uint32_t found = next(at(tier), found_[tier.tier()] + 1);
  if (found == none) found = next(at(tier), 0);
  if (found != none) found_[tier.tier()] = found;
  return found;
}

size_t PlaceIndex::count(Place place) const noexcept {
  return sets_[static_cast<size_t>(std::countr_zero(at(place)))].size();
}

bool PlaceIndex::check(uint32_t id, const Region *region) const noexcept {
  std::array<uint32_t, tiers> pages{};
  Sets in = 0;
  if (region != nullptr) {
    in |= home(region->home);
    if (region->shards != nullptr) in |= sharded();
    for (uint8_t tier = 0; tier < tiers; ++tier) {
      for (const Page &page : region->pages)
        pages[tier] += (page.tiers() & Place::of_tier(tier).bit()) != 0 ? 1 : 0;
      if (pages[tier] != 0) in |= at(Place::of_tier(tier));
    }
    for (const auto &here : region->residences) {
      for (const DevicePage &page : here->pages)
        if (page.state() != PageState::absent) in |= at(Place(here->place));
    }
  }
  for (size_t i = 0; i < sets_.size(); ++i)
    if (sets_[i].contains(id) != ((in >> i & 1U) != 0)) return false;
  return id < counts_.size() && counts_[id] == pages;
}

}  // namespace weir::page
