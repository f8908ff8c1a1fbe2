// SPDX-License-Identifier: Apache-2.0
//
// The calls of a driver by name: how often each was made, which is to fail, and which hangs. Every function of a
// driver that can fail begins with enter(). Records live as long as the library; a new machine starts them
// from zero. Thread-safe; a call costs two atomic additions.
#pragma once

#include <atomic>
#include <cstdint>

namespace weir::sim {

struct Options;

/// One function of the driver. Never ends.
struct Call {
  const char *name = "";
  std::atomic<uint64_t> count{0};
  std::atomic<uint64_t> fails_at{0};  ///< the count that fails; 0 = none
  std::atomic<int64_t> code{0};
  std::atomic<bool> hangs{false};
};

/// The record of a name, made at its first use. A driver keeps the reference in a static of the function.
Call &call(const char *name);

/// 0: go on. Else the code to return at once, nothing done. Takes the simulated time of a call, and hangs if
/// this call is to hang.
int64_t enter(Call &call) noexcept;

// What control.h's functions of these names do, and what a new machine begins with.
void fail_call(const char *name, uint64_t nth, int64_t code);
uint64_t count_calls(const char *name) noexcept;
const char *name_call(uint64_t index) noexcept;
void resume_calls() noexcept;
void restart_calls(const Options &options);

}  // namespace weir::sim
