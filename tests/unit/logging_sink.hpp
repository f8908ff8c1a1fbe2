// SPDX-License-Identifier: Apache-2.0
//
// LoggingSink: ranges into a RangeLog, by no profiler's library.
#pragma once

#include "core/base/ranges.hpp"
#include "tests/drivers/ranges/range_log.hpp"

namespace weir::test {

class LoggingSink final : public RangeSink {
 public:
  void push(RangeKind kind, const char *text) noexcept override {
    log.push("", text, static_cast<uint32_t>(kind));
  }
  void pop() noexcept override {
    if (forgets > 0)
      --forgets;
    else
      log.pop("");
  }
  RangeLog log;
  int forgets = 0;  ///< pops that are not told
};

}  // namespace weir::test
