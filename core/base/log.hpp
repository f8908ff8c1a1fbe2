// SPDX-License-Identifier: Apache-2.0
//
// Log: one line to the context's callback, with the name of the pool that it is about, where it is about one. Never called with a lock
// held; checked builds abort where one is.
#pragma once

#include "core/base/mutex.hpp"
#include "core/base/name.hpp"

#include <weir/context.h>

#include <cstdarg>
#include <cstdio>
#include <memory_resource>
#include <string>

namespace weir {

class Log {
 public:
  Log() = default;
  Log(weir_log_callback function, void *argument) noexcept : callback_(function), user_(argument) {}
  /// The same of a pool. It has its name before its first line, and keeps it.
  Log of(const std::pmr::string *pool) const noexcept {
    Log own(*this);
    own.pool_ = pool;
    return own;
  }

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
    char text[640];
    size_t length = 0;
    if (pool_ != nullptr)
      length = static_cast<size_t>(
          std::snprintf(text, sizeof text, "pool%s: ", QuotedName(*pool_).c_str()));
    va_list args;
    va_start(args, format);
    std::vsnprintf(text + length, sizeof text - length, format, args);
    va_end(args);
    callback_(user_, level, text);
  }

 private:
  weir_log_callback callback_ = nullptr;
  void *user_ = nullptr;
  const std::pmr::string *pool_ = nullptr;
};

}  // namespace weir
