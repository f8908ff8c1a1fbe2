// SPDX-License-Identifier: Apache-2.0
//
// Where a program is: loops, loops in loops, a round that differs, operations in another order, streams that interleave. Operations are
// letters here, and have no uses.

#include "core/policy/alignment.hpp"

#include "tests/support/cmocka.hpp"

#include <random>
#include <string>
#include <vector>

namespace {

using namespace weir::policy;

constexpr uint32_t none = ProgramLog::none;

/// A program whose operations are observed one by one.
class Program {
 public:
  explicit Program(uint32_t operations = 4096)
      : log_(sizes(operations), std::pmr::get_default_resource()),
        contexts_(1024, 2, std::pmr::get_default_resource()) {}

  /// Returns the operation's number.
  uint32_t operate(uint32_t name, uint32_t stream = 0) {
    const uint32_t number = log_.begin_operation(name, name, stream, 0);
    contexts_.push(stream, name);
    alignments_[stream].observe(log_, contexts_, number);
    return number;
  }
  uint32_t operate(const std::string &names, uint32_t stream = 0) {
    uint32_t last = none;
    for (const char name : names) last = operate(static_cast<uint32_t>(name), stream);
    return last;
  }
  const Alignment &at(uint32_t stream = 0) const { return alignments_[stream]; }
  const ProgramLog &log() const { return log_; }

 private:
  static ProgramLog::Sizes sizes(uint32_t operations) {
    ProgramLog::Sizes its;
    its.operations = operations;
    its.streams = 2;
    return its;
  }
  ProgramLog log_;
  Contexts contexts_;
  Alignment alignments_[2];
};

/// So many operations, each of another name.
std::string letters(char first, uint32_t count) {
  std::string some;
  for (uint32_t index = 0; index < count; ++index)
    some += static_cast<char>(first + static_cast<char>(index));
  return some;
}

std::string times(uint32_t count, const std::string &some) {
  std::string all;
  for (uint32_t index = 0; index < count; ++index) all += some;
  return all;
}

void what_was_never_done_has_no_place(void **) {
  Program program;
  program.operate(letters('a', 20));
  assert_int_equal(program.at().place(), none);
  assert_int_equal(program.at().match(), none);
  assert_false(program.at().aligned());
}

void a_loop_is_where_it_was_a_round_before(void **) {
  Program program;
  program.operate(letters('a', 20));
  for (uint32_t number = 20; number < 200; ++number) {
    assert_int_equal(program.operate(std::string(1, static_cast<char>('a' + number % 20))), number);
    assert_int_equal(program.at().place(), number - 20);
    assert_int_equal(program.at().match(), number - 20);
  }
  assert_true(program.at().run() >= 180);
}

/// The inner loop's rounds are alike; only the stretch before tells in which of them the program is.
void a_loop_in_a_loop_is_where_it_was_in_the_outer_one(void **) {
  Program program;
  const std::string round = "x" + times(5, "abc") + "y" + times(3, "de") + "z";
  program.operate(times(2, round));
  const auto length = static_cast<uint32_t>(round.size());
  for (const char name : times(20, round)) {
    const uint32_t number = program.operate(std::string(1, name));
    assert_int_equal(program.at().place(), number - length);
  }
}

void a_longer_inner_loop_is_left_when_it_was_left_then(void **) {
  Program program;
  const std::string round = times(100, "a") + "b";
  program.operate(times(3, round));
  program.operate(times(100, "a"));
  assert_int_equal(program.log().operation(program.log().next(program.at().place())).name, 'b');
}

/// A round in which something is left out or comes in addition: a round later the program is where it should be.
void a_round_that_differs_is_passed_over(void **) {
  const std::string usual = letters('a', 26) + letters('A', 26);
  for (const uint32_t extra : {0u, 1u, 5u}) {
    for (const uint32_t missing : {0u, 1u, 5u, 20u}) {
      Program program;
      program.operate(times(4, usual));
      program.operate(usual.substr(0, 26) + letters('0', extra) + usual.substr(26 + missing));
      program.operate(usual);
      for (const char name : usual) {
        const uint32_t number = program.operate(std::string(1, name));
        assert_true(program.at().match() < number);
        assert_int_equal(program.log().operation(program.at().match()).name, name);
      }
    }
  }
}

void operations_in_another_order_are_paired_and_the_place_goes_on(void **) {
  Program program;
  const std::string usual = letters('a', 26);
  program.operate(times(4, usual));
  const uint64_t jumps = program.at().jumps();
  const uint32_t first = program.operate("a");
  const uint32_t then = first - 26;
  assert_int_equal(program.at().place(), then);
  program.operate("c");
  assert_int_equal(program.at().place(), then);
  assert_int_equal(program.at().match(), then + 2);
  assert_true(program.at().came_early(then + 2));
  program.operate("d");
  assert_int_equal(program.at().match(), then + 3);
  program.operate("?");  // a stranger in between
  assert_int_equal(program.at().place(), then);
  assert_int_equal(program.at().match(), none);
  assert_true(program.at().aligned());
  program.operate("b");
  assert_int_equal(program.at().match(), then + 1);
  assert_int_equal(program.at().place(), then + 3);  // it has gone on over what came early
  assert_false(program.at().came_early(then + 2));
  program.operate("e");
  assert_int_equal(program.at().place(), then + 4);
  assert_int_equal(program.at().jumps(), jumps);
}

/// What came early and what never comes don't hold the place back for ever.
void a_place_is_not_waited_at_for_ever(void **) {
  Program program;
  const std::string usual = letters('a', 26) + letters('A', 26);
  program.operate(times(4, usual));
  program.operate("a");
  const uint32_t waits = program.at().place();
  program.operate(usual.substr(2));  // 'b' is left out
  program.operate(times(2, usual));
  assert_true(program.at().place() > waits + 50);
  assert_int_equal(program.log().operation(program.at().place()).name, 'Z');
  assert_int_equal(program.at().match(), program.at().place());
}

void a_shuffled_round_does_not_lose_the_program(void **) {
  auto random = [engine = std::mt19937(3)]() mutable { return static_cast<uint32_t>(engine()); };
  Program program;
  const std::string usual = letters('a', 26) + letters('A', 26);
  program.operate(times(3, usual));
  uint32_t right = 0, all = 0;
  for (int round = 0; round < 30; ++round) {
    std::string names = usual;
    for (int swaps = 0; swaps < 3; ++swaps) {
      const size_t at = random() % 40;
      std::swap(names[at], names[at + 1 + random() % 8]);
    }
    for (const char name : names) {
      program.operate(std::string(1, name));
      const uint32_t match = program.at().match();
      right += match != none && program.log().operation(match).name == static_cast<uint32_t>(name);
      ++all;
    }
  }
  assert_true(right * 100 >= all * 97);
}

void streams_that_interleave_have_their_own_places(void **) {
  auto random = [engine = std::mt19937(5)]() mutable { return static_cast<uint32_t>(engine()); };
  Program program;
  const std::string one = letters('a', 17), other = letters('a', 23);  // the same names in part
  std::vector<uint32_t> numbers[2];
  for (uint32_t step = 0; step < 1500; ++step) {
    const uint32_t stream = random() % 3 == 0;
    auto &its = numbers[stream];
    const std::string &round = stream == 0 ? one : other;
    its.push_back(program.operate(std::string(1, round[its.size() % round.size()]), stream));
    if (its.size() <= round.size()) continue;
    assert_int_equal(program.at(stream).place(), its[its.size() - 1 - round.size()]);
  }
}

void a_new_period_is_learned_in_two_rounds(void **) {
  Program program;
  program.operate(times(20, letters('a', 10)));
  const std::string shorter = "aXdYbZc?";
  program.operate(times(2, shorter));
  for (const char name : times(30, shorter)) {
    const uint32_t number = program.operate(std::string(1, name));
    assert_int_equal(program.at().place(), number - shorter.size());
  }
}

void a_return_to_an_earlier_phase_is_found(void **) {
  Program program;
  const std::string training = letters('a', 26), evaluation = "ace" + letters('A', 20);
  program.operate(times(6, training));
  const uint32_t first = program.operate(evaluation) - 22;
  program.operate(times(6, training));
  program.operate(evaluation.substr(0, 12));
  assert_int_equal(program.at().place(), first + 11);
  program.operate(evaluation.substr(12));
  assert_int_equal(program.at().place(), first + 22);
}

void a_place_that_is_forgotten_is_none(void **) {
  Program program(30);
  program.operate(letters('a', 20) + letters('A', 20));
  for (const char name : letters('a', 20)) {  // 40 operations since: the log has forgotten them
    program.operate(std::string(1, name));
    assert_int_equal(program.at().place(), none);
  }
  program.operate(letters('a', 20));
  assert_int_equal(program.at().place(), program.log().end() - 21);
  program.operate(letters('0', 9) + times(3, letters('0', 1)));
  for (int step = 0; step < 100; ++step) {
    program.operate("!");
    const uint32_t place = program.at().place();
    assert_true(place == none || program.log().holds(place));
  }
}

/// Names at random: nothing to find, and nothing that is wrong.
void random_operations_have_places_that_the_log_holds(void **) {
  auto random = [engine = std::mt19937(11)]() mutable { return static_cast<uint32_t>(engine()); };
  for (const uint32_t capacity : {1u, 2u, 7u, 64u, 512u}) {
    Program program(capacity);
    for (int step = 0; step < 20000; ++step) {
      const uint32_t stream = random() % 2;
      const uint32_t names = 1 + random() % 40;
      const uint32_t number = program.operate(random() % names, stream);
      const Alignment &at = program.at(stream);
      for (const uint32_t found : {at.place(), at.match()}) {
        if (found == none) continue;
        assert_true(program.log().holds(found) && found < number);
        assert_int_equal(program.log().operation(found).stream, stream);
      }
      if (at.match() != none) assert_true(program.log().same(at.match(), number));
    }
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(what_was_never_done_has_no_place),
      cmocka_unit_test(a_loop_is_where_it_was_a_round_before),
      cmocka_unit_test(a_loop_in_a_loop_is_where_it_was_in_the_outer_one),
      cmocka_unit_test(a_longer_inner_loop_is_left_when_it_was_left_then),
      cmocka_unit_test(a_round_that_differs_is_passed_over),
      cmocka_unit_test(operations_in_another_order_are_paired_and_the_place_goes_on),
      cmocka_unit_test(a_place_is_not_waited_at_for_ever),
      cmocka_unit_test(a_shuffled_round_does_not_lose_the_program),
      cmocka_unit_test(streams_that_interleave_have_their_own_places),
      cmocka_unit_test(a_new_period_is_learned_in_two_rounds),
      cmocka_unit_test(a_return_to_an_earlier_phase_is_found),
      cmocka_unit_test(a_place_that_is_forgotten_is_none),
      cmocka_unit_test(random_operations_have_places_that_the_log_holds),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
