// SPDX-License-Identifier: Apache-2.0
//
// The walk over buffers and pages, and the clients that have places.

#include "core/pool/use_walk.hpp"

#include <algorithm>
#include <bit>

namespace weir::pool {

// ---- clients ----

void ShownClients::follow(const Accounts &accounts) noexcept {
  constexpr uint32_t most_looks = 64;
  for (uint32_t &id : ids_)
    if (id != none && !accounts.lives(id)) id = none;
  const uint32_t count = accounts.clients();
  auto free = std::ranges::find(ids_, none);
  for (uint32_t i = 0; i < std::min(count, most_looks) && free != ids_.end(); ++i) {
    if (next_ >= count) next_ = 0;
    const uint32_t client = next_++;
    if (!accounts.lives(client) || place_of(client) != none) continue;
    *free = client;
    free = std::find(free, ids_.end(), none);
  }
}

uint32_t ShownClients::place_of(uint32_t client) const noexcept {
  const auto found = std::ranges::find(ids_, client);
  return found != ids_.end() ? static_cast<uint32_t>(found - ids_.begin()) : none;
}

// ---- the walk ----

void UseWalk::begin() noexcept {
  now_ = {};
  for (size_t i = 0; i < ShownClients::places(); ++i) now_.client_ids[i] = shown_.at(i);
  next_ = 0;
  page_at_ = 0;
}

void UseWalk::step(uint32_t most) noexcept {
  if (next_ == 0 && page_at_ == 0) begin();
  // A number that is nobody's costs a load.
  constexpr uint64_t numbers_a_look = 8;
  const uint32_t end = page_.buffers.end();
  const auto stop =
      static_cast<uint32_t>(std::min<uint64_t>(end, next_ + uint64_t{most} * numbers_a_look));
  for (uint32_t looks = 0; next_ < stop && looks < most;) {
    bool done = true;
    const uint64_t word = page_.buffers.hot(next_).word.load(std::memory_order_relaxed);
    if ((word & Word::alive) != 0) looks += 1 + look(next_, most - looks, &done);
    if (!done) return;
    page_at_ = 0;
    ++next_;
  }
  if (next_ < end) return;
  now_.ended_ns = std::max<uint64_t>(env_.now_ns(), 1);
  last_ = now_;
  next_ = 0;
}

uint32_t UseWalk::look(uint32_t index, uint32_t most, bool *done) noexcept {
  page::Hot &hot = page_.buffers.hot(index);
  const uint64_t word = hot.word.load(std::memory_order_relaxed);
  const page::Target where = page_.buffers.target(index);
  const Region &region = *where.region;
  // Where another buffer has the index by now, the part of the old one that was counted stays so until the next walk.
  if (page_at_ != 0 && hot.generation() != generation_) return 0;
  generation_ = hot.generation();
  const bool leased = Word::leases(word) != 0 || (word & Word::partial) != 0;
  if ((!leased && !region.is.cold) || (word & Word::virgin) != 0 || where.size == 0) return 0;
  const uint32_t place = shown_.place_of(region.owner.client);
  const uint64_t end = where.base + where.size;
  const uint32_t last = region.shape.page_at(end - 1);
  uint32_t looks = 0;
  uint32_t p = std::max(page_at_, region.shape.page_at(where.base));
  for (; p <= last && looks < most; ++p, ++looks) {
    const uint64_t from = std::max(where.base, region.shape.offset(p));
    const uint64_t to = std::min(end, region.shape.offset(p) + region.shape.page_bytes(p));
    add(region, p, to - from, leased, region.is.cold, place);
  }
  *done = p > last;
  page_at_ = p;
  return looks;
}

void UseWalk::add(const Region &region, uint32_t page, uint64_t bytes, bool leased, bool cold,
                  uint32_t place) noexcept {
  const uint32_t latest = region.pages[page].latest();
  if (latest == 0 || (latest & page::lost_bit) != 0) return;
  const auto count = [&](Bytes &sum) {
    if (leased) sum.leased += bytes;
    if (cold) sum.cold += bytes;
  };
  uint32_t tier = live::storage_tier;
  if (const uint32_t devices = latest & page::device_bits; devices != 0) {
    tier = live::device_tier;
    const uint8_t home = region.home_of(page);
    const auto at = (devices >> home & 1U) != 0 ? home : std::countr_zero(devices);
    count(now_.devices[static_cast<size_t>(at)]);
  } else if ((latest & page::host_bit) != 0) {
    tier = live::host_tier;
  } else if ((latest & page::compressed_bit) != 0) {
    tier = live::compressed_tier;
  }
  count(now_.tiers[tier]);
  if (place != ShownClients::none && now_.client_ids[place] == region.owner.client)
    count(now_.clients[place][tier]);
}

UseWalk::Bytes UseWalk::of_client(size_t place, uint32_t client, uint32_t tier) const noexcept {
  return last_.ended_ns != 0 && last_.client_ids[place] == client ? last_.clients[place][tier]
                                                                  : Bytes{};
}

}  // namespace weir::pool
