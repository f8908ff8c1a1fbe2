// SPDX-License-Identifier: Apache-2.0
//
// The fault sweep with tiers below HOST: each fallible call of the backend fails once. A filter of test names may be given.

#include "tests/unit/fault_sweep_below.hpp"

namespace {

using namespace weir::test;

SWEEP(backend_over_storage, Kind::backend, 0, 100, storage_only)
SWEEP(backend_over_compressed, Kind::backend, 0, 100, compressed_only)
SWEEP(backend_over_both, Kind::backend, 0, 100, spilling)
SWEEP(backend_without_host, Kind::backend, 0, 100, no_host)
SWEEP(backend_without_vmm, Kind::backend, 0, 100, without_vmm)
SWEEP(device_memory_over_both, Kind::device_oom, 0, 3, spilling)
SWEEP(device_memory_without_host, Kind::device_oom, 0, 3, no_host)

}  // namespace

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const CMUnitTest tests[] = {
      cmocka_unit_test(backend_over_storage),       cmocka_unit_test(backend_over_compressed),
      cmocka_unit_test(backend_over_both),          cmocka_unit_test(backend_without_host),
      cmocka_unit_test(backend_without_vmm),        cmocka_unit_test(device_memory_over_both),
      cmocka_unit_test(device_memory_without_host),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
