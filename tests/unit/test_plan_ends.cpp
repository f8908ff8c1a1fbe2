// SPDX-License-Identifier: Apache-2.0
//
// Where a plan ends: with what was announced, whether that was acquired or taken back.

#include "tests/unit/interleaving.hpp"

namespace {

using namespace weir::test;

/// Room for `device_pages` pages. Watermarks keep nothing free.
World planned_world(uint32_t device_pages, const char *options = small_host) {
  weir_context context = make_context(options);
  weir_pool_device device{};
  device.budget = device_pages * page_bytes;
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = 1;
  desc.devices = &device;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = 4096 * page_bytes;
  desc.page_size = desc.large_page_size = page_bytes;
  desc.policy = "auto";
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  World world(context, pool);
  ok(weir_stream_create(context, 0, 0, &world.streams[0]));
  return world;
}

/// A program over buffers of a page: each operation reads or writes one.
struct Program {
  World &world;
  std::vector<weir_buffer> buffers;
  std::vector<uint32_t> seeds;
  struct Operation {
    uint32_t buffer;
    uint32_t mode;
  };
  std::vector<Operation> operations;
  size_t done = 0;

  Program(World &world_, uint32_t count, uint64_t bytes = page_bytes) : world(world_) {
    for (uint32_t i = 0; i < count; ++i) {
      buffers.push_back(world.buffer(bytes));
      world.fill(buffers.back(), bytes, i + 1);
      seeds.push_back(i + 1);
    }
  }
  void announce() {
    for (const Operation &operation : operations) {
      weir_use use = WEIR_USE(buffers[operation.buffer], operation.mode);
      weir_operation announced = WEIR_OPERATION_INIT;
      announced.uses = &use;
      announced.use_count = 1;
      ok(weir_announce(world.pool, world.streams[0], &announced, 1, 0));
    }
  }
  /// The next operation; true: its bytes were there.
  bool step(uint64_t bytes = page_bytes) {
    const Operation operation = operations[done++];
    const uint64_t misses = world.stats().promoted_bytes - world.stats().prefetched_bytes;
    Kernel kernel{0, bytes, seeds[operation.buffer], false};
    if (operation.mode != WEIR_READ) kernel.seed = ++seeds[operation.buffer] * 1000;
    seeds[operation.buffer] = kernel.seed;
    ok(run(world, buffers[operation.buffer], operation.mode, &kernel));
    if (operation.mode == WEIR_READ) assert_false(kernel.wrong);
    return world.stats().promoted_bytes - world.stats().prefetched_bytes == misses;
  }
  void look() {
    while (engine_of(world).upkeep().look_at_plans()) continue;
  }
  void end(uint64_t bytes = page_bytes) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      world.check(buffers[i], bytes, seeds[i]);
      ok(weir_buffer_destroy(world.pool, buffers[i]));
    }
    close_clean(world);
  }
};

bool planned(World &world) { return engine_of(world).prefetcher().planned(0); }

/// Of more operations than are planned at once, with memory for half of the buffers.
void begin(Program &program) {
  for (uint32_t i = 0; i < 600; ++i) program.operations.push_back({i % 16, WEIR_READ});
  program.announce();
  program.look();
  assert_true(planned(program.world));
  for (int i = 0; i < 10; ++i) {
    program.step();
    program.look();
  }
}

void a_plan_ends_when_all_has_been_acquired(void **) {
  World world = planned_world(8);
  Program program(world, 16);
  begin(program);
  while (program.done < program.operations.size()) {
    program.step();
    program.look();
  }
  assert_false(planned(world));
  program.end();
}

void a_plan_ends_when_what_was_announced_is_taken_back(void **) {
  World world = planned_world(8);
  Program program(world, 16);
  begin(program);
  ok(weir_announce(world.pool, world.streams[0], nullptr, 0, WEIR_ANNOUNCE_REPLACE));
  assert_false(planned(world));
  program.end();
}

void a_plan_ends_when_its_stream_s_slot_is_another_s(void **) {
  World world = planned_world(8);
  Program program(world, 16);
  begin(program);
  weir_stream_close(world.streams[0]);
  ok(weir_stream_create(world.context, 0, 0, &world.streams[0]));
  program.step();
  program.look();
  assert_false(planned(world));
  program.end();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_plan_ends_when_all_has_been_acquired),
      cmocka_unit_test(a_plan_ends_when_what_was_announced_is_taken_back),
      cmocka_unit_test(a_plan_ends_when_its_stream_s_slot_is_another_s),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
