// SPDX-License-Identifier: Apache-2.0
//
// What plans want to be brought, for the prefetcher, one request a device at a time.

#include "core/move/plan_executor.hpp"

#include <algorithm>
#include <utility>

namespace weir::move {
namespace {

/// Brought at once: enough to fill a link, little to wait for.
constexpr uint64_t most_brought = uint64_t{4} << 20U;

uint32_t client_of(const PageLayer &page,
                   const policy::PrefetchRequest &request) noexcept WEIR_HELD {
  if (!page.buffers.hot(request.buffer).lives(request.generation)) return 0;
  return page.buffers.target(request.buffer).region->owner.client;
}

}  // namespace

PlanExecutor::Planned PlanExecutor::planned(uint8_t place) const noexcept {
  const Followed *const own = place < devices_.size() ? devices_[place].followed() : nullptr;
  if (own == nullptr) return Planned::by_none;
  return own == devices_[place].announced.get() ? Planned::of_announced : Planned::of_learned;
}

bool PlanExecutor::next(policy::PrefetchRequest *request) {
  constexpr int most_looked = 64;
  for (size_t place = 0; place < devices_.size(); ++place) {
    Followed *own = devices_[place].followed();
    if (own == nullptr || own->blocked || devices_[place].asked) continue;
    PoolDevice &device = *page_.devices[place];
    if (!device.open()) continue;
    uint64_t number = 0;
    Look seen = Look::passed;
    for (int looked = 0; looked < most_looked && seen == Look::passed; ++looked, ++number) {
      const policy::PlannedFetch *fetch = own->plan.next_fetch(&number);
      if (fetch == nullptr) break;
      if (!own->plan.waits(*fetch)) seen = look_at(device, *own, number, request);
    }
    if (seen == Look::wanted) return devices_[place].asked = true;
    own->blocked = true;
  }
  return false;
}

PlanExecutor::Look PlanExecutor::look_at(PoolDevice &device, Followed &own, uint64_t number,
                                         policy::PrefetchRequest *request) {
  uint64_t same = number;
  const policy::PlannedFetch fetch = *own.plan.next_fetch(&same);
  const auto over = [&] {
    own.plan.taken(number, fetch.bytes, 0);
    return Look::passed;
  };
  const policy::Cast::Part &part = own.cast[fetch.part];
  if (part.buffer == policy::Cast::none) return Look::passed;  // not created yet
  if (!page_.buffers.hot(part.buffer).lives(part.generation)) return over();
  Region &region = *page_.buffers.target(part.buffer).region;
  if (region.is.slab || region.shards != nullptr) return over();
  policy::GivenUp &given_up = *device.policy->given_up();
  if (const uint64_t listed = given_up.bytes_of(region.id); listed != 0) {
    // It is still there: to stay it takes nothing but room.
    if (!own.plan.may_fetch(number, listed)) return Look::passed;
    given_up.take_back(region.id);
    own.plan.taken(number, std::min(listed, fetch.bytes), listed);
    if (listed >= fetch.bytes) return Look::passed;
  }
  const Residence *here = region.on(device.place);
  const uint64_t size = region.shape.size;
  const uint32_t last = region.shape.page_at(std::min(fetch.end, size) - 1);
  uint32_t first = region.shape.page_at(std::min(fetch.begin, size - 1));
  const auto there = [&](uint32_t p) {
    return region.pages[p].latest() == 0 ||
           (here != nullptr && here->pages[p].state() != PageState::absent);
  };
  // What is on its way out is brought when it has left. What is cleaned stays, and is listed.
  const auto leaves = [&](uint32_t p) WEIR_HELD {
    return here != nullptr && here->pages[p].state() == PageState::draining &&
           region.pages[p].latest() != 0 &&
           !given_up.holds(PageRef{region.id, p, page_.regions.generation(region)});
  };
  for (uint32_t p = first; p <= last; ++p)
    if (leaves(p)) return Look::passed;
  while (first <= last && there(first)) ++first;
  if (first > last) return over();
  uint64_t bytes = 0;
  uint32_t end = first;
  for (; end <= last && !there(end) && bytes < most_brought; ++end)
    bytes += region.shape.charged_bytes(end);
  if (!own.plan.may_fetch(number, bytes)) return Look::no_room;
  *request = {};
  request->buffer = part.buffer;
  request->generation = part.generation;
  request->begin = region.shape.offset(first);
  request->end = std::min(region.shape.offset(end - 1) + region.shape.page_bytes(end - 1), size);
  request->mode = WEIR_READ;
  request->place = device.place;
  request->planned = true;
  request->bytes = bytes;
  request->number = number;
  return Look::wanted;
}

void PlanExecutor::settle(Releasable &lock, const policy::PrefetchRequest &request,
                          const Status &status) {
  devices_[request.place].asked = false;
  Followed *followed = devices_[request.place].followed();
  if (followed == nullptr) return;
  Followed &own = *followed;
  // It may be over by now, or the plan another one.
  uint64_t number = request.number;
  const policy::PlannedFetch *fetch = own.plan.next_fetch(&number);
  const bool stands = fetch != nullptr && number == request.number &&
                      own.cast[fetch->part].buffer == request.buffer;
  if (!status) {
    const uint32_t client = client_of(page_, request);
    const bool quota = page_.accounts.quota(client, request.place).room() < request.bytes;
    // What fails for another reason than want of room fails again, and what its client has no room for is his affair.
    if (status.code() == WEIR_ERROR_WOULD_BLOCK && !quota)
      own.blocked = true;
    else if (stands)
      own.plan.taken(number, fetch->bytes, 0);
    return;
  }
  if (stands) own.plan.taken(number, std::min(request.bytes, fetch->bytes), request.bytes);
  if (!page_.buffers.hot(request.buffer).lives(request.generation)) return;
  const Region &region = *page_.buffers.target(request.buffer).region;
  const Residence *here = page_.regions.at(region.id).on(request.place);
  if (here == nullptr) return;
  const Stamp ready = here->pages[region.shape.page_at(request.end - 1)].ready;
  const Stamp before = std::exchange(own.last, ready);
  if (before && !env_.streams.passed(before))
    (void)lock.unlocked([&] { return env_.streams.wait(before, env_.config.evict_wait_ns); });
}

}  // namespace weir::move
