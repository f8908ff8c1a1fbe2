// SPDX-License-Identifier: Apache-2.0
//
// A thread of the pool's fuzzer that repeats itself, as programs do that a policy can learn: a round of operations, drawn once, is run
// again and again, with changes now and then, and with random calls in between. Its announcements are wrong, or of the next round; some
// of its names are no operation's.
#pragma once

#include "tests/fuzz/worker.hpp"

namespace weir::fuzz {

class Rounds : public Worker {
 public:
  using Worker::Worker;

  void run(int steps) {
    begin();
    draw_round();
    size_t at = 0;
    for (int i = 0; i < steps && failures.load() == 0; ++i, at = (at + 1) % round_.size()) {
      if (world_.disturbed) {
        if (below(16) == 0) step();
        if (below(24) == 0) change();
        if (below(40) == 0) announce_round();
        if (below(80) == 0) announce_nonsense();
      }
      do_operation(round_[at]);
    }
    end();
  }

 private:
  static constexpr uint32_t lasting = 16, passing = 6;  ///< tags of buffers

  struct Use {
    uint32_t tag;
    uint32_t mode;
    bool part;
  };
  struct Operation {
    size_t slot = 0;
    uint32_t id = 0;
    std::string name;  ///< told where there is no id
    std::vector<Use> uses;
    std::vector<uint32_t> deaths;  ///< tags, after it
  };

  /// Lasting buffers in turn, and buffers that are written by one operation, read by others and destroyed.
  void draw_round() {
    const size_t count = 20 + below(30);
    const size_t own_stream = below(streams_.size() - 1);
    for (size_t i = 0; i < count; ++i) {
      Operation operation;
      operation.slot = below(4) == 0 ? below(streams_.size() - 1) : own_stream;
      name(&operation);
      operation.uses.push_back({static_cast<uint32_t>(i % lasting), draw_mode(), false});
      if (below(2) == 0)
        operation.uses.push_back(
            {static_cast<uint32_t>(below(lasting)), draw_mode(), below(4) == 0});
      const auto tag = static_cast<uint32_t>(lasting + i * passing / count);
      if (below(2) == 0) operation.uses.push_back({tag, draw_mode(), false});
      if ((i + 1) * passing / count > i * passing / count) operation.deaths.push_back(tag);
      round_.push_back(std::move(operation));
    }
  }
  uint32_t draw_mode() {
    const uint64_t kind = below(10);
    return kind < 5 ? WEIR_READ : kind < 8 ? WEIR_READ_WRITE : WEIR_DISCARD_WRITE;
  }
  /// By a number, by a name, or not at all.
  void name(Operation *operation) {
    const std::string text = "operation" + std::to_string(below(1000));
    operation->id = 0;
    operation->name.clear();
    const uint64_t kind = below(8);
    if (kind < 5)
      expect(weir_operation_id(world_.pool, text.c_str(), &operation->id), "operation_id");
    else if (kind < 7)
      operation->name = text;
  }

  /// The buffer that plays that part, made anew where it has been destroyed: each time of the same kind.
  size_t find(uint32_t tag) {
    for (size_t b = 0; b < models_.size(); ++b)
      if (models_[b].tag == tag) return b;
    const size_t before = models_.size();
    std::mt19937_64 always(world_.seed * 64 + tag);
    std::swap(always, random_);
    for (int tries = 0; models_.size() == before && tries < 8; ++tries) create();
    std::swap(always, random_);
    if (models_.size() != before) models_.back().tag = tag;
    return before;
  }

  void do_operation(const Operation &operation) {
    Set set;
    set.slot = operation.slot;
    for (const Use &use : operation.uses) {
      const size_t b = find(use.tag);
      if (b == models_.size()) return;
      weir_use *added = add_use(&set, b, use.mode);
      if (added == nullptr) continue;
      if (use.part) added->length = (models_[b].bytes.size() + 1) / 2;
      if (world_.disturbed) added->flags = WEIR_USE_ALLOW_REMOTE;
    }
    set.options.operation_id = operation.id;
    if (!operation.name.empty()) set.options.operation = operation.name.c_str();
    if (world_.disturbed && below(50) == 0) {
      set.options.operation_id = never_given();
      set.known = false;
    }
    if (take(std::move(set)) && (open_.size() > 2 || !world_.disturbed || below(8) != 0))
      close_lease(open_.size() - 1);
    // The program does not run ahead of whoever learns it.
    if (below(4) == 0)
      expect(weir_stream_synchronize(streams_[operation.slot]), "stream_synchronize");
    for (const uint32_t tag : operation.deaths) {
      const auto found = std::find_if(models_.begin(), models_.end(),
                                      [tag](const Model &model) { return model.tag == tag; });
      if (found != models_.end()) destroy(static_cast<size_t>(found - models_.begin()));
    }
  }
  uint32_t never_given() { return 1'000'000 + static_cast<uint32_t>(below(1U << 31U)); }

  /// The round is another from now on, in one place.
  void change() {
    Operation &operation = round_[below(round_.size())];
    switch (below(5)) {
      case 0:
        operation.slot = below(streams_.size());
        return;
      case 1:
        return name(&operation);
      case 2:
        return std::swap(operation, round_[below(round_.size())]);
      case 3:
        operation.uses[0] = {static_cast<uint32_t>(below(lasting + passing)), draw_mode(),
                             below(2) == 0};
        return;
      default:
        std::swap(operation.uses, round_[below(round_.size())].uses);
    }
  }

  void announce(size_t slot, const std::vector<Operation> &operations) {
    std::vector<std::vector<weir_use>> uses(operations.size());
    std::vector<weir_operation> told;
    for (size_t i = 0; i < operations.size(); ++i) {
      for (const Use &use : operations[i].uses) {
        const size_t b = find(use.tag);
        if (b != models_.size()) uses[i].push_back(WEIR_USE(models_[b].handle, use.mode));
      }
      told.push_back(WEIR_OPERATION_INIT);
      told.back().uses = uses[i].data();
      told.back().use_count = uses[i].size();
      told.back().operation_id = operations[i].id;
    }
    const uint64_t flags = below(2) == 0 ? WEIR_ANNOUNCE_REPLACE : 0;
    expect(weir_announce(world_.pool, streams_[slot], told.data(), told.size(), flags), "announce");
  }
  /// The next rounds, as if they were all on one stream: out of step with those that are not.
  void announce_round() {
    std::vector<Operation> coming;
    for (uint64_t rounds = 1 + below(6); rounds != 0; --rounds)
      coming.insert(coming.end(), round_.begin(), round_.end());
    announce(round_[0].slot % (streams_.size() - 1), coming);
  }
  /// Enough for a plan.
  void announce_nonsense() {
    std::vector<Operation> coming(1 + below(300));
    for (Operation &operation : coming)
      for (uint64_t uses = below(4); uses != 0; --uses)
        operation.uses.push_back(
            {static_cast<uint32_t>(below(lasting + passing)), draw_mode(), false});
    announce(below(streams_.size() - 1), coming);
    weir_operation unknown = WEIR_OPERATION_INIT;
    unknown.operation_id = never_given();
    if (weir_announce(world_.pool, streams_[0], &unknown, 1, 0) != WEIR_ERROR_INVALID_ARGUMENT)
      report("a number was announced that no operation has", world_.seed);
  }

  std::vector<Operation> round_;
};

}  // namespace weir::fuzz
