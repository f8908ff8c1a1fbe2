// SPDX-License-Identifier: Apache-2.0
//
// What a residency plan decides, on programs made by hand and at random: what goes, when, and what is fetched for which use. An exhaustive
// search says what is the least.

#include "core/policy/residency_plan.hpp"

#include "tests/support/cmocka.hpp"
#include "tests/unit/plan_follower.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace {

using namespace weir::policy;
using namespace weir::test;

void what_is_used_farthest_goes_from_its_last_use_on(void **) {
  Program program = written({mb, mb, mb});
  for (const uint32_t buffer : {0u, 1u, 2u, 0u, 1u}) program.operation(1, {reads(buffer, mb)}, {});
  Follower follower(program, terms_of(2 * mb));
  follower.run();
  // 2 is written at 2, where one of 0 and 1 must be gone: 0 is used at 3, 1 at 4. For 2 then there is no buffer with a use after 5.
  assert_true(follower.drops.size() >= 2);
  assert_int_equal(follower.drops[0].buffer, 1);
  assert_int_equal(follower.drops[0].after, 1);
  assert_int_equal(follower.drops[0].until, 2);
  // While that runs: the next operation may be acquired before it has ended, and asks for room.
  for (const Follower::Dropped &drop : follower.drops) assert_int_equal(drop.operation, drop.after);
  assert_true(follower.most <= 2 * mb);
}

void a_buffer_is_fetched_as_soon_as_there_is_memory(void **) {
  Program program = written({mb, mb, mb});
  for (int i = 0; i < 10; ++i) program.operation(1, {reads(2, mb)}, {});
  program.operation(1, {reads(2, mb)}, {2});  // 13
  for (int i = 0; i < 10; ++i) program.operation(1, {reads(0, mb)}, {});
  program.operation(1, {reads(0, mb), reads(1, mb)}, {});  // 24
  Follower follower(program, terms_of(2 * mb));
  follower.run();
  assert_int_equal(follower.drops[0].buffer, 1);
  assert_int_equal(follower.fetched, mb);
  assert_int_equal(follower.late, 0);
  // Memory of 2 is free once 13 has run.
  assert_int_equal(follower.earliest.at(24), 14);
}

void what_is_to_be_overwritten_is_not_fetched(void **) {
  Program program = written({mb, mb, mb});
  program.operation(1, {reads(0, mb), reads(1, mb)}, {});
  program.operation(1, {reads(0, mb)}, {1});
  for (int i = 0; i < 5; ++i) program.operation(1, {reads(0, mb)}, {});
  program.operation(1, {writes(2, mb)}, {});
  program.operation(1, {reads(2, mb)}, {});
  Follower follower(program, terms_of(2 * mb));
  follower.run();
  // Only 0 or 1, whichever went for 2, comes back; the first content of 2 never does.
  assert_int_equal(follower.fetched + follower.late, mb);
  assert_true(follower.most <= 2 * mb);
}

/// A buffer with a megabyte in memory as a large one is born.
struct Tenant {
  bool dirty = false;
  Outlook outlook;
  int8_t priority = 0;
};

/// The buffers that go, in order, so that at the operation after `idle` others there is room for so many bytes.
std::vector<uint32_t> who_goes(const std::vector<Tenant> &tenants, uint64_t bytes,
                               uint64_t idle = 1) {
  Program program;
  const uint64_t in_memory = tenants.size() * mb;
  for (size_t i = 0; i < tenants.size(); ++i) program.birth(mb);
  for (uint64_t i = 0; i < idle; ++i) program.operation(1, {}, {});
  program.operation(1, {writes(program.birth(bytes), bytes)}, {});
  Cast cast(std::pmr::get_default_resource());
  ResidencyPlan plan(cast, terms_of(in_memory), std::pmr::get_default_resource());
  Future future(program, cast, 1);
  std::vector<ResidencyPlan::Resident> residents;
  for (uint32_t i = 0; i < tenants.size(); ++i) {
    const uint32_t part = cast.born(i, 0, mb);
    cast.set_priority(part, tenants[i].priority);
    residents.push_back({part, mb, mb, tenants[i].dirty, tenants[i].outlook, 0});
  }
  future.begins(0);
  future.rewind();
  plan.rebuild(0, residents);
  while (plan.step(future)) continue;
  plan.advance(idle);
  std::vector<uint32_t> gone;
  while (const std::optional<PlannedDrop> drop = plan.next_drop())
    gone.push_back(cast[drop->part].buffer);
  return gone;
}

void who_goes_depends_on_what_its_bytes_cost(void **) {
  const auto first_of = [](const Tenant &a, const Tenant &b) {
    const std::vector<uint32_t> gone = who_goes({a, b}, mb);
    assert_int_equal(gone.size(), 1);
    return gone[0];
  };
  const Tenant clean_100{false, {Fate::needed, 100}};
  // A dirty one costs a write-back and a fetch: nearly twice as much.
  assert_int_equal(first_of(clean_100, {true, {Fate::needed, 150}}), 0);
  assert_int_equal(first_of(clean_100, {true, {Fate::needed, 250}}), 1);
  // One that dies or is overwritten costs a write-back, and nothing if one waits.
  for (const Fate fate : {Fate::dies, Fate::overwritten}) {
    assert_int_equal(first_of(clean_100, {true, {fate, 80}}), 0);
    assert_int_equal(first_of(clean_100, {true, {fate, 120}}), 1);
    // Clean, it costs nothing at all.
    assert_int_equal(first_of(clean_100, {false, {fate, 8}}), 1);
  }
  // A buffer of which nothing is known is taken to be as far away as its last use is, 16 operations at least.
  assert_int_equal(first_of(clean_100, {false, {}}), 0);
  assert_int_equal(first_of({false, {Fate::needed, 12}}, {false, {}}), 1);
}

/// Whatever it costs: as without a plan.
void those_of_lower_priority_go_first(void **) {
  const Tenant soon_and_dirty{true, {Fate::needed, 20}, -1}, lowest{true, {Fate::needed, 20}, -2};
  const Tenant far{false, {Fate::needed, 200}}, farther{false, {Fate::needed, 300}};
  const Tenant over{false, {Fate::dies, 10}, 2};
  const auto expect = [](const std::vector<Tenant> &tenants, const std::vector<uint32_t> &wanted) {
    const std::vector<uint32_t> gone = who_goes(tenants, wanted.size() * mb);
    assert_int_equal(gone.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) assert_int_equal(gone[i], wanted[i]);
  };
  expect({far, soon_and_dirty}, {1});
  expect({far, over}, {0});
  expect({soon_and_dirty, lowest}, {1});
  expect({over, farther, soon_and_dirty, far, lowest}, {4, 2, 1, 3});
}

/// Else it would be taken for what is used next, and stay for ever.
void what_was_to_be_used_and_is_not_goes_as_if_it_were_as_far_away_as_it_is_late(void **) {
  const Tenant overdue{false, {Fate::needed, 10}};
  for (const uint64_t needed : {220u, 800u}) {
    const std::vector<uint32_t> gone =
        who_goes({overdue, {false, {Fate::needed, needed}}}, mb, 200);
    assert_int_equal(gone.size(), 1);
    assert_int_equal(gone[0], needed == 220 ? 0 : 1);
  }
}

void those_who_go_for_one_operation_go_farthest_first(void **) {
  const Outlook near{Fate::needed, 50}, far{Fate::needed, 70}, farther{Fate::needed, 90};
  const std::vector<uint32_t> gone =
      who_goes({{false, far}, {false, near}, {false, farther}}, 2 * mb);
  assert_int_equal(gone.size(), 2);
  assert_int_equal(gone[0], 2);
  assert_int_equal(gone[1], 0);
}

void only_as_many_pages_go_as_are_needed(void **) {
  Program program = written({8 * mb, 3 * mb});
  program.operation(1, {reads(1, 3 * mb)}, {});
  program.operation(1, {reads(1, 3 * mb)}, {1});
  program.operation(1, {}, {});
  program.operation(1, {reads(0, 8 * mb)}, {});
  Follower follower(program, terms_of(9 * mb + mb / 2));
  follower.run();
  assert_int_equal(follower.drops.size(), 1);
  assert_int_equal(follower.drops[0].bytes, 2 * mb);  // one and a half
  assert_int_equal(follower.fetched, 2 * mb);
  assert_int_equal(follower.late, 0);
}

void a_use_of_some_bytes_needs_no_more(void **) {
  Program program = written({8 * mb, 8 * mb});
  program.operation(1, {{0, true, false, false, 4 * mb, 6 * mb}}, {});
  ResidencyPlan::Terms terms = terms_of(8 * mb);
  Cast cast(std::pmr::get_default_resource());
  ResidencyPlan plan(cast, terms, std::pmr::get_default_resource());
  const uint32_t part = cast.born(0, 0, 8 * mb);
  struct One final : Forecast {
    ForecastUse use;
    bool told = false;
    ForecastOperation operation;
    void rewind() override { told = false; }
    const ForecastOperation *next() override {
      if (told) return nullptr;
      told = true;
      operation.uses = std::span<const ForecastUse>(&use, 1);
      return &operation;
    }
    Outlook outlook(uint32_t) const noexcept override { return {}; }
  } forecast;
  forecast.use = {part, true, false, 4 * mb, 6 * mb, {}};
  const ResidencyPlan::Resident resident{part, mb, 8 * mb, false, {}, 0};
  plan.rebuild(1, {&resident, 1});
  assert_true(plan.step(forecast));
  assert_false(plan.step(forecast));
  uint64_t number = 0;
  const PlannedFetch *fetch = plan.next_fetch(&number);
  assert_non_null(fetch);
  assert_int_equal(fetch->bytes, mb);  // of two one is there
  assert_int_equal(fetch->begin, 4 * mb);
  assert_int_equal(fetch->end, 6 * mb);
  assert_int_equal(fetch->due, 2);
  assert_int_equal(plan.virtual_bytes(), 2 * mb);
  plan.taken(number, mb, mb);
  assert_null(plan.next_fetch(&number));
}

/// All buffers of a program are there from the start; the part of the first.
/// 0 goes after operation 0 for one that writes a large buffer at 16.
struct Cancelled {
  Cancelled() : program(written({mb})) {
    for (int i = 0; i < 15; ++i) program.operation(1, {}, {});
    const uint32_t large = program.birth(2 * mb);
    program.operation(1, {writes(large, 2 * mb)}, {large});
    for (int i = 0; i < 5; ++i) program.operation(1, {}, {});
    program.operation(1, {reads(0, mb)}, {});
  }
  Program program;
};

void a_part_used_again_later_keeps_what_was_to_go(void **) {
  for (const uint64_t used_at : {1, 4, 5, 6}) {
    Cancelled made;
    Cast cast(std::pmr::get_default_resource());
    ResidencyPlan plan(cast, terms_of(2 * mb), std::pmr::get_default_resource());
    Future future(made.program, cast, 1);
    const uint32_t part = cast.born(0, 0, mb);
    future.begins(0);
    future.rewind();
    const ResidencyPlan::Resident resident{part, mb, mb, true, future.outlook(part), 0};
    plan.rebuild(0, {&resident, 1});
    while (plan.step(future)) continue;
    plan.advance(used_at);
    plan.used(part);  // that was not foreseen
    assert_int_equal(plan.next_drop().has_value(), used_at <= ResidencyPlan::drop_grace);
  }
}

/// While the last use's lease is out: its end would count as a use after the page was given up.
void what_is_in_use_is_given_up_when_it_is_not_any_more(void **) {
  Cancelled made;
  Cast cast(std::pmr::get_default_resource());
  ResidencyPlan plan(cast, terms_of(2 * mb), std::pmr::get_default_resource());
  Future future(made.program, cast, 1);
  const uint32_t part = cast.born(0, 0, mb);
  future.begins(0);
  future.rewind();
  const ResidencyPlan::Resident resident{part, mb, mb, true, future.outlook(part), 0};
  plan.rebuild(0, {&resident, 1});
  while (plan.step(future)) continue;
  const auto in_use = [](uint32_t) { return true; };
  assert_false(plan.next_drop(in_use).has_value());
  assert_false(plan.next_drop(in_use).has_value());
  plan.advance(1);  // another operation has begun: its user now is not the one that was planned
  assert_true(plan.next_drop(in_use).has_value());
  assert_false(plan.next_drop().has_value());
}

void a_fetch_waits_for_the_eviction_before_it(void **) {
  Cancelled made;
  Cast cast(std::pmr::get_default_resource());
  ResidencyPlan plan(cast, terms_of(2 * mb), std::pmr::get_default_resource());
  Future future(made.program, cast, 1);
  const uint32_t part = cast.born(0, 0, mb);
  future.begins(0);
  future.rewind();
  const ResidencyPlan::Resident resident{part, mb, mb, true, future.outlook(part), 0};
  plan.rebuild(0, {&resident, 1});
  while (plan.step(future)) continue;
  // Its memory counts as free after its last use.
  assert_int_equal(plan.most_planned(1, 16), 0);
  assert_int_equal(plan.most_planned(16, 17), 2 * mb);
  uint64_t number = 0;
  const PlannedFetch *fetch = plan.next_fetch(&number);
  assert_non_null(fetch);
  assert_true(plan.waits(*fetch));
  plan.advance(1);
  assert_true(plan.next_drop().has_value());
  fetch = plan.next_fetch(&number);
  assert_false(plan.waits(*fetch));
  assert_false(plan.may_fetch(number, mb));  // operation 16 needs all of the memory
  plan.advance(16);
  assert_true(plan.may_fetch(number, mb));
  plan.died(part);
  assert_null(plan.next_fetch(&number));
}

/// Random programs over buffers of `unit` to `largest` times `unit` bytes. What is only read is clean from the start.
/// The least bytes to fetch where whole buffers stay or go, clean all of them: by trying everything.
class Search {
 public:
  Search(const Program &program, uint64_t capacity) : program_(program), capacity_(capacity) {}
  uint64_t least() { return from(0, 0, 0); }

 private:
  uint64_t bytes_of(uint32_t set) const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < program_.buffers(); ++i)
      if ((set >> i & 1) != 0) sum += program_.size(i);
    return sum;
  }
  uint64_t from(uint32_t at, uint32_t memory, uint32_t has) {
    if (at == program_.count()) return 0;
    const auto known = known_.find({at, memory});
    if (known != known_.end()) return known->second;
    uint32_t set = 0;
    for (const ProgramUse &use : program_.uses(at)) set |= uint32_t{1} << use.buffer;
    const uint64_t fetched = bytes_of(set & ~memory & has);
    uint64_t best = UINT64_MAX;
    const uint32_t others = memory & ~set;
    for (uint32_t kept = others;; kept = (kept - 1) & others) {
      if (bytes_of(kept | set) <= capacity_)
        best = std::min(best, fetched + from(at + 1, kept | set, has | set));
      if (kept == 0) break;
    }
    return known_[{at, memory}] = best;
  }
  const Program &program_;
  uint64_t capacity_;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> known_;
};

void fetches_the_least_where_all_sizes_are_one(void **) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const Program program = any(random, mb, 1, 6, 30, true);
    for (const uint64_t capacity : {1, 2, 3, 4}) {
      Follower follower(program, terms_of(capacity * mb));
      follower.run();
      assert_int_equal(follower.fetched + follower.late, Search(program, capacity * mb).least());
      assert_true(follower.most <= capacity * mb);
    }
  }
}

void mixed_sizes_in_parts_beat_whole_buffers(void **) {
  std::mt19937_64 random(9);
  uint64_t fetched = 0, least = 0;
  for (int round = 0; round < 100; ++round) {
    const Program program = any(random, mb, 6, 6, 24, true);
    const uint64_t capacity = std::max(program.largest_set(), 14 * mb);
    Follower follower(program, terms_of(capacity));
    follower.run();
    fetched += follower.fetched + follower.late;
    least += Search(program, capacity).least();
    assert_true(follower.most <= capacity);
  }
  print_message("mixed sizes: %.3f of the least with whole buffers\n",
                static_cast<double>(fetched) / static_cast<double>(least));
  assert_true(fetched <= least);
}

void no_fetch_forces_an_eviction_that_is_not_planned(void **) {
  std::mt19937_64 random(11);
  uint64_t fetched = 0;
  for (int round = 0; round < 300; ++round) {
    const Program program = any(random, mb / 4, 12, 8, 200, false);
    const uint64_t capacity = std::max(program.largest_set(), 6 * mb);
    Follower follower(program, terms_of(capacity, mb / 4));
    follower.run();
    assert_true(follower.most <= capacity);  // with the planned evictions alone
    fetched += follower.fetched;
    for (const Follower::Dropped &drop : follower.drops) {
      assert_true(drop.operation >= drop.after);
      assert_true(drop.until > drop.after);
    }
  }
  assert_true(fetched != 0);
}

/// Endless: eight buffers in turn.
/// By key, and the smaller number of equal ones.

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(what_is_used_farthest_goes_from_its_last_use_on),
      cmocka_unit_test(a_buffer_is_fetched_as_soon_as_there_is_memory),
      cmocka_unit_test(what_is_to_be_overwritten_is_not_fetched),
      cmocka_unit_test(who_goes_depends_on_what_its_bytes_cost),
      cmocka_unit_test(those_of_lower_priority_go_first),
      cmocka_unit_test(what_was_to_be_used_and_is_not_goes_as_if_it_were_as_far_away_as_it_is_late),
      cmocka_unit_test(those_who_go_for_one_operation_go_farthest_first),
      cmocka_unit_test(only_as_many_pages_go_as_are_needed),
      cmocka_unit_test(a_use_of_some_bytes_needs_no_more),
      cmocka_unit_test(a_part_used_again_later_keeps_what_was_to_go),
      cmocka_unit_test(what_is_in_use_is_given_up_when_it_is_not_any_more),
      cmocka_unit_test(a_fetch_waits_for_the_eviction_before_it),
      cmocka_unit_test(fetches_the_least_where_all_sizes_are_one),
      cmocka_unit_test(mixed_sizes_in_parts_beat_whole_buffers),
      cmocka_unit_test(no_fetch_forces_an_eviction_that_is_not_planned),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
