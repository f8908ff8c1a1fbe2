// SPDX-License-Identifier: Apache-2.0
//
// Announcements without a pool: what is next, what it is taken for once, and that a failed announcement leaves nothing.

#include "core/policy/announcements.hpp"

#include "tests/support/failing_memory.hpp"

#include "tests/support/cmocka.hpp"

#include <weir/lease.h>

#include <algorithm>
#include <new>
#include <random>
#include <vector>

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

/// The stream may be ahead of the reader that takes: then nothing of the next operation is passed over.
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

/// Of two streams that announce and consume at random, and regions that end, everything is as a plain list of operations says.
void it_agrees_with_a_list(void **) {
  struct Listed {
    uint64_t number;
    std::vector<AnnouncedUse> uses;
    std::vector<bool> alive;  ///< the region's owner is the one that it was
  };
  std::mt19937 random(5);
  Announcements on(std::pmr::get_default_resource());
  std::vector<Listed> lists[2];
  uint64_t next[2] = {0, 0};
  constexpr uint32_t regions = 5;
  for (int step = 0; step < 3000; ++step) {
    const uint32_t slot = random() % 2;
    std::vector<Listed> &list = lists[slot];
    if (const uint32_t choice = random() % 8; choice < 3) {
      std::vector<std::vector<AnnouncedUse>> fresh(random() % 4);
      for (auto &uses : fresh) {
        while (random() % 3 != 0)
          uses.push_back(use_of(static_cast<uint32_t>(random() % regions),
                                random() % 4 == 0 ? WEIR_DISCARD_WRITE : WEIR_READ));
        for (AnnouncedUse &use : uses) use.size = 100;
        list.push_back({next[slot]++, uses, std::vector<bool>(uses.size(), true)});
      }
      announce(on, slot, fresh);
    } else if (choice < 7) {
      const size_t count = random() % 4;
      on.consume(slot, count);
      list.erase(list.begin(),
                 list.begin() + static_cast<std::ptrdiff_t>(std::min(count, list.size())));
    } else {
      const auto region = static_cast<uint32_t>(random() % regions);
      on.forget(region);
      for (auto &each : lists)
        for (Listed &operation : each)
          for (size_t i = 0; i < operation.uses.size(); ++i)
            if (operation.uses[i].region == region) operation.alive[i] = false;
    }
    for (uint32_t region = 0; region < regions; ++region) {
      uint64_t soonest = UINT64_MAX;
      for (uint32_t of = 0; of < 2; ++of) {
        const uint64_t from = lists[of].empty() ? 0 : lists[of][random() % lists[of].size()].number;
        std::optional<Announcements::NextUse> expected;
        for (size_t at = 0; at < lists[of].size(); ++at) {
          const Listed &operation = lists[of][at];
          bool used = false, needed = false;
          for (size_t i = 0; i < operation.uses.size(); ++i) {
            if (operation.uses[i].region != region || !operation.alive[i]) continue;
            used = true;
            needed = needed || operation.uses[i].needs();
          }
          assert_true(on.lists(of, region, operation.number) == used);
          if (used) soonest = std::min<uint64_t>(soonest, at);
          if (used && !expected && operation.number >= from)
            expected = Announcements::NextUse{operation.number, needed};
        }
        const auto found = on.next_use(of, region, from);
        assert_true(found.has_value() == expected.has_value());
        if (found) assert_int_equal(found->number, expected->number);
        if (found) assert_true(found->needed == expected->needed);
      }
      assert_true(on.before_use_of(region) == soonest);
    }
    for (uint32_t of = 0; of < 2; ++of) {
      assert_int_equal(on.count(of), lists[of].size());
      assert_false(on.operation(of, next[of]).has_value());
      for (const Listed &operation : lists[of]) {
        const auto uses = on.operation(of, operation.number);
        assert_true(uses.has_value());
        size_t i = 0;
        for (const AnnouncedUse &use : *uses)
          assert_int_equal(use.buffer, operation.uses[i++].buffer);
        assert_int_equal(i, operation.uses.size());
      }
    }
  }
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
      cmocka_unit_test(it_agrees_with_a_list),
      cmocka_unit_test(a_failed_announcement_leaves_all_as_it_was),
  };
  return cmocka_run_group_tests_name("announcements", tests, nullptr, nullptr);
}
