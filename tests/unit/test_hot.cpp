// SPDX-License-Identifier: Apache-2.0
//
// The stamp of a buffer's last use: which of two releases it names when they are published in the wrong order, and that a
// write stays known; and which thread may take it out.

#include "core/page/hot.hpp"

#include "tests/support/cmocka.hpp"  // last: it has macros with plain names

namespace {

using weir::backend::Stamp;
using weir::page::Hot;

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

/// A buffer that the hit path gives to read, and its reader.
struct Readable {
  static constexpr uint64_t generation = uint64_t{7} << weir::page::Word::generation_shift;
  static constexpr uint32_t home = 1;
  Hot hot;
  Readable() {
    hot.word = generation | weir::page::Word::alive | weir::page::Word::resident;
    hot.set_size_device(4096, home);
  }
  bool read(uint32_t slot = stream) {
    uint64_t where = 0;
    return hot.try_lease(generation, WEIR_READ, slot, home, &where);
  }
  uint64_t leases() const { return weir::page::Word::leases(hot.word.load()); }
};

void the_only_reader_takes_the_past_and_closes_the_hit_path(void **) {
  Readable buffer;
  assert_true(buffer.hot.publish(use(5, true)));
  buffer.hot.word += weir::page::Word::reader;  // the slow way's own lease
  assert_int_equal(buffer.hot.take_past().bits, use(5, true).bits);
  assert_int_equal(buffer.hot.last_use().bits, 0);
  assert_false(buffer.read());  // a reader now would publish into what another stream is to have
  assert_int_equal(buffer.leases(), weir::page::Word::reader);
}

void the_past_stays_while_another_might_publish(void **) {
  Readable buffer;
  assert_true(buffer.hot.publish(use(5, true)));
  assert_true(buffer.read());
  buffer.hot.word += weir::page::Word::reader;
  assert_int_equal(buffer.hot.take_past().bits, 0);
  assert_int_equal(buffer.hot.last_use().bits, use(5, true).bits);
  assert_false(buffer.hot.publish(use(2, false, stream + 1)));  // goes into the history
  assert_true(buffer.hot.publish(use(9, false)));
  assert_int_equal(buffer.hot.last_use().bits, use(9, true).bits);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(an_older_point_never_replaces_a_later_one),
      cmocka_unit_test(a_later_point_replaces_an_older_one),
      cmocka_unit_test(another_streams_point_is_not_replaced),
      cmocka_unit_test(the_only_reader_takes_the_past_and_closes_the_hit_path),
      cmocka_unit_test(the_past_stays_while_another_might_publish),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
