// SPDX-License-Identifier: Apache-2.0
//
// The per-thread record of the last failure. It must never allocate or fail itself.

#include "backends/host/fault.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace weir::host {
namespace {

struct Fault {
  int64_t native = 0;
  char text[200] = "";
};
thread_local Fault last_fault;

const char *words(int64_t native) noexcept {
  if (native == 0) return "no error";
  if (native < 0 || native > 4095) return "unknown error code";
  const char *text = strerrordesc_np(static_cast<int>(native));
  return text != nullptr ? text : "unknown error code";
}

}  // namespace

weir_result refuse(weir_result result, const char *format, ...) noexcept {
  last_fault.native = native_refusal;
  va_list args;
  va_start(args, format);
  std::vsnprintf(last_fault.text, sizeof last_fault.text, format, args);
  va_end(args);
  return result;
}

weir_result system_failure(int error) noexcept {
  last_fault.native = error;
  std::snprintf(last_fault.text, sizeof last_fault.text, "%s", words(error));
  return WEIR_ERROR_BACKEND;
}

weir_result system_failure(int error, const char *format, ...) noexcept {
  last_fault.native = error;
  va_list args;
  va_start(args, format);
  std::vsnprintf(last_fault.text, sizeof last_fault.text, format, args);
  va_end(args);
  const size_t used = std::strlen(last_fault.text);
  std::snprintf(last_fault.text + used, sizeof last_fault.text - used, ": %s", words(error));
  return WEIR_ERROR_BACKEND;
}

int64_t last_native() noexcept { return last_fault.native; }

const char *text_of(int64_t native) noexcept {
  return native != 0 && native == last_fault.native ? last_fault.text : words(native);
}

}  // namespace weir::host
