// SPDX-License-Identifier: Apache-2.0
//
// What a plan needs of its device.

#include "core/move/plan.hpp"

namespace weir::move {

void Plan::count_need(bool *busy) noexcept {
  need = {};
  device->memory.begin_count();
  for (const PlanPage &page : pages) {
    const page::Bundle *bundle = device->memory.bundle_of(*page.region, page.page);
    const uint64_t bytes = device->memory.count_granule(*page.region, page.page);
    const bool held = bundle != nullptr ? bundle->held != 0
                                        : page.region->held(page.page, place()) && !page.absent;
    need.set_bytes += bytes;
    if (held) need.held_bytes += bytes;
    if (page.absent && (bundle == nullptr || bundle->granule == physical::no_granule))
      need.missing_bytes += bytes;
    *busy = *busy || (bundle != nullptr && bundle->maker != nullptr);
  }
}

void Plan::count_came() noexcept {
  const Need before = need;
  bool busy = false;
  count_need(&busy);
  need.came_bytes = before.missing_bytes - std::min(before.missing_bytes, need.missing_bytes);
  need.missing_bytes = before.missing_bytes;
}

}  // namespace weir::move
