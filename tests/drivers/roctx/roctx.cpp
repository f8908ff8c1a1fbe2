// SPDX-License-Identifier: Apache-2.0
//
// A roctx library, as ROCm's headers declare it: what Weir calls of it, noted.

#include "tests/drivers/ranges/range_log.hpp"

#include <cstdlib>

#define WEIR_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

weir::test::RangeLog &range_log() {
  static auto &log = *new weir::test::RangeLog;
  return log;
}

}  // namespace

WEIR_EXPORT weir::test::RangeLog *weir_test_range_log() { return &range_log(); }

WEIR_EXPORT int roctxRangePushA(const char *message) {
  range_log().push("", message);
  return 0;
}

WEIR_EXPORT int roctxRangePop() {
  range_log().pop("");
  return 0;
}

__attribute__((destructor)) static void at_exit() {
  if (const char *const path = std::getenv("WEIR_TEST_ROCTX_REPORT")) range_log().report(path);
}
