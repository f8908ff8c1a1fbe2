// SPDX-License-Identifier: Apache-2.0
//
// Geometry: how a region's bytes fall into pages. With VMM: large pages first, the tail in small ones. Without
// VMM a region is one page of its own size, because an extent can't be split.
#pragma once

#include "core/physical/granule_pool.hpp"

namespace weir::vm {

using physical::PageClass;

struct Geometry {
  uint64_t size = 0;
  uint64_t small_bytes = 0;  ///< bytes of a small page; without VMM, of the only page
  uint64_t large_bytes = 0;
  uint32_t large = 0;  ///< pages of the large class, at the front
  uint32_t small = 0;  ///< pages of the small class, after them

  static Geometry paged(uint64_t size, uint64_t page, uint64_t large_page) noexcept {
    Geometry g;
    g.size = size;
    g.small_bytes = page;
    g.large_bytes = large_page;
    if (large_page > page) g.large = static_cast<uint32_t>(size / large_page);
    const uint64_t rest = size - uint64_t{g.large} * large_page;
    g.small = static_cast<uint32_t>((rest + page - 1) / page);
    return g;
  }
  static Geometry whole(uint64_t size) noexcept {
    Geometry g;
    g.size = size;
    g.small_bytes = (size + 255) / 256 * 256;
    g.large_bytes = g.small_bytes;
    g.small = 1;
    return g;
  }

  uint32_t pages() const noexcept { return large + small; }
  PageClass page_class(uint32_t page) const noexcept {
    return page < large ? PageClass::large : PageClass::small;
  }
  uint64_t page_bytes(uint32_t page) const noexcept {
    return page < large ? large_bytes : small_bytes;
  }
  uint64_t offset(uint32_t page) const noexcept {
    return page < large ? page * large_bytes : large * large_bytes + (page - large) * small_bytes;
  }
  /// Bytes of the page that belong to the region.
  uint64_t used_bytes(uint32_t page) const noexcept {
    const uint64_t left = size - offset(page);
    return left < page_bytes(page) ? left : page_bytes(page);
  }
  uint32_t page_at(uint64_t byte) const noexcept {
    const uint64_t front = uint64_t{large} * large_bytes;
    if (byte < front) return static_cast<uint32_t>(byte / large_bytes);
    return large + static_cast<uint32_t>((byte - front) / small_bytes);
  }
  uint64_t physical_bytes() const noexcept { return large * large_bytes + small * small_bytes; }
  bool same_shape(const Geometry &other) const noexcept {
    return large == other.large && small == other.small && small_bytes == other.small_bytes &&
           large_bytes == other.large_bytes;
  }
};

}  // namespace weir::vm
