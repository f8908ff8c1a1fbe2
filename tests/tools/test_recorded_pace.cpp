// SPDX-License-Identifier: Apache-2.0
//
// When a recorded call's turn is, and how well the bytes of a recorded program compressed.

#include "tests/support/cmocka.hpp"

#include "tools/weir/recorded/compressibility.hpp"
#include "tools/weir/recorded/pace.hpp"

#include <string>

namespace {

using namespace weir::tool::recorded;

ProgramCall call(CallKind kind, uint64_t waited = 0) {
  ProgramCall made;
  made.kind = kind;
  made.length = waited;
  return made;
}

void expect_turn(Pace &pace, const ProgramCall &of, uint64_t expected) {
  const auto turn = pace.turn_of(of);
  assert_true(turn.has_value());
  assert_int_equal(*turn, expected);
}

void calls_have_their_time(void **) {
  Pace pace(1);
  assert_false(pace.turn_of(call(CallKind::pool)).has_value());  // before the first time of day
  pace.at(1000);
  expect_turn(pace, call(CallKind::buffer), 0);
  pace.at(1700);
  expect_turn(pace, call(CallKind::release), 700);
  expect_turn(pace, call(CallKind::release), 700);
  // Only an acquire's length is a time.
  pace.at(1800);
  expect_turn(pace, call(CallKind::read, 500), 800);
}

/// The line stands where it was granted.
void acquires_begin_before_they_are_granted(void **) {
  Pace pace(1);
  pace.at(1000);
  expect_turn(pace, call(CallKind::release), 0);
  pace.at(2000);
  expect_turn(pace, call(CallKind::acquire, 300), 700);
  pace.at(3000);
  expect_turn(pace, call(CallKind::acquire, 5000), 1000);  // not before what stands before it
  pace.at(3100);
  expect_turn(pace, call(CallKind::acquire, UINT64_MAX), 2000);
  // The one that follows a wait counts from where it ended.
  expect_turn(pace, call(CallKind::acquire, 50), 2100);
  Pace first(1);
  first.at(1000);
  expect_turn(first, call(CallKind::acquire, 300), 0);
}

void stats(Program &program, uint32_t pool, Figures figures) {
  ProgramCall made = call(CallKind::stats);
  made.pool = pool;
  made.thing = static_cast<uint32_t>(program.figures.size());
  program.figures.push_back(std::move(figures));
  program.calls.push_back(made);
}

void bytes_compress_as_they_did(void **) {
  Program program;
  assert_false(random_words_of(program).has_value());
  stats(program, 0, {{"hits", 7}});
  assert_false(random_words_of(program).has_value());
  stats(program, 0, {{"compressed_in_bytes", 1000}, {"compressed_out_bytes", 500}});
  assert_int_equal(random_words_of(program).value(), 32);
  // The last of a pool counts, from its beginning on.
  stats(program, 0, {{"compressed_in_bytes", 4000}, {"compressed_out_bytes", 1000}});
  assert_int_equal(random_words_of(program).value(), 16);
  stats(program, 1, {{"incompressible_bytes", 4000}});
  assert_int_equal(random_words_of(program).value(), 40);
  stats(program, 2, {{"compressed_in_bytes", 1000000}, {"compressed_out_bytes", 1}});
  assert_int_equal(random_words_of(program).value(), 1);
  // Nonsense of a trace that somebody else wrote.
  stats(program, 2, {{"compressed_in_bytes", 1}, {"compressed_out_bytes", UINT64_MAX}});
  assert_int_equal(random_words_of(program).value(), 64);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(calls_have_their_time),
      cmocka_unit_test(acquires_begin_before_they_are_granted),
      cmocka_unit_test(bytes_compress_as_they_did),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
