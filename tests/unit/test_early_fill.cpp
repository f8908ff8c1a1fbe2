// SPDX-License-Identifier: Apache-2.0
//
// Sets that come by parts: the first pages of a set are on the device while the last ones of what makes room for it still leave.
// Nothing depends on time: which came first is told by the engine's points.

#include "tests/unit/interleaving.hpp"
#include "tests/unit/interposed_host.hpp"

namespace {

using namespace weir::test;

constexpr uint64_t pages = 64;
const uint64_t set_bytes = pages * page_bytes;

World full_world(void **state) {
  return World({.options = std::string(small_host) + static_cast<const char *>(*state),
                .device_pages = pages,
                .host_pages = 4 * pages});
}

/// Counts what passes the points of evictions and fills.
class Order {
 public:
  explicit Order(World &world) : points_(engine_of(world).points) {
    points_.listen(&Order::arrive, this);
  }
  ~Order() { points_.leave(this); }
  uint32_t out = 0;    ///< pages that have left
  uint32_t fills = 0;  ///< parts brought in
  uint32_t out_at_first_fill = 0;

 private:
  static void arrive(void *user, const char *point) {
    auto *self = static_cast<Order *>(user);
    if (std::strcmp(point, "evict.unmapped") == 0) ++self->out;
    if (std::strcmp(point, "fill") == 0 && self->fills++ == 0) self->out_at_first_fill = self->out;
  }
  weir::SeqPoints &points_;
};

/// Two sets that each take all of the device; the second has been written last and is there.
struct Sets {
  explicit Sets(World &world) : first(world.buffer(set_bytes)), second(world.buffer(set_bytes)) {
    world.fill(first, set_bytes, 1);
    world.fill(second, set_bytes, 2);
  }
  weir_buffer first, second;
};

void a_set_comes_while_another_leaves(void **state) {
  World world = full_world(state);
  const Sets sets(world);
  const weir_pool_stats before = world.stats();
  {
    const Order order(world);
    world.check(sets.first, set_bytes, 1);
    if (has_vmm(world)) {
      assert_int_equal(order.out, pages);
      assert_in_range(order.fills, 2, 17);
      assert_in_range(order.out_at_first_fill, 1, pages / 2);
    } else {
      assert_int_equal(order.fills, 1);  // extents are laid out when all have left
    }
  }
  const weir_pool_stats after = world.stats();
  assert_int_equal(after.promoted_bytes - before.promoted_bytes, set_bytes);
  assert_int_equal(after.misses - before.misses, 1);
  assert_int_equal(after.hits, before.hits);
  validate(world);
  world.check(sets.second, set_bytes, 2);
  ok(weir_buffer_destroy(world.pool, sets.first));
  ok(weir_buffer_destroy(world.pool, sets.second));
  close_clean(world);
}

/// Free memory is used at once: the first part needs no page to leave.
void what_fits_comes_before_anything_leaves(void **state) {
  World world = full_world(state);
  weir_buffer set = world.buffer(set_bytes), half = world.buffer(set_bytes / 2);
  world.fill(set, set_bytes, 1);
  ok(trim_all(world));
  world.fill(half, set_bytes / 2, 2);
  {
    const Order order(world);
    world.check(set, set_bytes, 1);
    if (has_vmm(world)) assert_int_equal(order.out_at_first_fill, 0);
    assert_int_equal(order.out, pages / 2);
  }
  world.check(half, set_bytes / 2, 2);
  ok(weir_buffer_destroy(world.pool, set));
  ok(weir_buffer_destroy(world.pool, half));
  close_clean(world);
}

/// What has come of a set that finds no room in the end stays as if prefetched, and nothing of it is leased.
void a_set_that_fails_leaves_what_has_come(void **state) {
  World world = full_world(state);
  weir_buffer set = world.buffer(set_bytes), other = world.buffer(set_bytes / 2),
              held = world.buffer(page_bytes);
  world.fill(set, set_bytes, 1);
  ok(trim_all(world));
  world.fill(other, set_bytes / 2, 2);
  world.fill(held, page_bytes, 3);
  weir_lease lease = nullptr, refused = nullptr;
  ok(world.acquire(held, WEIR_READ, &lease));
  const weir_pool_stats before = world.stats();
  expect_result(WEIR_ERROR_WOULD_BLOCK, world.acquire(set, WEIR_READ, &refused));
  assert_int_equal(last_error().short_by, page_bytes);
  assert_int_equal(last_error().asked, set_bytes);
  const weir_buffer_info info = query(world, set);
  assert_int_equal(info.leases, 0);
  const uint64_t came = world.stats().promoted_bytes - before.promoted_bytes;
  assert_int_equal(info.device_bytes, came);
  if (has_vmm(world)) assert_in_range(came, page_bytes, set_bytes - page_bytes);
  validate(world);
  ok(weir_release(lease, world.streams[0]));
  world.check(set, set_bytes, 1);
  world.check(other, set_bytes / 2, 2);
  world.check(held, page_bytes, 3);
  for (weir_buffer buffer : {set, other, held}) ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// Another reader of the same set comes while the first part is on its way: each page is copied once.
void two_readers_of_a_set_in_parts(void **state) {
  World world = full_world(state);
  const Sets sets(world);
  const weir_pool_stats before = world.stats();
  Kernel first{0, set_bytes, 1, 0}, second{0, set_bytes, 1, 0};
  {
    Gate gate(world.pool, "fill");
    Task one([&] { return run(world, sets.first, WEIR_READ, &first); });
    gate.await();
    Task two([&] { return run(world, sets.first, WEIR_READ, &second); });
    await_claim(world, sets.first, two);
    validate(world);
    gate.open();
    ok(one.join());
    ok(two.join());
  }
  assert_int_equal(first.wrong + second.wrong, 0);
  assert_int_equal(world.stats().promoted_bytes - before.promoted_bytes, set_bytes);
  world.check(sets.second, set_bytes, 2);
  ok(weir_buffer_destroy(world.pool, sets.first));
  ok(weir_buffer_destroy(world.pool, sets.second));
  close_clean(world);
}

/// Opens for a kernel as soon as the first page has left.
class Release {
 public:
  Release(World &world, Blocker &work) : points_(engine_of(world).points), work_(work) {
    points_.listen(&Release::arrive, this);
  }
  ~Release() { points_.leave(this); }

 private:
  static void arrive(void *user, const char *point) {
    if (std::strcmp(point, "evict.unmapped") == 0) static_cast<Release *>(user)->work_.open();
  }
  weir::SeqPoints &points_;
  Blocker &work_;
};

/// Half of what has to leave is still worked with, and was used longest ago: the other half is copied down meanwhile, and has left
/// when that work ends.
void what_is_idle_leaves_before_what_is_waited_for(void **state) {
  World world = full_world(state);
  const uint64_t half = set_bytes / 2;
  weir_buffer set = world.buffer(set_bytes), busy = world.buffer(half), idle = world.buffer(half);
  weir_stream other = nullptr;
  ok(weir_stream_create(world.context, 0, 0, &other));
  world.fill(set, set_bytes, 1);
  ok(trim_all(world));
  world.fill(busy, half, 2);
  world.fill(idle, half, 3);
  Blocker work;
  weir_use use = WEIR_USE(busy, WEIR_READ);
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.streams[0], &use, 1, nullptr, &lease));
  ok(weir_stream_host_call(world.streams[0], Blocker::stand, &work));
  ok(weir_release(lease, world.streams[0]));
  use = WEIR_USE(idle, WEIR_READ);
  ok(weir_acquire(world.pool, other, &use, 1, nullptr, &lease));
  ok(weir_release(lease, other));
  const weir_pool_stats before = world.stats();
  {
    const Release release(world, work);
    use = WEIR_USE(set, WEIR_READ);
    ok(weir_acquire(world.pool, other, &use, 1, nullptr, &lease));
  }
  // Nothing was waited for in vain.
  assert_int_equal(world.stats().eviction_failures - before.eviction_failures, 0);
  assert_int_equal(world.stats().evictions - before.evictions, pages);
  ok(weir_release(lease, other));
  ok(weir_stream_synchronize(other));
  world.check(set, set_bytes, 1);
  world.check(busy, half, 2);
  world.check(idle, half, 3);
  for (weir_buffer buffer : {set, busy, idle}) ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_stream_close(other));
  close_clean(world);
}

/// What comes from another device waits for work there, and copies behind it with it. Memory that is only zeroed does not: the
/// kernel that it is for is what ends that work.
void zeroes_do_not_wait_for_copies(void **state) {
  World world(
      {.options = std::string(small_host) + ";host.devices=2" + static_cast<const char *>(*state),
       .device_pages = 6,
       .host_pages = 16,
       .devices = 2});
  weir_buffer far = world.buffer(page_bytes), fresh = world.buffer(page_bytes);
  weir_stream third = nullptr;
  ok(weir_stream_create(world.context, 0, 0, &third));
  world.fill(far, page_bytes, 1, 1);
  Blocker work;
  weir_use use = WEIR_USE(far, WEIR_READ_WRITE);
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.streams[1], &use, 1, nullptr, &lease));
  ok(weir_stream_host_call(world.streams[1], Blocker::stand, &work));
  ok(weir_release(lease, world.streams[1]));
  use = WEIR_USE(far, WEIR_READ);
  ok(weir_acquire(world.pool, world.streams[0], &use, 1, nullptr, &lease));
  ok(weir_release(lease, world.streams[0]));
  use = WEIR_USE(fresh, WEIR_READ_WRITE);
  ok(weir_acquire(world.pool, third, &use, 1, nullptr, &lease));
  const auto open = [](void *user) { static_cast<Blocker *>(user)->open(); };
  ok(weir_stream_host_call(third, open, &work));
  ok(weir_release(lease, third));
  ok(weir_stream_synchronize(third));  // for ever, if it waits for what waits for it
  assert_true(work.is_open());
  world.check(far, page_bytes, 1);
  for (weir_buffer buffer : {far, fresh}) ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_stream_close(third));
  world.close();
}

}  // namespace

int main() {
  static char with[] = "", without[] = ";host.vmm=0";
  const CMUnitTest tests[] = {
      cmocka_unit_test_prestate(a_set_comes_while_another_leaves, with),
      cmocka_unit_test_prestate(a_set_comes_while_another_leaves, without),
      cmocka_unit_test_prestate(what_fits_comes_before_anything_leaves, with),
      cmocka_unit_test_prestate(a_set_that_fails_leaves_what_has_come, with),
      cmocka_unit_test_prestate(what_is_idle_leaves_before_what_is_waited_for, with),
      cmocka_unit_test_prestate(zeroes_do_not_wait_for_copies, with),
      cmocka_unit_test_prestate(zeroes_do_not_wait_for_copies, without),
      cmocka_unit_test_prestate(two_readers_of_a_set_in_parts, with),
      cmocka_unit_test_prestate(two_readers_of_a_set_in_parts, without),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
