// SPDX-License-Identifier: Apache-2.0
//
// ProgramBlocks: a trace of version 2 as version 1 would tell of the same program: buffers and allocations are blocks, acquires are
// operations with their uses. What has no place in that is counted.
#pragma once

#include "tools/weir/recorded/program.hpp"
#include "tools/weir/trace_reader.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace weir::tool::recorded {

class ProgramBlocks {
 public:
  /// `with_stacks`: tags are stacks where the trace has them, with their names looked up (stack_tags.hpp).
  explicit ProgramBlocks(Program program, bool with_stacks = false);

  bool next(TraceEvent &event);
  const std::string &name() const noexcept { return program_.name; }
  uint64_t lines() const noexcept { return program_.lines; }
  /// After the last event: the program's own notes, and what was left out.
  std::vector<std::string> notes() const;

 private:
  bool take(const ProgramCall &call, TraceEvent &event);
  /// A name as a word: no control characters, nothing that is no UTF-8.
  void word(const std::string &name, const char *otherwise);
  /// A stack, which ends in the name if there is one.
  void tag(const std::string &name, uint32_t stack, const char *otherwise);
  void born(uint32_t *block, uint32_t pool, uint64_t bytes, TraceEvent &event);

  Program program_;
  std::vector<std::string> stacks_;  ///< of the program; none if they are not asked for
  size_t call_ = 0;                  ///< the next
  uint64_t use_ = 0;                 ///< the next of the operation under way
  uint64_t uses_end_ = 0;
  bool in_operation_ = false;
  std::vector<uint32_t> dying_;                   ///< blocks that went with their pool
  std::vector<uint32_t> buffers_, allocations_;   ///< blocks by index; no_thing: none, or gone
  std::vector<std::vector<uint32_t>> blocks_of_;  ///< by pool; those that are gone too
  std::vector<bool> live_;                        ///< by block
  std::string word_;
  uint64_t operations_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace weir::tool::recorded
