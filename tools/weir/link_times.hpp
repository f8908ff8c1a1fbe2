// SPDX-License-Identifier: Apache-2.0
//
// LinkTimes: when the links between the host and the device were busy, as the host backend tells it (its option link_log), and for how
// long both directions were at once.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weir::tool {

struct LinkBusy {
  double up = 0, down = 0;  ///< seconds
  double both = 0;          ///< of them those in which the other direction was busy too
};

class LinkTimes {
 public:
  /// Makes the file that a context of the host backend writes to. Throws ToolError.
  LinkTimes();
  ~LinkTimes();
  LinkTimes(const LinkTimes &) = delete;
  LinkTimes &operator=(const LinkTimes &) = delete;

  /// What is appended to the options of a context: one at most.
  std::string option() const;
  /// From begin to end (CLOCK_MONOTONIC), once the context has ended. Throws ToolError where it has not told all.
  LinkBusy between(uint64_t begin_ns, uint64_t end_ns) const;

 private:
  int file_ = -1;
};

/// Times from begin to end, in no order.
using Times = std::vector<std::pair<uint64_t, uint64_t>>;

/// Of both directions of one link, from begin to end.
LinkBusy link_busy(Times up, Times down, uint64_t begin_ns, uint64_t end_ns);

}  // namespace weir::tool
