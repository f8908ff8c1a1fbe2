// SPDX-License-Identifier: Apache-2.0
//
// The stamp of a buffer's last use: which of two releases it names when they are published in the wrong order, and that a
// write stays known.

#include "core/virtual/hot.hpp"

#include "tests/support/cmocka.hpp"  // last: it has macros with plain names

namespace {

using weir::backend::Stamp;
using weir::vm::Hot;

constexpr uint32_t stream = 3;

Stamp use(uint64_t point, bool write, uint32_t slot = stream) {
  return Stamp::make(slot, point, write);
}

void an_older_point_never_replaces_a_later_one(void **) {
  for (const bool older_writes : {false, true}) {
    for (const bool later_writes : {false, true}) {
      Hot hot;
      assert_true(hot.publish(use(9, later_writes)));
      assert_true(hot.publish(use(5, older_writes)));
      assert_int_equal(hot.last_use().point(), 9);
      assert_int_equal(hot.last_use().slot(), stream);
      assert_int_equal(hot.last_use().write(), older_writes || later_writes);
    }
  }
}

void a_later_point_replaces_an_older_one(void **) {
  Hot hot;
  assert_true(hot.publish(use(5, true)));
  assert_true(hot.publish(use(9, false)));
  assert_int_equal(hot.last_use().point(), 9);
  assert_true(hot.last_use().write());
}

void another_streams_point_is_not_replaced(void **) {
  Hot hot;
  assert_true(hot.publish(use(5, false)));
  assert_false(hot.publish(use(9, true, stream + 1)));
  assert_int_equal(hot.last_use().bits, use(5, false).bits);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(an_older_point_never_replaces_a_later_one),
      cmocka_unit_test(a_later_point_replaces_an_older_one),
      cmocka_unit_test(another_streams_point_is_not_replaced),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
