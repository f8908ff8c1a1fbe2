// SPDX-License-Identifier: Apache-2.0
//
// The same work in each translation unit of test_cpp_mixed: the same names of weir.hpp, so that whatever the linker took from
// another one would show. Both are compiled without optimisation: what is inlined is not mixed up.
#pragma once

#include <weir/weir.hpp>

#include <exception>

#include "tests/cpp/mixed.hpp"

namespace weir::test::mixed {

#define MIXED_TEXT_(text) #text
#define MIXED_TEXT(text) MIXED_TEXT_(text)

#if WEIR_CPP_EXCEPTIONS
template <class Call>
weir_result code_of(Call call) {
  try {
    static_cast<void>(call());
  } catch (const std::exception &why) {
    const auto *mine = dynamic_cast<const error *>(&why);
    return mine != nullptr ? mine->code() : WEIR_ERROR_INTERNAL;
  }
  return WEIR_SUCCESS;
}
#define MIXED_TAKE(call) (call)
#else
template <class Call>
weir_result code_of(Call call) {
  return call().code();
}
#define MIXED_TAKE(call) (call).value()
#endif

inline namespace WEIR_CPP_ABI {

inline Found work(const Lent &lent) {
  auto context = MIXED_TAKE(weir::context::borrow(lent.context));
  auto pool = MIXED_TAKE(weir::pool::borrow(context, lent.pool));
  auto stream = MIXED_TAKE(weir::stream::borrow(context, lent.stream, 0));
  auto buffer = MIXED_TAKE(weir::buffer::borrow(pool, lent.buffer));
  Found found = {0, 0, 0, 0, MIXED_TEXT(WEIR_CPP_ABI)};
  buffer_desc large;
  large.size = uint64_t{1} << 32;
  auto too_large = MIXED_TAKE(weir::buffer::create(pool, large));
  found.too_much = code_of([&] { return pool.acquire(stream, read(too_large)); });
  weir::stream none;
  found.of_nothing = code_of([&] { return none.synchronize(); });
  struct Odd {
    char bytes[4095];
  };
  MIXED_TAKE(pool.run(stream, {read_write(buffer)}, [&](const lease &held) {
    found.bad_span = code_of([&] { return held.span<Odd>(0); });
    found.ran += static_cast<int>(MIXED_TAKE(held.span<char>(0)).size() / 4096);
  }));
  found.ran += MIXED_TAKE(pool.run(stream, read(buffer), [](const lease &) { return 1; }));
  return found;
}

}  // namespace WEIR_CPP_ABI
}  // namespace weir::test::mixed
