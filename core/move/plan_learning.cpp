// SPDX-License-Identifier: Apache-2.0
//
// What streams do, told to the forecasts that learn from it. On the planner's thread, or that of an acquire that is short of room.

#include "core/move/plan_executor.hpp"

#include <algorithm>

namespace weir::move {

void PlanExecutor::observe(const lease::ObservedOperation &operation) {
  const StreamState *state = lease_.states.find(operation.stream.slot);
  PoolDevice *device = state != nullptr ? device_of(page_, *state) : nullptr;
  if (device == nullptr) return;
  observed_ = device->place;
  if (Learned *own = learner_of(device->place)) learn(*own, operation);
}

void PlanExecutor::learn(Learned &own, const lease::ObservedOperation &operation) {
  const policy::Lives &lives = own.forecast.log().lives();
  own.uses.clear();
  for (const lease::ObservedUse &use : operation.uses) {
    // What is not followed keeps its place among the uses.
    const uint32_t life = lives.of(use.buffer);
    const bool known = life != policy::Lives::none && lives[life].generation == use.generation;
    const uint64_t bytes = known ? lives[life].bytes : 0;
    const bool whole = use.begin == 0 && use.end >= bytes;
    uint8_t mode = use.mode == WEIR_READ ? 0 : policy::use_writes;
    if (use.mode == WEIR_DISCARD_WRITE && whole)
      mode |= policy::use_whole;
    else
      mode |= policy::use_needs;
    // Of another buffer that had the number nothing is to be learned.
    constexpr uint32_t nobody = UINT32_MAX;
    own.uses.push_back({known ? use.buffer : nobody, mode, use.begin, std::min(use.end, bytes)});
  }
  own.forecast.observe({operation.name, operation.stream.slot, own.uses});
  own.now = own.forecast.now();
  own.tell_trust(env_.events, observed_);
  env_.events.tell(What::learned);
  if (own.covers_now()) env_.events.tell(What::foreseen);
  for (const uint32_t part : own.forecast.born_parts()) own.plan.born(part);
  own.plan.advance(own.now);
  own.last_use.resize(std::max<size_t>(own.last_use.size(), own.cast.size()));
  for (const policy::ObservedUse &use : own.uses) {
    const uint32_t part = own.cast.of(use.buffer);
    if (part == policy::Cast::none) continue;
    own.plan.used(part);
    own.last_use[part] = own.now;
  }
  own.blocked = false;
}

void PlanExecutor::describe(const Region &region, uint8_t place,
                            policy::PageInfo *info) const noexcept {
  if (place >= devices_.size() || region.owner.buffer == page::BufferTable::none) return;
  const Learned *own = devices_[place].learned.get();
  if (own == nullptr || !own->forecast.trusted() || stands_back_ ||
      planned(place) == Planned::of_announced)
    return;
  const uint32_t part = own->cast.of(region.owner.buffer);
  if (part == policy::Cast::none || part >= own->last_use.size()) return;
  if (!page_.buffers.hot(region.owner.buffer).lives(own->cast[part].generation)) return;
  const policy::Outlook outlook = own->forecast.outlook(part);
  if (outlook.fate == policy::Fate::unknown) return;
  const uint64_t at = own->last_use[part] + outlook.distance;
  info->foreseen = at - std::min(at, own->now);
  info->done = outlook.fate != policy::Fate::needed;
}

void PlanExecutor::born(uint32_t buffer, uint64_t generation, uint64_t bytes) {
  // Of one that has died since, nobody knows where it was: where something was observed last.
  const bool lives = page_.buffers.hot(buffer).lives(generation);
  const uint8_t home = lives ? page_.buffers.target(buffer).region->home : observed_;
  Learned *own = learner_of(home);
  if (own == nullptr) {
    unobserved_.birth = true;
    return;
  }
  // Told already: tell_living(), compare_living().
  if (own->forecast.log().lives().names(buffer, generation)) return;
  own->forecast.born(buffer, generation, bytes, policy::LearnedForecast::no_stream);
}

// A stream finds its place again, and what is not known of is not planned for.
void PlanExecutor::missed(const lease::ObservedStream &, uint64_t records) {
  env_.events.tell(What::unlearned, records);
}

void PlanExecutor::missed_lives(uint64_t records) {
  env_.events.tell(What::unlearned, records);
  unobserved_.lives = true;
}

void PlanExecutor::died(uint32_t buffer, uint64_t) {
  for (const DevicePlans &plans : devices_) {
    if (plans.learned == nullptr) continue;
    const uint32_t part = plans.learned->cast.of(buffer);
    if (part != policy::Cast::none) plans.learned->plan.died(part);
    plans.learned->forecast.died(buffer);
  }
}

}  // namespace weir::move
