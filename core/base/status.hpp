// SPDX-License-Identifier: Apache-2.0
//
// Status: the outcome of every fallible call inside Weir, and the thread's last error behind it.
//
// A Status carries only the code; the sentence and the numbers are kept per thread by fail(), because the
// C ABI reports them that way. Success never touches the thread's error, so the hit path stays free of it.
// Nothing here allocates: a failure must be reportable when memory is gone.
#pragma once

#include <weir/types.h>

#include <cstdint>

namespace weir {

class [[nodiscard]] Status {
 public:
  constexpr Status() noexcept = default;
  constexpr explicit Status(weir_result code) noexcept : code_(code) {}

  constexpr bool ok() const noexcept { return code_ == WEIR_SUCCESS; }
  constexpr explicit operator bool() const noexcept { return ok(); }
  constexpr weir_result code() const noexcept { return code_; }

 private:
  weir_result code_ = WEIR_SUCCESS;
};

/// The numbers of weir_error_info, with the defaults that mean "does not apply".
struct ErrorDetail {
  uint32_t tier = WEIR_TIER_NONE;
  weir_device device = WEIR_DEVICE_HOST;
  uint64_t asked = 0;
  uint64_t available = 0;
  uint64_t use_index = UINT64_MAX;
  int64_t native = 0;
};

/// Records the thread's last error and returns its code. The format is printf's; the result is cut at 511 bytes.
Status fail(weir_result code, const char *format, ...) noexcept
    __attribute__((format(printf, 2, 3)));
Status fail(weir_result code, const ErrorDetail &detail, const char *format, ...) noexcept
    __attribute__((format(printf, 3, 4)));

/// What the thread's last fail() left. One thread's error can be handed to another (async requests).
struct LastError {
  weir_result result = WEIR_SUCCESS;
  ErrorDetail detail;
  char text[512] = {};
};
LastError &last_error() noexcept;
/// The same; a failure is told to be about that use of a set.
inline Status of_use(uint64_t use, Status status) noexcept {
  if (!status) last_error().detail.use_index = use;
  return status;
}

}  // namespace weir

/// Returns early with a failed Status.
#define WEIR_TRY(expression)                                   \
  do {                                                         \
    if (::weir::Status weir_try_ = (expression); !weir_try_) { \
      return weir_try_;                                        \
    }                                                          \
  } while (false)
