// SPDX-License-Identifier: Apache-2.0
//
// Announced operations, by stream, and their numbers, by region. What can't be listed for want of memory is not announced.

#include "core/policy/announcements.hpp"

#include <weir/lease.h>

namespace weir::policy {

void Announcements::append(uint32_t slot, std::pmr::vector<AnnouncedUses> &fresh,
                           const std::pmr::vector<uint32_t> &regions) {
  std::pmr::memory_resource *memory = streams_.get_allocator().resource();
  std::pmr::vector<std::pmr::set<Upcoming>::iterator> listed(memory);
  listed.reserve(regions.size());
  Stream &stream = streams_.try_emplace(slot, memory).first->second;
  const size_t old = stream.operations.size();
  auto region = regions.begin();
  try {
    for (AnnouncedUses &uses : fresh) {
      const uint64_t number = stream.base + stream.operations.size();
      for (size_t i = 0; i < uses.size(); ++i, ++region) {
        const auto [entry, added] = upcoming_.insert(Upcoming{*region, number, slot});
        if (added) listed.push_back(entry);
      }
      stream.operations.push_back(std::move(uses));
    }
  } catch (...) {
    for (const auto &entry : listed) upcoming_.erase(entry);
    while (stream.operations.size() > old) stream.operations.pop_back();
    throw;
  }
}

size_t Announcements::count(uint32_t slot) noexcept {
  const Stream *stream = find(slot);
  return stream != nullptr ? stream->operations.size() : 0;
}

void Announcements::forget(uint32_t region, uint64_t until) noexcept {
  if (region == no_region) return;
  upcoming_.erase(upcoming_.lower_bound({region, 0, 0}),
                  upcoming_.upper_bound({region, until, UINT32_MAX}));
}

std::optional<Announcements::Next> Announcements::take(uint32_t slot) noexcept {
  Stream *stream = find(slot);
  if (stream == nullptr) return {};
  const uint64_t end = stream->base + std::min<uint64_t>(stream->operations.size(), lookahead);
  for (; stream->taken < end; ++stream->taken, stream->taken_use = 0) {
    const AnnouncedUses &uses = stream->operations[stream->taken - stream->base];
    while (stream->taken_use < uses.size()) {
      const size_t index = stream->taken_use++;
      if (uses[index].mode != WEIR_DISCARD_WRITE) return Next{uses[index], stream->taken, index};
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
  stream->operations[number - stream->base][index].brought += bytes;
  stream->ahead += bytes;
}

uint64_t Announcements::ahead(uint32_t slot) noexcept {
  const Stream *stream = find(slot);
  return stream != nullptr ? stream->ahead : 0;
}

uint64_t Announcements::before(uint32_t slot, uint64_t number) noexcept {
  const Stream *stream = find(slot);
  return number - std::min(number, stream != nullptr ? stream->base : 0);
}

uint64_t Announcements::before_use_of(uint32_t region) noexcept {
  const auto next = upcoming_.lower_bound({region, 0, 0});
  if (next == upcoming_.end() || next->region != region) return UINT64_MAX;
  return before(next->slot, next->number);
}

}  // namespace weir::policy
