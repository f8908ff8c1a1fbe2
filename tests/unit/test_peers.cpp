// SPDX-License-Identifier: Apache-2.0
//
// A neighbour's idle memory as the first place that pages go to: where its link is better than the host's and while it has
// memory above its reserve; what it lent it gets back when it needs it, before anything else of its own goes. Every
// byte stays right, budgets and quotas hold, and a pool that is told not to, or a link that does not pay, changes nothing.

#include "tests/unit/neighbours.hpp"

namespace {

using namespace weir::test;

const uint64_t size = 8 * page_bytes;

Setup two(const char *options = fast_peer, uint64_t flags = WEIR_POOL_NO_BACKGROUND) {
  return neighbours(40, 2, options, flags);
}

/// Buffers at home on one device, each with a pattern of its own.
struct Herd {
  World &world;
  std::vector<weir_buffer> buffers;
  uint32_t device, seed;

  Herd(World &world_, uint32_t count, uint32_t device_ = 0, uint32_t seed_ = 1,
       weir_client client = nullptr)
      : world(world_), device(device_), seed(seed_) {
    for (uint32_t i = 0; i < count; ++i) {
      buffers.push_back(world.buffer(size, device, client));
      world.fill(buffers[i], size, seed + i, device);
    }
  }
  void check() {
    for (uint32_t i = 0; i < buffers.size(); ++i) world.check(buffers[i], size, seed + i, device);
    validate(world);
  }
  void check_read() {
    for (uint32_t i = 0; i < buffers.size(); ++i) world.check_read(buffers[i], size, seed + i);
  }
  void destroy() {
    for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
    buffers.clear();
  }
};

weir_buffer_info info_of(World &world, weir_buffer buffer) {
  weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
  ok(weir_buffer_info_get(world.pool, buffer, 0, WEIR_WHOLE, &info));
  return info;
}

// ---- to the neighbour and back ----

void pages_go_to_the_neighbour_first(void **) {
  World world(two());
  Herd herd(world, 8);  // 64 pages for 40
  const weir_pool_stats full = world.stats();
  assert_int_equal(full.lent_bytes, full.demoted_bytes);
  assert_true(full.lent_bytes >= 24 * page_bytes);
  assert_int_equal(full.borrowed_bytes, full.lent_bytes);
  assert_int_equal(full.host_used_bytes, 0);
  uint64_t peers = 0;
  for (weir_buffer buffer : herd.buffers) peers += info_of(world, buffer).peer_bytes;
  assert_int_equal(peers, full.borrowed_bytes);
  herd.check_read();
  herd.check();
  const weir_pool_stats used = world.stats();
  assert_true(used.peer_bytes >= 24 * page_bytes);
  assert_int_equal(used.promoted_bytes, 0);
  assert_int_equal(used.host_used_bytes, 0);
  herd.destroy();
  for (uint32_t device = 0; device < 2; ++device)
    ok(weir_pool_trim(world.pool, device, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  assert_int_equal(world.stats().borrowed_bytes, 0);
  close_clean(world);
}

/// Pages without tenants are idle memory too: what the neighbour keeps for its next small buffers is lent before anything goes to HOST.
void pages_go_to_where_small_memory_was(void **) {
  World world(two());
  std::vector<uint64_t> blocks(2 * 40 - 2);
  for (uint64_t &block : blocks) ok(weir_malloc(world.pool, 1, nullptr, page_bytes / 2, &block));
  weir_pool_device_stats there = WEIR_POOL_DEVICE_STATS_INIT;
  for (const uint64_t block : blocks) ok(weir_free(world.pool, nullptr, block));
  ok(weir_pool_device_stats_get(world.pool, 1, &there));
  assert_true(there.bytes >= 39 * page_bytes);  // kept
  Herd herd(world, 8);
  const weir_pool_stats full = world.stats();
  assert_true(full.lent_bytes >= 24 * page_bytes);
  assert_int_equal(full.host_used_bytes, 0);
  herd.check();
  herd.destroy();
  for (uint32_t device = 0; device < 2; ++device)
    ok(weir_pool_trim(world.pool, device, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// What was brought back and not written is not copied out again.
void clean_pages_are_dropped(void **) {
  World world(two());
  Herd herd(world, 8);
  herd.check();
  const weir_pool_stats before = world.stats();
  ok(trim_all(world));
  const weir_pool_stats after = world.stats();
  assert_true(after.dropped_clean_bytes > before.dropped_clean_bytes);
  herd.check();
  herd.destroy();
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// The neighbour's copy is an older version then, and its place is used again.
void rewritten_pages_use_the_old_place(void **) {
  World world(two());
  Herd herd(world, 4);
  for (uint32_t turn = 0; turn < 4; ++turn) {
    ok(trim_all(world));
    const weir_pool_stats stats = world.stats();
    assert_int_equal(stats.borrowed_bytes, 4 * size);
    assert_int_equal(stats.host_used_bytes, 0);
    herd.check_read();
    herd.seed = 10 * (turn + 2);
    for (uint32_t i = 0; i < 4; ++i) world.fill(herd.buffers[i], size, herd.seed + i);
    validate(world);
  }
  herd.check();
  herd.destroy();
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

// ---- the owner ----

void the_owner_gets_it_back(void **) {
  World world(two());
  Herd spilled(world, 4);
  ok(trim_all(world));
  assert_int_equal(world.stats().borrowed_bytes, 4 * size);
  // All that the neighbour has: what was lent goes on to HOST, nothing of its own does.
  Herd own(world, 5, 1, 50);
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.borrowed_bytes, 0);
  assert_int_equal(stats.host_used_bytes, 4 * size);
  assert_int_equal(info_of(world, own.buffers[0]).device_bytes, size);
  own.check();
  spilled.check_read();
  spilled.check();
  own.check();
  own.destroy();
  spilled.destroy();
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// Borrowed pages go first, also where the owner's are older.
void borrowed_pages_go_first(void **) {
  World world(two());
  Herd own(world, 4, 1, 50);
  Herd spilled(world, 4);
  ok(trim_all(world));
  const uint64_t lent = world.stats().borrowed_bytes;
  assert_true(lent >= page_bytes && lent <= size);
  Herd more(world, 1, 1, 90);
  for (weir_buffer buffer : own.buffers)
    assert_int_equal(info_of(world, buffer).device_bytes, size);
  assert_int_equal(world.stats().borrowed_bytes, 0);
  spilled.check_read();
  own.check();
  more.check();
  own.destroy();
  more.destroy();
  spilled.destroy();
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// The reserve that keeps an owner from waiting is not lent.
void the_reserve_stays(void **) {
  World world(two());
  Herd spilled(world, 12);
  ok(trim_all(world));
  weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
  ok(weir_pool_device_stats_get(world.pool, 1, &stats));
  const uint64_t room = stats.budget - stats.bytes + stats.free_bytes;
  assert_true(room >= stats.budget * 30 / 1000);
  assert_true(world.stats().host_used_bytes != 0);
  spilled.check();
  spilled.destroy();
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// A lease or a hold on the borrower keeps nothing of the lender's: a copy that lies elsewhere too is given up.
void leases_elsewhere_keep_nothing(void **) {
  for (const bool held : {false, true}) {
    World world(two());
    Herd spilled(world, 4);
    ok(trim_all(world));
    weir_lease leases[4] = {};
    uint64_t address = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      if (held) ok(weir_hold(world.pool, spilled.buffers[i], 0, &address));
      if (!held) ok(world.acquire(spilled.buffers[i], WEIR_READ, &leases[i]));
    }
    validate(world);
    weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
    ok(weir_pool_device_stats_get(world.pool, 1, &stats));
    assert_int_equal(stats.held_bytes, 0);
    Herd own(world, 5, 1, 50);
    assert_int_equal(world.stats().borrowed_bytes, 0);
    own.check();
    for (uint32_t i = 0; i < 4; ++i) {
      if (held) ok(weir_unhold(world.pool, spilled.buffers[i]));
      if (!held) ok(weir_release(leases[i], world.streams[0]));
    }
    validate(world);
    spilled.check();
    own.destroy();
    spilled.destroy();
    ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    close_clean(world);
  }
}

/// Back and forth without end: what the policies keep of it stays in proportion to the pages there are.
void back_and_forth_leaves_no_trace(void **) {
  World world(two());
  Herd herd(world, 4);
  uint64_t before = 0;
  for (uint32_t turn = 0; turn < 3000; ++turn) {
    if (turn == 1500) before = world.stats().bookkeeping_bytes;
    weir_lease lease = nullptr;
    ok(world.acquire(herd.buffers[0], WEIR_READ_WRITE, &lease, nullptr, turn % 3 == 2 ? 1 : 0));
    ok(weir_release(lease, world.streams[turn % 3 == 2 ? 1 : 0]));
    ok(trim_all(world));
  }
  assert_true(world.stats().bookkeeping_bytes <= before + 4096);
  herd.check();
  herd.destroy();
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// What HOST would have no room for goes there, as long as it can: it could not be given back. Then it is lent rather than
/// nothing done.
void only_what_can_be_given_back(void **) {
  Setup setup = two();
  setup.host_pages = 12;
  World world(setup);
  Herd herd(world, 6);  // 8 pages too many
  uint64_t freed = 0;
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_SELECTIVE, 4 * page_bytes, &freed));
  assert_int_equal(world.stats().borrowed_bytes, 12 * page_bytes);
  assert_int_equal(world.stats().host_used_bytes, 0);
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_SELECTIVE, 4 * page_bytes, &freed));
  assert_int_equal(world.stats().borrowed_bytes, 12 * page_bytes);
  assert_int_equal(world.stats().host_used_bytes, 4 * page_bytes);
  herd.check();
  ok(trim_all(world));
  assert_true(world.stats().borrowed_bytes + world.stats().host_used_bytes >= 6 * size);
  herd.check();
  herd.destroy();
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// The neighbour is lost while a page is on its way there: it stays where it is, whole.
void the_neighbour_is_lost_on_the_way(void **) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world(two());
    weir_buffer buffer = world.buffer(size);
    world.fill(buffer, size, 1);
    {
      Gate gate(world.pool, point);
      Task trimmer([&world] { return trim_all(world); });
      gate.await();
      auto &engine = reinterpret_cast<weir::pool::Pool *>(world.pool)->engine();
      engine.lose_device(1);
      gate.open();
      (void)trimmer.join();
    }
    validate(world);
    const weir_buffer_info info = info_of(world, buffer);
    // Whatever had left by then was lost with the neighbour, and is said to be; nothing else is.
    assert_int_equal(info.peer_bytes, 0);
    if (std::string(point) == "evict.claimed") assert_int_equal(info.lost_bytes, 0);
    if (info.lost_bytes == 0) world.check(buffer, size, 1);
    ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
}

/// What the neighbour uses itself is there for its own sake from then on.
void used_by_the_neighbour(void **) {
  World world(two());
  Herd herd(world, 2);
  ok(trim_all(world));
  assert_int_equal(world.stats().borrowed_bytes, 2 * size);
  world.check(herd.buffers[0], size, 1, 1);
  assert_int_equal(world.stats().borrowed_bytes, size);
  validate(world);
  world.fill(herd.buffers[0], size, 7, 1);
  world.check(herd.buffers[0], size, 7, 0);
  herd.seed = 1;
  world.check(herd.buffers[1], size, 2, 0);
  herd.destroy();
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

// ---- where it does not pay, or is not wanted ----

void nobody_borrows(const Setup &setup) {
  World world(setup);
  Herd herd(world, 8);
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.lent_bytes, 0);
  assert_int_equal(stats.borrowed_bytes, 0);
  assert_true(stats.host_used_bytes != 0);
  herd.check();
  herd.destroy();
  close_clean(world);
}
std::string with_links(const char *links) {
  const std::string all = fast_peer;
  return all.substr(0, all.find("host.links=")) + links;
}
void not_if_the_pool_says_so(void **) {
  nobody_borrows(two(fast_peer, WEIR_POOL_NO_BACKGROUND | WEIR_POOL_NO_PEER));
}
void not_over_a_link_like_the_hosts(void **) {
  nobody_borrows(two(with_links("host.links=0-1:pcie:16G,h-0:pcie:16G,h-1:pcie:16G").c_str()));
}
void not_where_nothing_is_known(void **) { nobody_borrows(two(with_links("").c_str())); }
void not_through_the_host(void **) {
  const char *staged = "host.links=0-1:nvlink:150G:1:0:staged,h-0:pcie:16G,h-1:pcie:16G";
  nobody_borrows(two(with_links(staged).c_str()));
}
/// The kind is enough where no bandwidth is told.
void by_kind_alone(void **) {
  World world(two(with_links("host.links=0-1:infinity_fabric:0,h-0:pcie:0,h-1:pcie:0").c_str()));
  Herd herd(world, 8);
  assert_true(world.stats().lent_bytes != 0);
  herd.check();
  herd.destroy();
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// A client's quota is one for each device; what it has with a neighbour counts there.
void within_a_clients_quota(void **) {
  World world(two());
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.device_quota = 12 * page_bytes;
  weir_client client = nullptr;
  ok(weir_client_create(world.pool, &desc, &client));
  Herd herd(world, 4, 0, 1, client);  // 32 pages: 12 here, 12 there, 8 in HOST
  weir_client_stats stats = WEIR_CLIENT_STATS_INIT;
  ok(weir_client_stats_get(client, &stats));
  assert_true(stats.device_bytes <= 24 * page_bytes);
  assert_true(world.stats().borrowed_bytes <= 12 * page_bytes);
  // The quota of the neighbour is full of what was lent: the client can use that device all the same.
  Herd there(world, 1, 1, 60, client);
  there.check();
  herd.check_read();
  herd.check();
  there.destroy();
  herd.destroy();
  ok(weir_client_stats_get(client, &stats));
  assert_int_equal(stats.device_bytes + stats.host_bytes, 0);
  ok(weir_client_destroy(client));
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// A page that does not fill its granule shows nothing of the client that had that before.
void nothing_of_another_client_is_seen(void **) {
  const std::string options = std::string(fast_peer) + ";host.multi_map=0";
  World world(two(options.c_str()));
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  weir_client other = nullptr;
  ok(weir_client_create(world.pool, &desc, &other));
  Herd before(world, 4, 1, 1, other);
  before.destroy();
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_GRADUAL, 0, nullptr));
  const uint64_t whole = 11 * page_bytes;  // more than a quarter of the budget: it shares no page
  const uint64_t part = whole - page_bytes / 2;
  weir_buffer buffer = world.buffer(part);
  world.fill(buffer, part, 3);
  // Dead buffers' pages are the neighbour's to give: evicted, their granules are idle, with their bytes.
  Herd pressing(world, 5, 1, 40, other);
  pressing.destroy();
  Herd again(world, 4, 1, 50, other);
  ok(weir_buffer_destroy(world.pool, again.buffers.back()));
  again.buffers.pop_back();
  ok(trim_all(world));
  assert_true(world.stats().lent_bytes >= part);
  uint64_t address = 0;
  weir_lease lease = nullptr;
  ok(world.acquire(buffer, WEIR_READ, &lease, &address, 1));
  assert_true(all_zero(world.device_bytes(address + part, whole - part, 1)));
  ok(weir_release(lease, world.streams[1]));
  world.check(buffer, part, 3, 1);
  again.destroy();
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_client_destroy(other));
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// The buffer ends while its pages are on their way to the neighbour.
void destroyed_on_the_way(void **) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world(two());
    Herd herd(world, 2);
    {
      Gate gate(world.pool, point);
      Task trimmer([&world] { return trim_all(world); });
      gate.await();
      validate(world);
      Task destroyer([&] { return weir_buffer_destroy(world.pool, herd.buffers[0]); });
      (void)keeps_waiting(destroyer);
      gate.open();
      ok(trimmer.join());
      ok(destroyer.join());
    }
    validate(world);
    world.check(herd.buffers[1], size, 2);
    ok(weir_buffer_destroy(world.pool, herd.buffers[1]));
    for (uint32_t device = 0; device < 2; ++device)
      ok(weir_pool_trim(world.pool, device, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    assert_int_equal(world.stats().borrowed_bytes, 0);
    close_clean(world);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(pages_go_to_the_neighbour_first),
      cmocka_unit_test(pages_go_to_where_small_memory_was),
      cmocka_unit_test(clean_pages_are_dropped),
      cmocka_unit_test(rewritten_pages_use_the_old_place),
      cmocka_unit_test(the_owner_gets_it_back),
      cmocka_unit_test(borrowed_pages_go_first),
      cmocka_unit_test(the_reserve_stays),
      cmocka_unit_test(leases_elsewhere_keep_nothing),
      cmocka_unit_test(back_and_forth_leaves_no_trace),
      cmocka_unit_test(only_what_can_be_given_back),
      cmocka_unit_test(the_neighbour_is_lost_on_the_way),
      cmocka_unit_test(used_by_the_neighbour),
      cmocka_unit_test(not_if_the_pool_says_so),
      cmocka_unit_test(not_over_a_link_like_the_hosts),
      cmocka_unit_test(not_where_nothing_is_known),
      cmocka_unit_test(not_through_the_host),
      cmocka_unit_test(by_kind_alone),
      cmocka_unit_test(within_a_clients_quota),
      cmocka_unit_test(nothing_of_another_client_is_seen),
      cmocka_unit_test(destroyed_on_the_way),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
