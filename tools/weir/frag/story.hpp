// SPDX-License-Identifier: Apache-2.0
//
// Story: what a trace says about its blocks, as a drawing needs it: when each is born and freed, its size and tag, which
// operation and phase an instant falls into. Uses are left out. Times are counts: of allocations and frees done so far
// (Clock::events), or of operations ended (Clock::operations). Invariant: blocks stand in the order of their birth.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::tool::frag {

enum class Clock : uint8_t { events, operations };

constexpr uint64_t never = UINT64_MAX;

struct StoryBlock {
  uint64_t bytes = 0;
  uint64_t born = 0;      ///< live from this time on ...
  uint64_t dies = never;  ///< ... until this one
  uint32_t tag = 0;       ///< index of Story::tags

  bool live_at(uint64_t time) const { return born <= time && time < dies; }
};

/// An allocation or a free, in the trace's order.
struct StoryEvent {
  uint32_t block = 0;
  bool free = false;
};

/// From `time` on this is what runs.
struct StoryMark {
  uint64_t time = 0;
  uint32_t text = 0;  ///< index of the list it belongs to
};

struct Story {
  std::string name;
  Clock clock = Clock::events;
  uint64_t end = 0;  ///< the last time
  uint64_t operations = 0;
  uint64_t peak_live_bytes = 0;
  uint64_t peak_live_at = 0;  ///< the first time of it
  std::vector<StoryBlock> blocks;
  std::vector<StoryEvent> events;
  std::vector<std::string> tags;
  std::vector<StoryMark> phase_marks;
  std::vector<std::string> phases;
  /// By operation: the time at which it begins (events) and its name.
  std::vector<StoryMark> operation_marks;
  std::vector<std::string> names;
  std::vector<std::string> notes;  ///< what of a trace of version 2 was left out, in sentences

  /// "" where there is none.
  const std::string &phase_at(uint64_t time) const;
  /// The operation that made the state at `time` what it is: UINT64_MAX before the first.
  uint64_t operation_at(uint64_t time) const;
};

struct StoryOptions {
  Clock clock = Clock::events;
  uint64_t scale = 1;           ///< sizes are divided by it, rounded up
  uint64_t limit = UINT64_MAX;  ///< operations to keep
};

/// Throws ToolError with line number and text at the first line that breaks a rule.
Story read_story(const std::string &path, const StoryOptions &options);

}  // namespace weir::tool::frag
