// SPDX-License-Identifier: Apache-2.0
//
// A fault sweep over the CUDA backend: in one scenario that uses every group, each call of the driver fails once, at
// every position, with several codes. Whatever failed: nothing is left alive at the end, nothing was misused, the
// thread's context is as it was, what could not be ended can be ended the second time, and bytes that a successful copy
// should have brought are there.

#include "tests/backends/cuda_scenario.hpp"
#include "tests/support/stride.hpp"

namespace {

using namespace weir::test;

const weir_backend_table &t = cuda_table();
constexpr uint64_t unit = scenario_unit;
const char *const machine = scenario_machine;

/// The scenario with the n-th call failing; n = 0 = none. Returns how many calls there were.
uint64_t run(uint64_t n, abi::Result code) {
  sim().machine(machine);
  if (n != 0) sim().fail(nullptr, n, code);
  weir_be_start desc{sizeof desc, 0, "batch_copy=1", nullptr, nullptr, nullptr};
  weir_be_state *state = nullptr;
  const char *reason = nullptr;
  if (t.start(&desc, &state, &reason) == WEIR_SUCCESS) {
    Scenario(state).all();
    t.stop(state);
  } else {
    assert_int_not_equal(n, 0);
    assert_int_not_equal(reason[0], '\0');
  }
  const char *text = "";
  if (sim().alive(&text) != 0) {
    fail_msg("call %llu failing with %d: left alive: %s", static_cast<unsigned long long>(n), code,
             text);
  }
  if (sim().misuse(&text) != 0) {
    fail_msg("call %llu failing with %d: misuse: %s", static_cast<unsigned long long>(n), code,
             text);
  }
  const uint64_t calls = sim().calls(nullptr);
  sim().fail(nullptr, 0, 0);
  const ThreadState after = ThreadState::now();
  assert_null(after.context);
  assert_int_equal(after.mode, abi::capture_mode_global);
  return calls;
}

void sweep(abi::Result code) {
  uint64_t calls = run(0, 0);
  assert_true(calls > 100);
  const auto step = static_cast<uint64_t>(stride());
  for (uint64_t n = 1; n <= calls; n += step) run(n, code);
}

void every_call_out_of_memory(void **) { sweep(abi::result::out_of_memory); }
void every_call_with_an_unknown_error(void **) { sweep(abi::result::unknown); }
void every_call_with_an_invalid_value(void **) { sweep(abi::result::invalid_value); }
void every_call_without_a_context(void **) { sweep(abi::result::invalid_context); }

/// The device goes away at any moment: every entry answers, stop ends.
void the_device_is_lost_at_any_moment(void **) {
  const uint64_t calls = run(0, 0);
  for (uint64_t n = 1; n <= calls; n += 3) {
    sim().machine(machine);
    weir_be_start desc{sizeof desc, 0, "", nullptr, nullptr, nullptr};
    weir_be_state *state = nullptr;
    const char *reason = nullptr;
    assert_int_equal(t.start(&desc, &state, &reason), WEIR_SUCCESS);
    weir_be_stream stream = nullptr;
    uint64_t address = 0, range = 0;
    weir_be_granule granule = 0;
    weir_be_fence fence = 0;
    if (n > 1) t.stream_create(state, 0, 0, &stream);
    if (n > 4) t.plain_allocate(state, 0, unit, 256, &address);
    if (n > 7) t.granule_create(state, 0, unit, 0, &granule);
    if (n > 10) t.range_reserve(state, 0, unit, unit, &range);
    if (n > 13)
      assert_int_equal(t.map(state, 0, range, unit, granule, 0, nullptr, 0), WEIR_SUCCESS);
    if (n > 16) assert_int_equal(t.fence_record(state, stream, &fence), WEIR_SUCCESS);
    sim().lose_device(0);
    if (n > 16) assert_int_equal(t.fence_wait(state, fence, UINT64_MAX), WEIR_ERROR_DEVICE_LOST);
    t.stop(state);
    if (n > 20) break;
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_call_out_of_memory),
      cmocka_unit_test(every_call_with_an_unknown_error),
      cmocka_unit_test(every_call_with_an_invalid_value),
      cmocka_unit_test(every_call_without_a_context),
      cmocka_unit_test(the_device_is_lost_at_any_moment),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
