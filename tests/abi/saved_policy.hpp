// SPDX-License-Identifier: Apache-2.0
//
// What a pool has learned, as the tests take it: a save may find more than was asked for a moment before.
#pragma once

#include "tests/abi/pool_fixture.hpp"

namespace weir::test {

using Bytes = std::vector<unsigned char>;

inline Bytes saved(weir_pool pool) {
  Bytes bytes;
  for (uint64_t needed = 0;;) {
    const weir_result result = weir_pool_policy_save(pool, bytes.data(), bytes.size(), &needed);
    if (result == WEIR_SUCCESS && !bytes.empty()) {
      bytes.resize(needed);
      return bytes;
    }
    assert_int_equal(result, bytes.empty() ? WEIR_SUCCESS : WEIR_ERROR_INVALID_ARGUMENT);
    bytes.resize(needed + needed / 8);
  }
}

/// Of a device's log; 0: there is none.
inline uint32_t operations_in(const Bytes &bytes, uint32_t log = 0) {
  constexpr size_t logs_at = 64, first_at = 72, log_bytes = 24, operations_at = 8;
  uint32_t logs = 0, operations = 0;
  std::memcpy(&logs, bytes.data() + logs_at, sizeof logs);
  if (log < logs)
    std::memcpy(&operations, bytes.data() + first_at + log * log_bytes + operations_at,
                sizeof operations);
  return operations;
}

/// With all that has been done: so many operations. A save waits a second at most for the pool's thread, which on a slow machine may be
/// further behind.
inline Bytes saved_with(weir_pool pool, uint32_t operations, uint32_t log = 0) {
  Bytes bytes = saved(pool);
  for (int again = 0; again < 60 && operations_in(bytes, log) < operations; ++again)
    bytes = saved(pool);
  assert_int_equal(operations_in(bytes, log), operations);
  return bytes;
}

}  // namespace weir::test
