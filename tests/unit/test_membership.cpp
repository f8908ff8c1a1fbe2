// SPDX-License-Identifier: Apache-2.0
//
// Devices that come and go, at the moments that are hard to meet: while pages are on their way to or from the one that
// leaves, when it or its neighbour is lost meanwhile, with every call failing once; and what a program is told of a loss.
// The ABI's tests (tests/abi/test_devices.cpp) have the rest.

#include "tests/unit/neighbours.hpp"

namespace {

using namespace weir::test;

const uint64_t size = 4 * page_bytes;

Setup two() { return neighbours(20); }
weir_result add(World &world, weir_device device) { return add_device(world, device, 20); }
weir_result remove(World &world, weir_device device) {
  return weir_pool_remove_device(world.pool, device, WEIR_INFINITE);
}
uint64_t held_on(World &world, weir_device device) {
  weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
  ok(weir_pool_device_stats_get(world.pool, device, &stats));
  return stats.bytes;
}

// ---- where pages go ----

/// To the neighbour, over the link, where they are at home then: not borrowed, and open to hits.
void pages_go_to_the_heir(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  ok(remove(world, 1));
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.lent_bytes, size);
  assert_int_equal(stats.borrowed_bytes, 0);
  assert_int_equal(stats.host_used_bytes, 0);
  validate(world);
  const weir_buffer_info info = query(world, buffer);
  assert_int_equal(info.home, 0);
  assert_int_equal(info.device_bytes, size);
  world.check(buffer, size, 1, 0);
  assert_int_equal(world.stats().misses, stats.misses);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// What a device has lent its neighbours goes back down; what it has borrowed is dropped or carried on.
void borrowed_pages_leave_too(void **) {
  World world(two());
  weir_buffer buffers[6];
  for (uint32_t i = 0; i < 6; ++i) {
    buffers[i] = world.buffer(size, 0);
    world.fill(buffers[i], size, i + 1, 0);
  }
  assert_true(world.stats().borrowed_bytes != 0);
  ok(remove(world, 1));
  validate(world);
  assert_int_equal(world.stats().borrowed_bytes, 0);
  for (uint32_t i = 0; i < 6; ++i) world.check(buffers[i], size, i + 1, 0);
  ok(add(world, 1));
  for (uint32_t i = 0; i < 6; ++i) world.fill(buffers[i], size, i + 11, 0);
  assert_true(world.stats().borrowed_bytes != 0);  // and it lends again
  for (uint32_t i = 0; i < 6; ++i) {
    world.check(buffers[i], size, i + 11, 0);
    ok(weir_buffer_destroy(world.pool, buffers[i]));
  }
  validate(world);
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// Nothing is held from the system by one that has left, dead buffers' pages included.
void its_memory_goes_back(void **) {
  World world(two());
  weir_buffer dead = world.buffer(size, 1);
  weir_buffer alive = world.buffer(size, 1);
  world.fill(dead, size, 1, 1);
  world.fill(alive, size, 2, 1);
  ok(weir_buffer_destroy(world.pool, dead));
  assert_int_equal(held_on(world, 1), 2 * size);
  ok(remove(world, 1));
  assert_int_equal(world.stats().device_bytes, held_on(world, 0));
  ok(add(world, 1));
  assert_int_equal(held_on(world, 1), 0);
  world.check(alive, size, 2, 1);
  ok(weir_buffer_destroy(world.pool, alive));
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// What was mapped before a device joined does not let it in: it is read through the host, and directly when it has been
/// mapped anew.
void old_mappings_stay_closed(void **) {
  World world(neighbours(20, 1));
  weir_buffer before = world.buffer(size, 0);
  world.fill(before, size, 1, 0);
  ok(add(world, 1));
  weir_buffer after = world.buffer(size, 0);
  world.fill(after, size, 2, 0);
  world.check(after, size, 2, 1);
  assert_int_equal(world.stats().host_relayed_bytes, 0);
  world.check(before, size, 1, 1);
  assert_int_equal(world.stats().host_relayed_bytes, size);
  ok(trim_all(world));
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  world.fill(before, size, 3, 0);
  world.check(before, size, 3, 1);
  assert_int_equal(world.stats().host_relayed_bytes, size);
  ok(weir_buffer_destroy(world.pool, before));
  ok(weir_buffer_destroy(world.pool, after));
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

// ---- what is under way ----

/// A fill under way is waited for, and what it brought moves away again.
void a_fill_is_waited_for(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 0);
  world.fill(buffer, size, 1, 0);
  {
    Gate gate(world.pool, "fill");
    Task prefetch([&] {
      const weir_use use = WEIR_USE(buffer, WEIR_READ);
      return weir_prefetch(world.pool, world.streams[1], &use, 1);
    });
    gate.await();
    expect_result(WEIR_ERROR_TIMEOUT, weir_pool_remove_device(world.pool, 1, 0));
    Task leaver([&] { return remove(world, 1); });
    assert_true(keeps_waiting(leaver));
    gate.open();
    ok(prefetch.join());
    ok(leaver.join());
  }
  validate(world);
  world.check(buffer, size, 1, 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// Pages on their way to a neighbour as that is asked to leave: they come, and leave again.
void the_neighbour_leaves_meanwhile(void **) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world(two());
    weir_buffer buffer = world.buffer(size, 0);
    world.fill(buffer, size, 1, 0);
    {
      Gate gate(world.pool, point);
      Task trimmer([&world] { return trim_all(world); });
      gate.await();
      Task leaver([&world] { return remove(world, 1); });
      assert_true(keeps_waiting(leaver));
      gate.open();
      ok(trimmer.join());
      ok(leaver.join());
    }
    validate(world);
    world.check(buffer, size, 1, 0);
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

/// Cancelled while its pages are on the move: some have gone, all are there.
void cancelled_on_the_way(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  {
    Gate gate(world.pool, "evict.claimed");
    Task leaver([&world] { return remove(world, 1); });
    gate.await();
    ok(weir_pool_cancel_remove(world.pool, 1));
    gate.open();
    expect_result(WEIR_ERROR_CANCELLED, leaver.join());
  }
  validate(world);
  assert_int_equal(query(world, buffer).home, 1);
  world.check(buffer, size, 1, 1);
  ok(remove(world, 1));
  world.check(buffer, size, 1, 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// Two at once: one of them stays, because a pool has a device.
void both_at_once(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  {
    Gate gate(world.pool, "evict.claimed");
    Task leaver([&world] { return remove(world, 1); });
    gate.await();
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, remove(world, 0));
    gate.open();
    ok(leaver.join());
  }
  world.check(buffer, size, 1, 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// A lease of one of its streams on another device's memory is waited for as well.
void a_remote_lease_is_waited_for(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 0);
  world.fill(buffer, size, 1, 0);
  weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
  use.flags = WEIR_USE_ALLOW_REMOTE;
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.streams[1], &use, 1, nullptr, &lease));
  assert_int_equal(world.stats().remote_uses, 1);
  expect_result(WEIR_ERROR_TIMEOUT, weir_pool_remove_device(world.pool, 1, 0));
  Kernel kernel{use.address, size, 2, 0};
  ok(kernel.launch(world.streams[1], Kernel::write));
  ok(weir_release(lease, world.streams[1]));
  ok(remove(world, 1));
  world.check(buffer, size, 2, 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// While it leaves no stream leases on it, though others use its buffers and all of them lie there.
void it_takes_no_hits(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  weir_buffer kept = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  world.fill(kept, size, 2, 1);
  weir_lease lease = nullptr;
  ok(world.acquire(kept, WEIR_READ, &lease, nullptr, 1));
  {
    Gate gate(world.pool, "evict.claimed");
    Task leaver([&world] { return remove(world, 1); });
    gate.await();
    world.check(kept, size, 2, 0);
    want(world, kept);  // which looks at what the buffer's next hit may rely on
    weir_lease second = nullptr;
    expect_result(WEIR_ERROR_DEVICE_REMOVED, world.acquire(kept, WEIR_READ, &second, nullptr, 1));
    ok(weir_release(lease, world.streams[1]));
    gate.open();
    ok(leaver.join());
  }
  validate(world);
  world.check(buffer, size, 1, 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_buffer_destroy(world.pool, kept));
  close_clean(world);
}

/// Not before a removal has ended.
void the_pool_does_not_end(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  weir_lease lease = nullptr;
  ok(world.acquire(buffer, WEIR_READ, &lease, nullptr, 1));
  Task leaver([&world] { return remove(world, 1); });
  // On a busy machine its thread may begin late.
  weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
  while (stats.state != WEIR_POOL_DEVICE_LEAVING) {
    std::this_thread::yield();
    ok(weir_pool_device_stats_get(world.pool, 1, &stats));
  }
  assert_true(keeps_waiting(leaver));
  expect_result(WEIR_ERROR_BUSY, weir_pool_destroy(world.pool));
  ok(weir_pool_cancel_remove(world.pool, 1));
  expect_result(WEIR_ERROR_CANCELLED, leaver.join());
  ok(weir_release(lease, world.streams[1]));
  {
    Gate gate(world.pool, "evict.claimed");
    Task again([&world] { return remove(world, 1); });
    gate.await();
    expect_result(WEIR_ERROR_BUSY, weir_pool_destroy(world.pool));
    gate.open();
    ok(again.join());
  }
  world.close();
}

// ---- losses ----

struct Told {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<weir_device_loss> losses;
  weir_pool pool = nullptr;
  weir_result from_within = WEIR_SUCCESS;
  size_t ranges = 0;

  static void tell(void *user, const weir_device_loss *loss) {
    auto *self = static_cast<Told *>(user);
    std::lock_guard hold(self->mutex);
    (void)weir_pool_lost_ranges(self->pool, nullptr, 0, &self->ranges);
    self->from_within = weir_pool_set_loss_callback(self->pool, nullptr, nullptr);
    self->losses.push_back(*loss);
    self->changed.notify_all();
  }
  void await(size_t count) {
    std::unique_lock hold(mutex);
    changed.wait(hold, [&] { return losses.size() >= count; });
  }
};

/// By device, generation and bytes to the callback; by buffer and range to a caller that asks.
void a_loss_is_told(void **) {
  World world(two());
  Told told;
  told.pool = world.pool;
  ok(weir_pool_set_loss_callback(world.pool, Told::tell, &told));
  weir_buffer dirty = world.buffer(size, 1);
  weir_buffer clean = world.buffer(size, 1);
  weir_buffer small = world.buffer(1000, 1);
  world.fill(dirty, size, 1, 1);
  world.fill(clean, size, 2, 1);
  world.fill(small, 1000, 3, 1);
  world.check(clean, size, 2, 0);  // and with that, there
  // A page in the midst of it is elsewhere too.
  weir_use use = WEIR_USE(dirty, WEIR_READ);
  use.offset = page_bytes;
  use.length = page_bytes;
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.streams[0], &use, 1, nullptr, &lease));
  ok(weir_release(lease, world.streams[0]));
  size_t count = 1;
  ok(weir_pool_lost_ranges(world.pool, nullptr, 0, &count));
  assert_int_equal(count, 0);
  engine_of(world).lose_device(1);
  told.await(1);
  assert_int_equal(told.losses[0].device, 1);
  assert_int_equal(told.losses[0].generation, 1);
  assert_int_equal(told.losses[0].lost_bytes, 3 * page_bytes + 4 * page_bytes / 4);
  assert_int_equal(told.from_within, WEIR_ERROR_BUSY);
  assert_int_equal(told.ranges, 3);
  weir_lost_range ranges[4] = {};
  expect_result(WEIR_INCOMPLETE, weir_pool_lost_ranges(world.pool, ranges, 2, &count));
  assert_int_equal(count, 3);
  ok(weir_pool_lost_ranges(world.pool, ranges, 4, &count));
  assert_int_equal(count, 3);
  uint64_t of_dirty = 0;
  for (const weir_lost_range &range : ranges) {
    assert_true(range.buffer != clean);
    if (range.buffer == dirty) {
      of_dirty += range.length;
      assert_true(range.offset == 0 || range.offset == 2 * page_bytes);
    } else if (range.buffer == small) {
      assert_int_equal(range.length, 1000);
    }
  }
  assert_int_equal(of_dirty, 3 * page_bytes);
  ok(weir_pool_set_loss_callback(world.pool, nullptr, nullptr));
  // A callback set later is told as well.
  Told late;
  late.pool = world.pool;
  ok(weir_pool_set_loss_callback(world.pool, Told::tell, &late));
  late.await(1);
  assert_int_equal(late.losses[0].generation, 1);
  world.check(clean, size, 2, 0);
  world.fill(dirty, size, 5, 0);
  world.check(dirty, size, 5, 0);
  for (weir_buffer buffer : {dirty, clean, small}) ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// One that is lost can be taken out, and does not come back.
void a_lost_device_leaves(void **) {
  World world(two());
  weir_buffer there = world.buffer(size, 1);
  weir_buffer both = world.buffer(size, 1);
  weir_buffer small = world.buffer(1000, 1);
  weir_buffer virgin = world.buffer(1000, 1);
  world.fill(there, size, 1, 1);
  world.fill(both, size, 2, 1);
  world.fill(small, 1000, 3, 1);
  world.check(both, size, 2, 0);
  weir_lease lease = nullptr;
  ok(world.acquire(there, WEIR_READ, &lease, nullptr, 1));
  engine_of(world).lose_device(1);
  expect_result(WEIR_ERROR_TIMEOUT, weir_pool_remove_device(world.pool, 1, 0));
  ok(weir_release(lease, world.streams[1]));
  ok(remove(world, 1));
  validate(world);
  assert_int_equal(world.stats().generation, 2);
  world.check(both, size, 2, 0);
  assert_int_equal(query(world, there).lost_bytes, size);
  expect_result(WEIR_ERROR_DATA_LOST, world.acquire(there, WEIR_READ, &lease));
  world.fill(there, size, 4, 0);
  world.check(there, size, 4, 0);
  expect_result(WEIR_ERROR_DATA_LOST, world.acquire(small, WEIR_READ, &lease));
  world.fill(small, 1000, 5, 0);
  world.check(small, 1000, 5, 0);
  // A buffer that shared its slab, or takes a place there, is not lost.
  weir_buffer later = world.buffer(1000, 0);
  for (weir_buffer fine : {virgin, later}) {
    std::vector<uint8_t> bytes(1000);
    ok(weir_buffer_read(world.pool, fine, 0, 1000, bytes.data()));
    assert_true(all_zero(bytes));
    world.fill(fine, 1000, 6, 0);
    world.check(fine, 1000, 6, 0);
    ok(weir_buffer_destroy(world.pool, fine));
  }
  validate(world);
  expect_result(WEIR_ERROR_DEVICE_LOST, add(world, 1));
  for (weir_buffer buffer : {there, both, small}) ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// Lost in the midst of leaving: what has moved is safe, the rest is told as lost, and it has left.
void lost_while_it_leaves(void **) {
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    World world(two());
    weir_buffer buffer = world.buffer(size, 1);
    world.fill(buffer, size, 1, 1);
    {
      Gate gate(world.pool, point);
      Task leaver([&world] { return remove(world, 1); });
      gate.await();
      engine_of(world).lose_device(1);
      gate.open();
      ok(leaver.join());
    }
    validate(world);
    const weir_buffer_info info = query(world, buffer);
    assert_int_equal(info.lost_bytes + info.device_bytes + info.host_bytes, size);
    if (info.lost_bytes == 0) {
      world.check(buffer, size, 1, 0);
    } else {
      weir_lease lease = nullptr;
      expect_result(WEIR_ERROR_DATA_LOST, world.acquire(buffer, WEIR_READ, &lease));
    }
    ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
}

/// The heir is lost while pages go there: the device stays, and so do they, or they go to HOST.
void the_heir_is_lost(void **) {
  World world(two());
  weir_buffer buffer = world.buffer(size, 1);
  world.fill(buffer, size, 1, 1);
  {
    Gate gate(world.pool, "evict.claimed");
    Task leaver([&world] { return remove(world, 1); });
    gate.await();
    engine_of(world).lose_device(0);
    gate.open();
    (void)leaver.join();
  }
  validate(world);
  const weir_buffer_info info = query(world, buffer);
  assert_int_equal(info.lost_bytes, 0);
  world.check_read(buffer, size, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

// ---- every call fails once ----

void sweep_elastic(Kind kind, int64_t least) {
  sweep(kind, 0, least, [](Balance *balance) {
    Subject subject;
    open_neighbours(&subject, balance, 2);
    const weir_pool_device back = with_pages(0, 12);
    subject.add(size);
    subject.add(1000);
    subject.add(size + page_bytes / 2);
    for (uint32_t i = 0; i < 3; ++i) subject.fill(i, i + 1);
    // Everything is at home on device 0, which leaves, and the stream's device is another's then.
    bool left = twice("weir_pool_remove_device",
                      [&] { return weir_pool_remove_device(subject.pool, 0, WEIR_INFINITE); });
    for (uint32_t i = 0; i < 3; ++i) subject.check_read(i);
    if (left)
      left =
          !twice("weir_pool_add_device", [&] { return weir_pool_add_device(subject.pool, &back); });
    if (!left) {
      for (uint32_t i = 0; i < 3; ++i) subject.check(i, "after it came back");
      (void)twice("weir_pool_remove_device",
                  [&] { return weir_pool_remove_device(subject.pool, 1, WEIR_INFINITE); });
      for (uint32_t i = 0; i < 3; ++i) subject.check(i, "after the other left");
    }
    subject.destroy_buffers();
    subject.close();
  });
}
void backend_calls_fail(void **) { sweep_elastic(Kind::backend, 40); }
void memory_is_refused(void **) { sweep_elastic(Kind::device_oom, 3); }
void allocations_fail(void **) { sweep_elastic(Kind::allocator, 40); }

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(pages_go_to_the_heir),
      cmocka_unit_test(borrowed_pages_leave_too),
      cmocka_unit_test(its_memory_goes_back),
      cmocka_unit_test(old_mappings_stay_closed),
      cmocka_unit_test(a_fill_is_waited_for),
      cmocka_unit_test(the_neighbour_leaves_meanwhile),
      cmocka_unit_test(cancelled_on_the_way),
      cmocka_unit_test(both_at_once),
      cmocka_unit_test(a_remote_lease_is_waited_for),
      cmocka_unit_test(it_takes_no_hits),
      cmocka_unit_test(the_pool_does_not_end),
      cmocka_unit_test(a_loss_is_told),
      cmocka_unit_test(a_lost_device_leaves),
      cmocka_unit_test(lost_while_it_leaves),
      cmocka_unit_test(the_heir_is_lost),
      cmocka_unit_test(backend_calls_fail),
      cmocka_unit_test(memory_is_refused),
      cmocka_unit_test(allocations_fail),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
