// SPDX-License-Identifier: Apache-2.0
//
// What the model does in a step, how it begins and ends, and the story of a failure.
#include "conformance/model.hpp"

#include "conformance/refusals.hpp"
#include "conformance/thread_state.hpp"

#include <algorithm>

namespace weir::conformance::model {
namespace {

constexpr size_t most_steps_told = 32;
constexpr uint64_t host_budget = 32 * mib;
constexpr uint64_t staging_bytes = 256 * kib;
constexpr uint64_t shared_bytes = 8 * kib + 3;

/// For the time of a step.
class MemoryTurn {
 public:
  explicit MemoryTurn(Turns &turns) : turns_(turns) { turns_.begin_memory(); }
  ~MemoryTurn() { turns_.end_memory(); }
  MemoryTurn(const MemoryTurn &) = delete;
  MemoryTurn &operator=(const MemoryTurn &) = delete;

 private:
  Turns &turns_;
};

std::string lines(const std::string &title, const std::deque<std::string> &all) {
  std::string text = "\n" + title;
  for (const std::string &each : all) text += "\n  " + each;
  return text;
}

}  // namespace

// ---- what all threads use

Outcome Common::prepare() {
  TRY(devices_with(t, 0, &devices));
  std::sort(devices.begin(), devices.end(),
            [](const DeviceFacts &a, const DeviceFacts &b) { return a.index < b.index; });
  reach.assign(devices.size(), std::vector<bool>(devices.size(), false));
  hands_over = std::all_of(devices.begin(), devices.end(), [](const DeviceFacts &each) {
    return each.has(WEIR_CAP_STREAM_ANY_THREAD);
  });
  for (uint32_t i = 0; i < devices.size(); ++i) {
    for (uint32_t k = 0; k < devices.size(); ++k) {
      if (i == k || !devices[i].has(WEIR_CAP_PEER) || !devices[k].has(WEIR_CAP_PEER)) continue;
      weir_be_link out{}, back{};
      out.struct_size = back.struct_size = sizeof out;
      MUST(link_describe, i, k, &out);
      MUST(link_describe, k, i, &back);
      if (out.direct == 0 || back.direct == 0) continue;
      MUST(peer_enable, i, k);
      MUST(peer_enable, k, i);
      reach[i][k] = true;
    }
  }
  return {};
}

Outcome Common::make_shared() {
  for (uint32_t i = 0; i <= devices.size(); ++i) {
    auto cell = std::make_unique<Shared>();
    cell->holds.resize(shared_bytes);
    cell->device = i;
    make_pattern(cell->holds, i);
    if (i < devices.size()) {
      Mover mover(t, i);
      cell->plain = std::make_unique<Plain>(t, i);
      TRY(cell->plain->allocate(shared_bytes));
      TRY(mover.make(shared_bytes));
      TRY(mover.write(cell->plain->address(), shared_bytes, i));
      cell->address = cell->plain->address();
    } else {
      cell->pinned = std::make_unique<Pinned>(t);
      TRY(cell->pinned->allocate(shared_bytes));
      make_pattern(cell->pinned->bytes(), i);
      cell->address = cell->pinned->address();
    }
    shared.push_back(std::move(cell));
  }
  return {};
}

Outcome Common::end_shared() {
  const auto look = [&](Shared &cell) -> Outcome {
    if (cell.write) TRY(cell.write->fence.wait());
    for (const MarkPointer &mark : cell.reads) TRY(mark->fence.wait());
    if (cell.pinned)
      return check_same(cell.pinned->bytes(), cell.holds, "the cell of all threads in host memory");
    Mover mover(t, cell.device);
    TRY(mover.make(shared_bytes));
    TRY(mover.read(cell.address, shared_bytes));
    return check_same(mover.staging.bytes(), cell.holds,
                      words("the cell of all threads on device ", cell.device));
  };
  for (const auto &cell : shared) {
    const Outcome outcome = look(*cell);
    if (!outcome.passed())
      return Outcome::failure(outcome.text() + lines("the cell's history:", cell->history));
  }
  shared.clear();
  return {};
}

// ---- an actor

Actor::Actor(Common &common, uint32_t index, uint64_t seed)
    : common_(common), t(common.t), index_(index), random_(seed) {}

Actor::~Actor() {
  // After a failure: nothing is asked any more, but nothing may use what ends.
  if (gate_) {
    gate_.reset();
    common_.turns.end_gate();
  }
  for (const auto &lane : lanes_)
    if (Stream &stream = lane->queue.use(); stream.get() != nullptr)
      (void)CALL(stream_synchronize, stream.get());
  for (const auto &window : windows_)
    if (window->area != nullptr)
      (void)CALL(unmap, window->store->device, window->address, window->bytes);
}

const DeviceFacts &Actor::facts(uint32_t device) const { return common_.devices[device]; }

/// Mostly small, and each power of two as often as the next.
uint64_t Actor::size(uint64_t most) {
  uint64_t bits = 0;
  while ((most >> (bits + 1)) != 0) ++bits;
  return std::min(most, 1 + below(uint64_t{2} << below(bits + 1)));
}

void Actor::say(const std::string &text, Store *one, Store *two) {
  story_.push_back(words("step ", step_, ": ", text));
  if (story_.size() > most_steps_told) story_.pop_front();
  for (Store *store : {one, two}) {
    if (store == nullptr) continue;
    store->history.push_back(story_.back());
    if (store->history.size() > most_history) store->history.pop_front();
  }
}

Outcome Actor::begin() {
  const MemoryTurn turn(common_.turns);
  for (const DeviceFacts &device : common_.devices)
    budget_.push_back(device.budget / common_.threads);
  budget_.push_back(host_budget / common_.threads);
  const uint32_t on = static_cast<uint32_t>(below(common_.devices.size()));
  const uint64_t standing = 8 * facts(on).unit + 2 * mib;
  if (index_ == 0 && budget_[on] > 2 * standing) {
    standing_ = std::make_unique<Standing>(t, on);
    TRY(standing_->make());
    budget_[on] -= standing;
  }
  staging_ = std::make_unique<Pinned>(t);
  TRY(staging_->allocate(staging_bytes));
  TRY(make_areas());
  for (const DeviceFacts &device : common_.devices) TRY(make_lane(device.index, Owner::made));
  for (int i = 0; i < 3; ++i)
    TRY(make_lane(static_cast<uint32_t>(below(common_.devices.size())),
                  every_owner[below(every_owner.size())]));
  for (int i = 0; i < 8; ++i) TRY(allocate());
  return {};
}

Outcome Actor::step() {
  guilty_ = nullptr;
  guilty_shared_ = nullptr;
  const uint64_t choice = below(100);
  if (gate_ && step_ >= gate_ends_) TRY(open_gate());
  if (choice < 70 || gate_) return step_work(choice % 70);
  const MemoryTurn turn(common_.turns);
  return step_memory(choice - 70);
}

Outcome Actor::step_work(uint64_t choice) {
  if (choice < 28) return copy();
  if (choice < 34) return fill();
  if (choice < 42) return batch();
  if (choice < 50) return call();
  if (choice < 53) return touch();
  if (choice < 58) return share();
  if (choice < 62) return ask();
  Lane &lane = any_lane();
  if (choice < 63) {
    MarkPointer mark;
    say(words("a fence of lane ", lane.number));
    return record(lane, &mark);
  }
  if (choice == 65 || choice == 66) {
    say(words("the host waits for lane ", lane.number));
    return synchronize(lane);
  }
  if (choice >= 68) return shut_gate();
  if (marks_.empty()) return {};
  const MarkPointer mark = marks_[below(marks_.size())];
  if (choice < 65) {
    say(words("lane ", lane.number, " waits for a fence of lane ", mark->lane));
    return wait_for(lane, mark);
  }
  say(words("the host waits for a fence of lane ", mark->lane));
  return wait_mark(mark, one_in(2));
}

Outcome Actor::step_memory(uint64_t choice) {
  if (choice < 6) return allocate();
  if (choice < 9) return free_one();
  if (choice < 13) return map_one(nullptr);
  if (choice < 16) return map_run();
  if (choice < 18) return unmap_one();
  if (choice < 20) return unmap_run();
  if (choice < 22) return access_add();
  if (choice < 23) return export_import();
  if (choice < 25) return reserve();
  if (choice < 27) {
    const uint32_t device = static_cast<uint32_t>(below(common_.devices.size()));
    return make_lane(device, every_owner[below(every_owner.size())]);
  }
  if (choice < 29) return end_lane();
  return refuse();
}

/// One of the calls that must be refused, and that it has changed nothing shows in what comes after it.
Outcome Actor::refuse() {
  if (!standing_) return {};
  const std::vector<Refusal> &all = refusals();
  const Refusal &row = all[below(all.size())];
  if (!row.applies(*standing_)) return {};
  say("refused: " + row.text(*standing_));
  TRY(row.judge(*standing_, t.no_device()));
  return told_a_code(t);
}

/// Reads everything, and gives it back in any order.
Outcome Actor::finish() {
  say("all is read and given back");
  const MemoryTurn turn(common_.turns);
  for (const auto &lane : lanes_) TRY(synchronize(*lane));
  // Of lanes that have ended too.
  const std::deque<MarkPointer> marks = marks_;
  for (const MarkPointer &mark : marks) TRY(wait_mark(mark, true));
  // Granules keep what they hold while they are mapped nowhere.
  for (size_t i = 0; i < stores_.size(); ++i)
    if (stores_[i]->maps == 0 && may_map(*stores_[i])) TRY(map_one(stores_[i].get()));
  for (const auto &window : windows_) TRY(look(*window));
  guilty_ = nullptr;
  if (standing_) TRY(standing_->whole());
  standing_.reset();
  while (!stores_.empty()) TRY(free_one());
  CHECK(calls_.empty(), calls_.front()->text, ": it did not run");
  for (const auto &lane : lanes_) TRY(lane->queue.end());
  lanes_.clear();
  for (const MarkPointer &mark : marks_) TRY(mark->fence.wait());
  marks_.clear();
  for (const auto &area : areas_) TRY(area->range.free());
  areas_.clear();
  for (const auto &range : ranges_) TRY(range->free());
  ranges_.clear();
  return staging_->free();
}

Outcome Actor::steps(uint64_t count) {
  TRY(begin());
  for (step_ = 1; step_ <= count && !common_.failed.load(); ++step_) TRY(step());
  common_.steps.fetch_add(step_ - 1);
  return gate_ ? open_gate() : Outcome{};
}

Outcome Actor::run(uint64_t count) {
  Choice choice;
  const ThreadState state(choice, words("thread ", index_, " of the model"));
  return told(steps(count));
}

Outcome Actor::end() {
  Choice choice;
  const ThreadState state(choice, words("the end of thread ", index_, " of the model"));
  return common_.failed.load() ? Outcome{} : told(finish());
}

Outcome Actor::told(const Outcome &outcome) {
  if (outcome.passed()) return {};
  common_.failed.store(true);
  std::string text = words("seed ", t.settings.seed, ", thread ", index_, " of ", common_.threads,
                           ", step ", step_, ": ", outcome.text());
  if (guilty_ != nullptr)
    text += lines(words("cell ", guilty_->number, " until then:"), guilty_->history);
  if (guilty_shared_ != nullptr)
    text += lines("the cell of all threads until then:", guilty_shared_->history);
  return Outcome::failure(text + lines("the last steps:", story_));
}

}  // namespace weir::conformance::model
