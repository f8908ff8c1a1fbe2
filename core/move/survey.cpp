// SPDX-License-Identifier: Apache-2.0
//
// Survey: what small buffers lie where in a group's slabs, which of them may move, and how a device's memory lies as a
// whole. Reads only, under the lock, and no more of a group than can be read in a moment: of many slabs the emptiest and
// the fullest. extents.cpp has the same for segments.

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
  Locked lock(env_.sync.lock);
  if (device_at(place).lost()) return;
  page_.slabs.for_each_group([&](uint64_t group, const auto &slabs) WEIR_HELD {
    if (page_.regions.at(slabs[0]).home != place) return;
    if (page_.regions.at(slabs[0]).is.pinned) {
      for (const uint32_t id : slabs)
        result->block(Blocker::pinned, page_.regions.at(id).tenants->taken);
    } else {
      groups->push_back(group);
    }
  });
}

void Relocator::survey_group(uint8_t place, uint64_t group, Survey *survey) {
  constexpr ptrdiff_t most_surveyed = 32;  // slabs, of the emptiest and of the fullest each
  constexpr size_t most_occupants = size_t{1} << 16U;
  Locked lock(env_.sync.lock);
  survey->clear();
  const page::SlabAllocator::Ids *found = page_.slabs.group(group);
  if (found == nullptr || device_at(place).lost()) return;
  std::pmr::vector<uint32_t> slabs(*found, env_.memory);
  std::erase_if(slabs, [this](uint32_t id) WEIR_HELD { return page_.regions.at(id).vacant(); });
  const auto emptier = [this](uint32_t a, uint32_t b) WEIR_HELD {
    return page_.regions.at(a).tenants->used() < page_.regions.at(b).tenants->used();
  };
  if (slabs.size() > size_t{2 * most_surveyed}) {
    const auto middle = slabs.begin() + most_surveyed;
    std::nth_element(slabs.begin(), middle, slabs.end(), emptier);
    // Of the fullest those with room.
    const auto full = std::partition(middle, slabs.end(), [this](uint32_t id) WEIR_HELD {
      return page_.regions.at(id).tenants->free_units() >=
             page_.regions.at(id).tenants->size() / 16;
    });
    const auto last = middle + std::min<ptrdiff_t>(full - middle, most_surveyed);
    std::partial_sort(middle, last, full,
                      [&](uint32_t a, uint32_t b) WEIR_HELD { return emptier(b, a); });
    slabs.erase(last, slabs.end());
  }
  // From both ends, as long as it may take: the lock is held.
  std::sort(slabs.begin(), slabs.end(), emptier);
  size_t first = 0;
  for (size_t end = slabs.size(); first < end && survey->occupants.size() < most_occupants;) {
    survey_slab(page_.regions.at(slabs[first++]), survey);
    if (first < end) survey_slab(page_.regions.at(slabs[--end]), survey);
  }
}

void Relocator::survey_slab(Region &region, Survey *survey) {
  const Residence *here = region.on(region.home);
  SurveyedPlace slab{.id = region.id,
                     .generation = page_.regions.generation(region),
                     .size = region.shape.physical_bytes(),
                     .worth = bytes_in_use(region, here),
                     .first = survey->occupants.size()};
  if (slab.worth == 0) return;
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
  const physical::SmallArena &tenants = *region.tenants;
  uint64_t end = 0;
  for (auto node = tenants.first(); node != physical::SmallArena::none; node = tenants.next(node)) {
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
    tenant.blocker =
        page_.buffers.lies_at(tenant.owner, region, node)
            ? blocker_of(region, tenant.owner, tenant.offset, tenant.offset + tenant.size)
            : Blocker::busy;
    fill_gap(end, tenant.offset);
    survey->occupants.push_back(tenant);
    end = tenant.offset + tenant.size;
  }
  fill_gap(end, slab.size);
  slab.count = survey->occupants.size() - slab.first;
  survey->places.push_back(slab);
}

LayoutStats Relocator::layout(uint8_t place) {
  Locked lock(env_.sync.lock);
  PoolDevice &device = device_at(place);
  LayoutStats stats;
  if (!device.vmm()) {
    stats.free_bytes = device.memory.granules().idle();
    stats.largest_free = device.memory.granules().largest_free();
  }
  page_.slabs.for_each_group([&](uint64_t, const auto &slabs) WEIR_HELD {
    const Region &first = page_.regions.at(slabs[0]);
    if (slabs.size() < 2 || first.home != place || first.is.pinned) return;
    for (const uint32_t id : slabs) {
      Region &region = page_.regions.at(id);
      const uint64_t bytes = bytes_in_use(region, region.on(place));
      stats.slab_bytes += bytes;
      stats.slab_used += std::min(bytes, region.tenants->used());
    }
  });
  return stats;
}

}  // namespace weir::move
