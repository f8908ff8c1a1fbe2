// SPDX-License-Identifier: Apache-2.0
//
// ProgramWalk: times are in steps of which an operation of a stream that does them all takes time_unit / StreamSpeeds::window.

#include "core/policy/program_walk.hpp"

#include <algorithm>

namespace weir::policy {
namespace {

constexpr uint64_t time_unit = uint64_t{1} << 24;
constexpr int64_t drift = 40;       ///< of a place that is not yet another one
constexpr uint32_t sure_run = 4;    ///< operations in a row before another place is believed in
constexpr uint32_t step_over = 64;  ///< operations that a walker lags behind by and goes on
constexpr uint32_t resized_after = 256;  ///< sizes change some operations before it is noticed

int64_t offset_of(const ProgramWalk::View &view, uint32_t stream) noexcept {
  const uint32_t newest = view.log.newest(stream), place = view.alignments[stream].place();
  return int64_t{view.log.operation(newest).position} - view.log.operation(place).position;
}

/// The stream knows its place, and that is still in the log.
bool is_placed(const ProgramWalk::View &view, uint32_t stream) noexcept {
  const uint32_t place = view.alignments[stream].place();
  return place != ProgramLog::none && view.log.holds(place);
}

}  // namespace

void ProgramWalk::rewind(const View &view) noexcept {
  clear();
  for (uint32_t stream = 0; stream < walkers_.size(); ++stream) {
    if (!is_placed(view, stream)) continue;
    Walker &walker = walkers_[stream];
    walker.at = view.alignments[stream].place();
    walker.based = true;
    walker.offset = offset_of(view, stream);
  }
}

void ProgramWalk::clear() noexcept {
  std::fill(walkers_.begin(), walkers_.end(), Walker{});
  time_ = 0;
}

/// The operation that the stream's walker is to do next, or none.
uint32_t ProgramWalk::next_of(const View &view, uint32_t stream) noexcept {
  Walker &walker = walkers_[stream];
  if (!walker.based || !is_placed(view, stream)) return none;
  const Alignment &alignment = view.alignments[stream];
  const uint32_t place = alignment.place();
  if (walker.at == none || !view.log.holds(walker.at)) walker.at = place;
  const uint32_t at = view.log.operation(walker.at).position;
  const uint32_t here = view.log.operation(place).position;
  if (at < here && here - at <= step_over) walker.at = place;
  uint32_t next = view.log.next(walker.at);
  while (next != none && alignment.came_early(next)) {
    walker.at = next;
    next = view.log.next(next);
  }
  return next != view.log.newest(stream) ? next : none;
}

/// When the stream's next operation is to come. One that could not go on for a while has lost its turns.
uint64_t ProgramWalk::due_of(uint32_t stream, uint32_t speed) const noexcept {
  return std::max(walkers_[stream].time + time_unit / speed, time_);
}

ProgramWalk::Step ProgramWalk::peek(const View &view) noexcept {
  Step step;
  uint64_t first = 0;
  for (uint32_t stream = 0; stream < walkers_.size(); ++stream) {
    const uint32_t speed = view.speeds.of(stream);
    const uint32_t next = speed != 0 ? next_of(view, stream) : none;
    if (next == none) continue;
    const Walker &walker = walkers_[stream];
    const uint64_t due = due_of(stream, speed);
    if (step.operation != none && first <= due) continue;
    first = due;
    const uint32_t ahead = view.log.operation(next).position -
                           view.log.operation(view.alignments[stream].place()).position;
    const bool here = view.log.operation(next).resized && ahead > resized_after;
    step = {next, stream, walker.resized || here};
  }
  return step;
}

void ProgramWalk::take(const Step &step, const StreamSpeeds &speeds) noexcept {
  Walker &walker = walkers_[step.stream];
  walker.at = step.operation;
  walker.resized = step.resized;
  time_ = walker.time = due_of(step.stream, std::max(speeds.of(step.stream), uint32_t{1}));
}

bool ProgramWalk::moved(const View &view) const noexcept {
  for (uint32_t stream = 0; stream < walkers_.size(); ++stream) {
    if (!is_placed(view, stream) || view.alignments[stream].run() < sure_run) continue;
    const Walker &walker = walkers_[stream];
    if (!walker.based) return true;
    const int64_t by = offset_of(view, stream) - walker.offset;
    if (by > drift || by < -drift) return true;
  }
  return false;
}

}  // namespace weir::policy
