// SPDX-License-Identifier: Apache-2.0
//
// Slab: which ranges of a region its tenants have, and which of its pages have tenants at all. A page without any is idle:
// its bytes belong to no buffer, it is charged to no client, and it is given up before any other. Where tenants never move (memory of
// weir_malloc), such a page's range is not among the free ranges either, so that a free range is always one on pages that
// have to be in place anyway: each of them is `closed` by a node of its own. Guarded by the pool's lock.
#pragma once

#include "core/physical/arena.hpp"
#include "core/physical/room_tree.hpp"

#include <algorithm>

namespace weir::page {

struct SlabPage {
  uint32_t tenants = 0;                          ///< that have bytes on it
  uint32_t closed = physical::SmallArena::none;  ///< the node that keeps others out
  uint64_t idle_since = 0;  ///< the engine's look at what is idle at which the last one left
  bool told = false;        ///< the policy has it among what is to go first
};

class Slab : public physical::SmallArena {
 public:
  /// So that a word has a bit for each page.
  static constexpr uint32_t most_pages = 64;

  Slab(uint64_t bytes, uint32_t page_count, std::pmr::memory_resource *memory)
      : BasicArena(bytes, 256, memory), pages(page_count, memory) {
    assert(page_count <= most_pages);
  }

  /// Closes every page of so many bytes. std::bad_alloc: the slab is of no use.
  void close_all(uint64_t page_bytes) {
    keep_spare(2 * static_cast<uint32_t>(pages.size()));
    Node next = none;
    for (size_t p = pages.size(); p-- > 0;) next = close(p, next, page_bytes);
    longest_closed = static_cast<uint32_t>(pages.size());
  }
  /// Closes those of the pages [first, last] that have no tenants; `next`: the live node behind the range that was freed.
  void close_idle(Node next, uint32_t first, uint32_t last, uint64_t page_bytes) noexcept {
    const uint64_t before = closed_;
    for (uint32_t p = last + 1; p-- > first;) {
      if (pages[p].tenants == 0 && pages[p].closed == none) next = close(p, next, page_bytes);
    }
    if (closed_ != before) count_closed();
  }
  /// Opens `n` closed pages from `first` on; returns the live node behind them.
  Node open(uint32_t first, uint32_t n) noexcept {
    const Node behind = next(pages[first + n - 1].closed);
    for (uint32_t p = first; p < first + n; ++p) {
      free(pages[p].closed);
      pages[p].closed = none;
      closed_ &= ~(uint64_t{1} << p);
    }
    count_closed();
    return behind;
  }

  std::pmr::vector<SlabPage> pages;
  uint64_t taken = 0;                   ///< bytes that tenants have
  uint32_t longest_closed = 0;          ///< pages of the longest run of closed ones
  uint32_t count = 0;                   ///< tenants
  uint32_t position = 0;                ///< in its group ...
  physical::RoomTree *rooms = nullptr;  ///< ... whose index this is
  /// Whether the node is a tenant's.
  bool tenant(Node node) const { return owner(node) != closed_owner; }
  static constexpr uint32_t closed_owner = UINT32_MAX;

  /// As first() and next(), tenants alone.
  Node first_tenant() const { return tenant_from(first()); }
  Node next_tenant(Node node) const { return tenant_from(next(node)); }

 private:
  Node close(size_t page, Node next, uint64_t page_bytes) noexcept {
    const Node node = take_before(next, page * page_bytes, page_bytes);
    set_owner(node, closed_owner);
    pages[page].closed = node;
    closed_ |= uint64_t{1} << page;
    return node;
  }
  /// Run by run, of which there are few.
  void count_closed() noexcept {
    uint64_t left = closed_;
    longest_closed = 0;
    while (left != 0) {
      left >>= static_cast<unsigned>(std::countr_zero(left));
      const auto run = static_cast<unsigned>(std::countr_one(left));
      longest_closed = std::max<uint32_t>(longest_closed, run);
      left = run < most_pages ? left >> run : 0;
    }
  }
  Node tenant_from(Node node) const {
    while (node != none && !tenant(node)) node = next(node);
    return node;
  }

  uint64_t closed_ = 0;  ///< a bit for each closed page
};

}  // namespace weir::page
