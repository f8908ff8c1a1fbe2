// SPDX-License-Identifier: Apache-2.0
//
// The side of test_cpp_mixed where calls throw: C++17, with RTTI, with a span of Weir's own.
#include "tests/cpp/mixed_side.hpp"

weir::test::mixed::Found weir::test::mixed::throwing(const Lent &lent) { return work(lent); }
