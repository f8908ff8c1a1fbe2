// SPDX-License-Identifier: Apache-2.0
//
// Idle device memory goes back to the system after a grace period, on a clock of the test's own: never before, not what was
// needed meanwhile, not all at once, not the reserve, and not at all where it was not asked for. With VMM and without.

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "core/pool/pool.hpp"

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

constexpr uint64_t mib = uint64_t{1} << 20U;
constexpr uint64_t big_page = 2 * mib;
constexpr uint64_t second = 1'000'000'000;
constexpr uint64_t grace = 8 * second;
constexpr uint64_t look = grace / weir::physical::looks_a_grace;
constexpr const char *both[] = {";host.vmm=1", ";host.vmm=0"};

class TestClock final : public weir::Clock {
 public:
  uint64_t now_ns() const noexcept override { return now_.fetch_add(leap_.load()); }
  void pass(uint64_t ns) { now_.fetch_add(ns); }
  /// From now on every look at the clock takes so long.
  void leap(uint64_t ns) { leap_.store(ns); }

 private:
  mutable std::atomic<uint64_t> now_{second};
  std::atomic<uint64_t> leap_{0};
};

struct IdleWorld : World {
  TestClock &clock;

  IdleWorld(TestClock &clock_, const char *vmm, uint64_t grace_ns = grace, uint64_t flags = 0,
            uint32_t reserve = 15, uint64_t budget = 400 * mib)
      : World(make_context(
                  (std::string("host.memory=512M;host.granule=2M;host.granule_large=0") + vmm)
                      .c_str()),
              nullptr),
        clock(clock_) {
    reinterpret_cast<weir::pool::Context *>(context)->clock = &clock;
    const weir_pool_device device{0, 0, budget, {0, 0}};
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = 1;
    desc.devices = &device;
    desc.page_size = desc.large_page_size = big_page;
    desc.host_budget = 64 * mib;
    desc.segment_size = 8 * mib;
    desc.idle_grace_ns = grace_ns;
    desc.policy = "lru-window";  // nothing else reads the clock
    desc.flags = flags;
    desc.watermark_low_permille = 1;
    desc.watermark_high_permille = reserve;
    ok(weir_pool_create(context, &desc, &pool));
    ok(weir_stream_create(context, 0, 0, &streams[0]));
  }
  weir::pool::Engine &engine() { return reinterpret_cast<weir::pool::Pool *>(pool)->engine(); }
  /// What was used once and belongs to no buffer any more.
  void leave_idle(uint64_t bytes) {
    std::vector<weir_buffer> buffers;
    for (uint64_t at = 0; at < bytes; at += 8 * mib) {
      buffers.push_back(buffer(8 * mib));
      weir_lease lease = nullptr;
      ok(acquire(buffers.back(), WEIR_DISCARD_WRITE, &lease));
      ok(weir_release(lease, streams[0]));
    }
    for (weir_buffer each : buffers) ok(weir_buffer_destroy(pool, each));
  }
  std::vector<uint64_t> take_small(uint64_t bytes) {
    std::vector<uint64_t> blocks(bytes / (100 * 1024));
    for (uint64_t &block : blocks) ok(weir_malloc(pool, 0, nullptr, 100 * 1024, &block));
    return blocks;
  }
  void give(const std::vector<uint64_t> &blocks) {
    for (const uint64_t block : blocks) ok(weir_free(pool, nullptr, block));
  }
  /// `looks` times a part of the grace period passes.
  void pass(uint32_t looks) {
    for (uint32_t i = 0; i < looks; ++i) {
      clock.pass(look);
      engine().upkeep().look_at_idle();
    }
  }
  weir_pool_device_stats device() {
    weir_pool_device_stats out = WEIR_POOL_DEVICE_STATS_INIT;
    ok(weir_pool_device_stats_get(pool, 0, &out));
    return out;
  }
};

void dead_buffers_memory_goes_back(void **) {
  for (const char *vmm : both) {
    TestClock clock;
    IdleWorld world(clock, vmm);
    weir_buffer kept = world.buffer(8 * mib);
    world.fill(kept, 8 * mib, 1);
    world.leave_idle(40 * mib);
    assert_int_equal(world.device().bytes, 48 * mib);
    assert_int_equal(world.device().peak_bytes, 48 * mib);
    // First the pages are taken from their dead owners, then they are idle for as long again.
    world.pass(2 * weir::physical::looks_a_grace);
    assert_int_equal(world.device().bytes, 48 * mib);
    assert_int_equal(world.device().returned_bytes, 0);
    world.pass(weir::physical::looks_a_grace);
    const weir_pool_device_stats stats = world.device();
    // A reserve as large as the high watermark stays, and with it what is left of a segment.
    assert_true(stats.bytes >= 14 * mib && stats.bytes <= 16 * mib);
    assert_int_equal(stats.returned_bytes, 48 * mib - stats.bytes);
    assert_int_equal(stats.peak_bytes, 48 * mib);
    assert_int_equal(world.stats().device_returned_bytes, stats.returned_bytes);
    ok(weir_pool_reset_peak(world.pool, 0));
    assert_int_equal(world.device().peak_bytes, stats.bytes);
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_reset_peak(world.pool, 7));
    world.check(kept, 8 * mib, 1);
    world.leave_idle(40 * mib);
    assert_int_equal(world.device().peak_bytes, 48 * mib);
    assert_string_equal(world.engine().validate().c_str(), "");
    world.close();
  }
}

void what_is_needed_again_stays(void **) {
  for (const char *vmm : both) {
    TestClock clock;
    IdleWorld world(clock, vmm);
    world.leave_idle(64 * mib);
    // Every third look a job comes that takes all of it, and leaves it.
    for (int job = 0; job < 8; ++job) {
      world.pass(3);
      world.leave_idle(64 * mib);
    }
    assert_int_equal(world.device().bytes, 64 * mib);
    assert_int_equal(world.device().returned_bytes, 0);
    world.close();
  }
}

/// Empty pages of small memory stay for the next: for as long as a dead buffer's do, and not where they were needed meanwhile.
void empty_small_pages_go_back(void **) {
  for (const char *vmm : both) {
    TestClock clock;
    IdleWorld world(clock, vmm);
    const std::vector<uint64_t> kept = world.take_small(mib);
    std::vector<uint64_t> small = world.take_small(64 * mib);
    const uint64_t bytes = world.device().bytes;
    assert_true(bytes >= 64 * mib);
    world.pass(6 * weir::physical::looks_a_grace);  // what has tenants is not idle
    assert_int_equal(world.device().bytes, bytes);
    for (int job = 0; job < 8; ++job) {
      world.give(small);
      world.pass(weir::physical::looks_a_grace - 1);
      assert_int_equal(world.device().bytes, bytes);
      small = world.take_small(64 * mib);
      assert_int_equal(world.device().bytes, bytes);
    }
    world.give(small);
    world.pass(weir::physical::looks_a_grace);
    assert_int_equal(world.device().returned_bytes, 0);
    world.pass(3 * weir::physical::looks_a_grace);
    const weir_pool_device_stats stats = world.device();
    assert_true(stats.bytes <= 16 * mib);
    assert_int_equal(stats.returned_bytes, bytes - stats.bytes);
    assert_string_equal(world.engine().validate().c_str(), "");
    world.give(kept);
    world.close();
  }
}

void it_goes_back_by_and_by(void **) {
  for (const char *vmm : both) {
    TestClock clock;
    IdleWorld world(clock, vmm);
    world.leave_idle(320 * mib);
    // A large part of it may go at one look: 64 MiB; and with all that was idle, nothing is left but the reserve.
    uint64_t before = world.device().bytes;
    uint64_t steps = 0;
    for (int i = 0; i < 40; ++i) {
      world.pass(1);
      const uint64_t now = world.device().bytes;
      assert_true(before - now <= 64 * mib);
      steps += now != before ? 1U : 0U;
      before = now;
    }
    assert_true(steps >= 5);
    assert_true(before >= 6 * mib && before <= 8 * mib);
    world.close();
  }
}

void without_a_grace_period_nothing_goes_by_itself(void **) {
  for (const char *vmm : both) {
    for (const bool background : {false, true}) {
      TestClock clock;
      IdleWorld world(clock, vmm, background ? WEIR_NONE : grace,
                      background ? 0 : WEIR_POOL_NO_BACKGROUND);
      world.leave_idle(40 * mib);
      world.pass(40);
      assert_int_equal(world.device().bytes, 40 * mib);
      assert_int_equal(world.device().returned_bytes, 0);
      uint64_t freed = 0;
      ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_GRADUAL, WEIR_WHOLE, &freed));
      assert_int_equal(freed, 40 * mib);
      assert_int_equal(world.device().bytes, 0);
      assert_int_equal(world.device().peak_bytes, 40 * mib);
      assert_int_equal(world.device().segments, 0);
      world.close();
    }
  }
}

/// The demoter does it without being asked: the only thing this test waits for is that thread.
void the_thread_looks_by_itself(void **) {
  for (const char *vmm : both) {
    TestClock clock;
    IdleWorld world(clock, vmm, 4'000'000);
    world.leave_idle(40 * mib);
    while (world.device().returned_bytes < 32 * mib) {
      clock.pass(1'000'000);
      std::this_thread::yield();
    }
    assert_true(world.device().bytes >= 6 * mib);
    world.close();
  }
}

/// A grace period that is shorter than a look takes: the thread that looks must leave the lock to others all the same, and
/// end its looking when all that is left is less than a page or a segment above the reserve.
void a_look_that_is_always_due(void **) {
  for (const char *vmm : both) {
    TestClock clock;
    IdleWorld world(clock, vmm, grace, 0, 15, 402 * mib);
    clock.leap(grace);
    world.leave_idle(96 * mib);
    weir_buffer other = world.buffer(12 * mib);
    for (uint32_t i = 0; i < 20; ++i) {
      world.fill(other, 12 * mib, i);
      ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    }
    world.close();
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(dead_buffers_memory_goes_back),
      cmocka_unit_test(what_is_needed_again_stays),
      cmocka_unit_test(empty_small_pages_go_back),
      cmocka_unit_test(it_goes_back_by_and_by),
      cmocka_unit_test(without_a_grace_period_nothing_goes_by_itself),
      cmocka_unit_test(the_thread_looks_by_itself),
      cmocka_unit_test(a_look_that_is_always_due),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
