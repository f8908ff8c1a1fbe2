// SPDX-License-Identifier: Apache-2.0
//
// The memory of a device without VMM: segments grown by need, with smaller sizes where the runtime refuses, never beyond
// the budget; given back when they are empty.

#include "tests/unit/segment_bench.hpp"

#include <random>

namespace {

using namespace weir::test::segments;

void nothing_is_taken_before_it_is_needed(void **) {
  auto bench = std::make_unique<Bench>(64 * mib);
  assert_int_equal(bench->pool->held(), 0);
  assert_int_equal(bench->pool->room(), 64 * mib);
  const GranuleId id = bench->take(3 * mib);
  assert_int_equal(bench->own.held, 32 * mib);
  assert_int_equal(bench->pool->idle(), 29 * mib);
  assert_int_equal(bench->pool->room(), 61 * mib);
  bench->check();
  bench->pool->release(id);
  assert_int_equal(bench->pool->idle(), 32 * mib);
  bench->check();
  bench->end();
}

void segments_grow_with_what_is_held(void **) {
  auto bench = std::make_unique<Bench>(uint64_t{64} << 30U);
  std::vector<GranuleId> all;
  for (int i = 0; i < 4096; ++i) all.push_back(bench->take(8 * mib));
  const uint64_t live = 4096 * 8 * mib;
  assert_true(bench->own.held <= live + live / 8);
  assert_true(bench->own.live.size() <= 96);
  assert_int_equal(bench->own.asked.front(), 32 * mib);
  assert_int_equal(bench->own.asked.back(), 1024 * mib);
  bench->check();
  for (const GranuleId id : all) bench->pool->release(id);
  assert_int_equal(bench->trim(UINT64_MAX), bench->pool->peak());
  assert_int_equal(bench->own.held, 0);
  bench->check();
  bench->end();
}

void large_requests_get_a_segment_of_their_own(void **) {
  auto bench = std::make_unique<Bench>(64 * mib, 16 * mib);
  const GranuleId small = bench->take(mib);
  const GranuleId large = bench->take(40 * mib);
  assert_int_equal(bench->own.asked.back(), 40 * mib);
  assert_int_equal(bench->own.held, 56 * mib);
  // What the budget has left is less than the preferred size.
  const GranuleId rest = bench->take(15 * mib);  // in the first segment
  const GranuleId last = bench->take(7 * mib);
  assert_int_equal(bench->own.asked.back(), 8 * mib);
  assert_int_equal(bench->own.held, 64 * mib);
  assert_int_equal(bench->claim(2 * mib), no_granule);  // one is left, of the last segment
  bench->check();
  for (const GranuleId id : {small, large, rest, last}) bench->pool->release(id);
  bench->end();
}

void refused_sizes_are_halved_and_then_exact(void **) {
  auto bench = std::make_unique<Bench>(128 * mib, 64 * mib, 20 * mib);
  const GranuleId first = bench->take(3 * mib);
  const std::vector<uint64_t> sizes{64 * mib, 32 * mib, 16 * mib};
  assert_true(bench->own.asked == sizes);
  bench->check();
  // No more than what was granted is asked for now; then halves down to an eighth, at last exactly what it takes.
  bench->own.asked.clear();
  bench->own.capacity = 17 * mib + page;
  const GranuleId whole = bench->take(13 * mib);  // fits what there is
  assert_true(bench->own.asked.empty());
  const GranuleId last = bench->take(mib + page);
  const std::vector<uint64_t> more{16 * mib, 8 * mib, 4 * mib, 2 * mib, mib + page};
  assert_true(bench->own.asked == more);
  assert_int_equal(bench->own.held, bench->own.capacity);
  assert_int_equal(bench->pool->budget(), 128 * mib);
  bench->check();
  for (const GranuleId id : {first, whole, last}) bench->pool->release(id);
  // With memory given back, the preferred size is tried again.
  assert_int_equal(bench->trim(UINT64_MAX), bench->own.most);
  bench->own.capacity = UINT64_MAX;
  bench->own.asked.clear();
  const GranuleId again = bench->take(mib);
  assert_int_equal(bench->own.asked.back(), 64 * mib);
  bench->pool->release(again);
  bench->end();
}

/// What is asked for after a refusal is half as much, in whole quanta.
void half_of_an_odd_number_of_quanta(void **) {
  auto bench = std::make_unique<Bench>(128 * mib);
  constexpr uint64_t quantum = 256;
  bench->own.answer = WEIR_ERROR_BACKEND;
  assert_int_equal(bench->take(3 * quantum), no_granule);
  bench->own.answer = WEIR_SUCCESS;
  const GranuleId one = bench->take(quantum);
  assert_int_equal(bench->own.asked.back(), quantum);
  bench->check();
  bench->pool->release(one);
  bench->end();
}

void a_refusal_changes_nothing(void **) {
  auto bench = std::make_unique<Bench>(128 * mib, 32 * mib, 40 * mib);
  const GranuleId kept = bench->take(20 * mib);
  const uint64_t address = bench->pool->at(kept).place;
  const GranuleId two = bench->claim(mib);  // in the first segment
  const GranuleId one = bench->claim(30 * mib);
  const GranuleId three = bench->claim(14 * mib);
  assert_int_equal(bench->pool->held(), 96 * mib);  // charged before there is memory
  const Status refused = bench->pool->materialize(bench->pool->at(one));
  assert_int_equal(refused.code(), WEIR_ERROR_DEVICE_OOM);
  assert_int_equal(bench->own.asked.back(), 30 * mib);
  assert_true(bench->pool->materialize(bench->pool->at(two)).ok());
  assert_int_equal(bench->pool->materialize(bench->pool->at(three)).code(),
                   WEIR_ERROR_DEVICE_OOM);  // 8 MiB are left
  for (const GranuleId id : {one, two, three}) bench->pool->release(id);
  assert_int_equal(bench->pool->at(kept).place, address);
  assert_int_equal(bench->pool->held(), 32 * mib);
  bench->check();
  // The budget falls faster at each refusal in a row, never below what is held.
  bench->pool->lower_budget(page);
  assert_int_equal(bench->pool->budget(), 128 * mib - page);
  bench->pool->lower_budget(page);
  assert_int_equal(bench->pool->budget(), 128 * mib - 3 * page);
  for (int i = 0; i < 40; ++i) bench->pool->lower_budget(page);
  assert_int_equal(bench->pool->budget(), 32 * mib);
  assert_int_equal(bench->claim(13 * mib), no_granule);
  bench->check();
  bench->own.answer = WEIR_ERROR_BACKEND;
  bench->pool->release(kept);
  assert_int_equal(bench->trim(UINT64_MAX), 32 * mib);
  assert_int_equal(bench->take(mib), no_granule);
  bench->check();
  bench->end();
}

void empty_segments_make_place_for_another_shape(void **) {
  auto bench = std::make_unique<Bench>(64 * mib, 16 * mib);
  std::vector<GranuleId> all;
  for (int i = 0; i < 4; ++i) all.push_back(bench->take(16 * mib));
  assert_int_equal(bench->claim(page), no_granule);
  for (int i = 1; i < 4; ++i) bench->pool->release(all[static_cast<size_t>(i)]);
  // 48 MiB are free, in three pieces. A claim that is given up leaves them as they were.
  const GranuleId given_up = bench->claim(40 * mib);
  assert_true(given_up != no_granule);
  assert_int_equal(bench->pool->held(), 64 * mib);
  bench->pool->release(given_up);
  assert_int_equal(bench->own.asked.size(), 4);
  bench->check();
  const GranuleId large = bench->take(40 * mib);
  assert_true(large != no_granule);
  assert_int_equal(bench->own.held, 56 * mib);
  assert_int_equal(bench->own.asked.size(), 5);
  bench->check();
  assert_int_equal(bench->claim(9 * mib), no_granule);
  // A refusal after the empty ones have gone: there is more room than before, and nothing is charged for nothing.
  bench->pool->release(large);
  bench->own.answer = WEIR_ERROR_DEVICE_OOM;
  assert_int_equal(bench->take(44 * mib), no_granule);
  assert_int_equal(bench->own.held, 16 * mib);
  bench->check();
  bench->pool->release(all[0]);
  bench->end();
}

void the_fullest_segment_is_filled_first(void **) {
  auto bench = std::make_unique<Bench>(64 * mib, 16 * mib);
  std::vector<GranuleId> all;
  for (int i = 0; i < 16; ++i) all.push_back(bench->take(4 * mib));
  const auto segment_of = [&](GranuleId id) {
    const auto after = bench->own.live.upper_bound(bench->pool->at(id).place);
    return std::prev(after)->first;
  };
  // The first loses three of four, the second one.
  for (const size_t i : {0U, 1U, 2U, 4U}) bench->pool->release(all[i]);
  const GranuleId a = bench->take(4 * mib);
  assert_int_equal(segment_of(a), segment_of(all[5]));
  const GranuleId b = bench->take(4 * mib);
  assert_int_equal(segment_of(b), segment_of(all[3]));
  bench->check();
  bench->end();
}

void claims_wait_for_a_segment_on_its_way(void **) {
  auto bench = std::make_unique<Bench>(128 * mib, 32 * mib, 40 * mib);
  const GranuleId first = bench->claim(8 * mib);
  const GranuleId second = bench->claim(8 * mib);
  bench->own.open(false);
  Status status[3];
  std::thread maker([&] { status[0] = bench->pool->materialize(bench->pool->at(first)); });
  bench->own.await_standing();
  const GranuleId third =
      bench->claim(4 * mib);  // not into what is on its way: it may come out smaller
  auto &other = bench->pool->at(second);
  std::thread waiter([&] { status[1] = bench->pool->materialize(other); });
  assert_string_equal(bench->pool->validate().c_str(), "");
  assert_int_equal(bench->pool->held(), 64 * mib);
  bench->own.open(true);
  maker.join();
  waiter.join();
  status[2] = bench->pool->materialize(bench->pool->at(third));
  for (const Status &each : status) assert_true(each.ok());
  assert_int_equal(bench->own.live.size(), 2);
  assert_int_equal(bench->own.held, 40 * mib);
  assert_true(bench->pool->at(second).place == bench->pool->at(first).place + 8 * mib);
  bench->check();
  bench->end();
}

void a_refusal_is_told_to_all_who_wait(void **) {
  auto bench = std::make_unique<Bench>(128 * mib, 32 * mib, 10 * mib);
  const GranuleId first = bench->claim(8 * mib);
  const GranuleId second = bench->claim(8 * mib);
  auto &one = bench->pool->at(first);
  auto &two = bench->pool->at(second);
  Status status[2];
  std::thread a([&] { status[0] = bench->pool->materialize(one); });
  std::thread b([&] { status[1] = bench->pool->materialize(two); });
  a.join();
  b.join();
  for (const Status &each : status) assert_int_equal(each.code(), WEIR_ERROR_DEVICE_OOM);
  assert_int_equal(bench->own.asked.size(), 2);  // whole, and exactly: that is half
  bench->pool->release(first);
  bench->check();
  bench->pool->release(second);
  bench->check();
  // One at a time there is memory.
  assert_true(bench->take(8 * mib) != no_granule);
  bench->check();
  bench->end();
}

void idle_segments_go_after_a_grace_period(void **) {
  auto bench = std::make_unique<Bench>(128 * mib, 16 * mib);
  std::vector<GranuleId> all;
  for (int i = 0; i < 6; ++i) all.push_back(bench->take(16 * mib));
  const auto look = [&] { bench->pool->look_at_idle(); };
  for (size_t i = 1; i < 6; ++i) bench->pool->release(all[i]);
  for (uint32_t i = 0; i < looks_a_grace; ++i) {
    look();
    assert_int_equal(bench->give_unneeded(0, UINT64_MAX), 0);
  }
  const GranuleId again = bench->take(mib);  // one of them is needed after all
  bench->pool->release(again);
  look();
  // At most so much at a time, but one at least; and a reserve stays.
  assert_int_equal(bench->give_unneeded(0, page), 16 * mib);
  assert_int_equal(bench->give_unneeded(0, 32 * mib), 32 * mib);
  assert_int_equal(bench->give_unneeded(20 * mib, UINT64_MAX), 0);
  assert_int_equal(bench->give_unneeded(16 * mib, UINT64_MAX), 16 * mib);
  assert_int_equal(bench->give_unneeded(0, UINT64_MAX), 0);  // the one that was needed
  bench->check();
  for (uint32_t i = 0; i < looks_a_grace; ++i) look();
  // A segment far larger than the reserve is no reserve.
  assert_int_equal(bench->give_unneeded(mib, UINT64_MAX), 16 * mib);
  assert_int_equal(bench->own.held, 16 * mib);
  bench->check();
  bench->pool->reset_peak();
  assert_int_equal(bench->pool->peak(), 16 * mib);
  bench->end();
}

/// Several threads under one lock, as the engine has it; the runtime has less than the budget says.
void many_threads(void **) {
  auto bench = std::make_unique<Bench>(64 * mib, 8 * mib, 48 * mib);
  std::mutex lock;
  std::atomic<bool> wrong{false};
  const auto work = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    struct Held {
      GranuleId id;
      uint64_t from, to;
    };
    std::vector<Held> held;
    for (int i = 0; i < 3000; ++i) {
      const uint64_t bytes = (1 + random() % 64) * page << (random() % 3);
      if (random() % 2 != 0 && held.size() < 40) {
        std::unique_lock hold(lock);
        DoomedList doomed;
        const GranuleId id = bench->pool->claim(PageClass::small, bytes, &doomed);
        if (id == no_granule) continue;
        auto &granule = bench->pool->at(id);
        hold.unlock();
        const bool ok = bench->pool->materialize(granule).ok();
        hold.lock();
        if (ok) {
          held.push_back({id, granule.place, granule.place + bytes});
        } else {
          bench->pool->release(id);
        }
      } else if (!held.empty()) {
        std::swap(held[random() % held.size()], held.back());
        const std::lock_guard hold(lock);
        bench->pool->release(held.back().id);
        held.pop_back();
      }
      if (random() % 50 == 0) {
        DoomedList doomed;
        std::unique_lock hold(lock);
        (void)bench->pool->take_idle(16 * mib, &doomed);
        hold.unlock();
        for (const auto &old : doomed) (void)bench->pool->destroy(old);
        hold.lock();
        for (const auto &old : doomed) bench->pool->forget(old);
        if (!bench->pool->validate().empty()) wrong = true;
      }
    }
    const std::lock_guard hold(lock);
    for (const Held &each : held) {
      // Within one piece of the machine's memory, still held.
      const std::lock_guard own(bench->own.mutex);
      const auto after = bench->own.live.upper_bound(each.from);
      if (after == bench->own.live.begin() ||
          std::prev(after)->first + std::prev(after)->second < each.to)
        wrong = true;
    }
    for (const Held &each : held) bench->pool->release(each.id);
  };
  std::thread threads[3];
  for (size_t i = 0; i < 3; ++i) threads[i] = std::thread(work, i + 1);
  for (std::thread &thread : threads) thread.join();
  assert_false(wrong.load());
  bench->alone = false;
  bench->check();
  assert_true(bench->own.most > 40 * mib);  // it was short
  (void)bench->trim(UINT64_MAX);
  assert_int_equal(bench->own.held, 0);
  bench->check();
  bench->end();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_taken_before_it_is_needed),
      cmocka_unit_test(segments_grow_with_what_is_held),
      cmocka_unit_test(large_requests_get_a_segment_of_their_own),
      cmocka_unit_test(refused_sizes_are_halved_and_then_exact),
      cmocka_unit_test(half_of_an_odd_number_of_quanta),
      cmocka_unit_test(a_refusal_changes_nothing),
      cmocka_unit_test(empty_segments_make_place_for_another_shape),
      cmocka_unit_test(the_fullest_segment_is_filled_first),
      cmocka_unit_test(claims_wait_for_a_segment_on_its_way),
      cmocka_unit_test(a_refusal_is_told_to_all_who_wait),
      cmocka_unit_test(idle_segments_go_after_a_grace_period),
      cmocka_unit_test(many_threads),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
