// SPDX-License-Identifier: Apache-2.0
//
// Announced operations, one after the other.

#include "core/policy/announced_forecast.hpp"

#include <weir/lease.h>

#include <algorithm>

namespace weir::policy {
namespace {

constexpr double memory_of_pace = 1.0 / 256;  // of which an operation is forgotten

}  // namespace

void AnnouncedForecast::follow(uint32_t slot) {
  if (std::ranges::any_of(streams_, [slot](const Stream &each) { return each.slot == slot; }))
    return;
  grow_by(streams_);
  streams_.push_back({slot, announcements_.oldest(slot)});
}

void AnnouncedForecast::note_acquire(uint32_t slot) noexcept {
  for (Stream &stream : streams_)
    stream.pace += ((stream.slot == slot ? 1.0 : 0.0) - stream.pace) * memory_of_pace;
}

void AnnouncedForecast::forget(uint32_t slot) noexcept {
  std::erase_if(streams_, [slot](const Stream &each) { return each.slot == slot; });
}

uint64_t AnnouncedForecast::announced() const noexcept {
  uint64_t count = 0;
  for (const Stream &stream : streams_) count += announcements_.count(stream.slot);
  return count;
}

void AnnouncedForecast::rewind() {
  outdated_ = false;
  for (Stream &stream : streams_) {
    stream.next = announcements_.oldest(stream.slot);
    stream.walked = 0;
  }
}

double AnnouncedForecast::of_all(const Stream &stream) const noexcept {
  double all = 0;
  for (const Stream &each : streams_) all += each.pace;
  return all / std::max(stream.pace, 1e-3);
}

uint32_t AnnouncedForecast::part_of(const AnnouncedUse &use) {
  uint32_t part = cast_.of(use.buffer);
  if (part != Cast::none && cast_[part].generation != use.generation) {
    cast_.end(part);  // another buffer has its number
    part = Cast::none;
  }
  if (part == Cast::none) part = cast_.born(use.buffer, use.generation, use.size);
  if (regions_.size() <= part) regions_.resize(part + 1, UINT32_MAX);
  if (places_.size() <= part) places_.resize(part + 1, 0);
  regions_[part] = use.region;
  return part;
}

Outlook AnnouncedForecast::outlook_after(const Stream &stream, const AnnouncedUse &use,
                                         uint64_t number) const noexcept {
  const auto next = announcements_.next_use(stream.slot, use.region, number + 1);
  if (!next) return {Fate::dies, 1};
  const double distance = static_cast<double>(next->number - number) * of_all(stream);
  return {next->needed ? Fate::needed : Fate::overwritten, static_cast<uint64_t>(distance)};
}

const ForecastOperation *AnnouncedForecast::next() {
  Stream *stream = nullptr;
  Announcements::Uses announced{};
  for (Stream &each : streams_) {
    each.next = std::max(each.next, announcements_.oldest(each.slot));
    const auto its = announcements_.operation(each.slot, each.next);
    if (!its || (stream != nullptr && stream->walked <= each.walked)) continue;
    stream = &each;
    announced = *its;
  }
  if (stream == nullptr) return nullptr;
  uses_.clear();
  for (const AnnouncedUse &use : announced) {
    const bool dead = !announcements_.lists(stream->slot, use.region, stream->next);
    if (use.shares || use.remote || dead) continue;
    const uint32_t part = part_of(use);
    const uint32_t at = places_[part];
    if (at >= uses_.size() || uses_[at].part != part) {
      places_[part] = static_cast<uint32_t>(uses_.size());
      uses_.push_back({part, use.needs(), use.mode != WEIR_READ, use.begin, use.end,
                       outlook_after(*stream, use, stream->next)});
      continue;
    }
    ForecastUse &same = uses_[at];
    same.needs = same.needs || use.needs();
    same.writes = same.writes || use.mode != WEIR_READ;
    same.begin = std::min(same.begin, use.begin);
    same.end = std::max(same.end, use.end);
  }
  stream->walked += 1 / std::max(stream->pace, 1e-3);
  ++stream->next;
  deaths_.clear();
  for (const ForecastUse &use : uses_)
    if (use.after.fate == Fate::dies) deaths_.push_back(use.part);
  operation_.uses = uses_;
  operation_.deaths = deaths_;
  return &operation_;
}

Outlook AnnouncedForecast::outlook_of(uint32_t region) const noexcept {
  Outlook best;
  for (const Stream &stream : streams_) {
    const uint64_t oldest = announcements_.oldest(stream.slot);
    const auto next = announcements_.next_use(stream.slot, region, oldest);
    if (!next) continue;
    const auto distance =
        static_cast<uint64_t>(static_cast<double>(next->number - oldest + 1) * of_all(stream));
    if (best.fate == Fate::unknown || distance < best.distance)
      best = {next->needed ? Fate::needed : Fate::overwritten, distance};
  }
  return best;
}

}  // namespace weir::policy
