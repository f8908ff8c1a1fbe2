// SPDX-License-Identifier: Apache-2.0
//
// The per-thread record of the last failure. It must never allocate or fail itself.

#include "backends/common/fault.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace weir::common {
namespace {

struct Fault {
  int64_t native = 0;
  char text[200] = "";
};
thread_local Fault last_fault;

void note(int64_t native, const char *format, va_list args) noexcept {
  last_fault.native = native;
  std::vsnprintf(last_fault.text, sizeof last_fault.text, format, args);
}

}  // namespace

weir_result refuse(weir_result result, const char *format, ...) noexcept {
  va_list args;
  va_start(args, format);
  note(native_refusal, format, args);
  va_end(args);
  return result;
}

weir_result runtime_failure(weir_result result, int64_t native, const char *format, ...) noexcept {
  va_list args;
  va_start(args, format);
  note(native, format, args);
  va_end(args);
  return result;
}

weir_result system_failure(int error) noexcept {
  return runtime_failure(WEIR_ERROR_BACKEND, error, "%s", system_words(error));
}

weir_result system_failure(int error, const char *format, ...) noexcept {
  va_list args;
  va_start(args, format);
  note(error, format, args);
  va_end(args);
  const size_t used = std::strlen(last_fault.text);
  std::snprintf(last_fault.text + used, sizeof last_fault.text - used, ": %s", system_words(error));
  return WEIR_ERROR_BACKEND;
}

int64_t last_native() noexcept { return last_fault.native; }

const char *sentence_of(int64_t native) noexcept {
  return native != 0 && native == last_fault.native ? last_fault.text : nullptr;
}

const char *system_words(int64_t native) noexcept {
  if (native == 0) return "no error";
  if (native < 0 || native > 4095) return "unknown error code";
  const char *text = strerrordesc_np(static_cast<int>(native));
  return text != nullptr ? text : "unknown error code";
}

}  // namespace weir::common
