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

void Announcements::append(uint32_t slot, std::pmr::vector<AnnouncedUses> &fresh) {
  Stream &stream = streams_.try_emplace(slot, streams_.get_allocator().resource()).first->second;
  const size_t old = stream.operations.size();
  const auto each = [&](auto &&visit) {
    uint64_t number = stream.base + old;
    for (const AnnouncedUses &uses : fresh) {
      for (const AnnouncedUse &use : uses) visit(use.region, Upcoming{number, slot, use.needs()});
      ++number;
    }
  };
  try {
    each([this](uint32_t region, Upcoming use) {
      const auto listed = upcoming_[region].insert(use).first;
      listed->needed = listed->needed || use.needed;
    });
    for (AnnouncedUses &uses : fresh) stream.operations.push_back(std::move(uses));
  } catch (...) {
    while (stream.operations.size() > old) {
      fresh[stream.operations.size() - 1 - old] = std::move(stream.operations.back());
      stream.operations.pop_back();
    }
    each([this](uint32_t region, Upcoming use) { unlist(region, use); });
    throw;
  }
}

void Announcements::unlist(uint32_t region, Upcoming use) noexcept {
  const auto found = upcoming_.find(region);
  if (found == upcoming_.end()) return;
  found->second.erase(use);
  if (found->second.empty()) upcoming_.erase(found);
}

void Announcements::consume(uint32_t slot) noexcept {
  Stream &stream = find(slot);
  if (stream.operations.empty()) return;
  for (const AnnouncedUse &use : stream.operations.front()) {
    unlist(use.region, {stream.base, slot});
    stream.ahead -= use.brought;
  }
  stream.pop();
}

std::optional<Announcements::Next> Announcements::take(uint32_t slot) noexcept {
  Stream &stream = find(slot);
  const uint64_t end = stream.base + std::min<uint64_t>(stream.operations.size(), lookahead);
  for (; stream.taken < end; ++stream.taken, stream.taken_use = 0) {
    const AnnouncedUses &uses = stream.operations[stream.taken - stream.base];
    while (stream.taken_use < uses.size()) {
      const size_t index = stream.taken_use++;
      if (uses[index].mode != WEIR_DISCARD_WRITE) return Next{uses[index], stream.taken, index};
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

std::optional<Announcements::NextUse> Announcements::next_use(uint32_t slot, uint32_t region,
                                                              uint64_t from) const noexcept {
  const auto found = upcoming_.find(region);
  if (found == upcoming_.end()) return {};
  for (auto use = found->second.lower_bound({from, 0}); use != found->second.end(); ++use)
    if (use->slot == slot) return NextUse{use->number, use->needed};
  return {};
}

uint64_t Announcements::before_use_of(uint32_t region) noexcept {
  const auto found = upcoming_.find(region);
  if (found == upcoming_.end()) return UINT64_MAX;
  const Upcoming &next = *found->second.begin();
  return before(next.slot, next.number);
}

}  // namespace weir::policy
