// SPDX-License-Identifier: Apache-2.0
//
// What the forecasts have learned, copied out while the program goes on, and put in before it begins. The lock is held for some operations
// at a time; forecasts that learn from what is loaded are nobody's until they have.

#include "core/move/plan_executor.hpp"
#include "core/policy/log_saver.hpp"

#include <algorithm>
#include <chrono>

namespace weir::move {
namespace {

/// Operations copied while the lock is held.
constexpr uint32_t copied_at_once = 128;
/// For the planner's thread.
constexpr std::chrono::seconds most_wait{1};
constexpr std::chrono::milliseconds look_again{50};

}  // namespace

void PlanExecutor::save(policy::SavedProgram *program, uint64_t most_bytes) {
  size_t places = 0;
  {
    // It is a thread that is waited for, not what is on the pool's clock.
    using Time = std::chrono::steady_clock;
    const Time::time_point until = Time::now() + most_wait;
    Locked lock(env_.sync.lock);
    const uint64_t request = catch_ups_.ask();
    // While the share of a CPU is used up nothing is learned, and what is logged will be skipped. The end of the pool gives no signal here.
    while (!catch_ups_.answered(request) && !stands_back_ && !env_.sync.lock.stopping() &&
           Time::now() < until) {
      wake();
      (void)catch_ups_.wait_for(lock, look_again);
    }
    places = devices_.size();
  }
  program->logs.reserve(places);
  for (size_t place = 0; place < places; ++place) {
    policy::LogSaver saver(program->logs.emplace_back(env_.memory), env_.memory);
    uint64_t copied = 0;  // the number of whose log that is
    bool replaced = false;
    const auto copy_some = [&] {
      const Locked lock(env_.sync.lock);
      const Learned *own = learner_of(static_cast<uint8_t>(place));
      const uint64_t number = own != nullptr ? own->number : 0;
      if (copied == 0 && number != 0) {
        saver.begin(own->forecast.log(), most_bytes / places);
        copied = number;
      }
      replaced = number != copied;
      return number != 0 && !replaced && saver.copy(own->forecast.log(), copied_at_once);
    };
    while (copy_some()) {
      saver.make_room();
      env_.sync.points.at("save");
    }
    // A device has come or gone, and all begin anew: what they knew is forgotten.
    if (replaced) program->logs.back() = policy::SavedLog(env_.memory);
  }
  while (!program->logs.empty() && program->logs.back().operations.empty())
    program->logs.pop_back();
}

Status PlanExecutor::load(const policy::SavedProgram &program, std::span<const uint32_t> names) {
  size_t devices = 0, sharers = 0;
  {
    const Locked lock(env_.sync.lock);
    devices = page_.devices.size();
    const auto plannable = [](const auto &device) WEIR_HELD { return may_have_plans(*device); };
    sharers =
        std::max(sharers_, static_cast<size_t>(std::ranges::count_if(page_.devices, plannable)));
  }
  std::pmr::vector<Owned<Learned>> fresh(env_.memory);
  fresh.resize(devices);
  const auto was_loaded = [this](size_t place) {
    const Locked lock(env_.sync.lock);
    const Learned *own = learner_of(static_cast<uint8_t>(place));
    return own != nullptr && own->forecast.log().held() != 0;
  };
  for (size_t place = 0; place < devices; ++place) {
    const bool saved = place < program.logs.size() && !program.logs[place].operations.empty();
    if (!saved && !was_loaded(place)) continue;
    fresh[place] = learner_to_load(place, sharers);
    if (saved && fresh[place] != nullptr) fresh[place]->forecast.load(program.logs[place], names);
  }
  return replace_learned(fresh, sharers);  // what was there ends when the lock is free again
}

/// nullptr: there are no plans for the device.
Owned<Learned> PlanExecutor::learner_to_load(size_t place, size_t sharers) {
  policy::LearnedForecast::Terms learning;
  policy::ResidencyPlan::Terms terms;
  {
    const Locked lock(env_.sync.lock);
    const PoolDevice &device = *page_.devices[place];
    if (!may_have_plans(device)) return {};
    learning = learning_terms_of(device, env_.config.learning.memory, sharers);
    terms = plan_terms_of(device);
  }
  return make_owned<Learned>(env_.memory, terms, learning, env_.memory);
}

/// Those that are not nullptr take the places of what there is; the buffers that live are told to them.
Status PlanExecutor::replace_learned(std::span<Owned<Learned>> fresh, size_t sharers) {
  const Locked lock(env_.sync.lock);
  while (devices_.size() < fresh.size()) devices_.emplace_back();
  for (const DevicePlans &plans : devices_)
    if (plans.learned != nullptr && plans.learned->forecast.now() != 0)
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "the pool has learned from operations already");
  // A device that has come since leaves less for each: they begin anew then (have_learners()), and what was loaded is forgotten.
  sharers_ = sharers;
  for (size_t place = 0; place < fresh.size(); ++place) {
    if (fresh[place] == nullptr) continue;
    // No plan was made of it: nobody has it in hand.
    std::swap(devices_[place].learned, fresh[place]);
    devices_[place].learned->number = ++learners_;
    // Not while it loads: the numbers of what was saved are no buffers'.
    devices_[place].learned->cast.ask(priorities_);
    tell_living(page_, lease_, *page_.devices[place], *devices_[place].learned);
  }
  return {};
}

}  // namespace weir::move
