// SPDX-License-Identifier: Apache-2.0
//
// What a plan has given up: it goes before all else and in that order, clean pages first; a use or a change of mind keeps it; what is
// refused stays listed; and where memory runs out no page is listed that is not.

#include "core/base/pool_lock.hpp"
#include "core/policy/given_up.hpp"

#include "tests/support/failing_memory.hpp"

#include "tests/support/cmocka.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace {

using weir::test::Failing;

using namespace weir;
using namespace weir::policy;

constexpr uint64_t page_bytes = 4096;

struct Pages final : View {
  struct State {
    uint64_t used = 0;
    bool dirty = false, leased = false;
    uint32_t client = 0;
    uint64_t prefetch = UINT64_MAX, next_use = UINT64_MAX;
  };
  std::map<uint32_t, State> there;  ///< by page, of region 1

  bool knows(const PageRef &page) noexcept override { return there.count(page.page) != 0; }
  bool describe(const PageRef &page, PageInfo *info) override {
    const auto found = there.find(page.page);
    if (found == there.end()) return false;
    *info = PageInfo{};
    info->bytes = page_bytes;
    info->last_use = found->second.used;
    info->dirty = found->second.dirty;
    info->evictable = !found->second.leased;
    info->client = found->second.client;
    info->prefetch = found->second.prefetch;
    info->next_use = found->second.next_use;
    return true;
  }
  uint32_t client_of(const PageRef &page) const noexcept override {
    const auto found = there.find(page.page);
    return found != there.end() ? found->second.client : UINT32_MAX;
  }
  bool list(uint32_t client, PageCursor *from, const Visit &visit) override {
    for (const auto &[page, state] : there)
      if (page >= from->page && state.client == client) visit(PageRef{1, page, 1}, state.used);
    return true;
  }
  uint64_t now() const override { return 0; }
};

PageRef ref(uint32_t page, uint16_t generation = 1) { return {1, page, generation}; }

struct Site {
  Pages pages;
  GivenUp queue{std::pmr::get_default_resource()};
  void give_up(uint32_t page, bool dirty = false, uint64_t tick = 10) {
    pages.there[page].dirty = dirty;
    queue.give_up(ref(page), tick, page_bytes, dirty);
  }
  std::vector<uint32_t> choose(Wanted wanted) {
    std::pmr::vector<PageRef> victims;
    (void)queue.choose(wanted, pages, &victims);
    std::vector<uint32_t> numbers;
    for (const PageRef &victim : victims) numbers.push_back(victim.page);
    return numbers;
  }
  std::vector<uint32_t> choose(uint64_t count) { return choose({.bytes = count * page_bytes}); }
};

using Numbers = std::vector<uint32_t>;

void clean_pages_go_first_and_each_in_its_order(void **) {
  Site site;
  site.give_up(1, true);
  site.give_up(2);
  site.give_up(3);
  site.give_up(4, true);
  assert_int_equal(site.queue.bytes_of(1), 4 * page_bytes);
  assert_true(site.choose(1) == Numbers{2});
  assert_true(site.choose(3) == (Numbers{3, 1, 4}));
  assert_true(site.choose(1).empty());
  assert_int_equal(site.queue.bytes_of(1), 0);
}

void a_prefetch_gets_nothing_that_has_to_be_copied(void **) {
  Site site;
  site.give_up(1, true);
  site.give_up(2);
  Wanted wanted{.bytes = 2 * page_bytes};
  wanted.given_up_only = true;
  wanted.all_or_nothing = true;
  assert_true(site.choose(wanted).empty());
  assert_int_equal(site.queue.bytes_of(1), 2 * page_bytes);
  wanted.bytes = page_bytes;
  assert_true(site.choose(wanted) == Numbers{2});
}

void a_used_page_stays(void **) {
  Site site;
  site.give_up(1);
  site.give_up(2);
  site.pages.there[1].used = 11;
  assert_true(site.choose(2) == Numbers{2});
  assert_int_equal(site.queue.bytes_of(1), 0);
}

void what_is_taken_back_stays_and_can_be_given_up_anew(void **) {
  Site site;
  site.give_up(1);
  site.give_up(2);
  site.queue.take_back(1);
  assert_int_equal(site.queue.bytes_of(1), 0);
  assert_true(site.choose(2).empty());
  site.give_up(2);
  assert_true(site.choose(2) == Numbers{2});
}

/// It was used meanwhile, and no look has been made: what says that it stays is about the first time.
void a_page_that_was_used_is_given_up_anew(void **) {
  Site site;
  site.give_up(1);
  site.pages.there[1].used = 11;
  site.give_up(1, true, 20);
  assert_int_equal(site.queue.bytes_of(1), page_bytes);
  assert_true(site.choose(2) == Numbers{1});
  assert_int_equal(site.queue.bytes_of(1), 0);
}

void a_leased_page_is_passed_over_and_goes_later(void **) {
  Site site;
  for (uint32_t page = 1; page <= 3; ++page) site.give_up(page);
  site.pages.there[1].leased = true;
  assert_true(site.choose(1) == Numbers{2});
  site.pages.there[1].leased = false;
  assert_true(site.choose(2) == (Numbers{1, 3}));
}

void a_quota_takes_only_its_client_s(void **) {
  Site site;
  site.give_up(1);
  site.give_up(2);
  site.pages.there[2].client = 7;
  assert_true(site.choose({.bytes = page_bytes, .client = 7}) == Numbers{2});
  assert_true(site.choose(1) == Numbers{1});
}

void a_page_is_listed_once(void **) {
  Site site;
  site.give_up(1);
  site.give_up(1);
  assert_int_equal(site.queue.bytes_of(1), page_bytes);
  assert_true(site.choose(5) == Numbers{1});
}

/// The slot of a region that has ended is another's.
void another_region_s_pages_are_not_taken_for_the_old_one_s(void **) {
  Site site;
  site.give_up(1);
  site.queue.give_up(ref(2, 2), 10, page_bytes, false);
  site.pages.there[2] = {};
  assert_false(site.queue.holds(ref(1)));
  assert_true(site.queue.holds(ref(2, 2)));
  assert_true(site.choose(2) == Numbers{2});
}

void what_was_cleaned_goes_at_once(void **) {
  Site site;
  for (uint32_t page = 1; page <= 3; ++page) site.give_up(page, true);
  site.pages.there[1].leased = true;
  std::pmr::vector<PageRef> dirty;
  assert_true(site.queue.next_to_clean(2 * page_bytes, site.pages, &dirty));
  assert_int_equal(dirty.size(), 2);
  assert_int_equal(dirty[0].page, 2);
  assert_int_equal(dirty[1].page, 3);
  site.pages.there[2].dirty = false;  // the other could not be copied
  site.queue.settle(dirty, site.pages);
  Wanted clean{.bytes = 3 * page_bytes};
  clean.given_up_only = true;
  assert_true(site.choose(clean) == Numbers{2});
  dirty.clear();
  assert_true(site.queue.next_to_clean(page_bytes, site.pages, &dirty));
  assert_int_equal(dirty[0].page, 3);
}

void what_could_not_be_cleaned_lets_the_others_go_first(void **) {
  Site site;
  for (uint32_t page = 1; page <= 3; ++page) site.give_up(page, true);
  for (uint32_t page = 1; page <= 3; ++page) {
    std::pmr::vector<PageRef> dirty;
    assert_true(site.queue.next_to_clean(page_bytes, site.pages, &dirty));
    assert_int_equal(dirty.size(), 1);
    assert_int_equal(dirty[0].page, page);
    site.queue.settle(dirty, site.pages);
  }
}

void what_a_call_has_prefetched_stays(void **) {
  Site site;
  site.give_up(1);
  site.give_up(2);
  site.pages.there[1].prefetch = 0;
  assert_true(site.choose(2) == Numbers{2});
  assert_false(site.queue.holds(ref(1)));
}

void what_is_announced_to_come_soon_stays_for_now(void **) {
  Site site;
  site.give_up(1);
  site.give_up(2);
  site.pages.there[1].next_use = 7;
  Wanted ahead{.bytes = 2 * page_bytes};
  ahead.not_before = 8;
  assert_true(site.choose(ahead) == Numbers{2});
  assert_true(site.choose(2) == Numbers{1});  // demand has no choice
}

void without_memory_nothing_is_half_listed(void **) {
  for (size_t position = 0; position < 40; ++position) {
    Failing memory;
    Pages pages;
    GivenUp queue(&memory);
    memory.left = position;
    std::set<uint32_t> listed;
    for (uint32_t page = 0; page < 400; ++page) {
      pages.there[page] = {};
      if (if_memory([&] { queue.give_up(ref(page), 10, page_bytes, false); })) listed.insert(page);
      assert_true(queue.holds(ref(page)) == (listed.count(page) != 0));
    }
    memory.left = SIZE_MAX;
    assert_int_equal(queue.bytes_of(1), listed.size() * page_bytes);
    std::pmr::vector<PageRef> victims;
    (void)queue.choose({.bytes = 1000 * page_bytes}, pages, &victims);
    assert_int_equal(victims.size(), listed.size());
  }
}

/// Against a list of what should be there.
void random_steps_leave_what_they_should(void **) {
  std::mt19937 random(7);
  Site site;
  std::set<uint32_t> listed;
  for (int step = 0; step < 200'000; ++step) {
    const auto page = static_cast<uint32_t>(random() % 300);
    switch (random() % 8) {
      case 0:
        if (random() % 200 == 0) {
          site.queue.take_back(1);
          listed.clear();
        }
        break;
      case 1: {
        const auto chosen = site.choose(1 + random() % 4);
        for (const uint32_t one : chosen) {
          assert_true(listed.erase(one) == 1);
          site.pages.there.erase(one);
        }
        break;
      }
      case 2:
        if (site.pages.there.count(page) != 0) {
          site.pages.there[page].used = 11;
          listed.erase(page);  // it stays, and is void when it comes up
        }
        break;
      default:
        if (site.pages.there.count(page) == 0) {
          site.pages.there[page].used = 0;
          if (!site.queue.holds(ref(page))) {
            site.give_up(page, random() % 2 == 0);
            listed.insert(page);
          } else {
            site.pages.there.erase(page);
          }
        }
    }
  }
  assert_true(site.queue.size() < 2000);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(clean_pages_go_first_and_each_in_its_order),
      cmocka_unit_test(a_prefetch_gets_nothing_that_has_to_be_copied),
      cmocka_unit_test(a_used_page_stays),
      cmocka_unit_test(what_is_taken_back_stays_and_can_be_given_up_anew),
      cmocka_unit_test(a_page_that_was_used_is_given_up_anew),
      cmocka_unit_test(a_leased_page_is_passed_over_and_goes_later),
      cmocka_unit_test(a_quota_takes_only_its_client_s),
      cmocka_unit_test(a_page_is_listed_once),
      cmocka_unit_test(another_region_s_pages_are_not_taken_for_the_old_one_s),
      cmocka_unit_test(what_was_cleaned_goes_at_once),
      cmocka_unit_test(what_could_not_be_cleaned_lets_the_others_go_first),
      cmocka_unit_test(what_a_call_has_prefetched_stays),
      cmocka_unit_test(what_is_announced_to_come_soon_stays_for_now),
      cmocka_unit_test(without_memory_nothing_is_half_listed),
      cmocka_unit_test(random_steps_leave_what_they_should),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
