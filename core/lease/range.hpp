// SPDX-License-Identifier: Apache-2.0
//
// Range: bytes of a buffer, and where the buffer lies. Whose bytes are on a page: the question from the other side.
#pragma once

#include "core/base/pool_lock.hpp"
#include "core/page/buffer_directory.hpp"
#include "core/page/region.hpp"

namespace weir::lease {

struct Range {
  uint64_t begin = 0, end = 0;  ///< bytes of the buffer
  uint32_t buffer = 0;
  page::Region *region = nullptr;
  uint64_t base = 0;  ///< of the buffer within the region
};

inline Range part_of(const page::Target &where, uint32_t buffer, uint64_t begin,
                     uint64_t end) noexcept {
  return {begin, end, buffer, where.region, where.base};
}
inline Range all_of(const page::Target &where, uint32_t buffer) noexcept {
  return part_of(where, buffer, 0, where.size);
}

/// Shows every buffer with bytes on the page, and where it begins in the region, until `visit` says false; then that is the answer.
/// Nobody leases memory of weir_malloc: it is not shown.
template <class Visit>
bool each_owner(page::Region &region, uint32_t page, Visit &&visit) WEIR_HELD {
  if (region.is.pinned) return true;
  if (!region.is.slab)
    return region.owner.buffer == page::BufferDirectory::none ||
           visit(region.owner.buffer, uint64_t{0});
  const uint64_t begin = region.shape.offset(page);
  const uint64_t end = begin + region.shape.page_bytes(page);
  auto &tenants = *region.tenants;
  for (auto node = tenants.first(); node != physical::SmallArena::none; node = tenants.next(node)) {
    const uint64_t at = tenants.offset(node);
    if (at >= end) break;
    if (at + tenants.size(node) > begin && !visit(tenants.owner(node), at)) return false;
  }
  return true;
}

}  // namespace weir::lease
