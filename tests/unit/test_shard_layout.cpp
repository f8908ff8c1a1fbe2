// SPDX-License-Identifier: Apache-2.0
//
// How the pages of a sharded buffer are dealt out: every page has one device, shares follow the weights, a page never
// straddles two stripes, and a device that leaves hands its pages to the others.

#include "core/page/shards.hpp"

#include <string>

#include "tests/support/cmocka.hpp"

namespace {

using weir::page::Geometry;
using weir::page::Shards;

constexpr uint64_t page = 1024;
constexpr uint64_t large = 8 * page;

std::string digits(const Shards &shards, const Geometry &shape) {
  std::string text;
  for (uint32_t p = 0; p < shape.pages(); ++p)
    text.push_back(static_cast<char>('0' + shards.place_of(p)));
  return text;
}

Shards over(std::initializer_list<uint32_t> weights) {
  Shards shards(std::pmr::get_default_resource());
  uint8_t place = 0;
  for (const uint32_t weight : weights) shards.add(place++, weight);
  return shards;
}

void stripes_go_in_turn(void **) {
  Shards shards = over({1, 1, 1});
  const Geometry shape = Shards::shape_of(7 * page + 1, page, large, page, 3);
  shards.deal_stripes(shape, page);
  assert_string_equal(digits(shards, shape).c_str(), "01201201");
  assert_int_equal(shards.bytes_on(shape, 0), 3 * page);
  assert_int_equal(shards.bytes_on(shape, 1), 2 * page + 1);
  assert_int_equal(shards.bytes_on(shape, 2), 2 * page);
}

void stripes_of_several_pages(void **) {
  Shards shards = over({1, 1});
  const Geometry shape = Shards::shape_of(7 * page, page, large, 3 * page, 2);
  assert_int_equal(shape.large, 0);  // a large page would lie in several stripes
  shards.deal_stripes(shape, 3 * page);
  assert_string_equal(digits(shards, shape).c_str(), "0001110");
}

/// Weights are kept within one stripe in any run, so no device's stripes come in a heap.
void weights_are_spread(void **) {
  Shards shards = over({5, 1, 1});
  const Geometry shape = Shards::shape_of(14 * page, page, large, page, 3);
  shards.deal_stripes(shape, page);
  assert_string_equal(digits(shards, shape).c_str(), "00102000010200");
}

void large_pages_where_there_are_several_for_each(void **) {
  assert_int_equal(Shards::shape_of(3 * 4 * large, page, large, 0, 3).large, 12);
  assert_int_equal(Shards::shape_of(3 * 4 * large - 1, page, large, 0, 3).large, 0);
  assert_int_equal(Shards::shape_of(large + page, page, large, large, 3).large, 1);
  assert_int_equal(Shards::shape_of(100 * large, page, large, large + page, 3).large, 0);
  // Each large page in one stripe, the small ones at the end too.
  Shards shards = over({1, 1});
  const Geometry shape = Shards::shape_of(3 * large + 2 * page, page, large, 2 * large, 2);
  shards.deal_stripes(shape, 2 * large);
  assert_string_equal(digits(shards, shape).c_str(), "00111");
}

void blocks_follow_each_other(void **) {
  Shards even = over({1, 1, 1});
  Geometry shape = Shards::shape_of(9 * page, page, large, 0, 3);
  even.deal_blocks(shape);
  assert_string_equal(digits(even, shape).c_str(), "000111222");
  Shards uneven = over({1, 2});
  shape = Shards::shape_of(10 * page, page, large, 0, 2);
  uneven.deal_blocks(shape);
  assert_string_equal(digits(uneven, shape).c_str(), "0001111111");
  // More devices than pages: some have none.
  Shards many = over({1, 1, 1, 1});
  shape = Shards::shape_of(2 * page, page, large, 0, 4);
  many.deal_blocks(shape);
  assert_string_equal(digits(many, shape).c_str(), "13");
}

/// The largest weights of the most devices and the largest size: nothing overflows.
void blocks_of_the_largest(void **) {
  Shards shards(std::pmr::get_default_resource());
  for (uint8_t i = 0; i < Shards::most_places; ++i) shards.add(i, Shards::most_weight);
  const uint64_t size = uint64_t{1} << 46U;
  const uint64_t huge = uint64_t{1} << 35U;
  const Geometry shape = Shards::shape_of(size, huge, huge, 0, Shards::most_places);
  shards.deal_blocks(shape);
  for (uint8_t i = 0; i < Shards::most_places; ++i) {
    const uint64_t share = size / Shards::most_places;
    assert_in_range(shards.bytes_on(shape, i), share - huge, share + huge);
  }
}

void who_leaves_is_dealt_out(void **) {
  Shards shards = over({1, 2, 1});
  const Geometry shape = Shards::shape_of(8 * page, page, large, page, 3);
  shards.deal_stripes(shape, page);
  const std::string before = digits(shards, shape);
  assert_string_equal(before.c_str(), "10211021");
  assert_true(shards.deal_again(1, 0));
  assert_string_equal(digits(shards, shape).c_str(), "00220022");
  assert_int_equal(shards.count(), 2);
  assert_false(shards.has(1));
  assert_true(shards.deal_again(0, uint32_t{1} << 1U));
  assert_string_equal(digits(shards, shape).c_str(), "22222222");
  // The last one has no other to leave it to.
  assert_false(shards.deal_again(2, 0));
  assert_true(shards.has(2));
  assert_int_equal(shards.bytes_on(shape, 2), 8 * page);
}

}  // namespace

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stripes_go_in_turn),
      cmocka_unit_test(stripes_of_several_pages),
      cmocka_unit_test(weights_are_spread),
      cmocka_unit_test(large_pages_where_there_are_several_for_each),
      cmocka_unit_test(blocks_follow_each_other),
      cmocka_unit_test(blocks_of_the_largest),
      cmocka_unit_test(who_leaves_is_dealt_out),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
