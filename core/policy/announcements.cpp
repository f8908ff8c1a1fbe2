// SPDX-License-Identifier: Apache-2.0
//
// Announced operations, by stream, and their numbers, by region. What can't be listed for want of memory is not announced.

#include "core/policy/announcements.hpp"

#include <weir/lease.h>

#include <algorithm>

namespace weir::policy {

bool AnnouncedUse::needs() const noexcept {
  return mode != WEIR_DISCARD_WRITE || begin != 0 || end < size;
}

Announcements::ByRegion::iterator Announcements::upcoming(uint32_t region, uint32_t slot) noexcept {
  for (auto [entry, end] = upcoming_.equal_range(region); entry != end; ++entry)
    if (entry->second.slot() == slot) return entry;
  return upcoming_.end();
}

void Announcements::append(uint32_t slot, const std::pmr::vector<AnnouncedUses> &fresh) {
  Stream &stream = streams_.try_emplace(slot, streams_.get_allocator().resource()).first->second;
  const size_t uses = stream.uses.size(), operations = stream.operations();
  const uint64_t from = stream.base + operations;
  try {
    uint64_t number = from;
    for (const AnnouncedUses &operation : fresh) {
      for (const AnnouncedUse &use : operation) {
        auto entry = upcoming(use.region, slot);
        if (entry == upcoming_.end())
          entry =
              upcoming_.emplace(use.region, Upcoming(slot, upcoming_.get_allocator().resource()));
        entry->second.add(number, use.needs());
        stream.uses.push_back(use);
      }
      stream.ends.push_back(stream.over + stream.uses.size());
      ++number;
    }
  } catch (...) {
    while (stream.uses.size() > uses) stream.uses.pop_back();
    while (stream.operations() > operations) stream.ends.pop_back();
    for (const AnnouncedUses &operation : fresh)
      for (const AnnouncedUse &use : operation) cut(use.region, slot, from);
    throw;
  }
}

void Announcements::cut(uint32_t region, uint32_t slot, uint64_t number) noexcept {
  const auto entry = upcoming(region, slot);
  if (entry == upcoming_.end()) return;
  entry->second.cut(number);
  if (entry->second.empty()) upcoming_.erase(entry);
}

void Announcements::unlist(uint32_t region, uint32_t slot, uint64_t number) noexcept {
  const auto entry = upcoming(region, slot);
  // A region's end has taken its list, which then began anew.
  if (entry == upcoming_.end() || entry->second.first() != number) return;
  entry->second.pop();
  if (entry->second.empty()) upcoming_.erase(entry);
}

void Announcements::consume(uint32_t slot, uint64_t count) noexcept {
  Stream &stream = find(slot);
  for (; count != 0 && stream.operations() != 0; --count) {
    for (size_t left = stream.end_of(0); left != 0; --left) {
      const AnnouncedUse &use = stream.uses.front();
      unlist(use.region, slot, stream.base);
      stream.ahead -= use.brought;
      stream.uses.pop_front();
    }
    stream.pop();
  }
}

std::optional<Announcements::Uses> Announcements::operation(uint32_t slot,
                                                            uint64_t number) noexcept {
  const Stream *stream = find(slot, number);
  if (stream == nullptr) return {};
  const size_t at = number - stream->base;
  const auto all = stream->uses.begin();
  return Uses{all + static_cast<std::ptrdiff_t>(stream->begin_of(at)),
              all + static_cast<std::ptrdiff_t>(stream->end_of(at))};
}

std::optional<Announcements::Next> Announcements::take(uint32_t slot) noexcept {
  Stream &stream = find(slot);
  const uint64_t end = stream.base + std::min<uint64_t>(stream.operations(), lookahead);
  for (; stream.taken < end; ++stream.taken, stream.taken_use = 0) {
    const size_t operation = stream.taken - stream.base;
    const size_t begin = stream.begin_of(operation), count = stream.end_of(operation) - begin;
    while (stream.taken_use < count) {
      const size_t index = stream.taken_use++;
      const AnnouncedUse &use = stream.uses[begin + index];
      if (use.mode != WEIR_DISCARD_WRITE) return Next{use, stream.taken, index};
    }
  }
  return {};
}

void Announcements::untake(uint32_t slot, uint64_t number, size_t index) noexcept {
  Stream *stream = find(slot, number);
  if (stream == nullptr) return;
  stream->taken = number;
  stream->taken_use = index;
}

void Announcements::note_brought(uint32_t slot, uint64_t number, size_t index,
                                 uint64_t bytes) noexcept {
  Stream *stream = find(slot, number);
  if (stream == nullptr) return;
  stream->uses[stream->begin_of(number - stream->base) + index].brought += bytes;
  stream->ahead += bytes;
}

std::optional<Announcements::NextUse> Announcements::next_use(uint32_t slot, uint32_t region,
                                                              uint64_t from) const noexcept {
  for (auto [entry, end] = upcoming_.equal_range(region); entry != end; ++entry)
    if (entry->second.slot() == slot) return entry->second.from(from);
  return {};
}

uint64_t Announcements::before_use_of(uint32_t region) noexcept {
  uint64_t next = UINT64_MAX;
  for (auto [entry, end] = upcoming_.equal_range(region); entry != end; ++entry)
    next = std::min(next, before(entry->second.slot(), entry->second.first()));
  return next;
}

}  // namespace weir::policy
