// SPDX-License-Identifier: Apache-2.0
//
// The policy before a crowd of pages that can't go: leased for long, or of other clients. What a look costs does not grow with them,
// and none is forgotten.

#include "core/base/pool_lock.hpp"
#include "core/policy/policy.hpp"

#include "tests/support/cmocka.hpp"
#include "tests/support/failing_memory.hpp"
#include "tests/unit/policy_pages.hpp"

#include <algorithm>
#include <vector>

namespace {

using namespace weir;
using namespace weir::policy;
using namespace weir::test;

constexpr uint32_t crowd = 20000;
constexpr uint32_t everybody = UINT32_MAX;

/// Pages 0 to crowd - 1, and others after them.
struct Site {
  Pages pages;
  Failing memory;
  Owned<Policy> policy = make_policy("lru-window", pages, &memory);

  uint64_t most = 0;  ///< of looks at pages by one choice, but for the first

  void come(uint32_t page) {
    pages.used[page] = ++pages.clock;
    policy->admit(PageRef{1, page, 1}, pages.clock);
  }
  void gather() {
    for (uint32_t page = 0; page < crowd; ++page) come(page);
  }
  void choose_into(std::vector<uint32_t> *chosen, uint64_t count, uint32_t client) {
    std::pmr::vector<PageRef> victims;
    Wanted wanted;
    wanted.bytes = count * page_bytes;
    wanted.client = client;
    (void)policy->choose(wanted, &victims);
    for (const PageRef &victim : victims) chosen->push_back(victim.page);
  }
  /// What is chosen leaves.
  std::vector<uint32_t> choose(uint64_t count, uint32_t client = everybody) {
    std::vector<uint32_t> chosen;
    choose_into(&chosen, count, client);
    for (const uint32_t page : chosen) pages.used.erase(page);
    return chosen;
  }
  /// A few pages take turns on what memory the crowd leaves. How often the policy has looked, for each.
  uint64_t looks_each(uint32_t rounds, uint32_t client = everybody) {
    constexpr uint32_t few = 128;
    const uint64_t before = pages.looks;
    for (uint32_t i = 0; i < rounds; ++i) {
      const uint32_t page = crowd + i % few;
      if (i >= few / 2) {
        const uint64_t looked = pages.looks;
        const auto victim = choose(1, client);
        if (i > few / 2) most = std::max(most, pages.looks - looked);
        assert_int_equal(victim.size(), 1);
        assert_in_range(victim[0], crowd, crowd + few - 1);
      }
      if (client != everybody) pages.clients[page] = client;
      come(page);
    }
    return (pages.looks - before) / rounds;
  }
};

void what_is_leased_for_long_is_not_looked_at_each_time(void **) {
  Site site;
  site.gather();
  for (uint32_t page = 0; page < crowd; ++page) site.pages.leased.insert(page);
  // All of them once in a thousand operations or so, and not all at once; each time 64 of them, and the few.
  assert_in_range(site.looks_each(8192), 1, 250);
  assert_in_range(site.most, 1, 400);
}

/// What was put off is as old as it was.
void what_was_leased_for_long_goes_when_it_may(void **) {
  Site site;
  site.gather();
  for (uint32_t page = 0; page < crowd; ++page) site.pages.leased.insert(page);
  (void)site.looks_each(2048);
  site.pages.leased.clear();
  // Some operations later at most nothing else goes before it is all gone.
  site.pages.clock += 1024 + crowd / 16;
  std::vector<uint32_t> chosen = site.choose(crowd);
  assert_int_equal(chosen.size(), crowd);
  std::sort(chosen.begin(), chosen.end());
  for (uint32_t page = 0; page < crowd; ++page) {
    if (chosen[page] >= crowd) continue;
    assert_true(page == 0 || chosen[page] != chosen[page - 1]);
  }
  const auto newer = std::lower_bound(chosen.begin(), chosen.end(), crowd);
  assert_in_range(chosen.end() - newer, 0, 128);
}

/// If there is nothing else it goes at once.
void what_was_put_off_goes_before_nothing_does(void **) {
  Site site;
  site.gather();
  for (uint32_t page = 0; page < crowd; ++page) site.pages.leased.insert(page);
  assert_true(site.choose(1).empty());
  site.pages.leased.erase(crowd / 2);
  assert_true(site.choose(1) == std::vector<uint32_t>{crowd / 2});
  site.pages.leased.clear();
  assert_int_equal(site.choose(crowd).size(), crowd - 1);
}

void other_clients_pages_are_not_looked_at_each_time(void **) {
  Site site;
  site.gather();
  // All once, to tell whose they are.
  assert_in_range(site.looks_each(8192, 7), 1, crowd / 8192 + 250);
}

/// A call that makes room for all sees all, and one that made room in its quota before sees what has come since.
void a_clients_pages_are_known_in_both_ways(void **) {
  Site site;
  site.gather();
  for (uint32_t page = 0; page < crowd; page += 2) site.pages.clients[page] = 7;
  assert_true(site.choose(2, 7) == (std::vector<uint32_t>{0, 2}));
  assert_true(site.choose(3) == (std::vector<uint32_t>{1, 3, 4}));
  assert_true(site.choose(2, 7) == (std::vector<uint32_t>{6, 8}));
  site.pages.clients[crowd] = 7;
  site.come(crowd);
  site.pages.used[10] = ++site.pages.clock;
  const std::vector<uint32_t> rest = site.choose(crowd, 7);
  assert_int_equal(rest.size(), crowd / 2 - 5 + 1);  // 0, 2, 4, 6 and 8 are gone
  assert_int_equal(rest[0], 12);
  assert_int_equal(rest.back(), 10);
  assert_true(site.choose(1, 8).empty());
  assert_int_equal(site.choose(crowd).size(), crowd / 2 - 2);
}

/// It comes back, and is known twice then: what was chosen the other way is forgotten only as it comes up.
void no_page_is_chosen_twice(void **) {
  Site site;
  site.gather();
  for (uint32_t page = 0; page < crowd; ++page) site.pages.clients[page] = 7;
  for (int round = 0; round < 3; ++round) {
    std::vector<uint32_t> chosen = site.choose(64, 7);
    assert_int_equal(chosen.size(), 64);
    for (const uint32_t page : chosen) site.come(page);
  }
  std::vector<uint32_t> all = site.choose(2 * crowd);
  assert_int_equal(all.size(), crowd);
  std::sort(all.begin(), all.end());
  assert_true(std::unique(all.begin(), all.end()) == all.end());
}

/// A client that ends leaves nothing: its pages are gone, and others come.
void nothing_is_kept_of_clients_that_are_gone(void **) {
  CountingMemory memory{std::pmr::new_delete_resource()};
  Site site;
  site.policy = make_policy("lru-window", site.pages, &memory);
  constexpr uint32_t pages = 256;
  uint64_t most = 0;
  for (uint32_t client = 1; client < 200; ++client) {
    for (uint32_t page = client * pages; page < (client + 1) * pages; ++page) {
      site.pages.clients[page] = client;
      site.come(page);
    }
    assert_int_equal(site.choose(4, client).size(), 4);
    site.pages.used.clear();
    if (client == 20) most = memory.bytes();
  }
  assert_in_range(memory.bytes(), 1, 2 * most);
}

/// However many clients have a heap of their own, and where but one of them goes on.
void pages_of_one_client_that_come_and_go_take_no_more_memory(void **) {
  CountingMemory memory{std::pmr::new_delete_resource()};
  Site site;
  site.policy = make_policy("lru-window", site.pages, &memory);
  uint32_t next = 0;
  const auto come_of = [&](uint32_t client) {
    site.pages.clients[next] = client;
    site.come(next++);
  };
  for (uint32_t client = 1; client <= 20; ++client) {
    for (uint32_t i = 0; i < 64; ++i) come_of(client);
    assert_int_equal(site.choose(1, client).size(), 1);
  }
  uint64_t most = 0;
  for (uint32_t i = 0; i < 100'000; ++i) {
    come_of(7);
    site.pages.used.erase(next - 1);  // it was not chosen
    if (i == 1000) most = memory.bytes();
  }
  assert_in_range(memory.bytes(), 1, 2 * most);
}

/// A list that is made in pieces has every page of the client in the end, whatever came, left or was used between two of them.
void a_client_is_listed_piece_by_piece(void **) {
  Site site;
  site.pages.piece = 1000;
  site.gather();
  for (uint32_t page = 1; page < crowd; page += 2) site.pages.clients[page] = 7;
  uint32_t pieces = 0, came = crowd;
  for (bool whole = false; !whole; ++pieces) {
    const uint64_t before = site.pages.looks;
    whole = site.policy->list_own(7);
    assert_in_range(site.pages.looks - before, 0, site.pages.piece);
    // One comes, one before and one behind what has been looked at is used, one of each leaves, and one comes back.
    site.pages.clients[came] = 7;
    site.come(came++);
    for (const uint32_t page : {101U + 2 * pieces, 19001U + 2 * pieces})
      site.pages.used[page] = ++site.pages.clock;
    for (const uint32_t page : {201U + 2 * pieces, 19501U + 2 * pieces})
      site.pages.used.erase(page);
    site.come(201U + 2 * pieces);
    // Others' go, and move what is left in the list of all.
    const std::vector<uint32_t> others = site.choose(5, 0);
    assert_int_equal(others.size(), 5);
  }
  assert_in_range(pieces, 15, 40);
  std::vector<uint32_t> wanted;
  for (const auto &[page, used] : site.pages.used)
    if (site.pages.client_of(PageRef{1, page, 1}) == 7) wanted.push_back(page);
  const uint64_t before = site.pages.looks;
  const std::vector<uint32_t> oldest = site.choose(3, 7);
  assert_true(oldest == (std::vector<uint32_t>{1, 3, 5}));
  assert_in_range(site.pages.looks - before, 1, 300);
  std::vector<uint32_t> chosen = site.choose(2 * crowd, 7);
  chosen.insert(chosen.end(), oldest.begin(), oldest.end());
  std::sort(chosen.begin(), chosen.end());
  assert_true(chosen == wanted);
}

/// While it is being listed so many pages of others come that an empty heap would be given up, and listed anew, for ever.
void a_list_in_the_making_is_not_given_up(void **) {
  Site site;
  site.pages.piece = 100;
  site.gather();
  uint32_t pieces = 1;
  while (!site.policy->list_own(7)) {
    assert_in_range(++pieces, 1, 2 * crowd / 100);
    for (uint32_t page = 0; page < 100; ++page) site.come(page);
  }
}

/// With a quota of one page its heap is empty whenever that has been chosen.
void a_quota_of_a_page_is_no_reason_to_look_at_all(void **) {
  Site site;
  site.gather();
  site.pages.clients[crowd] = site.pages.clients[crowd + 1] = 7;
  site.come(crowd);
  (void)site.choose(1, 7);
  const uint64_t before = site.pages.looks;
  for (uint32_t i = 0; i < 100; ++i) {
    site.come(crowd + i % 2);
    assert_true(site.choose(1, 7) == std::vector<uint32_t>{crowd + i % 2});
  }
  assert_in_range(site.pages.looks - before, 100, 100 * 20);
}

/// A look at one client's pages that finds no memory has changed nothing; a page that comes without memory for the second list is in
/// the first, and found.
void without_memory_no_page_of_a_client_is_forgotten(void **) {
  uint64_t failures = 0;
  for (size_t at = 0;; ++at) {
    Site site;
    for (uint32_t page = 0; page < 40; ++page) {
      site.pages.clients[page] = 7;
      site.come(page);
    }
    site.memory.left = at;
    uint32_t came = 40;
    std::vector<uint32_t> chosen;
    bool failed = false;
    try {
      site.choose_into(&chosen, 2, 7);
      for (const uint32_t page : chosen) site.pages.used.erase(page);
      for (; came < 400; ++came) {
        site.pages.clients[came] = 7;
        site.come(came);
      }
    } catch (const std::bad_alloc &) {
      site.pages.used.erase(came);
      failed = true;
    }
    failures += failed ? 1 : 0;
    site.memory.left = SIZE_MAX;
    assert_int_equal(site.choose(1000, 7).size() + chosen.size(), came);
    if (!failed && at > 64) break;
  }
  assert_true(failures >= 3);
}

/// What is lent counts in its owner's quota, and what has no owner in none.
void a_quota_gets_room_from_what_is_lent_alone(void **) {
  Site site;
  for (uint32_t page = 0; page < crowd; ++page) {
    site.pages.used[page] = ++site.pages.clock;
    site.pages.ownerless.insert(page);
    site.policy->dispose(PageRef{1, page, 1}, false);
  }
  for (uint32_t page = crowd; page < crowd + 3; ++page) {
    site.pages.used[page] = ++site.pages.clock;
    site.pages.clients[page] = 7;
    site.pages.borrowed.insert(page);
    site.policy->dispose(PageRef{1, page, 1}, true);
  }
  while (!site.policy->list_own(7)) {
  }
  const uint64_t before = site.pages.looks;
  site.pages.ownerless.insert(crowd + 1);  // its owner has died, which was not told
  assert_true(site.choose(3, 7) == (std::vector<uint32_t>{crowd, crowd + 2}));
  assert_in_range(site.pages.looks - before, 1, 32);
  assert_int_equal(site.choose(2 * crowd).size(), crowd + 1);
}

/// Pages that many buffers lie on are looked at as a whole only when they are about to go: what goes is what was used longest ago, and
/// not what is leased.
void crowded_pages_are_looked_at_when_they_are_to_go(void **) {
  constexpr uint32_t pages = 200;
  Site site;
  for (uint32_t page = 0; page < pages; ++page) {
    site.come(page);
    site.pages.crowded[page] = site.pages.used[page];
  }
  for (uint32_t page = 0; page < 10; ++page) site.pages.leased.insert(page);
  // Pages 10 to 19 are used all the time, which is not told.
  const auto use_some = [&] {
    for (uint32_t page = 10; page < 20; ++page) site.pages.used[page] = ++site.pages.clock;
  };
  use_some();
  assert_true(site.choose(2) == (std::vector<uint32_t>{20, 21}));
  site.pages.whole_looks = 0;
  for (uint32_t page = 22; page < 100; ++page) {
    use_some();
    assert_true(site.choose(1) == std::vector<uint32_t>{page});
  }
  // The leased ones each time, the used ones now and then, and the one that goes.
  assert_in_range(site.pages.whole_looks, 78, 78 * 14);
  site.pages.leased.clear();
  assert_int_equal(site.choose(10).size(), 10);
  assert_int_equal(site.choose(pages).size(), 110);
}

/// Where none may go the look ends.
void nothing_goes_where_all_crowded_pages_are_leased(void **) {
  Site site;
  for (uint32_t page = 0; page < 300; ++page) {
    site.come(page);
    site.pages.crowded[page] = 0;
    site.pages.leased.insert(page);
  }
  assert_true(site.choose(3).empty());
  site.pages.leased.erase(77);
  assert_true(site.choose(3) == std::vector<uint32_t>{77});
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(what_is_leased_for_long_is_not_looked_at_each_time),
      cmocka_unit_test(what_was_leased_for_long_goes_when_it_may),
      cmocka_unit_test(what_was_put_off_goes_before_nothing_does),
      cmocka_unit_test(other_clients_pages_are_not_looked_at_each_time),
      cmocka_unit_test(a_clients_pages_are_known_in_both_ways),
      cmocka_unit_test(no_page_is_chosen_twice),
      cmocka_unit_test(nothing_is_kept_of_clients_that_are_gone),
      cmocka_unit_test(pages_of_one_client_that_come_and_go_take_no_more_memory),
      cmocka_unit_test(a_client_is_listed_piece_by_piece),
      cmocka_unit_test(a_list_in_the_making_is_not_given_up),
      cmocka_unit_test(a_quota_of_a_page_is_no_reason_to_look_at_all),
      cmocka_unit_test(without_memory_no_page_of_a_client_is_forgotten),
      cmocka_unit_test(a_quota_gets_room_from_what_is_lent_alone),
      cmocka_unit_test(crowded_pages_are_looked_at_when_they_are_to_go),
      cmocka_unit_test(nothing_goes_where_all_crowded_pages_are_leased),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
