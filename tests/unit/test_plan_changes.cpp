// SPDX-License-Identifier: Apache-2.0
//
// What happens to a device's memory while a plan for it is carried out: others take room, the budget is lowered, the device leaves, a
// client has no more room. The plan is made anew or goes on with what there is; nothing waits for ever, and no byte is wrong.
//
// Must be reproducible: the pools have no threads of their own, the test makes each step of the plans.

#include "core/base/clock.hpp"

#include "tests/unit/interleaving.hpp"

namespace {

using namespace weir::test;

constexpr uint32_t pages = 64;  // of the device

struct Terms {
  uint32_t devices = 1;
  uint32_t low_permille = 0;  ///< watermark; 0: the usual
  const char *options = "host.memory=16M;host.granule=16K;host.granule_large=0";
};

/// Whatever takes time seems to take none, so that no plan waits for a machine that has other things to do.
class Standing final : public weir::Clock {
 public:
  uint64_t now_ns() const noexcept override { return 1'000'000'000; }
};
const Standing standing;

World world_of(const Terms &terms) {
  weir_context context = make_context(
      (std::string(terms.options) + ";host.devices=" + std::to_string(terms.devices)).c_str());
  reinterpret_cast<weir::pool::Context *>(context)->clock = &standing;
  weir_pool_device devices[2] = {};
  for (uint32_t i = 0; i < terms.devices; ++i) devices[i] = {i, 0, pages * page_bytes, {0, 0}};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = terms.devices;
  desc.devices = devices;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = 1024 * page_bytes;
  desc.page_size = desc.large_page_size = page_bytes;
  desc.policy = "auto";
  desc.watermark_low_permille = terms.low_permille;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  World world(context, pool);
  for (uint32_t i = 0; i < terms.devices; ++i)
    ok(weir_stream_create(context, i, 0, &world.streams[i]));
  return world;
}

/// Buffers of a page that are used in turn, again and again; each third use writes. All of it is announced, so all of it is planned.
struct Loop {
  World &world;
  uint32_t device;
  std::vector<weir_buffer> buffers;
  std::vector<uint32_t> seeds;
  std::vector<uint64_t> late;  ///< of each buffer, the uses that it was not there for
  uint64_t done = 0, announced = 0;
  uint32_t written = 1000;
  bool writes = true;
  uint32_t laps = 1;  ///< that are announced together

  explicit Loop(World &world_, uint32_t device_ = 0) : world(world_), device(device_) {}
  void add(uint32_t count, weir_client client = nullptr, int32_t priority = 0) {
    for (uint32_t i = 0; i < count; ++i) {
      buffers.push_back(world.buffer(page_bytes, device, client));
      ok(weir_buffer_set_priority(world.pool, buffers.back(), priority));
      seeds.push_back(++written);
      world.fill(buffers.back(), page_bytes, written, device);
      late.push_back(0);
    }
  }
  uint32_t mode_of(uint64_t operation) const {
    return writes && operation % 3 == 0 ? WEIR_DISCARD_WRITE : WEIR_READ;
  }
  /// The next lap, as one call.
  void announce() {
    std::vector<weir_use> uses;
    std::vector<weir_operation> operations(buffers.size(), weir_operation WEIR_OPERATION_INIT);
    for (size_t b = 0; b < buffers.size(); ++b, ++announced)
      uses.push_back(WEIR_USE(buffers[b], mode_of(announced)));
    for (size_t b = 0; b < buffers.size(); ++b) operations[b].uses = &uses[b];
    for (weir_operation &operation : operations) operation.use_count = 1;
    ok(weir_announce(world.pool, world.streams[device], operations.data(), operations.size(), 0));
  }
  void look() {
    while (engine_of(world).upkeep().look_at_plans()) continue;
  }
  bool planned() const {
    return engine_of(world).prefetcher().planned(static_cast<uint8_t>(device));
  }
  void step() {
    const size_t b = done % buffers.size();
    const uint32_t mode = mode_of(done++);
    if (mode == WEIR_READ && query(world, buffers[b]).device_bytes == 0) ++late[b];
    if (mode != WEIR_READ) seeds[b] = ++written;
    Kernel kernel{.bytes = page_bytes, .seed = seeds[b]};
    ok(run(world, buffers[b], mode, &kernel, device));
    assert_int_equal(kernel.wrong, 0);
  }
  /// The plan keeps pace, and there is enough to plan.
  void steps(uint64_t count) {
    for (; count != 0; --count) {
      while (announced - done <= buffers.size())
        for (uint32_t lap = 0; lap < laps; ++lap) announce();
      look();
      step();
    }
    validate(world);
  }
  /// Reads of the next operations that had to wait for their bytes, of buffers [first, last).
  uint64_t late_in(uint64_t count, size_t first = 0, size_t last = SIZE_MAX) {
    std::fill(late.begin(), late.end(), 0);
    steps(count);
    uint64_t sum = 0;
    for (size_t b = first; b < std::min(last, late.size()); ++b) sum += late[b];
    return sum;
  }
  void destroy() {
    for (size_t b = 0; b < buffers.size(); ++b) {
      world.check_read(buffers[b], page_bytes, seeds[b]);
      ok(weir_buffer_destroy(world.pool, buffers[b]));
    }
    buffers.clear();
  }
};

/// With a second stream of the device, for others.
World world_with_others(const Terms &terms = {}) {
  World world = world_of(terms);
  ok(weir_stream_create(world.context, 0, 0, &world.streams[1]));
  return world;
}

/// A plan that has run for a while, with more buffers than fit.
constexpr uint32_t looped = 100;
/// Reads in two laps that may be late: where a lap that has just been announced begins.
constexpr uint64_t few = 4;
void begin(Loop &loop) {
  loop.add(looped);
  loop.steps(2 * looped);
  assert_true(loop.planned());
  assert_in_range(loop.late_in(looped), 0, few);
}

/// Room is taken from a plan. It is as good as before once it knows.
template <class Take, class GiveBack>
void takes_room(Take take, GiveBack give_back) {
  World world = world_with_others();
  Loop loop(world);
  loop.laps = 20;  // the plan is not made anew for what is announced
  begin(loop);
  take(world);
  loop.steps(300);
  const weir_pool_stats before = world.stats();
  assert_in_range(loop.late_in(2 * looped), 0, few);
  // What it brings stays until it is used.
  const uint64_t up = (world.stats().promoted_bytes - before.promoted_bytes) / page_bytes;
  assert_in_range(up, 1, 2 * looped);
  give_back(world);
  loop.steps(300);
  assert_in_range(loop.late_in(2 * looped), 0, few);
  loop.destroy();
  close_clean(world);
}

void bytes_are_held_while_a_plan_runs(void **) {
  const uint64_t bytes = 24 * page_bytes;
  weir_buffer other = nullptr;
  takes_room(
      [&](World &world) {
        other = world.buffer(bytes);
        world.fill(other, bytes, 7, 1);
        uint64_t address = 0;
        ok(weir_hold(world.pool, other, 0, &address));
      },
      [&](World &world) {
        ok(weir_unhold(world.pool, other));
        world.check_read(other, bytes, 7);
        ok(weir_buffer_destroy(world.pool, other));
      });
}

void memory_is_allocated_while_a_plan_runs(void **) {
  std::vector<uint64_t> blocks(24);
  takes_room(
      [&](World &world) {
        for (uint64_t &block : blocks)
          ok(weir_malloc(world.pool, 0, world.streams[1], page_bytes, &block));
      },
      [&](World &world) {
        for (const uint64_t block : blocks) ok(weir_free(world.pool, world.streams[1], block));
      });
}

/// What it holds is the plan's own: it is not brought a second time, nor given up.
void buffers_of_a_plan_are_held_while_it_runs(void **) {
  constexpr size_t held = 20;
  World world = world_with_others();
  Loop loop(world);
  begin(loop);
  uint64_t address = 0;
  for (size_t b = 0; b < held; ++b)
    ok(weir_hold_as(world.pool, loop.buffers[b], 0, WEIR_READ_WRITE, 0, &address));
  loop.steps(300);
  assert_in_range(loop.late_in(2 * looped), 0, few);
  for (size_t b = 0; b < held; ++b) {
    assert_int_equal(query(world, loop.buffers[b]).device_bytes, page_bytes);
    ok(weir_unhold(world.pool, loop.buffers[b]));
  }
  loop.steps(300);
  assert_in_range(loop.late_in(2 * looped), 0, few);
  loop.destroy();
  close_clean(world);
}

/// Another pool takes what the plan counts on: the runtime refuses memory that is within the budget.
void the_budget_is_lowered_while_a_plan_runs(void **) {
  World world = world_of({.options = "host.memory=1280K;host.granule=16K;host.granule_large=0"});
  weir_pool_device device = {0, 0, 40 * page_bytes, {0, 0}};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = 1;
  desc.devices = &device;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = 64 * page_bytes;
  desc.page_size = desc.large_page_size = page_bytes;
  World other(world.context, nullptr);
  ok(weir_pool_create(world.context, &desc, &other.pool));
  ok(weir_stream_create(world.context, 0, 0, &other.streams[0]));
  Loop loop(world);
  begin(loop);
  ok(trim_all(world));
  weir_buffer taken = other.buffer(36 * page_bytes);
  other.fill(taken, 36 * page_bytes, 5);
  loop.steps(300);
  assert_true(world.stats().device_oom > 0);
  const uint64_t budget = world.stats().device_budget / page_bytes;
  assert_in_range(budget, 30, 50);
  assert_true(loop.planned());
  assert_in_range(loop.late_in(2 * looped), 0, few);
  assert_int_equal(world.stats().device_budget / page_bytes, budget);
  other.check(taken, 36 * page_bytes, 5);
  ok(weir_buffer_destroy(other.pool, taken));
  ok(weir_pool_destroy(other.pool));
  ok(weir_stream_close(other.streams[0]));
  loop.destroy();
  ok(weir_pool_destroy(world.pool));
  ok(weir_stream_close(world.streams[0]));
  ok(weir_context_destroy(world.context));
}

void the_device_of_a_plan_leaves_and_comes_back(void **) {
  World world = world_of({.devices = 2});
  Loop here(world, 0), there(world, 1);
  here.add(looped);
  there.add(looped);
  for (int round = 0; round < 20; ++round) {
    here.steps(10);
    there.steps(10);
  }
  assert_true(here.planned() && there.planned());
  ok(weir_pool_remove_device(world.pool, 1, WEIR_INFINITE));
  here.look();
  assert_false(there.planned());
  // Its buffers are at home on the other one now, whose plan has them when they are used.
  assert_int_equal(query(world, there.buffers[0]).home, 0);
  for (size_t b = 0; b < there.buffers.size(); b += 9)
    world.check_read(there.buffers[b], page_bytes, there.seeds[b]);
  here.steps(300);
  assert_true(here.planned());
  assert_in_range(here.late_in(2 * looped), 0, few);
  const weir_pool_device entry = {1, 0, pages * page_bytes, {0, 0}};
  ok(weir_pool_add_device(world.pool, &entry));
  for (int round = 0; round < 20; ++round) {
    here.steps(10);
    there.steps(10);
  }
  here.destroy();
  there.destroy();
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// A client's fetches that its quota has no room for are not waited for: those of others come, and well ahead.
void a_client_at_its_quota_keeps_no_other_client_waiting(void **) {
  constexpr uint64_t ahead = 6;  // operations
  World world = world_of({});
  weir_client clients[2] = {};
  for (int i = 0; i < 2; ++i) {
    weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    desc.device_quota = i == 0 ? 2 * page_bytes : 0;
    desc.name = "tenant";
    ok(weir_client_create(world.pool, &desc, &clients[i]));
  }
  Loop loop(world);
  loop.writes = false;
  for (int i = 0; i < 20; ++i) {
    loop.add(1, clients[0], 1);  // given up last, so that its quota stays full
    loop.add(4, clients[1]);
  }
  loop.steps(2 * looped);
  assert_true(loop.planned());
  uint64_t absent = 0, looked = 0;
  for (uint32_t i = 0; i < 2 * looped; ++i) {
    loop.steps(1);
    loop.look();
    for (uint64_t next = loop.done; next < loop.done + ahead; ++next) {
      const size_t b = next % loop.buffers.size();
      if (b % 5 == 0) continue;
      ++looked;
      absent += query(world, loop.buffers[b]).device_bytes == 0 ? 1 : 0;
    }
  }
  // Of all: what the plan has kept for the one that can't have it is missing at times.
  assert_in_range(absent, 0, looked / 7);
  // What it has no room for it does not have.
  weir_client_stats stats = WEIR_CLIENT_STATS_INIT;
  ok(weir_client_stats_get(clients[0], &stats));
  assert_true(stats.device_bytes <= 2 * page_bytes);
  loop.destroy();
  ok(weir_client_destroy(clients[0]));
  ok(weir_client_destroy(clients[1]));
  close_clean(world);
}

/// Others have taken room that the plan does not know of yet.
void take_unseen(World &world, weir_buffer *other, uint64_t count) {
  *other = world.buffer(count * page_bytes);
  world.fill(*other, count * page_bytes, 9, 1);
}

/// What a plan has not given up is not evicted for what it wants: it waits for room.
void a_plan_s_fetch_takes_nothing_that_no_plan_has_given_up(void **) {
  World world = world_with_others();
  Loop loop(world);
  begin(loop);
  weir_buffer other = nullptr;
  take_unseen(world, &other, 24);
  uint64_t looks = 0;
  for (int i = 0; i < 60; ++i) {
    loop.step();
    const weir_pool_stats before = world.stats();
    const uint64_t there = query(world, other).device_bytes;
    loop.look();
    ++looks;
    assert_int_equal(query(world, other).device_bytes, there);
    assert_int_equal(world.stats().device_bytes, before.device_bytes);
  }
  assert_int_equal(looks, 60);
  ok(weir_buffer_destroy(world.pool, other));
  loop.destroy();
  close_clean(world);
}

/// Memory is kept free by what the plan has given up, not by what it wants next, which was used longest ago.
void memory_is_kept_free_by_what_a_plan_has_given_up(void **) {
  World world = world_of({.low_permille = 100});
  Loop loop(world);
  begin(loop);
  uint64_t late = 0, evicted = 0;
  for (uint32_t i = 0; i < 2 * looped; ++i) {
    late += loop.late_in(1);
    loop.look();  // room for what is written next is given up, and not taken yet
    const uint64_t before = world.stats().evictions;
    while (engine_of(world).upkeep().look_at_room()) continue;
    evicted += world.stats().evictions - before;
  }
  assert_in_range(late, 0, few);
  assert_true(evicted > 0);
  loop.destroy();
  close_clean(world);
}

/// Laps that are announced one by one, as each ends: what had no further use has one again.
void what_is_announced_later_is_planned_as_well(void **) {
  World world = world_of({});
  Loop loop(world);
  begin(loop);
  for (int i = 0; i < 10; ++i) {
    const weir_pool_stats before = world.stats();
    assert_in_range(loop.late_in(looped), 0, few / 2);
    assert_true(world.stats().prefetched_bytes > before.prefetched_bytes);
  }
  loop.destroy();
  close_clean(world);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(bytes_are_held_while_a_plan_runs),
      cmocka_unit_test(memory_is_allocated_while_a_plan_runs),
      cmocka_unit_test(buffers_of_a_plan_are_held_while_it_runs),
      cmocka_unit_test(the_budget_is_lowered_while_a_plan_runs),
      cmocka_unit_test(the_device_of_a_plan_leaves_and_comes_back),
      cmocka_unit_test(a_client_at_its_quota_keeps_no_other_client_waiting),
      cmocka_unit_test(a_plan_s_fetch_takes_nothing_that_no_plan_has_given_up),
      cmocka_unit_test(memory_is_kept_free_by_what_a_plan_has_given_up),
      cmocka_unit_test(what_is_announced_later_is_planned_as_well),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
