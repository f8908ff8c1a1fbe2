// SPDX-License-Identifier: Apache-2.0
//
// Translation units that chose differently for weir.hpp link into one program, and each does what it chose: no function of one is
// taken for the other's. Called in both orders, since the linker keeps the first definition that it meets.
#include "tests/cpp/cpp_fixture.hpp"
#include "tests/cpp/mixed.hpp"

namespace weir::test {
namespace {

void right(const mixed::Found &found, const char *side) {
  assert_non_null(std::strstr(found.side, side));  // behind the version
  assert_int_equal(found.too_much, WEIR_ERROR_OVER_BUDGET);
  assert_int_equal(found.bad_span, WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(found.of_nothing, WEIR_ERROR_INVALID_HANDLE);
  assert_int_equal(found.ran, 2);
}

void both_sides_do_what_they_chose(void **) {
  const Leaks leaks;
  World world;
  weir::buffer buffer = world.buffer(4096);
  const mixed::Lent lent = {world.context.get(), world.pool.get(), world.stream.get(),
                            buffer.get()};
  for (int i = 0; i < 2; ++i) {
    right(mixed::throwing(lent), "_throws_ownspan_rtti");
    right(mixed::returning(lent), "_results_stdspan_nortti");
  }
  assert_int_equal(world.leases(buffer), 0);
  assert_int_equal(leaks.count, 0);
}

void one_leak_handler_hears_of_all(void **) {
  const Leaks leaks;
  World world;
  weir::buffer buffer = world.buffer(4096);
  mixed::leak_returning({world.context.get(), world.pool.get(), world.stream.get(), buffer.get()});
  assert_int_equal(leaks.count, 1);
}

}  // namespace
}  // namespace weir::test

int main() {
  using namespace weir::test;
  const CMUnitTest tests[] = {
      cmocka_unit_test(both_sides_do_what_they_chose),
      cmocka_unit_test(one_leak_handler_hears_of_all),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
