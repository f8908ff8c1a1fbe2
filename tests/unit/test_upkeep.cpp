// SPDX-License-Identifier: Apache-2.0
//
// What a pool does beside acquires, without a pool: which copies are in doubt, when idle memory is looked at, and whose turn it
// is to scrub.

#include "core/base/scrub_turns.hpp"
#include "core/page/doubts.hpp"
#include "core/policy/idle_scan.hpp"
#include "tests/support/cmocka.hpp"

#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace {

using weir::ScrubTurns;
using weir::backend::Stamp;
using weir::page::Doubts;
using weir::policy::IdleScan;

Doubts::Copy copy_of(uint32_t page, uint32_t passed, uint64_t first, uint64_t second = 0) {
  Doubts::Copy copy;
  copy.page = page;
  copy.passed = passed;
  copy.there[0] = Stamp::make(1, first, true);
  if (second != 0) copy.there[1] = Stamp::make(1, second, true);
  return copy;
}

std::vector<uint32_t> lost(Doubts &doubts, uint32_t bit, uint64_t done_until) {
  std::vector<uint32_t> pages;
  doubts.lose(
      bit, [=](Stamp stamp) { return !stamp || stamp.point() <= done_until; },
      [&](const Doubts::Copy &copy) { pages.push_back(copy.page); });
  return pages;
}

void a_copy_is_in_doubt_until_all_its_ways_are_done(void **) {
  Doubts doubts(std::pmr::get_default_resource());
  doubts.make_room(4);
  doubts.note(copy_of(1, 0b011, 5));
  doubts.note(copy_of(2, 0b101, 5, 9));
  doubts.note(copy_of(3, 0b010, 9));
  assert_true(lost(doubts, 0b1000, 0).empty());
  assert_true((lost(doubts, 0b001, 5) == std::vector<uint32_t>{2}));
  assert_true(lost(doubts, 0b100, 5).empty());  // told once
  assert_true((lost(doubts, 0b010, 5) == std::vector<uint32_t>{3}));
  doubts.note(copy_of(4, 0b001, 7));
  doubts.settle([](Stamp stamp) { return !stamp || stamp.point() <= 7; });
  assert_true(lost(doubts, 0b001, 0).empty());
}

/// Counts what it gives out.
class Counting final : public std::pmr::memory_resource {
 public:
  size_t calls = 0;

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    ++calls;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void *memory, size_t bytes, size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
};

void there_is_room_for_all_that_it_was_made_for(void **) {
  Counting memory;
  Doubts doubts(&memory);
  doubts.make_room(10);
  doubts.make_room(300);
  const size_t calls = memory.calls;
  for (uint32_t i = 0; i < 310; ++i) doubts.note(copy_of(i, 1, 9));
  assert_int_equal(memory.calls, calls);
  doubts.give_room_back(310);
  assert_int_equal(lost(doubts, 1, 0).size(), 310);
  doubts.make_room(310);
  assert_int_equal(memory.calls, calls);
}

void idle_memory_is_looked_at_by_one_and_only_while_there_may_be_some(void **) {
  IdleScan scan;
  assert_false(scan.watch(true));  // never, before it has a grace period
  scan.start(400);
  assert_false(scan.begin(1000));
  assert_false(scan.watch(false));
  assert_true(scan.watch(true));
  assert_true(scan.begin(1000));
  assert_true(scan.looking());
  assert_false(scan.begin(5000));
  scan.end();
  assert_int_equal(scan.rest_ns(1000), 100);  // a fourth of it
  assert_int_equal(scan.rest_ns(2000), 0);
  assert_false(scan.begin(1099));
  assert_true(scan.begin(1100));
  scan.end();
  for (uint64_t now = 1200; now <= 1300; now += 100) {
    assert_true(scan.begin(now));
    scan.end();
  }
  assert_int_equal(scan.looks(), 4);
  assert_int_equal(scan.unneeded_before(), 0);
  assert_true(scan.begin(1400));
  assert_int_equal(scan.unneeded_before(), 1);
}

/// What the tests have overwrite something: counts, and may be told to do something else.
struct Scrub final : ScrubTurns::Work {
  explicit Scrub(weir::Log log = {}) : lock(log) {}
  bool scrub(bool) noexcept override { return what ? std::exchange(what, {})() : ++done != 0; }
  weir::PoolLock lock;
  std::function<bool()> what;  ///< the next time
  uint32_t done = 0;
};

void what_is_noted_is_scrubbed_by_whoever_has_the_turn(void **) {
  Scrub scrub;
  ScrubTurns turns(scrub.lock, scrub);
  turns.finish(false, true);
  turns.finish(true, false);
  turns.finish(false, false);
  assert_int_equal(scrub.done, 0);
  turns.note();
  turns.note();
  assert_int_equal(turns.noted(), 2);
  turns.finish(false, false);
  assert_int_equal(scrub.done, 1);
  assert_false(turns.due());
  turns.note();
  scrub.what = [] { return false; };  // some of it is left
  turns.finish(false, true);
  assert_true(turns.due());
  scrub.what = [&] {
    turns.note();  // of another thread's meanwhile
    // A thread that need not see the end of it leaves it to the one that has the turn.
    std::thread([&] { turns.finish(false, false); }).join();
    return true;
  };
  turns.finish(true, false);
  assert_int_equal(scrub.done, 1);
  assert_true(turns.due());
}

void what_is_logged_meanwhile_is_told_without_the_turn(void **) {
  uint32_t told = 0;
  Scrub scrub(weir::Log(
      [](void *count, int32_t, const char *) { ++*static_cast<uint32_t *>(count); }, &told));
  ScrubTurns turns(scrub.lock, scrub);
  for (const bool own : {true, false}) {
    turns.note();
    scrub.what = [&] {
      const uint32_t before = told;
      {
        const weir::Locked held(scrub.lock);
        scrub.lock.note(WEIR_LOG_WARNING, "a place can't be overwritten");
      }
      assert_int_equal(told, before);
      return true;
    };
    turns.finish(false, own);
    assert_int_equal(told, own ? 1 : 2);
  }
}

void a_write_that_failed_is_put_off(void **) {
  Scrub scrub;
  ScrubTurns turns(scrub.lock, scrub);
  assert_false(turns.put_off_at(0));
  turns.put_off(10);
  assert_true(turns.put_off_at(1'000'000'009));
  assert_false(turns.put_off_at(1'000'000'010));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_copy_is_in_doubt_until_all_its_ways_are_done),
      cmocka_unit_test(there_is_room_for_all_that_it_was_made_for),
      cmocka_unit_test(idle_memory_is_looked_at_by_one_and_only_while_there_may_be_some),
      cmocka_unit_test(what_is_noted_is_scrubbed_by_whoever_has_the_turn),
      cmocka_unit_test(what_is_logged_meanwhile_is_told_without_the_turn),
      cmocka_unit_test(a_write_that_failed_is_put_off),
  };
  return cmocka_run_group_tests_name("upkeep", tests, nullptr, nullptr);
}
