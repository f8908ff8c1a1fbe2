// SPDX-License-Identifier: Apache-2.0
//
// Where buffers are at home when Weir chooses, and to whom a full device lends its pages out: on machines described in a few
// words, and on recorded ones, as an engineer who knows the machine would have it. Each test asks a real pool; what was
// chosen is what weir_buffer_query says. Skips machines that are not recorded here.

#include "tests/unit/interleaving.hpp"
#include "tests/unit/topology_files.hpp"

#include "core/base/numa.hpp"

#include <sched.h>
#include <unistd.h>

#include <numeric>
#include <set>

namespace {

using namespace weir::test;

constexpr const char *small = "host.memory=16M;host.granule=16K;host.granule_large=0;";
constexpr weir_device cpu = WEIR_DEVICE_HOST;
const uint64_t budget_pages = 40;
const uint64_t size = 8 * page_bytes;

std::vector<weir_device> first(uint32_t count) {
  std::vector<weir_device> all(count);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

/// A pool over some devices of a machine.
struct Site {
  weir_context context = nullptr;
  weir_pool pool = nullptr;

  Site(const std::string &options, const std::vector<weir_device> &devices,
       uint64_t pages = budget_pages) {
    context = make_context((small + options).c_str());
    std::vector<weir_pool_device> entries(devices.size());
    for (size_t i = 0; i < devices.size(); ++i) {
      entries[i].device = devices[i];
      entries[i].budget = pages * page_bytes;
    }
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = static_cast<uint32_t>(entries.size());
    desc.devices = entries.data();
    desc.flags = WEIR_POOL_NO_BACKGROUND;
    desc.host_budget = 2 * pages * devices.size() * page_bytes;
    ok(weir_pool_create(context, &desc, &pool));
  }
  void close() {
    validate();
    ok(weir_pool_destroy(pool));
    ok(weir_context_destroy(context));
  }
  weir::residency::Engine &engine() const {
    return reinterpret_cast<weir::pool::Pool *>(pool)->engine();
  }
  void validate() const { assert_string_equal(engine().validate().c_str(), ""); }

  weir_buffer make(uint64_t bytes, const std::vector<weir_device> &users,
                   weir_device home = WEIR_DEVICE_ANY) const {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = bytes;
    desc.home = home;
    desc.users = users.data();
    desc.user_count = static_cast<uint32_t>(users.size());
    weir_buffer buffer = nullptr;
    ok(weir_buffer_create(pool, &desc, &buffer));
    return buffer;
  }
  weir_device home_of(weir_buffer buffer) const {
    weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
    ok(weir_buffer_query(pool, buffer, 0, WEIR_WHOLE, &info));
    return info.home;
  }
  /// Of a buffer that stays.
  weir_device add(const std::vector<weir_device> &users, uint64_t bytes = size) const {
    return home_of(make(bytes, users));
  }
  /// Of one that is gone again at once: nothing is promised for it.
  weir_device ask(const std::vector<weir_device> &users, uint64_t bytes = size) const {
    weir_buffer buffer = make(bytes, users);
    const weir_device home = home_of(buffer);
    ok(weir_buffer_destroy(pool, buffer));
    return home;
  }
  uint32_t node_of(weir_device device) const {
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    ok(weir_device_info_get(context, device, &info));
    return info.numa_node;
  }
  uint64_t used(weir_device device) const {
    weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
    ok(weir_pool_device_stats_get(pool, device, &stats));
    return stats.bytes - stats.free_bytes;
  }
  uint64_t host_used() const {
    weir_pool_stats stats{};
    stats.struct_size = sizeof stats;
    ok(weir_pool_stats_get(pool, &stats));
    return stats.host_used_bytes;
  }
  /// Writes a buffer on a device and leaves it there.
  void write(weir_buffer buffer, weir_device device) const {
    weir_stream stream = nullptr;
    ok(weir_stream_create(context, device, 0, &stream));
    weir_use use = WEIR_USE(buffer, WEIR_DISCARD_WRITE);
    weir_lease lease = nullptr;
    ok(weir_acquire(pool, stream, &use, 1, nullptr, &lease));
    ok(weir_release(lease, stream));
    ok(weir_stream_synchronize(stream));
    ok(weir_stream_close(stream));
  }
  /// Everything that is on a device leaves it.
  void empty(weir_device device) const {
    ok(weir_pool_trim(pool, device, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  }
};

/// A machine of a file, as the host backend stands it up; skips the test if there is none.
std::string recording(const char *name) {
  const std::string path = recorded(name);
  if (path.empty() || access(path.c_str(), R_OK) != 0) {
    print_message("skipped: no %s in WEIR_SHARED_DIR\n", name);
    skip();
  }
  return "topology.xml=" + path + ";topology.rehearse=1";
}

/// The one of these that is nearest to the test's own thread: the first of its node, or the first.
weir_device nearest(const Site &site, const std::vector<weir_device> &devices) {
  for (const weir_device each : devices)
    if (site.node_of(each) == weir::numa::current_node()) return each;
  return devices.front();
}

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
  const std::string all = "0-1:nvlink:50G,0-2:nvlink:50G,1-2:nvlink:50G,0-3:nvlink:50G,"
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
  refused("users[1] is 1");
  desc.user_count = 70000;
  refused("70000");
  desc.user_count = 1;
  desc.reserved = 3;
  refused("reserved is 3");
  desc.reserved = 0;
  desc.alignment = 64 * page_bytes;
  refused("alignment");
  desc.alignment = 0;
  // An older program's descriptor ends before the users.
  desc.struct_size = offsetof(weir_buffer_desc, users);
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
  descs[1].size = 0;
  homes[0] = 9;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_place(site.pool, all.data(), 4, homes));
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

// ---- to whom pages are lent ----

constexpr const char *all_to_all =
    "host.devices=4;host.links=0-1:nvlink:50G,0-2:nvlink:50G,0-3:nvlink:50G,1-2:nvlink:50G,"
    "1-3:nvlink:50G,2-3:nvlink:50G,h-0:pcie:16G,h-1:pcie:16G,h-2:pcie:16G,h-3:pcie:16G";

/// Links alike: whoever has the most idle memory takes the next page.
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
  // The page of 1 is no worse off than that of 0: where it goes nobody else's has gone.
  const weir_device free_one = taken == 2 ? 3U : 2U;
  assert_true(site.used(free_one) == page_bytes || site.used(0) == page_bytes);
  assert_int_equal(site.used(taken), page_bytes);
  site.close();
}

/// A better link counts more than idle memory.
void the_faster_link_first(void **) {
  Site site("host.devices=3;host.links=0-1:nvlink:50G,0-2:nvlink:100G,1-2:nvlink:50G,h-0:pcie:16G,"
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
  Site site("host.devices=3;host.links=0-1:nvlink:50000M,0-2:nvlink:50400M,1-2:nvlink:50G,"
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
  Site site("host.devices=4;host.links=0-1:infinity_fabric:200G,2-3:infinity_fabric:200G,"
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

// ---- recorded machines ----

/// Sixteen V100 that reach each other alike through switches; eight at each NUMA node.
void dgx2(void **) {
  const std::string machine = recording("hwloc-2.14.0-nvidiaDGX2.xml");
  Site site(machine, first(16));
  for (const weir_device user : {0U, 5U, 8U, 15U}) assert_int_equal(site.ask({user}), user);
  assert_int_equal(site.ask({3, 9}), nearest(site, {3, 9}));
  assert_int_equal(site.ask({9, 3}), nearest(site, {3, 9}));
  assert_int_equal(site.ask({3, 9, 9}), 9);
  // Two of one node: the less loaded of them, turn by turn.
  assert_int_equal(site.add({9, 12}), 9);
  assert_int_equal(site.add({9, 12}), 12);
  // One in every place before a second one anywhere; those without a load first.
  std::set<weir_device> homes;
  for (uint32_t i = 0; i < 14; ++i) homes.insert(site.add({}));
  assert_int_equal(homes.size(), 14);
  assert_true(homes.count(9) == 0 && homes.count(12) == 0);
  site.close();
  // Full: its pages would go there and back over NVLink, those of another home come once.
  Site full(machine, first(16));
  for (uint32_t i = 0; i < 5; ++i) assert_int_equal(full.add({6}), 6);
  const weir_device next = full.ask({6});
  assert_true(next != 6);
  assert_int_equal(next, nearest(full, {0, 8}));
  // Spilled pages go to all of the others, none to the host.
  weir_buffer spilled = full.make(30 * page_bytes, {}, 2);
  full.write(spilled, 2);
  full.empty(2);
  assert_int_equal(full.host_used(), 0);
  for (const weir_device each : first(16))
    if (each != 2) assert_int_equal(full.used(each), 2 * page_bytes);
  full.close();
}

/// Four H100 joined by NVLink, at four NUMA nodes of eight.
void four_h100(void **) {
  Site site(recording("fluxcore-ipa20.xml"), first(4));
  for (const weir_device user : first(4)) assert_int_equal(site.ask({user}), user);
  assert_int_equal(site.add({1, 2}), nearest(site, {1, 2}));
  assert_int_equal(site.ask({0, 1, 2, 3, 3}), 3);
  assert_int_equal(site.ask({cpu, 2}), 2);
  weir_buffer spilled = site.make(30 * page_bytes, {}, 0);
  site.write(spilled, 0);
  site.empty(0);
  assert_int_equal(site.host_used(), 0);
  for (const weir_device each : {1U, 2U, 3U}) assert_int_equal(site.used(each), 10 * page_bytes);
  site.close();
}

/// Four MI250X of two dies each: eight devices, one figure for all links, which is what its hwloc tells.
void eight_mi250x_dies(void **) {
  Site site(recording("mpibind-eas-tioga.xml"), first(8));
  for (const weir_device user : first(8)) assert_int_equal(site.ask({user}), user);
  // Everybody's: near the thread, and the less loaded die of the module.
  const weir_device near = nearest(site, first(8));
  assert_int_equal(site.add(first(8)), near);
  const weir_device again = site.add(first(8));
  assert_true(again != near);
  assert_int_equal(site.node_of(again), site.node_of(near));
  site.close();
}

/// Two dies of a module 50 GB/s apart, others 25, and a host that is nearer than either: generated figures.
void modules_of_two(void **) {
  Site site(recording("gen-rsmi.xml"), first(8));
  assert_int_equal(site.ask({2, 3, 6}), 2);  // 1/50 + 1/25 against 2/25
  assert_int_equal(site.ask({0, 4, 5}), 4);
  for (uint32_t i = 0; i < 5; ++i) assert_int_equal(site.add({0}), 0);
  assert_int_equal(site.ask({0}), 1);
  weir_buffer spilled = site.make(30 * page_bytes, {}, 2);
  site.write(spilled, 2);
  site.empty(2);
  assert_int_equal(site.host_used(), 30 * page_bytes);  // over 63 GB/s, says the file
  site.close();
}

/// Eight T4 without links of their own: pairs share a host bridge, all else passes the host.
void pcie_only(void **) {
  Site site(recording("mpibind-g4dnmetal.xml"), first(8));
  for (const weir_device user : first(8)) assert_int_equal(site.ask({user}), user);
  assert_int_equal(site.ask({0, 1, 6}), 0);  // the pair: once over its bridge, once over the host
  assert_int_equal(site.ask({0, 6, 7}), 6);
  assert_int_equal(site.ask({3, 3, 5}), 3);
  // A neighbour's link is no better than the host's: nothing is lent. A home with the other of the pair costs half as much.
  for (uint32_t i = 0; i < 5; ++i) assert_int_equal(site.add({4}), 4);
  assert_int_equal(site.ask({4}), 5);
  weir_buffer spilled = site.make(30 * page_bytes, {}, 2);
  site.write(spilled, 2);
  site.empty(2);
  assert_int_equal(site.host_used(), 30 * page_bytes);
  site.close();
}

/// POWER8: two P100 at each CPU, joined to it and to each other alike.
void power8(void **) {
  Site site(recording("hwloc-2.9.0-power8gpudistances.xml"), first(4));
  assert_int_equal(site.ask({2, 3}), nearest(site, {2, 3}));
  assert_int_equal(site.ask({0, 2, 3}), 2);
  weir_buffer spilled = site.make(30 * page_bytes, {}, 1);
  site.write(spilled, 1);
  site.empty(1);
  assert_int_equal(site.host_used(), 30 * page_bytes);  // no better than its own CPU's memory
  site.close();
}

}  // namespace

int main() {
  // So that the thread's NUMA node stays what it is.
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(std::max(sched_getcpu(), 0)), &one);
  (void)sched_setaffinity(0, sizeof one, &one);
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
      cmocka_unit_test(dgx2),
      cmocka_unit_test(four_h100),
      cmocka_unit_test(eight_mi250x_dies),
      cmocka_unit_test(modules_of_two),
      cmocka_unit_test(pcie_only),
      cmocka_unit_test(power8),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
