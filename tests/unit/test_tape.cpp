// SPDX-License-Identifier: Apache-2.0
//
// The tape: order across threads, a ring's end, what is lost, memory that can't be had, and notes from before a trace.

#include "tests/support/cmocka.hpp"
#include "tests/support/failing_memory.hpp"

#include "core/base/tape.hpp"

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using namespace weir;

struct Number : Note {
  uint64_t number = 0;
};

void put(Tape &tape, uint64_t number, size_t tail = 0) {
  Number note;
  note.kind = 1;
  note.number = number;
  const std::vector<std::byte> bytes(tail, std::byte{static_cast<unsigned char>(number)});
  tape.put(&note, sizeof note, {bytes});
}

bool take(Tape &tape, uint64_t *number) {
  const Note *const note = tape.next();
  if (note == nullptr) return false;
  *number = static_cast<const Number *>(note)->number;
  tape.take();
  return true;
}

void notes_come_as_they_were_put(void **) {
  Tape tape(1024, std::pmr::get_default_resource());
  uint64_t number = 0;
  assert_false(take(tape, &number));
  // Many times around, with tails of all lengths.
  for (uint64_t i = 0; i < 1000; ++i) {
    put(tape, i, i % 37);
    const Note *const note = tape.next();
    assert_non_null(note);
    assert_int_equal(static_cast<const Number *>(note)->number, i);
    const auto *const tail =
        reinterpret_cast<const unsigned char *>(note) + Tape::rounded(sizeof(Number));
    for (size_t at = 0; at < i % 37; ++at) assert_int_equal(tail[at], i & 0xffU);
    tape.take();
  }
  assert_int_equal(tape.lost(), 0);
}

void a_full_ring_loses_what_comes_and_keeps_what_is_there(void **) {
  Tape tape(1024, std::pmr::get_default_resource());
  for (uint64_t i = 0; i < 100; ++i) put(tape, i);
  assert_true(tape.lost() > 0);
  uint64_t number = 0, kept = 0;
  while (take(tape, &number)) assert_int_equal(number, kept++);
  assert_int_equal(kept + tape.lost(), 100);
  put(tape, 7);
  assert_true(take(tape, &number));
  assert_int_equal(number, 7);
  put(tape, 8, 600);  // more than half of a ring
  assert_false(take(tape, &number));
}

void threads_are_in_order(void **) {
  Tape tape(1U << 16U, std::pmr::get_default_resource());
  constexpr uint64_t each = 20'000;
  std::atomic<uint64_t> next{0};
  std::atomic<int> running{3};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      for (uint64_t n = 0; n < each; ++n) put(tape, next.fetch_add(1));
      running.fetch_sub(1);
    });
  // Of one thread in the order in which it put them; all there are but those that are counted as lost.
  uint64_t seen = 0, number = 0, order = 0;
  std::vector<uint64_t> last(1025, 0);
  const auto drain = [&] {
    while (const Note *const note = tape.next()) {
      number = static_cast<const Number *>(note)->number;
      assert_true(seen == 0 || note->order > order);
      order = note->order;
      assert_true(last[note->thread] == 0 || number + 1 > last[note->thread]);
      last[note->thread] = number + 1;
      ++seen;
      tape.take();
    }
  };
  while (running.load() != 0) drain();
  for (std::thread &thread : threads) thread.join();
  drain();
  assert_int_equal(seen + tape.lost(), 3 * each);
}

/// What one thread puts after it has seen another's comes after that.
void what_is_known_comes_first(void **) {
  Tape tape(1U << 16U, std::pmr::get_default_resource());
  for (uint64_t i = 0; i < 100; i += 2) {
    put(tape, i);
    std::thread([&] { put(tape, i + 1); }).join();
  }
  uint64_t number = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    assert_true(take(tape, &number));
    assert_int_equal(number, i);
  }
}

void what_was_before_is_forgotten(void **) {
  Tape tape(1024, std::pmr::get_default_resource());
  put(tape, 1);
  tape.clear();
  put(tape, 2);
  uint64_t number = 0;
  assert_true(take(tape, &number));
  assert_int_equal(number, 2);
  assert_false(take(tape, &number));
}

void without_memory_notes_are_lost(void **) {
  weir::test::Failing memory;
  for (uint64_t position = 0; position < 2; ++position) {
    Tape tape(1024, &memory);
    memory.left = position;
    put(tape, 1);
    memory.left = SIZE_MAX;
    assert_int_equal(tape.lost(), 1);
    put(tape, 2);
    uint64_t number = 0;
    assert_true(take(tape, &number));
    assert_int_equal(number, 2);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(notes_come_as_they_were_put),
      cmocka_unit_test(a_full_ring_loses_what_comes_and_keeps_what_is_there),
      cmocka_unit_test(threads_are_in_order),
      cmocka_unit_test(what_is_known_comes_first),
      cmocka_unit_test(what_was_before_is_forgotten),
      cmocka_unit_test(without_memory_notes_are_lost),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
