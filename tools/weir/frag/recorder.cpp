// SPDX-License-Identifier: Apache-2.0
//
// Recording: each frame is compared with the one before in one walk over both, in the order of their addresses.
#include "tools/weir/frag/recorder.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>

namespace weir::tool::frag {
namespace {

auto place_of(const Span &span) {
  return std::tuple(span.lane, span.address, span.bytes, span.block, span.kind);
}

}  // namespace

void SpanRecorder::merge_touching() {
  size_t kept = 0;
  for (size_t i = 1; i < now_.size(); ++i) {
    Span &last = now_[kept];
    const Span &span = now_[i];
    if (span.lane == last.lane && span.block == last.block && span.kind == last.kind &&
        span.address == last.address + last.bytes) {
      last.bytes += span.bytes;
      continue;
    }
    now_[++kept] = span;
  }
  if (!now_.empty()) now_.resize(kept + 1);
}

void SpanRecorder::end_frame() {
  std::sort(now_.begin(), now_.end(),
            [](const Span &a, const Span &b) { return place_of(a) < place_of(b); });
  if (merge_) merge_touching();
  for (size_t i = 1; i < now_.size(); ++i)
    if (now_[i].lane == now_[i - 1].lane &&
        now_[i].address < now_[i - 1].address + now_[i - 1].bytes)
      throw std::logic_error(
          "blocks " + std::to_string(now_[i - 1].block) + " and " + std::to_string(now_[i].block) +
          " overlap at " + std::to_string(now_[i].address) + " in frame " + std::to_string(frame_));
  size_t before = 0;
  for (Span &span : now_) {
    while (before < lying_.size() && place_of(lying_[before]) < place_of(span))
      done_.push_back(lying_[before++]);
    const bool lay = before < lying_.size() && lying_[before].same_place(span);
    span.first = lay ? lying_[before++].first : frame_;
    span.last = frame_;
  }
  done_.insert(done_.end(), lying_.begin() + static_cast<std::ptrdiff_t>(before), lying_.end());
  lying_.swap(now_);
  now_.clear();
  ++frame_;
}

std::vector<Span> SpanRecorder::take() {
  done_.insert(done_.end(), lying_.begin(), lying_.end());
  lying_.clear();
  std::sort(done_.begin(), done_.end(), [](const Span &a, const Span &b) {
    return std::tuple(a.first, a.lane, a.address, a.last) <
           std::tuple(b.first, b.lane, b.address, b.last);
  });
  return std::move(done_);
}

CurveRecorder::CurveRecorder(std::vector<std::string> names, uint64_t end)
    : bucket_(end / most_buckets + 1) {
  const size_t count = end / bucket_ + 1;
  for (std::string &name : names)
    curves_.push_back({std::move(name), std::vector<uint64_t>(count, UINT64_MAX),
                       std::vector<uint64_t>(count, 0)});
}

void CurveRecorder::add(uint64_t time, const std::vector<uint64_t> &values) {
  const size_t at = time / bucket_;
  for (size_t i = 0; i < curves_.size(); ++i) {
    curves_[i].low[at] = std::min(curves_[i].low[at], values[i]);
    curves_[i].high[at] = std::max(curves_[i].high[at], values[i]);
  }
}

std::vector<Curve> CurveRecorder::take() {
  for (Curve &curve : curves_) {
    // A run that ended early has no values after it.
    while (!curve.low.empty() && curve.low.back() == UINT64_MAX) {
      curve.low.pop_back();
      curve.high.pop_back();
    }
    for (size_t i = 1; i < curve.low.size(); ++i)
      if (curve.low[i] == UINT64_MAX) curve.low[i] = curve.high[i] = curve.high[i - 1];
  }
  return std::move(curves_);
}

void SegmentLine::set(const std::vector<Segment> &segments) {
  ++round_;
  std::vector<Segment> fresh;
  for (const Segment &segment : segments) {
    const auto place = places_.find(segment.id);
    if (place != places_.end() && place->second.bytes == segment.bytes)
      place->second.seen = round_;
    else
      fresh.push_back(segment);
  }
  std::erase_if(places_, [this](const auto &entry) { return entry.second.seen != round_; });
  std::map<uint64_t, uint64_t> taken;  // address to end
  for (const auto &entry : places_)
    taken.emplace(entry.second.address, entry.second.address + entry.second.bytes);
  for (const Segment &segment : fresh) {
    uint64_t address = 0;
    for (const auto &[from, to] : taken) {
      if (from - address >= segment.bytes) break;
      address = to;
    }
    taken.emplace(address, address + segment.bytes);
    places_[segment.id] = {address, segment.bytes, round_};
  }
}

}  // namespace weir::tool::frag
