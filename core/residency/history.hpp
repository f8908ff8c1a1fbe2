// SPDX-License-Identifier: Apache-2.0
//
// History: the fences on parts of one buffer, or on the whole of it from several streams, beyond the single
// stamp the hit path keeps. Entries of one stream that a later one covers are dropped, and so is what has passed.
#pragma once

#include "core/backend/stream.hpp"

#include <algorithm>
#include <memory_resource>
#include <vector>

namespace weir::residency {

struct PastUse {
  uint64_t begin = 0, end = 0;
  backend::Stamp stamp;  ///< its write bit tells the mode
};

class History {
 public:
  explicit History(std::pmr::memory_resource *memory) : uses_(memory) {}

  /// Throws std::bad_alloc with nothing changed.
  void add(const PastUse &use, backend::StreamTable &streams) {
    forget_passed(streams);
    size_t kept = 0;
    for (const PastUse &old : uses_) {
      // Not every use added is the latest: the hit path's stamp moves here when another stream comes.
      const bool covered = old.stamp.slot() == use.stamp.slot() &&
                           old.stamp.point() <= use.stamp.point() && use.begin <= old.begin &&
                           old.end <= use.end && (use.stamp.write() || !old.stamp.write());
      if (!covered) uses_[kept++] = old;
    }
    uses_.resize(kept);
    if (kept >= merge_above) {
      merge(use);
      return;
    }
    uses_.push_back(use);
  }
  void forget_passed(backend::StreamTable &streams) noexcept {
    std::erase_if(uses_, [&streams](const PastUse &use) { return streams.passed(use.stamp); });
  }
  bool empty() const noexcept { return uses_.empty(); }
  const std::pmr::vector<PastUse> &uses() const noexcept { return uses_; }

 private:
  static constexpr size_t merge_above = 32;

  /// Many small ranges: widen the entry of the same stream, which only makes others wait for more.
  void merge(const PastUse &use) {
    for (PastUse &old : uses_) {
      if (old.stamp.slot() != use.stamp.slot()) continue;
      old.begin = std::min(old.begin, use.begin);
      old.end = std::max(old.end, use.end);
      const uint64_t point = std::max(old.stamp.point(), use.stamp.point());
      old.stamp =
          backend::Stamp::make(use.stamp.slot(), point, old.stamp.write() || use.stamp.write());
      return;
    }
    uses_.push_back(use);
  }

  std::pmr::vector<PastUse> uses_;
};

}  // namespace weir::residency
