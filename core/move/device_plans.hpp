// SPDX-License-Identifier: Apache-2.0
//
// The plans of a device, and what each is made from: what was announced, or what was learned. With them, what is told of a plan's life, and the
// comparison of what is known of buffers with the buffers there are.
//
// What must hold: one of them is followed at a time. Each end of a plan is told once, with its reason, so that as many have been made as have
// ended and are followed. Guarded by the pool's lock.
#pragma once

#include "core/lease/layer.hpp"
#include "core/page/env.hpp"
#include "core/policy/announced_forecast.hpp"
#include "core/policy/learned_forecast.hpp"
#include "core/policy/residency_plan.hpp"

namespace weir::move {

/// A plan for a device.
struct Followed {
  Followed(const policy::ResidencyPlan::Terms &terms, std::pmr::memory_resource *memory)
      : cast(memory), plan(cast, terms, memory) {}
  policy::Cast cast;
  policy::ResidencyPlan plan;
  uint64_t now = 0;         ///< operations so far
  uint64_t others = 0;      ///< bytes that the plan can't have ...
  uint64_t measured = 0;    ///< ... at that operation
  uint64_t made = 0;        ///< the plan, at that operation, ...
  uint64_t budget = 0;      ///< ... of a device with that budget
  bool on = false;          ///< it has been made, and is followed
  bool blocked = false;     ///< what it wants next finds no room, until something changes
  uint64_t dear_until = 0;  ///< ns: regions have been walked, and are not sooner than then
  Stamp last;               ///< of what was brought last
  const policy::Trust *trust = nullptr;  ///< in what it is made from, if that may be wrong

  /// The plan has been made.
  void begin(Events &events, const PoolDevice &device) noexcept WEIR_HELD;
  /// It is followed no more, if it was.
  void end(Events &events, const PoolDevice &device, PlanEnd why) noexcept WEIR_HELD;
  /// Whether to make it anew, and why; `moved`: what comes is not what was foreseen.
  bool wants_anew(const PoolDevice &device, bool moved) const noexcept WEIR_HELD {
    return plan.wants_rebuild(moved || !on || budget != device.memory.budget());
  }
  PlanEnd why_anew(const PoolDevice &device, bool moved) const noexcept WEIR_HELD {
    return budget != device.memory.budget() ? PlanEnd::budget : plan.why_rebuild(moved);
  }
  /// The operation that has begun is one that the plan has come to.
  bool covers_now() const noexcept { return on && now <= plan.planned(); }
  /// A walk of regions may not cost more than a small share of the time: it is followed by so many times its own time without one.
  static constexpr uint64_t walk_share = 20;
  bool may_walk(uint64_t now_ns) const noexcept { return now_ns >= dear_until; }
  void walked(uint64_t from_ns, uint64_t to_ns) noexcept {
    dear_until = to_ns + walk_share * (to_ns - from_ns);
  }
};
struct Announced : Followed {
  Announced(const policy::ResidencyPlan::Terms &terms, policy::Announcements &announcements,
            std::pmr::memory_resource *memory)
      : Followed(terms, memory), forecast(announcements, cast, memory) {}
  policy::AnnouncedForecast forecast;
};
struct Learned : Followed {
  Learned(const policy::ResidencyPlan::Terms &terms, const policy::LearnedForecast::Terms &learning,
          std::pmr::memory_resource *memory)
      : Followed(terms, memory), forecast(cast, learning, memory), last_use(memory), uses(memory) {
    trust = &forecast.trust();
  }
  /// Whether planning pays has changed: that is told.
  void tell_trust(Events &events, uint8_t place) noexcept WEIR_HELD;

  policy::LearnedForecast forecast;
  uint64_t number = 0;                         ///< no other of the pool's has it
  bool trusts = false;                         ///< what was told last
  std::pmr::vector<uint64_t> last_use;         ///< by part, operations
  std::pmr::vector<policy::ObservedUse> uses;  ///< of the operation that is being observed
};
/// As their regions have them; 0 of a buffer that has died since.
class BufferPriorities final : public policy::Priorities {
 public:
  explicit BufferPriorities(page::BufferDirectory &buffers) noexcept : buffers_(buffers) {}
  int8_t priority(uint32_t buffer, uint64_t generation) const noexcept override WEIR_HELD;

 private:
  page::BufferDirectory &buffers_;
};

struct DevicePlans {
  Owned<Announced> announced;
  Owned<Learned> learned;
  bool asked = false;  ///< what one of them wants is being brought, be it followed still or not
  /// The one that is followed, or nullptr.
  Followed *followed() const noexcept {
    if (announced != nullptr && announced->on) return announced.get();
    return learned != nullptr && learned->on ? learned.get() : nullptr;
  }
};

/// Those of a device; they are made where there are none. Throws std::bad_alloc.
DevicePlans &plans_of(std::pmr::vector<DevicePlans> &devices, const PoolDevice &device);
/// The pool's device that the stream is of; nullptr: none is, by now.
PoolDevice *device_of(const PageLayer &page, const StreamState &state) noexcept WEIR_HELD;
/// Of large buffers that live on the device already.
void tell_living(const PageLayer &page, const LeaseLayer &lease, const PoolDevice &device,
                 Learned &own) noexcept WEIR_HELD;
/// How far a comparison has come: with those who are taken for alive, and with the buffers there are.
struct Compared {
  uint32_t lives = 0, buffers = 0;
};
/// That of all devices, one after the other.
struct Comparison {
  bool on = false;
  size_t place = 0;
  Compared done;
};
/// After births and deaths were lost from the log: compares the buffers that the learner takes for alive with those there are. It forgets
/// those that are gone and learns of those it does not know, some at a time. True: there are more.
bool compare_living(const PageLayer &page, const LeaseLayer &lease, const PoolDevice &device,
                    Learned &own, Compared *done) noexcept WEIR_HELD;

}  // namespace weir::move
