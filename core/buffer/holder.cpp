// SPDX-License-Identifier: Apache-2.0
//
// Holds: taken, counted, and undone.

#include "core/buffer/holder.hpp"

#include "core/acquire/acquirer.hpp"
#include "core/acquire/claims.hpp"
#include "core/acquire/grants.hpp"
#include "core/acquire/slabs.hpp"

namespace weir::buffer {

void Holder::add_hold(Region &region, uint8_t place, bool writes) noexcept {
  if (region.holds.count++ != 0) return;
  region.holds.at = place;
  region.holds.to_write = writes && !region.is.slab;
  for (const auto &r : region.residences) {
    if (region.held_on(r->place)) page_.devices[r->place]->memory.count_held(region, *r, true);
  }
}

void Holder::drop_hold(Region &region) noexcept {
  if (region.holds.count > 1) {
    --region.holds.count;
    return;
  }
  for (const auto &r : region.residences) {
    if (region.held_on(r->place)) page_.devices[r->place]->memory.count_held(region, *r, false);
  }
  region.holds.count = 0;
  region.holds.to_write = false;
  env_.sync.changed.notify_all();
}

// ---- taking and undoing them ----

void Holder::plan_whole(uint32_t index, uint8_t mode, move::Plan *plan) {
  plan->lease = plan;
  const page::Hot &hot = page_.buffers.hot(index);
  plan->items.push_back({{0, hot.size(), index}, hot.generation(), mode});
}

Status Holder::bring_whole(Releasable &lock, move::Plan &plan) {
  WEIR_TRY(acquirer_.bring_in(lock, plan, page::AcquireOptions{}));
  const auto order = [&]() WEIR_HELD {
    const move::PlanItem &item = plan.items[0];
    if (plan.stream == nullptr)
      return cpu_.wait_range(lock, item.buffer, 0, item.end, item.writes());
    bool stands = true;
    grants_.gather_waits(plan);
    return plan.waits.empty() ? Status{} : grants_.order_unlocked(lock, plan, &stands);
  };
  return or_undo(order, [&]() WEIR_HELD { claims_.drop(plan); });
}

/// The buffer is in place and claimed: it is held from now on, or nothing was done. The claim ends.
Status Holder::take_hold(Releasable &lock, move::Plan &plan, HoldKind kind) {
  const AtEnd taken([&]() WEIR_HELD { claims_.drop(plan); });
  const move::PlanItem &item = plan.items[0];
  Region &region = *item.region;
  // A virgin tenant was zeroed here and nowhere else.
  const bool alone_latest = kind != HoldKind::read || item.virgin;
  // The claim lets readers be, and what they are copying from must not be given up under them.
  if (alone_latest) WEIR_TRY(cpu_.settle_pages(lock, region, item.first, item.last));
  WEIR_TRY(plan.try_each([](move::Plan &part) { return part.check_device(); }));
  WEIR_TRY(plan.try_each([this](move::Plan &part) WEIR_HELD { return claims_.check_lost(part); }));
  const ClaimScope scope = plan.scope(region);
  WEIR_TRY(
      page_.buffers.check_hold(item.buffer, kind, scope));  // another's hold may have been faster
  if (alone_latest) grants_.leave_latest(plan);
  add_hold(region, plan.place(), kind != HoldKind::read);
  page_.buffers.count_hold(item.buffer, kind, scope);
  // While the claim keeps writers out: what the hold forbids must not be granted by a hit.
  others_.pages.refresh_word(item.buffer, region, item.base, item.size,
                             others_.history.pending(item.buffer), {{}, Word::counted(item.mode)});
  return {};
}

/// One more hold on what is held alike: everything is in place.
Status Holder::nest_hold(move::Plan &plan) {
  WEIR_TRY(claims_.resolve(plan));
  WEIR_TRY(plan.check_device());
  WEIR_TRY(claims_.spread(plan));
  const move::PlanItem &item = plan.items[0];
  Region &region = *item.region;
  for (uint32_t p = item.first; p <= item.last; ++p) {
    if (region.pages[p].lost()) return page_.buffers.fail_lost(item.buffer, p);
  }
  add_hold(region, plan.place(), region.holds.to_write);
  page_.buffers.count_hold(item.buffer);
  return {};
}

Status Holder::hold(weir_buffer buffer, uint32_t device_id, HoldKind kind, uint64_t *address) {
  const Scrubbing scrubbing(env_.scrub_turns);
  Locked lock(env_.sync.lock);
  uint32_t index = 0;
  WEIR_TRY(page_.buffers.find(buffer, &index));
  uint8_t place = page_.buffers.target(index).region->home;
  if (device_id != WEIR_DEVICE_DEFAULT) WEIR_TRY(find_place(page_.devices, device_id, &place));
  move::Plan plan(env_.memory, nullptr, page_.devices[place].get());
  WEIR_TRY(page_.buffers.check_hold(index, kind, plan.scope(*page_.buffers.target(index).region)));
  WEIR_TRY(small_.unslab_for(lock, index, place));
  const bool nests = page_.buffers.hold_of(index) != nullptr;
  page_.buffers.begin_hold(index);
  const AtEnd come([&]() WEIR_HELD { page_.buffers.end_hold(index); });
  plan_whole(index, kind == HoldKind::alone ? WEIR_READ_WRITE : WEIR_READ, &plan);
  WEIR_TRY(nests ? nest_hold(plan) : bring_whole(lock, plan));
  if (!nests) WEIR_TRY(take_hold(lock, plan, kind));
  const Target where = page_.buffers.target(index);
  *address = address_on(*where.region, place) + where.base;
  return {};
}

Status Holder::unhold(weir_buffer buffer) {
  Locked lock(env_.sync.lock);
  uint32_t index = 0;
  WEIR_TRY(page_.buffers.find(buffer, &index));
  if (page_.buffers.hold_of(index) == nullptr)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "the buffer is not held");
  const Target where = page_.buffers.target(index);
  drop_hold(*where.region);
  if (!page_.buffers.drop_hold(index)) return {};
  // The hit path is as it would be without the hold. Not where a writer has the buffer alone: it may be moving it, with the path closed.
  const uint64_t word = page_.buffers.hot(index).word.load(std::memory_order_relaxed);
  if ((word & Word::writer) == 0)
    others_.pages.refresh_word(index, *where.region, where.base, where.size,
                               others_.history.pending(index), {});
  return {};
}

}  // namespace weir::buffer
