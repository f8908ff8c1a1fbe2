// SPDX-License-Identifier: Apache-2.0
//
// A trace as a policy sees it: operations with their uses, the buffers born before each and those that die after it. It can be done
// several times, each with fresh buffers; buffers get the lowest number that is free, as a pool gives them.
#pragma once

#include "core/policy/program_log.hpp"
#include "tools/weir/plan.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <vector>

namespace weir::test {

struct TraceOperation {
  uint32_t name = 0;
  std::vector<policy::ObservedUse> uses;  ///< `buffer` is the trace's block
  std::vector<uint32_t> births, deaths;
};

struct TraceProgram {
  std::vector<TraceOperation> operations;
  std::vector<uint64_t> bytes;  ///< by block
};

/// One use of a block by the operation, whatever lines it has.
inline void add_use(const tool::Plan &plan, tool::PlanEvent event, tool::PlanSpan span,
                    std::vector<policy::ObservedUse> *uses) {
  using namespace policy;
  const uint32_t block = tool::plan_block(event);
  const auto mode = tool::plan_mode(tool::plan_kind(event));
  const bool whole =
      mode == tool::plan_write && span.offset == 0 && span.length == plan.block_bytes[block];
  uint8_t does = mode == tool::plan_read    ? use_needs
                 : mode == tool::plan_write ? use_writes
                                            : use_needs | use_writes;
  const auto found = std::find_if(uses->begin(), uses->end(),
                                  [block](const ObservedUse &use) { return use.buffer == block; });
  if (found == uses->end()) {
    if (whole) does |= use_whole;
    uses->push_back({block, does, span.offset, span.offset + span.length});
    return;
  }
  if ((found->mode & use_whole) != 0) does &= static_cast<uint8_t>(~use_needs);
  found->mode |= does;
  found->begin = std::min(found->begin, span.offset);
  found->end = std::max(found->end, span.offset + span.length);
}

/// Throws ToolError.
inline TraceProgram read_program(const std::string &path) {
  const tool::Plan plan = tool::read_plan(path, {});
  TraceProgram program;
  program.bytes = plan.block_bytes;
  program.operations.resize(plan.operations.size());
  for (size_t index = 0; index < plan.operations.size(); ++index) {
    const tool::PlanOperation &from = plan.operations[index];
    TraceOperation &to = program.operations[index];
    to.name = from.name + 1;
    uint64_t span = from.spans;
    const uint64_t end =
        index + 1 < plan.operations.size() ? plan.operations[index + 1].prelude : from.end;
    for (uint64_t at = from.prelude; at < end; ++at) {
      const tool::PlanEvent event = plan.events[at];
      const tool::PlanKind kind = tool::plan_kind(event);
      const uint32_t block = tool::plan_block(event);
      if (kind == tool::plan_alloc) {
        // A buffer made after the operation's end is the next one's.
        const bool later = at >= from.end && index + 1 < plan.operations.size();
        (later ? program.operations[index + 1] : to).births.push_back(block);
      } else if (kind == tool::plan_free) {
        (at < from.body && index != 0 ? program.operations[index - 1] : to).deaths.push_back(block);
      } else if (at >= from.body && at < from.end) {
        tool::PlanSpan range{0, plan.block_bytes[block]};
        if (tool::plan_has_span(kind)) range = plan.spans[span++];
        add_use(plan, event, range, &to.uses);
      }
    }
  }
  return program;
}

/// Gives and takes back the numbers of buffers.
class BufferNumbers {
 public:
  uint32_t take() {
    if (free_.empty()) return count_++;
    const uint32_t number = free_.top();
    free_.pop();
    return number;
  }
  void give(uint32_t number) { free_.push(number); }

 private:
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> free_;
  uint32_t count_ = 0;
};

}  // namespace weir::test
