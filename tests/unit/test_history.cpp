// SPDX-License-Identifier: Apache-2.0
//
// After what bytes may be used: past uses of buffers, and what the dead leave behind on their places. Two streams of the host
// backend that stand still until they are told to go on, and no pool.

#include "core/lease/history.hpp"

#include "tests/unit/blocked_streams.hpp"

#include "tests/support/cmocka.hpp"  // last: it has macros with plain names

namespace {

using weir::Locked;
using weir::PoolLock;
using weir::backend::Stamp;
using weir::lease::History;
using weir::lease::Range;
using weir::page::Region;
using weir::page::Word;
using weir::test::Scarce;
using Stamps = std::pmr::vector<Stamp>;

constexpr uint64_t page = 4096;

/// A buffer of four pages in a region of its own.
struct Site : weir::test::BlockedStreams {
  Scarce memory;
  PoolLock lock{weir::Log()};
  Locked held{lock};
  weir::page::RegionStore regions{std::pmr::get_default_resource()};
  weir::page::BufferDirectory buffers{regions, std::pmr::get_default_resource(), 1};
  History history{&memory, streams, buffers};
  Region region{0, &memory};
  uint32_t buffer = buffers.take(nullptr);

  Site() {
    region.shape = weir::page::Geometry::paged(4 * page, page, 0);
    region.pages.resize(4);
    region.owner.buffer = buffer;
    hot().set_size_device(4 * page, 0);
    hot().word = Word::alive;
  }
  weir::page::Hot &hot() { return buffers.hot(buffer); }
  bool flagged() { return (hot().word.load() & Word::history) != 0; }
  Range part(uint64_t begin, uint64_t end) { return {begin, end, buffer, &region, 0}; }
  Range all() { return part(0, 4 * page); }
  Stamps gather(const Range &range, bool write) {
    Stamps stamps;
    history.gather(range, write, &stamps);
    return stamps;
  }
  Stamps collect(uint32_t of, bool copies = false) {
    Stamps stamps;
    history.collect(region, of, &stamps, copies);
    return stamps;
  }
};

void expect(const Stamps &stamps, std::initializer_list<Stamp> wanted) {
  assert_int_equal(stamps.size(), wanted.size());
  for (const Stamp each : wanted) {
    assert_true(std::any_of(stamps.begin(), stamps.end(),
                            [each](Stamp stamp) { return stamp.bits == each.bits; }));
  }
}

void a_read_comes_after_writes_and_a_write_after_all(void **) {
  Site site;
  const Stamp read = site.first.use(false), write = site.second.use(true);
  site.history.note(site.buffer, 0, 100, read);
  site.history.note(site.buffer, 50, 200, write);
  assert_true(site.flagged());
  expect(site.gather(site.part(0, 50), true), {read});
  expect(site.gather(site.part(0, 50), false), {});
  expect(site.gather(site.part(99, 100), false), {write});
  expect(site.gather(site.part(99, 100), true), {read, write});
  expect(site.gather(site.part(200, 300), true), {});
  const Stamp whole = site.first.use(false);
  assert_true(site.hot().publish(whole));
  expect(site.gather(site.part(200, 300), true), {whole});
  expect(site.gather(site.part(200, 300), false), {});
}

void what_has_passed_is_forgotten(void **) {
  Site site;
  site.history.note(site.buffer, 0, 100, site.first.use(true));
  site.history.note(site.buffer, 0, 100, site.second.use(true));
  assert_true(site.history.pending(site.buffer));
  site.first.finish();
  assert_true(site.history.pending(site.buffer));
  site.second.finish();
  assert_true(site.history.knows(site.buffer));
  assert_false(site.history.pending(site.buffer));
  assert_false(site.history.knows(site.buffer));
}

void a_lease_of_all_takes_the_past_over(void **) {
  Site site;
  const Stamp past = site.first.use(true);
  assert_true(site.hot().publish(past));
  site.hot().word += Word::reader;
  site.history.grant_whole(site.buffer, false, site.first.stream);
  assert_int_equal(site.hot().last_use().bits, past.bits);  // its own past
  assert_false(site.history.knows(site.buffer));
  site.history.grant_whole(site.buffer, false, site.second.stream);
  assert_int_equal(site.hot().last_use().bits, 0);
  expect(site.gather(site.part(4 * page - 1, 4 * page), false), {past});
  assert_true(site.hot().publish(site.second.use(false)));
  site.history.grant_whole(site.buffer, true, site.second.stream);
  expect(site.gather(site.all(), true), {});
}

void without_memory_a_use_is_waited_for(void **) {
  Site site;
  const Stamp past = site.first.use(true);
  site.memory.out = true;
  site.first.work.open();
  site.history.note(site.buffer, 0, 100, past);
  assert_true(site.streams.passed(past));
  site.history.bury(site.region, 0, 100, site.first.use(true));
  assert_int_equal(site.region.past.tombstones.size(), 0);
}

void a_place_remembers_the_last_work_of_a_stream(void **) {
  Site site;
  const Stamp old = site.first.use(true), late = site.first.use(false);
  site.history.bury(site.region, 100, 200, old);
  site.history.bury(site.region, 0, 300, late);
  assert_int_equal(site.region.past.tombstones.size(), 1);
  Stamp past;
  assert_true(site.history.past_of(site.region, 0, 100, &past));
  assert_int_equal(past.point(), late.point());
  assert_true(past.write());  // the next use waits for all of it
  assert_true(site.history.past_ended(site.region, 300, 400, nullptr));
  assert_false(site.history.past_ended(site.region, 0, 100, nullptr));
  assert_false(site.history.past_ended(site.region, 0, 100, site.second.stream));
  assert_true(site.history.past_ended(site.region, 0, 100, site.first.stream));
  site.first.finish();
  assert_true(site.history.past_ended(site.region, 0, 100, site.second.stream));
  site.history.bury(site.region, 1000, 1100, old);  // has passed
  assert_int_equal(site.region.past.tombstones.size(), 1);
}

void the_past_of_several_streams_is_nobodys(void **) {
  Site site;
  site.history.bury(site.region, 0, 100, site.first.use(true));
  const Stamp other = site.second.use(true);
  site.history.bury(site.region, 50, 200, other);
  Stamp past;
  assert_false(site.history.past_of(site.region, 0, 200, &past));
  assert_true(site.history.past_of(site.region, 100, 200, &past));
  assert_int_equal(past.bits, other.bits);
  site.first.finish();
  assert_true(site.history.past_of(site.region, 0, 200, &past));
  assert_int_equal(past.bits, other.bits);
}

void many_tombstones_become_one_a_stream(void **) {
  Site site;
  Stamp last;
  for (uint64_t i = 0; i < 200; ++i) {
    last = site.first.use(i == 3);
    site.history.bury(site.region, 2 * i, 2 * i + 1, last);
    assert_true(site.region.past.tombstones.size() <= 64);
  }
  Stamp past;
  for (uint64_t i = 0; i < 200; ++i) {
    assert_true(site.history.past_of(site.region, 2 * i, 2 * i + 1, &past));
    assert_true(past.point() != 0);
  }
  assert_true(site.history.past_of(site.region, 0, 400, &past));
  assert_int_equal(past.point(), last.point());
}

void a_dead_buffers_past_is_its_places(void **) {
  Site site;
  const Stamp whole = site.first.use(false), part = site.second.use(true);
  assert_true(site.hot().publish(whole));
  site.history.note(site.buffer, 0, 100, part);
  site.history.bury_all(site.all());
  assert_false(site.history.knows(site.buffer));
  Stamps stamps;
  History::gather_place(site.region, 50, 60, &stamps);
  expect(stamps, {whole, part});
  stamps.clear();
  History::gather_place(site.region, 100, 200, &stamps);
  expect(stamps, {whole});
  // Another buffer gets the place before its first use ...
  site.hot().stamp = 0;
  site.hot().word |= Word::virgin;
  expect(site.gather(site.part(50, 60), false), {whole, part});
  // ... or the region.
  site.history.inherit(site.buffer, 4 * page, site.region);
  assert_int_equal(site.region.past.tombstones.size(), 0);
  expect(site.gather(site.part(300, 400), true), {whole, part});
}

void a_moved_buffer_takes_over_the_past_of_its_new_place(void **) {
  Site site;
  const Stamp dead = site.first.use(true);
  site.history.bury(site.region, page, page + 100, dead);
  site.hot().set_size_device(200, 0);
  site.history.take_over({0, 200, site.buffer, &site.region, 2 * page});
  assert_false(site.history.knows(site.buffer));
  site.history.take_over({0, 200, site.buffer, &site.region, page});
  expect(site.gather({150, 200, site.buffer, &site.region, page}, false), {dead});
  assert_int_equal(site.region.past.tombstones.size(), 1);
}

void a_page_is_left_by_what_runs_on_it_and_no_other(void **) {
  Site site;
  const Stamp use = site.first.use(false), dead = site.second.use(true);
  site.history.note(site.buffer, page, 2 * page, use);
  site.history.bury(site.region, 2 * page, 2 * page + 1, dead);
  site.region.residences.push_back(
      weir::make_owned<weir::page::Residence>(&site.memory, uint8_t{0}, &site.memory));
  site.region.residences[0]->pages.resize(4);
  const Stamp copy = site.second.use(true);
  site.region.residences[0]->pages.edit(1).ready = copy;
  expect(site.collect(0), {});
  expect(site.collect(1), {use, copy});
  expect(site.collect(1, true), {copy});
  expect(site.collect(2), {dead});
  assert_true(site.history.at_rest(site.region, 0));
  assert_false(site.history.at_rest(site.region, 1));
  assert_false(site.history.at_rest(site.region, 2));
  site.second.finish();
  expect(site.collect(1), {use});
  assert_true(site.history.at_rest(site.region, 1));
  assert_true(site.history.at_rest(site.region, 2));
  const Stamp whole = site.first.use(true);
  assert_true(site.hot().publish(whole));
  expect(site.collect(3), {whole});
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_read_comes_after_writes_and_a_write_after_all),
      cmocka_unit_test(what_has_passed_is_forgotten),
      cmocka_unit_test(a_lease_of_all_takes_the_past_over),
      cmocka_unit_test(without_memory_a_use_is_waited_for),
      cmocka_unit_test(a_place_remembers_the_last_work_of_a_stream),
      cmocka_unit_test(the_past_of_several_streams_is_nobodys),
      cmocka_unit_test(many_tombstones_become_one_a_stream),
      cmocka_unit_test(a_dead_buffers_past_is_its_places),
      cmocka_unit_test(a_moved_buffer_takes_over_the_past_of_its_new_place),
      cmocka_unit_test(a_page_is_left_by_what_runs_on_it_and_no_other),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
