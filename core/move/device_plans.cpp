// SPDX-License-Identifier: Apache-2.0
//
// What is told of plans, and who is known to live.

#include "core/move/device_plans.hpp"

#include <algorithm>
#include <utility>

namespace weir::move {
namespace {

/// Looked at while the lock is held.
constexpr uint32_t looked_at_once = 1024;

/// Operations that were lost, and uses that came when they were not foreseen, of a million each.
struct Shares {
  uint64_t lost, off;
};
Shares shares_of(const policy::Trust &trust) noexcept {
  return {policy::Trust::millionths(trust.lost()), policy::Trust::millionths(trust.off())};
}

/// It lives, is at home there, and is followed.
bool is_large_on(const PageLayer &page, const LeaseLayer &lease, const PoolDevice &device,
                 uint32_t buffer) noexcept WEIR_HELD {
  const page::Hot &hot = page.buffers.hot(buffer);
  return hot.lives(hot.generation()) &&
         hot.size() >= std::max(lease.log.large(), device.memory.page_size()) &&
         page.buffers.target(buffer).region->home == device.place;
}

}  // namespace

PoolDevice *device_of(const PageLayer &page, const StreamState &state) noexcept {
  const auto found = std::ranges::find_if(page.devices, [&state](const auto &each) {
    return state.device != nullptr && each->device.id == state.device->id && !each->gone();
  });
  return found != page.devices.end() ? found->get() : nullptr;
}

void Followed::begin(Events &events, const PoolDevice &device) noexcept {
  on = true;
  blocked = false;
  made = now;
  budget = device.memory.budget();
  const uint64_t capacity = budget - std::min(budget, others);
  events.tell(Event{What::plan_made, 0, device.place, UINT32_MAX, 0, now, capacity});
}

void Followed::end(Events &events, const PoolDevice &device, PlanEnd why) noexcept {
  if (!std::exchange(on, false)) return;
  uint64_t decided = 0;
  if (why == PlanEnd::untrusted && trust != nullptr) {
    const Shares shares = shares_of(*trust);
    decided = shares.lost << 32 | shares.off;
  } else if (why == PlanEnd::moved) {
    decided = plan.planned() - std::min(plan.planned(), now);
  } else if (why == PlanEnd::missed) {
    decided = plan.misses();
  } else if (why == PlanEnd::budget) {
    decided = device.memory.budget();
  }
  events.tell(why, device.place, now - made, decided);
}

void Learned::tell_trust(Events &events, uint8_t place) noexcept {
  if (trust->holds() == trusts) return;
  trusts = !trusts;
  const Shares shares = shares_of(*trust);
  events.tell(Event{What::trust, static_cast<uint8_t>(trusts ? 1 : 0), place, UINT32_MAX, 0,
                    shares.lost, shares.off});
}

int8_t BufferPriorities::priority(uint32_t buffer, uint64_t generation) const noexcept {
  const bool lives = buffers_.hot(buffer).lives(generation);
  return lives ? buffers_.target(buffer).region->priority : int8_t{0};
}

DevicePlans &plans_of(std::pmr::vector<DevicePlans> &devices, const PoolDevice &device) {
  while (devices.size() <= device.place) devices.emplace_back();
  return devices[device.place];
}

void tell_living(const PageLayer &page, const LeaseLayer &lease, const PoolDevice &device,
                 Learned &own) noexcept {
  for (uint32_t buffer = 0; buffer < page.buffers.end(); ++buffer) {
    const page::Hot &hot = page.buffers.hot(buffer);
    if (is_large_on(page, lease, device, buffer))
      own.forecast.born(buffer, hot.generation(), hot.size(), policy::LearnedForecast::no_stream);
  }
}

bool compare_living(const PageLayer &page, const LeaseLayer &lease, const PoolDevice &device,
                    Learned &own, Compared *done) noexcept {
  const policy::Lives &lives = own.forecast.log().lives();
  uint32_t looks = looked_at_once;
  for (; looks != 0 && done->lives < lives.used(); --looks) {  // first: their room may be wanted
    const policy::Life life = lives[done->lives++];
    if (!life.alive || page.buffers.hot(life.buffer).lives(life.generation)) continue;
    const uint32_t part = own.cast.of(life.buffer);
    if (part != policy::Cast::none) own.plan.died(part);
    own.forecast.left(life.buffer);
  }
  for (; looks != 0 && done->buffers < page.buffers.end(); --looks) {
    const uint32_t buffer = done->buffers++;
    const page::Hot &hot = page.buffers.hot(buffer);
    if (is_large_on(page, lease, device, buffer) &&
        !own.forecast.log().lives().names(buffer, hot.generation()))
      own.forecast.found(buffer, hot.generation(), hot.size());
  }
  return looks == 0;
}

}  // namespace weir::move
