// SPDX-License-Identifier: Apache-2.0
//
// TraceReader: turns the lines of a .vmt trace into events, one at a time. It checks the form of
// each line and nothing about what the lines mean together: that is plan.cpp's. It never holds more
// of the text than LineSource does.
#pragma once

#include "line_source.hpp"

#include <cstdint>
#include <string>
#include <string_view>

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

class TraceReader {
 public:
  /// Throws ToolError when the file can't be opened.
  explicit TraceReader(const std::string &path) : source_(path) {}

  /// The next event; false at the end. Throws ToolError at a line that is not one of the format.
  bool next(TraceEvent &event);

  /// Throws ToolError naming the file, the line's number, the reason and the text.
  [[noreturn]] void refuse(std::string_view reason) const;

  uint64_t line_number() const noexcept { return line_number_; }
  const std::string &name() const noexcept { return name_; }  ///< of the header, "" if it has none
  const LineSource &source() const noexcept { return source_; }

 private:
  bool read_line();
  void header();
  bool parse(TraceEvent &event) const;

  LineSource source_;
  std::string_view line_;
  std::string name_;
  uint64_t line_number_ = 0;
  bool in_body_ = false;
};

}  // namespace weir::tool
