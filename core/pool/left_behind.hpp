// SPDX-License-Identifier: Apache-2.0
//
// LeftBehind: what a pool has that nobody has destroyed, for the log: how much it is, and the five largest buffers.
#pragma once

#include "core/base/stacks.hpp"
#include "core/pool/inspector.hpp"

#include <string>
#include <vector>

namespace weir::pool {

class LeftBehind {
 public:
  /// Looks at all buffers of the pool.
  explicit LeftBehind(const Inspector &pool);

  bool any() const noexcept { return count_ != 0; }
  /// 3 buffers of 12 MiB: "a" 8 MiB, "b" 3 MiB, tag 7 1 MiB
  std::string line() const;
  /// By which calls those were made, where that is kept.
  void add_stacks(StackedText *text) const;

 private:
  struct Buffer {
    uint64_t size;
    std::string what;
    std::vector<void *> stack;
  };
  std::vector<Buffer> largest_;
  uint64_t count_ = 0, bytes_ = 0;
};

}  // namespace weir::pool
