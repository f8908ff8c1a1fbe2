// SPDX-License-Identifier: Apache-2.0
//
// The two ends of a range, kept out of line: threads without a listener never call them.

#include "core/base/ranges.hpp"

namespace weir {

thread_local const Ranges *detail::thread_ranges __attribute__((tls_model("initial-exec"))) =
    nullptr;

void RangeScope::begin(const Ranges &to, RangeKind kind, const char *text) noexcept {
  outer_ = detail::thread_ranges;
  detail::thread_ranges = to_ = &to;
  to.push(kind, text);
}

void RangeScope::end() noexcept {
  to_->pop();
  detail::thread_ranges = outer_;
}

}  // namespace weir
