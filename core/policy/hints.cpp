// SPDX-License-Identifier: Apache-2.0
//
// Prefetches that calls have asked for: which of them are still wanted, in which order, and where.

#include "core/policy/hints.hpp"

#include <weir/lease.h>

#include <algorithm>

namespace weir::policy {

bool fits(const PrefetchBatch &batch, const PrefetchRequest &request) noexcept {
  constexpr uint64_t most_bytes = uint64_t{16} << 20U;
  if (batch.empty()) return true;
  uint64_t bytes = request.end - request.begin;
  for (const PrefetchRequest &other : batch) bytes += other.end - other.begin;
  return request.place == batch.front().place && batch.size() < most_together &&
         bytes <= most_bytes;
}

void Hints::ask(PrefetchRequest request, uint32_t stream_generation, HintView &view) {
  request.call = calls_;
  asked_bytes_ += request.bytes;
  request.until = asked_bytes_;
  if (hints_.size() >= sweep_at_) sweep(view);
  Hint hint{request, stream_generation};
  (void)view.stamp(request.buffer, request.generation, &hint.stamp);
  (void)view.progress(request.asker, stream_generation, &hint.then);
  const auto fresh = hints_.emplace(request.buffer, hint);
  auto [entry, last] = hints_.equal_range(request.buffer);
  while (entry != last) {
    const PrefetchRequest &old = entry->second.request;
    const bool same = entry != fresh && old.place == request.place && old.begin >= request.begin &&
                      old.end <= request.end;
    entry = same ? hints_.erase(entry) : std::next(entry);
  }
  queue(request);
}

bool Hints::lives(const Entries::value_type &entry, HintView &view) noexcept {
  const Hint &hint = entry.second;
  uint64_t stamp = 0;
  if (!view.stamp(entry.first, hint.request.generation, &stamp)) return false;
  if (stamp != 0 && stamp != hint.stamp) {
    foresees_.set(hint.request.asker);
    return false;
  }
  Progress now;
  if (!view.progress(hint.request.asker, hint.stream_generation, &now)) return false;
  return std::min(now.uses - hint.then.uses, now.point - hint.then.point) <
         view.pages(hint.request.place);
}

bool Hints::wants(const PrefetchRequest &request, HintView &view) noexcept {
  const auto [first, last] = hints_.equal_range(request.buffer);
  return std::any_of(first, last, [&](const auto &entry) {
    return entry.second.request.call == request.call && lives(entry, view);
  });
}

bool Hints::may_evict(const PrefetchRequest &request, uint64_t most, HintView &view) noexcept {
  if (request.call == 0 || request.asker == 0 || foresees_.test(request.asker)) return true;
  if (request.until - hinted_from_ <= most) return true;
  sweep(view);
  if (foresees_.test(request.asker) || request.until - hinted_from_ <= most) return true;
  uint64_t ahead = 0;
  for (const auto &[buffer, hint] : hints_)
    ahead += hint.request.place == request.place && hint.request.until <= request.until
                 ? hint.request.bytes
                 : 0;
  return ahead <= most;
}

void Hints::use(uint32_t buffer, uint64_t begin, uint64_t end) noexcept {
  auto [entry, last] = hints_.equal_range(buffer);
  while (entry != last) {
    PrefetchRequest &hint = entry->second.request;
    if (hint.begin < end && begin < hint.end) {
      foresees_.set(hint.asker);
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

void Hints::ask_again(uint32_t buffer, uint64_t begin, uint64_t end, HintView &view) noexcept {
  const auto [first, last] = hints_.equal_range(buffer);
  for (auto entry = first; entry != last; ++entry) {
    PrefetchRequest request = entry->second.request;
    if (request.begin >= end || request.end <= begin || !lives(*entry, view)) continue;
    foresees_.reset(request.asker);
    const bool queued = std::any_of(requests_.begin(), requests_.end(), [&](const auto &other) {
      return other.buffer == buffer && other.call == request.call;
    });
    if (queued) continue;
    request.mode = WEIR_READ;
    request.remote = false;
    request.refused = round_;            // the room is taken: no prefetcher is woken for it now
    if_memory([&] { queue(request); });  // or a hint less
  }
}

void Hints::sweep(HintView &view) noexcept {
  std::erase_if(hints_, [&](const auto &entry) { return !lives(entry, view); });
  oldest_ = calls_;
  hinted_from_ = asked_bytes_;
  for (const auto &[buffer, hint] : hints_) {
    oldest_ = std::min(oldest_, hint.request.call);
    hinted_from_ = std::min(hinted_from_, hint.request.until - hint.request.bytes);
  }
  sweep_at_ = std::max(least, 2 * hints_.size());
}

uint64_t Hints::age(uint32_t buffer, uint64_t begin, uint64_t end, uint8_t place,
                    HintView &view) noexcept {
  uint64_t found = UINT64_MAX;
  const auto [first, last] = hints_.equal_range(buffer);
  for (auto entry = first; entry != last; ++entry) {
    const PrefetchRequest &hint = entry->second.request;
    const bool here = hint.place == place || place == any_place;
    if (here && hint.begin < end && hint.end > begin && lives(*entry, view))
      found = std::min(found, hint.call - std::min(hint.call, oldest_));
  }
  return found;
}

void Hints::queue(const PrefetchRequest &request) {
  requests_.insert(std::ranges::upper_bound(requests_, request.call, {}, &PrefetchRequest::call),
                   request);
}

void Hints::take(PrefetchBatch *batch) {
  const auto waits = [this](const PrefetchRequest &request) { return open(request); };
  auto next = std::find_if(requests_.begin(), requests_.end(), waits);
  while (next != requests_.end() && fits(*batch, *next)) {
    batch->push_back(*next);
    next = requests_.erase(next);  // first: it may move the end
    next = std::find_if(next, requests_.end(), waits);
  }
}

void Hints::refuse(PrefetchRequest &request) {
  constexpr size_t most_waiting = 64;  // of a stream
  request.refused = round_;
  queue(request);
  size_t waiting = 0;
  std::erase_if(requests_, [&](PrefetchRequest &other) {
    if (other.asker != request.asker) return false;
    other.refused = round_;
    return ++waiting > most_waiting;
  });
}

bool Hints::retry() noexcept {
  if (requests_.empty()) return false;
  ++round_;
  return true;
}

bool Hints::pending() const noexcept {
  return working_ != 0 || std::ranges::any_of(requests_, [this](const PrefetchRequest &request) {
           return open(request);
         });
}

}  // namespace weir::policy
