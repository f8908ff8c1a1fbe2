// SPDX-License-Identifier: Apache-2.0
//
// Passes in the same order over twice what the device holds, all announced, with the prefetcher as far ahead as it goes before each
// acquire. It may not bring much more than a policy that sees the future and fetches nothing early: of every pass all but what fits.

#include "tests/unit/interleaving.hpp"

#include <initializer_list>

namespace {

using namespace weir::test;

constexpr uint32_t pages = 16, count = 32, passes = 4;

/// `steps`: how many operations are announced at a time. Answers the pages that came to the device.
uint64_t scan(uint32_t steps) {
  World world({.device_pages = pages, .host_pages = 2 * count, .flags = 0});
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < count; ++i) {
    buffers.push_back(world.buffer(page_bytes));
    world.fill(buffers[i], page_bytes, i);
  }
  ok(trim_all(world));
  const uint64_t before = world.stats().promoted_bytes;
  for (uint32_t step = 0; step < passes * count; ++step) {
    for (uint32_t next = step; step % steps == 0 && next < step + steps; ++next) {
      const weir_use use = WEIR_USE(buffers[next % count], WEIR_READ);
      const weir_operation operation = {nullptr, &use, 1, 0, {0, 0}};
      ok(weir_announce(world.pool, world.streams[0], &operation, 1, 0));
    }
    engine_of(world).wait_idle();
    world.check(buffers[step % count], page_bytes, step % count);
  }
  const uint64_t brought = (world.stats().promoted_bytes - before) / page_bytes;
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
  return brought;
}

/// What comes at least: the first pass all, each later one what did not fit.
constexpr uint64_t least = count + (passes - 1) * (count - pages);

void what_is_announced_comes_shortly_before_its_turn(void **) {
  for (const uint32_t steps : {passes * count, count}) {
    const uint64_t brought = scan(steps);
    print_message("%u announced at a time: %u pages, %u at least\n", steps,
                  static_cast<unsigned>(brought), static_cast<unsigned>(least));
    assert_true(brought >= least);
    assert_true(brought <= least + least / 4);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(what_is_announced_comes_shortly_before_its_turn)};
  return cmocka_run_group_tests_name("announced scan", tests, nullptr, nullptr);
}
