// SPDX-License-Identifier: Apache-2.0
//
// The side of test_cpp_mixed where calls return results: C++20, without exceptions and RTTI, with std::span.
#include "tests/cpp/mixed_side.hpp"

weir::test::mixed::Found weir::test::mixed::returning(const Lent &lent) { return work(lent); }

void weir::test::mixed::leak_returning(const Lent &lent) {
  auto context = weir::context::borrow(lent.context).value();
  auto pool = weir::pool::borrow(context, lent.pool).value();
  auto stream = weir::stream::borrow(context, lent.stream, 0).value();
  auto buffer = weir::buffer::borrow(pool, lent.buffer).value();
  auto held = pool.acquire(stream, read(buffer)).value();
  static_cast<void>(weir_release(held.get(), lent.stream));
}
