// SPDX-License-Identifier: Apache-2.0
//
// The walk through a log by itself: it begins behind the place, steps over what has happened meanwhile and what came early, says where
// sizes were other ones, and tells when the place is another.

#include "core/policy/program_walk.hpp"

#include "tests/support/cmocka.hpp"

namespace {

using namespace weir::policy;

constexpr uint32_t none = ProgramLog::none;

/// One stream that does operations 0, 1, 2, ... of a round, over and over.
class Program {
 public:
  explicit Program(uint32_t round)
      : round_(round),
        log_(sizes(), std::pmr::get_default_resource()),
        contexts_(1024, 1, std::pmr::get_default_resource()),
        walk_(1, std::pmr::get_default_resource()) {}

  void operate(uint32_t name) {
    const uint32_t number = log_.begin_operation(name, name, 0, 0);
    contexts_.push(0, name);
    alignment_.observe(log_, contexts_, number);
    speeds_.note(0);
  }
  /// From that operation of the round on.
  void operate(uint32_t from, uint32_t count) {
    for (uint32_t index = 0; index < count; ++index) operate((from + index) % round_);
  }
  ProgramWalk::View view() const { return {log_, {&alignment_, 1}, speeds_}; }
  void rewind() { walk_.rewind(view()); }
  /// The name of the operation that is walked next, or none.
  uint32_t walk(bool *resized = nullptr) {
    const ProgramWalk::Step step = walk_.peek(view());
    if (step.operation == none) return none;
    walk_.take(step, speeds_);
    if (resized != nullptr) *resized = step.resized;
    return log_.operation(step.operation).name;
  }
  bool moved() const { return walk_.moved(view()); }
  ProgramLog &log() { return log_; }

 private:
  static ProgramLog::Sizes sizes() {
    ProgramLog::Sizes its;
    its.operations = 1 << 16;
    return its;
  }
  uint32_t round_;
  ProgramLog log_;
  Contexts contexts_;
  Alignment alignment_;
  StreamSpeeds speeds_;
  ProgramWalk walk_;
};

void nothing_is_walked_before_a_round_is_over(void **) {
  Program program(50);
  program.operate(0, 50);
  program.rewind();
  assert_int_equal(program.walk(), none);
}

void what_follows_the_place_is_walked_up_to_the_newest(void **) {
  Program program(50);
  program.operate(0, 110);
  program.rewind();
  for (uint32_t index = 10; index < 59; ++index) assert_int_equal(program.walk(), index % 50);
  assert_int_equal(program.walk(), none);
  program.operate(10, 1);
  assert_int_equal(program.walk(), 59 % 50);
  assert_int_equal(program.walk(), none);
}

void what_has_happened_meanwhile_is_stepped_over(void **) {
  Program program(50);
  program.operate(0, 110);
  program.rewind();
  assert_int_equal(program.walk(), 10);
  program.operate(10, 15);
  assert_int_equal(program.walk(), 25);
  assert_false(program.moved());
}

void what_came_early_is_not_walked(void **) {
  Program program(50);
  program.operate(0, 210);
  program.operate(12);
  program.operate(13);
  program.rewind();
  assert_int_equal(program.walk(), 10);
  assert_int_equal(program.walk(), 11);
  assert_int_equal(program.walk(), 14);
}

void a_place_that_moves_a_little_is_the_same(void **) {
  Program program(200);
  program.operate(0, 500);
  program.rewind();
  assert_int_equal(program.walk(), 100);
  program.operate(130, 10);  // 30 are left out
  assert_false(program.moved());
  assert_int_equal(program.walk(), 140);
}

void a_place_that_moves_far_is_another(void **) {
  Program program(200);
  program.operate(0, 500);
  program.rewind();
  assert_false(program.moved());
  program.operate(180, 10);
  assert_true(program.moved());
  program.rewind();
  assert_false(program.moved());
  assert_int_equal(program.walk(), 190);
}

void a_place_that_is_found_at_last_has_moved(void **) {
  Program program(50);
  program.rewind();
  program.operate(0, 50);
  assert_false(program.moved());
  program.operate(0, 3);
  assert_int_equal(program.walk(), none);  // not before rewind()
  assert_false(program.moved());
  program.operate(3, 5);
  assert_true(program.moved());
}

void sizes_beyond_a_change_of_them_are_not_scaled(void **) {
  Program program(600);
  program.operate(0, 600);
  program.log().set_resized(120);  // too near: it may be what is going on
  program.log().set_resized(500);
  program.operate(0, 100);
  program.rewind();
  for (uint32_t index = 100; index < 600; ++index) {
    bool resized = false;
    assert_int_equal(program.walk(&resized), index);
    assert_int_equal(resized, index >= 500);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_walked_before_a_round_is_over),
      cmocka_unit_test(what_follows_the_place_is_walked_up_to_the_newest),
      cmocka_unit_test(what_has_happened_meanwhile_is_stepped_over),
      cmocka_unit_test(what_came_early_is_not_walked),
      cmocka_unit_test(a_place_that_moves_a_little_is_the_same),
      cmocka_unit_test(a_place_that_moves_far_is_another),
      cmocka_unit_test(a_place_that_is_found_at_last_has_moved),
      cmocka_unit_test(sizes_beyond_a_change_of_them_are_not_scaled),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
