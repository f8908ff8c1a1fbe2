// SPDX-License-Identifier: Apache-2.0
//
// What defragmentation has to do with time, on a clock of the test's own: the bound of one call, and the rate of the
// background thread, which moves no more than the clock has allowed for so far.

#include <atomic>
#include <thread>

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "core/pool/pool.hpp"

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

class TestClock final : public weir::Clock {
 public:
  uint64_t now_ns() const noexcept override { return now.fetch_add(step); }
  mutable std::atomic<uint64_t> now{1'000'000'000};
  std::atomic<uint64_t> step{0};  ///< how much each look takes
};
TestClock test_clock;

const uint64_t tenant_bytes = page_bytes / 8;

World world_of(uint64_t flags) {
  test_clock.step = 0;
  return World({.device_pages = 40, .flags = flags, .before_pool = [](weir_context context) {
                  reinterpret_cast<weir::pool::Context *>(context)->clock = &test_clock;
                }});
}

/// Every fourth of many small buffers lives on.
std::vector<weir_buffer> scatter(World &world) {
  std::vector<weir_buffer> all;
  std::vector<weir_buffer> left;
  for (uint32_t i = 0; i < 256; ++i) {
    all.push_back(world.buffer(tenant_bytes));
    world.fill(all[i], tenant_bytes, i);
  }
  for (uint32_t i = 0; i < 256; ++i) {
    if (i % 4 == 0) {
      left.push_back(all[i]);
    } else {
      ok(weir_buffer_destroy(world.pool, all[i]));
    }
  }
  return left;
}

void close(World &world, const std::vector<weir_buffer> &buffers) {
  for (uint32_t i = 0; i < buffers.size(); ++i) {
    world.check(buffers[i], tenant_bytes, 4 * i);
    ok(weir_buffer_destroy(world.pool, buffers[i]));
  }
  world.close();
}

void a_call_ends_when_its_time_is_over(void **) {
  World world = world_of(WEIR_POOL_NO_BACKGROUND);
  const std::vector<weir_buffer> buffers = scatter(world);
  weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
  weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
  test_clock.step = 1000;
  desc.max_ns = 1000;
  ok(weir_pool_defragment(world.pool, &desc, &report));
  assert_int_equal(report.copy_moves, 0);
  assert_int_equal(report.finished, 0);
  desc.max_ns = 2000;  // time for one step
  ok(weir_pool_defragment(world.pool, &desc, &report));
  assert_true(report.copy_moves > 0);
  assert_int_equal(report.finished, 0);
  assert_true(report.elapsed_ns >= 2000);
  test_clock.step = 0;
  ok(weir_pool_defragment(world.pool, &desc, &report));
  assert_int_equal(report.finished, 1);
  close(world, buffers);
}

void the_background_keeps_to_its_rate(void **) {
  World world = world_of(0);
  const std::vector<weir_buffer> buffers = scatter(world);
  constexpr uint64_t second = 1'000'000'000;
  weir_defragmentation_desc desc = WEIR_DEFRAGMENTATION_DESC_INIT;
  desc.threshold_permille = 1;
  desc.max_cost_permille = 1000;
  desc.bytes_per_second = 40 * tenant_bytes;
  ok(weir_pool_set_defragmentation(world.pool, &desc));
  uint64_t allowed = 0;
  uint64_t moved = 0;
  for (int round = 0; round < 6; ++round) {
    test_clock.now += second / 10;
    allowed += desc.bytes_per_second / 10;
    uint64_t now = moved;
    while (now == moved) {
      std::this_thread::yield();
      now = world.stats().defragment_moved_bytes;
    }
    assert_true(stays([&] { return world.stats().defragment_moved_bytes <= allowed; }));
    moved = world.stats().defragment_moved_bytes;
  }
  // A long pause is not saved up for.
  test_clock.now += 100 * second;
  assert_true(stays(
      [&] { return world.stats().defragment_moved_bytes <= allowed + desc.bytes_per_second; }));
  close(world, buffers);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_call_ends_when_its_time_is_over),
      cmocka_unit_test(the_background_keeps_to_its_rate),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
