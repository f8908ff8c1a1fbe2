// SPDX-License-Identifier: Apache-2.0
//
// The per-thread error record. It is plain storage: no allocation, no destructor, so it can be written at
// any time of a thread's life.

#include "core/base/status.hpp"

#include <cstdarg>
#include <cstdio>

namespace weir {
namespace {

void record(weir_result code, const ErrorDetail &detail, const char *format,
            va_list args) noexcept {
  LastError &error = last_error();
  error.result = code;
  error.detail = detail;
  char text[sizeof error.text];  // the arguments may point into the old text
  std::vsnprintf(text, sizeof text, format, args);
  __builtin_memcpy(error.text, text, sizeof text);
}

}  // namespace

LastError &last_error() noexcept {
  static thread_local LastError error;
  return error;
}

Status fail(weir_result code, const char *format, ...) noexcept {
  va_list args;
  va_start(args, format);
  record(code, ErrorDetail{}, format, args);
  va_end(args);
  return Status(code);
}

Status fail(weir_result code, const ErrorDetail &detail, const char *format, ...) noexcept {
  va_list args;
  va_start(args, format);
  record(code, detail, format, args);
  va_end(args);
  return Status(code);
}

}  // namespace weir
