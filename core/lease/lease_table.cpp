// SPDX-License-Identifier: Apache-2.0
//
// What forbids a lease, and counting one in and out.

#include "core/lease/lease_table.hpp"

#include "core/page/spans.hpp"

#include <algorithm>

namespace weir::lease {

using page::Word;

namespace {

constexpr uint64_t any_lease = Word::readers_mask | Word::writer;

/// Whether a lease of `begin` to `end`, had in a scope, forbids one of the range in another.
bool meets(uint64_t begin, uint64_t end, ClaimScope there, const Range &range, ClaimScope scope) {
  if (there.meets(scope)) return begin < range.end && range.begin < end;
  // Between places a page has one latest version: what shares a page conflicts.
  const page::Geometry &shape = range.region->shape;
  return shape.page_at(range.base + begin) <= shape.page_at(range.base + range.end - 1) &&
         shape.page_at(range.base + range.begin) <= shape.page_at(range.base + end - 1);
}

/// What of the leases in the word forbids a lease of the range. One on a range was granted by the hit path, which ranges have at home alone,
/// or, to read, on the shards.
LeaseTable::Conflict counted_conflict(const page::Spans::Look &seen, uint64_t size,
                                      const Range &range, bool write, ClaimScope scope) noexcept {
  const uint64_t wholes = seen.wholes();
  const bool written = (wholes & Word::writer) != 0;
  if (written || (write && wholes != 0)) return {0, size, written};
  if (!seen.part || (!write && seen.part->mode == WEIR_READ)) return {};
  const page::SpanLease &part = *seen.part;
  const ClaimScope there = range.region->shards != nullptr
                               ? ClaimScope::shards()
                               : ClaimScope::on(Place(range.region->home));
  if (!meets(part.begin, part.end, there, range, scope)) return {};
  return {part.begin, part.end, part.mode != WEIR_READ};
}

/// Whether a lease that the word counts keeps the page where it is.
bool keeps(const page::Spans::Look &seen, const page::Region &region, uint64_t base,
           uint32_t page) noexcept {
  if (seen.wholes() != 0) return true;
  return seen.part && region.shape.page_at(base + seen.part->begin) <= page &&
         page <= region.shape.page_at(base + seen.part->end - 1);
}

}  // namespace

LeaseTable::Conflict LeaseTable::conflict(const Range &range, bool write,
                                          ClaimScope scope) const noexcept {
  const page::Hot &hot = buffers_.hot(range.buffer);
  const uint64_t word = hot.word.load(std::memory_order_acquire);
  if (Word::leases(word) != 0) {
    const Conflict counted =
        counted_conflict(buffers_.spans().look(hot), hot.size(), range, write, scope);
    if (counted.end != 0) return counted;
  }
  if ((word & Word::partial) == 0) return {};
  const auto others = partials(range.buffer);
  const auto found = std::find_if(others.begin(), others.end(), [&](const Partial &other) {
    return (write || other.mode != WEIR_READ) &&
           meets(other.begin, other.end, other.scope, range, scope);
  });
  if (found == others.end()) return {};
  return {found->begin, found->end, found->mode != WEIR_READ};
}

bool LeaseTable::take(const Range &range, uint8_t mode, ClaimScope scope, const void *lease) {
  const bool write = mode != WEIR_READ;
  if (whole(range)) return take_whole(range.buffer, write);
  const auto entry = spare_.have(partials_, range.buffer);
  try {
    entry->second.push_back({range.begin, range.end, mode, scope, lease});
  } catch (...) {
    if (entry->second.empty()) spare_.retire(partials_, entry);
    throw;
  }
  buffers_.hot(range.buffer).set_flags(Word::partial, 0);
  count_pages(*range.region, range.base + range.begin, range.base + range.end, 1);
  // The flag has closed the hit path; what it granted before shows in the word.
  const page::Hot &hot = buffers_.hot(range.buffer);
  if (Word::leases(hot.word.load(std::memory_order_acquire)) == 0 ||
      counted_conflict(buffers_.spans().look(hot), hot.size(), range, write, scope).end == 0)
    return true;
  drop(range, mode, lease);
  return false;
}

bool LeaseTable::take_whole(uint32_t buffer, bool write) noexcept {
  page::Hot &hot = buffers_.hot(buffer);
  if (write) return hot.try_flags(any_lease, Word::writer, 0);
  uint64_t seen = hot.word.load(std::memory_order_relaxed);
  do {
    if ((seen & Word::writer) != 0 || (seen & Word::readers_mask) == Word::readers_mask)
      return false;
  } while (!hot.word.compare_exchange_weak(seen, seen + Word::reader, std::memory_order_acq_rel));
  return true;
}

bool LeaseTable::take_alone(uint32_t buffer) noexcept {
  return buffers_.hot(buffer).try_flags(any_lease | Word::partial, Word::writer, Word::resident);
}

void LeaseTable::drop(const Range &range, uint8_t mode, const void *lease) noexcept {
  if (whole(range)) return buffers_.hot(range.buffer).drop_lease(mode);
  const auto entry = partials_.find(range.buffer);
  if (entry == partials_.end()) return;
  auto &parts = entry->second;
  const auto found = std::find_if(parts.begin(), parts.end(), [&](const Partial &part) {
    return part.lease == lease && part.begin == range.begin && part.end == range.end;
  });
  if (found == parts.end()) return;
  *found = parts.back();
  parts.pop_back();
  count_pages(*range.region, range.base + range.begin, range.base + range.end, -1);
  if (!parts.empty()) return;
  spare_.retire(partials_, entry, parts.capacity() <= 64);
  buffers_.hot(range.buffer).set_flags(0, Word::partial);
}

bool LeaseTable::close_for_copy(uint32_t buffer) noexcept {
  page::Hot &hot = buffers_.hot(buffer);
  hot.set_flags(0, Word::resident);
  if ((hot.word.load(std::memory_order_acquire) & Word::writer) != 0) return false;
  const auto parts = partials(buffer);
  return std::all_of(parts.begin(), parts.end(),
                     [](const Partial &part) { return part.mode == WEIR_READ; });
}

uint32_t LeaseTable::count(uint32_t buffer) const noexcept {
  const uint64_t word = buffers_.hot(buffer).word.load(std::memory_order_relaxed);
  const auto counted =
      static_cast<uint32_t>(word & Word::readers_mask) + ((word & Word::writer) != 0 ? 1U : 0U);
  if ((word & Word::partial) == 0) return counted;
  return counted + static_cast<uint32_t>(partials(buffer).size());
}

bool LeaseTable::kept(const page::Region &region, uint32_t page,
                      std::optional<uint8_t> place) noexcept {
  const bool held = place ? region.held_on(*place) : region.holds.count != 0;
  return held || region.pages[page].leases != 0 || region.pages[page].busy() != 0 ||
         (region.is.pinned && region.pins(page));
}

bool LeaseTable::in_use(page::Region &region, uint32_t page,
                        std::optional<uint8_t> place) const noexcept {
  if (kept(region, page, place)) return true;
  if (region.is.pinned) return false;
  return !each_owner(region, page, [&](uint32_t buffer, uint64_t base) WEIR_HELD {
    const page::Hot &hot = buffers_.hot(buffer);
    return Word::leases(hot.word.load(std::memory_order_relaxed)) == 0 ||
           !keeps(buffers_.spans().look(hot), region, base, page);
  });
}

bool LeaseTable::close(page::Region &region, uint32_t page, uint8_t place) noexcept {
  if (region.held(page, place) || region.pages[page].leases != 0) return false;
  return each_owner(region, page, [&](uint32_t buffer, uint64_t base) WEIR_HELD {
    page::Hot &hot = buffers_.hot(buffer);
    if (hot.try_flags(any_lease, 0, Word::resident)) return true;
    page::Spans &spans = buffers_.spans();
    if (keeps(spans.look(hot), region, base, page)) return false;
    // Of a range that is on other pages. Closed first: another may have come since, and none comes after.
    hot.set_flags(0, Word::resident);
    return !keeps(spans.look(hot), region, base, page);
  });
}

void LeaseTable::count_pages(page::Region &region, uint64_t begin, uint64_t end,
                             int delta) noexcept {
  const uint32_t last = region.shape.page_at(end - 1);
  for (uint32_t p = region.shape.page_at(begin); p <= last; ++p) region.count_lease(p, delta);
}

}  // namespace weir::lease
