// SPDX-License-Identifier: Apache-2.0
//
// MemoryLimit: how much more host memory this process may take before the kernel starts to reclaim or kill: the least
// of what every cgroup above it has left (v2: memory.max and memory.high; v1: memory.limit_in_bytes), not counting
// what the kernel can take back from the page cache, and of what the machine has available. Reads files of /proc and
// of the cgroup file system each time it is asked; keeps no state but the paths, and never fails: what can't be read
// does not limit.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace weir {

class MemoryLimit {
 public:
  struct Room {
    uint64_t bytes = UINT64_MAX;  ///< that may still be taken; 0 when the limit is passed
    uint64_t limit = UINT64_MAX;  ///< the limit behind it: of that cgroup, or the machine's memory
    char source[96] = "";         ///< "memory.max of /a/b", "MemAvailable", ...
  };

  /// `root` is prefixed to every path; tests give a directory with files of their own.
  explicit MemoryLimit(std::string root = "") : root_(std::move(root)) {}
  Room read() const noexcept;

 private:
  std::string root_;
};

}  // namespace weir
