// SPDX-License-Identifier: Apache-2.0
//
// Threads that could wait for each other for ever, brought to the very points where they would: two devices that make room on each
// other, two sets over the same devices, and victims that go past HOST beside a round of moves down. Each is held there
// with what it has by then, the other comes as far as it can, and both end when they are let go. A hang is the failure (ctest's
// timeout); nothing else here depends on time.

#include "tests/unit/interposed_host.hpp"
#include "tests/unit/neighbours.hpp"
#include "tests/unit/sharded.hpp"

namespace {

using namespace weir::test;

/// Holds all threads that come to one point until it is opened.
class Crowd {
 public:
  Crowd(World &world, const char *point) : points_(engine_of(world).points), point_(point) {
    points_.listen(&Crowd::arrive, this);
  }
  ~Crowd() {
    open();
    points_.leave(this);
  }
  Crowd(const Crowd &) = delete;
  Crowd &operator=(const Crowd &) = delete;

  void await(uint32_t count) {
    std::unique_lock hold(mutex_);
    changed_.wait(hold, [&] { return standing_ >= count; });
  }
  void open() {
    const std::lock_guard hold(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  static void arrive(void *user, const char *point) {
    auto *self = static_cast<Crowd *>(user);
    std::unique_lock hold(self->mutex_);
    if (self->open_ || self->point_ != point) return;
    ++self->standing_;
    self->changed_.notify_all();
    self->changed_.wait(hold, [self] { return self->open_; });
  }

  weir::SeqPoints &points_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::string point_;
  uint32_t standing_ = 0;
  bool open_ = false;
};

weir_result trim_some(World &world, uint32_t device, uint64_t bytes) {
  return weir_pool_trim(world.pool, device, WEIR_TRIM_SELECTIVE, bytes, nullptr);
}

// ---- two devices ----

constexpr uint64_t device_pages = 8;
const uint64_t half = device_pages / 2 * page_bytes;

/// Each is full, and what leaves it is to go to the other, which gives up a dead buffer's pages for that: both are at it at once,
/// each in the midst of an eviction of its own.
void devices_drop_pages_for_each_other(void **) {
  World world(neighbours(device_pages));
  weir_buffer alive[2], leased[2];
  weir_lease leases[2];
  for (uint32_t d = 0; d < 2; ++d) {
    alive[d] = world.buffer(half, d);
    leased[d] = world.buffer(half, d);
    world.fill(alive[d], half, 1 + d, d);
    world.fill(leased[d], half, 3 + d, d);
    ok(world.acquire(leased[d], WEIR_READ, &leases[d], nullptr, d));
  }
  const auto bury = [&](uint32_t d) {
    ok(weir_release(leases[d], world.streams[d]));
    ok(weir_stream_synchronize(world.streams[d]));
    ok(weir_buffer_destroy(world.pool, leased[d]));
  };
  {
    Crowd crowd(world, "evict.claimed");
    bury(1);
    Task first([&] { return trim_some(world, 0, half); });
    crowd.await(1);
    // Of device 0 it has chosen only what could leave by then: the second finds this.
    bury(0);
    Task second([&] { return trim_some(world, 1, half); });
    crowd.await(2);
    validate(world);
    crowd.open();
    ok(first.join());
    ok(second.join());
  }
  validate(world);
  const weir_pool_stats stats = world.stats();
  // All but the reserve of each, which is a part of a page.
  assert_true(stats.lent_bytes >= 2 * (half - page_bytes));
  assert_int_equal(stats.borrowed_bytes, stats.lent_bytes);
  assert_int_equal(stats.lent_bytes + stats.host_used_bytes, 2 * half);
  for (uint32_t d = 0; d < 2; ++d) {
    world.check_read(alive[d], half, 1 + d);
    world.check(alive[d], half, 1 + d, d);
    ok(weir_buffer_destroy(world.pool, alive[d]));
  }
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

/// Each is full of what is in use, and each makes room, one for a set and one because it is asked to: the victims of either find no
/// place with the other, and go to HOST. (Two sets take turns at that.)
void full_devices_make_room_at_once(void **) {
  World world(neighbours(device_pages));
  weir_buffer old[2], fresh = world.buffer(half, 0);
  for (uint32_t d = 0; d < 2; ++d) {
    old[d] = world.buffer(2 * half, d);
    world.fill(old[d], 2 * half, 1 + d, d);
  }
  Kernel kernel{0, half, 3, 0};
  {
    Crowd crowd(world, "evict.claimed");
    Task first([&] { return run(world, fresh, WEIR_DISCARD_WRITE, &kernel); });
    Task second([&] { return trim_some(world, 1, half); });
    crowd.await(2);
    validate(world);
    crowd.open();
    ok(first.join());
    ok(second.join());
  }
  validate(world);
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.lent_bytes, 0);
  assert_int_equal(stats.host_used_bytes, 2 * half);
  for (uint32_t d = 0; d < 2; ++d) {
    world.check_read(old[d], 2 * half, 1 + d);
    ok(weir_buffer_destroy(world.pool, old[d]));
  }
  world.check_read(fresh, half, 3);
  ok(weir_buffer_destroy(world.pool, fresh));
  ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  close_clean(world);
}

// ---- two sets ----

/// Two buffers over the same two devices, each in the order of the stream that uses it, of which only one fits at a time.
struct Rivals {
  static constexpr uint64_t set_pages = 6, budget_pages = 4;
  const uint64_t size = set_pages * page_bytes;
  Trio world{budget_pages, three_near, 64, 2};
  weir_buffer buffers[2] = {world.sharded(size, {0, 1}), world.sharded(size, {1, 0})};
  weir_buffer small[2] = {world.buffer(page_bytes, 0), world.buffer(page_bytes, 1)};
  Kernel kernels[2] = {{0, size, 1, 0}, {0, size, 2, 0}};

  Rivals() {
    for (uint32_t i = 0; i < 2; ++i) world.put(buffers[i], size, 1 + i, i);
  }
  /// One use of a set, which waits for ever if it must and holds no other lease. Asserts nothing.
  weir_result use(uint32_t i) {
    weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
    options.timeout_ns = WEIR_INFINITE;
    options.flags = WEIR_ACQUIRE_SOLE_HOLDER;
    weir_use use = WEIR_USE(buffers[i], WEIR_READ);
    weir_lease lease = nullptr;
    weir_result result = weir_acquire(world.pool, world.all[i], &use, 1, &options, &lease);
    if (result != WEIR_SUCCESS) return result;
    kernels[i].address = use.address;
    result = kernels[i].launch(world.all[i], Kernel::compare);
    const weir_result released = weir_release(lease, world.all[i]);
    const weir_result ended = weir_stream_synchronize(world.all[i]);
    if (result == WEIR_SUCCESS) result = released;
    return result == WEIR_SUCCESS ? ended : result;
  }
  /// Nothing but the set is on the devices, under a lease.
  weir_lease lease(uint32_t i) {
    world.trim_devices();
    weir_use use = WEIR_USE(buffers[i], WEIR_READ);
    weir_lease made = nullptr;
    ok(weir_acquire(world.pool, world.all[i], &use, 1, nullptr, &made));
    for (uint32_t d = 0; d < 2; ++d) assert_int_equal(world.pages_on(d), set_pages / 2);
    return made;
  }
  void close() {
    validate(world);
    for (uint32_t i = 0; i < 2; ++i) {
      assert_int_equal(kernels[i].wrong, 0);
      world.see(buffers[i], size, 1 + i, i);
      ok(weir_buffer_destroy(world.pool, buffers[i]));
      ok(weir_buffer_destroy(world.pool, small[i]));
    }
    world.close_sharded();
  }
};

/// Each begins with the device of its stream. One makes room on that, or has all of it and makes room on the other, as the rival
/// comes from there. Which is first then is not said; both come to their end.
void sets_from_both_ends(void **) {
  for (const uint32_t first : {0U, 1U}) {
    for (const bool at_second_device : {false, true}) {
      Rivals rivals;
      Trio &world = rivals.world;
      const uint32_t second = 1 - first;
      const weir_lease lease = rivals.lease(second);
      {
        Gate gate(world.pool, "evict.claimed");
        Task ahead([&] { return rivals.use(first); });
        assert_true(keeps_waiting(ahead));
        ok(weir_release(lease, world.all[second]));
        gate.await();
        if (at_second_device) {
          gate.next("evict.claimed");
          gate.await();
          assert_int_equal(world.pages_on(first), Rivals::budget_pages);
        }
        Task behind([&] { return rivals.use(second); });
        assert_true(keeps_waiting(behind));
        assert_false(ahead.ended());
        validate(world);
        gate.open();
        ok(ahead.join());
        ok(behind.join());
      }
      rivals.close();
    }
  }
}

/// While one is in use, the one that waits for it has neither claims nor the page that is free on each device.
void a_set_that_waits_holds_nothing(void **) {
  for (const uint32_t first : {0U, 1U}) {
    Rivals rivals;
    Trio &world = rivals.world;
    const weir_lease lease = rivals.lease(first);
    {
      Task waiting([&] { return rivals.use(1 - first); });
      assert_true(keeps_waiting(waiting));
      // It looks again after each of these, and claims what it can get for that long: a thread that wants that memory waits for the look.
      while (query(world, rivals.buffers[1 - first]).leases != 0) std::this_thread::yield();
      for (uint32_t d = 0; d < 2; ++d) world.fill(rivals.small[d], page_bytes, 7 + d, d);
      assert_false(waiting.ended());
      ok(weir_release(lease, world.all[first]));
      ok(waiting.join());
    }
    for (uint32_t d = 0; d < 2; ++d) world.check(rivals.small[d], page_bytes, 7 + d, d);
    rivals.close();
  }
}

// ---- past HOST ----

std::atomic<uint32_t> copies{0};
weir_result count_copies(const char *entry) {
  const std::string name(entry);
  if (name == "copy_async" || name == "copy_batch_async") ++copies;
  return WEIR_SUCCESS;
}

/// COMPRESSED is full, HOST has pages that are on their way there, and the first of them make room in it for the rest.
struct Crossing {
  World world;
  std::vector<weir_buffer> older, rest;
  weir_buffer past[2] = {nullptr, nullptr};

  explicit Crossing(const char *vmm)
      : world({.options = std::string(small_host) + vmm + ";host.devices=2",
               .device_pages = 8,
               .host_pages = 32,  // of which two slots are staging
               .devices = 2,
               .backend = InterposedHost::query,
               .compressed_pages = 1,
               .storage_pages = 64}) {
    for (bool full = false; !full;) {
      older.push_back(world.buffer(page_bytes, 0));
      world.fill(older.back(), page_bytes, 1);
      ok(trim_all(world));
      ok(trim_host());
      const weir_pool_stats stats = world.stats();
      assert_int_equal(stats.compressed_raw_bytes, older.size() * page_bytes);
      const uint64_t each = stats.compressed_bytes / older.size();
      full = stats.compressed_budget - stats.compressed_bytes < each;
    }
    for (uint32_t i = 0; i < 3; ++i) {
      rest.push_back(world.buffer(page_bytes, 0));
      world.fill(rest.back(), page_bytes, 2);
    }
    ok(trim_all(world));
    for (uint32_t d = 0; d < 2; ++d) {
      past[d] = world.buffer(page_bytes, d);
      world.fill(past[d], page_bytes, 3, d);
      ok(weir_advise(world.pool, past[d], 0, WEIR_WHOLE, WEIR_ADVISE_COLD));
    }
  }
  weir_result trim_host() {
    return weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr);
  }
  void close() {
    uint32_t seed = 1;
    for (const std::vector<weir_buffer> &some : {older, rest, {past[0], past[1]}}) {
      for (weir_buffer buffer : some) {
        world.check_read(buffer, page_bytes, seed);
        world.check(buffer, page_bytes, seed);
        ok(weir_buffer_destroy(world.pool, buffer));
      }
      ++seed;
    }
    ok(weir_pool_trim(world.pool, 1, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    close_clean(world);
  }
};

/// All of staging is with victims that wait for room in COMPRESSED, which the round under way makes: that needs none of it. And a thread that
/// waits for a slot to bring a page up gets it.
void victims_past_host_meet_a_round_of_moves_down(void **state) {
  // The round itself, and the one within it that makes room for its pages: before its bytes are copied and after.
  const std::vector<std::vector<const char *>> ways = {
      {"sink"}, {"sink", "sink"}, {"sink", "sink", "sunk"}};
  for (const auto &way : ways) {
    Crossing crossing(static_cast<const char *>(*state));
    World &world = crossing.world;
    {
      Gate gate(world.pool, way[0]);
      Task round([&] { return crossing.trim_host(); });
      for (size_t i = 0; i < way.size(); ++i) {
        if (i != 0) gate.next(way[i]);
        gate.await();
      }
      copies.store(0);
      interposed.interpose.store(count_copies);
      Task victims[2] = {Task([&] { return trim_some(world, 0, page_bytes); }),
                         Task([&] { return trim_some(world, 1, page_bytes); })};
      while (copies.load() < 2) std::this_thread::yield();  // each has a slot
      interposed.interpose.store(nullptr);
      Kernel kernel{0, page_bytes, 1, 0};
      Task reader([&] { return run(world, crossing.older.back(), WEIR_READ, &kernel); });
      assert_true(keeps_waiting(reader));
      for (const Task &victim : victims) assert_false(victim.ended());
      validate(world);
      gate.open();
      ok(round.join());
      for (Task &victim : victims) ok(victim.join());
      ok(reader.join());
      assert_int_equal(kernel.wrong, 0);
    }
    validate(world);
    crossing.close();
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(devices_drop_pages_for_each_other),
      cmocka_unit_test(full_devices_make_room_at_once),
      cmocka_unit_test(sets_from_both_ends),
      cmocka_unit_test(a_set_that_waits_holds_nothing),
      BOTH(victims_past_host_meet_a_round_of_moves_down),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
