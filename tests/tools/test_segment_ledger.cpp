// SPDX-License-Identifier: Apache-2.0
//
// Segments and their compaction: random buffers against a shadow that knows every range, with segments that come and go,
// windows cleared, segments emptied and ranges slid by the planner's plans, each of which must do what it told; then plans
// known by hand, and memory that fails. WEIR_SOAK=1 runs 10^8 random operations.
//
// Must be reproducible: every random run prints its seed, and nothing depends on time.
#include "tests/support/cmocka.hpp"

#include "tools/weir/segment_planner.hpp"

#include <cstdlib>
#include <map>
#include <random>
#include <string>

namespace {

using weir::tool::SegmentLedger;
using weir::tool::SegmentPlanner;
using Piece = SegmentLedger::Piece;
using Segment = SegmentLedger::Segment;
using Way = SegmentPlanner::Way;

constexpr uint64_t granule = 64 * 1024;
constexpr uint64_t q = SegmentLedger::quantum;

std::pmr::memory_resource *heap() { return std::pmr::new_delete_resource(); }

void check_valid(const SegmentLedger &ledger) {
  const std::string broken = ledger.validate();
  if (!broken.empty()) fail_msg("%s", broken.c_str());
}

Piece place(SegmentLedger &ledger, uint64_t bytes, uint64_t owner = 0) {
  const Piece piece = ledger.commit(ledger.find(bytes), owner);
  assert_true(static_cast<bool>(piece));
  return piece;
}

class Shadow {
 public:
  explicit Shadow(uint64_t seed) : ledger_(heap()), planner_(&ledger_), random_(seed) {}

  void run(uint64_t operations) {
    for (uint64_t i = 0; i < operations; ++i) {
      if (pieces_.size() > 60 + random_() % 60 || (random_() % 100 < 45 && !pieces_.empty())) {
        release(random_() % pieces_.size());
      } else {
        take();
      }
      if (i % 64 == 0) check_all();
    }
  }
  uint64_t plans(Way way) const { return plans_[static_cast<size_t>(way)]; }

 private:
  void take() {
    const uint64_t bytes = 1 + random_() % (random_() % 8 == 0 ? 6 * granule : granule / 2);
    const uint64_t alignment = uint64_t{1} << random_() % 11;
    SegmentLedger::Place found = ledger_.find(bytes, alignment);
    if (!found) {
      make_room(bytes);
      found = ledger_.find(bytes);
      assert_true(static_cast<bool>(found));
    }
    const uint64_t owner = ++owners_;
    const Piece piece = ledger_.commit(found, owner);
    assert_int_equal(ledger_.offset(piece) % found.alignment, 0);
    assert_int_equal(ledger_.bytes(piece), (bytes + q - 1) / q * q);
    pieces_[owner] = piece;
    order_.push_back(owner);
  }

  void make_room(uint64_t bytes) {
    const uint64_t reserved = ledger_.reserved();
    const SegmentPlanner::Plan plan = planner_.choose(
        {bytes, granule, reserved + granule * (random_() % 3), UINT64_MAX, random_() % (1 << 20)});
    check_valid(ledger_);  // choosing left it as it was
    assert_int_equal(ledger_.reserved(), reserved);
    assert_true(plan.way != Way::none);
    ++plans_[static_cast<size_t>(plan.way)];
    if (plan.way == Way::slide) {
      slide(plan);
      return;
    }
    const Segment extra = plan.extra != 0 ? ledger_.add(next_++, plan.extra) : SegmentLedger::none;
    const auto tenants = planner_.claim(plan, bytes, extra);
    uint64_t moved = 0;
    for (const SegmentPlanner::Tenant &tenant : tenants) {
      assert_int_equal(ledger_.owner(tenant.to), ledger_.owner(tenant.from));
      assert_int_equal(ledger_.bytes(tenant.to), ledger_.bytes(tenant.from));
      moved += ledger_.bytes(tenant.from);
      pieces_.at(ledger_.owner(tenant.from)) = tenant.to;
    }
    planner_.finish(tenants);
    for (const Segment segment : plan.emptied) ledger_.remove(segment);
    if (plan.added != 0) ledger_.add(next_++, plan.added);
    assert_int_equal(moved, plan.moved);
    assert_int_equal(ledger_.reserved(), plan.reserved);
    check_valid(ledger_);
  }

  void slide(const SegmentPlanner::Plan &plan) {
    SegmentLedger::Slide range = plan.slide;
    uint64_t moved = 0;
    while (const Piece piece = ledger_.next_to_slide(range)) {
      moved += ledger_.bytes(piece);
      const uint64_t offset = ledger_.offset(piece);
      ledger_.slide_down(piece, &range);
      assert_true(ledger_.live(piece) && ledger_.offset(piece) < offset);
    }
    assert_int_equal(moved, plan.moved);
    check_valid(ledger_);
  }

  void release(size_t index) {
    const uint64_t owner = order_[index];
    const Piece piece = pieces_.at(owner);
    assert_int_equal(ledger_.owner(piece), owner);
    const Segment segment = ledger_.segment_of(piece);
    ledger_.release(piece);
    assert_false(ledger_.live(piece));
    if (ledger_.used_of(segment) == 0 && random_() % 2 == 0) ledger_.remove(segment);
    pieces_.erase(owner);
    order_[index] = order_.back();
    order_.pop_back();
  }

  void check_all() {
    check_valid(ledger_);
    assert_int_equal(ledger_.pieces(), pieces_.size());
    uint64_t used = 0, count = 0;
    for (Segment s = ledger_.first_segment(); s != SegmentLedger::none;
         s = ledger_.next_segment(s)) {
      uint64_t end = 0;
      for (Piece p = ledger_.first_in(s); p; p = ledger_.next_in(p), ++count) {
        assert_true(pieces_.at(ledger_.owner(p)) == p);
        assert_true(ledger_.offset(p) >= end);
        end = ledger_.offset(p) + ledger_.bytes(p);
        used += ledger_.bytes(p);
      }
      assert_true(end <= ledger_.bytes_of(s));
    }
    assert_int_equal(count, pieces_.size());
    assert_int_equal(used, ledger_.used());
  }

  SegmentLedger ledger_;
  SegmentPlanner planner_;
  std::mt19937_64 random_;
  std::map<uint64_t, Piece> pieces_;  ///< by owner
  std::vector<uint64_t> order_;
  uint64_t owners_ = 0, next_ = 0;
  uint64_t plans_[5] = {};
};

void agrees_with_a_shadow(void **) {
  const uint64_t operations = std::getenv("WEIR_SOAK") != nullptr ? 25'000'000 : 25'000;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    print_message("seed %zu\n", size_t{seed});
    Shadow shadow(seed);
    shadow.run(operations);
    for (const Way way : {Way::grow, Way::slide, Way::window, Way::empty})
      assert_true(shadow.plans(way) > 0);
  }
}

// ---- plans known by hand ----

void the_smallest_hole_that_is_enough(void **) {
  SegmentLedger ledger(heap());
  ledger.add(1, 10 * granule);
  ledger.add(2, 2 * granule);
  assert_int_equal(ledger.segment_of(place(ledger, granule)), 1);
  assert_int_equal(ledger.segment_of(place(ledger, 2 * granule)), 0);
  assert_int_equal(ledger.largest_hole(), 8 * granule);
  assert_false(static_cast<bool>(ledger.find(8 * granule + 1)));
  const auto stale = ledger.find(1);
  place(ledger, 1);
  assert_false(static_cast<bool>(ledger.commit(stale, 0)));
}

/// Holes of one granule at both ends and in the middle, two tenants of two granules between.
SegmentPlanner::Plan plan_for(SegmentLedger &ledger, uint64_t request, uint64_t may_move) {
  return SegmentPlanner(&ledger).choose(
      {request, granule, ledger.reserved(), ledger.reserved() + 100 * granule, may_move});
}

void slides_what_is_least(void **) {
  SegmentLedger ledger(heap());
  const Segment segment = ledger.add(1, 7 * granule);
  const Piece low = ledger.hold_at(segment, granule, 2 * granule, 1);
  const Piece high = ledger.hold_at(segment, 4 * granule, 2 * granule, 2);
  auto plan = plan_for(ledger, 2 * granule, 100 * granule);
  assert_true(plan.way == Way::slide);
  assert_int_equal(plan.moved, 2 * granule);
  plan = plan_for(ledger, 3 * granule, 100 * granule);
  assert_int_equal(plan.moved, 4 * granule);
  SegmentLedger::Slide range = plan.slide;
  while (const Piece piece = ledger.next_to_slide(range)) ledger.slide_down(piece, &range);
  assert_int_equal(ledger.offset(low), 0);
  assert_int_equal(ledger.offset(high), 2 * granule);
  assert_int_equal(ledger.largest_hole(), 3 * granule);
  check_valid(ledger);
  // A tenant for whom there is no hole gets a segment: less than the request's own.
  plan = plan_for(ledger, 4 * granule, 100 * granule);
  assert_true(plan.way == Way::window);
  assert_int_equal(plan.extra, 2 * granule);
}

void clears_a_window_into_other_holes(void **) {
  SegmentLedger ledger(heap());
  const Segment first = ledger.add(1, 8 * granule), second = ledger.add(2, 2 * granule);
  const Piece small = ledger.hold_at(first, 3 * granule, granule, 1);
  ledger.hold_at(first, 6 * granule, 2 * granule, 2);
  ledger.hold_at(second, 0, granule, 3);
  SegmentPlanner planner(&ledger);
  const auto plan = plan_for(ledger, 6 * granule, granule);
  assert_true(plan.way == Way::window);
  assert_int_equal(plan.moved, granule);
  assert_int_equal(plan.extra, 0);
  const auto tenants = planner.claim(plan, 6 * granule, SegmentLedger::none);
  assert_int_equal(tenants.size(), 1);
  assert_true(tenants[0].from == small);
  assert_int_equal(ledger.segment_of(tenants[0].to), second);
  assert_false(
      static_cast<bool>(ledger.find(granule)));  // all of it is kept until the copies are done
  planner.finish(tenants);
  assert_int_equal(ledger.largest_hole(), 6 * granule);
  check_valid(ledger);
  // With nothing to be moved, there is only growing.
  assert_true(plan_for(ledger, 7 * granule, 0).way == Way::grow);
}

void refuses_beyond_the_capacity(void **) {
  SegmentLedger ledger(heap());
  ledger.add(1, 2 * granule);
  const auto plan =
      SegmentPlanner(&ledger).choose({3 * granule, granule, 4 * granule, 4 * granule, UINT64_MAX});
  assert_true(plan.way == Way::empty || plan.way == Way::none);
}

class FailingMemory final : public std::pmr::memory_resource {
 public:
  uint64_t left = UINT64_MAX, failures = 0;

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    if (left-- == 0) {
      ++failures;
      throw std::bad_alloc();
    }
    return heap()->allocate(bytes, alignment);
  }
  void do_deallocate(void *memory, size_t bytes, size_t alignment) noexcept override {
    heap()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
};

void memory_fails_at_every_position(void **) {
  FailingMemory memory;
  uint64_t position = 0;
  do {
    memory.failures = 0;
    memory.left = position++;
    SegmentLedger ledger(&memory);
    const auto twice = [&](auto &&step) {
      const uint64_t reserved = ledger.reserved(), used = ledger.used();
      try {
        step();
      } catch (const std::bad_alloc &) {
        check_valid(ledger);
        assert_int_equal(ledger.reserved(), reserved);
        assert_int_equal(ledger.used(), used);
        step();
      }
      check_valid(ledger);
    };
    for (uint64_t i = 0; i < 12; ++i) {
      twice([&] { ledger.add(i, 4 * granule); });
      twice([&] { place(ledger, granule + i * 999, i); });
      twice([&] { ledger.hold_at(static_cast<Segment>(i), 4 * granule - q, q, i); });
    }
  } while (memory.failures != 0);
  assert_true(position > 8);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(agrees_with_a_shadow),
      cmocka_unit_test(the_smallest_hole_that_is_enough),
      cmocka_unit_test(slides_what_is_least),
      cmocka_unit_test(clears_a_window_into_other_holes),
      cmocka_unit_test(refuses_beyond_the_capacity),
      cmocka_unit_test(memory_fails_at_every_position),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
