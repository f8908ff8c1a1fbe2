// SPDX-License-Identifier: Apache-2.0
//
// Ranges for AMD's profilers: roctx, a library of ROCm with two functions that are looked up by name. roctx knows neither domains nor
// categories, so every text begins with "weir: ".
#pragma once

#include "core/base/ranges.hpp"

#include <string>

namespace weir::trace {

class RoctxRanges final : public RangeSink {
 public:
  /// WEIR_ROCTX_LIBRARY (ignored under secure execution), or what the process has loaded, or what the loader finds; it is never
  /// closed. False: *reason says what was tried.
  bool open(std::string *reason);

  void push(RangeKind kind, const char *text) noexcept override;
  void pop() noexcept override;

 private:
  bool take(void *library, const char *name, std::string *reason);

  int (*push_)(const char *text) = nullptr;
  int (*pop_)() = nullptr;
};

}  // namespace weir::trace
