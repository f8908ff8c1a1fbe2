// SPDX-License-Identifier: Apache-2.0
//
// Who learns, in how much memory, and in how much time: the learners of a pool's devices share the memory that the pool was made with, and the
// planner's thread keeps within its share of a CPU.

#include "core/move/plan_executor.hpp"

#include <algorithm>
#include <utility>

namespace weir::move {
namespace {

/// Where there was no memory for a learner, none is made for so long.
constexpr uint64_t without_memory_ns = 1'000'000'000;

}  // namespace

// ---- learners ----

Learned *PlanExecutor::learner_of(uint8_t place) noexcept {
  return place < devices_.size() ? devices_[place].learned.get() : nullptr;
}

/// Each has the same part of the memory. Where a device comes that there is none left for, all begin anew with smaller ones: what they knew is
/// forgotten. The part of one that has left waits for the next that comes.
void PlanExecutor::have_learners(Releasable &lock) {
  const size_t count =
      page_.devices.size();  // more may come while the lock is dropped: for the next call
  size_t wanted = 0;
  bool missing = false;
  for (size_t place = 0; place < count; ++place) {
    PoolDevice &device = *page_.devices[place];
    const bool learns = learner_of(device.place) != nullptr;
    if (may_have_plans(device)) {
      ++wanted;
      missing = missing || !learns;
    } else if (learns) {
      drop_learner(lock, device);
    }
  }
  missing = missing || wanted > sharers_;
  if (!missing || env_.now_ns() < no_learner_until_) return;
  const bool late = sharers_ != 0 || unobserved_.birth;
  if (wanted > sharers_) {
    for (size_t place = 0; place < devices_.size(); ++place)
      drop_learner(lock, *page_.devices[place]);
    sharers_ = wanted;
  }
  for (size_t place = 0; place < count; ++place) {
    PoolDevice &device = *page_.devices[place];
    if (may_have_plans(device) && learner_of(device.place) == nullptr)
      make_learner(lock, device, late);
  }
}

/// Much memory goes back at once: without the lock.
void PlanExecutor::drop_learner(Releasable &lock, PoolDevice &device) noexcept {
  Learned *old = learner_of(device.place);
  if (old == nullptr) return;
  if (old->on) end(device, *old, PlanEnd::device);
  auto gone = std::move(devices_[device.place].learned);
  lock.unlocked([&gone] { gone.reset(); });
}

/// `late`: the log has told of buffers that live and that it does not know yet.
void PlanExecutor::make_learner(Releasable &lock, PoolDevice &device, bool late) {
  const policy::LearnedForecast::Terms learning =
      learning_terms_of(device, env_.config.learning.memory, sharers_);
  const policy::ResidencyPlan::Terms terms = plan_terms_of(device);
  Owned<Learned> fresh;
  bool made = false;
  lock.unlocked([&] {  // it is much memory
    made =
        if_memory([&] { fresh = make_owned<Learned>(env_.memory, terms, learning, env_.memory); });
    env_.sync.points.at("learner.made");
  });
  if (made) fresh->cast.ask(priorities_);
  if (!made || !if_memory([&]() WEIR_HELD { (void)plans_of(devices_, device); })) {
    no_learner_until_ = env_.now_ns() + without_memory_ns;
    return;
  }
  // Meanwhile one may have been loaded, the device may have left, or another one may have come.
  const bool wanted =
      learner_of(device.place) == nullptr && may_have_plans(device) &&
      learning_terms_of(device, env_.config.learning.memory, sharers_).budget == learning.budget;
  if (!wanted) {
    lock.unlocked([&fresh] { fresh.reset(); });
    return;
  }
  if (late) tell_living(page_, lease_, device, *fresh);
  fresh->number = ++learners_;
  devices_[device.place].learned = std::move(fresh);
}

bool PlanExecutor::compare_lives() noexcept {
  if (!comparison_.on) {
    if (!std::exchange(unobserved_.lives, false)) return false;
    comparison_ = {};
    comparison_.on = true;
  }
  for (; comparison_.place < devices_.size(); ++comparison_.place, comparison_.done = {}) {
    const auto place = static_cast<uint8_t>(comparison_.place);
    Learned *own = learner_of(place);
    if (own != nullptr &&
        compare_living(page_, lease_, *page_.devices[place], *own, &comparison_.done))
      return true;
  }
  comparison_.on = false;
  return true;
}

// ---- the share ----

size_t PlanExecutor::learn_some(bool *whole) {
  size_t learned = 0;
  *whole = if_memory([&]() WEIR_HELD { learned = lease_.log.drain(*this, learned_at_once); });
  return learned;
}

bool PlanExecutor::catch_up(Releasable &lock) {
  const auto follows = [](const DevicePlans &plans) { return plans.followed() != nullptr; };
  if (stands_back_ || std::ranges::none_of(devices_, follows) || share_.used_up()) return false;
  const CpuShare::Visit visit(share_);
  // Only the planner's thread makes learners: what a device without one does would be lost.
  const auto learns = [this](const auto &device) WEIR_HELD {
    return !may_have_plans(*device) || learner_of(device->place) != nullptr;
  };
  bool dropped = false;
  for (size_t learned = 0; learned < most_learned && !env_.sync.lock.stopping();) {
    if (lease_.log.empty() || !std::ranges::all_of(page_.devices, learns)) break;
    bool whole = true;
    const size_t some = learn_some(&whole);
    if (!whole || some < learned_at_once) break;
    learned += some;
    lock.unlocked([&] { env_.sync.points.at("plans.behind"); });
    dropped = true;
  }
  for (size_t place = 0; place < devices_.size(); ++place) {
    DevicePlans &plans = devices_[place];
    Followed *own = plans.followed();
    PoolDevice &device = *page_.devices[place];
    if (own == nullptr || !device.open()) continue;
    if (own->trust != nullptr && !own->trust->holds()) continue;  // the planner's thread ends it
    // Who has ended announces nothing more, and only follow() looks.
    policy::Forecast *next = own == plans.learned.get() ? &plans.learned->forecast : nullptr;
    if (!if_memory([&]() WEIR_HELD { (void)walk(device, *own, next); }))
      end(device, *own, PlanEnd::memory);
  }
  note_followed();
  return dropped;
}

size_t PlanExecutor::drain(Releasable &lock) {
  if (!lease_.log.on()) return 0;
  const uint64_t asked = catch_ups_.asked();
  bool whole = true;
  // What comes after this look waits for the next one, which makes learners for it: without one it would be drained and lost.
  const bool any = !lease_.log.empty();
  if (any) have_learners(lock);
  lock.unlocked([&] { env_.sync.points.at("log.looked"); });
  size_t learned = 0;
  for (bool more = any; more && learned < most_learned && !env_.sync.lock.stopping();) {
    const size_t some = learn_some(&whole);
    learned += some;
    more = whole && some >= learned_at_once;
    if (more) lock.unlocked([] {});  // a caller may take it in between
  }
  if (whole && learned < most_learned) catch_ups_.answer(asked);
  if (learned != 0 || !whole)
    rest_ns_ = least_rest_ns;
  else if (rest_ns_ < usual_rest_ns)
    rest_ns_ = std::min(2 * rest_ns_, usual_rest_ns);
  else  // the longer nothing has come the rarer it looks; what misses wakes it (wake())
    rest_ns_ = std::min(rest_ns_ + rest_ns_ / 8, most_rest_ns);
  return learned;
}

/// All that learns and plans is done here, but for what an acquire that is short of room does itself (catch_up()); what carries plans out (the cleaner, the prefetcher) waits for links, and takes little.
bool PlanExecutor::step(Releasable &lock) {
  if (share_.used_up()) {
    stand_back();
    catch_ups_.answer(catch_ups_.asked());
    return false;
  }
  // What came meanwhile is old, and would be learned at the cost of what comes now.
  if (std::exchange(stands_back_, false)) lease_.log.skip_uses();
  if (share_.rests()) return false;
  const CpuShare::Piece piece(share_);
  return work(lock);
}

uint64_t PlanExecutor::rest_ns() noexcept {
  if (stands_back_) return share_.wait_ns();
  if (!lease_.log.on()) return UINT64_MAX;
  // To sleep and to wake takes more than to learn from an operation or two.
  constexpr uint64_t most_ns = 1'000'000;
  return std::max(rest_ns_, share_.rest(most_ns));
}

void PlanExecutor::stand_back() noexcept {
  if (!std::exchange(stands_back_, true)) end_all(PlanEnd::share);
}

void PlanExecutor::note_followed() noexcept {
  const bool carries = std::ranges::any_of(
      devices_, [](const DevicePlans &plans) { return plans.followed() != nullptr; });
  if (carries != carrying_.now) ++carrying_.switches;
  carrying_.now = carries;
}

}  // namespace weir::move
