// SPDX-License-Identifier: Apache-2.0
//
// Starting a runtime within a bound: vendors' runtimes have been seen to hang in their first call, and a program
// must not hang with them. start() runs on a thread of its own. If it is not back in time it is given up: no thread
// waits for it any more, its log goes nowhere, and if it ever succeeds it is stopped at once.
#pragma once

#include "core/base/log.hpp"

#include <weir/backend.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace weir::backend {

/// A log that can be cut off from the outside, for code that cannot be told to stop using it.
class LogGate {
 public:
  explicit LogGate(const Log &log) noexcept : log_(log) {}
  /// A backend's log callback; `user` is the gate.
  static void write(void *user, int32_t level, const char *text);
  bool wanted() const noexcept { return log_.callback() != nullptr; }
  /// When it returns, the log is not in use and never will be again.
  void close() noexcept;

 private:
  const Log log_;
  std::atomic<bool> closed_{false};
  std::atomic<uint32_t> inside_{0};
};

struct Started {
  weir_result result = WEIR_ERROR_TIMEOUT;
  weir_be_state *state = nullptr;
  std::string reason;
};

/// Calls table.start() and waits for up to timeout_ns. A result of TIMEOUT is this function's own: start() was given up.
/// The gate is the backend's for as long as the state lives. `native` (weir_be_start.native, or nothing) is copied. Throws when no
/// thread can be made.
Started start_within(const weir_backend_table &table, const char *options,
                     std::span<const std::byte> native, std::shared_ptr<LogGate> log,
                     uint64_t timeout_ns);

}  // namespace weir::backend
