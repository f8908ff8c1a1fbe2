// SPDX-License-Identifier: Apache-2.0
//
// Which free range the offset allocator takes, and how many it looks at before: seen by what it passes over. And how full
// that makes a line: bench_arena's figure, at its goal.
//
// Must be reproducible: every random order has a fixed seed.

#include "core/physical/arena.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <memory_resource>
#include <random>
#include <vector>

#include "tests/support/cmocka.hpp"

namespace {

using weir::physical::Arena;

std::pmr::memory_resource *heap() { return std::pmr::new_delete_resource(); }

/// An arena with free ranges of given lengths in the order of their places, a live unit behind each, and the rest of the
/// line free. They are freed when the test says so: the first of a class stands at its list's head while it lies lowest,
/// and each later one right behind the head.
class Ranges {
 public:
  explicit Ranges(const std::vector<uint64_t> &lengths) : arena(line, 1, heap()) {
    for (const uint64_t length : lengths) {
      ranges_.push_back(arena.allocate(length));
      walls_.push_back(arena.allocate(1));
    }
  }
  ~Ranges() {
    const std::string broken = arena.validate();
    if (!broken.empty()) print_error("broken invariant: %s\n", broken.c_str());
    assert_true(broken.empty());
  }
  Ranges(const Ranges &) = delete;
  Ranges &operator=(const Ranges &) = delete;

  void free(std::initializer_list<size_t> order) {
    for (const size_t index : order) arena.free(ranges_[index].node);
  }
  uint64_t place(size_t index) const { return ranges_[index].offset; }
  uint64_t tail() const { return walls_.back().offset + 1; }

  static constexpr uint64_t line = 1 << 20;
  Arena arena;

 private:
  std::vector<Arena::Allocation> ranges_;
  std::vector<Arena::Allocation> walls_;
};

// 256 to 263 units are a class, and each eight after them.

void an_exact_fit_goes_before_a_lower_place(void **) {
  Ranges ranges({264, 260, 262});
  ranges.free({0, 1, 2});
  assert_int_equal(ranges.arena.allocate(260).offset, ranges.place(1));
}

void else_the_lowest_of_the_nearest_goes_first(void **) {
  Ranges ranges({272, 264, 262});
  ranges.free({2, 1, 0});
  assert_int_equal(ranges.arena.allocate(261).offset, ranges.place(0));
  assert_int_equal(ranges.arena.allocate(260).offset, ranges.place(1));
  assert_int_equal(ranges.arena.allocate(259).offset, ranges.place(2));
}

/// The third of its class would be tighter and lower than what is taken.
void two_of_a_class_are_looked_at_first(void **) {
  Ranges ranges({256, 257, 262, 258, 264});
  ranges.free({0, 2, 1, 4});
  assert_int_equal(ranges.arena.allocate(260).offset, ranges.place(4));
  assert_int_equal(ranges.arena.allocate(260).offset, ranges.place(2));  // nothing above is left
}

/// Before the line's end is broken into, but not all of the class.
void eight_are_looked_at_before_the_tail(void **) {
  for (const bool ninth : {false, true}) {
    Ranges ranges({256, 261, 256, 256, 256, 256, 256, 256, 263, 256});
    ranges.free({0, 1, 2, 3, 4, 5, 6, 7});
    if (ninth) ranges.free({9});
    ranges.free({8});
    assert_int_equal(ranges.arena.allocate(263).offset,
                     ranges.place(8));  // now no largest one is known
    assert_int_equal(ranges.arena.allocate(261).offset, ninth ? ranges.tail() : ranges.place(1));
  }
}

// ---- how full a line is when it first refuses ----

/// 55 of 100 operations allocate, sizes log-uniform from 256 bytes to 64 MiB.
double use_at_the_first_refusal(uint64_t seed) {
  constexpr uint64_t line = uint64_t{40} << 30;
  Arena arena(line, 256, heap());
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(8.0, 26.0);
  std::vector<uint32_t> live;
  for (;;) {
    if (live.empty() || random() % 100 < 55) {
      const auto place = arena.allocate(static_cast<uint64_t>(std::exp2(exponent(random))));
      if (!place) return static_cast<double>(arena.used()) / static_cast<double>(line);
      live.push_back(place.node);
    } else {
      std::swap(live[random() % live.size()], live.back());
      arena.free(live.back());
      live.pop_back();
    }
  }
}

void a_line_fills_far(void **) {
  constexpr uint64_t seeds = 8;
  double sum = 0, least = 1;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const double use = use_at_the_first_refusal(seed);
    sum += use;
    least = std::min(least, use);
  }
  print_message("mean %.4f, least %.4f\n", sum / seeds, least);
  assert_true(sum / seeds >= 0.965);
  assert_true(least >= 0.955);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(an_exact_fit_goes_before_a_lower_place),
                              cmocka_unit_test(else_the_lowest_of_the_nearest_goes_first),
                              cmocka_unit_test(two_of_a_class_are_looked_at_first),
                              cmocka_unit_test(eight_are_looked_at_before_the_tail),
                              cmocka_unit_test(a_line_fills_far)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
