// SPDX-License-Identifier: Apache-2.0
//
// A trace as a program for the tests of the policy: what an operation does with one buffer becomes one use.
#pragma once

#include "tests/unit/policy_program.hpp"
#include "tools/weir/replayer.hpp"

#include <vector>

namespace weir::test {

/// The trace so many times, each with buffers of its own; what lives at its end dies with its last operation.
inline Program program_of(const tool::Plan &plan, const tool::Pace &pace, uint32_t passes,
                          uint64_t page) {
  Program program;
  const auto blocks = static_cast<uint32_t>(plan.block_bytes.size());
  std::vector<uint32_t> buffer(blocks), slot(blocks), seen(blocks, UINT32_MAX);
  std::vector<uint8_t> live(blocks);
  std::vector<ProgramUse> uses;
  std::vector<uint32_t> deaths;
  uint32_t stamp = 0;
  const auto die = [&](uint32_t block) {
    if (live[block] != 0) deaths.push_back(buffer[block]);
    live[block] = 0;
  };
  for (uint32_t pass = 0; pass < passes; ++pass) {
    for (const tool::PlanOperation &operation : plan.operations) {
      uses.clear();
      deaths.clear();
      ++stamp;
      uint64_t span = operation.spans;
      for (uint64_t at = operation.prelude; at < operation.end; ++at) {
        const tool::PlanEvent event = plan.events[at];
        const uint32_t block = tool::plan_block(event);
        const tool::PlanKind kind = tool::plan_kind(event);
        if (kind == tool::plan_alloc) {
          buffer[block] = program.birth(plan.block_bytes[block]);
          live[block] = 1;
        } else if (kind == tool::plan_free) {
          die(block);
        } else {
          uint64_t offset = 0, length = plan.block_bytes[block];
          if (tool::plan_has_span(kind)) {
            offset = plan.spans[span].offset;
            length = plan.spans[span].length;
            ++span;
          }
          if (seen[block] != stamp) {
            seen[block] = stamp;
            slot[block] = static_cast<uint32_t>(uses.size());
            uses.push_back({buffer[block], false, false, false, UINT64_MAX, 0, UINT64_MAX});
            uses.back().whole =
                tool::plan_mode(kind) == tool::plan_write && length == plan.block_bytes[block];
          }
          ProgramUse &use = uses[slot[block]];
          const tool::PlanKind mode = tool::plan_mode(kind);
          if (mode != tool::plan_write && !use.whole) use.needs = true;
          if (mode != tool::plan_read) {
            use.writes = true;
            use.write_from = std::min(use.write_from, offset);
          }
          const uint64_t from = mode == tool::plan_write ? offset / page * page : offset;
          use.begin = std::min(use.begin, from);
          use.end = std::max(use.end, offset + length);
        }
      }
      if (&operation == &plan.operations.back()) {
        for (uint32_t block = 0; pass + 1 < passes && block < blocks; ++block) die(block);
      } else {  // what is freed before the next operation dies with this one
        const tool::PlanOperation &next = *(&operation + 1);
        for (uint64_t at = next.prelude; at < next.body; ++at)
          if (tool::plan_kind(plan.events[at]) == tool::plan_free)
            die(tool::plan_block(plan.events[at]));
      }
      program.operation(pace.seconds(plan, operation) * 1e9, uses, deaths);
    }
    std::fill(live.begin(), live.end(), uint8_t{0});
  }
  return program;
}

}  // namespace weir::test
