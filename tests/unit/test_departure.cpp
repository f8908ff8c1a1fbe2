// SPDX-License-Identifier: Apache-2.0
//
// A device that thousands of buffers are at home on leaves the pool in parts: others have the lock in between, at every one of which the
// pool does what it is asked for, and no call calls the removal off any more once what is at home there is on its way elsewhere.

#include "tests/unit/neighbours.hpp"
#include "tests/unit/parts.hpp"

#include <cstring>
#include <string>

namespace {

using namespace weir::test;

constexpr uint32_t count = 10000;

struct Scene {
  World world{neighbours(20)};
  std::vector<weir_buffer> buffers, small;
  uint32_t written = 0;

  /// At home on device 1. The first few are written.
  explicit Scene(uint64_t size) {
    for (uint32_t i = 0; i < count; ++i) buffers.push_back(world.buffer(size, 1));
    for (; written < 8; ++written) world.fill(buffers[written], size, 1 + written, 1);
    for (uint32_t i = 0; i < 16; ++i) small.push_back(world.buffer(256, 1));
  }
  weir_result leave() { return weir_pool_remove_device(world.pool, 1, WEIR_INFINITE); }
  void close(uint64_t size) {
    validate(world);
    for (uint32_t i = 0; i < written; ++i) world.check(buffers[i], size, 1 + i, 0);
    for (const weir_buffer buffer : buffers) assert_int_equal(query(world, buffer).home, 0);
    for (const auto *all : {&buffers, &small})
      for (const weir_buffer buffer : *all) ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
};

/// Device 1 is being removed by another thread, which stands where it has let go of the lock for the time numbered `at`.
class Removal {
 public:
  Removal(Scene &scene, uint32_t at)
      : gate_(scene.world.pool, "remove.part"), leaver_([&scene, this] {
          const weir_result result = scene.leave();
          over_ = true;
          return result;
        }) {
    for (uint32_t i = 0; i < at; ++i) {
      arrive();
      gate_.next("remove.part");
    }
    arrive();
  }
  /// False: it was over before.
  bool stands() { return gate_.standing(); }
  weir_result finish() {
    gate_.open();
    return leaver_.join();
  }

 private:
  void arrive() {
    while (!gate_.standing() && !over_) std::this_thread::yield();
  }

  std::atomic<bool> over_{false};
  Gate gate_;
  Task leaver_;
};

/// Once for every 4096 records, in each of the walks: hits are closed, homes are moved, and all regions forget the device.
void others_have_the_lock_in_between(void **) {
  for (const uint64_t size : {page_bytes, uint64_t{256}}) {
    Scene scene(size);
    {
      Parts parts(scene.world, "remove.part");
      ok(scene.leave());
      assert_in_range(parts.take(), size == page_bytes ? 10 : 3, size == page_bytes ? 10 : 12);
    }
    scene.close(size);
  }
}

/// At each of those moments buffers are made, used and destroyed, at home on the one that stays and on the one that leaves.
void the_pool_goes_on_in_between(void **) {
  uint32_t moments = 0, refusals = 0;
  for (uint32_t at = 0;; ++at) {
    Scene scene(page_bytes);
    World &world = scene.world;
    bool reached = true;
    {
      Removal removal(scene, at);
      reached = removal.stands();
      if (reached) {
        // One is used on the other device, one goes, some come; the device itself is given nothing.
        world.fill(scene.buffers[100], page_bytes, 200, 0);
        world.check(scene.buffers[100], page_bytes, 200, 0);
        world.check(scene.buffers[0], page_bytes, 1, 0);
        ok(weir_buffer_destroy(world.pool, scene.buffers.back()));
        ok(weir_buffer_destroy(world.pool, scene.buffers[4000]));
        scene.buffers[4000] = world.buffer(page_bytes, 0);
        scene.buffers.back() = world.buffer(256, 0);
        weir_use use = WEIR_USE(scene.buffers[5], WEIR_READ);
        weir_lease lease = nullptr;
        expect_result(WEIR_ERROR_DEVICE_REMOVED,
                      weir_acquire(world.pool, world.streams[1], &use, 1, nullptr, &lease));
        weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
        desc.size = page_bytes;
        desc.home = 1;
        weir_buffer fresh = nullptr;
        const weir_result made = weir_buffer_create(world.pool, &desc, &fresh);
        if (made == WEIR_SUCCESS) {
          scene.buffers.push_back(fresh);
        } else {
          expect_result(WEIR_ERROR_INVALID_ARGUMENT, made);
          ++refusals;
        }
        // A small one that leaves its slab.
        world.fill(scene.small[at], 256, 300 + at, 0);
        ++moments;
      }
      ok(removal.finish());
    }
    if (reached) {
      world.check(scene.buffers[100], page_bytes, 200, 0);
      world.check(scene.small[at], 256, 300 + at, 0);
    }
    scene.close(page_bytes);
    if (!reached) break;
  }
  assert_in_range(moments, 6, 12);
  assert_in_range(refusals, 4, moments - 2);  // once its buffers are on their way it counts as gone
}

/// Before that it is as it was; after it the removal goes on.
void it_is_called_off_until_it_is_empty(void **) {
  uint32_t cancelled = 0, too_late = 0;
  for (uint32_t at = 0;; ++at) {
    Scene scene(page_bytes);
    World &world = scene.world;
    bool reached = true;
    weir_result said = WEIR_SUCCESS, left = WEIR_SUCCESS;
    uint32_t state = 0;
    std::string words;
    {
      Removal removal(scene, at);
      reached = removal.stands();
      if (reached) {
        weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
        ok(weir_pool_device_stats_get(world.pool, 1, &stats));
        state = stats.state;
        expect_result(WEIR_ERROR_BUSY, scene.leave());
        said = weir_pool_cancel_remove(world.pool, 1);
        if (said != WEIR_SUCCESS) words = weir_last_error();
      }
      left = removal.finish();
    }
    if (reached && said == WEIR_SUCCESS) {
      expect_result(WEIR_ERROR_CANCELLED, left);
      validate(world);
      for (const weir_buffer buffer : scene.buffers) assert_int_equal(query(world, buffer).home, 1);
      world.check(scene.buffers[3], page_bytes, 4, 1);
      ++cancelled;
      ok(scene.leave());
    } else {
      if (reached) {
        expect_result(WEIR_ERROR_INVALID_ARGUMENT, said);
        assert_non_null(std::strstr(words.c_str(), "not being removed any more"));
        assert_int_equal(state, WEIR_POOL_DEVICE_LEAVING);
      }
      too_late += reached ? 1 : 0;
      ok(left);
    }
    scene.close(page_bytes);
    if (!reached) break;
  }
  assert_in_range(cancelled, 2, 6);
  assert_in_range(too_late, 4, 8);
}

/// What ends while others have the lock is seen all the same: it is not told again.
void a_lease_that_ends_in_between_is_noticed(void **) {
  constexpr uint64_t pages = 5000;  // of which one is there
  World world(neighbours(20));
  weir_buffer buffer = world.buffer(pages * page_bytes, 1);
  const auto lease_first = [&](uint32_t stream, uint32_t mode, uint32_t flags) {
    weir_use use = WEIR_USE(buffer, mode);
    use.length = page_bytes;
    use.flags = flags;
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, world.streams[stream], &use, 1, nullptr, &lease));
    return lease;
  };
  ok(weir_release(lease_first(1, WEIR_DISCARD_WRITE, 0), world.streams[1]));
  weir_lease remote = lease_first(0, WEIR_READ, WEIR_USE_ALLOW_REMOTE);
  assert_int_equal(world.stats().remote_uses, 1);
  {
    Gate gate(world.pool, "remove.part");
    Task leaver([&] { return weir_pool_remove_device(world.pool, 1, WEIR_INFINITE); });
    gate.await();  // hits are closed
    gate.next("remove.part");
    gate.await();  // all pages have been looked at, and the one that is there is leased
    ok(weir_release(remote, world.streams[0]));
    gate.open();
    ok(leaver.join());
  }
  validate(world);
  assert_int_equal(query(world, buffer).home, 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(others_have_the_lock_in_between),
      cmocka_unit_test(the_pool_goes_on_in_between),
      cmocka_unit_test(it_is_called_off_until_it_is_empty),
      cmocka_unit_test(a_lease_that_ends_in_between_is_noticed),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
