// SPDX-License-Identifier: Apache-2.0
//
// What the forecasts have learned, copied out while the program goes on, and put in before it begins. The lock is held for some operations
// at a time; forecasts that learn from what is loaded are nobody's until they have.

#include "core/move/plan_executor.hpp"
#include "core/policy/log_saver.hpp"

#include <algorithm>

namespace weir::move {
namespace {

/// Operations copied while the lock is held.
constexpr uint32_t copied_at_once = 128;

}  // namespace

void PlanExecutor::save(policy::SavedProgram *program, uint64_t most_bytes) {
  size_t places = 0;
  {
    const Locked lock(env_.sync.lock);
    places = devices_.size();
  }
  program->logs.reserve(places);
  for (size_t place = 0; place < places; ++place) {
    policy::LogSaver saver(program->logs.emplace_back(env_.memory), env_.memory);
    bool begun = false;
    while (copy_some(place, saver, most_bytes / places, &begun)) continue;
  }
  while (!program->logs.empty() && program->logs.back().operations.empty())
    program->logs.pop_back();
}

bool PlanExecutor::copy_some(size_t place, policy::LogSaver &saver, uint64_t most_bytes,
                             bool *begun) {
  const Locked lock(env_.sync.lock);
  const Learned *own = devices_[place].learned.get();
  if (own == nullptr) return false;
  if (!std::exchange(*begun, true)) saver.begin(own->forecast.log(), most_bytes);
  return saver.copy(own->forecast.log(), copied_at_once);
}

Status PlanExecutor::load(const policy::SavedProgram &program, std::span<const uint32_t> names) {
  size_t devices = 0, sharers = 0;
  {
    const Locked lock(env_.sync.lock);
    devices = page_.devices.size();
    sharers = std::max(sharers_, devices_with_plans());
  }
  std::pmr::vector<Owned<Learned>> fresh(env_.memory);
  fresh.resize(devices);
  for (size_t place = 0; place < devices; ++place) {
    const bool saved = place < program.logs.size() && !program.logs[place].operations.empty();
    if (!saved && !was_loaded(place)) continue;
    fresh[place] = learner_to_load(place, sharers);
    if (saved && fresh[place] != nullptr) fresh[place]->forecast.load(program.logs[place], names);
  }
  return replace_learned(fresh, sharers);  // what was there ends when the lock is free again
}

/// nullptr: there are no plans for the device.
Owned<PlanExecutor::Learned> PlanExecutor::learner_to_load(size_t place, size_t sharers) {
  policy::LearnedForecast::Terms learning;
  policy::ResidencyPlan::Terms terms;
  {
    const Locked lock(env_.sync.lock);
    const PoolDevice &device = *page_.devices[place];
    if (!may_have_plans(device)) return {};
    learning = learning_of(device, sharers);
    terms = terms_of(device);
  }
  return make_owned<Learned>(env_.memory, terms, learning, env_.memory);
}

bool PlanExecutor::was_loaded(size_t place) {
  const Locked lock(env_.sync.lock);
  return place < devices_.size() && devices_[place].learned != nullptr &&
         devices_[place].learned->forecast.log().held() != 0;
}

/// Those that are not nullptr take the places of what there is; the buffers that live are told to them.
Status PlanExecutor::replace_learned(std::span<Owned<Learned>> fresh, size_t sharers) {
  const Locked lock(env_.sync.lock);
  while (devices_.size() < fresh.size()) devices_.emplace_back();
  for (const DevicePlans &plans : devices_)
    if (plans.learned != nullptr && plans.learned->forecast.now() != 0)
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "the pool has learned from operations already");
  sharers_ = std::max(sharers_, sharers);
  for (size_t place = 0; place < fresh.size(); ++place) {
    Owned<Learned> &own = devices_[place].learned;
    if (fresh[place] == nullptr) continue;
    // No plan was made of it: nobody has it in hand.
    std::swap(own, fresh[place]);
    if (fresh[place] == nullptr) continue;
    const policy::Lives &lives = fresh[place]->forecast.log().lives();
    for (uint32_t life = 0; life < lives.used(); ++life)
      if (lives[life].alive)
        own->forecast.born(lives[life].buffer, lives[life].generation, lives[life].bytes,
                           policy::LearnedForecast::no_stream);
  }
  return {};
}

}  // namespace weir::move
