// SPDX-License-Identifier: Apache-2.0
//
// PlanExecutor: carries out, device by device, what a plan (policy/residency_plan.hpp) decides: pages that it has done with are given up
// (policy/given_up.hpp) and cleaned while the link down has time, and what it wants by a date is handed to the prefetcher, which
// brings it. There is a plan for a device while its streams have announced enough, or it has been learned what they do, in a pool whose
// policy carries plans out.
//
// What must hold: all of it is hints. A plan that is wrong costs time: demand takes what it needs as without a plan, and a page that is
// used after it was given up stays. Guarded by the pool's lock.
#pragma once

#include "core/base/cpu_share.hpp"
#include "core/base/task.hpp"
#include "core/move/device_plans.hpp"
#include "core/move/plan.hpp"
#include "core/move/plan_terms.hpp"
#include "core/move/requests.hpp"
#include "core/policy/given_up.hpp"
#include "core/policy/hints.hpp"
#include "core/policy/saved_program.hpp"

#include <atomic>

namespace weir::move {

class Evictor;

class PlanExecutor final : public Task, private lease::Observer {
 public:
  /// Copies what was given up, while the plan goes on.
  class Cleaner final : public Task {
   public:
    explicit Cleaner(PlanExecutor &own) : own_(own) {}
    bool step(Releasable &lock) override WEIR_HELD;
    uint64_t rest_ns() noexcept override WEIR_HELD;
    const char *name() const noexcept override { return "the cleaner's thread"; }

   private:
    PlanExecutor &own_;
  };

  /// `alarms` changes when may_be_late() does not hold any more.
  PlanExecutor(const Env &env, const PageLayer &page, const LeaseLayer &lease, Evictor &evictor,
               policy::Announcements &announcements, std::atomic<uint32_t> &alarms)
      : env_(env),
        page_(page),
        lease_(lease),
        evictor_(evictor),
        announcements_(announcements),
        alarms_(alarms),
        priorities_(page.buffers),
        devices_(env.memory),
        share_(*env.config.clock, env.config.learning.cpu_percent),
        catch_ups_(env.sync.lock),
        cleaner_(*this) {}

  Cleaner &cleaner() noexcept { return cleaner_; }

  // ---- what it is told ----
  /// The stream has announced so many operations more, `replaced`: instead of what it had; where there is no memory for a plan nothing is lost but the plan.
  void note_announced(const StreamState &state, uint64_t count, bool replaced) noexcept WEIR_HELD;
  /// The stream has acquired this set, which was its next announced operation; nullptr: one of which nothing had to be brought.
  void note_acquire(const StreamState &state, bool announced, const Plan *set) noexcept WEIR_HELD;
  /// Whether it may hear of some announced operations of the stream together: no plan waits for one of them. Of several streams it has to
  /// hear in which order they go on.
  bool may_be_late(const StreamState &state) const noexcept WEIR_HELD;
  /// Another stream has its slot.
  void forget_stream(const StreamState &state) noexcept WEIR_HELD;
  /// The region has another priority: plans go by it from the next use of it on.
  void note_priority(const Region &region) noexcept WEIR_HELD;
  /// The region's owner is ending.
  void forget_region(const Region &region) noexcept WEIR_HELD;

  // ---- for acquires ----
  /// One is short of room, and the planner's thread may be behind the program: what has been logged is learned now, the plan goes on, and what it
  /// has done with is given up, so that nothing leaves that it keeps. Some of it at a call, within the share, of which it takes.
  /// Returns whether the lock was dropped.
  bool catch_up(Releasable &lock) WEIR_HELD;

  // ---- for the prefetcher ----
  /// Which plan decides what comes to the device ahead of demand.
  enum class Planned : uint8_t { by_none, of_learned, of_announced };
  Planned planned(uint8_t place) const noexcept WEIR_HELD;
  /// The next bytes that a plan wants, and has room for: to be brought, and then told of by settle(). False: there are none now.
  bool next(policy::PrefetchRequest *request) WEIR_HELD;
  /// It was brought, or why not. WOULD_BLOCK: there was no room. Waits until the link has little more to do than that: what is
  /// demanded next is behind it. Drops the lock.
  void settle(Releasable &lock, const policy::PrefetchRequest &request,
              const Status &status) WEIR_HELD;

  // ---- for the policy ----
  /// When a page of the region is used next on the device, by what was learned.
  void describe(const Region &region, uint8_t place,
                policy::PageInfo *info) const noexcept WEIR_HELD;

  // ---- what was learned, saved and loaded (plan_saving.cpp): one call at a time ----
  /// What has been learned on each device, the newest that fits so many bytes of records; names stay numbers. All that has been logged
  /// so far is learned first, unless the share of the CPU is used up, or the planner's thread is more than a second behind.
  /// Throws std::bad_alloc.
  void save(policy::SavedProgram *program, uint64_t most_bytes) WEIR_NOT_HELD;
  /// Learns it, in the place of what was known; `names`: the numbers of its names here. INVALID_ARGUMENT: something has been learned
  /// from the pool's own streams. Throws std::bad_alloc with nothing changed.
  Status load(const policy::SavedProgram &program, std::span<const uint32_t> names) WEIR_NOT_HELD;

  // ---- whether a plan is followed, and how often that changed (weir_pool_stats) ----
  struct Carrying {
    bool now = false;
    uint64_t switches = 0;
  };
  const Carrying &carrying() const noexcept WEIR_HELD { return carrying_; }

  /// Nobody works any more, and the pool ends: so do the plans.
  void close() noexcept WEIR_HELD { end_all(PlanEnd::closes); }

  // ---- the task: the plans ----
  bool step(Releasable &lock) override WEIR_HELD;
  uint64_t rest_ns() noexcept override WEIR_HELD;
  const char *name() const noexcept override { return "the planner's thread"; }

 private:
  /// Things that were logged: at a step or a call, and while the lock is held.
  static constexpr size_t most_learned = 256, learned_at_once = 32;
  static constexpr uint64_t least_rest_ns = 100'000, usual_rest_ns = 50'000'000,
                            most_rest_ns = 1'000'000'000;
  enum class Look : uint8_t { wanted, passed, no_room };
  /// What no learner was told of.
  struct Unobserved {
    bool birth = false;  ///< a buffer was made while none was there
    bool lives = false;  ///< records of births and deaths were lost
  };

  // ---- what is observed (lease::Observer), on the task's thread or by catch_up() ----
  void observe(const lease::ObservedOperation &operation) override WEIR_HELD;
  void born(uint32_t buffer, uint64_t generation, uint64_t bytes) override WEIR_HELD;
  void died(uint32_t buffer, uint64_t generation) override WEIR_HELD;
  void began(const lease::ObservedStream &) override {}
  void missed(const lease::ObservedStream &, uint64_t records) override WEIR_HELD;
  void missed_lives(uint64_t records) override WEIR_HELD;

  Owned<Learned> learner_to_load(size_t place, size_t sharers) WEIR_NOT_HELD;
  Status replace_learned(std::span<Owned<Learned>> fresh, size_t sharers) WEIR_NOT_HELD;
  /// Who learns what streams of the device do; nullptr: nobody does.
  Learned *learner_of(uint8_t place) noexcept WEIR_HELD;
  /// A learner for each device that can have plans, and for no other. Drops the lock.
  void have_learners(Releasable &lock) WEIR_HELD;
  void drop_learner(Releasable &lock, PoolDevice &device) noexcept WEIR_HELD;
  void make_learner(Releasable &lock, PoolDevice &device, bool late) WEIR_HELD;
  /// Births and deaths have been lost: those who learn hear what came of it, some of it at a step. False: there is nothing to do.
  bool compare_lives() noexcept WEIR_HELD;
  /// Some of what has been logged goes to the learners. Returns how many things it was; 0: that is all for now. Drops the lock.
  size_t drain(Releasable &lock) WEIR_HELD;
  /// Some of that. `whole`: false if there was no memory.
  size_t learn_some(bool *whole) WEIR_HELD;
  /// Something has been acquired the slow way: there is more to come, and the caller waits for copies, most likely.
  void wake() noexcept WEIR_HELD {
    // The planner's thread would do nothing now, and looks again as soon as it may.
    if (stands_back_ || (share_.rests() && rest_ns_ == least_rest_ns)) return;
    rest_ns_ = least_rest_ns;
    env_.sync.wakes.planner.notify_all();
  }
  void note_followed() noexcept WEIR_HELD;
  /// One step's work, within the share.
  bool work(Releasable &lock) WEIR_HELD;
  /// The share is used up: there are no plans until there is some again.
  void stand_back() noexcept WEIR_HELD;
  void learn(Learned &own, const lease::ObservedOperation &operation) WEIR_HELD;

  /// Makes a plan anew, which ends the one there is; `outlook` tells of a region and its part what comes, after which operation.
  template <class OutlookOf>
  void make(PoolDevice &device, Followed &own, PlanEnd why, OutlookOf &&outlook) WEIR_HELD;
  void begin(PoolDevice &device, Announced &own, PlanEnd why) WEIR_HELD;
  void begin(PoolDevice &device, Learned &own, PlanEnd why) WEIR_HELD;
  void end(PoolDevice &device, Followed &own, PlanEnd why) noexcept WEIR_HELD;
  void end_all(PlanEnd why) noexcept WEIR_HELD;
  bool follow(PoolDevice &device, DevicePlans &plans) WEIR_HELD;
  bool go_on(PoolDevice &device, Followed &own, policy::Forecast &forecast) WEIR_HELD;
  /// Plans some operations more (nullptr: none), and gives up what the plan has done with by now. False: there was nothing.
  bool walk(PoolDevice &device, Followed &own, policy::Forecast *forecast) WEIR_HELD;
  bool clean(Releasable &lock, PoolDevice &device) WEIR_HELD;
  /// Whether a fetch is for now, and what of it.
  Look look_at(PoolDevice &device, Followed &own, uint64_t number,
               policy::PrefetchRequest *request) WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  Evictor &evictor_;
  policy::Announcements &announcements_;
  std::atomic<uint32_t> &alarms_;
  const BufferPriorities priorities_;
  std::pmr::vector<DevicePlans> devices_ WEIR_GUARDED;  ///< by place
  uint64_t rest_ns_ WEIR_GUARDED = least_rest_ns;       ///< until there is something new to learn
  CpuShare share_ WEIR_GUARDED;                         ///< of who learns and plans
  bool stands_back_ WEIR_GUARDED = false;               ///< it is used up
  uint64_t learners_ WEIR_GUARDED = 0;                  ///< so many have been there
  size_t sharers_ WEIR_GUARDED = 0;             ///< learners that the memory for them is divided by
  uint64_t no_learner_until_ WEIR_GUARDED = 0;  ///< ns: there was no memory for one
  Unobserved unobserved_ WEIR_GUARDED;
  Comparison comparison_ WEIR_GUARDED;  ///< of who is known to live, for that
  Requests catch_ups_ WEIR_GUARDED;     ///< that want all learned that is logged
  uint8_t observed_ WEIR_GUARDED = 0;   ///< the place of the stream that was observed last
  Carrying carrying_ WEIR_GUARDED;
  Cleaner cleaner_;
};

}  // namespace weir::move
