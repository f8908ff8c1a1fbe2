// SPDX-License-Identifier: Apache-2.0
//
// Where buffers are at home when Weir chooses, and to which devices a full one lends its pages out: on machines described in a few
// words, as an engineer who knows the machine would have it.

#include "tests/unit/placement_site.hpp"

#include <array>
#include <cstring>

namespace {

using namespace weir::test;

// ---- in a few words ----

/// Four devices in a ring of fast links; across it is over the host.
constexpr const char *ring =
    "host.devices=4;host.links=0-1:nvlink:50G,1-2:nvlink:50G,2-3:nvlink:50G,0-3:nvlink:50G,"
    "0-2:pcie:16G:3:0:staged,1-3:pcie:16G:3:0:staged,h-0:pcie:16G,h-1:pcie:16G,h-2:pcie:16G,"
    "h-3:pcie:16G";

void where_its_only_user_is(void **) {
  Site site(ring, first(4));
  for (const weir_device user : {2U, 0U, 3U, 1U}) assert_int_equal(site.add({user}), user);
  site.close();
}

void between_its_users(void **) {
  Site site(ring, first(4));
  // 1 reaches both of the others over its own links; from 0 to 2 bytes pass the host.
  assert_int_equal(site.ask({0, 1, 2}), 1);
  assert_int_equal(site.ask({1, 2, 3}), 2);
  // Of two that do not reach each other, one in between is the better home than either: 2/50 < 2/16.
  assert_int_equal(site.ask({0, 2}), 1);
  site.close();
}

void who_uses_it_more_often_counts_more(void **) {
  Site site(ring, first(4));
  assert_int_equal(site.ask({0, 1, 1}), 1);
  assert_int_equal(site.ask({3, 0, 0, 3, 3}), 3);
  assert_int_equal(site.ask({0, 0, 0, 0, 0, 0, 0, 2}), 0);
  site.close();
}

/// The CPU is a user like another, with the link it has to each device.
void the_cpu_as_a_user(void **) {
  Site site("host.devices=2;host.links=0-1:nvlink:50G,h-0:pcie:8G,h-1:pcie:32G", first(2));
  assert_int_equal(site.ask({cpu}), 1);
  assert_int_equal(site.ask({cpu, 0}), 1);  // 1/32 + 1/50 < 1/8
  assert_int_equal(site.ask({cpu, 0, 0, 0, 0, 0, 0}), 0);
  site.close();
}

/// A home that is full costs two ways to where its pages go; a good neighbour's room costs one.
void a_full_home(void **) {
  Site site(ring, first(4));
  for (uint32_t i = 0; i < 5; ++i) assert_int_equal(site.add({0}), 0);
  assert_int_equal(site.ask({0}), 1);
  site.close();
}

/// If only a little of it has no room it stays where it is used.
void a_home_that_is_almost_roomy_enough(void **) {
  Site site(ring, first(4));
  for (uint32_t i = 0; i < 4; ++i) assert_int_equal(site.add({0}), 0);
  assert_int_equal(site.add({0}, 5 * page_bytes), 0);
  assert_int_equal(site.ask({0}, 4 * page_bytes), 0);  // 2/50 for one page in four
  assert_int_equal(site.ask({0}, 8 * page_bytes), 1);  // 10/50 for five of eight, against 8/50
  site.close();
}

/// What a dead buffer was promised is free again.
void the_dead_count_no_more(void **) {
  Site site(ring, first(4));
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 5; ++i) buffers.push_back(site.make(size, {0}));
  assert_int_equal(site.ask({0}), 1);
  ok(weir_buffer_destroy(site.pool, buffers.back()));
  assert_int_equal(site.ask({0}), 0);
  site.close();
}

/// Without users they spread, each device as full as the others for its budget.
void without_users_they_spread(void **) {
  Site site(ring, first(4));
  std::multiset<weir_device> homes;
  for (uint32_t i = 0; i < 8; ++i) homes.insert(site.add({}));
  for (const weir_device each : first(4)) assert_int_equal(homes.count(each), 2);
  // Of a size that fits where the least is promised only.
  for (const weir_device each : {0U, 1U, 3U}) (void)site.make(16 * page_bytes, {}, each);
  assert_int_equal(site.ask({}, 20 * page_bytes), 2);
  site.close();
}

/// Buffers below a page, and malloc'd memory, are promised too.
void small_ones_and_mallocs_count(void **) {
  Site site(ring, first(4));
  uint64_t address = 0;
  ok(weir_malloc(site.pool, 0, nullptr, 4 * page_bytes, &address));
  (void)site.make(page_bytes / 2, {}, 1);
  assert_int_equal(site.ask({}), 2);
  site.validate();
  (void)site.make(page_bytes, {}, 2);
  assert_int_equal(site.ask({}), 3);
  (void)site.make(page_bytes, {}, 3);
  assert_int_equal(site.add({}, page_bytes / 4), 1);
  ok(weir_free(site.pool, nullptr, address));
  assert_int_equal(site.ask({}), 0);
  site.close();
}

void no_lost_device(void **) {
  Site site(ring, first(4));
  site.engine().lose_device(1);
  assert_int_equal(site.ask({1}), 0);
  assert_true(site.ask({0, 1, 2}) != 1);
  for (uint32_t i = 0; i < 8; ++i) assert_true(site.add({}) != 1);
  for (const uint8_t place : std::array<uint8_t, 3>{0, 2, 3}) site.engine().lose_device(place);
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = size;
  desc.home = WEIR_DEVICE_ANY;
  weir_buffer buffer = nullptr;
  expect_result(WEIR_ERROR_DEVICE_LOST, weir_buffer_create(site.pool, &desc, &buffer));
  site.close();
}

/// The nearest to the thread that makes it, where nothing else tells them apart.
void near_the_thread(void **) {
  const uint32_t here = weir::numa::current_node();
  if (here == weir::numa::unknown) {
    print_message("skipped: the kernel does not tell this thread's NUMA node\n");
    skip();
  }
  const std::string far = std::to_string(here + 1), near = std::to_string(here);
  const std::string all =
      "0-1:nvlink:50G,0-2:nvlink:50G,1-2:nvlink:50G,0-3:nvlink:50G,"
      "1-3:nvlink:50G,2-3:nvlink:50G";
  Site site("host.devices=4;host.numa=" + far + ",-," + near + "," + near + ";host.links=" + all,
            first(4));
  assert_int_equal(site.ask({0, 1, 2}), 2);
  assert_int_equal(site.add({}), 2);
  assert_int_equal(site.add({}), 3);
  assert_int_equal(site.add({0, 1, 2, 3}), 2);
  assert_int_equal(site.add({0, 1, 2, 3}), 3);
  assert_int_equal(site.ask({0, 1}), 0);  // the nearer ones do not use it
  site.close();
}

void bad_ones_are_refused(void **) {
  Site site(ring, {0, 2});
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = size;
  desc.home = WEIR_DEVICE_ANY;
  desc.user_count = 1;
  weir_buffer buffer = nullptr;
  const auto refused = [&](const char *what) {
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_create(site.pool, &desc, &buffer));
    if (std::string(weir_last_error()).find(what) == std::string::npos)
      fail_msg("no %s in: %s", what, weir_last_error());
  };
  refused("users is NULL");
  const weir_device users[] = {0, 1};
  desc.users = users;
  desc.user_count = 2;
  refused("users[1]: device 1 ");
  desc.user_count = 70000;
  refused("70000");
  desc.user_count = 1;
  desc.reserved = 3;
  refused("reserved is 3");
  desc.reserved = 0;
  desc.alignment = 64 * page_bytes;
  refused("alignment");
  desc.alignment = 0;
  desc.user_count = 0;
  desc.users = nullptr;
  ok(weir_buffer_create(site.pool, &desc, &buffer));
  uint64_t address = 0;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_malloc(site.pool, WEIR_DEVICE_ANY, nullptr, size, &address));
  assert_non_null(std::strstr(weir_last_error(), "WEIR_DEVICE_ANY"));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_hold(site.pool, buffer, WEIR_DEVICE_ANY, &address));
  assert_non_null(std::strstr(weir_last_error(), "WEIR_DEVICE_ANY"));
  site.close();
}

/// Made one by one the small ones take the room that the large one needs; together it has it.
void together(void **) {
  Site site(ring, first(4));
  const weir_device user = 0;
  std::vector<weir_buffer_desc> descs(4, weir_buffer_desc WEIR_BUFFER_DESC_INIT);
  std::vector<const weir_buffer_desc *> all;
  const weir_device often[] = {0, 0, 0, 0};
  for (weir_buffer_desc &desc : descs) {
    desc.size = 12 * page_bytes;
    desc.home = WEIR_DEVICE_ANY;
    desc.users = &user;
    desc.user_count = 1;
    all.push_back(&desc);
  }
  descs[3].size = 36 * page_bytes;
  descs[3].users = often;
  descs[3].user_count = 4;
  weir_device homes[4] = {9, 9, 9, 9};
  ok(weir_buffer_place(site.pool, all.data(), 4, homes));
  assert_int_equal(homes[3], 0);
  for (uint32_t i = 0; i < 3; ++i) assert_true(homes[i] == 1 || homes[i] == 3);
  // One that has a home keeps it, and its room counts.
  descs[3].home = 2;
  ok(weir_buffer_place(site.pool, all.data(), 4, homes));
  for (uint32_t i = 0; i < 4; ++i) assert_int_equal(homes[i], i < 3 ? 0 : 2);
  // Nothing has come of it.
  for (uint32_t i = 0; i < 3; ++i) assert_int_equal(site.add({0}, 12 * page_bytes), 0);
  // What no buffer can be made with has no home.
  homes[0] = 9;
  const weir_buffer_desc good = descs[1];
  for (void (*spoil)(weir_buffer_desc &) :
       {+[](weir_buffer_desc &desc) { desc.size = 0; },
        +[](weir_buffer_desc &desc) { desc.flags = UINT64_C(1) << 40U; },
        +[](weir_buffer_desc &desc) { desc.priority = 3; },
        +[](weir_buffer_desc &desc) { desc.alignment = 3; },
        +[](weir_buffer_desc &desc) { desc.element = WEIR_ELEMENT_F64 + 1; }}) {
    descs[1] = good;
    spoil(descs[1]);
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_place(site.pool, all.data(), 4, homes));
  }
  assert_int_equal(homes[0], 9);
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_place(site.pool, all.data(), 0, homes));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_place(site.pool, all.data(), 1, nullptr));
  all[2] = nullptr;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_place(site.pool, all.data(), 4, homes));
  assert_non_null(std::strstr(weir_last_error(), "descs[2]"));
  site.close();
}

/// It is chosen, not decided: anybody may use it, and its bytes are right.
void others_may_use_it(void **) {
  World world({.options = std::string(small) + "host.devices=2", .devices = 2});
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  const weir_device users[] = {1};
  desc.size = two_pages;
  desc.home = WEIR_DEVICE_ANY;
  desc.users = users;
  desc.user_count = 1;
  weir_buffer buffer = nullptr;
  ok(weir_buffer_create(world.pool, &desc, &buffer));
  assert_int_equal(query(world, buffer).home, 1);
  world.fill(buffer, two_pages, 3, 0);
  world.check(buffer, two_pages, 3, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

// ---- to which device pages are lent ----

constexpr const char *all_to_all =
    "host.devices=4;host.links=0-1:nvlink:50G,0-2:nvlink:50G,0-3:nvlink:50G,1-2:nvlink:50G,"
    "1-3:nvlink:50G,2-3:nvlink:50G,h-0:pcie:16G,h-1:pcie:16G,h-2:pcie:16G,h-3:pcie:16G";

/// Links alike: the device with the most idle memory takes the next page.
void the_idlest_neighbour_lends(void **) {
  Site site(all_to_all, first(4));
  weir_buffer own = site.make(16 * page_bytes, {}, 1);
  site.write(own, 1);
  weir_buffer other = site.make(8 * page_bytes, {}, 2);
  site.write(other, 2);
  weir_buffer spilled = site.make(32 * page_bytes, {}, 0);
  site.write(spilled, 0);
  site.empty(0);
  assert_int_equal(site.used(0), 0);
  assert_int_equal(site.host_used(), 0);
  // 40, 32 and 24 pages idle: levelled at some 21, as 32 = 19 + 11 + 3 or so.
  for (const weir_device each : {1U, 2U, 3U}) {
    assert_true(site.used(each) >= 18 * page_bytes);
    assert_true(site.used(each) <= 20 * page_bytes);
  }
  site.close();
}

/// Several borrowers with the same choice do not all begin with the same neighbour.
void borrowers_spread(void **) {
  Site site(all_to_all, first(4));
  for (const weir_device each : {0U, 1U}) {
    weir_buffer page = site.make(page_bytes, {}, each);
    site.write(page, each);
    // What is written fills a page of two devices; 2 and 3 are as idle as each other.
  }
  site.empty(0);
  const weir_device taken = site.used(2) != 0 ? 2U : 3U;
  assert_int_equal(site.used(2) + site.used(3), page_bytes);
  site.empty(1);
  // The page of 1 is no worse off than that of 0: it goes where no other has gone.
  const weir_device free_one = taken == 2 ? 3U : 2U;
  assert_true(site.used(free_one) == page_bytes || site.used(0) == page_bytes);
  assert_int_equal(site.used(taken), page_bytes);
  site.close();
}

/// A better link counts more than idle memory.
void the_faster_link_first(void **) {
  Site site(
      "host.devices=3;host.links=0-1:nvlink:50G,0-2:nvlink:100G,1-2:nvlink:50G,h-0:pcie:16G,"
      "h-1:pcie:16G,h-2:pcie:16G",
      first(3));
  weir_buffer own = site.make(20 * page_bytes, {}, 2);
  site.write(own, 2);
  weir_buffer spilled = site.make(24 * page_bytes, {}, 0);
  site.write(spilled, 0);
  site.empty(0);
  assert_true(site.used(2) >= 38 * page_bytes);
  assert_true(site.used(1) <= 6 * page_bytes && site.used(1) != 0);
  site.close();
}

/// A fiftieth between two links is a measurement's, not the machine's.
void links_that_are_alike(void **) {
  Site site(
      "host.devices=3;host.links=0-1:nvlink:50000M,0-2:nvlink:50400M,1-2:nvlink:50G,"
      "h-0:pcie:16G,h-1:pcie:16G,h-2:pcie:16G",
      first(3));
  weir_buffer spilled = site.make(24 * page_bytes, {}, 0);
  site.write(spilled, 0);
  site.empty(0);
  assert_int_equal(site.used(1), 12 * page_bytes);
  assert_int_equal(site.used(2), 12 * page_bytes);
  // Nor is it a reason for a home: the less loaded one wins.
  assert_int_equal(site.ask({0, 0, 1, 2}), 0);
  assert_int_equal(site.add({1, 2, 0}), 1);
  assert_int_equal(site.add({1, 2, 0}), 2);
  site.close();
}

/// A node of MI250X as it is built: 200 GB/s within a module, one or two links of 50 between modules, 36 to the CPU.
void a_module_lends_first(void **) {
  Site site(
      "host.devices=4;host.links=0-1:infinity_fabric:200G,2-3:infinity_fabric:200G,"
      "0-2:infinity_fabric:100G,1-3:infinity_fabric:50G,0-3:infinity_fabric:50G,"
      "1-2:infinity_fabric:50G,h-0:infinity_fabric:36G,h-1:infinity_fabric:36G,"
      "h-2:infinity_fabric:36G,h-3:infinity_fabric:36G",
      first(4));
  assert_int_equal(site.ask({0, 1, 2}), 0);  // 1/200 + 1/100
  assert_int_equal(site.ask({1, 3}), nearest(site, {1, 3}));
  assert_int_equal(site.ask({0, 2, 3}), 2);
  weir_buffer spilled = site.make(40 * page_bytes, {}, 0);
  site.write(spilled, 0);
  weir_buffer own = site.make(20 * page_bytes, {}, 1);
  site.write(own, 1);
  site.empty(0);
  assert_int_equal(site.host_used(), 0);
  assert_true(site.used(1) >= 38 * page_bytes);
  assert_true(site.used(2) >= 20 * page_bytes);
  assert_int_equal(site.used(3), 0);
  site.close();
}

}  // namespace

int main() {
  stay_on_one_processor();
  const CMUnitTest tests[] = {
      cmocka_unit_test(where_its_only_user_is),
      cmocka_unit_test(between_its_users),
      cmocka_unit_test(who_uses_it_more_often_counts_more),
      cmocka_unit_test(the_cpu_as_a_user),
      cmocka_unit_test(a_full_home),
      cmocka_unit_test(a_home_that_is_almost_roomy_enough),
      cmocka_unit_test(the_dead_count_no_more),
      cmocka_unit_test(without_users_they_spread),
      cmocka_unit_test(small_ones_and_mallocs_count),
      cmocka_unit_test(no_lost_device),
      cmocka_unit_test(near_the_thread),
      cmocka_unit_test(bad_ones_are_refused),
      cmocka_unit_test(together),
      cmocka_unit_test(others_may_use_it),
      cmocka_unit_test(the_idlest_neighbour_lends),
      cmocka_unit_test(borrowers_spread),
      cmocka_unit_test(the_faster_link_first),
      cmocka_unit_test(links_that_are_alike),
      cmocka_unit_test(a_module_lends_first),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
