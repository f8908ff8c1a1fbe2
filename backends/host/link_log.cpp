// SPDX-License-Identifier: Apache-2.0
//
// Stretches as they are noted, and as lines.
#include "backends/host/link_log.hpp"

#include <algorithm>
#include <new>

namespace weir::host {

void LinkLog::note(uint64_t begin, uint64_t end, uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  // Threads that book at once may come here in the other order.
  if (!stretches_.empty()) {
    Stretch &last = stretches_.back();
    if (begin == last.end || end == last.begin) {
      last.begin = std::min(last.begin, begin);
      last.end = std::max(last.end, end);
      last.bytes += bytes;
      return;
    }
  }
  try {
    stretches_.push_back(Stretch{begin, end, bytes});
  } catch (const std::bad_alloc &) {
    ++lost_;
  }
}

void LinkLog::print(const std::string &from, const std::string &to, std::string *text) const {
  const std::lock_guard lock(mutex_);
  const std::string path = from + " " + to + " ";
  for (const Stretch &stretch : stretches_)
    *text += path + std::to_string(stretch.begin) + " " + std::to_string(stretch.end) + " " +
             std::to_string(stretch.bytes) + "\n";
  if (lost_ != 0) *text += path + "lost " + std::to_string(lost_) + "\n";
}

}  // namespace weir::host
