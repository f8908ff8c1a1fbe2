// SPDX-License-Identifier: Apache-2.0
//
// The model's lanes: streams, the fences between them, gates, and what the host knows to have finished. A lane that may wait for
// the own gate is never waited for by the host. All marks of a lane that ended are kept by one last mark.
#include "conformance/model.hpp"

#include <algorithm>

namespace weir::conformance::model {
namespace {

constexpr uint64_t most_outstanding =
    150;  // the header: entries that enqueue do not wait below 200
constexpr size_t most_marks = 48;

}  // namespace

void join(Clock &into, const Clock &other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

bool covers(const Clock &clock, uint32_t lane, uint64_t at) noexcept {
  return at == 0 || (lane < clock.size() && clock[lane] >= at);
}

void Turns::begin_gate() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !gate_ && memory_ == 0; });
  gate_ = true;
}

void Turns::end_gate() {
  const std::lock_guard lock(mutex_);
  gate_ = false;
  changed_.notify_all();
}

void Turns::begin_memory() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !gate_; });
  ++memory_;
}

void Turns::end_memory() {
  const std::lock_guard lock(mutex_);
  --memory_;
  changed_.notify_all();
}

// ---- lanes

Outcome Actor::make_lane(uint32_t device, Owner owner) {
  if (lanes_.size() >= most_lanes) return {};
  if (owner == Owner::transfer && !facts(device).has(WEIR_CAP_TRANSFER_STREAM)) owner = Owner::made;
  // Once only: it is one queue, and another thread's gate would hold all work in it.
  if (owner == Owner::standard &&
      (index_ != 0 || std::any_of(lanes_.begin(), lanes_.end(), [&](const auto &each) {
         return each->owner == owner && each->device == device;
       })))
    owner = Owner::wrapped;
  auto lane = std::make_unique<Lane>(t, owner, device);
  bool there = false;
  TRY(lane->queue.make(&there));
  if (!there) {
    lane = std::make_unique<Lane>(t, Owner::made, device);
    TRY(lane->queue.make(&there));
  }
  lane->number = lane_numbers_++;
  lane->clock = host_;
  say(words("lane ", lane->number, ": ", owner_name(lane->owner), " of device ", device));
  lanes_.push_back(std::move(lane));
  return {};
}

Outcome Actor::end_lane() {
  const size_t index = below(lanes_.size());
  Lane &lane = *lanes_[index];
  // Some stand still, so that each device has one.
  if (index < common_.devices.size()) return {};
  if (lane.owner == Owner::base_of_wrapped && lane.wrapped) {
    say(words("the wrapper of lane ", lane.number, " ends"));
    lane.wrapped = false;
    return lane.queue.end_wrappers();
  }
  // What comes after its work asks for a fence of it, which outlives it.
  MarkPointer last;
  TRY(record(lane, &last));
  say(words("lane ", lane.number, " ends"));
  TRY(lane.queue.end());
  lanes_.erase(lanes_.begin() + static_cast<std::ptrdiff_t>(index));
  return {};
}

Stream &Actor::handle(Lane &lane) {
  const bool owner = one_in(2);
  return owner && lane.wrapped ? lane.queue.owner() : lane.queue.use();
}

Lane &Actor::any_lane() { return *lanes_[below(lanes_.size())]; }

void Actor::tick(Lane &lane, bool call) {
  join(lane.clock, host_);
  if (lane.clock.size() <= lane.number) lane.clock.resize(lane.number + 1);
  lane.clock[lane.number] = ++lane.count;
  ++lane.outstanding;
  lane.calls = lane.calls || call;
  // Other streams' host functions may wait for the one at the gate.
  if (call && gate_) lane.maybe = gates_;
}

/// Before a call is enqueued: keeps the number that is outstanding small.
Outcome Actor::room(Lane &lane, uint64_t calls) {
  if (lane.outstanding + calls < most_outstanding) return {};
  if (maybe_held(lane)) TRY(open_gate());
  return synchronize(lane);
}

// ---- marks

Outcome Actor::record(Lane &lane, MarkPointer *mark) {
  TRY(room(lane));
  auto made = std::make_shared<Mark>(t);
  TRY(made->fence.record(handle(lane)));
  tick(lane);
  made->lane = lane.number;
  made->clock = lane.clock;
  made->calls = lane.calls;
  made->held = lane.held;
  made->maybe = lane.maybe;
  marks_.push_back(made);
  *mark = std::move(made);
  // Of the oldest those go whose lane has a later one.
  for (size_t i = 0; marks_.size() > most_marks && i < most_marks / 2;) {
    const Mark &old = *marks_[i];
    const bool known = covers(host_, old.lane, old.clock[old.lane]);
    const bool later =
        std::any_of(marks_.begin() + static_cast<std::ptrdiff_t>(i) + 1, marks_.end(),
                    [&](const MarkPointer &each) { return each->lane == old.lane; });
    if (known || later) {
      marks_.erase(marks_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return {};
}

Outcome Actor::wait_for(Lane &lane, const MarkPointer &mark) {
  TRY(room(lane));
  MUST(stream_wait, handle(lane).get(), mark->fence.get());
  tick(lane);
  join(lane.clock, mark->clock);
  lane.calls = lane.calls || mark->calls;
  if (gate_ && mark->held == gates_) lane.held = gates_;
  if (maybe_held(*mark)) lane.maybe = gates_;
  return {};
}

Outcome Actor::find_mark(const Point &point, MarkPointer *mark) {
  std::vector<MarkPointer> found;
  for (const MarkPointer &each : marks_)
    if (covers(each->clock, point.lane, point.at)) found.push_back(each);
  // A draw in any case, so that the steps do not depend on what the host has seen.
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), [&](const std::unique_ptr<Lane> &l) {
    return l->number == point.lane;
  });
  if (!found.empty() && (lane == lanes_.end() || !one_in(3))) {
    *mark = found[below(found.size())];
    return {};
  }
  CHECK(lane != lanes_.end(), "the model lost the fence of lane ", point.lane);
  return record(**lane, mark);
}

Outcome Actor::after(Lane &lane, const Point &point) {
  if (point.at == 0 || point.lane == lane.number) return {};
  join(lane.clock, host_);
  if (covers(lane.clock, point.lane, point.at)) return {};
  MarkPointer mark;
  TRY(find_mark(point, &mark));
  return wait_for(lane, mark);
}

// ---- the host

/// Work up to there has finished: host functions have run, once each, and found what was wanted.
Outcome Actor::host_knows(const Clock &clock) {
  join(host_, clock);
  for (size_t i = 0; i < calls_.size();) {
    const Call &each = *calls_[i];
    if (!covers(host_, each.point.lane, each.point.at)) {
      ++i;
      continue;
    }
    CHECK(each.ran.load() == 1, each.text, ": the host function ran ", each.ran.load(),
          " times, and what is behind it has finished");
    const uint64_t wrong = each.wrong.load();
    CHECK(wrong == UINT64_MAX, each.text, ": when the host function ran, byte ", wrong, " of ",
          uint64_t{each.wanted.size()}, " was not what the lane had put there");
    calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (const auto &lane : lanes_) {
    if (!covers(host_, lane->number, lane->count)) continue;
    lane->outstanding = 0;
    lane->calls = false;
  }
  return {};
}

Outcome Actor::synchronize(Lane &lane) {
  if (maybe_held(lane)) TRY(open_gate());
  Stream &stream = handle(lane);
  TRY(stream.synchronize());
  TRY(host_knows(lane.clock));
  return finished(t, stream, lane.owner);
}

Outcome Actor::wait_mark(const MarkPointer &mark, bool bounded) {
  if (maybe_held(*mark)) TRY(open_gate());
  if (bounded) {
    TRY(mark->fence.wait());
  } else {
    MUST(fence_wait, mark->fence.get(), UINT64_MAX);
  }
  MUST(fence_poll, mark->fence.get());
  return host_knows(mark->clock);
}

Outcome Actor::host_after(const Point &point) {
  if (covers(host_, point.lane, point.at)) return {};
  for (const auto &lane : lanes_)
    if (lane->number == point.lane && one_in(2)) return synchronize(*lane);
  MarkPointer mark;
  TRY(find_mark(point, &mark));
  return wait_mark(mark, one_in(2));
}

/// Polls, queries, and waits with a limit: what the model knows must be told, the rest may be either.
Outcome Actor::ask() {
  if (one_in(2) || marks_.empty()) {
    Lane &lane = any_lane();
    const bool done = covers(host_, lane.number, lane.count), held = gate_ && lane.held == gates_;
    Stream &stream = handle(lane);
    say(words("ask lane ", lane.number));
    if (done && lane.count != 0 && lane.owner != Owner::standard)
      return finished(t, stream, lane.owner);
    if (held) {
      ANSWERS(WEIR_NOT_READY, stream_query, stream.get());
    } else {
      ANSWERS_EITHER(WEIR_SUCCESS, WEIR_NOT_READY, stream_query, stream.get());
    }
    return {};
  }
  const MarkPointer mark = marks_[below(marks_.size())];
  const bool done = covers(host_, mark->lane, mark->clock[mark->lane]);
  const uint64_t limits[] = {0, 1, 20'000};
  const uint64_t limit = limits[below(3)];
  say(words("ask a fence of lane ", mark->lane));
  if (done) {
    MUST(fence_poll, mark->fence.get());
    MUST(fence_wait, mark->fence.get(), limit);
  } else if (gate_ && mark->held == gates_) {
    ANSWERS(WEIR_NOT_READY, fence_poll, mark->fence.get());
    ANSWERS(WEIR_ERROR_TIMEOUT, fence_wait, mark->fence.get(), limit);
  } else {
    ANSWERS_EITHER(WEIR_SUCCESS, WEIR_NOT_READY, fence_poll, mark->fence.get());
    const weir_result result = CALL(fence_wait, mark->fence.get(), limit);
    CHECK(result == WEIR_SUCCESS || result == WEIR_ERROR_TIMEOUT, "fence_wait for ", limit,
          " ns = ", result_name(result));
    // It stays passed. What the host knows does not grow by it: the next steps would depend on time.
    if (result == WEIR_SUCCESS) MUST(fence_poll, mark->fence.get());
  }
  return {};
}

// ---- gates

Outcome Actor::shut_gate() {
  Lane &lane = any_lane();
  const uint64_t length = 4 + below(50);
  if (gate_ || !facts(lane.device).has(WEIR_CAP_HOST_CALL)) return {};
  TRY(room(lane));
  common_.turns.begin_gate();
  gate_ = std::make_unique<Gate>(t);
  ++gates_;
  gate_ends_ = step_ + length;
  say(words("a gate in lane ", lane.number));
  // The queue itself would take the handle that has ended.
  TRY(lane.wrapped ? lane.queue.hold(*gate_) : gate_->hold(lane.queue.use()));
  tick(lane, true);
  lane.held = lane.maybe = gates_;
  // Their host functions may not have run.
  for (const auto &each : lanes_)
    if (each->calls) each->maybe = gates_;
  for (const MarkPointer &mark : marks_)
    if (mark->calls && !covers(host_, mark->lane, mark->clock[mark->lane])) mark->maybe = gates_;
  return {};
}

Outcome Actor::open_gate() {
  if (!gate_) return {};
  const bool gave_up = gate_->gave_up();
  gate_->open();
  say("the gate is opened");
  gate_.reset();
  common_.turns.end_gate();
  CHECK(!gave_up, "something waited until the gate had opened itself");
  return {};
}

}  // namespace weir::conformance::model
