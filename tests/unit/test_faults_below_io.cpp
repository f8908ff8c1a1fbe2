// SPDX-License-Identifier: Apache-2.0
//
// The fault sweep with tiers below HOST: each system call on the spill files fails once, or comes up short. A filter of
// test names may be given.

#include "tests/unit/fault_sweep_below.hpp"

namespace {

using namespace weir::test;

SWEEP(io_over_storage, Kind::io, EIO, 20, storage_only)
SWEEP(io_over_storage_full, Kind::io, ENOSPC, 20, storage_only)
SWEEP(io_over_storage_short, Kind::io, 0, 20, storage_only)
SWEEP(io_over_both, Kind::io, EIO, 20, spilling)
SWEEP(io_over_both_short, Kind::io, 0, 20, spilling)
SWEEP(io_without_host, Kind::io, EIO, 20, no_host)
SWEEP(io_without_host_full, Kind::io, ENOSPC, 20, no_host)
SWEEP(io_on_threads, Kind::io, EIO, 20, threads)
SWEEP(io_on_threads_short, Kind::io, 0, 20, threads)
SWEEP(io_through_the_page_cache, Kind::io, EIO, 20, page_cache)
SWEEP(io_through_the_page_cache_short, Kind::io, 0, 20, page_cache)
SWEEP(io_without_vmm, Kind::io, EIO, 10, without_vmm)

}  // namespace

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const CMUnitTest tests[] = {
      cmocka_unit_test(io_over_storage),
      cmocka_unit_test(io_over_storage_full),
      cmocka_unit_test(io_over_storage_short),
      cmocka_unit_test(io_over_both),
      cmocka_unit_test(io_over_both_short),
      cmocka_unit_test(io_without_host),
      cmocka_unit_test(io_without_host_full),
      cmocka_unit_test(io_on_threads),
      cmocka_unit_test(io_on_threads_short),
      cmocka_unit_test(io_through_the_page_cache),
      cmocka_unit_test(io_through_the_page_cache_short),
      cmocka_unit_test(io_without_vmm),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
