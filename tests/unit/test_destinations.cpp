// SPDX-License-Identifier: Apache-2.0
//
// The tables of destinations: every case of both, and what must hold in all.

#include "tests/support/cmocka.hpp"

#include "core/policy/destinations.hpp"

#include <algorithm>
#include <vector>

namespace {

using namespace weir::policy;
using enum Destination;

std::vector<Destination> list(const Destinations &of) { return {of.begin(), of.end()}; }

Leaving leaving(unsigned bits) {
  return {.stays = (bits & 1) != 0,
          .cold = (bits & 2) != 0,
          .any_cold = (bits & 4) != 0,
          .cold_room = (bits & 8) != 0,
          .integrated = (bits & 16) != 0};
}

void pages_go_where_the_table_says(void **) {
  const struct {
    Leaving page;
    std::vector<Destination> next;
  } rows[] = {
      {{}, {peer, host, peer_last}},
      {{.any_cold = true}, {peer, host, cold}},
      {{.any_cold = true, .cold_room = true}, {peer, host, cold}},
      {{.cold = true}, {peer, host, peer_last}},
      {{.cold = true, .any_cold = true}, {peer, cold}},
      {{.integrated = true}, {peer, peer_last, host, peer_last}},
      {{.any_cold = true, .integrated = true}, {peer, peer_last, host, cold}},
      {{.any_cold = true, .cold_room = true, .integrated = true}, {peer, cold}},
      {{.cold = true, .any_cold = true, .integrated = true}, {peer, cold}},
      {{.stays = true}, {host}},
      {{.stays = true, .cold = true, .any_cold = true, .cold_room = true, .integrated = true},
       {host}},
  };
  for (const auto &row : rows) assert_true(list(destinations(row.page)) == row.next);
}

void every_page_has_a_last_place(void **) {
  for (unsigned bits = 0; bits < 32; ++bits) {
    const Leaving page = leaving(bits);
    // Without tiers there is no room in them.
    if (page.cold_room && !page.any_cold) continue;
    const std::vector<Destination> next = list(destinations(page));
    const auto has = [&](Destination of) {
      return std::find(next.begin(), next.end(), of) != next.end();
    };
    assert_false(next.empty());
    assert_int_equal(has(cold), page.any_cold && !page.stays);
    // A copy in a tier below ends the search: it has no answer before the bytes are looked at.
    if (has(cold)) assert_true(next.back() == cold);
    assert_true(has(host) || has(cold));
    if (!page.stays) assert_true(next.front() == peer);
    if (page.stays) assert_true(next == std::vector{host});
    for (const Destination of : {compressed, compressed_must, storage}) assert_false(has(of));
  }
}

void tiers_below_host_have_an_order_too(void **) {
  const struct {
    ColdPlaces there;
    std::vector<Destination> next;
  } rows[] = {
      {{.compressed = true}, {compressed_must}},
      {{.storage = true}, {storage}},
      {{.compressed = true, .storage = true}, {compressed, storage, compressed_must}},
      {{.compressed = true, .storage = true, .storage_is_quicker = true},
       {storage, compressed_must}},
      {{}, {}},
  };
  for (const auto &row : rows) assert_true(list(destinations(row.there)) == row.next);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(pages_go_where_the_table_says),
      cmocka_unit_test(every_page_has_a_last_place),
      cmocka_unit_test(tiers_below_host_have_an_order_too),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
