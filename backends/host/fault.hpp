// SPDX-License-Identifier: Apache-2.0
//
// Why a call of the host device model failed: the thread's last native code and a sentence for it.
// Native codes are errno values where a system call failed, and native_refusal where the model
// itself said no. Nothing here allocates, so that a failure can be told when memory is gone.
// Success never touches it.
#pragma once

#include <weir/backend.h>

#include <cstdint>

namespace weir::host {

/// The model refused the call; text_of() has the sentence until the thread's next failure.
inline constexpr int64_t native_refusal = 0x10000;

/// Notes a refusal and returns `result`. printf's format; cut at 199 bytes.
weir_result refuse(weir_result result, const char *format, ...) noexcept
    __attribute__((format(printf, 2, 3)));
/// Notes a failed system call: BACKEND with `error` (an errno value) as its native code.
weir_result system_failure(int error) noexcept;
/// The same with a sentence about what was asked for, which text_of() puts before the system's
/// words.
weir_result system_failure(int error, const char *format, ...) noexcept
    __attribute__((format(printf, 2, 3)));

int64_t last_native() noexcept;
/// Never nullptr; valid until the thread's next failure. The sentence of the calling thread's last
/// failure if `native` is its code, else the system's words for the code.
const char *text_of(int64_t native) noexcept;

}  // namespace weir::host

/// Returns early with a result that is not WEIR_SUCCESS.
#define WEIR_HOST_TRY(expression)                              \
  do {                                                         \
    const weir_result weir_host_try_ = (expression);           \
    if (weir_host_try_ != WEIR_SUCCESS) return weir_host_try_; \
  } while (false)
