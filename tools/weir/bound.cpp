// SPDX-License-Identifier: Apache-2.0
//
// Bound: first the plan is brought to one record a block an operation, with the next ones that need what the block holds; then one
// walk from each cut to the end keeps what a device of the capacity would hold at best.
//
// The bytes of a block that are in memory are taken for interchangeable: a use that needs 10 of 100 bytes finds them if any 10 are
// there. With that the bytes of a block form a stack, whose n-th byte is needed by the next use that needs at least n of them, and
// dropping from what is needed farthest is optimal for every prefix of the run at once.
#include "bound.hpp"

#include "operation_uses.hpp"
#include "versions.hpp"

#include <algorithm>
#include <queue>
#include <utility>

namespace weir::tool {
namespace {

constexpr uint32_t none = UINT32_MAX;
/// Records that all walks together look at, about.
constexpr uint64_t most_work = 48'000'000;
constexpr uint64_t least_cuts = 8;

/// What one operation does with one block.
struct Record {
  uint32_t block = 0;
  uint32_t operation = 0;
  uint64_t needed = 0;        ///< bytes of content that it reads
  uint64_t width = 0;         ///< bytes that have to be in memory meanwhile
  uint64_t written = 0;       ///< bytes that are newer behind it
  uint64_t grown = 0;         ///< of them those that had no content before
  uint64_t gained = 0;        ///< and those that are there without having been read
  uint64_t content = 0;       ///< bytes that have content behind it
  uint64_t gained_up_to = 0;  ///< by this record and all before it of the block
  uint32_t next = none;       ///< the next record that needs content there is behind this one
  uint32_t above = none;      ///< of one that needs content: the next that needs more of it
};

/// All records, in the order of the plan; of operation i those from starts[i] on: first what is written as it is born, from uses[i]
/// on what the operation uses.
struct Records {
  std::vector<Record> all;
  std::vector<uint32_t> starts, uses;

  Records(const Plan &plan, bool touch, Unwritten unwritten);

  /// How many of the bytes that there are behind `at` the later record `by` needs: what was written in between is new.
  uint64_t needed_of(const Record &at, const Record &by) const {
    const uint64_t between = by.gained_up_to - by.gained - at.gained_up_to;
    return std::min(by.needed > between ? by.needed - between : 0, at.content);
  }

 private:
  void add(const BlockUse *first, size_t count, uint32_t operation, Versions &versions,
           uint64_t size);
  void link(size_t blocks);
  /// By this records of a block are compared: what one needs, less all that was written before it. The larger it is, the more of the
  /// bytes that there were earlier it needs.
  int64_t needed_of_old(const Record &record) const {
    return static_cast<int64_t>(record.needed) -
           static_cast<int64_t>(record.gained_up_to - record.gained);
  }
  std::vector<uint64_t> contents_, gains_;  ///< by block
  const bool loaded_;
};

Records::Records(const Plan &plan, bool touch, Unwritten unwritten)
    : contents_(plan.block_bytes.size()),
      gains_(plan.block_bytes.size()),
      loaded_(unwritten == Unwritten::loaded) {
  std::vector<Versions> versions(plan.block_bytes.size());
  UseMerger merger;
  std::vector<BlockUse> merged;
  for (uint32_t i = 0; i < plan.operations.size(); ++i) {
    const PlanOperation &operation = plan.operations[i];
    starts.push_back(static_cast<uint32_t>(all.size()));
    for (uint64_t at = operation.prelude; touch && at < operation.end; ++at) {
      const uint32_t block = plan_block(plan.events[at]);
      const BlockUse birth{0, plan.block_bytes[block], block, UseMode::overwrite};
      if (plan_kind(plan.events[at]) == plan_alloc)
        add(&birth, 1, i, versions[block], plan.block_bytes[block]);
    }
    uses.push_back(static_cast<uint32_t>(all.size()));
    merger.merge(plan, operation, merged);
    for (size_t begin = 0, end = 0; begin < merged.size(); begin = end) {
      const uint32_t block = merged[begin].block;
      while (end < merged.size() && merged[end].block == block) ++end;
      add(&merged[begin], end - begin, i, versions[block], plan.block_bytes[block]);
    }
  }
  starts.push_back(static_cast<uint32_t>(all.size()));
  link(plan.block_bytes.size());
}

void Records::add(const BlockUse *first, size_t count, uint32_t operation, Versions &versions,
                  uint64_t size) {
  Record record;
  record.block = first->block;
  record.operation = operation;
  uint64_t &content = contents_[record.block];
  for (size_t i = 0; i < count; ++i) {
    const BlockUse &use = first[i];
    uint64_t old = 0;
    versions.read(use.offset, use.length, [&](uint64_t, uint64_t bytes, uint32_t version) {
      if (version != 0) old += bytes;
    });
    record.width += use.length;
    if (use.mode != UseMode::overwrite) record.needed += old;
    if (use.mode == UseMode::read && !loaded_) continue;
    if (use.mode == UseMode::read) {
      // It has been found there. No newer than below, so it is not written.
      record.gained += use.length - old;
      content += use.length - old;
      versions.write(use.offset, use.length, size, 1);
      continue;
    }
    record.written += use.length;
    record.grown += use.length - old;
    record.gained += use.mode == UseMode::overwrite ? use.length : use.length - old;
    versions.write(use.offset, use.length, size, 1);
  }
  content += record.grown;
  record.content = content;
  record.gained_up_to = gains_[record.block] += record.gained;
  all.push_back(record);
}

/// Backwards: of each block the records that need content, each of them of more than those before it on the stack do.
void Records::link(size_t blocks) {
  std::vector<std::vector<uint32_t>> stacks(blocks);
  for (auto at = static_cast<uint32_t>(all.size()); at-- > 0;) {
    Record &record = all[at];
    std::vector<uint32_t> &stack = stacks[record.block];
    if (!stack.empty()) record.next = stack.back();
    if (record.needed == 0) continue;
    while (!stack.empty() && needed_of_old(all[stack.back()]) <= needed_of_old(record))
      stack.pop_back();
    if (!stack.empty()) record.above = stack.back();
    stack.push_back(at);
  }
}

/// Bytes of a block in memory that the same operation needs next.
struct Layer {
  uint32_t operation;
  uint64_t bytes;
};

/// A device of the capacity from one operation on, with what is in its memory there chosen best.
class Walk {
 public:
  Walk(const Plan &plan, const Records &records, uint64_t capacity)
      : plan_(plan), records_(records), capacity_(capacity), blocks_(plan.block_bytes.size()) {}

  /// Before operation `first`: `last` is of each block the last record before it, or none where it has none or is dead.
  void begin(const std::vector<uint32_t> &last) {
    farthest_ = {};
    held_ = fetched_ = sent_ = dirty_ = 0;
    for (uint32_t block = 0; block < blocks_.size(); ++block) {
      blocks_[block].layers.clear();
      blocks_[block].written = blocks_[block].dirty = 0;
      if (last[block] == none) continue;
      hold(records_.all[last[block]], records_.all[last[block]].content);
    }
    trim(capacity_);
  }

  void step(uint32_t index) {
    const PlanOperation &operation = plan_.operations[index];
    release(operation.prelude, operation.body);
    const uint32_t begin = records_.uses[index], end = records_.starts[index + 1];
    for (uint32_t i = records_.starts[index]; i < begin; ++i) {
      (void)write(records_.all[i]);
      hold(records_.all[i], records_.all[i].content);
    }
    uint64_t set = 0, clean = 0;
    found_.clear();
    for (uint32_t i = begin; i < end; ++i) {
      const Record &record = records_.all[i];
      const uint64_t there = take(record.block);
      found_.push_back(there);
      if (there < record.needed) fetched_ += record.needed - there;
      set += record.width;
      const uint64_t dirty = write(record);
      if (record.width > dirty) clean += record.width - dirty;
    }
    // What is left of the memory beside the set holds some of what was written and is read later; the rest has gone down.
    if (dirty_ + clean > capacity_) sent_ = std::max(sent_, dirty_ + clean - capacity_);
    trim(capacity_ - std::min(set, capacity_));
    for (uint32_t i = begin; i < end; ++i) {
      const Record &record = records_.all[i];
      hold(record, std::max(found_[i - begin], record.needed) + record.gained);
    }
    release(operation.body, operation.end);
    trim(capacity_);
  }

  uint64_t fetched() const { return fetched_; }
  uint64_t sent() const { return sent_; }

 private:
  struct Block {
    std::vector<Layer> layers;  ///< what is in memory, by the operations that need it
    uint64_t written = 0;       ///< bytes written since the beginning, at least
    uint64_t dirty = 0;         ///< of these what is read later, at least
  };

  /// The block has up to `bytes` of its content in memory, as far as it is needed.
  void hold(const Record &record, uint64_t bytes) {
    bytes = std::min(bytes, record.content);
    std::vector<Layer> &layers = blocks_[record.block].layers;
    uint64_t below = 0;
    for (uint32_t by = record.next; by != none && below < bytes; by = records_.all[by].above) {
      const uint64_t needed = std::min(records_.needed_of(record, records_.all[by]), bytes);
      if (needed <= below) continue;
      layers.push_back({records_.all[by].operation, needed - below});
      held_ += needed - below;
      below = needed;
    }
    if (!layers.empty()) farthest_.emplace(layers.back().operation, record.block);
  }

  /// The block's bytes are not to be dropped; returns how many there are.
  uint64_t take(uint32_t block) {
    uint64_t bytes = 0;
    for (const Layer &layer : blocks_[block].layers) bytes += layer.bytes;
    blocks_[block].layers.clear();
    held_ -= bytes;
    return bytes;
  }

  /// Returns the bytes of the block that were written since the beginning and are read later, at least.
  uint64_t write(const Record &record) {
    Block &block = blocks_[record.block];
    block.written =
        std::min(std::max(block.written + record.grown, record.written), record.content);
    const uint64_t read =
        record.next != none ? records_.needed_of(record, records_.all[record.next]) : 0;
    dirty_ -= block.dirty;
    block.dirty = block.written + read > record.content ? block.written + read - record.content : 0;
    dirty_ += block.dirty;
    return block.dirty;
  }

  void trim(uint64_t room) {
    while (held_ > room && !farthest_.empty()) {
      const auto [operation, block] = farthest_.top();
      std::vector<Layer> &layers = blocks_[block].layers;
      if (layers.empty() || layers.back().operation != operation) {
        farthest_.pop();
        continue;
      }
      const uint64_t bytes = std::min(held_ - room, layers.back().bytes);
      held_ -= bytes;
      layers.back().bytes -= bytes;
      if (layers.back().bytes != 0) continue;
      farthest_.pop();
      layers.pop_back();
      if (!layers.empty()) farthest_.emplace(layers.back().operation, block);
    }
  }

  void release(uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) {
      if (plan_kind(plan_.events[i]) != plan_free) continue;
      Block &block = blocks_[plan_block(plan_.events[i])];
      (void)take(plan_block(plan_.events[i]));
      dirty_ -= block.dirty;
      block.written = block.dirty = 0;
    }
  }

  const Plan &plan_;
  const Records &records_;
  const uint64_t capacity_;
  std::vector<Block> blocks_;
  std::priority_queue<std::pair<uint32_t, uint32_t>>
      farthest_;  ///< operation and block; those that are over are passed by
  std::vector<uint64_t> found_;
  uint64_t held_ = 0, fetched_ = 0, sent_ = 0, dirty_ = 0;
};

/// Operations at which the run is cut, the first and the end among them: about as much time, and as many operations, between each two.
std::vector<uint32_t> cut(const std::vector<double> &times, uint64_t cuts) {
  const auto count = static_cast<uint32_t>(times.size() - 1);
  const double share = times[count] / count, whole = 2 * times[count];
  std::vector<uint32_t> at{0};
  for (uint32_t i = 1; i < count; ++i) {
    const double done = whole > 0 ? (times[i] + share * i) / whole : static_cast<double>(i) / count;
    if (done * static_cast<double>(cuts) >= static_cast<double>(at.size())) at.push_back(i);
  }
  at.push_back(count);
  return at;
}

/// Of each block the last record before an operation, while it lives: as the cuts go by.
class LastRecords {
 public:
  LastRecords(const Plan &plan, const Records &records)
      : plan_(plan), records_(records), last_(plan.block_bytes.size(), none) {}

  const std::vector<uint32_t> &before(uint32_t operation) {
    for (; next_ < operation; ++next_) {
      for (uint32_t i = records_.starts[next_]; i < records_.starts[next_ + 1]; ++i)
        last_[records_.all[i].block] = i;
      const PlanOperation &passed = plan_.operations[next_];
      for (uint64_t i = passed.prelude; i < passed.end; ++i)
        if (plan_kind(plan_.events[i]) == plan_free) last_[plan_block(plan_.events[i])] = none;
    }
    return last_;
  }

 private:
  const Plan &plan_;
  const Records &records_;
  std::vector<uint32_t> last_;
  uint32_t next_ = 0;
};

}  // namespace

Bound least_time(const Plan &plan, uint64_t capacity, const Pace &pace, bool touch, uint32_t cuts,
                 Unwritten unwritten) {
  Bound bound;
  if (plan.operations.empty()) return bound;
  std::vector<double> times{0};
  for (const PlanOperation &operation : plan.operations)
    times.push_back(times.back() + static_cast<double>(pace.nanoseconds(plan, operation)) * 1e-9);
  const Records records(plan, touch, unwritten);
  const uint64_t affordable = most_work / std::max<uint64_t>(records.all.size(), 1);
  const std::vector<uint32_t> at =
      cut(times, std::min<uint64_t>(cuts, std::max(affordable, least_cuts)));
  const double link = pace.link_bandwidth();
  std::vector<double> least(at.size());
  LastRecords last(plan, records);
  Walk walk(plan, records, capacity);
  for (size_t from = 0; from + 1 < at.size(); ++from) {
    walk.begin(last.before(at[from]));
    for (size_t to = from + 1; to < at.size(); ++to) {
      for (uint32_t i = at[to - 1]; i < at[to]; ++i) walk.step(i);
      const auto moved = static_cast<double>(std::max(walk.fetched(), walk.sent()));
      least[to] = std::max(least[to],
                           least[from] + std::max(times[at[to]] - times[at[from]], moved / link));
    }
    if (from == 0) bound.fetched = walk.fetched();
  }
  bound.simple_seconds = std::max(times.back(), static_cast<double>(bound.fetched) / link);
  bound.seconds = least.back();
  return bound;
}

}  // namespace weir::tool
