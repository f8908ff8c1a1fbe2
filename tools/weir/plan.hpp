// SPDX-License-Identifier: Apache-2.0
//
// Plan: a whole trace in memory, checked, groups expanded, sizes scaled, packed in 4 bytes an
// event. Every later step (window, oracle, the runs) walks it. Invariants: an operation's events
// name live blocks only; spans lie inside their blocks.
#pragma once

#include "trace_reader.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weir::tool {

/// One event: block << 3 | kind. The *_span kinds take the next entry of Plan::spans.
using PlanEvent = uint32_t;
enum PlanKind : uint32_t {
  plan_alloc = 0,
  plan_free = 1,
  plan_read = 2,
  plan_write = 3,
  plan_update = 4,
  plan_read_span = 5,
  plan_write_span = 6,
  plan_update_span = 7
};
constexpr PlanKind plan_kind(PlanEvent event) { return static_cast<PlanKind>(event & 7); }
constexpr uint32_t plan_block(PlanEvent event) { return event >> 3; }
constexpr bool plan_is_use(PlanKind kind) { return kind >= plan_read; }
constexpr bool plan_has_span(PlanKind kind) { return kind >= plan_read_span; }
/// The kind of a use without its span.
constexpr PlanKind plan_mode(PlanKind kind) {
  return plan_has_span(kind) ? static_cast<PlanKind>(kind - (plan_read_span - plan_read)) : kind;
}

struct PlanSpan {
  uint64_t offset = 0;
  uint64_t length = 0;
};

/// Events [prelude, body) happen before the operation (host side), [body, next operation's prelude)
/// inside it.
struct PlanOperation {
  uint64_t prelude = 0;
  uint64_t body = 0;
  uint64_t end = 0;
  uint64_t spans = 0;    ///< first span of the body
  uint64_t flops = 0;    ///< as the trace says
  uint64_t touched = 0;  ///< bytes touched, as the trace says (not scaled)
  uint32_t name = 0;     ///< index of Plan::names
};

struct Plan {
  std::string name;
  uint64_t scale = 1;
  uint64_t lines = 0;
  uint64_t use_lines = 0;
  uint64_t stray_uses = 0;         ///< lines outside any operation, left out
  uint64_t uses = 0;               ///< groups expanded
  uint64_t peak_live_bytes = 0;    ///< after scaling
  uint64_t largest_set_bytes = 0;  ///< whole blocks named or born in one operation, after scaling
  std::vector<uint64_t> block_bytes;  ///< after scaling
  std::vector<PlanEvent> events;      ///< those after the last operation come last
  std::vector<PlanSpan> spans;
  std::vector<PlanOperation> operations;
  std::vector<std::string> names;
  std::vector<std::string> notes;  ///< what of a trace of version 2 was left out, in sentences
};

struct PlanOptions {
  uint64_t scale = 1;
  uint64_t limit = UINT64_MAX;  ///< operations to keep; the trace is read no further
  /// An operation that frees a block and goes on is taken for two, and so on: each of them is an operation of the plan. What
  /// is live at once is then never more than the trace's lines say.
  bool steps = false;
  /// Told how much of the file has been read, now and then. May be empty.
  std::function<void(uint64_t bytes, uint64_t of)> progress;
  uint64_t most_uses = TraceLimits::uses;  ///< with groups written out
};

/// Reads and checks the trace. Throws ToolError with line number and text at the first line that
/// breaks a rule.
Plan read_plan(const std::string &path, const PlanOptions &options);
/// The same of a trace that is open.
Plan read_plan(std::unique_ptr<TraceFile> file, const PlanOptions &options);

}  // namespace weir::tool
