// SPDX-License-Identifier: Apache-2.0
//
// A runtime that says that it registers host memory, and refuses that of a file, as in some sandboxes (memfd=0 in
// tests/drivers/sim/control.h). Spilling works, and a lease on the CPU is refused with a reason.

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

/// The drivers that know the option: the simulated CUDA driver, also below the HIP look-alike.
bool refuses() {
  return Target::get().simulated() &&
         (Target::get().name() == "cuda" || Target::get().name() == "hip");
}

void what_must_leave_the_device_leaves_it(void **) {
  World world({.device_pages = 4, .host_pages = 32});
  weir_buffer buffers[12];
  for (uint32_t i = 0; i < 12; ++i) {
    buffers[i] = world.buffer(page_bytes);
    world.fill(buffers[i], page_bytes, i);
  }
  for (int round = 0; round < 2; ++round) {
    for (uint32_t i = 0; i < 12; ++i) world.check(buffers[i], page_bytes, i);
  }
  assert_true(world.stats().demoted_bytes >= 8 * page_bytes);
  for (weir_buffer each : buffers) ok(weir_buffer_destroy(world.pool, each));
  ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  assert_int_equal(world.stats().host_bytes, 0);
  world.close();
}

void a_lease_on_the_cpu_is_refused_with_a_reason(void **) {
  World world;
  weir_buffer buffer = world.buffer(2 * page_bytes);
  world.fill(buffer, 2 * page_bytes, 1);
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_lease lease = nullptr;
  if (refuses()) {
    expect_result(WEIR_ERROR_NOT_SUPPORTED,
                  weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
    assert_non_null(std::strstr(weir_last_error(), "host memory in a file"));
  } else {
    const weir_result result = weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease);
    assert_true(result == WEIR_SUCCESS || result == WEIR_ERROR_NOT_SUPPORTED);
    if (result == WEIR_SUCCESS) ok(weir_release(lease, cpu));
  }
  world.check(buffer, 2 * page_bytes, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_stream_close(cpu));
  world.close();
}

}  // namespace

int main() {
  setenv("WEIR_TEST_MACHINE", "memfd=0", 1);
  const CMUnitTest tests[] = {
      cmocka_unit_test(what_must_leave_the_device_leaves_it),
      cmocka_unit_test(a_lease_on_the_cpu_is_refused_with_a_reason),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
