// SPDX-License-Identifier: Apache-2.0
//
// Counting, and putting counts into words.

#include "tests/drivers/sim/census.hpp"

#include <cstdarg>
#include <cstdio>

namespace weir::sim {
namespace {

constexpr const char *names[] = {"granules",          "reservations",  "mappings",
                                 "plain allocations", "pinned ranges", "registrations",
                                 "streams",           "events",        "contexts"};

}  // namespace

Answer Census::misuse(const char *format, ...) noexcept {
  const std::lock_guard hold(mutex_);
  if (misuses_.load(std::memory_order_relaxed) == 0) {
    va_list args;
    va_start(args, format);
    std::vsnprintf(first_, sizeof first_, format, args);
    va_end(args);
  }
  misuses_.fetch_add(1, std::memory_order_release);
  return Answer::invalid;
}

uint64_t Census::misuses(const char **text) const noexcept {
  const uint64_t count = misuses_.load(std::memory_order_acquire);
  if (text != nullptr) *text = count != 0 ? first_ : "";
  return count;
}

uint64_t Census::alive(const char **text) {
  static_assert(std::size(names) == kinds);
  const std::lock_guard hold(mutex_);
  text_.clear();
  uint64_t all = 0;
  for (size_t kind = 0; kind < kinds; ++kind) {
    const uint64_t count = counts_[kind].load(std::memory_order_relaxed);
    if (count == 0) continue;
    all += count;
    if (!text_.empty()) text_ += ", ";
    text_ += std::to_string(count) + " " + names[kind];
  }
  if (text != nullptr) *text = text_.c_str();
  return all;
}

}  // namespace weir::sim
