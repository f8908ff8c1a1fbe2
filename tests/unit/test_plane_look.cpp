// SPDX-License-Identifier: Apache-2.0
//
// Looks at planes: what values cost, what comes back however far away, what does not, and that nothing outside is read.

#include "core/codec/plane_look.hpp"
#include "tests/unit/plane_data.hpp"

#include <algorithm>

namespace {

using namespace weir::test;
using namespace weir::codec;

constexpr size_t plane = size_t{128} << 10U;

/// The upper bytes of bf16 weights, sign rotated away: what most planes with something to gain are like.
Bytes exponents(size_t count, double width = 0.02, uint64_t seed = 1) {
  const Bytes numbers = normal_numbers(Form::bf16, 2 * count, width, 0, seed);
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<unsigned char>(numbers[2 * i + 1] << 1U | numbers[2 * i] >> 7U);
  return bytes;
}

bool repeats(const Bytes &bytes) {
  const PlaneLook look = look_at_plane(bytes.data(), bytes.size());
  return repeats_of(bytes.data(), bytes.size(), look) == Repeats::many;
}

/// One row of 64 in `every` is one that stood a quarter of the plane before.
Bytes with_rows_again(Bytes bytes, size_t every) {
  constexpr size_t row = 64;
  const size_t quarter = bytes.size() / 4;
  for (size_t at = quarter; at + row <= bytes.size(); at += every * row)
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at - quarter), row,
                bytes.begin() + static_cast<ptrdiff_t>(at));
  return bytes;
}

void what_values_cost(void **) {
  const auto bits_each = [](const Bytes &bytes) {
    return static_cast<double>(look_at_plane(bytes.data(), bytes.size()).bits) /
           static_cast<double>(bytes.size());
  };
  assert_true(std::fabs(bits_each(random_bytes(plane)) - 8) < 0.1);
  assert_true(std::fabs(bits_each(exponents(plane)) - 2.6) < 0.2);
  // Part by part: each has but 16 values, and all together have 256.
  Bytes parts = random_bytes(plane);
  for (size_t i = 0; i < parts.size(); ++i)
    parts[i] = static_cast<unsigned char>(parts[i] % 16 + 16 * (i / plane_part_bytes));
  assert_true(std::fabs(bits_each(parts) - 4) < 0.1);
  assert_int_equal(look_at_plane(Bytes(plane, 7).data(), plane).bits, 0);
}

void chance_is_no_repeat(void **) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    for (const size_t count : {size_t{20000}, plane / 2, plane, 2 * plane}) {
      assert_false(repeats(random_bytes(count, seed)));
      for (const double width : {1e-4, 0.02, 3.0})
        assert_false(repeats(exponents(count, width, seed)));
      assert_false(repeats(normal_numbers(Form::bytes, count, 12, 0, seed)));
    }
  }
}

void rows_come_back(void **) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    for (const size_t every : {1, 2, 4}) {
      assert_true(repeats(with_rows_again(random_bytes(plane, seed), every)));
      assert_true(repeats(with_rows_again(exponents(plane, 0.02, seed), every)));
    }
    assert_false(repeats(with_rows_again(exponents(plane, 0.02, seed), 100)));
  }
}

void runs(void **) {
  Bytes bytes = random_bytes(plane);
  assert_false(has_runs(bytes.data(), bytes.size()));
  assert_false(has_runs(exponents(plane).data(), plane));
  std::fill_n(bytes.begin() + 5000, plane / 20, static_cast<unsigned char>(3));
  assert_true(has_runs(bytes.data(), bytes.size()));
  assert_true(has_runs(Bytes(9, 1).data(), 9));
  assert_false(has_runs(Bytes(8, 1).data(), 8));
}

/// Of any length, and though every byte may be one that what follows is looked at of.
void looks_at_nothing_outside(void **) {
  for (size_t length = 1; length < 300; ++length) {
    for (const Bytes &bytes : {random_bytes(length), Bytes(length, 9)}) {
      for (const bool at_end : {false, true}) {
        Guarded guarded(bytes, at_end);
        PlaneLook look = look_at_plane(guarded.data(), length);
        (void)has_runs(guarded.data(), length);
        look.often = bytes[0];
        for (const uint64_t bits : {uint64_t{0}, uint64_t{length}, uint64_t{8 * length}}) {
          look.bits = bits;
          (void)repeats_of(guarded.data(), length, look);
        }
      }
    }
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(what_values_cost),         cmocka_unit_test(chance_is_no_repeat),
      cmocka_unit_test(rows_come_back),           cmocka_unit_test(runs),
      cmocka_unit_test(looks_at_nothing_outside),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
