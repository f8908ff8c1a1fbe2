// SPDX-License-Identifier: Apache-2.0
//
// Leases of ranges that the hit path grants while another thread is in the middle of something: with the pool's lock, between two steps, the
// other sees them; and threads that lease, write and evict at random. What is looked at is what the head of core/page/spans.hpp promises.

#include <array>
#include <cstdlib>
#include <memory>
#include <random>

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "tests/support/watchdog.hpp"
#include "tests/unit/range_scene.hpp"

namespace {

using namespace weir::test;
using Scene = RangeScene;

/// An acquire that is about to take a lease under the pool's lock sees one that comes in the meantime, on the bytes that it is of.
void a_slow_lease_sees_what_came_before_it(void **) {
  Watchdog dog;
  for (const bool overlaps : {true, false}) {
    Scene scene;
    const weir_buffer beside = scene.written(7);
    weir_lease held = nullptr, late = nullptr;
    weir_use two[] = {part(scene.buffer_, WEIR_READ_WRITE, 2), part(beside, WEIR_READ, 0)};
    {
      Gate gate(scene.pool, "acquire.ready");
      Task task([&] { return weir_acquire(scene.pool, scene.other, two, 2, nullptr, &late); });
      dog.at("a thread that holds the pool's lock, and is about to lease");
      gate.await();
      ok(scene.lease(part(scene.buffer_, WEIR_READ_WRITE, overlaps ? 2 : 3), &held));
      gate.open();
      expect_result(overlaps ? WEIR_ERROR_LEASE_CONFLICT : WEIR_SUCCESS, task.join());
    }
    validate(scene);
    if (!overlaps) ok(weir_release(late, scene.other));
    ok(weir_release(held, scene.streams[0]));
    ok(weir_stream_synchronize(scene.other));
    ok(weir_buffer_destroy(scene.pool, beside));
    scene.end();
  }
  dog.stop();
}

/// It waits for the fence of one that came and went in the meantime.
void a_slow_lease_waits_for_what_came_and_went(void **) {
  Watchdog dog;
  Scene scene;
  Blocker work;
  const weir_buffer beside = scene.written(7);
  weir_lease late = nullptr;
  weir_use two[] = {part(scene.buffer_, WEIR_READ_WRITE, 2), part(beside, WEIR_READ, 0)};
  {
    Gate gate(scene.pool, "acquire.ready");
    Task task([&] { return weir_acquire(scene.pool, scene.other, two, 2, nullptr, &late); });
    dog.at("a thread that holds the pool's lock, and is about to lease");
    gate.await();
    scene.stand(part(scene.buffer_, WEIR_READ, 2), scene.streams[0], &work);
    gate.open();
    ok(task.join());
  }
  ok(weir_release(late, scene.other));
  assert_true(never_ready(scene.other));
  work.open();
  dog.at("the end");
  ok(weir_stream_synchronize(scene.other));
  ok(weir_buffer_destroy(scene.pool, beside));
  scene.end();
  dog.stop();
}

/// Pages that are being evicted are closed: the hit path grants none of them, and an acquire gets what was written.
void pages_on_their_way_out_are_not_leased(void **) {
  Watchdog dog;
  for (const char *point : {"evict.claimed", "evict.unmapped"}) {
    Scene scene;
    weir_lease held = nullptr;
    {
      Gate gate(scene.pool, point);
      Task trimmer([&] { return trim_all(scene); });
      dog.at("an eviction under way");
      gate.await();
      Task task([&] { return scene.lease(part(scene.buffer_, WEIR_READ_WRITE, 2), &held); });
      assert_true(keeps_waiting(task));
      gate.open();
      ok(trimmer.join());
      ok(task.join());
    }
    validate(scene);
    ok(trim_all(scene));
    assert_int_equal(query(scene, scene.buffer_).device_bytes, page_bytes);
    ok(weir_release(held, scene.streams[0]));
    scene.check(scene.buffer_, size, 1);
    scene.end();
  }
  dog.stop();
}

/// Nothing that needs the bytes for itself gets them: they are not thrown away, held, moved or registered beside the lease.
void nobody_takes_what_is_leased(void **) {
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(4096, size),
                                                           &std::free);
  for (const char *without : {"", ";host.vmm=0"}) {
    for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE}) {
      Scene scene(
          {.options = std::string(small_host) + without, .device_pages = 32, .host_pages = 64});
      const weir_buffer before = scene.written(5);
      weir_use use = part(scene.buffer_, mode, 2);
      weir_lease held = nullptr;
      ok(weir_acquire(scene.pool, scene.streams[0], &use, 1, nullptr, &held));
      expect_result(WEIR_ERROR_LEASE_CONFLICT,
                    weir_discard(scene.pool, scene.buffer_, 0, WEIR_WHOLE));
      uint64_t address = 0;
      expect_result(
          WEIR_ERROR_LEASE_CONFLICT,
          weir_hold_as(scene.pool, scene.buffer_, 0, WEIR_READ_WRITE, WEIR_HOLD_ALONE, &address));
      if (mode != WEIR_READ)
        expect_result(WEIR_ERROR_LEASE_CONFLICT, weir_hold(scene.pool, scene.buffer_, 0, &address));
      expect_result(WEIR_ERROR_BUSY,
                    weir_host_register(scene.pool, scene.buffer_, memory.get(), WEIR_HOST_LOAD));
      expect_result(WEIR_ERROR_BUSY, weir_buffer_destroy(scene.pool, scene.buffer_));
      // Neighbours go, and what is leased stays where it is.
      ok(weir_buffer_destroy(scene.pool, before));
      weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
      ok(weir_pool_defragment(scene.pool, &desc, nullptr));
      ok(trim_all(scene));
      weir_lease again = nullptr;
      weir_use same = part(scene.buffer_, WEIR_READ, 2);
      if (mode == WEIR_READ) {
        ok(weir_acquire(scene.pool, scene.streams[0], &same, 1, nullptr, &again));
        assert_int_equal(same.address, use.address);
        ok(weir_release(again, scene.streams[0]));
      }
      validate(scene);
      ok(weir_release(held, scene.streams[0]));
      scene.check(scene.buffer_, size, 1);
      scene.end();
    }
  }
}

/// Which thread has which page now, as the test's threads know it.
struct Pages {
  std::array<std::atomic<int>, pages> readers{}, writers{};
  std::atomic<uint64_t> wrong{0};

  void enter(uint32_t first, uint32_t count, bool write) {
    for (uint32_t p = first; p < first + count; ++p) {
      const int others = write ? ++writers[p] - 1 : (++readers[p], 0);
      if (others != 0 || (write ? readers[p] : writers[p]) != 0) ++wrong;
    }
  }
  void leave(uint32_t first, uint32_t count, bool write) {
    for (uint32_t p = first; p < first + count; ++p) --(write ? writers : readers)[p];
  }
};

/// Threads lease ranges and the whole at random, on one stream and on two, while pages leave and come back: no two that may not be
/// had together ever are, nothing leased is taken out, and what was written stays.
void threads_share_a_buffer(void **) {
  Watchdog dog;
  Scene scene({.device_pages = 12, .host_pages = 64});
  Pages have;
  std::atomic<bool> over{false};
  std::atomic<uint64_t> failures{0}, granted{0};
  std::array<std::atomic<uint64_t>, pages> versions{};
  // On the host backend the CPU finds the bytes at their address, once the stream's work is done.
  const auto body = [&](uint32_t who) -> weir_result {
    std::mt19937 random(who);
    const weir_stream stream = who % 2 == 0 ? scene.streams[0] : scene.other;
    for (int i = 0; i < 1500; ++i) {
      const bool whole = random() % 8 == 0;
      const auto first = static_cast<uint32_t>(whole ? 0 : random() % pages);
      const auto count = static_cast<uint32_t>(whole ? pages : 1 + random() % (pages - first));
      const bool write = random() % 2 == 0;
      weir_use use = part(scene.buffer_, write ? WEIR_READ_WRITE : WEIR_READ, first, count);
      weir_lease lease = nullptr;
      const weir_result result = weir_acquire(scene.pool, stream, &use, 1, nullptr, &lease);
      if (result == WEIR_ERROR_LEASE_CONFLICT || result == WEIR_ERROR_WOULD_BLOCK) continue;
      if (result != WEIR_SUCCESS) {
        ++failures;
        continue;
      }
      ++granted;
      have.enter(first, count, write);
      if (weir_stream_synchronize(stream) != WEIR_SUCCESS) ++failures;
      for (uint32_t p = first; p < first + count; ++p) {
        auto *word =
            reinterpret_cast<std::atomic<uint64_t> *>(use.address + (p - first) * page_bytes);
        const uint64_t expected = versions[p].load();
        if (expected != 0 && word->load() != expected) ++have.wrong;
        if (!write) continue;
        const uint64_t fresh = (uint64_t{who + 1} << 32) + static_cast<uint64_t>(i) + 1;
        word->store(fresh);
        versions[p].store(fresh);
      }
      have.leave(first, count, write);
      if (weir_release(lease, stream) != WEIR_SUCCESS) ++failures;
    }
    return WEIR_SUCCESS;
  };
  dog.at("threads that lease");
  {
    Task trimmer([&] {
      while (!over) {
        if (trim_all(scene) != WEIR_SUCCESS) ++failures;
        std::this_thread::yield();
      }
      return WEIR_SUCCESS;
    });
    {
      Task a([&] { return body(0); }), b([&] { return body(1); }), c([&] { return body(2); });
      ok(a.join());
      ok(b.join());
      ok(c.join());
    }
    over = true;
    ok(trimmer.join());
  }
  dog.at("the end");
  assert_int_equal(failures, 0);
  assert_int_equal(have.wrong, 0);
  assert_true(granted > 100);
  scene.end();
  dog.stop();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_slow_lease_sees_what_came_before_it),
      cmocka_unit_test(a_slow_lease_waits_for_what_came_and_went),
      cmocka_unit_test(pages_on_their_way_out_are_not_leased),
      cmocka_unit_test(nobody_takes_what_is_leased),
      cmocka_unit_test(threads_share_a_buffer),
  };
  return cmocka_run_group_tests_name("range races", tests, nullptr, nullptr);
}
