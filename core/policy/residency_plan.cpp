// SPDX-License-Identifier: Apache-2.0
//
// The walk over a forecast: uses bring bytes into the virtual memory, what is used farthest leaves it, and both are queued for whoever
// does it in the real one.

#include "core/policy/residency_plan.hpp"

#include "core/base/grow.hpp"

#include <algorithm>
#include <limits>

namespace weir::policy {
namespace {

constexpr uint64_t unknown_distance = 512;  ///< of what nothing is known
constexpr uint64_t least_age = 16;          ///< as which an outlook that has passed is taken
constexpr uint64_t always_ahead = 256;      ///< operations planned however much is queued
constexpr double farthest_counted =
    1e7;  ///< operations; what is beyond is told apart by its cost only
constexpr uint32_t many_misses = 64;
constexpr uint64_t old_plan = 4096;     ///< operations
constexpr uint64_t least_between = 16;  ///< operations from one plan to the next, and ...
constexpr uint64_t share_between =
    16;  ///< ... one more for so many planned: what a plan costs is bounded so

constexpr uint64_t least_overdue_looks =
    64;  ///< operations between two looks at what is overdue, ...
constexpr uint64_t overdue_looks_share = 16;  ///< ... and one more for so many parts

bool is_dead(Fate fate) { return fate == Fate::overwritten || fate == Fate::dies; }

uint64_t permille_of(uint64_t bytes, uint32_t permille) {
  return bytes / 1000 * permille + bytes % 1000 * permille / 1000;
}

}  // namespace

ResidencyPlan::ResidencyPlan(const Cast &cast, const Terms &terms,
                             std::pmr::memory_resource *memory)
    : cast_(cast),
      terms_(terms),
      profile_(terms.horizon, memory),
      victims_(memory),
      fetches_(memory),
      drops_(memory),
      states_(memory) {}

bool ResidencyPlan::wants_rebuild(bool moved) const noexcept {
  if (!ever_built_) return true;
  const uint64_t planned = (built_ ? planned_ : planned_when_cleared_) - built_at_;
  if (now_ < built_at_ + least_between + planned / share_between) return false;
  return !built_ || moved || misses_ >= many_misses || now_ >= built_at_ + old_plan;
}

PlanEnd ResidencyPlan::why_rebuild(bool moved) const noexcept {
  if (moved) return PlanEnd::moved;
  return misses_ >= many_misses ? PlanEnd::missed : PlanEnd::old;
}

void ResidencyPlan::clear() noexcept {
  victims_.clear();
  fetches_.clear();
  drops_.clear();
  for (State &state : states_) state = State{};
  used_ = 0;
  if (built_) planned_when_cleared_ = planned_;
  planned_ = now_;
  built_ = false;
}

void ResidencyPlan::rebuild(uint64_t now, std::span<const Resident> residents) {
  clear();
  advance(now);
  planned_ = planned_when_cleared_ = built_at_ = looked_at_ = now_;
  ever_built_ = true;
  misses_ = 0;
  make_room({});
  for (const Resident &resident : residents) {
    State &its = state(resident.part);
    its.resident = resident.bytes;
    its.content = std::max(resident.content, resident.bytes);
    its.dirty = resident.dirty;
    its.planned_use = its.real_use = resident.last_use;
    its.fate = resident.outlook.fate;
    its.key = resident.last_use + resident.outlook.distance;
    if (its.fate == Fate::unknown || its.key <= now_) {
      const uint64_t age = now_ - std::min(now_, resident.last_use);
      its.key = now_ + std::max(least_age, age);
    }
    used_ += its.resident;
    offer(resident.part);
  }
  built_ = true;
}

/// For all that one operation can add but the evictions, so that nothing in between fails.
void ResidencyPlan::make_room(const ForecastOperation &operation) {
  fetches_.make_room(operation.uses.size());
  victims_.make_room(cast_.size());
  if (cast_.size() <= states_.size()) return;
  grow_to(states_, cast_.size());
  states_.resize(cast_.size());
}

bool ResidencyPlan::far_enough() const noexcept {
  if (planned_ >= now_ + profile_.operations()) return true;
  if (fetches_.count() >= terms_.most_items || drops_.count() >= terms_.most_items) return true;
  const uint64_t most = permille_of(terms_.capacity, terms_.queued_permille);
  return fetches_.open_bytes() > most && planned_ >= now_ + always_ahead;
}

bool ResidencyPlan::step(Forecast &forecast) {
  if (!built_ || far_enough()) return false;
  const ForecastOperation *operation = forecast.next();
  if (operation == nullptr) return false;
  try {
    make_room(*operation);
    walk(*operation);
  } catch (const std::bad_alloc &) {
    clear();
    throw;
  }
  return true;
}

/// What the next operation does to the virtual memory. Parts that the cast does not have are passed over.
void ResidencyPlan::walk(const ForecastOperation &operation) {
  const uint64_t at = ++planned_;
  const auto has = [&](uint32_t part) { return part < cast_.size(); };
  for (const uint32_t part : operation.births)
    if (has(part)) state(part);
  for (const ForecastUse &one : operation.uses)
    if (has(one.part)) use(one, at);
  forget_overdue(at);
  shrink(at);
  if (at > now_) profile_.set(at, static_cast<int64_t>(used_));
  for (const ForecastUse &one : operation.uses)
    if (has(one.part)) offer(one.part);
  for (const uint32_t part : operation.deaths) {
    if (!has(part)) continue;
    State &its = state(part);
    leave(part);
    its.over = true;
  }
}

/// Of the one who has the part now: what another had is forgotten.
ResidencyPlan::State &ResidencyPlan::state(uint32_t part) noexcept {
  State &its = states_[part];
  if (!its.there || its.life != cast_[part].life) {
    leave(part);
    its = State{};
    its.there = true;
    its.life = cast_[part].life;
  }
  return its;
}

const ResidencyPlan::State *ResidencyPlan::state_of(uint32_t part, uint32_t life) const noexcept {
  if (part >= states_.size() || !states_[part].there || states_[part].life != life) return nullptr;
  return &states_[part];
}

/// Its bytes leave the virtual memory for good.
void ResidencyPlan::leave(uint32_t part) noexcept {
  victims_.remove(part);
  used_ -= states_[part].resident;
  states_[part].resident = 0;
}

/// It may be evicted, from the next operation on.
void ResidencyPlan::offer(uint32_t part) noexcept {
  const State &its = states_[part];
  if (its.resident == 0) return;
  const Cost cost = is_dead(its.fate) ? Cost::dead : its.dirty ? Cost::dirty : Cost::clean;
  victims_.put({its.key, part, cast_[part].priority}, cost);
}

void ResidencyPlan::use(const ForecastUse &use, uint64_t operation) noexcept {
  State &its = state(use.part);
  if (its.over) return;
  victims_.remove(use.part);
  if (its.planned_use != operation || its.claimed == 0) its.claimed = 0;
  its.planned_use = operation;
  // Bytes that have content must be there, those behind them are new.
  const uint64_t old = std::min(use.end, its.content) - std::min(use.begin, its.content);
  const uint64_t fresh = use.end - use.begin - old;
  its.claimed += old;
  if (its.claimed > its.resident) {
    const uint64_t missing = its.claimed - its.resident;
    if (use.needs) want(use, operation, missing);
    its.resident += missing;
    used_ += missing;
  }
  its.resident += fresh;
  its.claimed += fresh;
  used_ += fresh;
  its.content = std::max(its.content, use.end);
  its.dirty = its.dirty || use.writes;
  its.fate = use.after.fate;
  its.key = operation + (use.after.fate == Fate::unknown ? unknown_distance : use.after.distance);
}

/// Queues what an operation needs and has not.
void ResidencyPlan::want(const ForecastUse &use, uint64_t operation, uint64_t missing) noexcept {
  if (operation <= now_) return;  // it has begun: nothing is in time for it
  const State &its = states_[use.part];
  PlannedFetch *last = fetches_.last();
  if (last != nullptr && last->due == operation && last->part == use.part && last->bytes != 0) {
    last->begin = std::min(last->begin, use.begin);
    last->end = std::max(last->end, use.end);
    fetches_.grow(last, missing);
    return;
  }
  fetches_.append({use.part, its.life, operation, use.begin, use.end, missing, its.drops_planned});
}

/// What was to be used and has not been is not wanted soonest of all. It is as far away again as it is late.
void ResidencyPlan::forget_overdue(uint64_t operation) noexcept {
  if (operation < looked_at_ + std::max(least_overdue_looks, states_.size() / overdue_looks_share))
    return;
  looked_at_ = operation;
  for (uint32_t part = 0; part < states_.size(); ++part) {
    State &its = states_[part];
    if (its.resident == 0 || its.key >= operation || its.planned_use == operation) continue;
    const uint64_t distance = its.key - std::min(its.key, its.planned_use);
    const uint64_t late = operation - its.key;
    if (late <= patience(distance)) continue;
    its.fate = Fate::unknown;
    its.key = operation + std::max(least_age, late);
    offer(part);
  }
}

/// Until the virtual memory is within its bounds.
void ResidencyPlan::shrink(uint64_t operation) {
  const uint64_t most = terms_.capacity - permille_of(terms_.capacity, terms_.free_permille);
  while (used_ > most) {
    const uint32_t part = choose(operation);
    if (part == Victims::none) return;
    const uint64_t pages = (used_ - most + terms_.page_bytes - 1) / terms_.page_bytes;
    evict(part, std::min(states_[part].resident, pages * terms_.page_bytes), operation);
  }
}

/// The part to evict: of the lowest priority there is; of those, the one used farthest in the future for what its eviction costs.
uint32_t ResidencyPlan::choose(uint64_t operation) const noexcept {
  Victims::Entry best;
  double best_score = 0;
  for (uint32_t i = 0; i < costs; ++i) {
    const auto kind = static_cast<Cost>(i);
    const Victims::Entry first = victims_.first(kind);
    if (first.part == Victims::none) continue;
    const bool any = best.part != Victims::none;
    if (any && first.priority > best.priority) continue;
    const double away = first.key > operation ? static_cast<double>(first.key - operation) : 1;
    const bool is_free = kind == Cost::dead && !states_[first.part].dirty;
    const double score =
        std::min(away, farthest_counted) / (is_free ? Prices::clean_dead : Prices::of_classes[i]);
    if (any && first.priority == best.priority && score <= best_score) continue;
    best = first;
    best_score = score;
  }
  return best.part;
}

void ResidencyPlan::evict(uint32_t part, uint64_t bytes, uint64_t operation) {
  drops_.make_room(1);
  State &its = states_[part];
  drops_.add({part, its.life, bytes, its.planned_use, operation});
  ++its.drops_planned;
  its.resident -= bytes;
  used_ -= bytes;
  if (its.resident == 0) {
    victims_.remove(part);
    its.dirty = false;
  }
  const uint64_t from = std::max(its.planned_use, now_) + 1;
  profile_.add(from, std::max(from, operation), -static_cast<int64_t>(bytes));
}

void ResidencyPlan::advance(uint64_t now) noexcept {
  if (now <= now_) return;
  now_ = now;
  while (const PlannedFetch *late = fetches_.expire(now))
    if (state_of(late->part, late->life) != nullptr) states_[late->part].late = late->due;
}

void ResidencyPlan::missed(uint32_t part) noexcept {
  const State *its = part < cast_.size() ? state_of(part, cast_[part].life) : nullptr;
  if (its == nullptr || its->late != now_) ++misses_;
}

void ResidencyPlan::used(uint32_t part) noexcept {
  if (part < cast_.size() && state_of(part, cast_[part].life) != nullptr)
    states_[part].real_use = now_;
}

void ResidencyPlan::born(uint32_t part) noexcept {
  if (part >= cast_.size() || state_of(part, cast_[part].life) == nullptr) return;
  State &its = states_[part];
  its.content = std::min(its.content, cast_[part].bytes);
  if (its.resident <= cast_[part].bytes) return;
  used_ -= its.resident - cast_[part].bytes;
  its.resident = cast_[part].bytes;
  if (its.resident == 0) victims_.remove(part);
}

void ResidencyPlan::died(uint32_t part) noexcept {
  if (part >= states_.size()) return;
  leave(part);
  states_[part] = State{};
}

const PlannedFetch *ResidencyPlan::next_fetch(uint64_t *number) const noexcept {
  for (;; ++*number) {
    const PlannedFetch *fetch = fetches_.next(number);
    if (fetch == nullptr || state_of(fetch->part, fetch->life) != nullptr) return fetch;
  }
}

bool ResidencyPlan::waits(const PlannedFetch &fetch) const noexcept {
  const State *its = state_of(fetch.part, fetch.life);
  return its != nullptr && its->drops_begun < fetch.drops_before;
}

bool ResidencyPlan::may_fetch(uint64_t number, uint64_t bytes) const noexcept {
  if (bytes > terms_.capacity) return false;
  return profile_.largest(now_ + 1, fetches_[number].due) <=
         static_cast<int64_t>(terms_.capacity - bytes);
}

void ResidencyPlan::taken(uint64_t number, uint64_t bytes, uint64_t memory) noexcept {
  profile_.add(now_ + 1, fetches_[number].due, static_cast<int64_t>(memory));
  fetches_.take(number, bytes);
}

/// The first whose last use has begun.
const PlannedDrop *ResidencyPlan::due_drop() const noexcept {
  const PlannedDrop *first = drops_.first();
  return first != nullptr && first->after <= now_ ? first : nullptr;
}

/// Takes the first; nullopt: it is not to be any more.
std::optional<PlannedDrop> ResidencyPlan::take_drop() noexcept {
  const PlannedDrop drop = *drops_.first();
  drops_.remove_first();
  if (state_of(drop.part, drop.life) == nullptr) return std::nullopt;
  State &its = states_[drop.part];
  ++its.drops_begun;
  if (!cast_.lives(drop.part, drop.life) || cast_[drop.part].buffer == Cast::none)
    return std::nullopt;
  return its.real_use <= drop.after + drop_grace ? std::optional(drop) : std::nullopt;
}

uint64_t ResidencyPlan::bytes() const noexcept {
  return profile_.bytes() + victims_.bytes() + fetches_.bytes() + drops_.bytes() +
         states_.capacity() * sizeof(State);
}

}  // namespace weir::policy
