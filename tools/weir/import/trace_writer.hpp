// SPDX-License-Identifier: Apache-2.0
//
// TraceWriter: puts the lines of a trace "#vmt 2" together, compressed by zstd where that is asked for. Lines are made by the writer's
// VmtLines; take() gives the whole file.
#pragma once

#include "core/record/vmt_line.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

struct ZSTD_CCtx_s;

namespace weir::tool {

class TraceWriter {
 public:
  /// Throws ToolError when there is no memory.
  explicit TraceWriter(bool compressed);
  ~TraceWriter();
  TraceWriter(const TraceWriter &) = delete;
  TraceWriter &operator=(const TraceWriter &) = delete;

  /// Appends what `line` says, and makes room for it first.
  void say(const std::function<bool(record::VmtLines &)> &line);
  std::string take();

 private:
  struct ContextFree {
    void operator()(ZSTD_CCtx_s *context) const noexcept;
  };
  void flush(bool last);

  std::vector<char> memory_;
  record::VmtLines lines_;
  std::unique_ptr<ZSTD_CCtx_s, ContextFree> zstd_;
  std::string file_;
};

}  // namespace weir::tool
