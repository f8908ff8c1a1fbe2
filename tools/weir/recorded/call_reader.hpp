// SPDX-License-Identifier: Apache-2.0
//
// CallReader: turns the lines of a trace of version 2 into calls, one at a time, each with all its uses. It checks the form of each
// line and nothing about what they mean together. Lines and keys that it does not know are counted by name and left out; an event
// that the file ends in is left out too.
#pragma once

#include "tools/weir/recorded/call.hpp"
#include "tools/weir/trace_file.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weir::tool::recorded {

class CallReader {
 public:
  /// Reads on in a file of version 2.
  explicit CallReader(TraceFile &file) noexcept : file_(file) {}

  /// The next call; false at the end. Throws ToolError at a line that is not one of the format.
  bool next(Call &call);

  /// Of a key of the last call; `fallback` where it is not there. They throw ToolError where its value is none of the kind.
  uint64_t number(const Call &call, std::string_view key, uint64_t fallback = 0) const;
  int64_t signed_number(const Call &call, std::string_view key) const;
  std::string text(const Call &call, std::string_view key) const;
  uint64_t device(const Call &call, std::string_view key, uint64_t fallback) const;
  std::vector<uint32_t> devices(const Call &call, std::string_view key) const;
  std::vector<uint32_t> numbers(const Call &call, std::string_view key) const;

  [[noreturn]] void refuse(std::string_view reason) const { file_.refuse(reason); }
  uint64_t line_number() const noexcept { return file_.line_number(); }

  /// After the last call: what was left out, and that the trace has no end, in sentences.
  std::vector<std::string> notes() const;

 private:
  bool line(Call &call);
  bool follow(Call &call, CallKind kind, uint64_t count);
  bool complete(Call &call);
  bool fields(class Fields &fields, Call &call, std::string_view signature);
  void keys(class Fields &fields, Call &call, std::string_view name, std::string_view known);
  void unknown(const std::string &what);

  TraceFile &file_;
  Call part_;           ///< a line of a call
  uint64_t whole_ = 0;  ///< the last line of the last call
  std::map<std::string, uint64_t> unknown_;
  uint64_t more_unknown_ = 0;  ///< lines and keys beyond the names that are kept
  bool ended_ = false;
  bool incomplete_ = false;  ///< the file has ended within a call
};

}  // namespace weir::tool::recorded
