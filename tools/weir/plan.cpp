// SPDX-License-Identifier: Apache-2.0
//
// The pre-pass: checks what the lines of a trace mean together and packs them. One class holds the
// state of the checks, so that the finished Plan carries nothing but what replay needs.
#include "plan.hpp"

#include "error.hpp"
#include "trace_reader.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace weir::tool {
namespace {

using Kind = TraceEvent::Kind;

class PlanBuilder {
 public:
  PlanBuilder(std::unique_ptr<TraceFile> file, const PlanOptions &options)
      : reader_(std::move(file)), options_(options) {
    plan_.scale = options.scale;
  }

  Plan build() {
    TraceEvent event;
    while (reader_.next(event)) {
      if (event.kind == Kind::operation && operations_ == options_.limit) break;
      take(event);
      if (options_.progress && (reader_.line_number() & 0x1ffff) == 0)
        options_.progress(reader_.source().bytes_read(), reader_.source().file_bytes());
    }
    end_operation();
    plan_.name = reader_.name();
    plan_.lines = reader_.line_number();
    plan_.notes = reader_.notes();
    return std::move(plan_);
  }

 private:
  void take(const TraceEvent &event) {
    switch (event.kind) {
      case Kind::alloc:
        alloc(event);
        break;
      case Kind::free:
        free(event);
        break;
      case Kind::operation:
        operation(event);
        break;
      case Kind::end:
        if (!in_operation_) reader_.refuse("the end of an operation outside one");
        end_operation();
        break;
      case Kind::use:
        use(event);
        break;
      case Kind::use_group:
        use_group(event);
        break;
      case Kind::join:
        join(event);
        break;
      case Kind::dissolve:
        dissolve(event);
        break;
      case Kind::phase:
        break;
      case Kind::time:
        if (event.id < last_time_) reader_.refuse("the clock goes backwards");
        last_time_ = event.id;
        break;
    }
  }

  bool live(uint64_t block) const { return block < live_.size() && live_[block] != 0; }
  uint64_t scaled(uint64_t bytes) const { return (bytes + plan_.scale - 1) / plan_.scale; }

  void add(uint32_t block, PlanKind kind) { plan_.events.push_back(block << 3 | kind); }

  void alloc(const TraceEvent &event) {
    step();
    if (event.id != bytes_.size())
      reader_.refuse("block ids must be 0, 1, 2, ... in order of allocation");
    if (event.id >= UINT32_MAX >> 3)
      reader_.refuse("more blocks than this program can hold (2^29)");
    if (const char *reason = counted_.add(event.bytes)) reader_.refuse(reason);
    bytes_.push_back(event.bytes);
    live_.push_back(1);
    groups_of_.push_back(0);
    stamp_.push_back(UINT64_MAX);
    plan_.block_bytes.push_back(scaled(event.bytes));
    const auto block = static_cast<uint32_t>(event.id);
    add(block, plan_alloc);
    live_bytes_ += plan_.block_bytes[block];
    plan_.peak_live_bytes = std::max(plan_.peak_live_bytes, live_bytes_);
    count_in_set(block);
  }

  void free(const TraceEvent &event) {
    if (!live(event.id)) reader_.refuse("free of a block that is not live");
    if (groups_of_[event.id] != 0) reader_.refuse("free of a block that is still in a group");
    live_[event.id] = 0;
    const auto block = static_cast<uint32_t>(event.id);
    add(block, plan_free);
    freed_ = in_operation_;
    live_bytes_ -= plan_.block_bytes[block];
    counted_.remove(bytes_[block]);
  }

  void operation(const TraceEvent &event) {
    if (event.id != operations_) reader_.refuse("operation indices must be 0, 1, 2, ... in order");
    if (event.id >= UINT32_MAX - 1)
      reader_.refuse("more operations than this program can hold (2^32)");
    if (event.bytes > TraceLimits::flops) reader_.refuse("more than 10^16 flops in one operation");
    end_operation();
    ++operations_;
    begin_operation(event.bytes, intern(event.text));
  }

  void begin_operation(uint64_t flops, uint32_t name) {
    in_operation_ = true;
    set_bytes_ = 0;
    PlanOperation &operation = plan_.operations.emplace_back();
    operation.prelude = prelude_;
    operation.body = plan_.events.size();
    operation.spans = plan_.spans.size();
    operation.flops = flops;
    operation.name = name;
  }

  /// With steps: what the operation has freed by now is gone before it goes on.
  void step() {
    if (!options_.steps || !in_operation_ || !freed_) return;
    const uint32_t name = plan_.operations.back().name;
    end_operation();
    begin_operation(0, name);
  }

  void end_operation() {
    if (!in_operation_) return;
    in_operation_ = false;
    freed_ = false;
    plan_.operations.back().end = plan_.events.size();
    prelude_ = plan_.events.size();
  }

  static PlanKind kind_of(char mode) {
    return mode == 'r' ? plan_read : mode == 'w' ? plan_write : plan_update;
  }

  void use(const TraceEvent &event) {
    if (!live(event.id)) reader_.refuse("use of a block that is not live");
    const auto block = static_cast<uint32_t>(event.id);
    const uint64_t bytes = bytes_[block];
    if (event.span) check_span(event, bytes);
    if (!counts()) return;
    step();
    const PlanKind kind = kind_of(event.mode);
    count_uses(1);
    count_in_set(block);
    if (!event.span) {
      add(block, kind);
      plan_.operations.back().touched += bytes;
      return;
    }
    plan_.operations.back().touched += event.touched;
    const uint64_t begin = event.offset / plan_.scale;
    const uint64_t end = std::min(scaled(event.offset + event.length), plan_.block_bytes[block]);
    if (begin == 0 && end == plan_.block_bytes[block]) {
      add(block, kind);
      return;
    }
    add(block, static_cast<PlanKind>(kind + (plan_read_span - plan_read)));
    plan_.spans.push_back({begin, end - begin});
  }

  void check_span(const TraceEvent &event, uint64_t bytes) const {
    if (event.length == 0 || event.length > bytes || event.offset > bytes - event.length)
      reader_.refuse("a use outside its block of " + std::to_string(bytes) + " bytes");
    if (event.touched > event.length) reader_.refuse("more bytes touched than the span has");
  }

  /// A use outside an operation is part of no acquire. The format allows the line, so it is counted
  /// and left out.
  bool counts() {
    if (in_operation_)
      ++plan_.use_lines;
    else
      ++plan_.stray_uses;
    return in_operation_;
  }

  void use_group(const TraceEvent &event) {
    const auto group = groups_.find(event.id);
    if (group == groups_.end()) reader_.refuse("use of an unknown group");
    if (!counts()) return;
    step();
    const PlanKind kind = kind_of(event.mode);
    count_uses(group->second.size());
    for (const uint32_t block : group->second) {
      add(block, kind);
      plan_.operations.back().touched += bytes_[block];
      count_in_set(block);
    }
  }

  /// A few lines can stand for any number of uses: a group counts with all its members, each time.
  void count_uses(uint64_t more) {
    if (more > options_.most_uses - plan_.uses)
      reader_.refuse("more than " + std::to_string(options_.most_uses) +
                     " uses, with groups written out");
    plan_.uses += more;
  }

  void join(const TraceEvent &event) {
    if (!live(event.bytes)) reader_.refuse("a group member that is not live");
    groups_[event.id].push_back(static_cast<uint32_t>(event.bytes));
    ++groups_of_[event.bytes];
  }

  void dissolve(const TraceEvent &event) {
    const auto group = groups_.find(event.id);
    if (group == groups_.end()) reader_.refuse("dissolving an unknown group");
    for (const uint32_t block : group->second) --groups_of_[block];
    groups_.erase(group);
  }

  void count_in_set(uint32_t block) {
    if (!in_operation_) return;
    const uint64_t current = plan_.operations.size();
    if (stamp_[block] == current) return;
    stamp_[block] = current;
    set_bytes_ += plan_.block_bytes[block];
    plan_.largest_set_bytes = std::max(plan_.largest_set_bytes, set_bytes_);
  }

  uint32_t intern(std::string_view text) {
    name_.assign(text);
    const auto [entry, fresh] =
        name_index_.try_emplace(name_, static_cast<uint32_t>(plan_.names.size()));
    if (fresh) plan_.names.push_back(name_);
    return entry->second;
  }

  TraceReader reader_;
  const PlanOptions &options_;
  Plan plan_;
  std::vector<uint64_t> bytes_;  ///< as the trace says
  std::vector<uint8_t> live_;
  std::vector<uint32_t> groups_of_;
  std::vector<uint64_t> stamp_;  ///< the last operation (counted from 1) whose set has the block
  std::unordered_map<uint64_t, std::vector<uint32_t>> groups_;
  std::unordered_map<std::string, uint32_t> name_index_;
  std::string name_;
  TraceBytes counted_;
  uint64_t live_bytes_ = 0;
  uint64_t set_bytes_ = 0;
  uint64_t prelude_ = 0;
  uint64_t last_time_ = 0;
  uint64_t operations_ = 0;  ///< of the trace
  bool in_operation_ = false;
  bool freed_ = false;  ///< within the current operation
};

}  // namespace

Plan read_plan(const std::string &path, const PlanOptions &options) {
  return read_plan(std::make_unique<TraceFile>(path), options);
}

Plan read_plan(std::unique_ptr<TraceFile> file, const PlanOptions &options) {
  return PlanBuilder(std::move(file), options).build();
}

}  // namespace weir::tool
