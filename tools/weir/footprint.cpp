// SPDX-License-Identifier: Apache-2.0
//
// Footprint: one walk over the plan. Blocks below a page share slabs, so they count by their bytes
// with room for fragmentation; in an operation's set each may touch a page of its own, but no more
// pages than the slabs have.
#include "footprint.hpp"

#include "operation_uses.hpp"

#include <algorithm>
#include <bit>

namespace weir::tool {
namespace {

constexpr uint64_t slab_slack_pages = 16;

class Meter {
 public:
  Meter(const Plan &plan, const FootprintOptions &options)
      : plan_(plan), options_(options), lag_(options.ahead + 2, Parts{}) {}

  Footprint measure() {
    for (const PlanOperation &operation : plan_.operations) {
      lagging_ -= lag_[next_lag_];
      lag_[next_lag_] = Parts{};
      walk(operation.prelude, operation.body);
      walk(operation.body, operation.end);
      measure_set(operation);
      next_lag_ = (next_lag_ + 1) % lag_.size();
    }
    const uint64_t page = options_.page;
    const uint64_t slack = largest_charge_ / 16 + 64 * page;
    result_.all_resident = rounded(largest_charge_ + slack);
    return result_;
  }

 private:
  /// Bytes of blocks of a page or more, in whole pages, and of smaller ones.
  struct Parts {
    uint64_t large = 0;
    uint64_t small = 0;
    Parts &operator+=(const Parts &other) {
      large += other.large;
      small += other.small;
      return *this;
    }
    Parts &operator-=(const Parts &other) {
      large -= other.large;
      small -= other.small;
      return *this;
    }
  };

  uint64_t rounded(uint64_t bytes) const {
    return (bytes + options_.page - 1) / options_.page * options_.page;
  }

  Parts parts(uint32_t block) const {
    const uint64_t bytes = plan_.block_bytes[block];
    if (bytes >= options_.page) return {rounded(bytes), 0};
    return {0, (bytes + 255) / 256 * 256};
  }
  uint64_t slabs(uint64_t small) const {
    return small == 0 ? 0 : rounded(2 * small) + slab_slack_pages * options_.page;
  }

  void walk(uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) {
      const PlanKind kind = plan_kind(plan_.events[i]);
      if (plan_is_use(kind)) continue;
      const Parts bytes = parts(plan_block(plan_.events[i]));
      if (kind == plan_alloc) {
        live_ += bytes;
      } else {
        live_ -= bytes;
        lag_[next_lag_] += bytes;
        lagging_ += bytes;
      }
      Parts charged = live_;
      charged += lagging_;
      largest_charge_ = std::max(largest_charge_, charged.large + slabs(charged.small));
      result_.live = std::max(result_.live, live_.large + slabs(live_.small));
    }
  }

  void measure_set(const PlanOperation &operation) {
    merger_.merge(plan_, operation, uses_);
    uint64_t large = 0;
    uint64_t small_pages = 0;
    uint64_t page_end = 0;  // of the pages counted so far of the current block
    uint32_t block = UINT32_MAX;
    for (const BlockUse &use : uses_) {
      const bool fresh = use.block != block;
      block = use.block;
      const uint64_t bytes = plan_.block_bytes[block];
      if (bytes < options_.page || options_.whole_blocks) {
        if (!fresh) continue;
        if (bytes < options_.page)
          ++small_pages;
        else
          large += rounded(bytes);
        continue;
      }
      uint64_t from = use.offset / options_.page;
      const uint64_t to = (use.offset + use.length + options_.page - 1) / options_.page;
      if (!fresh) from = std::max(from, page_end);
      if (to > from) large += (to - from) * options_.page;
      page_end = to;
    }
    Parts charged = live_;
    charged += lagging_;
    const uint64_t small = std::min(small_pages * options_.page, slabs(charged.small));
    result_.largest_set = std::max(result_.largest_set, large + small);
  }

  const Plan &plan_;
  const FootprintOptions &options_;
  Footprint result_;
  Parts live_;
  Parts lagging_;           ///< freed in the last operations
  std::vector<Parts> lag_;  ///< the same, by operation
  size_t next_lag_ = 0;
  uint64_t largest_charge_ = 0;
  UseMerger merger_;
  std::vector<BlockUse> uses_;
};

}  // namespace

Footprint measure_footprint(const Plan &plan, const FootprintOptions &options) {
  return Meter(plan, options).measure();
}

uint64_t default_granule(uint64_t peak_live_bytes) {
  const uint64_t wanted = std::max<uint64_t>(peak_live_bytes / 4096, 1);
  const uint64_t below = std::bit_floor(wanted);
  const uint64_t nearest = wanted - below > 2 * below - wanted ? 2 * below : below;
  return std::clamp<uint64_t>(nearest, 16 << 10, 2 << 20);
}

}  // namespace weir::tool
