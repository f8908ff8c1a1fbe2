// SPDX-License-Identifier: Apache-2.0
//
// Plans made, followed and ended; what they have done with is given up and cleaned.

#include "core/move/plan_executor.hpp"

#include "core/move/evictor.hpp"

#include <algorithm>

namespace weir::move {
namespace {

/// A plan is made when so many operations are announced ahead: it is worth nothing for a few.
constexpr uint64_t worth_planning = 128;
/// Planned at each step of the task, or call of catch_up(), in which the lock is held.
constexpr int most_walked = 16;
/// Operations between two looks at what others than the plan's parts take.
constexpr uint64_t measured_every = 128;
/// Cleaned at once: enough to fill a link, little to wait for.
constexpr uint64_t most_cleaned = uint64_t{4} << 20U;

/// Bytes that the region has on a device, and whether some of them are nowhere else.
struct Share {
  uint64_t there = 0, content = 0;
  bool dirty = false;
};
Share share_of(const Region &region, const Residence *here, uint32_t bit) noexcept {
  Share share;
  for (uint32_t p = 0; p < region.pages.size(); ++p) {
    const uint64_t bytes = region.shape.charged_bytes(p);
    const uint32_t latest = region.pages[p].latest();
    if (latest != 0) share.content += bytes;
    if (here == nullptr || here->pages[p].state() == PageState::absent) continue;
    share.there += bytes;
    share.dirty = share.dirty || latest == bit;
  }
  return share;
}

/// What is there for others than the plan's parts takes from what it may use: slabs and held memory come and go.
void measure(const PageLayer &layer, PoolDevice &device, Followed &own) noexcept WEIR_HELD {
  uint64_t others = 0;
  for (Region &region : page::Walk(layer.places, device.pages_there(), layer.regions)) {
    if (region.is.kept || region.vacant()) continue;
    const uint32_t buffer = region.owner.buffer;
    const bool planned = region.shards == nullptr && region.holds.count == 0;
    if (planned && buffer != page::BufferTable::none && own.cast.of(buffer) != policy::Cast::none)
      continue;
    // Pages without content are an earlier buffer's, kept for this one: as good as free until then.
    const Residence &here = *region.on(device.place);
    for (uint32_t p = 0; p < here.pages.size(); ++p)
      if (here.pages[p].state() != PageState::absent && region.pages[p].latest() != 0)
        others += region.shape.charged_bytes(p);
  }
  own.others = std::max(others, own.others - own.others / 8);  // it may grow again as it did
  const uint64_t budget = device.memory.budget();
  own.plan.set_capacity(budget - std::min(budget, own.others));
  own.measured = own.now;
}

/// What the plan has done with by now: the first pages of it that are there.
void give_up(const PageLayer &layer, const Evictor &evictor, PoolDevice &device,
             const Followed &own, const policy::PlannedDrop &drop) WEIR_HELD {
  const policy::Cast::Part &part = own.cast[drop.part];
  if (!layer.buffers.hot(part.buffer).lives(part.generation)) return;
  Region &region = *layer.buffers.target(part.buffer).region;
  const Residence *here = region.is.slab ? nullptr : region.on(device.place);
  // What is held stays whatever is planned, and so does what has got a higher priority since.
  if (here == nullptr || region.holds.count != 0 || region.shards != nullptr ||
      region.priority > part.priority)
    return;
  policy::GivenUp &given_up = *device.policy->given_up();
  const uint64_t used =
      std::max(region.past.last_use, layer.buffers.hot(part.buffer).last_use().point());
  if (used != given_up.listed_at(region.id)) given_up.take_back(region.id);  // that stayed
  uint64_t left = drop.bytes;
  for (uint32_t p = 0; p < here->pages.size() && left != 0; ++p) {
    const PageRef ref{region.id, p, layer.regions.generation(region)};
    if (here->pages[p].state() != PageState::resident || given_up.holds(ref)) continue;
    const uint64_t bytes = region.shape.charged_bytes(p);
    // One that is dirty and never cleaned goes with a copy when its turn comes.
    given_up.give_up(ref, used, bytes, evictor.is_dirty(device, ref));
    left -= std::min(left, bytes);
  }
}

}  // namespace

// ---- what it is told ----

void PlanExecutor::note_announced(const StreamState &state, uint64_t count,
                                  bool replaced) noexcept {
  wake();
  PoolDevice *device = device_of(page_, state);
  if (device == nullptr) return;
  if (Announced *own =
          device->place < devices_.size() ? devices_[device->place].announced.get() : nullptr;
      replaced && own != nullptr && own->on)
    end(*device, *own, PlanEnd::announced);  // its dates count operations that are not to be
  if_memory([&]() WEIR_HELD {
    DevicePlans &plans = plans_of(devices_, *device);
    if (plans.announced == nullptr)
      plans.announced =
          make_owned<Announced>(env_.memory, plan_terms_of(*device), announcements_, env_.memory);
    plans.announced->cast.ask(priorities_);
    plans.announced->forecast.follow(state.stream->slot);
    plans.announced->forecast.note_announced(count);
  });
}

void PlanExecutor::note_acquire(const StreamState &state, bool announced,
                                const Plan *set) noexcept {
  wake();
  const PoolDevice *device = device_of(page_, state);
  if (device == nullptr || device->place >= devices_.size()) return;
  DevicePlans &plans = devices_[device->place];
  if (announced && plans.announced != nullptr) {
    plans.announced->forecast.note_acquire(state.stream->slot);
    ++plans.announced->now;
    if (plans.announced->covers_now()) env_.events.tell(What::foreseen);
    plans.announced->plan.advance(plans.announced->now);
  }
  Followed *own = plans.followed();
  if (own == nullptr) return;
  own->blocked = false;
  if (set == nullptr) return;
  const Region *last = nullptr;
  for (const PlanPage &page : set->pages) {
    if (page.source.bit == 0 || page.region == last) continue;
    last = page.region;
    const uint32_t part = own->cast.of(page.region->owner.buffer);
    if (part != policy::Cast::none) own->plan.missed(part);
  }
}

bool PlanExecutor::may_be_late(const StreamState &state) const noexcept {
  const PoolDevice *device = device_of(page_, state);
  if (device == nullptr || device->place >= devices_.size()) return true;
  const DevicePlans &plans = devices_[device->place];
  if (plans.announced != nullptr && plans.announced->forecast.streams() > 1) return false;
  const Followed *own = plans.followed();
  return own == nullptr || own->plan.idle();
}

void PlanExecutor::forget_stream(const StreamState &state) noexcept {
  for (const DevicePlans &plans : devices_)
    if (plans.announced != nullptr) plans.announced->forecast.forget(state.stream->slot);
}

void PlanExecutor::note_priority(const Region &region) noexcept {
  const auto note = [&region](policy::Cast &cast) {
    const uint32_t part = cast.of(region.owner.buffer);
    if (part != policy::Cast::none) cast.set_priority(part, region.priority);
  };
  for (const DevicePlans &plans : devices_) {
    if (plans.announced != nullptr) note(plans.announced->cast);
    if (plans.learned != nullptr) note(plans.learned->cast);
  }
}

void PlanExecutor::forget_region(const Region &region) noexcept {
  for (const auto &residence : region.residences)
    if (policy::GivenUp *given_up = page_.devices[residence->place]->policy->given_up())
      given_up->take_back(region.id);
  if (region.owner.buffer == page::BufferTable::none) return;
  for (const DevicePlans &plans : devices_) {
    Announced *own = plans.announced.get();
    const uint32_t part = own != nullptr ? own->cast.of(region.owner.buffer) : policy::Cast::none;
    if (part == policy::Cast::none) continue;
    own->plan.died(part);
    own->cast.end(part);
  }
}

// ---- plans ----

template <class OutlookOf>
void PlanExecutor::make(PoolDevice &device, Followed &own, PlanEnd why, OutlookOf &&outlook) {
  own.end(env_.events, device, why);
  const uint64_t start = env_.now_ns();
  std::pmr::vector<policy::ResidencyPlan::Resident> residents(env_.memory);
  const auto sets = device.pages_there() | page::PlaceIndex::at(Place::host) |
                    page::PlaceIndex::at(Place::compressed) | page::PlaceIndex::at(Place::storage);
  for (Region &region : page::Walk(page_.places, sets, page_.regions)) {
    const uint32_t buffer = region.owner.buffer;
    if (region.is.kept || region.is.slab || buffer == page::BufferTable::none ||
        region.shards != nullptr || region.holds.count != 0)
      continue;
    uint64_t last_use = own.now;
    policy::Outlook after;
    const uint32_t part = outlook(region, &after, &last_use);
    if (part == policy::Cast::none) continue;
    const Share share = share_of(region, region.on(device.place), device.bit());
    residents.push_back({part, share.there, share.content, share.dirty, after, last_use});
  }
  device.policy->given_up()->clear();
  measure(page_, device, own);
  own.plan.rebuild(own.now, residents);
  own.begin(env_.events, device);
  own.walked(start, env_.now_ns());
}

void PlanExecutor::begin(PoolDevice &device, Announced &own, PlanEnd why) {
  own.forecast.rewind();
  make(device, own, why, [&](const Region &region, policy::Outlook *after, uint64_t *) WEIR_HELD {
    const uint32_t buffer = region.owner.buffer;
    const uint64_t generation = page_.buffers.hot(buffer).generation();
    *after = own.forecast.outlook_of(region.id);
    uint32_t part = own.cast.of(buffer);
    if (part != policy::Cast::none && own.cast[part].generation != generation) {
      own.cast.end(part);
      part = policy::Cast::none;
    }
    if (part == policy::Cast::none && after->fate != policy::Fate::unknown)
      part = own.cast.born(buffer, generation, page_.buffers.hot(buffer).size());
    return part;
  });
}

void PlanExecutor::begin(PoolDevice &device, Learned &own, PlanEnd why) {
  own.forecast.rewind();
  make(device, own, why,
       [&](const Region &region, policy::Outlook *after, uint64_t *last) WEIR_HELD {
         const uint32_t part = own.cast.of(region.owner.buffer);
         if (part == policy::Cast::none) return part;
         *after = own.forecast.outlook(part);
         if (part < own.last_use.size()) *last = own.last_use[part];
         return part;
       });
}

void PlanExecutor::end(PoolDevice &device, Followed &own, PlanEnd why) noexcept {
  own.end(env_.events, device, why);
  own.plan.clear();
  device.policy->given_up()->clear();
  // What leaves and what comes is the policy's affair again.
  env_.sync.wakes.evictor.notify_all();
  env_.sync.wakes.prefetcher.notify_all();
}

void PlanExecutor::end_all(PlanEnd why) noexcept {
  for (size_t place = 0; place < devices_.size(); ++place)
    while (Followed *own = devices_[place].followed()) end(*page_.devices[place], *own, why);
  note_followed();
}

bool PlanExecutor::walk(PoolDevice &device, Followed &own, policy::Forecast *forecast) {
  bool worked = false;
  for (int i = 0; forecast != nullptr && i < most_walked && own.plan.step(*forecast); ++i)
    worked = true;
  const auto is_leased = [&](uint32_t part) {
    const uint32_t buffer = own.cast[part].buffer;
    if (buffer == policy::Cast::none) return false;
    const uint64_t word = page_.buffers.hot(buffer).word.load(std::memory_order_relaxed);
    return page::Word::leases(word) != 0 || (word & page::Word::partial) != 0;
  };
  for (; const auto drop = own.plan.next_drop(is_leased); worked = true)
    give_up(page_, evictor_, device, own, *drop);
  if (!worked) return false;
  own.blocked = false;
  // Some of what is given up may have been in use until now.
  if (device.policy->given_up()->any_dirty()) env_.sync.wakes.cleaner.notify_all();
  return true;
}

bool PlanExecutor::go_on(PoolDevice &device, Followed &own, policy::Forecast &forecast) {
  if (own.now >= own.measured + measured_every && own.may_walk(env_.now_ns())) {
    const uint64_t start = env_.now_ns();
    measure(page_, device, own);
    own.walked(start, env_.now_ns());
  }
  if (!walk(device, own, &forecast)) return false;
  if (device.memory.room() < device.memory.low_water()) env_.sync.wakes.evictor.notify_all();
  return true;
}

/// Makes a plan where there is none, or goes on with the one there is. What is announced is better known than what was learned.
bool PlanExecutor::follow(PoolDevice &device, DevicePlans &plans) {
  if (Announced *own = plans.announced.get(); own != nullptr) {
    own->forecast.forget_if([this](uint32_t slot) {
      const StreamState *state = lease_.states.find(slot);
      return state == nullptr || !state->stream->alive() ||
             state->stream_generation.load(std::memory_order_relaxed) != state->stream->generation;
    });
    if (own->on && own->forecast.announced() == 0) end(device, *own, PlanEnd::announced);
    const PlanEnd why = own->why_anew(device, own->forecast.outdated());
    const bool wanted = own->wants_anew(device, own->forecast.outdated()) &&
                        own->may_walk(env_.now_ns()) &&
                        (own->on || own->forecast.announced() >= worth_planning);
    if (wanted) begin(device, *own, why);
    if (own->on) {
      if (plans.learned != nullptr) plans.learned->end(env_.events, device, PlanEnd::announced);
      return go_on(device, *own, own->forecast);
    }
  }
  Learned *own = plans.learned.get();
  if (own == nullptr) return false;
  if (own->on && !own->trust->holds()) end(device, *own, PlanEnd::untrusted);
  const bool moved = own->forecast.moved() || own->forecast.resized();
  if (own->wants_anew(device, moved)) {
    const PlanEnd why = own->why_anew(device, moved);
    if (own->forecast.trusted()) {
      if (own->may_walk(env_.now_ns())) begin(device, *own, why);
    } else if (own->on)
      end(device, *own, why);  // where the program is now nobody knows
  }
  return own->on && go_on(device, *own, own->forecast);
}

bool PlanExecutor::work(Releasable &lock) {
  const size_t learned = drain(lock);
  bool worked = learned != 0;
  // What waits to be learned tells of buffers that a comparison would take for lost.
  if (learned < most_learned && compare_lives()) worked = true;
  for (size_t place = 0; place < devices_.size() && !env_.sync.lock.stopping(); ++place) {
    DevicePlans &plans = devices_[place];
    PoolDevice &device = *page_.devices[place];
    if (!device.open() || !device.vmm()) {
      if (Followed *own = plans.followed()) end(device, *own, PlanEnd::device);
      continue;
    }
    try {
      worked = follow(device, plans) || worked;
      // It may have planned something: from now on it goes by each operation.
      if (const Followed *own = plans.followed(); own != nullptr && !own->plan.idle())
        alarms_.fetch_add(1, std::memory_order_relaxed);
    } catch (const std::bad_alloc &) {
      if (plans.announced != nullptr) end(device, *plans.announced, PlanEnd::memory);
      if (plans.learned != nullptr) end(device, *plans.learned, PlanEnd::memory);
    }
  }
  note_followed();
  if (env_.sync.wakes.prefetcher.awaited()) {
    policy::PrefetchRequest wanted;
    if (next(&wanted)) {
      devices_[wanted.place].asked = false;  // who is woken asks for it
      env_.sync.wakes.prefetcher.notify_all();
    }
  }
  return worked;
}

bool PlanExecutor::clean(Releasable &lock, PoolDevice &device) {
  policy::GivenUp &given_up = *device.policy->given_up();
  std::pmr::vector<PageRef> pages(env_.memory);
  if (!given_up.next_to_clean(most_cleaned, *device.view, &pages)) return false;
  const uint64_t cleaned = evictor_.clean(lock, device, pages);
  given_up.settle(pages, *device.view);
  if (cleaned == 0) return false;
  // By now it may be another plan, or none.
  if (Followed *plan = devices_[device.place].followed()) plan->blocked = false;
  env_.sync.wakes.prefetcher.notify_all();
  if (device.memory.room() < device.memory.low_water()) env_.sync.wakes.evictor.notify_all();
  return true;
}

/// What still has work to wait for is looked at again.
uint64_t PlanExecutor::Cleaner::rest_ns() noexcept {
  constexpr uint64_t look_again = 1'000'000;
  for (const auto &device : own_.page_.devices) {
    const policy::GivenUp *given_up = device->policy->given_up();
    if (given_up != nullptr && given_up->any_dirty() &&
        own_.planned(device->place) != Planned::by_none)
      return own_.rest_ns_ > usual_rest_ns ? std::max(look_again, own_.rest_ns_) : look_again;
  }
  return UINT64_MAX;
}

bool PlanExecutor::Cleaner::step(Releasable &lock) {
  bool worked = false;
  for (size_t place = 0; place < own_.devices_.size() && !own_.env_.sync.lock.stopping(); ++place) {
    PoolDevice &device = *own_.page_.devices[place];
    if (own_.devices_[place].followed() != nullptr && device.open())
      worked = own_.clean(lock, device) || worked;
  }
  return worked;
}

}  // namespace weir::move
