// SPDX-License-Identifier: Apache-2.0
//
// However many buffers a pool has, a call that walks over them looks at some thousand records in one taking of the lock, and lets others
// have it then. Counted in builds that check (core/base/pool_lock.hpp); the calls that look at all at once, and say so, are named here.

#include "tests/unit/neighbours.hpp"

#include <cstring>
#include <utility>

namespace {

using namespace weir::test;

#if defined(WEIR_DEBUG_CHECKS)

constexpr uint32_t count = 12000;
/// Of a walk, with what its last region has more.
constexpr uint64_t most = 4096 + 256;

struct Scene {
  World world;
  std::vector<weir_buffer> buffers;
  uint64_t regions;  ///< at least

  explicit Scene(uint64_t size, weir_device home)
      : world(setup()), regions(size < page_bytes ? 1 : count) {
    for (uint32_t i = 0; i < count; ++i) buffers.push_back(world.buffer(size, home));
  }
  static Setup setup() {
    Setup setup = neighbours(20);
    setup.host_pages = count;
    return setup;
  }
  weir_pool pool() const { return world.pool; }
  /// What the call looked at in one taking of the lock.
  template <class Call>
  uint64_t looks_of(Call &&call) {
    weir::visits::most = 0;
    ok(call());
    return weir::visits::most;
  }
  template <class Call>
  void expect_few(Call &&call) {
    assert_in_range(looks_of(call), 0, most);
  }
};

void look(Scene &scene) {
  const weir_pool pool = scene.pool();
  scene.expect_few([&] {
    weir_pool_stats stats = WEIR_POOL_STATS_INIT;
    return weir_pool_stats_get(pool, &stats);
  });
  scene.expect_few([&] {
    size_t needed = 0;
    return weir_pool_snapshot(pool, nullptr, 0, &needed);
  });
  scene.expect_few([&] {
    size_t found = 0;
    return weir_pool_lost_ranges(pool, nullptr, 0, &found);
  });
  // It looks at all at once, as its page says: what it tells is of one moment.
  const uint64_t mapped = scene.looks_of([&] {
    size_t found = 0;
    return weir_pool_map(pool, nullptr, 0, &found);
  });
  assert_in_range(mapped, scene.regions, UINT64_MAX);
}

void work(Scene &scene) {
  const weir_pool pool = scene.pool();
  scene.expect_few([&] {
    uint64_t moved = 0;
    return weir_pool_rebalance(pool, UINT64_MAX, &moved);
  });
  scene.expect_few([&] {
    const weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
    return weir_pool_defragment(pool, &desc, nullptr);
  });
  for (const weir_device device : {weir_device{0}, weir_device{1}, weir_device{WEIR_DEVICE_HOST}}) {
    scene.expect_few([&] {
      uint64_t freed = 0;
      return weir_pool_trim(pool, device, WEIR_TRIM_EMERGENCY, UINT64_MAX, &freed);
    });
  }
  weir_buffer fresh = nullptr;
  scene.expect_few([&] {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = page_bytes;
    return weir_buffer_create(pool, &desc, &fresh);
  });
  weir_use use = WEIR_USE(fresh, WEIR_DISCARD_WRITE);
  weir_lease lease = nullptr;
  scene.expect_few(
      [&] { return weir_acquire(pool, scene.world.streams[0], &use, 1, nullptr, &lease); });
  scene.expect_few([&] { return weir_release(lease, scene.world.streams[0]); });
  scene.expect_few([&] { return weir_buffer_destroy(pool, fresh); });
}

void close(Scene &scene) {
  scene.expect_few([&] { return weir_pool_remove_device(scene.pool(), 1, WEIR_INFINITE); });
  validate(scene.world);
  for (const weir_buffer buffer : scene.buffers) ok(weir_buffer_destroy(scene.pool(), buffer));
  close_clean(scene.world);
}

void buffers_that_nobody_has_used(void **) {
  Scene scene(page_bytes, 1);
  look(scene);
  work(scene);
  close(scene);
}

void buffers_with_bytes_in_host(void **) {
  Scene scene(page_bytes, 1);
  for (const weir_buffer buffer : scene.buffers) {
    weir_use use = WEIR_USE(buffer, WEIR_DISCARD_WRITE);
    weir_lease lease = nullptr;
    ok(weir_acquire(scene.pool(), scene.world.streams[1], &use, 1, nullptr, &lease));
    ok(weir_release(lease, scene.world.streams[1]));
  }
  look(scene);
  work(scene);
  close(scene);
}

void buffers_in_shared_pages(void **) {
  Scene scene(256, 1);
  for (uint32_t i = 0; i < count; i += 3) {
    ok(weir_buffer_destroy(scene.pool(), scene.buffers[i]));
    scene.buffers[i] = scene.world.buffer(256, 1);
  }
  look(scene);
  work(scene);
  close(scene);
}

/// Compaction of many small buffers, in slabs with more of them than a taking looks at.
void small_buffers_that_are_compacted(void **) {
  constexpr uint32_t tenants = 40000;
  Setup setup;
  setup.options = "host.memory=64M;host.granule=2M;host.granule_large=0";
  weir_context context = make_context(setup.options.c_str());
  weir_pool_device device{};
  device.budget = uint64_t{48} << 20U;
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = 1;
  desc.devices = &device;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = uint64_t{16} << 20U;
  desc.page_size = desc.large_page_size = uint64_t{2} << 20U;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  World world(context, pool);
  ok(weir_stream_create(context, 0, 0, &world.streams[0]));
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < tenants; ++i) {
    buffers.push_back(world.buffer(256));
    weir_use use = WEIR_USE(buffers.back(), WEIR_DISCARD_WRITE);
    weir_lease lease = nullptr;
    ok(weir_acquire(pool, world.streams[0], &use, 1, nullptr, &lease));
    ok(weir_release(lease, world.streams[0]));
  }
  ok(weir_stream_synchronize(world.streams[0]));
  // Of each slab more is left than one taking of the lock looks at, and three of five slabs' worth in all.
  for (uint32_t i = 0; i < tenants; ++i)
    if (i % 5 >= 3) ok(weir_buffer_destroy(pool, std::exchange(buffers[i], nullptr)));
  weir_defragment_desc defragment = WEIR_DEFRAGMENT_DESC_INIT;
  defragment.flags = WEIR_DEFRAGMENT_WAIT;
  defragment.max_cost_permille = 900;
  weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
  weir::visits::most = 0;
  ok(weir_pool_defragment(pool, &defragment, &report));
  assert_in_range(weir::visits::most.load(), 4096, most);
  assert_true(report.copy_moves > tenants / 10 && report.won_bytes >= uint64_t{2} << 20U);
  validate(world);
  for (const weir_buffer buffer : buffers)
    if (buffer != nullptr) ok(weir_buffer_destroy(pool, buffer));
  validate(world);
  world.close();
}

/// Pages of others, on a device and in HOST, and a client beside them that comes to its quota there, for the first time.
struct Crowd {
  static constexpr uint32_t others = 6000, own = 4;
  World world;
  std::vector<weir_buffer> buffers;
  weir_client client = nullptr;

  explicit Crowd(const Setup &setup) : world(setup) {
    for (uint32_t i = 0; i < others; ++i) {
      buffers.push_back(world.buffer(page_bytes, 0));
      write(buffers.back());
    }
  }
  static Setup setup(uint64_t device_pages, uint64_t host_pages) {
    Setup setup;
    setup.options = "host.memory=256M;host.granule=16K;host.granule_large=0";
    setup.device_pages = device_pages;
    setup.host_pages = host_pages;
    setup.policy = "lru-window";
    return setup;
  }
  void write(weir_buffer buffer) {
    weir_use use = WEIR_USE(buffer, WEIR_DISCARD_WRITE);
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, world.streams[0], &use, 1, nullptr, &lease));
    ok(weir_release(lease, world.streams[0]));
    ok(weir_stream_synchronize(world.streams[0]));
  }
  /// Writes so many buffers of the client's, more than its quota has room for.
  void write_own(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
      desc.size = page_bytes;
      desc.client = client;
      weir_buffer buffer = nullptr;
      ok(weir_buffer_create(world.pool, &desc, &buffer));
      buffers.push_back(buffer);
      write(buffer);
    }
  }
  void close() {
    validate(world);
    for (const weir_buffer buffer : buffers)
      if (buffer != nullptr) ok(weir_buffer_destroy(world.pool, buffer));
    if (client != nullptr) ok(weir_client_destroy(client));
    close_clean(world);
  }
};

/// Between two pieces of a walk buffers end, one of the client's too, and others come.
struct Meanwhile {
  Crowd &crowd;
  const char *at;
  uint32_t times = 0;
  static void come(void *user, const char *point) {
    auto &self = *static_cast<Meanwhile *>(user);
    if (std::strcmp(point, self.at) != 0 || self.times++ != 0) return;
    Crowd &crowd = self.crowd;
    const auto end = [&](size_t i) {
      ok(weir_buffer_destroy(crowd.world.pool, std::exchange(crowd.buffers[i], nullptr)));
    };
    for (size_t i = 0; i < Crowd::others; i += 7) end(i);
    if (crowd.buffers.size() > Crowd::others) end(Crowd::others);
    for (size_t i = 0; i < Crowd::others; i += 21)
      crowd.buffers[i] = crowd.world.buffer(page_bytes, 0);
  }
};

void a_client_at_its_quota_of_a_device(void **) {
  Crowd crowd(Crowd::setup(Crowd::others + 100, 64));
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.device_quota = Crowd::own * page_bytes;
  ok(weir_client_create(crowd.world.pool, &desc, &crowd.client));
  crowd.write_own(Crowd::own);
  weir::visits::most = 0;
  Meanwhile meanwhile{crowd, "own.part"};
  engine_of(crowd.world).points.listen(&Meanwhile::come, &meanwhile);
  crowd.write_own(Crowd::own + 3);
  engine_of(crowd.world).points.leave(&meanwhile);
  assert_in_range(meanwhile.times, 1, 4);
  assert_in_range(weir::visits::most.load(), Crowd::others / 2, most);
  weir_client_stats stats = WEIR_CLIENT_STATS_INIT;
  ok(weir_client_stats_get(crowd.client, &stats));
  assert_int_equal(stats.device_bytes, Crowd::own * page_bytes);
  crowd.close();
}

void a_client_at_its_quota_of_host(void **) {
  Setup setup = Crowd::setup(8, Crowd::others + 100);
  setup.compressed_pages = 256;
  Crowd crowd(setup);
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.host_quota = Crowd::own * page_bytes;
  ok(weir_client_create(crowd.world.pool, &desc, &crowd.client));
  weir::visits::most = 0;
  crowd.write_own(8 + 2 * Crowd::own);
  assert_in_range(weir::visits::most.load(), Crowd::others / 2, most);
  weir_client_stats stats = WEIR_CLIENT_STATS_INIT;
  ok(weir_client_stats_get(crowd.client, &stats));
  assert_true(stats.host_bytes <= Crowd::own * page_bytes && stats.compressed_bytes != 0);
  crowd.close();
}

/// HOST is given back by chunk, and one is emptied into the tier below for that.
void a_chunk_of_host_that_is_emptied(void **) {
  Setup setup = Crowd::setup(8, Crowd::others + 100);
  setup.compressed_pages = Crowd::others + 256;
  Crowd crowd(setup);
  const uint64_t before = crowd.world.stats().host_bytes;
  weir::visits::most = 0;
  uint64_t freed = 0;
  Meanwhile meanwhile{crowd, "chunk.part"};
  engine_of(crowd.world).points.listen(&Meanwhile::come, &meanwhile);
  ok(weir_pool_trim(crowd.world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_EMERGENCY, 1, &freed));
  engine_of(crowd.world).points.leave(&meanwhile);
  assert_true(meanwhile.times > 1);
  assert_in_range(weir::visits::most.load(), Crowd::others / 2, most);
  assert_true(freed != 0 && crowd.world.stats().host_bytes < before);
  assert_true(crowd.world.stats().compressed_raw_bytes >= 16 * page_bytes);
  crowd.close();
}

#endif

/// There has to be a test.
void what_is_counted(void **) {
#if defined(WEIR_DEBUG_CHECKS)
  World world(neighbours(20));
  weir::visits::most = 0;
  weir_buffer buffer = world.buffer(page_bytes, 0);
  size_t found = 0;
  ok(weir_pool_map(world.pool, nullptr, 0, &found));
  assert_in_range(weir::visits::most.load(), 1, 8);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
#else
  std::fprintf(stderr, "not a build that counts what walks look at\n");
  skip();
#endif
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
    cmocka_unit_test(what_is_counted),
#if defined(WEIR_DEBUG_CHECKS)
    cmocka_unit_test(buffers_that_nobody_has_used),
    cmocka_unit_test(buffers_with_bytes_in_host),
    cmocka_unit_test(buffers_in_shared_pages),
    cmocka_unit_test(small_buffers_that_are_compacted),
    cmocka_unit_test(a_client_at_its_quota_of_a_device),
    cmocka_unit_test(a_client_at_its_quota_of_host),
    cmocka_unit_test(a_chunk_of_host_that_is_emptied),
#endif
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
