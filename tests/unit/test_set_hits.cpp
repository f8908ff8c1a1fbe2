// SPDX-License-Identifier: Apache-2.0
//
// Sets on the hit path: up to 1,024 whole resident buffers, or 64 on a stream that is learned from, are leased and released without the
// pool's lock, from the second such set of a stream on (the first gets the record its room). A set that is refused half way leaves
// nothing behind, and the learner is told of each as one operation.

#include <algorithm>
#include <initializer_list>
#include <map>
#include <random>

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "core/lease/use_log.hpp"

#include "tests/support/watchdog.hpp"
#include "tests/unit/lock_holder.hpp"

namespace {

using namespace weir::test;

constexpr size_t most = 1024, most_logged = 64;
constexpr const char *wide = "host.memory=32M;host.granule=16K";

void learn(weir_context context) {
  reinterpret_cast<weir::pool::Context *>(context)->learns = true;
}

struct Scene {
  World world;
  std::vector<weir_buffer> buffers;
  std::vector<uint64_t> addresses;

  explicit Scene(const Setup &setup, size_t count) : world(setup), addresses(count) {
    for (size_t i = 0; i < count; ++i) {
      buffers.push_back(world.buffer(page_bytes));
      weir_lease lease = nullptr;
      ok(world.acquire(buffers[i], WEIR_DISCARD_WRITE, &lease, &addresses[i]));
      ok(weir_release(lease, world.streams[0]));
    }
    ok(weir_stream_synchronize(world.streams[0]));
  }
  std::vector<weir_use> uses(size_t count, uint32_t mode) const {
    std::vector<weir_use> all;
    for (size_t i = 0; i < count; ++i) all.push_back(WEIR_USE(buffers[i], mode));
    return all;
  }
  weir_result acquire(std::vector<weir_use> *all, weir_lease *lease) {
    return weir_acquire(world.pool, world.streams[0], all->data(), all->size(), nullptr, lease);
  }
  void use(size_t count, uint32_t mode) {
    std::vector<weir_use> all = uses(count, mode);
    weir_lease lease = nullptr;
    ok(acquire(&all, &lease));
    for (size_t i = 0; i < count; ++i) assert_int_equal(all[i].address, addresses[i]);
    ok(weir_release(lease, world.streams[0]));
  }
  void close() {
    for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
};

void without_the_pools_lock(const Setup &setup, std::initializer_list<size_t> counts) {
  Watchdog dog;
  Scene scene(setup, std::max(counts));
  for (const size_t count : counts) {
    for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE, WEIR_DISCARD_WRITE}) {
      scene.use(count, mode);
      dog.at("a set beside a thread that holds the pool's lock");
      const LockHolder holder(scene.world);
      for (int i = 0; i < 3; ++i) scene.use(count, mode);
    }
  }
  dog.at("the end");
  scene.close();
  dog.stop();
}

void sets_take_no_lock(void **) {
  without_the_pools_lock({.device_pages = most}, {1, 2, 4, 5, 8, 16, 64, 65, most - 1, most});
}
void sets_of_streams_that_are_learned_from_take_none(void **) {
  without_the_pools_lock({.device_pages = 128, .flags = 0, .before_pool = learn},
                         {1, 2, 4, 5, 8, 16, most_logged - 1, most_logged});
}
/// Larger ones are granted all the same, with all their addresses.
void a_set_may_be_larger_than_that(void **) {
  Scene scene({.options = wide, .device_pages = most + 1}, most + 1);
  for (int i = 0; i < 3; ++i) scene.use(most + 1, WEIR_READ_WRITE);
  assert_string_equal(engine_of(scene.world).validate().c_str(), "");
  scene.close();
}

/// Several sets of a stream are out at once, in whatever order they end, and of sizes for which their records have room or not.
void many_sets_are_out(void **) {
  Scene scene({.device_pages = 128}, 65);
  std::mt19937 random(7);
  std::vector<weir_lease> out;
  for (int step = 0; step < 2000; ++step) {
    if (out.size() < 40 && random() % 2 == 0) {
      std::vector<weir_use> all = scene.uses(1 + random() % 65, WEIR_READ);
      weir_lease lease = nullptr;
      ok(scene.acquire(&all, &lease));
      for (size_t i = 0; i < all.size(); ++i) assert_int_equal(all[i].address, scene.addresses[i]);
      out.push_back(lease);
    } else if (!out.empty()) {
      std::swap(out[random() % out.size()], out.back());
      ok(weir_release(out.back(), scene.world.streams[0]));
      expect_result(WEIR_ERROR_INVALID_HANDLE, weir_release(out.back(), scene.world.streams[0]));
      out.pop_back();
    }
  }
  for (weir_lease lease : out) ok(weir_release(lease, scene.world.streams[0]));
  assert_string_equal(engine_of(scene.world).validate().c_str(), "");
  scene.close();
}

/// Whatever use of a set is in the way, all others are free again, and no address is written.
void a_refused_set_leaves_nothing(void **) {
  for (const size_t count : {size_t{5}, size_t{65}}) {
    Scene scene({.device_pages = 128}, count);
    scene.use(count, WEIR_READ);
    weir_stream other = nullptr;
    ok(weir_stream_create(scene.world.context, 0, 0, &other));
    for (size_t taken = 0; taken < count; ++taken) {
      weir_use writer = WEIR_USE(scene.buffers[taken], WEIR_READ_WRITE);
      weir_lease held = nullptr;
      ok(weir_acquire(scene.world.pool, other, &writer, 1, nullptr, &held));
      for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE}) {
        std::vector<weir_use> all = scene.uses(count, mode);
        weir_lease lease = nullptr;
        expect_result(WEIR_ERROR_LEASE_CONFLICT, scene.acquire(&all, &lease));
        assert_int_equal(last_error().use_index, taken);
        for (const weir_use &each : all) assert_int_equal(each.address, 0);
      }
      ok(weir_release(held, other));
      scene.use(count, WEIR_READ_WRITE);  // no other lease has any of them
    }
    ok(weir_stream_close(other));
    scene.close();
  }
}

/// A buffer may be read twice in a set, and counts twice.
void a_buffer_may_be_in_a_set_twice(void **) {
  Scene scene({.device_pages = 16}, 8);
  for (int i = 0; i < 3; ++i) {
    std::vector<weir_use> all = scene.uses(8, WEIR_READ);
    all[7] = WEIR_USE(scene.buffers[0], WEIR_READ);
    weir_lease lease = nullptr;
    ok(scene.acquire(&all, &lease));
    assert_int_equal(all[7].address, scene.addresses[0]);
    expect_result(WEIR_ERROR_BUSY, weir_buffer_destroy(scene.world.pool, scene.buffers[0]));
    ok(weir_release(lease, scene.world.streams[0]));
    scene.use(8, WEIR_READ_WRITE);
  }
  scene.close();
}

/// Counts what it is told of.
class Counter final : public weir::lease::Observer {
 public:
  std::map<size_t, size_t> operations;  ///< by their number of uses
  bool wrong = false;
  void observe(const weir::lease::ObservedOperation &operation) override {
    ++operations[operation.uses.size()];
    for (size_t i = 1; i < operation.uses.size(); ++i)
      wrong = wrong || operation.uses[i].buffer == operation.uses[i - 1].buffer;
  }
  void born(uint32_t, uint64_t, uint64_t) override {}
  void died(uint32_t, uint64_t) override {}
  void began(const weir::lease::ObservedStream &) override {}
  void missed(const weir::lease::ObservedStream &, uint64_t) override { wrong = true; }
  void missed_lives(uint64_t) override { wrong = true; }
};

void a_set_is_one_operation_to_who_learns(void **) {
  Scene scene({.device_pages = 128, .flags = 0, .before_pool = learn}, 65);
  Counter counter;
  for (int i = 0; i < 10; ++i) {
    for (const size_t count : {size_t{5}, size_t{63}, size_t{64}, size_t{65}})
      scene.use(count, WEIR_READ);
    (void)engine_of(scene.world).inspector().use_log().drain(counter, SIZE_MAX);
  }
  assert_false(counter.wrong);
  assert_int_equal(counter.operations[5], 10);
  assert_int_equal(counter.operations[63], 10);
  assert_int_equal(counter.operations[64], 10);
  assert_int_equal(counter.operations[65], 10);
  scene.close();
}

/// Announced operations are granted the same way, and each is over then: what no further one uses leaves by its age.
void an_announced_operation_that_hits_is_over(void **) {
  for (const size_t size : {1, 3}) {
    Setup setup;
    setup.device_pages = 6;
    Scene scene(setup, 6);
    World &world = scene.world;
    scene.use(3, WEIR_READ);  // a record gets its room
    std::vector<weir_use> first = scene.uses(size, WEIR_READ);
    std::vector<weir_operation> operations(2, WEIR_OPERATION_INIT);
    for (weir_operation &operation : operations) {
      operation.uses = first.data();
      operation.use_count = size;
    }
    ok(weir_announce(world.pool, world.streams[0], operations.data(), operations.size(), 0));
    const uint64_t hits = world.stats().hits;
    scene.use(size, WEIR_READ);
    scene.use(size, WEIR_READ);
    assert_int_equal(world.stats().hits, hits + 2 * size);
    for (size_t i = size; i < 6; ++i) {  // later, and not announced
      weir_lease lease = nullptr;
      ok(world.acquire(scene.buffers[i], WEIR_READ, &lease));
      ok(weir_release(lease, world.streams[0]));
    }
    // What was announced goes first.
    weir_buffer fresh = world.buffer(page_bytes);
    weir_lease lease = nullptr;
    ok(world.acquire(fresh, WEIR_DISCARD_WRITE, &lease));
    ok(weir_release(lease, world.streams[0]));
    assert_int_equal(query(world, scene.buffers[0]).device_bytes, 0);
    for (size_t i = size; i < 6; ++i)
      assert_int_equal(query(world, scene.buffers[i]).device_bytes, page_bytes);
    ok(weir_buffer_destroy(world.pool, fresh));
    scene.close();
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(sets_take_no_lock),
      cmocka_unit_test(sets_of_streams_that_are_learned_from_take_none),
      cmocka_unit_test(a_set_may_be_larger_than_that),
      cmocka_unit_test(many_sets_are_out),
      cmocka_unit_test(a_refused_set_leaves_nothing),
      cmocka_unit_test(a_buffer_may_be_in_a_set_twice),
      cmocka_unit_test(a_set_is_one_operation_to_who_learns),
      cmocka_unit_test(an_announced_operation_that_hits_is_over),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
