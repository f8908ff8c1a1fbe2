// SPDX-License-Identifier: Apache-2.0
//
// The size classes of the offset allocator and the record of which are in use, against their definition: every short
// length, the edges of all powers of two, and random sets of classes beside a set that knows the truth.
//
// Must be reproducible: every random order has a fixed seed.

#include "core/physical/arena_classes.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "tests/support/cmocka.hpp"

namespace {

using weir::physical::SizeClasses;
using weir::physical::UsedClasses;

constexpr uint64_t longest = uint64_t{1} << 48;

/// Two lengths share a class if they have the same power of two and the same bits after it.
template <unsigned second_bits>
bool alike(uint64_t a, uint64_t b) {
  unsigned drop = 0;
  while (b >> drop >= uint64_t{2} << second_bits) ++drop;
  return a >> drop == b >> drop;
}

template <unsigned second_bits>
void classes_follow_lengths(void **) {
  using Classes = SizeClasses<second_bits>;
  std::vector<uint64_t> lengths;
  for (uint64_t length = 1; length < 5000; ++length) lengths.push_back(length);
  for (uint64_t power = 4096; power <= longest; power *= 2) {
    for (uint64_t step = 0; step < Classes::columns; ++step) {
      const uint64_t edge = power + power / Classes::columns * step;
      lengths.insert(lengths.end(), {edge - 1, edge, edge + 1});
    }
  }
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  for (size_t i = 1; i < lengths.size(); ++i) {
    const uint32_t below = Classes::of(lengths[i - 1]);
    const uint32_t own = Classes::of(lengths[i]);
    assert_int_equal(own - below, alike<second_bits>(lengths[i - 1], lengths[i]) ? 0 : 1);
    // The first class with nothing shorter in it: the own one where the length begins it.
    if (lengths[i] == lengths[i - 1] + 1) {
      assert_int_equal(Classes::of_at_least(lengths[i]), own == below ? own + 1 : own);
    }
  }
  assert_int_equal(Classes::of(1), 1);
  assert_int_equal(Classes::of_at_least(1), 1);
}

/// The answer about `used` from one class on.
template <class Used>
void check_from(const Used &used, const std::set<uint32_t> &truth, uint32_t from) {
  const auto next = truth.lower_bound(from);
  assert_int_equal(used.next(from), next != truth.end() ? *next : Used::none);
}

template <unsigned second_bits>
void used_classes_are_found(void **) {
  constexpr uint32_t count = SizeClasses<second_bits>::of(longest) + 1;
  std::mt19937_64 random(second_bits);
  UsedClasses<second_bits, longest> used;
  std::set<uint32_t> truth;
  assert_true(used.empty());
  for (int i = 0; i < 20000; ++i) {
    const auto size_class = static_cast<uint32_t>(random() % count);
    // Few at first and at the end, so that whole rows are empty, and many between.
    const bool many = i > 5000 && i < 15000;
    if (random() % 100 < (many ? 80 : 20)) {
      used.add(size_class);
      truth.insert(size_class);
    } else {
      const bool empty = random() % 4 != 0;
      used.remove_if(empty, size_class);
      if (empty) truth.erase(size_class);
    }
    assert_int_equal(used.has(size_class), truth.count(size_class));
    assert_int_equal(used.empty(), truth.empty());
    assert_true(used.valid());
    if (!truth.empty()) assert_int_equal(used.last(), *truth.rbegin());
    check_from(used, truth, static_cast<uint32_t>(random() % (count + 40)));
  }
  const std::set<uint32_t> all = truth;
  for (const uint32_t size_class : all) {
    used.remove_if(true, size_class);
    truth.erase(size_class);
    check_from(used, truth, 0);
  }
  assert_true(used.empty());
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(classes_follow_lengths<5>), cmocka_unit_test(classes_follow_lengths<3>),
      cmocka_unit_test(classes_follow_lengths<1>), cmocka_unit_test(used_classes_are_found<5>),
      cmocka_unit_test(used_classes_are_found<3>), cmocka_unit_test(used_classes_are_found<1>)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
