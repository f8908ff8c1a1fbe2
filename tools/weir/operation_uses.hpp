// SPDX-License-Identifier: Apache-2.0
//
// What one operation acquires: the uses of its lines, merged so that those of one block are
// disjoint. A range read by one line and written by another is READ_WRITE. Order: by block, then by
// offset.
#pragma once

#include "plan.hpp"

#include <cstdint>
#include <vector>

namespace weir::tool {

enum class UseMode : uint8_t { read, update, overwrite };

struct BlockUse {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint32_t block = 0;
  UseMode mode = UseMode::read;
  bool operator==(const BlockUse &) const = default;
};

/// Merges; keeps its scratch memory between calls.
class UseMerger {
 public:
  /// The most uses one acquire may have (weir/lease.h); beyond it the uses of each block become
  /// one.
  static constexpr size_t limit = 65535;

  void merge(const Plan &plan, const PlanOperation &operation, std::vector<BlockUse> &out);

 private:
  void merge_block(size_t begin, size_t end, std::vector<BlockUse> &out);

  struct Edge {
    uint64_t at;
    int32_t reads;
    int32_t writes;
  };
  std::vector<BlockUse> raw_;
  std::vector<Edge> edges_;
};

}  // namespace weir::tool
