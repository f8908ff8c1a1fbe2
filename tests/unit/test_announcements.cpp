// SPDX-License-Identifier: Apache-2.0
//
// Announcements without a pool: what is next, what it is taken for once, and that a failed announcement leaves nothing.

#include "core/policy/announcements.hpp"

#include "tests/support/failing_memory.hpp"

#include "tests/support/cmocka.hpp"

#include <weir/lease.h>

#include <new>

namespace {

using weir::test::Failing;

using weir::policy::AnnouncedUse;
using weir::policy::AnnouncedUses;
using weir::policy::Announcements;

AnnouncedUse use_of(uint32_t buffer, uint8_t mode = WEIR_READ) {
  return {buffer, buffer, 0, 0, 100, mode, false};
}

/// One operation for each list; a buffer's region has its number.
void announce(Announcements &on, uint32_t slot, std::vector<std::vector<AnnouncedUse>> operations,
              std::pmr::memory_resource *memory = std::pmr::get_default_resource()) {
  std::pmr::vector<AnnouncedUses> fresh;
  for (const auto &uses : operations)
    fresh.emplace_back(AnnouncedUses(uses.begin(), uses.end(), memory));
  on.append(slot, fresh);
}

void a_region_is_needed_as_far_ahead_as_it_was_announced(void **) {
  Announcements on(std::pmr::get_default_resource());
  assert_true(on.before_use_of(1) == UINT64_MAX);
  announce(on, 7, {{use_of(1)}, {use_of(2)}, {use_of(1), use_of(3)}});
  assert_int_equal(on.before_use_of(1), 0);
  assert_int_equal(on.before_use_of(2), 1);
  assert_int_equal(on.before_use_of(3), 2);
  on.consume(7);
  assert_int_equal(on.before_use_of(1), 1);
  assert_int_equal(on.before_use_of(2), 0);
  on.consume(7);
  assert_true(on.before_use_of(2) == UINT64_MAX);
  assert_int_equal(on.count(7), 1);
  on.forget(1);
  assert_true(on.before_use_of(1) == UINT64_MAX);
  assert_int_equal(on.before_use_of(3), 0);
  on.consume(7);
  assert_int_equal(on.count(7), 0);
  on.consume(7);
}

void what_others_announced_of_a_region_stays(void **) {
  Announcements on(std::pmr::get_default_resource());
  announce(on, 1, {{use_of(5)}, {use_of(9)}, {use_of(5)}});
  announce(on, 2, {{use_of(9)}, {use_of(9)}});
  on.consume(1);
  on.consume(1);
  assert_int_equal(on.before_use_of(9), 0);
  on.forget(5);
  announce(on, 2, {{use_of(5)}});  // another buffer on a region of that number
  on.consume(1);
  assert_int_equal(on.before_use_of(5), 2);
}

void each_use_is_taken_once_in_order_and_again_when_it_is_given_back(void **) {
  Announcements on(std::pmr::get_default_resource());
  announce(on, 1, {{use_of(1), use_of(2, WEIR_DISCARD_WRITE), use_of(3)}, {use_of(4), use_of(5)}});
  assert_int_equal(on.take(1)->use.buffer, 1);
  const auto third = on.take(1);  // the second needs no bytes
  assert_int_equal(third->use.buffer, 3);
  assert_int_equal(third->index, 2);
  on.untake(1, third->number, third->index);
  assert_int_equal(on.take(1)->use.buffer, 3);
  const auto fourth = on.take(1);
  assert_int_equal(fourth->use.buffer, 4);
  assert_int_equal(on.before(1, fourth->number), 1);
  on.consume(1);
  on.untake(1, 0, 0);  // that one is over
  assert_int_equal(on.take(1)->use.buffer, 5);
  assert_false(on.take(1).has_value());
  assert_false(on.take(2).has_value());
}

/// The stream may be ahead of who takes: then nothing of the next operation is passed over.
void an_operation_consumed_half_taken_leaves_the_next_whole(void **) {
  Announcements on(std::pmr::get_default_resource());
  announce(on, 1, {{use_of(1), use_of(2)}, {use_of(3), use_of(4)}});
  assert_int_equal(on.take(1)->use.buffer, 1);
  on.consume(1);
  assert_int_equal(on.take(1)->use.buffer, 3);
}

void no_more_than_the_lookahead_is_taken(void **) {
  Announcements on(std::pmr::get_default_resource());
  for (uint32_t i = 0; i < Announcements::lookahead + 2; ++i) announce(on, 1, {{use_of(i)}});
  uint32_t taken = 0;
  while (on.take(1)) ++taken;
  assert_int_equal(taken, Announcements::lookahead);
  on.consume(1);
  assert_int_equal(on.take(1)->use.buffer, Announcements::lookahead);
}

void what_has_come_counts_until_its_operation_is_consumed(void **) {
  Announcements on(std::pmr::get_default_resource());
  announce(on, 1, {{use_of(1), use_of(2)}, {use_of(3)}});
  assert_int_equal(on.ahead(1), 0);
  on.note_brought(1, 0, 1, 10);
  on.note_brought(1, 1, 0, 4);
  assert_int_equal(on.ahead(1), 14);
  on.consume(1);
  assert_int_equal(on.ahead(1), 4);
  on.note_brought(1, 0, 0, 7);  // too late for that one
  on.note_brought(2, 0, 0, 7);  // a stream that has announced nothing
  assert_int_equal(on.ahead(1), 4);
  on.consume(1);
  assert_int_equal(on.ahead(1), 0);
}

void a_failed_announcement_leaves_all_as_it_was(void **) {
  for (size_t n = 0;; ++n) {
    Failing memory;
    Announcements on(&memory);
    announce(on, 1, {{use_of(1)}, {use_of(2)}}, &memory);
    on.consume(1);
    memory.left = SIZE_MAX;
    bool failed = false;
    std::pmr::vector<AnnouncedUses> fresh;
    for (uint32_t i = 0; i < 200; ++i) {
      fresh.emplace_back(AnnouncedUses({use_of(2), use_of(3)}, &memory));
    }
    memory.left = n;
    try {
      on.append(1, fresh);
    } catch (const std::bad_alloc &) {
      failed = true;
    }
    assert_int_equal(on.count(1), failed ? 1 : 201);
    assert_int_equal(on.before_use_of(2), 0);
    assert_true(on.before_use_of(3) == (failed ? UINT64_MAX : 1));
    on.consume(1);
    assert_true(on.before_use_of(2) == (failed ? UINT64_MAX : 0));
    if (!failed) return;
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_region_is_needed_as_far_ahead_as_it_was_announced),
      cmocka_unit_test(what_others_announced_of_a_region_stays),
      cmocka_unit_test(each_use_is_taken_once_in_order_and_again_when_it_is_given_back),
      cmocka_unit_test(an_operation_consumed_half_taken_leaves_the_next_whole),
      cmocka_unit_test(no_more_than_the_lookahead_is_taken),
      cmocka_unit_test(what_has_come_counts_until_its_operation_is_consumed),
      cmocka_unit_test(a_failed_announcement_leaves_all_as_it_was),
  };
  return cmocka_run_group_tests_name("announcements", tests, nullptr, nullptr);
}
