// SPDX-License-Identifier: Apache-2.0
//
// Geometry: how a region's bytes fall into pages, and these into granules. With VMM: large pages first, the tail in small
// ones. Without VMM a region is one page of its own size, because an extent can't be split.
//
// A region that shares granules (sharing.hpp) may begin within one: its first page, a small one, then has no more bytes than
// lie behind `lead`, and its address is no multiple of the page size. Offsets are the region's own all the same: byte 0
// is the region's first. What a page has of a granule that it does not fill is a fragment; the rest is others'.
#pragma once

#include "core/physical/granule_pool.hpp"

#include <bit>

namespace weir::page {

using physical::PageClass;

struct Geometry {
  uint64_t size = 0;
  uint64_t small_bytes = 0;  ///< bytes of a small page; without VMM, of the only page
  uint64_t large_bytes = 0;
  uint64_t lead = 0;    ///< bytes of the first granule that lie before the region
  uint32_t front = 0;   ///< 1 with a lead: the page behind it, before the large ones
  uint32_t large = 0;   ///< pages of the large class
  uint32_t small = 0;   ///< pages of the small class, after them
  bool shared = false;  ///< it has a part of a granule at its front, at its end or at both
  bool cut = false;     ///< ... at its end: others may have the rest of its last granule
  /// log2 of small_bytes, so that page_at() need not divide; of one page alone, whatever leaves every byte on it.
  uint8_t small_shift = 63;

  /// `page` is a power of two, here and below.
  static Geometry paged(uint64_t size, uint64_t page, uint64_t large_page) noexcept {
    return led(size, page, large_page, 0);
  }
  /// Whose first page has `head` bytes, less than a page; 0: it begins with a whole page.
  static Geometry led(uint64_t size, uint64_t page, uint64_t large_page, uint64_t head) noexcept {
    Geometry g;
    g.size = size;
    g.small_bytes = page;
    g.small_shift = static_cast<uint8_t>(std::countr_zero(page));
    g.large_bytes = large_page;
    g.front = head != 0 ? 1 : 0;
    g.lead = head != 0 ? page - head : 0;
    uint64_t rest = size - head;
    if (large_page > page) g.large = static_cast<uint32_t>(rest / large_page);
    rest -= uint64_t{g.large} * large_page;
    g.small = static_cast<uint32_t>((rest + page - 1) / page);
    return g;
  }
  /// No fewer than a region of so many bytes has, in however many bits that takes.
  static constexpr uint64_t most_pages(uint64_t size, uint64_t page, uint64_t large_page) noexcept {
    const uint64_t large = large_page > page ? size / large_page : 0;
    const uint64_t rest = size - large * large_page;
    return large + rest / page + 2;
  }
  static Geometry whole(uint64_t size) noexcept {
    Geometry g;
    g.size = size;
    g.small_bytes = (size + 255) / 256 * 256;
    g.large_bytes = g.small_bytes;
    g.small = 1;
    return g;
  }

  uint32_t pages() const noexcept { return front + large + small; }
  bool is_large(uint32_t page) const noexcept { return page >= front && page < front + large; }
  PageClass page_class(uint32_t page) const noexcept {
    return is_large(page) ? PageClass::large : PageClass::small;
  }
  /// Of the granule under it.
  uint64_t granule_bytes(uint32_t page) const noexcept {
    return is_large(page) ? large_bytes : small_bytes;
  }
  /// From one page's first byte to the next one's.
  uint64_t page_bytes(uint32_t page) const noexcept {
    return page < front ? small_bytes - lead : granule_bytes(page);
  }
  uint64_t offset(uint32_t page) const noexcept {
    if (page < front) return 0;
    const uint32_t after = page - front;
    return head() + (after < large ? after * large_bytes
                                   : large * large_bytes + (after - large) * small_bytes);
  }
  /// Bytes of the page that belong to the region.
  uint64_t used_bytes(uint32_t page) const noexcept {
    const uint64_t left = size - offset(page);
    return left < page_bytes(page) ? left : page_bytes(page);
  }
  uint32_t page_at(uint64_t byte) const noexcept {
    if (byte < head()) return 0;
    byte -= head();
    const uint64_t in_large = uint64_t{large} * large_bytes;
    if (byte < in_large) return front + static_cast<uint32_t>(byte / large_bytes);
    return front + large + static_cast<uint32_t>((byte - in_large) >> small_shift);
  }
  /// Whether it has only a part of its granule, and others may have the rest.
  bool fragment(uint32_t page) const noexcept {
    return page < front || (cut && page + 1 == pages());
  }
  /// What a client is charged for it.
  uint64_t charged_bytes(uint32_t page) const noexcept {
    return fragment(page) ? used_bytes(page) : granule_bytes(page);
  }
  uint64_t charged_bytes() const noexcept {
    uint64_t bytes = large * large_bytes + (front + small) * small_bytes;
    if (front != 0) bytes -= granule_bytes(0) - used_bytes(0);
    if (cut) bytes -= granule_bytes(pages() - 1) - used_bytes(pages() - 1);
    return bytes;
  }
  uint64_t physical_bytes() const noexcept {
    return large * large_bytes + (front + small) * small_bytes;
  }

  // ---- addresses ----
  /// Of the addresses that the region needs, so many lie before its first granule: large pages keep their alignment.
  uint64_t address_padding() const noexcept {
    return front != 0 && large != 0 ? large_bytes - small_bytes : 0;
  }
  uint64_t address_bytes() const noexcept { return address_padding() + physical_bytes(); }
  uint64_t address_alignment() const noexcept { return large != 0 ? large_bytes : small_bytes; }
  /// From a page's first byte back to where its granule is mapped.
  uint64_t before(uint32_t page) const noexcept { return page < front ? lead : 0; }

  bool same_shape(const Geometry &other) const noexcept {
    return front == other.front && large == other.large && small == other.small &&
           small_bytes == other.small_bytes && large_bytes == other.large_bytes &&
           shared == other.shared && cut == other.cut && lead == other.lead;
  }

 private:
  uint64_t head() const noexcept { return front != 0 ? small_bytes - lead : 0; }
};

}  // namespace weir::page
