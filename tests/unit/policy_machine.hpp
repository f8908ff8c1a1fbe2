// SPDX-License-Identifier: Apache-2.0
//
// A simulation of one device that runs a program by a ResidencyPlan, for the tests of the policy: what the core's executor does, without
// an engine. Demand fetches, room from what the plan has dropped and else by the farthest use, write-backs ahead of drops, fetches ahead
// of their due operations. At most one transfer each way is queued beyond the end of the running operation.
//
// What is foreseen comes from a Foresight, which is told what happens. Deterministic: all time is virtual.
#pragma once

#include "core/policy/residency_plan.hpp"
#include "tests/unit/policy_device.hpp"
#include "tests/unit/policy_program.hpp"

#include <deque>
#include <set>
#include <stdexcept>
#include <vector>

namespace weir::test {

struct MachineTerms {
  uint64_t capacity = 0;
  uint64_t page = 2 << 20;
  double bytes_per_ns = 25;  ///< each way
  uint64_t least = 0;        ///< smaller buffers are not planned for
};

struct MachineResult {
  double ns = 0;
  std::vector<double> ends;                                             ///< of each operation
  uint64_t fetched = 0, written_back = 0, missed = 0, fallen_back = 0;  ///< bytes
  uint32_t plans = 0;
};

/// Which page to evict when the plan names none: by the last use's outlook, or by age where that is unknown. Its caller passes over pages
/// that can't be evicted now.
class LastResort {
 public:
  explicit LastResort(uint32_t buffers) : where_(buffers) {}

  void put(uint32_t buffer, policy::Outlook outlook, uint64_t last_use) {
    remove(buffer);
    Where &its = where_[buffer];
    its = {true, outlook.fate, last_use + outlook.distance, last_use};
    if (outlook.fate == policy::Fate::unknown)
      old_.insert({last_use, buffer});
    else
      far_.insert({its.key, buffer});
  }
  /// It was fetched for operation `due`.
  void fetched(uint32_t buffer, uint64_t due) {
    const Where its = where_[buffer];
    put(buffer, {policy::Fate::needed, due - its.last_use}, its.last_use);
  }
  void remove(uint32_t buffer) {
    Where &its = where_[buffer];
    if (!its.there) return;
    far_.erase({its.key, buffer});
    old_.erase({its.last_use, buffer});
    its.there = false;
  }
  /// Of some that `may` lets pass the one that is worth least; UINT32_MAX: there is none.
  template <class May, class Dirty>
  uint32_t choose(uint64_t now, May &&may, Dirty &&dirty) const {
    uint32_t best = UINT32_MAX;
    double best_score = -1;
    const auto consider = [&](uint32_t buffer, double distance) {
      const policy::Fate fate = where_[buffer].fate;
      const bool dead = fate == policy::Fate::dies || fate == policy::Fate::overwritten;
      const double cost = policy::Prices::clean_dead +
                          (dead ? policy::Prices::clean_dead : policy::Prices::fetch) +
                          (dirty(buffer) ? policy::Prices::write_back : 0);
      if (distance / cost <= best_score) return;
      best_score = distance / cost;
      best = buffer;
    };
    int looked = 0;
    for (auto at = far_.rbegin(); at != far_.rend() && looked < 8; ++at) {
      if (!may(at->second)) continue;
      ++looked;
      consider(at->second, at->first > now ? static_cast<double>(at->first - now) : 1);
    }
    looked = 0;
    for (auto at = old_.begin(); at != old_.end() && looked < 8; ++at) {
      if (!may(at->second)) continue;
      ++looked;
      consider(at->second, static_cast<double>(std::max<uint64_t>(now - at->first, 1)));
    }
    return best;
  }

 private:
  struct Where {
    bool there = false;
    policy::Fate fate = policy::Fate::unknown;
    uint64_t key = 0, last_use = 0;
  };
  std::vector<Where> where_;  ///< by buffer
  std::set<std::pair<uint64_t, uint32_t>> far_, old_;
};

class PolicyMachine {
 public:
  PolicyMachine(const Program &program, const MachineTerms &terms, policy::Cast &cast,
                policy::ResidencyPlan &plan, Foresight &foresight)
      : program_(program),
        terms_(terms),
        cast_(cast),
        plan_(plan),
        foresight_(foresight),
        device_(program.buffers(), terms.capacity, terms.page, terms.bytes_per_ns),
        last_resort_(program.buffers()),
        marks_(program.buffers()) {}

  MachineResult run() {
    for (now_ = 0; now_ < program_.count(); ++now_) operation();
    result_.ns = end_;
    result_.fetched = device_.fetched();
    result_.written_back = device_.written_back();
    return result_;
  }

 private:
  /// What the executor knows of a buffer.
  struct Mark {
    uint64_t droppable = 0;   ///< its first resident bytes
    uint64_t dropped_at = 0;  ///< operation
    uint64_t last_use = 0;    ///< operation
    uint64_t pinned_at = UINT64_MAX;
  };

  void operation() {
    const double begin = end_;
    device_.settle(begin);
    for (const uint32_t buffer : program_.births(now_)) birth(buffer);
    plan_.advance(now_);
    take_drops();
    foresight_.begins(now_);
    ready_ = begin;
    for (const ProgramUse &use : program_.uses(now_)) marks_[use.buffer].pinned_at = now_;
    for (const ProgramUse &use : program_.uses(now_)) serve(use, begin);
    end_ = ready_ + program_.ns(now_);
    foresight_.handed_over(now_);
    plan_ahead();
    take_drops();
    clean_ahead(begin);
    fetch_ahead(begin);
    device_.settle(end_);
    for (const uint32_t buffer : program_.deaths(now_)) death(buffer);
    result_.ends.push_back(end_);
  }

  void birth(uint32_t buffer) {
    const uint32_t part = cast_.born(buffer, 0, program_.size(buffer), foresight_.expected(buffer));
    plan_.born(part);
    live_.insert(buffer);
  }

  void death(uint32_t buffer) {
    const uint32_t part = cast_.of(buffer);
    plan_.died(part);
    cast_.end(part);
    last_resort_.remove(buffer);
    device_.destroy(buffer, end_);
    marks_[buffer] = Mark{};
    live_.erase(buffer);
  }

  /// Brings a use's bytes up and makes room for those it adds.
  void serve(const ProgramUse &use, double begin) {
    const Device::Buffer &its = device_[use.buffer];
    Mark &mark = marks_[use.buffer];
    if (now_ > mark.dropped_at + policy::ResidencyPlan::drop_grace) mark.droppable = 0;
    if (use.whole) {
      make_room(use.end - its.resident(), begin);
      wait_for_room(device_.overwrite(use.buffer, use.end));
    } else {
      const uint64_t from = std::min(use.begin, its.content);
      if (from < its.low) {
        const uint64_t bytes = its.low - from / terms_.page * terms_.page;
        make_room(bytes, begin);
        device_.fetch(use.buffer, bytes, begin);
        plan_.missed(cast_.of(use.buffer));
        result_.missed += bytes;
      }
      if (use.end > its.content) {
        make_room(use.end - its.content, begin);
        wait_for_room(device_.grow(use.buffer, use.end));
      }
      if (use.writes) device_.write(use.buffer, use.write_from);
    }
    ready_ = std::max(ready_, its.arrived);
    mark.last_use = now_;
    const uint32_t part = cast_.of(use.buffer);
    plan_.used(part);
    last_resort_.put(use.buffer, foresight_.outlook(part), now_);
  }

  void wait_for_room(double until) { ready_ = std::max(ready_, until); }

  // Room.

  void make_room(uint64_t bytes, double begin) {
    while (device_.room() < static_cast<int64_t>(bytes)) {
      const auto missing = static_cast<uint64_t>(static_cast<int64_t>(bytes) - device_.room());
      if (drop_clean(missing, UINT32_MAX, begin) || drop_dirty(missing, begin)) continue;
      const uint32_t victim = last_resort_.choose(
          now_,
          [&](uint32_t buffer) {
            return marks_[buffer].pinned_at != now_ && device_[buffer].resident() != 0;
          },
          [&](uint32_t buffer) { return device_[buffer].dirty() != 0; });
      if (victim == UINT32_MAX) throw std::runtime_error("an operation does not fit");
      result_.fallen_back += device_.evict(victim, missing, begin);
    }
  }
  bool may_drop(uint32_t buffer) const {
    return marks_[buffer].droppable != 0 && device_[buffer].resident() != 0 &&
           marks_[buffer].pinned_at != now_;
  }
  void drop(uint32_t buffer, uint64_t bytes, double begin) {
    Mark &mark = marks_[buffer];
    mark.droppable -= std::min(mark.droppable, device_.evict(buffer, bytes, begin));
  }
  /// What is below already goes at once.
  bool drop_clean(uint64_t bytes, uint32_t not_of, double begin) {
    while (!drops_.empty()) {
      const uint32_t buffer = drops_.front();
      const uint64_t clean = device_[buffer].clean_from_low();
      if (!may_drop(buffer) || clean == 0 || buffer == not_of) {
        drops_.pop_front();
        continue;
      }
      const uint64_t most = std::min({bytes, marks_[buffer].droppable, clean});
      drop(buffer, std::min((most + terms_.page - 1) / terms_.page * terms_.page, clean), begin);
      return true;
    }
    return false;
  }
  /// What is not has to be written back first.
  bool drop_dirty(uint64_t bytes, double begin) {
    while (!cleaning_.empty()) {
      const uint32_t buffer = cleaning_.front();
      if (!may_drop(buffer)) {
        cleaning_.pop_front();
        continue;
      }
      drop(buffer, std::min(bytes, marks_[buffer].droppable), begin);
      return true;
    }
    return false;
  }

  // The plan.

  void plan_ahead() {
    if (plan_.wants_rebuild(foresight_.moved())) rebuild();
    const bool ahead = plan_.planned() > now_ + 4096;
    for (int i = 0; i < (ahead ? 4 : 48) && plan_.step(foresight_); ++i) continue;
  }
  void rebuild() {
    ++result_.plans;
    foresight_.rewind();
    std::vector<policy::ResidencyPlan::Resident> residents;
    for (const uint32_t buffer : live_) {
      const Device::Buffer &its = device_[buffer];
      Mark &mark = marks_[buffer];
      if (its.content == 0 || program_.size(buffer) < terms_.least) continue;
      const uint32_t part = cast_.of(buffer);
      residents.push_back({part, its.resident(), its.content, its.dirty() != 0,
                           foresight_.outlook(part), mark.last_use});
      mark.droppable = 0;
    }
    plan_.rebuild(now_, residents);
  }
  void take_drops() {
    while (const std::optional<policy::PlannedDrop> planned = plan_.next_drop()) {
      const uint32_t buffer = cast_[planned->part].buffer;
      if (device_[buffer].resident() == 0) continue;
      marks_[buffer].droppable += planned->bytes;
      marks_[buffer].dropped_at = now_;
      if (device_[buffer].clean_from_low() != 0) drops_.push_back(buffer);
      if (device_[buffer].dirty() != 0) cleaning_.push_back(buffer);
    }
  }

  /// Writes back what may be dropped, while the way down is idle.
  void clean_ahead(double begin) {
    while (device_.down_busy_until() < end_ && !cleaning_.empty()) {
      const uint32_t buffer = cleaning_.front();
      const Device::Buffer &its = device_[buffer];
      const uint64_t most = std::min(marks_[buffer].droppable, its.resident());
      if (most <= its.clean_from_low()) {
        cleaning_.pop_front();
        if (most != 0) drops_.push_back(buffer);
        continue;
      }
      device_.clean(buffer, std::min(terms_.page, most - its.clean_from_low()), begin);
    }
  }

  /// Fetches what is due next, while the way up is idle and the plan has memory for it.
  void fetch_ahead(double begin) {
    uint64_t number = 0;
    int passed = 0;
    while (device_.up_busy_until() < end_ && passed < 64) {
      const policy::PlannedFetch *fetch = plan_.next_fetch(&number);
      if (fetch == nullptr) return;
      const uint32_t buffer = cast_[fetch->part].buffer;
      if (buffer == policy::Cast::none || plan_.waits(*fetch) || !keep(number, buffer)) {
        ++passed;
        ++number;
        continue;
      }
      const uint64_t bytes = std::min({terms_.page, device_[buffer].low, fetch->bytes});
      if (bytes == 0) {  // it has come, or stayed
        plan_.taken(number, fetch->bytes, 0);
        continue;
      }
      if (!plan_.may_fetch(number, bytes)) return;
      while (device_.room() < static_cast<int64_t>(bytes))
        if (!drop_clean(static_cast<uint64_t>(static_cast<int64_t>(bytes) - device_.room()), buffer,
                        begin))
          return;
      device_.fetch(buffer, bytes, begin);
      last_resort_.fetched(buffer, fetch->due);
      plan_.taken(number, bytes, bytes);
    }
  }
  /// What may be dropped and is needed again stays, which costs memory only. False: there is none for it yet.
  bool keep(uint64_t number, uint32_t buffer) {
    Mark &mark = marks_[buffer];
    if (mark.droppable == 0) return true;
    const uint64_t stays = std::min(mark.droppable, device_[buffer].resident());
    if (!plan_.may_fetch(number, stays)) return false;
    mark.droppable = 0;
    plan_.taken(number, stays, stays);
    return true;
  }

  const Program &program_;
  MachineTerms terms_;
  policy::Cast &cast_;
  policy::ResidencyPlan &plan_;
  Foresight &foresight_;
  Device device_;
  LastResort last_resort_;
  std::vector<Mark> marks_;  ///< by buffer
  std::set<uint32_t> live_;  ///< buffers
  std::deque<uint32_t> cleaning_,
      drops_;         ///< buffers with droppable bytes: dirty ones, and clean ones
  uint32_t now_ = 0;  ///< operation
  double end_ = 0;    ///< of the last operation, ns
  double ready_ = 0;  ///< of the present one: when it can run
  MachineResult result_;
};

}  // namespace weir::test
