// SPDX-License-Identifier: Apache-2.0
//
// Alignment: goes on, waits for operations that come late, or jumps to where the longest context was last.

#include "core/policy/alignment.hpp"

#include <algorithm>

namespace weir::policy {

void Alignment::observe(const ProgramLog &log, Contexts &contexts, uint32_t operation) noexcept {
  if (place_ != none && !log.holds(place_)) place_ = none;
  uint32_t next = place_ != none ? log.next(place_) : none;
  if (next == operation || (next != none && !log.same(next, operation))) next = none;
  if (next == none && pair_out_of_order(log, contexts, operation)) {
    contexts.put(operation);
    pass_early(log);
    return;
  }
  const uint32_t found = place_of(log, contexts, operation, next);
  const bool goes_on = found != none && found == next;
  if (goes_on) {
    ++run_;
  } else {
    run_ = found != none ? common_run(log, found, operation) : 0;
    jumps_ += found != none;
    early_ = mismatches_ = 0;
  }
  place_ = match_ = found;
  pass_early(log);
  if (early_ == 0) mismatches_ = 0;
  contexts.put(operation);
}

/// The operation is not the one behind the place. True: it is one of the next few, or one that was not there then, and the place is
/// still believed in.
bool Alignment::pair_out_of_order(const ProgramLog &log, const Contexts &contexts,
                                  uint32_t operation) noexcept {
  if (place_ == none || run_ < reorder_run || longest_context_is_far(log, contexts, operation))
    return false;
  match_ = find_early(log, operation);
  if (match_ != none)
    came_early_[early_++] = match_;
  else if (mismatches_ >= reorder_strangers || is_known_elsewhere(log, contexts, operation))
    return false;
  if (++mismatches_ <= reorder_most) return true;
  if (early_ < reorder_most / 2) return false;
  // What has not come by now is not to come.
  place_ = std::max(place_, *std::max_element(came_early_.begin(), came_early_.begin() + early_));
  early_ = mismatches_ = 0;
  return true;
}

uint32_t Alignment::find_early(const ProgramLog &log, uint32_t operation) const noexcept {
  // Farther than half a round is nearer from the other side, in a round that is not over yet.
  const uint32_t round = log.operation(operation).position - log.operation(place_).position;
  const uint32_t reach = std::min(reorder_reach, round / 2);
  uint32_t candidate = place_;
  for (uint32_t count = 0; count < reach; ++count) {
    candidate = log.next(candidate);
    if (candidate == none || candidate == operation) return none;
    if (log.same(candidate, operation) && !came_early(candidate)) return candidate;
  }
  return none;
}

bool Alignment::longest_context_is_far(const ProgramLog &log, const Contexts &contexts,
                                       uint32_t operation) const noexcept {
  const uint32_t found = contexts.find(0);
  if (found == none || found == operation || !log.holds(found)) return false;
  const uint32_t at = log.operation(found).position, here = log.operation(place_).position;
  return (at > here ? at - here : here - at) > reorder_drift;
}

/// What looks like a stranger here was done elsewhere after the same few operations.
bool Alignment::is_known_elsewhere(const ProgramLog &log, const Contexts &contexts,
                                   uint32_t operation) const noexcept {
  for (size_t length = 0; Contexts::lengths[length] > 1; ++length) {
    const uint32_t found = contexts.find(length);
    if (found != none && found != operation && log.holds(found) && log.same(found, operation))
      return true;
  }
  return false;
}

/// Where the longest context ended last, if that is longer than the present run; else the next operation; else the first one behind
/// the place that is the same.
uint32_t Alignment::place_of(const ProgramLog &log, const Contexts &contexts, uint32_t operation,
                             uint32_t next) const noexcept {
  for (size_t length = 0; length < Contexts::lengths.size(); ++length) {
    if (next != none && Contexts::lengths[length] <= run_) return next;
    const uint32_t found = contexts.find(length);
    if (found == none || found == operation || !log.holds(found) || !log.same(found, operation) ||
        log.operation(found).stream != log.operation(operation).stream)
      continue;
    return found;
  }
  if (next != none) return next;
  uint32_t candidate = place_;
  for (uint32_t count = 0; candidate != none && count < search_reach; ++count) {
    candidate = log.next(candidate);
    if (candidate == none || candidate == operation) return none;
    if (log.same(candidate, operation)) return candidate;
  }
  return none;
}

/// The operations in a row, up to both of these, that were the same.
uint32_t Alignment::common_run(const ProgramLog &log, uint32_t place,
                               uint32_t operation) const noexcept {
  uint32_t run = 1;
  for (; run < longest_jump_run; ++run) {
    place = log.previous(place);
    operation = log.previous(operation);
    if (place == none || operation == none || !log.same(place, operation)) break;
  }
  return run;
}

/// The place moves on over what has come already.
void Alignment::pass_early(const ProgramLog &log) noexcept {
  while (early_ != 0) {
    const uint32_t next = log.next(place_);
    uint32_t *const end = came_early_.data() + early_;
    uint32_t *const found = std::find(came_early_.data(), end, next);
    if (found == end) return;
    *found = end[-1];
    --early_;
    place_ = next;
  }
}

}  // namespace weir::policy
