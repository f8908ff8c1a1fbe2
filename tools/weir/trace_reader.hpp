// SPDX-License-Identifier: Apache-2.0
//
// TraceReader: turns the lines of a .vmt trace into events, one at a time. Of a trace of version 1 it checks the form of
// each line and nothing about what the lines mean together: that is plan.cpp's; it never holds more
// of the text than LineSource does. One of version 2 it reads as a whole, and tells what version 1 would say of the same program.
#pragma once

#include "trace_file.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weir::tool {

/// One line. Which fields count depends on the kind.
struct TraceEvent {
  enum class Kind : uint8_t {
    alloc,
    free,
    operation,
    end,
    use,
    use_group,
    join,
    dissolve,
    phase,
    time
  };
  Kind kind = Kind::end;
  char mode = 0;      ///< use, use_group: r, w or x
  bool span = false;  ///< use: offset, length and touched were given
  uint64_t id =
      0;  ///< block (alloc, free, use), group (use_group, join, dissolve), index, or microseconds
  uint64_t bytes = 0;  ///< alloc: its size; operation: its flops; join: the block
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t touched = 0;
  std::string_view text;  ///< tag, name or label; valid until the next call
};

/// What a trace may say. No machine comes near it, and what is beyond it would keep a replay busy for hours, or overflow its
/// sums: plan.cpp and allocator_replay.cpp refuse it at its line.
struct TraceLimits {
  static constexpr uint64_t live_bytes = uint64_t{1} << 44;  ///< at once
  static constexpr uint64_t all_bytes = uint64_t{1} << 60;   ///< of all allocations together
  static constexpr uint64_t flops = 10'000'000'000'000'000;  ///< of one operation
  static constexpr uint64_t uses = uint64_t{1} << 28;        ///< with groups written out
};

/// The bytes of a trace's allocations, within the limits.
class TraceBytes {
 public:
  /// nullptr, or why the allocation is refused; then nothing is counted.
  const char *add(uint64_t bytes) noexcept {
    if (bytes == 0) return "an allocation of 0 bytes";
    if (bytes > TraceLimits::live_bytes - live_)
      return "more than 2^44 bytes (16 TiB) live at once";
    if (bytes > TraceLimits::all_bytes - all_) return "more than 2^60 bytes allocated in all";
    live_ += bytes;
    all_ += bytes;
    peak_ = live_ > peak_ ? live_ : peak_;
    return nullptr;
  }
  void remove(uint64_t bytes) noexcept { live_ -= bytes; }
  uint64_t all() const noexcept { return all_; }
  uint64_t peak() const noexcept { return peak_; }  ///< live at once

 private:
  uint64_t live_ = 0, all_ = 0, peak_ = 0;
};

namespace recorded {
class ProgramBlocks;
}

class TraceReader {
 public:
  /// What the tags of a trace of version 2 are. To name the calls of stacks takes programs of others, and time.
  enum class Tags : uint8_t { names, stacks };

  /// Throws ToolError when the file can't be opened.
  explicit TraceReader(const std::string &path, Tags tags = Tags::names)
      : TraceReader(std::make_unique<TraceFile>(path), tags) {}
  /// Reads a trace that is open.
  explicit TraceReader(std::unique_ptr<TraceFile> file, Tags tags = Tags::names);
  ~TraceReader();
  TraceReader(const TraceReader &) = delete;
  TraceReader &operator=(const TraceReader &) = delete;

  /// The next event; false at the end. Throws ToolError at a line that is not one of the format.
  bool next(TraceEvent &event);

  /// Throws ToolError naming the file, the line's number, the reason and the text.
  [[noreturn]] void refuse(std::string_view reason) const { file_->refuse(reason); }

  uint64_t line_number() const noexcept { return file_->line_number(); }
  const std::string &name() const noexcept { return file_->name(); }
  const LineSource &source() const noexcept { return file_->source(); }
  /// After the last event: what a trace of version 2 has that was left out, in sentences.
  std::vector<std::string> notes() const;

 private:
  bool parse(std::string_view line, TraceEvent &event) const;

  std::unique_ptr<TraceFile> file_;
  const Tags tags_;
  std::unique_ptr<recorded::ProgramBlocks> blocks_;  ///< of version 2
};

}  // namespace weir::tool
