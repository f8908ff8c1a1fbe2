// SPDX-License-Identifier: Apache-2.0
//
// Neighbours on a line share a page where a granule has one address: it is mapped once, with the first of them, and unmapped
// with the last. They come and go beside each other at every point of a demotion, and addresses come back.

#include "tests/unit/interleaving.hpp"

namespace {

using namespace weir::test;

const std::string one_address = std::string(small_host) + ";host.multi_map=0";
const uint64_t size_of_two = page_bytes + page_bytes / 2;  ///< two take three pages

World lines(uint64_t pages = 12, uint32_t devices = 1) {
  return World({.options = one_address + (devices == 2 ? ";host.devices=2" : ""),
                .device_pages = pages,
                .host_pages = 64,
                .devices = devices});
}

uint64_t in_use(World &world) {
  const weir_pool_stats stats = world.stats();
  return stats.device_bytes - stats.device_free_bytes;
}

uint64_t address_of(World &world, weir_buffer buffer) { return query(world, buffer).address; }

/// Two buffers that lie beside each other and are in place.
struct Pair {
  explicit Pair(World &world)
      : first(world.buffer(size_of_two)), second(world.buffer(size_of_two)) {
    world.fill(first, size_of_two, 1);
    world.fill(second, size_of_two, 2);
    assert_int_equal(in_use(world), 3 * page_bytes);
  }
  void close(World &world) {
    world.check(first, size_of_two, 1);
    world.check(second, size_of_two, 2);
    ok(weir_buffer_destroy(world.pool, first));
    ok(weir_buffer_destroy(world.pool, second));
    close_clean(world);
  }
  weir_buffer first, second;
};

void neighbours_lie_beside_each_other(void **) {
  World world = lines();
  Pair pair(world);
  assert_int_equal(address_of(world, pair.first) + size_of_two, address_of(world, pair.second));
  pair.close(world);
}

/// The page is being unmapped with the one that was in place alone, and its neighbour comes meanwhile.
void one_comes_while_the_other_leaves(void **) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world = lines();
    Pair pair(world);
    ok(trim_all(world));
    assert_int_equal(in_use(world), 0);
    world.check(pair.first, size_of_two, 1);
    {
      Gate gate(world.pool, point);
      Task trim([&] { return trim_all(world); });
      gate.await();
      Kernel kernel{0, size_of_two, 2, 0};
      ok(run(world, pair.second, WEIR_READ, &kernel));
      assert_int_equal(kernel.wrong, 0);
      validate(world);
      gate.open();
      ok(trim.join());
    }
    validate(world);
    world.check(pair.second, size_of_two, 2);
    pair.close(world);
  }
}

/// Each leaves alone: the page goes with the second, not before.
void the_last_one_takes_the_page_along(void **) {
  World world = lines();
  Pair pair(world);
  uint64_t held = 0;
  ok(weir_hold(world.pool, pair.second, 0, &held));
  ok(trim_all(world));
  assert_int_equal(in_use(world), 2 * page_bytes);  // the held buffer's, one of them shared
  validate(world);
  ok(weir_unhold(world.pool, pair.second));
  world.check(pair.second, size_of_two, 2);
  ok(trim_all(world));
  assert_int_equal(in_use(world), 0);
  validate(world);
  pair.close(world);
}

/// Each is evicted by a thread of its own, and the first thread stands before or behind its unmap while the second one's pages
/// leave.
void both_leave_at_once(void **) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world = lines();
    Pair pair(world);
    uint64_t held = 0;
    ok(weir_hold(world.pool, pair.second, 0, &held));
    {
      Gate gate(world.pool, point);
      Task one([&] { return trim_all(world); });
      gate.await();
      ok(weir_unhold(world.pool, pair.second));
      Task two([&] { return trim_all(world); });
      (void)keeps_waiting(two);  // time to evict the second, whether it ends or waits for the first
      validate(world);
      gate.open();
      ok(one.join());
      ok(two.join());
    }
    validate(world);
    ok(trim_all(world));
    assert_int_equal(in_use(world), 0);
    pair.close(world);
  }
}

/// A demotion that another thread's acquire stops on its way: the page stays, whichever of them it was.
void one_is_wanted_back_on_its_way(void **) {
  World world = lines();
  Pair pair(world);
  {
    Gate gate(world.pool, "evict.claimed");
    Task trim([&] { return trim_all(world); });
    gate.await();
    want(world, pair.first);
    gate.open();
    ok(trim.join());
  }
  validate(world);
  pair.close(world);
}

/// On another device each has its pages to itself, at addresses of its own.
void elsewhere_they_lie_alone(void **) {
  World world = lines(12, 2);
  Pair pair(world);
  world.check(pair.first, size_of_two, 1, 1);
  world.check(pair.second, size_of_two, 2, 1);
  world.fill(pair.second, size_of_two, 3, 1);
  world.check(pair.second, size_of_two, 3, 0);
  world.check(pair.first, size_of_two, 1, 0);
  world.fill(pair.second, size_of_two, 2, 0);
  validate(world);
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  pair.close(world);
}

/// What ended leaves its addresses to the next, of this client or another: many more can live, one after the other, than
/// there are addresses for at once.
void addresses_come_back(void **) {
  World world = lines();
  const weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  uint64_t least = UINT64_MAX, most = 0;
  for (uint32_t i = 0; i < 300; ++i) {
    weir_client client = nullptr;
    ok(weir_client_create(world.pool, &desc, &client));
    weir_buffer buffer = world.buffer(size_of_two, WEIR_DEVICE_DEFAULT, client);
    world.fill(buffer, size_of_two, i + 1);
    const uint64_t address = address_of(world, buffer);
    least = std::min(least, address);
    most = std::max(most, address);
    world.check(buffer, size_of_two, i + 1);
    ok(weir_buffer_destroy(world.pool, buffer));
    ok(weir_client_destroy(client));
  }
  // A line of each for those whose memory is kept yet, and no more: the budget has 12 pages.
  assert_true(most - least <= 16 * 64 * page_bytes);
  close_clean(world);
}

/// Next to nothing is wasted by rounding these, or they are too large a part of the budget.
void these_have_their_pages_to_themselves(void **) {
  World world = lines(64);
  for (const uint64_t size : {8 * page_bytes - 100, 20 * page_bytes + 100}) {
    weir_buffer beside = world.buffer(size_of_two);
    weir_buffer buffer = world.buffer(size);
    world.fill(buffer, size, 1);
    assert_int_equal(address_of(world, buffer) % page_bytes, 0);
    world.fill(beside, size_of_two, 2);
    world.check(buffer, size, 1);
    ok(weir_buffer_destroy(world.pool, buffer));
    ok(weir_buffer_destroy(world.pool, beside));
    ok(trim_all(world));
  }
  world.close();
}

/// Random sizes, in less memory than they need, from two threads, each with neighbours of the other's.
void two_threads_meet_at_their_boundaries(void **) {
  World world = lines(16);
  constexpr uint32_t count = 12, rounds = 60;
  weir_buffer buffers[count];
  const auto size = [](uint32_t i) { return size_of_two + 4096 * (i % 3); };
  for (uint32_t i = 0; i < count; ++i) {
    buffers[i] = world.buffer(size(i));
    world.fill(buffers[i], size(i), i + 1);
  }
  std::atomic<uint64_t> wrong{0};
  const auto user = [&](uint32_t from) {
    weir_stream stream = nullptr;
    weir_result result = weir_stream_create(world.context, 0, 0, &stream);
    for (uint32_t n = 0; n < rounds && result == WEIR_SUCCESS; ++n) {
      const uint32_t i = (from + 2 * (n * 5 % (count / 2))) % count;
      weir_use use = WEIR_USE(buffers[i], WEIR_READ);
      weir_lease lease = nullptr;
      result = weir_acquire(world.pool, stream, &use, 1, nullptr, &lease);
      if (result != WEIR_SUCCESS) break;
      Kernel kernel{use.address, size(i), i + 1, 0};
      result = weir_stream_host_call(stream, Kernel::compare, &kernel);
      const weir_result released = weir_release(lease, stream);
      const weir_result ended = weir_stream_synchronize(stream);
      wrong += kernel.wrong;
      if (result == WEIR_SUCCESS) result = released != WEIR_SUCCESS ? released : ended;
    }
    const weir_result closed = weir_stream_close(stream);
    return result != WEIR_SUCCESS ? result : closed;
  };
  {
    Task even([&] { return user(0); });
    Task odd([&] { return user(1); });
    ok(even.join());
    ok(odd.join());
  }
  assert_int_equal(wrong.load(), 0);
  validate(world);
  for (uint32_t i = 0; i < count; ++i) {
    world.check(buffers[i], size(i), i + 1);
    ok(weir_buffer_destroy(world.pool, buffers[i]));
  }
  close_clean(world);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(neighbours_lie_beside_each_other),
      cmocka_unit_test(one_comes_while_the_other_leaves),
      cmocka_unit_test(the_last_one_takes_the_page_along),
      cmocka_unit_test(both_leave_at_once),
      cmocka_unit_test(one_is_wanted_back_on_its_way),
      cmocka_unit_test(elsewhere_they_lie_alone),
      cmocka_unit_test(addresses_come_back),
      cmocka_unit_test(these_have_their_pages_to_themselves),
      cmocka_unit_test(two_threads_meet_at_their_boundaries),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
