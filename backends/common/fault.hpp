// SPDX-License-Identifier: Apache-2.0
//
// Why a backend's call failed: the thread's last native code and a sentence for it. Native codes are the
// runtime's own (errno values in the host backend) where a call of it failed, and native_refusal where the
// backend itself said no. Nothing here allocates, so that a failure can be told when memory is gone.
// Success never touches it. Each plugin has a copy of its own.
#pragma once

#include <weir/backend.h>

#include <cstdint>

namespace weir::common {

/// The backend refused the call by itself; a number that no runtime uses.
inline constexpr int64_t native_refusal = int64_t{1} << 32;

/// For %llu and %llx, which no uint64_t fits everywhere.
inline unsigned long long number(uint64_t value) noexcept { return value; }

/// Notes a refusal and returns `result`. printf's format; cut at 199 bytes.
weir_result refuse(weir_result result, const char *format, ...) noexcept
    __attribute__((format(printf, 2, 3)));
/// Notes that a call of the runtime failed with `native`, and returns `result`.
weir_result runtime_failure(weir_result result, int64_t native, const char *format, ...) noexcept
    __attribute__((format(printf, 3, 4)));
/// Notes a failed system call: BACKEND with `error` (an errno value) as its native code.
weir_result system_failure(int error) noexcept;
/// The same with a sentence about what was asked for, which comes before the system's words.
weir_result system_failure(int error, const char *format, ...) noexcept
    __attribute__((format(printf, 2, 3)));

int64_t last_native() noexcept;
/// The sentence of the calling thread's last failure if `native` is its code, else nullptr. Valid until the
/// thread's next failure.
const char *sentence_of(int64_t native) noexcept;
/// The system's words for an errno value; never nullptr.
const char *system_words(int64_t native) noexcept;

}  // namespace weir::common

/// Returns early with a result that is not WEIR_SUCCESS.
#define WEIR_BACKEND_TRY(expression)                                 \
  do {                                                               \
    const weir_result weir_backend_try_ = (expression);              \
    if (weir_backend_try_ != WEIR_SUCCESS) return weir_backend_try_; \
  } while (false)
