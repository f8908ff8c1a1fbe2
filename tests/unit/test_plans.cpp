// SPDX-License-Identifier: Apache-2.0
//
// Plans carried out step by step, in a pool without threads of its own: what is announced is brought by its date, and as often as has to
// be; what a plan has done with is cleaned where it lies, and stays if it is used after all; a plan that comes out otherwise than planned
// costs time and no byte.

#include "tests/unit/interleaving.hpp"

#include <random>

namespace {

using namespace weir::test;

World world_of(const char *policy, uint64_t host_pages = 256) {
  return World({.device_pages = 64, .host_pages = host_pages, .policy = policy});
}

/// A program like a training's: forwards each operation writes a buffer of a page, backwards each reads one, the last first, which is
/// destroyed then. All of it is announced.
struct Program {
  World &world;
  uint64_t flags;
  std::vector<weir_buffer> buffers;  ///< nullptr: destroyed
  std::vector<uint32_t> seeds;
  struct Operation {
    size_t buffer;
    uint32_t mode;
  };
  std::vector<Operation> operations;
  size_t done = 0;
  uint32_t written = 0;

  int32_t priority = 0;
  uint32_t important = 0;  ///< so many of the first have a higher one

  explicit Program(World &world_, uint64_t flags_ = 0) : world(world_), flags(flags_) {}
  void create(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
      desc.size = page_bytes;
      desc.flags = flags;
      desc.priority = buffers.size() < important ? WEIR_PRIORITY_HIGH : priority;
      weir_buffer made = nullptr;
      ok(weir_buffer_create(world.pool, &desc, &made));
      buffers.push_back(made);
      seeds.push_back(0);
    }
  }
  void begin_round(uint32_t count, uint64_t announce_flags = 0) {
    const size_t first = buffers.size();
    create(count);
    operations.clear();
    done = 0;
    for (size_t i = 0; i < count; ++i) operations.push_back({first + i, WEIR_DISCARD_WRITE});
    for (size_t i = count; i-- > 0;) operations.push_back({first + i, WEIR_READ});
    announce(announce_flags);
  }
  void announce(uint64_t announce_flags) {
    std::vector<weir_use> uses;
    std::vector<weir_operation> announced;
    for (const Operation &operation : operations)
      uses.push_back(WEIR_USE(buffers[operation.buffer], operation.mode));
    for (weir_use &use : uses) {
      announced.push_back(WEIR_OPERATION_INIT);
      announced.back().uses = &use;
      announced.back().use_count = 1;
    }
    ok(weir_announce(world.pool, world.streams[0], announced.data(), announced.size(),
                     announce_flags));
  }
  bool look() { return engine_of(world).upkeep().look_at_plans(); }
  void look_until_done() {
    while (look()) continue;
  }
  void run(const Operation &operation) {
    uint32_t &seed = seeds[operation.buffer];
    Kernel kernel{.bytes = page_bytes, .seed = seed};
    if (operation.mode != WEIR_READ) kernel.seed = seed = ++written;
    ok(weir::test::run(world, buffers[operation.buffer], operation.mode, &kernel));
    assert_int_equal(kernel.wrong, 0);
  }
  void destroy(size_t buffer) {
    ok(weir_buffer_destroy(world.pool, buffers[buffer]));
    buffers[buffer] = nullptr;
  }
  /// As announced; the plan keeps pace, if it is to.
  void run_until(size_t operation, bool keeps_pace = true) {
    for (; done < operation; ++done) {
      if (keeps_pace) look_until_done();
      run(operations[done]);
      if (operations[done].mode == WEIR_READ) destroy(operations[done].buffer);
    }
  }
  void run_all(bool keeps_pace = true) { run_until(operations.size(), keeps_pace); }
  /// What is left is what was written.
  void end() {
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i] == nullptr) continue;
      if (seeds[i] != 0) world.check(buffers[i], page_bytes, seeds[i]);
      destroy(i);
    }
    close_clean(world);
  }
};

constexpr uint32_t pages = 64;     // of the device
constexpr uint32_t larger = 96;    // of a round
constexpr uint32_t kept_free = 4;  // at most, of what a plan may have

/// What a round has copied, in pages.
struct Copied {
  uint64_t up, ahead, down, behind;
};
Copied round_of(Program &program) {
  const weir_pool_stats before = program.world.stats();
  program.begin_round(larger);
  program.run_all();
  const weir_pool_stats after = program.world.stats();
  assert_int_equal(after.eviction_failures, before.eviction_failures);
  return {(after.promoted_bytes - before.promoted_bytes) / page_bytes,
          (after.prefetched_bytes - before.prefetched_bytes) / page_bytes,
          (after.demoted_bytes - before.demoted_bytes) / page_bytes,
          (after.background_demoted_bytes - before.background_demoted_bytes) / page_bytes};
}

/// No policy can do with less than what does not fit, once down and once up.
void a_plan_moves_what_does_not_fit_and_no_more(void **) {
  World world = world_of("auto");
  Program program(world);
  for (int round = 0; round < 3; ++round) {
    const Copied copied = round_of(program);
    assert_in_range(copied.up, larger - pages, larger - pages + kept_free);
    assert_in_range(copied.down, larger - pages, larger - pages + kept_free);
  }
  program.end();
}

void what_is_planned_is_there_when_it_is_needed(void **) {
  World world = world_of("auto");
  Program program(world);
  const Copied copied = round_of(program);
  assert_int_equal(copied.ahead, copied.up);
  program.end();
}

/// Dirty pages leave by a copy that no thread waits for: by the time their room is needed they are clean.
void what_is_given_up_is_cleaned_where_it_lies(void **) {
  World world = world_of("auto");
  Program program(world);
  const Copied copied = round_of(program);
  assert_int_equal(copied.behind, copied.down);
  program.end();
}

void what_is_cleaned_is_still_on_the_device(void **) {
  World world = world_of("auto");
  Program program(world);
  program.begin_round(larger);
  program.run_until(pages / 2);
  program.look_until_done();
  uint64_t there = 0, clean = 0;
  for (size_t i = 0; i < pages / 2; ++i) {
    const weir_buffer_info info = query(world, program.buffers[i]);
    there += info.device_bytes / page_bytes;
    clean += info.both_bytes / page_bytes;
  }
  assert_int_equal(there, pages / 2);
  assert_true(clean > pages / 4);
  program.end();
}

/// The cleaner does not wait for a kernel: pages that one still works on are cleaned when it has ended.
void work_that_has_not_ended_is_not_waited_for(void **) {
  World world = world_of("auto");
  Program program(world);
  program.begin_round(larger);
  program.look_until_done();
  std::atomic<bool> go{false};
  const auto wait = [](void *user) {
    while (!static_cast<std::atomic<bool> *>(user)->load()) std::this_thread::yield();
  };
  ok(weir_stream_host_call(world.streams[0], wait, &go));
  std::vector<Kernel> kernels(pages / 2);
  for (Kernel &kernel : kernels) {
    const size_t buffer = program.operations[program.done++].buffer;
    kernel.bytes = page_bytes;
    kernel.seed = program.seeds[buffer] = ++program.written;
    weir_lease lease = nullptr;
    ok(world.acquire(program.buffers[buffer], WEIR_DISCARD_WRITE, &lease, &kernel.address));
    ok(weir_stream_host_call(world.streams[0], Kernel::write, &kernel));
    ok(weir_release(lease, world.streams[0]));
  }
  program.look_until_done();  // would stand still
  assert_int_equal(world.stats().background_demoted_bytes, 0);
  go.store(true);
  ok(weir_stream_synchronize(world.streams[0]));
  program.look_until_done();
  assert_true(world.stats().background_demoted_bytes > pages / 4 * page_bytes);
  program.end();
}

/// Copies in a HOST that is full would push each other out.
void a_full_host_ends_the_cleaning(void **) {
  constexpr uint64_t host_pages = 8;
  World world = world_of("auto", host_pages);
  Program program(world);
  program.begin_round(larger);
  program.run_until(pages / 2);
  program.look_until_done();
  assert_in_range(world.stats().background_demoted_bytes / page_bytes, 1, host_pages);
  program.end();
}

void what_others_hold_is_not_planned_with(void **) {
  constexpr uint32_t held = 16;
  World world = world_of("auto");
  weir_buffer other = world.buffer(held * page_bytes);
  world.fill(other, held * page_bytes, 1);
  uint64_t address = 0;
  ok(weir_hold(world.pool, other, 0, &address));
  Program program(world);
  const Copied copied = round_of(program);
  assert_int_equal(copied.ahead, copied.up);
  assert_int_equal(copied.behind, copied.down);
  assert_in_range(copied.up, larger - pages + held, larger - pages + held + kept_free);
  ok(weir_unhold(world.pool, other));
  ok(weir_buffer_destroy(world.pool, other));
  program.end();
}

/// The same program, without a planner.
void lru_window_does_none_of_this(void **) {
  World world = world_of("lru-window");
  Program program(world);
  const Copied copied = round_of(program);
  assert_true(copied.up > larger - pages + 8 || copied.ahead < copied.up);
  assert_true(copied.behind == 0);
  program.end();
}

/// A copy of a secret outside of the device has to be overwritten in its turn: it is made when it has to be.
void a_secret_is_not_copied_ahead(void **) {
  World world = world_of("auto");
  Program program(world, WEIR_BUFFER_SCRUB);
  assert_int_equal(round_of(program).behind, 0);
  program.end();
}

/// Where all have the same it changes nothing.
void a_priority_that_all_have_is_none(void **) {
  World world = world_of("auto");
  Program program(world);
  program.priority = WEIR_PRIORITY_HIGH;
  const Copied copied = round_of(program);
  assert_int_equal(copied.behind, copied.down);
  assert_in_range(copied.up, larger - pages, larger - pages + kept_free);
  program.end();
}

/// Of what is written first, and read last, a plan would give up the most: here it has a priority, and the others leave.
void those_of_higher_priority_stay(void **) {
  for (const bool raised : {false, true}) {
    World world = world_of("auto");
    Program program(world);
    constexpr uint32_t important = pages / 2;
    program.important = raised ? 0 : important;
    program.begin_round(larger);
    if (raised) {  // when it has been announced
      for (uint32_t b = 0; b < important; ++b)
        ok(weir_buffer_set_priority(world.pool, program.buffers[b], WEIR_PRIORITY_HIGH));
    }
    program.run_until(larger);
    for (uint32_t b = 0; b < important; ++b)
      assert_int_equal(query(world, program.buffers[b]).device_bytes, page_bytes);
    const weir_pool_stats stats = world.stats();
    assert_int_equal(stats.demoted_bytes, stats.background_demoted_bytes);
    assert_true(stats.background_demoted_bytes >= (larger - pages) * page_bytes);
    program.run_all();
    program.end();
  }
}

/// The program does something else than it has announced: all of its bytes are right.
void a_plan_that_is_wrong_costs_no_byte(void **) {
  World world = world_of("auto");
  Program program(world);
  std::mt19937 random(3);
  for (int round = 0; round < 3; ++round) {
    program.begin_round(larger, WEIR_ANNOUNCE_REPLACE);
    for (size_t i = 0; i < 300; ++i) {
      if (random() % 2 == 0) program.look();
      const uint32_t modes[] = {WEIR_READ, WEIR_READ_WRITE, WEIR_DISCARD_WRITE};
      const size_t buffer = random() % program.buffers.size();
      const uint32_t mode = modes[program.seeds[buffer] == 0 ? 2 : random() % 3];
      if (program.buffers[buffer] != nullptr) program.run({buffer, mode});
      if (random() % 16 == 0) validate(world);
    }
  }
  program.end();
}

void buffers_of_a_plan_may_die(void **) {
  World world = world_of("auto");
  Program program(world);
  program.begin_round(larger);
  program.run_until(larger + 10);
  for (size_t i = 0; i < larger / 2; i += 3) {
    program.destroy(i);
    program.look_until_done();
    validate(world);
  }
  for (; program.done < program.operations.size(); ++program.done) {
    program.look_until_done();
    if (program.buffers[program.operations[program.done].buffer] != nullptr)
      program.run(program.operations[program.done]);
  }
  program.end();
}

/// What has been announced since counts; and nothing, once it has been taken back.
void a_plan_follows_what_is_announced_anew(void **) {
  World world = world_of("auto");
  Program program(world);
  program.begin_round(larger);
  program.run_until(larger);
  ok(weir_announce(world.pool, world.streams[0], nullptr, 0, WEIR_ANNOUNCE_REPLACE));
  program.look_until_done();
  const weir_pool_stats before = world.stats();
  program.run_until(larger + larger / 2);
  assert_int_equal(world.stats().prefetched_bytes, before.prefetched_bytes);
  assert_int_equal(world.stats().background_demoted_bytes, before.background_demoted_bytes);
  program.run_all();
  const Copied copied = round_of(program);
  assert_int_equal(copied.ahead, copied.up);
  program.end();
}

/// The plan ends while what it wants is being brought: the next one has its fetches all the same.
void a_plan_that_ends_amid_a_fetch_leaves_the_next_its_own(void **) {
  World world = world_of("auto");
  Program program(world);
  program.begin_round(larger);
  program.run_until(larger);
  bool met = false;
  while (!met && program.done < program.operations.size()) {
    Gate gate(world.pool, "fill");
    Task looker([&] {
      program.look_until_done();
      return WEIR_SUCCESS;
    });
    while (!gate.standing() && !looker.ended()) std::this_thread::yield();
    met = gate.standing();
    if (met) ok(weir_announce(world.pool, world.streams[0], nullptr, 0, WEIR_ANNOUNCE_REPLACE));
    gate.open();
    ok(looker.join());
    program.run_until(program.done + 1, false);
  }
  assert_true(met);
  program.run_all(false);
  const Copied copied = round_of(program);
  assert_int_equal(copied.ahead, copied.up);
  program.end();
}

/// Room is needed elsewhere while a plan is followed.
void memory_is_taken_back_from_a_plan(void **) {
  World world = world_of("auto");
  Program program(world);
  program.begin_round(larger);
  for (size_t i = 0; i < 2 * larger; ++i) {
    program.run_until(i + 1);
    uint64_t address = 0;
    if (i % 16 == 0) ok(trim_all(world));
    if (i == 40) ok(weir_hold(world.pool, program.buffers[0], 0, &address));
    if (i == 150) ok(weir_unhold(world.pool, program.buffers[0]));
    validate(world);
  }
  program.end();
}

/// The page that is being copied is wanted by a writer, which waits: HOST has the version before, the device the new one.
void a_writer_waits_for_the_copy_of_what_is_cleaned(void **) {
  World world = world_of("auto");
  Program program(world);
  program.begin_round(larger);
  program.run_until(pages / 2, false);
  {
    Gate gate(world.pool, "evict.claimed");
    Task cleaner([&] {
      program.look_until_done();
      return WEIR_SUCCESS;
    });
    gate.await();
    Kernel kernel{.bytes = page_bytes, .seed = program.seeds[0] = ++program.written};
    Task writer(
        [&] { return weir::test::run(world, program.buffers[0], WEIR_READ_WRITE, &kernel); });
    assert_true(keeps_waiting(writer));
    gate.open();
    ok(cleaner.join());
    ok(writer.join());
  }
  validate(world);
  const weir_buffer_info info = query(world, program.buffers[0]);
  assert_int_equal(info.device_bytes, page_bytes);
  assert_int_equal(info.both_bytes, 0);
  program.end();
}

/// A look for what to bring meets it on its way out: it is brought when it has left, not taken for being there.
void what_leaves_as_it_is_wanted_is_brought_afterwards(void **) {
  const uint64_t small = 2 * page_bytes, large = pages * page_bytes;  // for which all others go
  World world = world_of("auto");
  weir_buffer wanted = world.buffer(small), between = world.buffer(small),
              other = world.buffer(large);
  std::vector<weir_use> uses = {WEIR_USE(wanted, WEIR_DISCARD_WRITE),
                                WEIR_USE(between, WEIR_DISCARD_WRITE),
                                WEIR_USE(other, WEIR_DISCARD_WRITE)};
  uses.resize(200, WEIR_USE(wanted, WEIR_READ));  // enough to be worth a plan
  std::vector<weir_operation> operations(uses.size(), weir_operation WEIR_OPERATION_INIT);
  for (size_t i = 0; i < uses.size(); ++i) {
    operations[i].uses = &uses[i];
    operations[i].use_count = 1;
  }
  ok(weir_announce(world.pool, world.streams[0], operations.data(), operations.size(), 0));
  Program program(world);
  program.look_until_done();
  Kernel kernels[] = {
      {.bytes = small, .seed = 1}, {.bytes = small, .seed = 2}, {.bytes = large, .seed = 3}};
  ok(weir::test::run(world, wanted, WEIR_DISCARD_WRITE, &kernels[0]));
  ok(weir::test::run(world, between, WEIR_DISCARD_WRITE, &kernels[1]));
  {
    Gate gate(world.pool, "evict.claimed");
    Task writer([&] { return weir::test::run(world, other, WEIR_DISCARD_WRITE, &kernels[2]); });
    gate.await();  // with the first in hand
    program.look_until_done();
    assert_int_equal(world.stats().prefetched_bytes, 0);
    gate.open();
    ok(writer.join());
  }
  assert_int_equal(query(world, wanted).device_bytes, 0);
  ok(weir_buffer_destroy(world.pool, other));
  program.look_until_done();
  assert_int_equal(world.stats().plan_fetched_bytes, small);
  assert_int_equal(query(world, wanted).device_bytes, small);
  world.check(wanted, small, 1);
  ok(weir_buffer_destroy(world.pool, wanted));
  ok(weir_buffer_destroy(world.pool, between));
  close_clean(world);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_plan_moves_what_does_not_fit_and_no_more),
      cmocka_unit_test(what_is_planned_is_there_when_it_is_needed),
      cmocka_unit_test(what_is_given_up_is_cleaned_where_it_lies),
      cmocka_unit_test(what_is_cleaned_is_still_on_the_device),
      cmocka_unit_test(work_that_has_not_ended_is_not_waited_for),
      cmocka_unit_test(a_full_host_ends_the_cleaning),
      cmocka_unit_test(what_others_hold_is_not_planned_with),
      cmocka_unit_test(lru_window_does_none_of_this),
      cmocka_unit_test(a_secret_is_not_copied_ahead),
      cmocka_unit_test(a_priority_that_all_have_is_none),
      cmocka_unit_test(those_of_higher_priority_stay),
      cmocka_unit_test(a_plan_that_is_wrong_costs_no_byte),
      cmocka_unit_test(buffers_of_a_plan_may_die),
      cmocka_unit_test(a_plan_follows_what_is_announced_anew),
      cmocka_unit_test(a_plan_that_ends_amid_a_fetch_leaves_the_next_its_own),
      cmocka_unit_test(memory_is_taken_back_from_a_plan),
      cmocka_unit_test(a_writer_waits_for_the_copy_of_what_is_cleaned),
      cmocka_unit_test(what_leaves_as_it_is_wanted_is_brought_afterwards),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
