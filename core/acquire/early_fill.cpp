// SPDX-License-Identifier: Apache-2.0
//
// Parts of a set that come in early: which sets, and one part.

#include "core/acquire/early_fill.hpp"

#include "core/acquire/claims.hpp"
#include "core/move/filler.hpp"

#include <algorithm>

namespace weir::acquire {

EarlyFill::EarlyFill(Gatherer &gatherer, move::Filler &filler, Claims &claims,
                     move::Plan &plan) noexcept
    : gatherer_(gatherer),
      filler_(filler),
      claims_(claims),
      plan_(plan),
      left_(plan.need.missing_bytes),
      part_(std::max(plan.need.missing_bytes / most_parts, least_part)),
      on_(plan.lease != nullptr && !plan.terms.whole && plan.remote == nullptr &&
          plan.others.empty() && plan.device->vmm() && plan.need.missing_bytes >= 2 * part_) {
  // Bytes that need nothing but the link between HOST and the device, and pages that nobody else has a part of.
  for (const move::PlanPage &page : plan.pages) {
    const bool plain = !page.stale && page.region->shards == nullptr &&
                       !page.region->shape.fragment(page.page) &&
                       (page.discard || !page.absent || (page.latest & page::device_bits) == 0);
    on_ = on_ && plain && !plan.items[page.item].zeroes();
  }
}

move::PlanPage *EarlyFill::wanting() noexcept {
  for (; next_ < plan_.pages.size(); ++next_) {
    move::PlanPage &page = plan_.pages[next_];
    if (page.absent && page.memory.granule == physical::no_granule) return &page;
  }
  return nullptr;
}

void EarlyFill::bring(Releasable &lock) noexcept {
  ready_ = 0;
  for (size_t i = first_; i < next_; ++i) {
    const move::PlanPage &page = plan_.pages[i];
    const page::Page &copies = page.region->pages[page.page];
    if (!page.absent) continue;
    on_ = on_ && claims_.still_absent(plan_, page) && copies.busy() == 0 &&
          copies.latest() == page.latest;
  }
  if (!on_) return;  // whoever looks at the whole set says what has changed
  if (!if_memory([&]() WEIR_HELD { filler_.prepare(plan_); })) {
    filler_.forgo(plan_);
    on_ = false;
    return;
  }
  filler_.mark(plan_);
  const Status status = filler_.bring(lock, plan_);
  failed_ = plan_.terms.whole = !status.ok() || !plan_.check_device().ok();
  on_ = !failed_;
  for (; on_ && first_ < next_; ++first_) {
    move::PlanPage &page = plan_.pages[first_];
    page.latest = page.region->pages[page.page].latest();
    if (plan_.items[page.item].missed) plan_.items[page.item].brought = true;
  }
}

void EarlyFill::more_room(Releasable &lock) noexcept {
  if (!on_ || !plan_.check_device().ok()) return;
  try {
    while (move::PlanPage *page = wanting()) {
      Gatherer::Short what = Gatherer::Short::nothing;
      if (!gatherer_.claim_page(plan_, *page, &what) || what != Gatherer::Short::nothing) break;
      note(*page);
    }
    if (due()) bring(lock);
  } catch (const std::bad_alloc &) {
    on_ = false;
  }
}

}  // namespace weir::acquire
