// SPDX-License-Identifier: Apache-2.0
//
// What the translation units of test_cpp_mixed tell each other: C handles, and numbers. Each of them chose differently for
// weir.hpp, so C++ objects of it are not for the others (weir/cpp/config.hpp).
#pragma once

#include <weir/weir.h>

namespace weir::test::mixed {

/// What a side is lent, and what it found.
struct Lent {
  weir_context context;
  weir_pool pool;
  weir_stream stream;
  weir_buffer buffer; /**< of 4096 bytes */
};
struct Found {
  weir_result too_much;   /**< acquiring more than there is */
  weir_result bad_span;   /**< a span of elements that do not fit */
  weir_result of_nothing; /**< a call of an empty handle */
  int ran;                /**< runs that were made */
  const char *side;       /**< the inline namespace that it was compiled in */
};

Found throwing(const Lent &lent);
Found returning(const Lent &lent);
/// Leaves a lease behind that its destructor can't release.
void leak_returning(const Lent &lent);

}  // namespace weir::test::mixed
