// SPDX-License-Identifier: Apache-2.0
//
// The states of a page on one device, and every step from one to another, as data. DevicePage::apply() looks a step up here and
// refuses one that has no rule. The table of docs/page-states.md is printed from it (tests/unit/test_transitions.cpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weir::page {

enum class PageState : uint8_t { absent, filling, resident, draining, moving };
inline constexpr size_t page_states = 5;

enum class Step : uint8_t {
  begin_fill,
  filled,
  fill_failed,
  stuck,
  begin_refill,
  refilled,
  refill_failed,
  begin_evict,
  evicted,
  kept,
  begin_move,
  moved,
  move_failed,
  vanished,
};
inline constexpr size_t page_steps = 14;

struct Rule {
  Step step;
  PageState from, to;
  int8_t busy;      ///< change of Page::busy, Region::pin_count and the device's in_flight
  int8_t in_place;  ///< change of Residence::resident
  const char *name;
  const char *granule;  ///< what becomes of the page's granule
  const char *when;
};

inline constexpr std::array<Rule, page_steps> rules{{
    {Step::begin_fill, PageState::absent, PageState::filling, +1, 0, "begin_fill", "claimed",
     "a plan, or a loan to this device, has claimed a granule for it"},
    {Step::filled, PageState::filling, PageState::resident, -1, +1, "filled", "stays",
     "the copy that brings it is handed over (a loan: has ended)"},
    {Step::fill_failed, PageState::filling, PageState::absent, -1, 0, "fill_failed", "given back",
     "the fill, or the loan, has failed and is unmapped again"},
    {Step::stuck, PageState::filling, PageState::absent, -1, 0, "stuck", "charged, nobody's",
     "the same, but the runtime did not unmap it"},
    {Step::begin_refill, PageState::resident, PageState::filling, +1, 0, "begin_refill", "stays",
     "it holds an older version, which is overwritten where it is"},
    {Step::refilled, PageState::filling, PageState::resident, -1, 0, "refilled", "stays",
     "the copy over it is handed over (a loan: has ended)"},
    {Step::refill_failed, PageState::filling, PageState::resident, -1, 0, "refill_failed", "stays",
     "the copy over it has failed: it is stale as before"},
    {Step::begin_evict, PageState::resident, PageState::draining, +1, 0, "begin_evict", "stays",
     "an eviction has claimed it: no lease, no hold, its hit path is closed"},
    {Step::evicted, PageState::draining, PageState::absent, -1, -1, "evicted", "given back",
     "its bytes are elsewhere, or not needed, and it is unmapped"},
    {Step::kept, PageState::draining, PageState::resident, -1, 0, "kept", "stays",
     "somebody wants it, or the eviction has failed"},
    {Step::begin_move, PageState::resident, PageState::moving, +1, 0, "begin_move",
     "a second claimed", "a compaction without VMM has claimed it"},
    {Step::moved, PageState::moving, PageState::resident, -1, 0, "moved", "the second",
     "the copy is handed over, and is its `ready`"},
    {Step::move_failed, PageState::moving, PageState::resident, -1, 0, "move_failed", "stays",
     "it is where it was"},
    {Step::vanished, PageState::resident, PageState::absent, 0, -1, "vanished", "given back",
     "its device has left or lost it, or the runtime did not map it again"},
}};

/// The rule of a step, or nullptr where there is none from that state.
constexpr const Rule *rule_of(Step step, PageState from) noexcept {
  const Rule &rule = rules[static_cast<size_t>(step)];
  return rule.from == from ? &rule : nullptr;
}

constexpr bool in_order() noexcept {
  for (size_t i = 0; i < rules.size(); ++i)
    if (static_cast<size_t>(rules[i].step) != i) return false;
  return true;
}
static_assert(in_order(), "a step is the index of its rule");

}  // namespace weir::page
