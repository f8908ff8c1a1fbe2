// SPDX-License-Identifier: Apache-2.0
//
// Survey: what small buffers lie where in a group's slabs, which of them may move, and how a device's memory lies as a
// whole. Reads only, under the lock, some thousand records in a taking, and no more of a group than is soon done: of many slabs the
// emptiest and the fullest. extents.cpp has the same for segments.

#include "core/move/relocator.hpp"

#include <algorithm>

namespace weir::move {
namespace {

/// Bytes of the slab's pages that are there and have tenants.
uint64_t bytes_in_use(const Region &region, const Residence *here) noexcept {
  uint64_t bytes = 0;
  for (uint32_t p = 0; here != nullptr && p < region.pages.size(); ++p) {
    if (here->pages[p].state() == PageState::resident && !region.idle(p))
      bytes += region.shape.page_bytes(p);
  }
  return bytes;
}

}  // namespace

Blocker Relocator::blocker_of(Region &region, uint32_t buffer, uint64_t begin,
                              uint64_t end) noexcept {
  const uint64_t word = page_.buffers.hot(buffer).word.load(std::memory_order_acquire);
  if (region.is.pinned) return Blocker::pinned;
  if (region.is.stable) return Blocker::stable;
  if (page_.buffers.held(buffer)) return Blocker::held;
  if (Word::leases(word) != 0 || (word & Word::partial) != 0) return Blocker::leased;
  if ((word & Word::alive) == 0 || (word & Word::closing) != 0) return Blocker::busy;
  const Residence *here = region.on(region.home);
  const bool virgin = (word & Word::virgin) != 0;
  for (uint32_t p = region.shape.page_at(begin); p <= region.shape.page_at(end - 1); ++p) {
    if (region.pages[p].busy() != 0) return Blocker::busy;
    if (virgin) continue;
    const bool latest = (region.pages[p].latest() & here->place_bit()) != 0;
    if (!latest || !on_device(region, *here, p)) return Blocker::busy;
  }
  return Blocker::none;
}

void Relocator::list_groups(uint8_t place, std::pmr::vector<uint64_t> *groups, MoveResult *result) {
  page::SlabAllocator::Cursor from;
  const auto list = [&](uint64_t group, const auto &slabs, size_t at) WEIR_HELD -> uint64_t {
    const Region &slab = page_.regions.at(slabs[at]);
    if (slab.home != place) return 1;
    if (slab.is.pinned) {
      result->block(Blocker::pinned, slab.tenants->taken);
    } else if (groups->empty() || groups->back() != group) {
      groups->push_back(group);
    }
    return 1;
  };
  in_parts([&]() WEIR_HELD { return device_at(place).lost() || page_.slabs.walk(&from, list); });
}

void Relocator::list_slabs(uint8_t place, uint64_t group, std::pmr::vector<SlabSight> *slabs) {
  constexpr size_t most_records = 4096;
  size_t from = 0;
  slabs->clear();
  in_parts([&]() WEIR_HELD {
    const page::SlabAllocator::Ids *found = page_.slabs.group(group);
    if (found == nullptr || device_at(place).lost()) return true;
    const size_t stop = std::min(found->size(), from + most_records);
    visits::count(stop - std::min(stop, from));
    for (; from < stop; ++from) {
      Region &slab = page_.regions.at((*found)[from]);
      SlabSight sight{.id = slab.id, .generation = page_.regions.generation(slab)};
      if (look_again(&sight)) slabs->push_back(sight);
    }
    return from >= found->size();
  });
  std::ranges::sort(*slabs, {}, &SlabSight::used);
}

/// False: it is gone, or has no tenants.
bool Relocator::look_again(SlabSight *sight) noexcept {
  const Region *slab = page_.regions.find_slab(sight->id, sight->generation);
  if (slab == nullptr || slab->vacant()) return false;
  sight->used = slab->tenants->used();
  sight->room = slab->tenants->free_units() >= slab->tenants->size() / 16;
  return true;
}

/// Those that were surveyed before take their places again, as they are now.
void Relocator::put_back(Survey *survey) {
  const auto middle = static_cast<ptrdiff_t>(survey->slabs.size());
  {
    const Locked lock(env_.sync.lock);
    for (SlabSight &sight : survey->chosen) {
      if (look_again(&sight)) survey->slabs.push_back(sight);
    }
    visits::count(survey->chosen.size());
  }
  const auto emptier = [](const SlabSight &a, const SlabSight &b) { return a.used < b.used; };
  std::sort(survey->slabs.begin() + middle, survey->slabs.end(), emptier);
  std::inplace_merge(survey->slabs.begin(), survey->slabs.begin() + middle, survey->slabs.end(),
                     emptier);
  survey->chosen.clear();
}

/// Into survey->chosen, out of survey->slabs: the emptiest, and of the fullest those with room.
void Relocator::choose_slabs(Survey *survey) {
  constexpr size_t most_surveyed = 32;  // of the emptiest and of the fullest each
  std::pmr::vector<SlabSight> &slabs = survey->slabs, &chosen = survey->chosen;
  if (slabs.size() <= 2 * most_surveyed) {
    chosen.swap(slabs);
    return;
  }
  const auto first = slabs.begin() + most_surveyed;
  std::pmr::vector<SlabSight> fullest(env_.memory);
  fullest.reserve(most_surveyed);
  chosen.assign(slabs.begin(), first);
  for (; slabs.size() > most_surveyed && fullest.size() < most_surveyed; slabs.pop_back())
    if (slabs.back().room) fullest.push_back(slabs.back());
  chosen.insert(chosen.end(), fullest.rbegin(), fullest.rend());
  slabs.erase(slabs.begin(), slabs.begin() + most_surveyed);
}

void Relocator::survey_group(uint8_t place, uint64_t group, Survey *survey, bool anew) {
  constexpr size_t most_occupants = size_t{1} << 16U;
  survey->clear();
  if (anew) {
    survey->chosen.clear();
    list_slabs(place, group, &survey->slabs);
  } else {
    put_back(survey);
  }
  choose_slabs(survey);
  // From both ends, as long as that may take.
  const std::span<const SlabSight> slabs = survey->chosen;
  for (size_t first = 0, end = slabs.size();
       first < end && survey->occupants.size() < most_occupants;) {
    survey_slab(place, slabs[first++], survey);
    if (first < end) survey_slab(place, slabs[--end], survey);
  }
}

/// Some thousand tenants in a taking of the lock. Where it goes on has to be there still: else from the begin, or another time.
void Relocator::survey_slab(uint8_t place, const SlabSight &sight, Survey *survey) {
  constexpr int most_attempts = 3;
  const size_t before = survey->occupants.size();
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    SurveyedPlace slab{.id = sight.id, .generation = sight.generation, .first = before};
    SlabCursor from;
    in_parts([&]() WEIR_HELD { return survey_part(place, &slab, &from, survey); });
    if (from.whole) {
      slab.count = survey->occupants.size() - before;
      survey->places.push_back(slab);
    } else {
      survey->occupants.resize(before);
    }
    if (!from.changed) return;
  }
}

/// True: that was all of it, or it is none to be surveyed.
bool Relocator::survey_part(uint8_t place, SurveyedPlace *slab, SlabCursor *from, Survey *survey) {
  constexpr uint64_t most_records = 4096;
  Region *const found = page_.regions.find_slab(slab->id, slab->generation);
  from->changed = false;
  if (found == nullptr || found->home != place || device_at(place).lost()) return true;
  Region &region = *found;
  const Residence *here = region.on(place);
  const physical::SmallArena &tenants = *region.tenants;
  auto node = tenants.first();
  if (from->node == physical::SmallArena::none) {
    slab->size = region.shape.physical_bytes();
    slab->worth = bytes_in_use(region, here);
    if (slab->worth == 0) return true;
  } else if (here == nullptr || !tenants.live(from->node) ||
             tenants.generation(from->node) != from->generation) {
    from->changed = true;
    return true;
  } else {
    node = tenants.next(from->node);
  }
  // What is free on pages that are elsewhere, or nobody's, is no place to move to.
  const auto fill_gap = [&](uint64_t begin, uint64_t end) {
    while (begin < end) {
      const uint32_t p = region.shape.page_at(begin);
      const uint64_t stop = std::min(end, region.shape.offset(p) + region.shape.page_bytes(p));
      if (!on_device(region, *here, p) || region.idle(p))
        survey->occupants.push_back({.offset = begin, .size = stop - begin, .filler = true});
      begin = stop;
    }
  };
  auto ahead = node;
  uint64_t looked = 0;
  for (; node != physical::SmallArena::none && looked < most_records; ++looked) {
    // What a look needs of a buffer lies far from that of the next.
    if (looked % records_ahead == 0) {
      for (uint32_t i = 0; i < records_ahead && ahead != physical::SmallArena::none; ++i) {
        page_.buffers.prefetch(tenants.owner(ahead));
        ahead = tenants.next(ahead);
      }
    }
    const Occupant tenant = look_at(region, node);
    fill_gap(from->end, tenant.offset);
    survey->occupants.push_back(tenant);
    from->end = tenant.offset + tenant.size;
    from->node = node;
    from->generation = tenant.node_generation;
    node = tenants.next(node);
  }
  visits::count(looked + region.shape.pages());
  if (node != physical::SmallArena::none) return false;
  fill_gap(from->end, slab->size);
  return from->whole = true;
}

Occupant Relocator::look_at(Region &slab, uint32_t node) noexcept {
  const physical::SmallArena &tenants = *slab.tenants;
  Occupant tenant{.offset = tenants.offset(node),
                  .size = tenants.size(node),
                  .owner = tenants.owner(node),
                  .node = node,
                  .node_generation = tenants.generation(node)};
  const uint64_t word = page_.buffers.hot(tenant.owner).word.load(std::memory_order_relaxed);
  tenant.generation = word & Word::generation_mask;
  tenant.alignment_log2 =
      static_cast<uint8_t>((word >> Word::alignment_shift) & Word::alignment_mask);
  // A node that a move has reserved is not its owner's place yet.
  tenant.blocker = page_.buffers.lies_at(tenant.owner, slab, node)
                       ? blocker_of(slab, tenant.owner, tenant.offset, tenant.offset + tenant.size)
                       : Blocker::busy;
  return tenant;
}

LayoutStats Relocator::layout(uint8_t place) {
  PoolDevice &device = device_at(place);
  LayoutStats stats;
  page::SlabAllocator::Cursor from;
  const auto add = [&](uint64_t, const auto &slabs, size_t at) WEIR_HELD -> uint64_t {
    Region &slab = page_.regions.at(slabs[at]);
    if (slabs.size() < 2 || slab.home != place || slab.is.pinned) return 1;
    const uint64_t bytes = bytes_in_use(slab, slab.on(place));
    stats.slab_bytes += bytes;
    stats.slab_used += std::min(bytes, slab.tenants->used());
    return 1 + slab.shape.pages();
  };
  in_parts([&]() WEIR_HELD {
    if (from.group == 0 && from.slab == 0 && !device.vmm()) {
      stats.free_bytes = device.memory.granules().idle();
      stats.largest_free = device.memory.granules().largest_free();
    }
    return page_.slabs.walk(&from, add);
  });
  return stats;
}

}  // namespace weir::move
