// SPDX-License-Identifier: Apache-2.0
//
// The fault sweep with tiers below HOST: each allocation fails once. A filter of test names may be given.

#include "tests/unit/fault_sweep_below.hpp"

namespace {

using namespace weir::test;

SWEEP(allocations_over_storage, Kind::allocator, 0, 100, storage_only)
SWEEP(allocations_over_compressed, Kind::allocator, 0, 100, compressed_only)
SWEEP(allocations_over_both, Kind::allocator, 0, 100, spilling)
SWEEP(allocations_without_host, Kind::allocator, 0, 100, no_host)
SWEEP(allocations_without_vmm, Kind::allocator, 0, 100, without_vmm)

}  // namespace

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const CMUnitTest tests[] = {
      cmocka_unit_test(allocations_over_storage), cmocka_unit_test(allocations_over_compressed),
      cmocka_unit_test(allocations_over_both),    cmocka_unit_test(allocations_without_host),
      cmocka_unit_test(allocations_without_vmm),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
