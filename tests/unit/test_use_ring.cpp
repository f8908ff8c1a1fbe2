// SPDX-License-Identifier: Apache-2.0
//
// The log of what streams acquire, without a pool: records come in order, a full ring drops and counts, and a reader beside a writer that
// never waits sees no record that is half another's. How pools write it: test_use_feed.cpp.
// Where a writer and a reader run at the same time, what is compared is right whichever is the faster.

#include "core/lease/use_log.hpp"

#include "core/page/hot.hpp"
#include "tests/support/cmocka.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

namespace {

using weir::lease::ObservedOperation;
using weir::lease::ObservedStream;
using weir::lease::RecordRing;
using weir::lease::UseLog;
using weir::lease::UseRecord;
using weir::lease::UseRing;

constexpr uint64_t all = SIZE_MAX;
constexpr uint32_t capacity = RecordRing<2>::capacity;

class Failing final : public std::pmr::memory_resource {
 public:
  int64_t left = INT64_MAX;  ///< allocations until they fail
  int64_t bytes = 0;

 private:
  void *do_allocate(size_t size, size_t alignment) override {
    if (left-- <= 0) throw std::bad_alloc();
    bytes += static_cast<int64_t>(size);
    return std::pmr::new_delete_resource()->allocate(size, alignment);
  }
  void do_deallocate(void *memory, size_t size, size_t alignment) override {
    bytes -= static_cast<int64_t>(size);
    std::pmr::new_delete_resource()->deallocate(memory, size, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
};

/// Writes down what it is told: "s1.1:u7 n3" is a use of buffer 7 on slot 1's first stream, in an operation of name 3.
class Scribe : public weir::lease::Observer {
 public:
  std::string text;
  uint64_t uses = 0, operations = 0, lost = 0, lost_lives = 0;
  std::vector<uint32_t> buffers;  ///< used, in order

  void observe(const ObservedOperation &operation) override {
    ++operations;
    put("s" + name(operation.stream) + ":");
    for (const auto &use : operation.uses) {
      ++uses;
      buffers.push_back(use.buffer);
      text += "u" + std::to_string(use.buffer);
      if (use.end != UINT64_MAX)
        text += "[" + std::to_string(use.begin) + "," + std::to_string(use.end) + ")";
      text += use.mode == WEIR_READ ? "r" : use.mode == WEIR_READ_WRITE ? "w" : "d";
    }
    if (operation.name != 0) text += "n" + std::to_string(operation.name);
  }
  void born(uint32_t buffer, uint64_t generation, uint64_t bytes) override {
    put("+" + std::to_string(buffer) + "." +
        std::to_string(generation >> weir::page::Word::generation_shift) + "=" +
        std::to_string(bytes));
  }
  void died(uint32_t buffer, uint64_t generation) override {
    put("-" + std::to_string(buffer) + "." +
        std::to_string(generation >> weir::page::Word::generation_shift));
  }
  void began(const ObservedStream &stream) override { put("b" + name(stream)); }
  void missed(const ObservedStream &stream, uint64_t records) override {
    lost += records;
    put("m" + name(stream));
  }
  void missed_lives(uint64_t records) override {
    lost_lives += records;
    put("M");
  }

 private:
  static std::string name(const ObservedStream &stream) {
    return std::to_string(stream.slot) + "." + std::to_string(stream.life);
  }
  void put(const std::string &word) { text += (text.empty() ? "" : " ") + word; }
};

weir_buffer handle(uint64_t buffer, uint64_t generation = 1, uint64_t pool = 5) {
  return reinterpret_cast<weir_buffer>(buffer | generation << 32U | pool << 52U);
}
uint64_t word(uint64_t generation) { return generation << weir::page::Word::generation_shift; }
uint64_t read_of(uint64_t buffer) { return UseRecord::what(handle(buffer), WEIR_READ); }

/// An operation of so many uses, of buffers in a row from the first on.
void add(UseLog &log, UseRing &ring, uint32_t first, uint32_t count, uint32_t name = 0) {
  for (uint32_t i = 0; i < count; ++i)
    ring.add(read_of(first + i) | (i == 0 ? UseRecord::first : 0) |
                 (i == count - 1 ? UseRecord::last : 0),
             log.when(name));
}

struct Site {
  Failing memory;
  UseLog log{&memory};
  Scribe scribe;

  explicit Site(uint64_t large = 1) { log.start(large); }
  UseRing &ring(uint32_t slot = 1) {
    UseRing *made = log.add_ring({slot, 1});
    assert_non_null(made);
    return *made;
  }
  const char *drained(size_t most = all) {
    scribe.text.clear(), (void)log.drain(scribe, most);
    return scribe.text.c_str();
  }
};

void a_log_that_is_off_takes_no_memory_and_tells_nothing(void **) {
  Failing memory;
  UseLog log(&memory);
  Scribe scribe;
  log.born(1, word(1), 100);
  log.began({1, 1});
  log.died(1, word(1), 100);
  assert_int_equal(log.drain(scribe, all), 0);
  assert_string_equal(scribe.text.c_str(), "");
  assert_int_equal(memory.bytes, 0);
}

void an_operation_has_its_uses_as_they_were_given(void **) {
  Site site;
  UseRing &ring = site.ring();
  ring.add(UseRecord::what(handle(7, 3), WEIR_READ_WRITE) | UseRecord::first | UseRecord::ranged,
           site.log.when(9));
  ring.add(UseRecord::range | 0, 4096);
  ring.add(UseRecord::what(handle(7, 3), WEIR_READ), site.log.when(9));
  ring.add(UseRecord::what(handle(2), WEIR_DISCARD_WRITE) | UseRecord::ranged, site.log.when(9));
  ring.add(UseRecord::range | UseRecord::last | ((uint64_t{1} << 47U) + 5), uint64_t{1} << 48U);
  ring.hit(UseRecord::what(handle(4000000000), WEIR_READ), site.log.when(UINT32_MAX));
  assert_string_equal(site.drained(),
                      "s1.1:u7[0,4096)wu7ru2[140737488355333,281474976710656)dn9 "
                      "s1.1:u4000000000rn4294967295");
  assert_string_equal(site.drained(), "");
}

void an_operation_that_is_being_written_waits_for_its_last_use(void **) {
  Site site;
  UseRing &ring = site.ring();
  ring.add(read_of(1) | UseRecord::first, site.log.when(0));
  assert_string_equal(site.drained(), "");
  ring.add(read_of(2), site.log.when(0));
  assert_string_equal(site.drained(), "");
  ring.add(read_of(3) | UseRecord::last, site.log.when(0));
  add(site.log, ring, 4, 1);
  assert_string_equal(site.drained(), "s1.1:u1ru2ru3r s1.1:u4r");
}

void records_come_in_order_however_often_the_ring_goes_round(void **) {
  Site site;
  UseRing &ring = site.ring();
  uint32_t next = 0, size = 1;
  for (int round = 0; round < 40; ++round) {
    const uint32_t end = next + capacity / 3;
    for (; next < end; next += size) {
      size = 1 + next % 7;
      add(site.log, ring, next, size);
    }
    (void)site.drained();
  }
  assert_int_equal(site.scribe.lost, 0);
  assert_int_equal(site.scribe.uses, next);
  for (uint32_t i = 0; i < next; ++i) assert_int_equal(site.scribe.buffers[i], i);
  assert_int_equal(ring.hits(), 0);
}

void a_full_ring_drops_the_oldest_and_counts(void **) {
  Site site;
  UseRing &ring = site.ring();
  constexpr uint32_t count = 2 * capacity + 100;
  for (uint32_t i = 0; i < count; ++i) ring.hit(read_of(i), site.log.when(0));
  (void)site.drained();
  Scribe &scribe = site.scribe;
  assert_int_equal(scribe.uses + scribe.lost, count);
  assert_int_equal(scribe.uses, capacity - RecordRing<2>::most_unpublished);
  for (size_t i = 0; i < scribe.uses; ++i)
    assert_int_equal(scribe.buffers[i], count - scribe.uses + i);
  assert_string_equal(scribe.text.substr(0, 5).c_str(), "m1.1 ");  // before what came after it
  assert_int_equal(ring.hits(), count);
  add(site.log, ring, 1, 1);
  assert_string_equal(site.drained(), "s1.1:u1r");
}

void an_operation_that_has_lost_a_part_is_dropped_whole(void **) {
  for (uint32_t begun = 0; begun < 3; ++begun) {
    Site site;
    UseRing &ring = site.ring();
    // The first of an operation of three have been read, or none.
    for (uint32_t i = 0; i < begun; ++i)
      ring.add(read_of(0) | (i == 0 ? UseRecord::first : 0), site.log.when(0));
    (void)site.drained();
    for (uint32_t i = begun; i < 3; ++i)
      ring.add(read_of(0) | (i == 0 ? UseRecord::first : 0) | (i == 2 ? UseRecord::last : 0),
               site.log.when(0));
    const uint32_t count = 3 + 3 * capacity;
    for (uint32_t i = 3; i < count; i += 3) add(site.log, ring, i, 3);
    (void)site.drained();
    Scribe &scribe = site.scribe;
    assert_int_equal(scribe.uses + scribe.lost, count);
    assert_int_equal(scribe.uses, 3 * scribe.operations);
    assert_true(scribe.uses > capacity / 2);
    for (size_t i = 0; i < scribe.uses; ++i)
      assert_int_equal(scribe.buffers[i], count - scribe.uses + i);
  }
}

void an_operation_larger_than_the_ring_is_missed(void **) {
  for (const uint32_t size : {capacity, 65535U}) {
    Site site;
    UseRing &ring = site.ring();
    add(site.log, ring, 1, 1);
    // As its writer is, and the reader looks now and then.
    for (uint32_t i = 0; i < size; ++i) {
      ring.add(read_of(i) | (i == 0 ? UseRecord::first : 0) | (i == size - 1 ? UseRecord::last : 0),
               site.log.when(0));
      if (i % 1000 == 0) (void)site.drained();
    }
    add(site.log, ring, 2, 1);
    (void)site.drained();
    assert_int_equal(site.scribe.operations, 2);
    assert_int_equal(site.scribe.lost, size);
    assert_int_equal(site.scribe.buffers.back(), 2);
  }
}

void births_and_deaths_lie_between_the_uses_as_they_did(void **) {
  Site site(100);
  site.log.began({1, 1});
  UseRing &ring = site.ring();
  site.log.born(1, word(1), 100);
  add(site.log, ring, 1, 1);
  site.log.born(2, word(1048575), uint64_t{1} << 47U);
  site.log.born(3, word(1), 99);  // not large
  add(site.log, ring, 1, 3);
  site.log.died(1, word(1), 100);
  site.log.died(3, word(1), 99);
  site.log.born(1, word(2), 200);
  add(site.log, ring, 1, 1);
  site.log.died(1, word(2), 200);
  const std::string whole =
      "b1.1 +1.1=100 s1.1:u1r +2.1048575=140737488355328 s1.1:u1ru2ru3r -1.1 +1.2=200 s1.1:u1r "
      "-1.2";
  assert_string_equal(site.drained(), whole.c_str());
}

void a_drain_ends_where_it_is_told_and_goes_on_there(void **) {
  for (size_t most = 1; most < 12; ++most) {
    Site site;
    UseRing &one = site.ring(1), &other = site.ring(2);
    add(site.log, one, 10, 2);
    site.log.born(1, word(1), 100);
    add(site.log, other, 20, 3);
    (void)site.log.next_moment();
    add(site.log, one, 1, 1);
    site.log.died(1, word(1), 100);
    std::string text;
    for (;;) {
      site.scribe.text.clear();
      const size_t told = site.log.drain(site.scribe, most);
      if (told == 0) break;
      assert_true(told < most + 3);  // the last may be an operation of three uses
      text += (text.empty() ? "" : " ") + site.scribe.text;
    }
    assert_string_equal(text.c_str(), "s1.1:u10ru11r +1.1=100 s2.1:u20ru21ru22r s1.1:u1r -1.1");
  }
}

/// A death may be read in the same drain as uses that did not fit beside what was left of the drain before.
void a_death_waits_for_uses_that_have_not_been_copied(void **) {
  Site site;
  UseRing &one = site.ring(1), &other = site.ring(2);
  site.log.born(1, word(1), 100);
  for (int i = 0; i < 4000; ++i) add(site.log, one, 2, 1);
  (void)site.drained(10);
  for (int i = 0; i < 200; ++i) add(site.log, one, 1, 1);
  site.log.died(1, word(1), 100);
  add(site.log, other, 3, 1);
  const std::string text = site.drained();
  assert_int_equal(site.scribe.lost, 0);
  assert_int_equal(site.scribe.uses, 4201);
  assert_true(text.ends_with("s1.1:u1r -1.1 s2.1:u3r"));
}

void a_use_waits_for_births_that_have_not_been_copied(void **) {
  Site site;
  UseRing &ring = site.ring();
  for (uint32_t i = 0; i < 4000; ++i) site.log.born(i, word(1), 1);
  (void)site.drained(10);
  for (uint32_t i = 4000; i < 4200; ++i) site.log.born(i, word(1), 1);
  add(site.log, ring, 4199, 1);
  const std::string text = site.drained();
  assert_int_equal(site.scribe.lost_lives, 0);
  assert_true(text.ends_with("+4199.1=1 s1.1:u4199r"));
}

void streams_are_merged_by_the_moment_of_their_uses(void **) {
  Site site;
  UseRing &one = site.ring(1), &other = site.ring(2);
  std::string expected;
  for (uint32_t i = 0; i < 50; ++i) {
    (void)site.log.next_moment();
    add(site.log, i % 3 == 0 ? one : other, i, 1);
    expected += (i == 0 ? "s" : " s") + std::string(i % 3 == 0 ? "1.1:u" : "2.1:u") +
                std::to_string(i) + "r";
  }
  assert_string_equal(site.drained(), expected.c_str());
}

void moments_may_go_round(void **) {
  Site site;
  UseRing &one = site.ring(1), &other = site.ring(2);
  one.add(read_of(1) | UseRecord::first | UseRecord::last, UINT32_MAX - 1);
  other.add(read_of(2) | UseRecord::first | UseRecord::last, UINT32_MAX);
  one.add(read_of(3) | UseRecord::first | UseRecord::last, 0);
  other.add(read_of(4) | UseRecord::first | UseRecord::last, 1);
  assert_string_equal(site.drained(), "s1.1:u1r s2.1:u2r s1.1:u3r s2.1:u4r");
}

void a_slot_that_is_taken_over_begins_another_stream(void **) {
  Site site;
  site.log.began({1, 1});
  UseRing &ring = site.ring();
  add(site.log, ring, 1, 1);
  site.log.began({1, 2});
  add(site.log, ring, 2, 1);
  add(site.log, *site.log.add_ring({1, 2}), 3, 1);
  const std::string text = site.drained();
  assert_true(text == "b1.1 s1.1:u1r b1.2 s1.2:u2r s1.2:u3r" ||
              text == "b1.1 s1.1:u1r b1.2 s1.2:u3r s1.2:u2r");
}

void births_that_do_not_fit_are_counted(void **) {
  Site site;
  UseRing &ring = site.ring();
  constexpr uint32_t count = capacity + 1000;
  for (uint32_t i = 0; i < count; ++i) site.log.born(i, word(1), 1);
  add(site.log, ring, count - 1, 1);
  (void)site.drained();
  assert_int_equal(site.scribe.lost_lives, 1000 + RecordRing<3>::most_unpublished);
  assert_true(site.scribe.text.starts_with("M +" + std::to_string(site.scribe.lost_lives)));
  assert_true(site.scribe.text.ends_with(" s1.1:u" + std::to_string(count - 1) + "r"));
}

template <class Call>
bool throws(Call &&call) {
  try {
    call();
    return false;
  } catch (const std::bad_alloc &) {
    return true;
  }
}

void without_memory_there_is_no_ring_and_no_harm(void **) {
  Failing memory;
  {
    UseLog log(&memory);
    memory.left = 0;
    assert_true(throws([&] { log.start(1); }));
    assert_false(log.on());
    memory.left = 1;
    log.start(1);
    assert_null(log.add_ring({1, 1}));
    memory.left = 1;
    UseRing *ring = log.add_ring({1, 1});
    assert_non_null(ring);
    add(log, *ring, 1, 3);
    Scribe scribe;
    assert_true(throws([&] { (void)log.drain(scribe, all); }));  // no memory for the operation
    memory.left = INT64_MAX;
    add(log, *ring, 4, 1);
    (void)log.drain(scribe, all);
    assert_string_equal(scribe.text.c_str(), "m1.1 s1.1:u4r");
    assert_int_equal(scribe.lost, 3);
    add(log, *ring, 5, 1);  // is left in it
  }
  assert_int_equal(memory.bytes, 0);
}

void there_are_so_many_rings_and_no_more(void **) {
  Site site;
  for (uint32_t i = 0; i < UseLog::most_rings; ++i) (void)site.ring(i);
  assert_null(site.log.add_ring({1, 1}));
  assert_true(site.memory.bytes <= int64_t{32} << 20U);
}

/// The writer goes on without regard to the reader, as the hit path does.
void a_reader_beside_a_writer_sees_whole_records_in_order(void **) {
  Site site;
  UseRing &ring = site.ring();
  constexpr uint32_t count = 1000000;
  std::atomic<bool> ended{false};
  std::thread writer([&] {
    uint32_t i = 0;
    while (i < count) {
      // A hit; or several, which are written before they are published. The name tells whether the words belong together.
      const uint32_t size = i % 5 == 0 ? 4 : 1;
      if (size == 1) {
        ring.hit(read_of(i), uint64_t{i} << 32U);
      } else {
        const uint64_t head = ring.head();
        for (uint32_t u = 0; u < size; ++u)
          ring.put(head + u,
                   read_of(i + u) | (u == 0 ? UseRecord::first : 0) |
                       (u == size - 1 ? UseRecord::last : 0),
                   uint64_t{i} << 32U);
        ring.publish_hits(head + size);
      }
      i += size;
    }
    ended = true;
  });
  struct Checker final : Scribe {
    uint64_t seen = 0, next = 0;
    bool wrong = false;
    void observe(const ObservedOperation &operation) override {
      const uint32_t first = operation.name;
      wrong = wrong || first < next || operation.uses.size() != (first % 5 == 0 ? 4U : 1U);
      for (const auto &use : operation.uses)
        wrong = wrong || use.buffer != first + (&use - operation.uses.data());
      next = first + operation.uses.size();
      seen += operation.uses.size();
    }
  } checker;
  while (!ended) (void)site.log.drain(checker, 100);
  writer.join();
  (void)site.log.drain(checker, all);
  assert_false(checker.wrong);
  assert_int_equal(checker.seen + checker.lost, count);
  assert_int_equal(checker.next, count);
}

/// It looks only when the writer has been all round, and is about to write where it begins to copy.
void a_reader_that_is_overtaken_while_it_copies_keeps_nothing_of_that(void **) {
  constexpr uint64_t count = 10000000;
  const auto ring = std::make_unique<RecordRing<2>>();
  std::thread writer([&ring] {
    for (uint64_t i = 0; i < count; ++i) {
      ring->put(i, {i + 1, ~i});
      ring->publish(i + 1);
    }
  });
  uint64_t next = 0;
  bool wrong = false;
  while (next < count) {
    while (ring->head() < std::min(count, next + capacity)) std::this_thread::yield();
    ring->fetch();
    for (const auto &[one, other] : ring->copied()) {
      wrong = wrong || (one != 0 && (one != next + 1 || other != ~next));
      next += one != 0 ? 1 : other;
    }
    ring->drop(ring->copied().size());
  }
  writer.join();
  assert_false(wrong);
  assert_int_equal(next, count);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_log_that_is_off_takes_no_memory_and_tells_nothing),
      cmocka_unit_test(an_operation_has_its_uses_as_they_were_given),
      cmocka_unit_test(an_operation_that_is_being_written_waits_for_its_last_use),
      cmocka_unit_test(records_come_in_order_however_often_the_ring_goes_round),
      cmocka_unit_test(a_full_ring_drops_the_oldest_and_counts),
      cmocka_unit_test(an_operation_that_has_lost_a_part_is_dropped_whole),
      cmocka_unit_test(an_operation_larger_than_the_ring_is_missed),
      cmocka_unit_test(births_and_deaths_lie_between_the_uses_as_they_did),
      cmocka_unit_test(a_drain_ends_where_it_is_told_and_goes_on_there),
      cmocka_unit_test(a_death_waits_for_uses_that_have_not_been_copied),
      cmocka_unit_test(a_use_waits_for_births_that_have_not_been_copied),
      cmocka_unit_test(streams_are_merged_by_the_moment_of_their_uses),
      cmocka_unit_test(moments_may_go_round),
      cmocka_unit_test(a_slot_that_is_taken_over_begins_another_stream),
      cmocka_unit_test(births_that_do_not_fit_are_counted),
      cmocka_unit_test(without_memory_there_is_no_ring_and_no_harm),
      cmocka_unit_test(there_are_so_many_rings_and_no_more),
      cmocka_unit_test(a_reader_beside_a_writer_sees_whole_records_in_order),
      cmocka_unit_test(a_reader_that_is_overtaken_while_it_copies_keeps_nothing_of_that),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
