// SPDX-License-Identifier: Apache-2.0
//
// Leases of one range of a resident buffer take no lock of the pool's, and are no more than leases of that range: what is beside it may be
// leased, may leave the device, and waits for nothing. What overlaps conflicts and waits as ever.

#include <map>

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "core/lease/use_log.hpp"

#include "tests/support/watchdog.hpp"
#include "tests/unit/range_scene.hpp"

namespace {

using namespace weir::test;

using Scene = RangeScene;

void learn(weir_context context) {
  reinterpret_cast<weir::pool::Context *>(context)->learns = true;
}

void without_the_pools_lock(const Setup &setup) {
  Watchdog dog;
  Scene scene(setup);
  for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE, WEIR_DISCARD_WRITE}) {
    scene.once(part(scene.buffer_, mode, 2));
    dog.at("a range beside a thread that holds the pool's lock");
    const LockHolder holder(scene);
    for (uint32_t first = 0; first < pages; ++first) {
      weir_use use = part(scene.buffer_, mode, first);
      weir_lease lease = nullptr;
      ok(weir_acquire(scene.pool, scene.streams[0], &use, 1, nullptr, &lease));
      assert_int_equal(use.address, scene.address + first * page_bytes);
      ok(weir_release(lease, scene.streams[0]));
      expect_result(WEIR_ERROR_INVALID_HANDLE, weir_release(lease, scene.streams[0]));
    }
    // And between them leases of the whole.
    weir_use rest = WEIR_USE(scene.buffer_, mode);
    rest.offset = 1;
    scene.once(rest);
    scene.once(WEIR_USE(scene.buffer_, mode));
    scene.once(part(scene.buffer_, mode, 3, 5));
  }
  dog.at("the end");
  scene.end();
  dog.stop();
}

void ranges_take_no_lock(void **) {
  without_the_pools_lock({.device_pages = 32, .host_pages = 64});
}
void ranges_of_streams_that_are_learned_from_take_none(void **) {
  without_the_pools_lock({.device_pages = 32, .host_pages = 64, .flags = 0, .before_pool = learn});
}

/// Work of the stream's own that has not ended, of ranges and of the whole, keeps none from the hit path.
void own_work_is_no_history(void **) {
  Watchdog dog;
  Scene scene;
  Blocker work;
  scene.stand(part(scene.buffer_, WEIR_READ_WRITE, 1), scene.streams[0], &work);
  // A set of two goes the slow way, and so does what is leased beside it.
  weir_use two[] = {part(scene.buffer_, WEIR_READ_WRITE, 0), part(scene.buffer_, WEIR_READ, 4)};
  weir_lease lease = nullptr;
  ok(weir_acquire(scene.pool, scene.streams[0], two, 2, nullptr, &lease));
  ok(weir_release(lease, scene.streams[0]));
  scene.once(part(scene.buffer_, WEIR_READ, 2));
  dog.at("ranges beside a thread that holds the pool's lock");
  {
    const LockHolder holder(scene);
    for (uint32_t first = 0; first < pages; ++first)
      scene.once(part(scene.buffer_, WEIR_READ_WRITE, first));
    scene.once(WEIR_USE(scene.buffer_, WEIR_READ));
  }
  work.open();
  dog.at("the end");
  scene.end();
  dog.stop();
}

/// Which of two ranges, of one stream or of two, may be leased beside each other.
void a_lease_forbids_what_overlaps_and_no_more(void **) {
  Scene scene;
  for (const uint32_t first : {WEIR_READ, WEIR_READ_WRITE, WEIR_DISCARD_WRITE}) {
    for (const uint32_t second : {WEIR_READ, WEIR_READ_WRITE, WEIR_DISCARD_WRITE}) {
      for (const weir_stream stream : {scene.streams[0], scene.other}) {
        const bool both_read = first == WEIR_READ && second == WEIR_READ;
        scene.once(WEIR_USE(scene.buffer_, WEIR_READ_WRITE));
        scene.once(part(scene.buffer_, first, 2));
        weir_lease held = nullptr, out = nullptr;
        ok(scene.lease(part(scene.buffer_, first, 2, 3), &held));
        const auto may = [&](weir_use use, bool expected) {
          const weir_result result = scene.lease(use, &out, stream);
          expect_result(expected ? WEIR_SUCCESS : WEIR_ERROR_LEASE_CONFLICT, result);
          validate(scene);
          if (expected) ok(weir_release(out, stream));
        };
        may(part(scene.buffer_, second, 0, 2), true);
        may(part(scene.buffer_, second, 5, 3), true);
        may(part(scene.buffer_, second, 4, 1), both_read);
        may(part(scene.buffer_, second, 0, 3), both_read);
        may(WEIR_USE(scene.buffer_, second), both_read);
        expect_result(WEIR_ERROR_BUSY, weir_buffer_destroy(scene.pool, scene.buffer_));
        ok(weir_release(held, scene.streams[0]));
        ok(weir_stream_synchronize(scene.streams[0]));
        ok(weir_stream_synchronize(scene.other));
        may(WEIR_USE(scene.buffer_, WEIR_READ_WRITE), true);
      }
    }
  }
  scene.end();
}

/// Beside one of a range others are had of the whole on the hit path, and keep what they had.
void readers_of_the_whole_come_and_go_beside_it(void **) {
  Scene scene;
  weir_lease range = nullptr, whole = nullptr, out = nullptr;
  ok(scene.lease(part(scene.buffer_, WEIR_READ, 2), &range));
  ok(scene.lease(WEIR_USE(scene.buffer_, WEIR_READ), &whole));
  ok(weir_release(range, scene.streams[0]));
  expect_result(WEIR_ERROR_LEASE_CONFLICT,
                scene.lease(part(scene.buffer_, WEIR_READ_WRITE, 5), &out));
  ok(scene.lease(part(scene.buffer_, WEIR_READ, 5), &range));
  ok(weir_release(whole, scene.streams[0]));
  ok(scene.lease(part(scene.buffer_, WEIR_READ_WRITE, 4), &out));
  validate(scene);
  ok(weir_release(range, scene.streams[0]));
  ok(weir_release(out, scene.streams[0]));
  scene.end();
}

/// Other pages leave the device beside the lease, and come back; its own stay. What it writes stays too.
void other_pages_may_leave(void **) {
  for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE}) {
    Scene scene;
    weir_use use = part(scene.buffer_, mode, 3, 2);
    weir_lease held = nullptr, out = nullptr;
    ok(weir_acquire(scene.pool, scene.streams[0], &use, 1, nullptr, &held));
    ok(trim_all(scene));
    validate(scene);
    assert_int_equal(query(scene, scene.buffer_).device_bytes, 2 * page_bytes);
    // All that is not leased comes back, to another stream.
    ok(scene.lease(part(scene.buffer_, WEIR_READ_WRITE, 0, 3), &out, scene.other));
    ok(weir_release(out, scene.other));
    ok(scene.lease(part(scene.buffer_, WEIR_READ, 5, 3), &out, scene.other));
    assert_int_equal(query(scene, scene.buffer_).device_bytes, size);
    ok(weir_release(out, scene.other));
    ok(trim_all(scene));
    assert_int_equal(query(scene, scene.buffer_).device_bytes, 2 * page_bytes);
    ok(weir_release(held, scene.streams[0]));
    ok(trim_all(scene));
    assert_int_equal(query(scene, scene.buffer_).device_bytes, 0);
    scene.check(scene.buffer_, size, 1);
    scene.end();
  }
}

/// A range with a page that is not there goes the slow way, which brings it.
void a_hole_is_filled(void **) {
  Scene scene;
  weir_lease held = nullptr;
  ok(scene.lease(part(scene.buffer_, WEIR_READ, 0, 4), &held));
  ok(trim_all(scene));
  ok(weir_release(held, scene.streams[0]));
  const uint64_t misses = scene.stats().misses;
  scene.once(part(scene.buffer_, WEIR_READ, 1, 2));
  assert_int_equal(scene.stats().misses, misses);
  scene.once(part(scene.buffer_, WEIR_READ, 3, 2));
  assert_int_equal(scene.stats().misses, misses + 1);
  assert_int_equal(query(scene, scene.buffer_).device_bytes, 5 * page_bytes);
  scene.check(scene.buffer_, size, 1);
  scene.end();
}

/// Another stream waits for the uses of the bytes that it uses, and for no others.
void other_streams_wait_for_their_bytes_alone(void **) {
  for (const bool was_whole : {false, true}) {
    Scene scene;
    Blocker before, work;
    if (was_whole) {
      before.open();
      scene.stand(WEIR_USE(scene.buffer_, WEIR_READ_WRITE), scene.streams[0], &before);
      ok(weir_stream_synchronize(scene.streams[0]));
    }
    scene.once(part(scene.buffer_, WEIR_READ, 6));
    scene.stand(part(scene.buffer_, WEIR_READ_WRITE, 0), scene.streams[0], &work);
    scene.once(part(scene.buffer_, WEIR_READ, 4));
    // Free of the writer: its stream ends while the first one stands.
    scene.once(part(scene.buffer_, WEIR_READ_WRITE, 2), scene.other);
    ok(weir_stream_synchronize(scene.other));
    // A read beside a read.
    scene.once(part(scene.buffer_, WEIR_READ, 4), scene.other);
    ok(weir_stream_synchronize(scene.other));
    scene.once(part(scene.buffer_, WEIR_READ, 0), scene.other);
    assert_true(never_ready(scene.other));
    work.open();
    ok(weir_stream_synchronize(scene.other));
    scene.end();
  }
}

/// What used all of it before is waited for, whatever range has been used since.
void a_use_of_the_whole_is_not_forgotten(void **) {
  for (const bool range_after : {false, true}) {
    Scene scene;
    Blocker work;
    scene.once(part(scene.buffer_, WEIR_READ, 6));
    scene.stand(WEIR_USE(scene.buffer_, WEIR_READ_WRITE), scene.streams[0], &work);
    if (range_after) scene.once(part(scene.buffer_, WEIR_READ, 1));
    scene.once(part(scene.buffer_, WEIR_READ, 5), scene.other);
    assert_true(never_ready(scene.other));
    work.open();
    ok(weir_stream_synchronize(scene.other));
    scene.end();
  }
}

/// More ranges than a span remembers one by one are waited for all the same.
void many_ranges_are_remembered(void **) {
  for (uint32_t late = 0; late < pages; ++late) {
    Scene scene;
    Blocker work;
    for (uint32_t first = 0; first < pages; ++first) {
      if (first == late)
        scene.stand(part(scene.buffer_, WEIR_READ_WRITE, first), scene.streams[0], &work);
      else
        scene.once(part(scene.buffer_, WEIR_READ, first));
    }
    scene.once(part(scene.buffer_, WEIR_READ_WRITE, late), scene.other);
    assert_true(never_ready(scene.other));
    work.open();
    scene.end();
  }
}

/// Another stream reads the whole meanwhile: the one's fence is in the stamp, and the other's beside it.
void a_reader_of_another_stream_is_waited_for(void **) {
  Scene scene;
  Blocker work;
  weir_lease first = nullptr, second = nullptr;
  const weir_buffer fresh = scene.buffer(size);
  scene.fill(fresh, size, 3);
  ok(weir_stream_synchronize(scene.streams[0]));
  scene.once(part(fresh, WEIR_READ, 0), scene.other);
  ok(weir_stream_synchronize(scene.other));
  ok(scene.lease(part(fresh, WEIR_READ, 0), &first, scene.other));
  ok(scene.lease(WEIR_USE(fresh, WEIR_READ), &second));
  ok(weir_release(second, scene.streams[0]));
  ok(weir_stream_host_call(scene.other, Blocker::stand, &work));
  ok(weir_release(first, scene.other));
  scene.once(part(fresh, WEIR_READ_WRITE, 0));
  assert_true(never_ready(scene.streams[0]));
  work.open();
  ok(weir_stream_synchronize(scene.streams[0]));
  ok(weir_buffer_destroy(scene.pool, fresh));
  scene.end();
}

/// A lease of a range may end on another stream of its device.
void it_may_end_on_another_stream(void **) {
  Scene scene;
  Blocker work;
  weir_lease held = nullptr;
  ok(scene.lease(part(scene.buffer_, WEIR_READ_WRITE, 2), &held));
  ok(weir_stream_host_call(scene.other, Blocker::stand, &work));
  ok(weir_release(held, scene.other));
  scene.once(part(scene.buffer_, WEIR_READ, 2));
  assert_true(never_ready(scene.streams[0]));
  work.open();
  ok(weir_stream_synchronize(scene.streams[0]));
  scene.end();
}

/// Between devices ranges conflict by pages, though the one at home was granted by the hit path.
void on_another_device_its_pages_are_leased(void **) {
  Scene scene({.options = std::string(small_host) + ";host.devices=2",
               .device_pages = 32,
               .host_pages = 64,
               .devices = 2});
  weir_use near = part(scene.buffer_, WEIR_READ, 2), beside = near;
  near.length = beside.length = 100;
  beside.offset += 200;
  for (const bool write : {false, true}) {
    near.mode = beside.mode = write ? WEIR_READ_WRITE : WEIR_READ;
    for (int again = 0; again < 2; ++again) {
      weir_lease held = nullptr, out = nullptr;
      scene.once(near);
      ok(scene.lease(near, &held));
      ok(scene.lease(beside, &out));
      ok(weir_release(out, scene.streams[0]));
      const weir_result there = scene.lease(beside, &out, scene.streams[1]);
      expect_result(write ? WEIR_ERROR_LEASE_CONFLICT : WEIR_SUCCESS, there);
      if (!write) ok(weir_release(out, scene.streams[1]));
      validate(scene);
      ok(weir_release(held, scene.streams[0]));
      ok(scene.lease(part(scene.buffer_, WEIR_READ_WRITE, 2), &out, scene.streams[1]));
      validate(scene);
      ok(weir_release(out, scene.streams[1]));
      ok(weir_stream_synchronize(scene.streams[1]));
    }
  }
  scene.check(scene.buffer_, size, 1);
  scene.end();
}

/// A lease of a range ends, whatever has become of its device.
void it_ends_on_a_lost_device(void **) {
  for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE}) {
    Scene scene;
    weir_lease held = nullptr, out = nullptr;
    ok(scene.lease(part(scene.buffer_, mode, 2), &held));
    engine_of(scene).lose_device(0);
    validate(scene);
    expect_result(WEIR_ERROR_BUSY, weir_buffer_destroy(scene.pool, scene.buffer_));
    (void)weir_release(held, scene.streams[0]);
    expect_result(WEIR_ERROR_INVALID_HANDLE, weir_release(held, scene.streams[0]));
    assert_true(scene.lease(part(scene.buffer_, mode, 2), &out) != WEIR_SUCCESS);
    scene.end();
  }
}

/// A prefetch of a range waits for the use of its own bytes.
void a_prefetch_waits_for_its_bytes(void **) {
  Scene scene;
  const weir_use ahead = part(scene.buffer_, WEIR_READ, 6, 2);
  ok(weir_prefetch(scene.pool, scene.streams[0], &ahead, 1));
  for (int i = 0; i < 4; ++i) scene.once(part(scene.buffer_, WEIR_READ, 1));
  {
    const weir::Locked lock(engine_of(scene).sync().lock);
    assert_true(engine_of(scene).prefetcher().hinted(
        static_cast<uint32_t>(reinterpret_cast<uint64_t>(scene.buffer_))));
  }
  scene.once(ahead);
  {
    const weir::Locked lock(engine_of(scene).sync().lock);
    assert_false(engine_of(scene).prefetcher().hinted(
        static_cast<uint32_t>(reinterpret_cast<uint64_t>(scene.buffer_))));
  }
  scene.end();
}

/// A buffer that takes a dead one's number has nothing of it, and the dead one's span is another's.
void spans_are_passed_on(void **) {
  Scene scene;
  for (int i = 0; i < 5000; ++i) {
    const weir_buffer one = scene.buffer(2 * page_bytes);
    scene.once(WEIR_USE(one, WEIR_DISCARD_WRITE));
    for (int again = 0; again < 2; ++again) scene.once(part(one, WEIR_READ_WRITE, 1));
    ok(weir_buffer_destroy(scene.pool, one));
  }
  scene.end();
}

/// Counts ranges as it is told of them.
class Counter final : public weir::lease::Observer {
 public:
  std::map<std::pair<uint64_t, uint64_t>, size_t> ranges;
  bool wrong = false;
  void observe(const weir::lease::ObservedOperation &operation) override {
    wrong = wrong || operation.uses.size() != 1;
    ++ranges[{operation.uses[0].begin, operation.uses[0].end}];
  }
  void born(uint32_t, uint64_t, uint64_t) override {}
  void died(uint32_t, uint64_t) override {}
  void began(const weir::lease::ObservedStream &) override {}
  void missed(const weir::lease::ObservedStream &, uint64_t) override { wrong = true; }
  void missed_lives(uint64_t) override { wrong = true; }
};

void who_learns_is_told_of_ranges(void **) {
  Scene scene({.device_pages = 32, .host_pages = 64, .flags = 0, .before_pool = learn});
  Counter old, counter;
  (void)engine_of(scene).inspector().use_log().drain(old, SIZE_MAX);
  const uint64_t hits = scene.stats().hits;
  for (int i = 0; i < 10; ++i) {
    scene.once(part(scene.buffer_, WEIR_READ, 3, 2));
    weir_use rest = WEIR_USE(scene.buffer_, WEIR_READ_WRITE);
    rest.offset = page_bytes;
    scene.once(rest);
  }
  assert_int_equal(scene.stats().hits, hits + 20);
  (void)engine_of(scene).inspector().use_log().drain(counter, SIZE_MAX);
  assert_false(counter.wrong);
  assert_int_equal(counter.ranges.size(), 2);
  const std::pair first{3 * page_bytes, 5 * page_bytes}, second{page_bytes, size};
  assert_int_equal(counter.ranges[first], 10);
  assert_int_equal(counter.ranges[second], 10);
  scene.end();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(ranges_take_no_lock),
      cmocka_unit_test(ranges_of_streams_that_are_learned_from_take_none),
      cmocka_unit_test(own_work_is_no_history),
      cmocka_unit_test(a_lease_forbids_what_overlaps_and_no_more),
      cmocka_unit_test(readers_of_the_whole_come_and_go_beside_it),
      cmocka_unit_test(other_pages_may_leave),
      cmocka_unit_test(a_hole_is_filled),
      cmocka_unit_test(other_streams_wait_for_their_bytes_alone),
      cmocka_unit_test(a_use_of_the_whole_is_not_forgotten),
      cmocka_unit_test(many_ranges_are_remembered),
      cmocka_unit_test(a_reader_of_another_stream_is_waited_for),
      cmocka_unit_test(it_may_end_on_another_stream),
      cmocka_unit_test(on_another_device_its_pages_are_leased),
      cmocka_unit_test(it_ends_on_a_lost_device),
      cmocka_unit_test(a_prefetch_waits_for_its_bytes),
      cmocka_unit_test(spans_are_passed_on),
      cmocka_unit_test(who_learns_is_told_of_ranges),
  };
  return cmocka_run_group_tests_name("range hits", tests, nullptr, nullptr);
}
