// SPDX-License-Identifier: Apache-2.0
//
// Oracle: next uses are found in one walk backwards; the walk forwards keeps the resident blocks in
// an indexed heap by next use. An operation's own blocks are out of the heap while it runs, so they
// are never its victims.
#include "oracle.hpp"

#include <algorithm>
#include <utility>

namespace weir::tool {
namespace {

constexpr uint32_t never = UINT32_MAX;

/// Resident blocks, the farthest next use on top. Positions are kept, so that any block can be
/// taken out.
class FarthestHeap {
 public:
  explicit FarthestHeap(size_t blocks) : position_(blocks, never) {}

  bool empty() const { return heap_.empty(); }
  uint32_t top() const { return heap_.front().block; }
  uint32_t top_next_use() const { return heap_.front().next_use; }

  void insert(uint32_t block, uint32_t next_use) {
    heap_.push_back({next_use, block});
    rise(heap_.size() - 1);
  }
  /// Nothing if it is not there.
  void remove(uint32_t block) {
    const uint32_t at = position_[block];
    if (at == never) return;
    position_[block] = never;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (at == heap_.size()) return;
    heap_[at] = last;
    position_[last.block] = at;
    rise(at);
    sink(position_[last.block]);
  }

 private:
  struct Entry {
    uint32_t next_use;
    uint32_t block;
  };
  void put(size_t at, Entry entry) {
    heap_[at] = entry;
    position_[entry.block] = static_cast<uint32_t>(at);
  }
  void rise(size_t at) {
    const Entry entry = heap_[at];
    while (at > 0 && heap_[(at - 1) / 2].next_use < entry.next_use) {
      put(at, heap_[(at - 1) / 2]);
      at = (at - 1) / 2;
    }
    put(at, entry);
  }
  void sink(size_t at) {
    const Entry entry = heap_[at];
    for (;;) {
      size_t child = 2 * at + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && heap_[child + 1].next_use > heap_[child].next_use) ++child;
      if (heap_[child].next_use <= entry.next_use) break;
      put(at, heap_[child]);
      at = child;
    }
    put(at, entry);
  }

  std::vector<Entry> heap_;
  std::vector<uint32_t> position_;
};

/// For each use event, the next operation that uses its block, or `never`.
std::vector<uint32_t> next_uses(const Plan &plan) {
  std::vector<uint32_t> next(plan.events.size(), never);
  std::vector<uint32_t> upcoming(plan.block_bytes.size(), never);
  for (size_t op = plan.operations.size(); op-- > 0;) {
    const PlanOperation &operation = plan.operations[op];
    for (uint64_t i = operation.body; i < operation.end; ++i)
      if (plan_is_use(plan_kind(plan.events[i]))) next[i] = upcoming[plan_block(plan.events[i])];
    for (uint64_t i = operation.body; i < operation.end; ++i)
      if (plan_is_use(plan_kind(plan.events[i])))
        upcoming[plan_block(plan.events[i])] = static_cast<uint32_t>(op);
  }
  return next;
}

class Oracle {
 public:
  Oracle(const Plan &plan, uint64_t capacity)
      : plan_(plan),
        capacity_(capacity),
        heap_(plan.block_bytes.size()),
        state_(plan.block_bytes.size()) {}

  OracleTraffic run() {
    const std::vector<uint32_t> next = next_uses(plan_);
    for (const PlanOperation &operation : plan_.operations) {
      free_blocks(operation.prelude, operation.body);
      for (uint64_t i = operation.body; i < operation.end; ++i)
        if (plan_is_use(plan_kind(plan_.events[i]))) use(plan_.events[i], next[i]);
      if (!make_room()) ++traffic_.overfull;
      for (const auto &[block, next_use] : pinned_) {
        state_[block].pinned = false;
        heap_.insert(block, next_use);
      }
      pinned_.clear();
      free_blocks(operation.body, operation.end);
    }
    return traffic_;
  }

 private:
  struct State {
    bool resident = false;
    bool pinned = false;
    bool written = false;  ///< it has contents at all
    bool dirty = false;    ///< and the only copy is the resident one
  };

  void use(PlanEvent event, uint32_t next_use) {
    const uint32_t block = plan_block(event);
    const PlanKind kind = plan_kind(event);
    State &state = state_[block];
    if (!state.pinned) {
      state.pinned = true;
      heap_.remove(block);
      pinned_.emplace_back(block, next_use);
    }
    if (!state.resident) {
      state.resident = true;
      resident_bytes_ += plan_.block_bytes[block];
      if (state.written && kind != plan_write) traffic_.fetched += plan_.block_bytes[block];
    }
    if (plan_mode(kind) != plan_read) {
      state.written = true;
      state.dirty = true;
    }
  }

  bool make_room() {
    while (resident_bytes_ > capacity_ && !heap_.empty()) {
      const uint32_t victim = heap_.top();
      State &state = state_[victim];
      if (state.written && !state.dirty) traffic_.dropped_clean += plan_.block_bytes[victim];
      if (state.dirty && heap_.top_next_use() != never)
        traffic_.written_back += plan_.block_bytes[victim];
      state.dirty = false;
      drop(victim);
    }
    return resident_bytes_ <= capacity_;
  }

  void drop(uint32_t block) {
    heap_.remove(block);
    state_[block].resident = false;
    resident_bytes_ -= plan_.block_bytes[block];
  }

  void free_blocks(uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) {
      if (plan_kind(plan_.events[i]) != plan_free) continue;
      const uint32_t block = plan_block(plan_.events[i]);
      if (state_[block].resident) drop(block);
    }
  }

  const Plan &plan_;
  uint64_t capacity_;
  FarthestHeap heap_;
  std::vector<State> state_;
  std::vector<std::pair<uint32_t, uint32_t>> pinned_;
  uint64_t resident_bytes_ = 0;
  OracleTraffic traffic_;
};

}  // namespace

OracleTraffic run_oracle(const Plan &plan, uint64_t capacity) {
  return Oracle(plan, capacity).run();
}

std::optional<double> oracle_slowdown(const OracleTraffic &traffic, double compute_seconds,
                                      double link_bytes_per_second) {
  if (compute_seconds <= 0 || link_bytes_per_second <= 0) return {};
  const double moved = static_cast<double>(std::max(traffic.fetched, traffic.written_back));
  return std::max(compute_seconds, moved / link_bytes_per_second) / compute_seconds;
}

}  // namespace weir::tool
