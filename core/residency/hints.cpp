// SPDX-License-Identifier: Apache-2.0
//
// Hints: what was prefetched by a call and nobody has used yet. The policy is told of such pages when it chooses victims. A hint ends
// when its bytes are used, and when its stream has made as many acquires as the device has pages: who asks for more than he
// uses keeps nobody's memory for ever. The hit path knows nothing of all this. That a buffer was used there shows in its
// stamp, and how often in counters that it keeps anyway, so a hint's end is found when somebody looks. All under the pool's lock.
//
// Where the device is too small for what was prefetched and the set that is used before it, the order matters: a page that comes before
// the acquire that needs its room has come for nothing. Whether the next acquire is the one that was prefetched first, or one that was
// not prefetched at all, shows in what the stream has done: until one of its prefetches has been used, and again from when a demand
// took one's room, it evicts nothing unless that much is left (StreamState::foresees).

#include "core/residency/plan.hpp"

#include <algorithm>
#include <mutex>

namespace weir::residency {

/// How far the stream of a slot has come; of slot 0, the pool.
Progress Engine::progress_of(uint32_t slot) noexcept {
  if (slot == 0) return {gauges_.granted, UINT64_MAX};
  StreamState *state = states_.find(slot);
  if (state == nullptr) return {};
  Progress now{state->granted, state->stream->timeline.last()};
  now.uses += state->count_hits();
  return now;
}

/// Remembers a request, instead of older ones of the same bytes. Throws std::bad_alloc with nothing changed.
void Engine::add_hint(const PrefetchRequest &request) {
  const uint32_t slot = request.asker;
  if (hints_.size() >= sweep_hints_at_) sweep_hints();
  const StreamState *state = states_.find(slot);
  const auto fresh = hints_.emplace(
      request.buffer,
      Hint{request.generation, request.begin, request.end, request.call, request.bytes,
           request.until, buffers_.hot(request.buffer).stamp.load(std::memory_order_relaxed),
           progress_of(slot), slot,
           state != nullptr ? state->stream_generation.load(std::memory_order_relaxed) : 0,
           request.place});
  auto [entry, last] = hints_.equal_range(request.buffer);
  while (entry != last) {
    const Hint &old = entry->second;
    const bool same = entry != fresh && old.place == request.place && old.begin >= request.begin &&
                      old.end <= request.end;
    entry = same ? hints_.erase(entry) : std::next(entry);
  }
  // It is as good as used just now: what is older goes before it, also when the hint has ended.
  Region &region = *buffers_.target(request.buffer).region;
  region.last_use = std::max(region.last_use, ticks_.now());
}

bool Engine::hint_lives(uint32_t buffer, const Hint &hint) noexcept {
  const vm::Hot &hot = buffers_.hot(buffer);
  const uint64_t word = hot.word.load(std::memory_order_relaxed);
  if ((word & (Word::alive | Word::generation_mask)) != (Word::alive | hint.generation))
    return false;
  const uint64_t stamp = hot.stamp.load(std::memory_order_relaxed);
  if (stamp != 0 && stamp != hint.stamp) {
    note_foresight(hint, true);
    return false;
  }
  if (hint.slot != 0) {
    const StreamState *state = states_.find(hint.slot);
    if (state == nullptr || !state->stream->alive() ||
        state->stream_generation.load(std::memory_order_relaxed) != hint.stream_generation)
      return false;
  }
  const Progress now = progress_of(hint.slot);
  const PoolDevice &device = device_at(hint.place);
  const uint64_t acquires = std::min(now.uses - hint.then.uses,
                                     hint.slot != 0 ? now.point - hint.then.point : UINT64_MAX);
  return acquires < device.granules->budget() / device.page_size;
}

/// Whether what a call has asked for is still wanted.
bool Engine::hinted(const PrefetchRequest &request) noexcept {
  const auto [first, last] = hints_.equal_range(request.buffer);
  return std::any_of(first, last, [this, &request](const auto &entry) WEIR_HELD {
    return entry.second.call == request.call && hint_lives(entry.first, entry.second);
  });
}

/// What it takes of the device that it is for, in whole pages but for what is smaller than one.
void Engine::measure(PrefetchRequest &request) noexcept {
  const Target where = buffers_.target(request.buffer);
  const vm::Geometry &shape = where.region->shape;
  request.bytes = request.end - request.begin;
  if (where.region->shards != nullptr) {
    request.bytes = 0;
    for (uint32_t p = shape.page_at(request.begin); p <= shape.page_at(request.end - 1); ++p)
      request.bytes += where.region->home_of(p) == request.place ? shape.page_bytes(p) : 0;
  } else if (!where.region->slab) {
    const uint32_t last = shape.page_at(request.end - 1);
    request.bytes =
        shape.offset(last) + shape.page_bytes(last) - shape.offset(shape.page_at(request.begin));
  }
  asked_bytes_ += request.bytes;
  request.until = asked_bytes_;
}

/// Whether the stream was right, or not, in what it said it would use next.
void Engine::note_foresight(const Hint &hint, bool good) noexcept {
  StreamState *state = states_.find(hint.slot);
  if (hint.slot != 0 && state != nullptr) state->foresees = good;
}

/// Whether as much again can be used beside it and all that was asked for before it. What is known to be next needs nothing beside it.
bool Engine::leaves_room(const PrefetchRequest &request) noexcept {
  if (request.call == 0 || request.asker == 0) return true;
  const StreamState *state = states_.find(request.asker);
  if (state == nullptr || state->foresees) return true;
  const PoolDevice &device = device_at(request.place);
  if (device.granules->room() >= request.bytes) return true;  // it evicts nothing
  const uint64_t budget = device.granules->budget();
  const uint64_t most = budget - std::min(budget, device.held_bytes + request.bytes);
  if (request.until - hinted_from_ <= most) return true;
  sweep_hints();
  if (state->foresees || request.until - hinted_from_ <= most) return true;
  uint64_t ahead = 0;
  for (const auto &[buffer, hint] : hints_)
    ahead += hint.place == request.place && hint.until <= request.until ? hint.bytes : 0;
  return ahead <= most;
}

/// The bytes are being used.
void Engine::consume_hints(uint32_t buffer, uint64_t begin, uint64_t end) noexcept {
  auto [entry, last] = hints_.equal_range(buffer);
  while (entry != last) {
    Hint &hint = entry->second;
    if (hint.begin < end && begin < hint.end) {
      note_foresight(hint, true);
      // Of what surrounds the bytes, that behind them remains.
      if (end < hint.end) {
        hint.begin = end;
      } else {
        hint.end = std::max(begin, hint.begin);
      }
    }
    entry = hint.begin >= hint.end ? hints_.erase(entry) : std::next(entry);
  }
}

void Engine::sweep_hints() noexcept {
  std::erase_if(hints_, [this](const auto &entry)
                            WEIR_HELD { return !hint_lives(entry.first, entry.second); });
  oldest_hint_ = prefetch_calls_;
  hinted_from_ = asked_bytes_;
  for (const auto &[buffer, hint] : hints_) {
    oldest_hint_ = std::min(oldest_hint_, hint.call);
    hinted_from_ = std::min(hinted_from_, hint.until - hint.bytes);
  }
  sweep_hints_at_ = std::max(least_hints, 2 * hints_.size());
}

/// What prefetches say of a page.
void Engine::describe_hints(Region &region, uint32_t page, uint8_t place, PageInfo *info) noexcept {
  if (hints_.empty()) return;
  const uint64_t begin = region.shape.offset(page);
  const uint64_t end = begin + region.shape.page_bytes(page);
  const auto tell = [&](uint32_t buffer, uint64_t base, const Hint &hint) WEIR_HELD {
    const bool here = hint.place == place || region.shards != nullptr;
    if (!here || base + hint.begin >= end || base + hint.end <= begin) return;
    if (hint_lives(buffer, hint))
      info->prefetch = std::min(info->prefetch, hint.call - std::min(hint.call, oldest_hint_));
  };
  const auto look = [&](uint32_t buffer, uint64_t base) WEIR_HELD {
    const auto [first, last] = hints_.equal_range(buffer);
    for (auto entry = first; entry != last; ++entry) tell(buffer, base, entry->second);
  };
  if (!region.slab) {
    if (region.buffer != vm::BufferTable::none) look(region.buffer, 0);
    return;
  }
  auto &tenants = *region.tenants;
  if (tenants.allocations() <= hints_.size()) {
    for (auto node = tenants.first_tenant(); node != vm::Slab::none;
         node = tenants.next_tenant(node))
      look(tenants.owner(node), tenants.offset(node));
    return;
  }
  for (const auto &[buffer, hint] : hints_) {
    const uint64_t word = buffers_.hot(buffer).word.load(std::memory_order_relaxed);
    if ((word & (Word::alive | Word::generation_mask)) != (Word::alive | hint.generation)) continue;
    const Target where = buffers_.target(buffer);
    if (where.region == &region) tell(buffer, where.base, hint);
  }
}

/// A page that a demand has taken all the same is asked for again, in its turn.
void Engine::ask_again(const PageRef &ref, const PoolDevice &device) noexcept {
  Region *found = hints_.empty() ? nullptr : regions_.find(ref.region, ref.generation);
  if (found == nullptr) return;
  Region &region = *found;
  const Residence *here = region.on(device.place);
  if (region.slab || region.buffer == vm::BufferTable::none || here == nullptr ||
      here->pages[ref.page].state() != PageState::absent)
    return;
  const uint64_t begin = region.shape.offset(ref.page);
  const uint64_t end = begin + region.shape.page_bytes(ref.page);
  const auto [first, last] = hints_.equal_range(region.buffer);
  for (auto entry = first; entry != last; ++entry) {
    const Hint &hint = entry->second;
    if (hint.begin >= end || hint.end <= begin || !hint_lives(region.buffer, hint)) continue;
    note_foresight(hint, false);
    const bool queued =
        std::any_of(prefetches_.begin(), prefetches_.end(), [&](const PrefetchRequest &request) {
          return request.buffer == region.buffer && request.call == hint.call;
        });
    if (queued) continue;
    PrefetchRequest request{};
    request.buffer = region.buffer;
    request.generation = hint.generation;
    request.begin = hint.begin;
    request.end = hint.end;
    request.mode = WEIR_READ;
    request.place = hint.place;
    request.call = hint.call;
    request.asker = hint.slot;
    request.bytes = hint.bytes;
    request.until = hint.until;
    request.refused = prefetch_round_;  // the room is somebody's: nobody is woken for it now
    try {
      queue(request);
    } catch (const std::bad_alloc &) {
      // A hint less.
    }
  }
}

/// Prefetches are made in the order of their calls.
void Engine::queue(const PrefetchRequest &request) {
  const auto behind = std::upper_bound(
      prefetches_.begin(), prefetches_.end(), request,
      [](const PrefetchRequest &a, const PrefetchRequest &b) { return a.call < b.call; });
  prefetches_.insert(behind, request);
}

/// There is no room for it now: it waits for the next round, and what the same stream has asked for later waits behind it.
void Engine::queue_refused(PrefetchRequest request) {
  constexpr size_t most_waiting = 64;  // of a stream
  request.refused = prefetch_round_;
  queue(request);
  size_t waiting = 0;
  std::erase_if(prefetches_, [&](PrefetchRequest &other) WEIR_HELD {
    if (other.asker != request.asker) return false;
    other.refused = prefetch_round_;
    return ++waiting > most_waiting;
  });
}

/// Whether anything is queued that was not refused in this round.
bool Engine::any_to_prefetch() const noexcept {
  return std::any_of(prefetches_.begin(), prefetches_.end(),
                     [this](const PrefetchRequest &request)
                         WEIR_HELD { return request.refused != prefetch_round_; });
}

/// Something has changed: for what was refused there may be room.
void Engine::retry_refused() noexcept {
  if (prefetches_.empty()) return;
  ++prefetch_round_;
  work_.notify_all();
}

}  // namespace weir::residency
