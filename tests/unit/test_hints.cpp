// SPDX-License-Identifier: Apache-2.0
//
// Hints without a pool: how long what was prefetched counts as needed next, in which order requests are taken, and when one may
// evict.

#include "core/policy/hints.hpp"

#include "tests/support/cmocka.hpp"

#include <weir/lease.h>

#include <map>

namespace {

using namespace weir::policy;

struct World final : HintView {
  std::map<uint32_t, uint64_t> stamps;  ///< of buffers that live
  std::map<uint32_t, Progress> streams{{0, {}}, {1, {}}, {2, {}}};
  uint64_t room = 4;

  bool stamp(uint32_t buffer, uint64_t, uint64_t *stamp) noexcept override {
    const auto found = stamps.find(buffer);
    if (found == stamps.end()) return false;
    *stamp = found->second;
    return true;
  }
  bool progress(uint32_t slot, uint32_t, Progress *now) noexcept override {
    const auto found = streams.find(slot);
    if (found == streams.end()) return false;
    *now = found->second;
    return true;
  }
  uint64_t pages(uint8_t) noexcept override { return room; }

  World() {
    for (uint32_t b = 1; b < 200; ++b) stamps[b] = 0;
  }
};

PrefetchRequest request_of(uint32_t buffer, uint32_t asker = 1, uint64_t begin = 0,
                           uint64_t end = 100) {
  PrefetchRequest request{buffer, 0, begin, end, WEIR_READ, 0};
  request.asker = asker;
  request.bytes = end - begin;
  return request;
}

void ask(Hints &hints, World &world, uint32_t buffer, uint32_t asker = 1) {
  hints.begin_call();
  hints.ask(request_of(buffer, asker), 0, world);
}

uint64_t age(Hints &hints, World &world, uint32_t buffer) {
  return hints.age(buffer, 0, 100, 0, world);
}

constexpr uint64_t none = UINT64_MAX;

void a_hint_ends_with_its_use(void **) {
  World world;
  Hints hints(std::pmr::get_default_resource());
  ask(hints, world, 1);
  ask(hints, world, 2);
  assert_true(age(hints, world, 1) < age(hints, world, 2));
  assert_true(age(hints, world, 3) == none);
  assert_true(hints.age(1, 100, 200, 0, world) == none);
  assert_true(hints.age(1, 0, 100, 1, world) == none);
  assert_true(hints.age(1, 0, 100, Hints::any_place, world) != none);
  hints.use(1, 0, 50);
  assert_true(hints.age(1, 0, 50, 0, world) == none);
  assert_true(hints.age(1, 50, 100, 0, world) != none);
  hints.use(1, 50, 100);
  assert_int_equal(hints.count(), 1);
  world.stamps[2] = 9;  // used on the hit path
  assert_true(age(hints, world, 2) == none);
}

void a_hint_ends_with_its_buffer_its_stream_and_its_streams_patience(void **) {
  World world;
  Hints hints(std::pmr::get_default_resource());
  for (uint32_t b = 1; b <= 3; ++b) ask(hints, world, b, b == 3 ? 2 : 1);
  ask(hints, world, 4, 0);
  world.stamps.erase(1);
  assert_true(age(hints, world, 1) == none);
  world.streams[1] = {3, 9};
  assert_true(age(hints, world, 2) != none);
  world.streams[1] = {9, 3};
  assert_true(age(hints, world, 2) != none);  // the smaller count
  world.streams[1] = {4, 4};
  assert_true(age(hints, world, 2) == none);
  assert_true(age(hints, world, 3) != none);
  world.streams.erase(2);
  assert_true(age(hints, world, 3) == none);
  world.streams[0] = {4, 4};
  assert_true(age(hints, world, 4) == none);
}

void a_later_call_for_the_same_bytes_takes_the_place_of_the_earlier(void **) {
  World world;
  Hints hints(std::pmr::get_default_resource());
  ask(hints, world, 1);
  PrefetchBatch batch;
  hints.take(&batch);
  assert_true(hints.wants(batch.front(), world));
  ask(hints, world, 1);
  assert_int_equal(hints.count(), 1);
  assert_false(hints.wants(batch.front(), world));
}

void hints_that_have_ended_are_swept(void **) {
  World world;
  Hints hints(std::pmr::get_default_resource());
  for (uint32_t b = 1; b <= 64; ++b) ask(hints, world, b);
  for (uint32_t b = 1; b <= 60; ++b) world.stamps.erase(b);
  ask(hints, world, 100);
  assert_int_equal(hints.count(), 5);
  assert_int_equal(age(hints, world, 61), 0);  // the oldest there is
}

void requests_are_taken_in_the_order_of_their_calls_as_many_as_fit(void **) {
  World world;
  Hints hints(std::pmr::get_default_resource());
  for (uint32_t b = 1; b <= 20; ++b) ask(hints, world, b);
  PrefetchBatch batch;
  hints.take(&batch);
  assert_int_equal(batch.size(), most_together);
  for (uint32_t i = 0; i < batch.size(); ++i) assert_int_equal(batch[i].buffer, i + 1);
  PrefetchRequest large = request_of(30);
  large.end = uint64_t{20} << 20U;
  hints.begin_call();
  hints.ask(large, 0, world);
  batch.clear();
  hints.take(&batch);
  assert_int_equal(batch.size(), 4);
  batch.clear();
  hints.take(&batch);  // too large for any batch, it goes alone
  assert_int_equal(batch.size(), 1);
  assert_false(hints.pending());
  hints.begin_work();
  assert_true(hints.pending());
  hints.end_work();
}

void what_was_refused_waits_for_the_next_round_with_all_behind_it(void **) {
  World world;
  Hints hints(std::pmr::get_default_resource());
  assert_false(hints.retry());
  for (uint32_t b = 1; b <= 3; ++b) ask(hints, world, b, b == 3 ? 2 : 1);
  PrefetchBatch batch;
  hints.take(&batch);
  for (PrefetchRequest &request : batch) {
    if (request.buffer == 2) hints.refuse(request);
  }
  assert_false(hints.pending());
  ask(hints, world, 4, 1);
  ask(hints, world, 5, 2);
  hints.refuse(batch.front());  // and with it what its stream asked for later
  batch.clear();
  hints.take(&batch);
  assert_int_equal(batch.size(), 1);
  assert_int_equal(batch.front().buffer, 5);
  assert_true(hints.retry());
  assert_true(hints.pending());
  batch.clear();
  hints.take(&batch);
  assert_int_equal(batch.size(), 3);
  assert_int_equal(batch[0].buffer, 1);
  assert_int_equal(batch[1].buffer, 2);
  assert_int_equal(batch[2].buffer, 4);
}

void one_evicts_only_beside_what_was_asked_for_before_until_its_stream_has_been_right(void **) {
  World world;
  Hints hints(std::pmr::get_default_resource());
  for (uint32_t b = 1; b <= 3; ++b) ask(hints, world, b);
  PrefetchBatch batch;
  hints.take(&batch);
  assert_true(hints.may_evict(batch[1], 200, world));
  assert_false(hints.may_evict(batch[2], 200, world));
  PrefetchRequest announced = batch[2];
  announced.call = 0;
  assert_true(hints.may_evict(announced, 0, world));
  hints.use(1, 0, 100);
  assert_true(hints.may_evict(batch[2], 0, world));
  hints.ask_again(3, 0, 100, world);  // a demand was first
  assert_false(hints.may_evict(batch[2], 0, world));
  assert_true(hints.may_evict(batch[2], 200, world));  // the first's bytes don't count any more
  hints.use(2, 0, 100);
  hints.forget_stream(1);
  assert_false(hints.may_evict(batch[2], 0, world));
}

void what_a_demand_took_is_asked_for_again_once(void **) {
  World world;
  Hints hints(std::pmr::get_default_resource());
  ask(hints, world, 1);
  PrefetchBatch batch;
  hints.take(&batch);
  hints.ask_again(1, 100, 200, world);
  assert_false(hints.retry());
  hints.ask_again(1, 0, 100, world);
  hints.ask_again(1, 0, 100, world);
  assert_false(hints.pending());  // the room is taken for now
  assert_true(hints.retry());
  PrefetchBatch again;
  hints.take(&again);
  assert_int_equal(again.size(), 1);
  assert_int_equal(again.front().call, batch.front().call);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_hint_ends_with_its_use),
      cmocka_unit_test(a_hint_ends_with_its_buffer_its_stream_and_its_streams_patience),
      cmocka_unit_test(a_later_call_for_the_same_bytes_takes_the_place_of_the_earlier),
      cmocka_unit_test(hints_that_have_ended_are_swept),
      cmocka_unit_test(requests_are_taken_in_the_order_of_their_calls_as_many_as_fit),
      cmocka_unit_test(what_was_refused_waits_for_the_next_round_with_all_behind_it),
      cmocka_unit_test(
          one_evicts_only_beside_what_was_asked_for_before_until_its_stream_has_been_right),
      cmocka_unit_test(what_a_demand_took_is_asked_for_again_once),
  };
  return cmocka_run_group_tests_name("hints", tests, nullptr, nullptr);
}
