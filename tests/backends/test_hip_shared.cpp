// SPDX-License-Identifier: Apache-2.0
//
// The HIP backend's ranges in which several devices map: what shared_ranges.hpp asks, and runtimes in which all mappings
// of a range must have one size.
#include "backends/cuda/abi.hpp"
#include "tests/backends/hip_fixture.hpp"
#include "tests/backends/shared_ranges.hpp"

namespace weir::test {
namespace {

void test_share_and_part(void **) {
  const Machine machine(2);
  {
    const Backend backend;
    assert_true(backend.can(WEIR_CAP_SHARED_RANGE, 0));
    assert_true(backend.can(WEIR_CAP_SHARED_RANGE, 1));
    SharedRanges(*backend.t, backend.state, unit).share_and_part();
  }
  machine.census();
}

void test_left_crossed(void **) {
  const Machine machine(2);
  {
    const Backend backend;
    SharedRanges(*backend.t, backend.state, unit).leave_crossed();
  }
  machine.census();
}

void test_apart(void **) {
  for (const char *options : {"shared_range=0", "peer=0"}) {
    const Machine machine(2);
    {
      const Backend backend(options);
      assert_false(backend.can(WEIR_CAP_SHARED_RANGE));
      SharedRanges(*backend.t, backend.state, unit).keep_apart();
    }
    machine.census();
  }
}

/// All devices found with one size share; one that could not be tried may have another.
void test_one_size(void **) {
  const Machine machine(2);
  const Setting one_size("WEIR_HIP_LOOKALIKE_ONE_SIZE", "1");
  {
    const Backend backend;
    assert_true(backend.can(WEIR_CAP_SHARED_RANGE, 0));
    SharedRanges(*backend.t, backend.state, unit).share_and_part();
  }
  // Device 0 makes three granules to find out; device 1's first one fails for lack of memory.
  libraries().fail_call("cuMemCreate", 4, weir::cuda::abi::result::out_of_memory);
  {
    const Backend backend;
    assert_int_equal(backend.describe(0).granule_large, 0);
    assert_int_not_equal(backend.describe(1).granule_large, 0);
    assert_true(backend.can(WEIR_CAP_VMM, 1));
    for (uint32_t device = 0; device < 2; ++device)
      assert_false(backend.can(WEIR_CAP_SHARED_RANGE, device));
    SharedRanges(*backend.t, backend.state, unit).keep_apart();
  }
  machine.census();
}

void test_lost(void **) {
  {
    const Machine machine(2);
    const Backend backend;
    SharedRanges(*backend.t, backend.state, unit).lose_the_guest([] {
      libraries().lose_device(1);
    });
  }
  const Machine machine(2);
  const Backend backend;
  SharedRanges(*backend.t, backend.state, unit).lose_the_host([] { libraries().lose_device(0); });
}

}  // namespace
}  // namespace weir::test

int main() {
  using namespace weir::test;
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_share_and_part), cmocka_unit_test(test_left_crossed),
      cmocka_unit_test(test_apart),          cmocka_unit_test(test_one_size),
      cmocka_unit_test(test_lost),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
