// SPDX-License-Identifier: Apache-2.0
//
// Spans without a pool: which ranges a stamp stands for, which buffer has a span, and that none loses it while it is needed.

#include "core/page/spans.hpp"

#include "tests/support/failing_memory.hpp"

#include <algorithm>
#include <vector>

#include "tests/support/cmocka.hpp"  // last: it has macros with plain names

namespace {

using namespace weir::page;
using weir::Locked;
using weir::PoolLock;
using weir::backend::Stamp;
using weir::test::Failing;

constexpr uint32_t slot = 3, home = 1;
constexpr uint64_t size = 1000;

/// Buffers that the hit path is open to, and their spans.
struct Table {
  PoolLock lock{weir::Log()};
  Locked held{lock};
  BufferTable buffers{std::pmr::get_default_resource(), 1};
  Spans spans;

  explicit Table(std::pmr::memory_resource *memory = std::pmr::get_default_resource())
      : spans(memory) {}
  Hot &hot(uint32_t index) { return buffers.hot(index); }
  uint32_t add() {
    const uint32_t index = buffers.take();
    hot(index).stamp = 0;
    hot(index).set_size_device(size, home);
    hot(index).word = buffers.next_generation(index) | Word::alive | Word::resident | Word::sole;
    return index;
  }
  bool attach(uint32_t index) {
    spans.attach(hot(index), index, buffers);
    return Word::span(hot(index).word) != 0;
  }
  bool lease(uint32_t index, const SpanLease &range, uint32_t by = slot, uint32_t at = home) {
    uint64_t where = 0;
    return spans.try_lease(hot(index), hot(index).generation(), range, by, at, &where);
  }
  bool release(uint32_t index, const SpanLease &range, uint64_t point, uint32_t by = slot) {
    return spans.release(hot(index), range, Stamp::make(by, point, range.mode != WEIR_READ));
  }
  /// The ranges that the buffer's stamp stands for.
  std::vector<SpanUse> uses(uint32_t index) {
    const auto found = spans.of(hot(index).word)->uses(hot(index).last_use());
    return {found.begin(), found.end()};
  }
};

void one_range_at_a_time_is_counted_in_the_word(void **) {
  Table table;
  const uint32_t buffer = table.add();
  const SpanLease read{10, 20, WEIR_READ}, write{30, 40, WEIR_READ_WRITE};
  assert_false(table.lease(buffer, read));  // no span yet
  assert_true(table.attach(buffer));
  const uint64_t word = table.hot(buffer).word;
  assert_true(table.lease(buffer, read));
  Spans::Look seen = table.spans.look(table.hot(buffer));
  assert_true(seen.part.has_value());
  assert_int_equal(seen.part->begin, 10);
  assert_int_equal(seen.part->end, 20);
  assert_int_equal(seen.wholes(), 0);
  assert_false(table.lease(buffer, read));
  uint64_t where = 0;
  assert_true(
      table.hot(buffer).try_lease(table.hot(buffer).generation(), WEIR_READ, slot, home, &where));
  assert_int_equal(table.spans.look(table.hot(buffer)).wholes(), Word::reader);
  table.hot(buffer).drop_lease(WEIR_READ);
  assert_true(table.release(buffer, read, 5));
  assert_int_equal(table.hot(buffer).word, word);
  assert_true(table.lease(buffer, write));
  assert_int_equal(table.spans.look(table.hot(buffer)).wholes(), 0);
  assert_false(
      table.hot(buffer).try_lease(table.hot(buffer).generation(), WEIR_READ, slot, home, &where));
  table.spans.drop(table.hot(buffer), write.mode);
  assert_int_equal(table.hot(buffer).word, word);
}

/// Whatever closes the hit path to leases of the whole closes it to those of ranges, and leaves the word as it was.
void what_forbids_the_whole_forbids_a_range(void **) {
  Table table;
  const uint32_t buffer = table.add();
  assert_true(table.attach(buffer));
  Hot &hot = table.hot(buffer);
  const uint64_t open = hot.word, generation = hot.generation();
  const SpanLease read{0, 10, WEIR_READ}, write{0, 10, WEIR_READ_WRITE};
  const auto refused = [&](const SpanLease &range, uint64_t word) {
    hot.word = word;
    uint64_t where = 0;
    assert_false(table.spans.try_lease(hot, generation, range, slot, home, &where));
    assert_int_equal(hot.word, word);
    hot.word = open;
  };
  for (const uint64_t flag : {Word::history, Word::partial, Word::closing, Word::virgin}) {
    refused(read, open | flag);
    refused(write, open | flag);
  }
  refused(read, open & ~Word::resident);
  refused(read, open & ~Word::alive);
  refused(read, open | Word::writer);
  refused(write, open | Word::reader);
  refused(write, open & ~Word::sole);
  refused(read, open ^ (uint64_t{1} << Word::generation_shift));
  assert_false(table.lease(buffer, read, slot, home + 1));
  hot.stamp = Stamp::make(slot + 1, 7, false).bits;
  assert_false(table.lease(buffer, read));
  assert_int_equal(hot.word, open);
}

void a_stamp_stands_for_the_ranges_used(void **) {
  Table table;
  const uint32_t buffer = table.add();
  assert_true(table.attach(buffer));
  const auto use = [&](uint64_t begin, uint64_t end, uint8_t mode, uint64_t point) {
    assert_true(table.lease(buffer, {begin, end, mode}));
    assert_true(table.release(buffer, {begin, end, mode}, point));
  };
  use(0, 10, WEIR_READ_WRITE, 1);
  use(20, 30, WEIR_READ, 2);
  assert_int_equal(table.uses(buffer).size(), 2);
  use(0, 10, WEIR_READ, 3);  // a read does not stand for the write
  assert_int_equal(table.uses(buffer).size(), 3);
  use(0, 15, WEIR_READ_WRITE, 4);
  const std::vector<SpanUse> now = table.uses(buffer);
  assert_int_equal(now.size(), 2);
  assert_int_equal(now[0].begin, 20);
  assert_int_equal(now[1].end, 15);
  assert_true(now[1].stamp.write());
  // A lease of the whole comes between: its stamp stands for what was before.
  assert_true(table.hot(buffer).publish(Stamp::make(slot, 5, false)));
  assert_int_equal(table.uses(buffer).size(), 0);
  use(40, 50, WEIR_READ, 6);
  assert_int_equal(table.uses(buffer).size(), 1);
  assert_int_equal(table.spans.of(table.hot(buffer).word)->before().point(), 5);
  // Many: all are within what is remembered, and writes stay writes.
  for (uint64_t i = 0; i < 20; ++i)
    use(100 + 20 * i, 110 + 20 * i, i == 7 ? WEIR_READ_WRITE : WEIR_READ, 10 + i);
  for (uint64_t i = 0; i < 20; ++i) {
    bool covered = false;
    for (const SpanUse &each : table.uses(buffer))
      covered = covered || (each.begin <= 100 + 20 * i && 110 + 20 * i <= each.end &&
                            each.stamp.point() >= 10 + i && (i != 7 || each.stamp.write()));
    assert_true(covered);
  }
}

/// Two threads of one stream: a lease of the whole has its fence before one of a range, and publishes it after.
void a_late_release_of_the_whole_stands_for_all(void **) {
  Table table;
  const uint32_t buffer = table.add();
  assert_true(table.attach(buffer));
  Hot &hot = table.hot(buffer);
  const SpanLease read{10, 20, WEIR_READ};
  uint64_t where = 0;
  assert_true(hot.try_lease(hot.generation(), WEIR_READ, slot, home, &where));
  assert_true(table.lease(buffer, read));
  assert_true(table.release(buffer, read, 5));
  assert_int_equal(table.uses(buffer).size(), 1);
  assert_true(table.spans.release_whole(hot, WEIR_READ, Stamp::make(slot, 4, false)));
  assert_int_equal(hot.last_use().point(), 5);
  assert_int_equal(table.uses(buffer).size(), 0);
  assert_int_equal(Word::leases(hot.word), 0);
}

/// As they come from the history: none is dropped for one that ends before it.
void uses_may_come_in_no_order(void **) {
  const Stamp last = Stamp::make(slot, 100, true);
  for (const uint64_t late : {0U, 2U, 5U, 6U, 9U}) {
    Span span;
    uint64_t before = 0;
    const auto note = [&](uint64_t begin, uint64_t end, uint64_t point) {
      span.note(before, last, {begin, end, Stamp::make(slot, point, false)});
      before = last.bits;
    };
    for (uint64_t i = 0; i < 10; ++i) note(10 * i, 10 * i + 10, i == late ? 50 : 20 - i);
    note(0, size, 30);
    const auto uses = span.uses(last);
    assert_true(std::any_of(uses.begin(), uses.end(), [&](const SpanUse &use) {
      return use.begin <= 10 * late && 10 * late + 10 <= use.end && use.stamp.point() >= 50;
    }));
    assert_true(std::any_of(uses.begin(), uses.end(), [&](const SpanUse &use) {
      return use.begin == 0 && use.end == size && use.stamp.point() >= 30;
    }));
  }
}

void a_fence_of_another_stream_is_not_replaced(void **) {
  Table table;
  const uint32_t buffer = table.add();
  assert_true(table.attach(buffer));
  const SpanLease read{10, 20, WEIR_READ};
  assert_true(table.lease(buffer, read));
  const Stamp other = Stamp::make(slot + 1, 9, false);
  assert_true(table.hot(buffer).publish(other));
  assert_false(table.release(buffer, read, 10));
  assert_int_equal(table.hot(buffer).stamp, other.bits);
  assert_true(table.spans.look(table.hot(buffer)).part.has_value());
  assert_int_equal(table.uses(buffer).size(), 0);
  table.spans.drop(table.hot(buffer), read.mode);
  assert_int_equal(Word::leases(table.hot(buffer).word), 0);
}

/// However many want one, those with a lease keep theirs, and a buffer that asks gets one by and by.
void spans_go_round(void **) {
  Table table;
  constexpr uint32_t count = 3 * Word::most_spans / 2, kept = 100;
  const SpanLease read{10, 20, WEIR_READ};
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < count; ++i) {
    all.push_back(table.add());
    // Where all that are asked are leased it has none for the moment.
    for (uint32_t tries = 0; !table.attach(all[i]); ++tries) assert_true(tries < kept);
    if (i < kept) assert_true(table.lease(all[i], read));
  }
  std::vector<bool> owned(Word::most_spans + 1);
  uint32_t have = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t number = Word::span(table.hot(all[i]).word);
    assert_true(number != 0 || i >= kept);
    if (number == 0) continue;
    assert_false(owned[number]);
    owned[number] = true;
    ++have;
  }
  assert_int_equal(have, Word::most_spans);
  for (uint32_t i = 0; i < kept; ++i) {
    table.spans.detach(table.hot(all[i]));  // not while it is leased
    assert_true(table.release(all[i], read, 5));
    table.spans.detach(table.hot(all[i]));
    assert_int_equal(Word::span(table.hot(all[i]).word), 0);
    assert_false(table.lease(all[i], read));
  }
}

/// All are leased: a buffer that asks gets none.
void where_all_are_leased_there_is_none(void **) {
  Table table;
  const SpanLease read{10, 20, WEIR_READ};
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < Word::most_spans; ++i) {
    all.push_back(table.add());
    assert_true(table.attach(all[i]));
    assert_true(table.lease(all[i], read));
  }
  const uint32_t late = table.add();
  for (int i = 0; i < 10; ++i) assert_false(table.attach(late));
  for (const uint32_t each : all) assert_true(table.release(each, read, 1));
  assert_true(table.attach(late));
}

void without_memory_there_is_none(void **) {
  Failing memory;
  memory.left = 0;
  Table table(&memory);
  const uint32_t buffer = table.add();
  bool failed = false;
  try {
    (void)table.attach(buffer);
  } catch (const std::bad_alloc &) {
    failed = true;
  }
  assert_true(failed);
  assert_int_equal(Word::span(table.hot(buffer).word), 0);
  memory.left = SIZE_MAX;
  assert_true(table.attach(buffer));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(one_range_at_a_time_is_counted_in_the_word),
      cmocka_unit_test(what_forbids_the_whole_forbids_a_range),
      cmocka_unit_test(a_stamp_stands_for_the_ranges_used),
      cmocka_unit_test(a_late_release_of_the_whole_stands_for_all),
      cmocka_unit_test(uses_may_come_in_no_order),
      cmocka_unit_test(a_fence_of_another_stream_is_not_replaced),
      cmocka_unit_test(spans_go_round),
      cmocka_unit_test(where_all_are_leased_there_is_none),
      cmocka_unit_test(without_memory_there_is_none),
  };
  return cmocka_run_group_tests_name("spans", tests, nullptr, nullptr);
}
