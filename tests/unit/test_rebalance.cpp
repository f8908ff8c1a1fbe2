// SPDX-License-Identifier: Apache-2.0
//
// Spilled pages that follow when a neighbour has memory to spare: which go, how many, how fast, and that nothing else
// does; that the memory's owner gets it back; with every call failing once.

#include "tests/unit/neighbours.hpp"

#include "core/base/clock.hpp"

namespace {

using namespace weir::test;

const uint64_t size = 4 * page_bytes;

class TestClock final : public weir::Clock {
 public:
  uint64_t now_ns() const noexcept override { return now.load(); }
  std::atomic<uint64_t> now{1'000'000'000};
};
TestClock test_clock;

Setup one_of_two(const char *options = fast_peer, uint64_t flags = WEIR_POOL_NO_BACKGROUND) {
  return neighbours(8, 1, options, flags);
}
weir_result add(World &world, uint64_t pages = 40) { return add_device(world, 1, pages); }
uint64_t rebalance(World &world, uint64_t bytes = WEIR_WHOLE) {
  uint64_t moved = 0;
  ok(weir_pool_rebalance(world.pool, bytes, &moved));
  return moved;
}

/// Six buffers at home on device 0, which has room for two of them.
struct Herd {
  World &world;
  weir_buffer buffers[6] = {};
  explicit Herd(World &world_) : world(world_) {
    for (uint32_t i = 0; i < 6; ++i) {
      buffers[i] = world.buffer(size, 0);
      world.fill(buffers[i], size, i + 1);
    }
  }
  void check() {
    for (uint32_t i = 0; i < 6; ++i) world.check(buffers[i], size, i + 1);
    validate(world);
  }
  void end() {
    for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
    ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    close_clean(world);
  }
};

void spilled_pages_follow(void **) {
  World world(one_of_two());
  Herd herd(world);
  assert_int_equal(rebalance(world), 0);
  ok(add(world));
  assert_int_equal(rebalance(world), 4 * size);
  assert_int_equal(rebalance(world), 0);
  const weir_pool_stats moved = world.stats();
  assert_int_equal(moved.rebalanced_bytes, 4 * size);
  assert_int_equal(moved.borrowed_bytes, 4 * size);
  assert_int_equal(moved.evictions, 16);  // none for it
  validate(world);
  herd.check();
  const weir_pool_stats used = world.stats();
  assert_int_equal(used.promoted_bytes, moved.promoted_bytes);  // by the link, not from the host
  assert_true(used.peer_bytes >= moved.peer_bytes + 4 * size);
  // The owner's own buffers find their memory.
  weir_buffer own = world.buffer(38 * page_bytes, 1);
  world.fill(own, 38 * page_bytes, 90, 1);
  world.check(own, 38 * page_bytes, 90, 1);
  validate(world);
  assert_true(world.stats().borrowed_bytes <= 2 * page_bytes);
  for (uint32_t i = 0; i < 6; ++i) world.check_read(herd.buffers[i], size, i + 1);
  herd.check();
  ok(weir_buffer_destroy(world.pool, own));
  herd.end();
}

/// As many as are asked for, those of the buffers that were used last.
void the_latest_first(void **) {
  World world(one_of_two());
  Herd herd(world);
  world.check(herd.buffers[1], size, 2);
  world.check(herd.buffers[4], size, 5);
  world.check(herd.buffers[5], size, 6);  // so that of those in HOST, 1 is the latest
  ok(add(world));
  assert_int_equal(rebalance(world, size), size);
  assert_int_equal(query(world, herd.buffers[1]).peer_bytes, size);
  assert_int_equal(rebalance(world, 2 * page_bytes), 2 * page_bytes);
  assert_int_equal(rebalance(world, 1), 0);  // less than a page
  assert_int_equal(world.stats().borrowed_bytes, size + 2 * page_bytes);
  herd.check();
  herd.end();
}

/// No more than the neighbour has above its reserve.
void the_reserve_stays(void **) {
  World world(one_of_two());
  Herd herd(world);
  ok(add(world, 10));
  const uint64_t moved = rebalance(world);
  assert_true(moved >= 8 * page_bytes && moved <= 9 * page_bytes);
  assert_int_equal(rebalance(world), 0);
  herd.check();
  herd.end();
}

void what_stays(void **) {
  // A link that is no better than the host's, and a pool that is told not to.
  const std::string all = fast_peer;
  const std::string slow =
      all.substr(0, all.find("host.links=")) + "host.links=0-1:pcie:16G,h-0:pcie:16G,h-1:pcie:16G";
  for (const bool told : {false, true}) {
    World world(told ? one_of_two(fast_peer, WEIR_POOL_NO_BACKGROUND | WEIR_POOL_NO_PEER)
                     : one_of_two(slow.c_str()));
    Herd herd(world);
    ok(add(world));
    assert_int_equal(rebalance(world), 0);
    herd.end();
  }
  // What is not to be used soon, and what is written elsewhere now.
  World world(one_of_two());
  Herd herd(world);
  ok(weir_advise(world.pool, herd.buffers[0], 0, WEIR_WHOLE, WEIR_ADVISE_COLD));
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_use use = WEIR_USE(herd.buffers[1], WEIR_READ_WRITE);
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
  ok(add(world));
  assert_int_equal(rebalance(world), 2 * size);
  assert_int_equal(query(world, herd.buffers[0]).peer_bytes, 0);
  assert_int_equal(query(world, herd.buffers[1]).peer_bytes, 0);
  ok(weir_release(lease, cpu));
  ok(weir_stream_close(cpu));
  assert_int_equal(rebalance(world), size);
  herd.check();
  herd.end();
}

/// From below HOST as well.
void from_compressed(void **) {
  Setup setup = one_of_two();
  setup.host_pages = 4;
  setup.compressed_pages = 64;
  World world(setup);
  Herd herd(world);
  const weir_pool_stats before = world.stats();
  assert_true(before.compressed_raw_bytes != 0);
  ok(add(world));
  assert_int_equal(rebalance(world), 4 * size);
  herd.check();
  herd.end();
}

/// By itself, a batch at a time and no faster than it may.
void at_its_rate(void **) {
  Setup setup = one_of_two(fast_peer, 0);
  setup.rebalance_bytes_per_second = 16 * page_bytes;
  setup.before_pool = [](weir_context context) {
    reinterpret_cast<weir::pool::Context *>(context)->clock = &test_clock;
  };
  World world(setup);
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 12; ++i) {
    buffers.push_back(world.buffer(size, 0));
    world.fill(buffers[i], size, i + 1);
  }
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));  // 48 pages in HOST
  weir_buffer here = world.buffer(size, 0);
  world.fill(here, size, 99);
  ok(add(world, 60));
  const auto moved = [&] { return world.stats().rebalanced_bytes; };
  for (uint64_t turn = 1; turn <= 3; ++turn) {
    while (moved() < turn * 16 * page_bytes) std::this_thread::yield();
    assert_true(stays([&] { return moved() == turn * 16 * page_bytes; }));
    test_clock.now.fetch_add(1'000'000'000);
    want(world, here);  // which needs nothing: the prefetcher has a look at the clock
  }
  for (uint32_t i = 0; i < 12; ++i) world.check(buffers[i], size, i + 1);
  validate(world);
  buffers.push_back(here);
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

void sweep_it(Kind kind, int64_t least) {
  sweep(kind, 0, least, [](Balance *balance) {
    Subject subject;
    open_neighbours(&subject, balance, 1);
    const weir_pool_device other = with_pages(1, 12);
    for (uint32_t i = 0; i < 4; ++i) subject.add(size);
    for (uint32_t i = 0; i < 4; ++i) subject.fill(i, i + 1);
    sensible(weir_pool_trim(subject.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr), "trim");
    if (twice("weir_pool_add_device", [&] { return weir_pool_add_device(subject.pool, &other); })) {
      // It is a hint: what fails stays where it is.
      sensible(weir_pool_rebalance(subject.pool, WEIR_WHOLE, nullptr), "weir_pool_rebalance");
      sensible(weir_pool_rebalance(subject.pool, WEIR_WHOLE, nullptr), "a second one");
    }
    for (uint32_t i = 0; i < 4; ++i) subject.check(i, "afterwards");
    subject.destroy_buffers();
    subject.close();
  });
}
void backend_calls_fail(void **) { sweep_it(Kind::backend, 40); }
void memory_is_refused(void **) { sweep_it(Kind::device_oom, 3); }
void allocations_fail(void **) { sweep_it(Kind::allocator, 40); }

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(spilled_pages_follow), cmocka_unit_test(the_latest_first),
      cmocka_unit_test(the_reserve_stays),    cmocka_unit_test(what_stays),
      cmocka_unit_test(from_compressed),      cmocka_unit_test(at_its_rate),
      cmocka_unit_test(backend_calls_fail),   cmocka_unit_test(memory_is_refused),
      cmocka_unit_test(allocations_fail),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
