// SPDX-License-Identifier: Apache-2.0
//
// Level Zero's result codes: in Weir's results, and in words.
#pragma once

#include "backends/common/fault.hpp"
#include "backends/level_zero/abi.hpp"

namespace weir::level_zero {

using common::refuse;

/// For printing 64-bit numbers.
using Number = unsigned long long;

/// What a code means to Weir; success is WEIR_SUCCESS and not_ready WEIR_NOT_READY.
weir_result result_of(abi::Result code) noexcept;
/// "ZE_RESULT_ERROR_DEVICE_LOST"; never nullptr, static.
const char *name_of(int64_t code) noexcept;
/// Notes that a call of the runtime failed with `code` and returns what that means. printf's format says what was
/// asked of which function; the code's name follows.
weir_result runtime_refusal(abi::Result code, const char *format, ...) noexcept
    __attribute__((format(printf, 2, 3)));
/// What the thread's last failure was, for error_text.
const char *text_of(int64_t native) noexcept;

}  // namespace weir::level_zero
