// SPDX-License-Identifier: Apache-2.0
//
// The driver's results as the backend ABI knows them. Native codes are CUresult values.
#pragma once

#include "backends/common/fault.hpp"
#include "backends/cuda/api.hpp"

namespace weir::cuda {

using common::refuse;

/// What a driver's result means. Codes after which the context or the device answers nothing any more are
/// DEVICE_LOST; success and "not ready" are themselves.
weir_result classify(abi::Result code) noexcept;
/// Whether the code is what a call says that just failed as well as what all say on a device that is gone. It is a loss if
/// the device does not answer a second question either.
bool leaves_doubt(abi::Result code) noexcept;

/// What is asked a second time: the device of a context, or nothing without one.
struct Witness {
  // NOLINTNEXTLINE(google-explicit-constructor): a context is what callers have
  Witness(abi::Context of) noexcept : context(of) {}
  Witness(abi::Context of, bool in_a_hurry) noexcept : context(of), hurried(in_a_hurry) {}
  abi::Context context;
  /// The caller may hold a lock that others want soon: nothing is asked that goes to the device itself.
  bool hurried = false;
};

/// Notes that a driver call failed with `code` at what the sentence says, and returns what that means.
weir_result failure(const Api &api, Witness witness, abi::Result code, const char *format,
                    ...) noexcept __attribute__((format(printf, 4, 5)));

/// A native code in words; never NULL.
const char *text_of(const Api &api, int64_t native) noexcept;

/// For printf.
using Number = unsigned long long;
inline Number number(uint64_t value) noexcept { return value; }

}  // namespace weir::cuda
