// SPDX-License-Identifier: Apache-2.0
//
// The policy by itself, before a set of pages that come, are used, leave without a word, and are chosen: the least recently used
// goes first whatever has left, no page is forgotten, and what is kept stays in proportion to the pages there are.

#include "core/base/pool_lock.hpp"
#include "core/policy/given_up.hpp"
#include "core/policy/policy.hpp"

#include "tests/support/cmocka.hpp"
#include "tests/support/failing_memory.hpp"
#include "tests/unit/policy_pages.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace {

using namespace weir;
using namespace weir::policy;
using namespace weir::test;

struct Site {
  Pages pages;
  CountingMemory memory{std::pmr::new_delete_resource()};
  Owned<Policy> policy = make_policy("lru-window", pages, &memory);

  void come(uint32_t page) {
    pages.used[page] = ++pages.clock;
    policy->admit(PageRef{1, page, 1}, pages.clock);
  }
  void leave(uint32_t page, bool say) {
    pages.used.erase(page);
    if (say) policy->forget_some();
  }
  std::pmr::vector<PageRef> choose(uint64_t count) {
    std::pmr::vector<PageRef> victims;
    Wanted wanted;
    wanted.bytes = count * page_bytes;
    (void)policy->choose(wanted, &victims);
    return victims;
  }
};

constexpr uint64_t fixed = 16384;  // what a policy has whatever it knows

void what_left_is_forgotten_as_others_come(void **) {
  Site site;
  for (uint32_t page = 0; page < 200'000; ++page) {
    site.come(page);
    if (page >= 1000) site.leave(page - 1000, false);
  }
  assert_in_range(site.memory.bytes(), 1000 * 16, 3 * 1000 * 16 + fixed);
  assert_int_equal(site.choose(5000).size(), 1000);
}

void what_left_is_forgotten_as_others_leave(void **) {
  for (const bool backwards : {false, true}) {
    Site site;
    constexpr uint32_t count = 100'000;
    for (uint32_t page = 0; page < count; ++page) site.come(page);
    assert_in_range(site.memory.bytes(), count * 16, count * 18 + fixed);
    for (uint32_t i = 0; i < count - 100; ++i) site.leave(backwards ? count - 1 - i : i, true);
    assert_in_range(site.memory.bytes(), 1, count * 4);
    assert_int_equal(site.choose(count).size(), 100);
    assert_true(site.memory.bytes() <= fixed);
  }
}

/// Against a model: every choice is of the least recently used, and of one that is there.
void the_order_holds_whatever_leaves(void **) {
  std::mt19937 random(3);
  for (uint32_t round = 0; round < 20; ++round) {
    Site site;
    uint32_t next = 0;
    for (uint32_t step = 0; step < 4000; ++step) {
      std::map<uint32_t, uint64_t> &used = site.pages.used;
      const uint32_t what = static_cast<uint32_t>(random() % 10);
      if (what < 4 || used.empty()) {
        site.come(next++);
        continue;
      }
      const auto any = std::next(used.begin(), static_cast<ptrdiff_t>(random() % used.size()));
      if (what < 6) {
        any->second = ++site.pages.clock;
      } else if (what < 9) {
        site.leave(any->first, what != 6);
      } else {
        const std::pmr::vector<PageRef> victims = site.choose(1);
        assert_int_equal(victims.size(), 1);
        const uint64_t oldest =
            std::min_element(used.begin(), used.end(), [](const auto &a, const auto &b) {
              return a.second < b.second;
            })->second;
        assert_int_equal(used.at(victims[0].page), oldest);
        if (random() % 4 == 0) {
          assert_true(site.policy->give_back(victims[0], oldest));
        } else {
          used.erase(victims[0].page);
        }
      }
    }
    const size_t left = site.pages.used.size();
    const std::pmr::vector<PageRef> all = site.choose(left + 1);
    assert_int_equal(all.size(), left);
    for (const PageRef &page : all) assert_int_equal(site.pages.used.erase(page.page), 1);
  }
}

/// Room that was asked for is there, also after a long list has become short.
void room_that_was_asked_for_stays(void **) {
  Site site;
  for (uint32_t page = 0; page < 10'000; ++page) site.come(page);
  site.policy->reserve(500);
  for (uint32_t page = 0; page < 10'000; ++page) site.leave(page, true);
  (void)site.choose(10'000);
  const uint64_t before = site.memory.bytes();
  assert_true(before >= 500 * 16);
  for (uint32_t page = 0; page < 500; ++page) site.come(page);
  assert_int_equal(site.memory.bytes(), before);
}

/// It need not be among the oldest.
void what_is_foreseen_to_be_used_last_goes_first(void **) {
  Site site;
  for (uint32_t page = 0; page < 200; ++page) {
    site.come(page);
    site.pages.foreseen[page] = page == 150 ? 900 : 10 + page;
  }
  const auto victims = site.choose(1);
  assert_int_equal(victims.size(), 1);
  assert_int_equal(victims[0].page, 150);
}

void what_nobody_reads_again_goes_before_what_is_used_later(void **) {
  Site site;
  for (uint32_t page = 0; page < 100; ++page) {
    site.come(page);
    site.pages.foreseen[page] = 1000 + page;
  }
  site.pages.done = 70;
  site.pages.foreseen[70] = 100;
  assert_int_equal(site.choose(1)[0].page, 70);
}

/// Under "auto": pages 0 to 2 have lost their owner, 3 to 5 have been given up, 6 to 8 are neither.
struct Planned {
  Pages pages;
  Failing memory;
  Owned<Policy> policy = make_policy("auto", pages, &memory);

  Planned() {
    for (uint32_t page = 0; page < 9; ++page) {
      pages.used[page] = ++pages.clock;
      if (page < 3) {
        pages.ownerless.insert(page);
        policy->dispose(PageRef{1, page, 1}, false);
        continue;
      }
      policy->admit(PageRef{1, page, 1}, pages.clock);
      if (page < 6) {
        policy->given_up()->give_up(PageRef{1, page, 1}, pages.clock, page_bytes, false);
      }
    }
  }
  std::vector<uint32_t> choose(uint64_t count, bool all_or_nothing = false) {
    std::pmr::vector<PageRef> victims;
    Wanted wanted;
    wanted.bytes = count * page_bytes;
    wanted.all_or_nothing = all_or_nothing;
    const uint64_t found = policy->choose(wanted, &victims);
    assert_int_equal(found, victims.size() * page_bytes);
    std::vector<uint32_t> numbers;
    for (const PageRef &victim : victims) {
      numbers.push_back(victim.page);
      pages.used.erase(victim.page);
    }
    return numbers;
  }
};

using Numbers = std::vector<uint32_t>;

/// A page without an owner is not used again; what was given up may be.
void what_has_no_owner_goes_before_what_was_given_up(void **) {
  Planned site;
  assert_true(site.choose(2) == (Numbers{0, 1}));
  assert_true(site.choose(2) == (Numbers{2, 3}));
  assert_true(site.choose(2) == (Numbers{4, 5}));
  assert_true(site.choose(1) == (Numbers{6}));
}

/// Where there is not enough all of them stay, in their order.
void all_or_nothing_takes_nothing_without_an_owner_either(void **) {
  Planned site;
  assert_true(site.choose(10, true).empty());
  assert_true(site.choose(5, true) == (Numbers{0, 1, 2, 3, 4}));
}

/// Wherever memory runs out: a page that is forgotten would never leave the device.
void without_memory_no_page_without_an_owner_is_forgotten(void **) {
  uint64_t failures = 0;
  for (size_t at = 0;; ++at) {
    Planned site;
    site.memory.left = at;
    try {
      (void)site.choose(7);
      break;
    } catch (const std::bad_alloc &) {
      ++failures;
    }
    site.memory.left = SIZE_MAX;
    assert_true(site.choose(3) == (Numbers{0, 1, 2}));
  }
  assert_true(failures >= 1);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(what_left_is_forgotten_as_others_come),
      cmocka_unit_test(what_left_is_forgotten_as_others_leave),
      cmocka_unit_test(the_order_holds_whatever_leaves),
      cmocka_unit_test(room_that_was_asked_for_stays),
      cmocka_unit_test(what_is_foreseen_to_be_used_last_goes_first),
      cmocka_unit_test(what_nobody_reads_again_goes_before_what_is_used_later),
      cmocka_unit_test(what_has_no_owner_goes_before_what_was_given_up),
      cmocka_unit_test(all_or_nothing_takes_nothing_without_an_owner_either),
      cmocka_unit_test(without_memory_no_page_without_an_owner_is_forgotten),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
