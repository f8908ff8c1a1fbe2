// SPDX-License-Identifier: Apache-2.0
//
// walk_pages(): one piece of a walk over the pages of many regions, so that nobody waits for the pool's lock until somebody has looked
// at all of them. It goes by numbers: between two pieces regions and pages may come, go and move.
#pragma once

#include "core/page/place_index.hpp"
#include "core/page/region_store.hpp"
#include "core/policy/policy.hpp"

namespace weir::page {

/// Of regions in any of the sets, from *at on; looks at so many records at most, regions and pages. `enter(region)`: whether its pages
/// are to be looked at. `visit(region, page)`: whether to go on; what it has been shown the next piece does not come to, unless it threw.
/// True: there are no more.
template <class Enter, class Visit>
bool walk_pages(const PlaceIndex &index, PlaceIndex::Sets sets, RegionStore &regions,
                policy::PageCursor *at, Enter &&enter, Visit &&visit) WEIR_HELD {
  constexpr uint64_t most_records = 4096;
  for (uint64_t looked = 0; looked < most_records;) {
    const uint32_t id = index.next(sets, at->region);
    if (id != at->region) *at = {id, 0};
    if (id == PlaceIndex::none) return true;
    Region &region = regions.at(id);
    const uint32_t first = at->page;
    const auto end = static_cast<uint32_t>(enter(region) ? region.pages.size() : 0);
    bool on = true;
    while (on && at->page < end && looked + (at->page - first) < most_records) {
      on = visit(region, at->page);
      ++at->page;
    }
    visits::count(1 + at->page - first);
    looked += 1 + at->page - first;
    if (at->page >= end) *at = {id + 1, 0};
    if (!on) return false;
  }
  return false;
}

}  // namespace weir::page
