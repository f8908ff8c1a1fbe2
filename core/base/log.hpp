// SPDX-License-Identifier: Apache-2.0
//
// Log: one line to the context's callback. Never called with a lock held; checked builds abort where one is.
#pragma once

#include "core/base/mutex.hpp"

#include <weir/context.h>

#include <cstdarg>
#include <cstdio>

namespace weir {

class Log {
 public:
  Log() = default;
  Log(weir_log_callback function, void *argument) noexcept : callback_(function), user_(argument) {}

  weir_log_callback callback() const noexcept { return callback_; }
  void *user() const noexcept { return user_; }

  void operator()(int32_t level, const char *format, ...) const
      __attribute__((format(printf, 3, 4))) {
#if defined(WEIR_DEBUG_CHECKS)
    if (rank_check::held != 0) {
      std::fprintf(stderr, "weir: logged under a lock: %s\n", format);
      std::abort();
    }
#endif
    if (callback_ == nullptr) return;
    char text[512];
    va_list args;
    va_start(args, format);
    std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    callback_(user_, level, text);
  }

 private:
  weir_log_callback callback_ = nullptr;
  void *user_ = nullptr;
};

}  // namespace weir
