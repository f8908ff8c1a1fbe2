// SPDX-License-Identifier: Apache-2.0
//
// UseTimes: when a region was used last, and when it will be next, as policies weigh it. Read from the words of its buffers and from
// what streams have announced; it owns nothing. Under the pool's lock.
#pragma once

#include "core/page/buffer_directory.hpp"
#include "core/policy/announcements.hpp"
#include "core/policy/policy.hpp"

#include <algorithm>

namespace weir::page {

class UseTimes {
 public:
  UseTimes(BufferDirectory &buffers, policy::Announcements &announcements) noexcept
      : buffers_(buffers), announcements_(announcements) {}

  void describe(Region &region, policy::PageInfo *info) const noexcept WEIR_HELD {
    glance(region, info);
    if (!info->rough) return;
    const auto seen = [this, info](uint32_t index) {
      info->last_use = std::max(info->last_use, buffers_.hot(index).last_use().point());
    };
    region.for_each_buffer(seen);
    region.past.last_use = info->last_use;
    info->rough = false;
  }
  /// Of a slab what was seen the last time.
  void glance(const Region &region, policy::PageInfo *info) const noexcept WEIR_HELD {
    info->last_use = region.past.last_use;
    info->next_use = announcements_.before_use_of(region.id);
    info->rough = region.is.slab && !region.is.pinned;
    if (region.owner.buffer != BufferTable::none)
      info->last_use =
          std::max(info->last_use, buffers_.hot(region.owner.buffer).last_use().point());
  }

 private:
  BufferDirectory &buffers_;
  policy::Announcements &announcements_;
};

}  // namespace weir::page
