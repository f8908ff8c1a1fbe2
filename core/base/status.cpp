// SPDX-License-Identifier: Apache-2.0
//
// The per-thread error record, and KeepError, which restores it. It is plain storage: no allocation, no destructor, so it can be written at
// any time of a thread's life.

#include "core/base/status.hpp"

#include "core/base/name.hpp"

#include <cstdarg>
#include <cstdio>
#include <utility>

namespace weir {
namespace {

thread_local constinit LastError error;
thread_local constinit KeepError::Kept *innermost = nullptr;

/// Cut between characters.
void cut(char *text, size_t capacity, int length) noexcept {
  if (length >= static_cast<int>(capacity)) text[kept_name(text, capacity - 2).size()] = '\0';
}

LastError &begin(weir_result code, const ErrorDetail &detail) noexcept {
  LastError &failure = new_error();
  failure.result = code;
  failure.detail = detail;
  failure.pool = 0;
  return failure;
}

void record(weir_result code, const ErrorDetail &detail, const char *format,
            va_list args) noexcept {
  char text[sizeof LastError::text];  // the arguments may point into the old text
  cut(text, sizeof text, std::vsnprintf(text, sizeof text, format, args));
  LastError &failure = begin(code, detail);
  failure.print = nullptr;
  __builtin_memcpy(failure.text, text, sizeof text);
}

}  // namespace

Status keep_failure(weir_result code, const ErrorDetail &detail, const void *told, size_t bytes,
                    int (*print)(const void *, char *, size_t)) noexcept {
  LastError &failure = begin(code, detail);
  failure.print = print;
  __builtin_memcpy(failure.text, told, bytes);
  return Status(code);
}

const LastError &last_error() noexcept {
  if (error.print != nullptr) {
    alignas(8) char told[sizeof error.text];
    __builtin_memcpy(told, error.text, sizeof told);
    cut(error.text, sizeof error.text, error.print(told, error.text, sizeof error.text));
    error.print = nullptr;
  }
  return error;
}

const LastError &unread_error() noexcept { return error; }

/// Of nested ones the innermost alone has something to keep: what the outer ones keep is unchanged when it has ended.
LastError &new_error() noexcept {
  if (innermost != nullptr && !innermost->saved) {
    innermost->saved = true;
    __builtin_memcpy(innermost->before, &error, sizeof error);
  }
  return error;
}

KeepError::KeepError() noexcept { kept_.outer = std::exchange(innermost, &kept_); }

KeepError::~KeepError() {
  innermost = kept_.outer;
  if (kept_.saved) __builtin_memcpy(&error, kept_.before, sizeof error);
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
