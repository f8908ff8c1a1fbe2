// SPDX-License-Identifier: Apache-2.0
//
// Profilers: those that the user has asked to be told ranges (base/ranges.hpp), by WEIR_NVTX=1 and WEIR_ROCTX=1. One that can't be told
// is named in the log; nothing else changes for the program.
#pragma once

#include "core/base/log.hpp"
#include "core/base/ranges.hpp"
#include "core/trace/roctx_ranges.hpp"

namespace weir::trace {

class Profilers {
 public:
  /// Reads the environment, but not under secure execution. To be called once, before the first pool.
  void start(const Log &log);
  /// nullptr: no profiler listens.
  const Ranges *ranges() const noexcept { return ranges_.any() ? &ranges_ : nullptr; }

 private:
  Ranges ranges_;
  RoctxRanges roctx_;
};

}  // namespace weir::trace
