// SPDX-License-Identifier: Apache-2.0
//
// A pool that loads what another has learned plans in its first round what the other planned in its second: what leaves is brought back
// ahead of its use. A pool that loads nothing brings nothing ahead in its first round.
//
// The pool's own threads do it, so the program waits for them where it wants to see what they do; no assertion depends on how fast they are.

#include "tests/unit/interleaving.hpp"

#include "tests/abi/saved_policy.hpp"

namespace {

using namespace weir::test;

constexpr uint32_t device_pages = 64, larger = 96;

void learn(weir_context context) {
  reinterpret_cast<weir::pool::Context *>(context)->learns = true;
}
World world_of() {
  return World({.device_pages = device_pages,
                .host_pages = 256,
                .flags = 0,
                .policy = "auto",
                .before_pool = learn});
}

/// Forwards each operation writes a buffer of a page, backwards each reads one, the last first, which is destroyed then.
struct Program {
  World &world;
  uint32_t learned_before;  ///< operations
  uint32_t done = 0;
  std::vector<weir_buffer> buffers;

  explicit Program(World &world_, uint32_t loaded = 0) : world(world_), learned_before(loaded) {}

  void operation(weir_buffer buffer, uint32_t mode, const std::string &name, uint32_t seed) {
    Kernel kernel{.bytes = page_bytes, .seed = seed};
    weir_use use = WEIR_USE(buffer, mode);
    weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
    options.operation = name.c_str();
    weir_lease lease = nullptr;
    weir_result result = WEIR_ERROR_WOULD_BLOCK;
    while (result == WEIR_ERROR_WOULD_BLOCK)
      result = weir_acquire(world.pool, world.streams[0], &use, 1, &options, &lease);
    ok(result);
    kernel.address = use.address;
    ok(weir_stream_host_call(world.streams[0], mode == WEIR_READ ? Kernel::compare : Kernel::write,
                             &kernel));
    ok(weir_release(lease, world.streams[0]));
    ok(weir_stream_synchronize(world.streams[0]));
    assert_int_equal(kernel.wrong, 0);
    ++done;
  }
  /// The pool's thread has learned of all operations so far.
  void be_learned_from() { (void)saved_with(world.pool, learned_before + done); }
  void forward() {
    for (uint32_t i = 0; i < larger; ++i) {
      buffers.push_back(world.buffer(page_bytes));
      operation(buffers[i], WEIR_DISCARD_WRITE, "up " + std::to_string(i), i);
      be_learned_from();
    }
  }
  /// `waits`: what is not there is waited for.
  void backward(bool waits) {
    for (uint32_t i = larger; i-- > 0;) {
      read(i, waits, "down ");
      ok(weir_buffer_destroy(world.pool, buffers[i]));
    }
    buffers.clear();
  }
  void read(uint32_t i, bool waits, const std::string &name) {
    for (int look = 0; waits && look < 20000; ++look) {
      if (query(world, buffers[i]).device_bytes != 0) break;
      std::this_thread::yield();
    }
    operation(buffers[i], WEIR_READ, name + std::to_string(i), i);
    be_learned_from();
  }
};

void a_first_round_is_planned_by_what_was_loaded(void **) {
  Bytes bytes;
  {
    World world = world_of();
    Program program(world);
    program.forward();
    program.backward(false);
    const weir_pool_stats stats = world.stats();
    assert_int_equal(stats.prefetched_bytes, 0);  // it was not known what comes
    assert_in_range(stats.promoted_bytes / page_bytes, larger - device_pages, larger);
    bytes = saved(world.pool);
    world.close();
  }
  World world = world_of();
  ok(weir_pool_policy_load(world.pool, bytes.data(), bytes.size()));
  Program program(world, operations_in(bytes));
  program.forward();
  program.backward(true);
  const weir_pool_stats stats = world.stats();
  const uint64_t ahead = stats.prefetched_bytes / page_bytes,
                 up = stats.promoted_bytes / page_bytes;
  print_message("%llu pages up, %llu of them ahead; %llu cleaned ahead\n",
                static_cast<unsigned long long>(up), static_cast<unsigned long long>(ahead),
                static_cast<unsigned long long>(stats.background_demoted_bytes / page_bytes));
  assert_true(ahead >= (larger - device_pages) / 2);
  assert_true(2 * ahead >= up);
  validate(world);
  world.close();
}

/// Buffers that are there when it is loaded are known to what is loaded.
void buffers_that_were_before_the_load_have_their_parts(void **) {
  Bytes bytes;
  for (const bool warm : {false, true}) {
    World world = world_of();
    Program program(world);
    for (uint32_t i = 0; i < larger; ++i) program.buffers.push_back(world.buffer(page_bytes));
    if (warm) {
      // With the first birth that is learned of, memory is taken to learn: more than all else.
      constexpr uint64_t for_learning = uint64_t{30} << 20;
      while (world.stats().bookkeeping_bytes < for_learning) std::this_thread::yield();
      ok(weir_pool_policy_load(world.pool, bytes.data(), bytes.size()));
      program.learned_before = operations_in(bytes);
    }
    for (uint32_t i = 0; i < larger; ++i) {
      program.operation(program.buffers[i], WEIR_DISCARD_WRITE, "load " + std::to_string(i), i);
      program.be_learned_from();
    }
    for (uint32_t i = 0; i < larger; ++i) program.read(i, warm, "use ");
    assert_int_equal(world.stats().prefetched_bytes != 0, warm);
    if (!warm) bytes = saved(world.pool);
    for (weir_buffer buffer : program.buffers) ok(weir_buffer_destroy(world.pool, buffer));
    validate(world);
    world.close();
  }
}

/// The planner's thread makes a learner without the lock: what is loaded by then is what the pool has.
void what_is_loaded_while_the_pool_begins_to_learn_stays(void **) {
  Bytes bytes;
  {
    World world = world_of();
    Program program(world);
    program.forward();
    program.backward(false);
    bytes = saved(world.pool);
    world.close();
  }
  World world = world_of();
  weir_buffer buffer = nullptr;
  {
    Stops stops(world, {"learner.made"});
    buffer = world.buffer(page_bytes);
    stops.await("learner.made");
    ok(weir_pool_policy_load(world.pool, bytes.data(), bytes.size()));
    stops.let_go("learner.made");
    Program program(world);
    program.operation(buffer, WEIR_DISCARD_WRITE, "up 0", 0);
    while (world.stats().learned_operations == 0) std::this_thread::yield();
  }
  assert_int_equal(operations_in(saved(world.pool)), operations_in(bytes) + 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  validate(world);
  world.close();
}

/// What comes while the planner's thread has seen nothing yet waits for a learner.
void the_first_operation_is_learned(void **) {
  World world = world_of();
  weir_buffer buffer = nullptr;
  {
    Stops stops(world, {"log.looked"});
    stops.await("log.looked");
    buffer = world.buffer(page_bytes);
    Program(world).operation(buffer, WEIR_DISCARD_WRITE, "first", 0);
    stops.let_go("log.looked");
  }
  (void)saved_with(world.pool, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// A device that comes leaves less memory to learn for each: all begin anew, and two pasts are not mixed.
void what_is_forgotten_while_it_is_saved_is_left_out(void **) {
  World world =
      World({.options = "host.devices=2;host.memory=8M;host.granule=16K;host.granule_large=0",
             .device_pages = device_pages,
             .host_pages = 256,
             .flags = 0,
             .devices = 2,
             .pool_devices = 1,
             .policy = "auto",
             .before_pool = learn});
  uint64_t nothing = 0, needed = 0;
  ok(weir_pool_policy_save(world.pool, nullptr, 0, &nothing));
  Program program(world);
  program.forward();
  for (uint32_t i = 0; i < larger; ++i) program.read(i, false, "use ");
  weir_pool_device more = {};
  more.device = 1;
  more.budget = device_pages * page_bytes;
  weir_buffer there = nullptr;
  {
    Gate gate(world.pool, "save");
    Task saver([&] { return weir_pool_policy_save(world.pool, nullptr, 0, &needed); });
    gate.await();  // with room for operations
    gate.next("save");
    gate.await();  // with the first of them
    const uint64_t learned = world.stats().learned_operations;
    ok(weir_pool_add_device(world.pool, &more));
    there = world.buffer(page_bytes, 1);
    world.fill(there, page_bytes, 1, 1);
    while (world.stats().learned_operations == learned) std::this_thread::yield();
    gate.open();
    ok(saver.join());
  }
  assert_int_equal(needed, nothing);
  ok(weir_buffer_destroy(world.pool, there));
  for (weir_buffer buffer : program.buffers) ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_first_operation_is_learned),
      cmocka_unit_test(a_first_round_is_planned_by_what_was_loaded),
      cmocka_unit_test(what_is_loaded_while_the_pool_begins_to_learn_stays),
      cmocka_unit_test(what_is_forgotten_while_it_is_saved_is_left_out),
      cmocka_unit_test(buffers_that_were_before_the_load_have_their_parts),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
