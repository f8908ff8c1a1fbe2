// SPDX-License-Identifier: Apache-2.0
//
// When a device is lost, and when it is not. In a scenario that makes the driver's every call, each call fails once with a
// code. 999 and 911 are what a device says that fell off its bus, and what a call says that just failed: they are a loss when
// the device is asked again and does not answer. 46 says that a device is taken. Codes after which the driver wants the process to
// end are a loss at once.

#include "backends/cuda/api.hpp"
#include "tests/backends/cuda_scenario.hpp"
#include "tests/support/stride.hpp"

namespace {

using namespace weir::test;

const weir_backend_table &t = cuda_table();

/// The scenario with the n-th call failing (0: none). Returns how many calls there were.
uint64_t run(uint64_t n, Told *told) {
  sim().machine(scenario_machine);
  if (n != 0) sim().fail(nullptr, n, told->code);
  if (n != 0 && told->stays) sim().sticky();
  weir_be_start desc{sizeof desc, 0, "batch_copy=1", nullptr, nullptr, nullptr};
  weir_be_state *state = nullptr;
  const char *reason = nullptr;
  if (t.start(&desc, &state, &reason) == WEIR_SUCCESS) {
    Scenario(state, told).all();
    t.stop(state);
  }
  const uint64_t calls = sim().calls(nullptr);
  sim().fail(nullptr, 0, 0);
  return calls;
}

void the_scenario_calls_all_of_the_driver(void **) {
  Told told;
  run(0, &told);
#define WEIR_TEST_ASKED(entry)                                                 \
  if (std::strncmp(#entry, "cuGetError", 10) != 0 && sim().calls(#entry) == 0) \
    fail_msg("no call of " #entry);
  WEIR_CUDA_REQUIRED(WEIR_TEST_ASKED)
  WEIR_TEST_ASKED(cuLaunchHostFunc)
  WEIR_TEST_ASKED(cuMemcpyBatchAsync)
#undef WEIR_TEST_ASKED
}

/// Each call in turn. `judge` sees what was told of it.
template <class Judge>
void each_call(abi::Result code, bool stays, Judge judge) {
  Told none;
  const uint64_t calls = run(0, &none);
  assert_true(calls > 100);
  uint64_t seen = 0;
  const auto step = static_cast<uint64_t>(stride());
  for (uint64_t n = 1; n <= calls; n += step) {
    Told told;
    told.code = code;
    told.stays = stays;
    run(n, &told);
    seen += told.lost + told.other;
    if (!judge(told)) {
      fail_msg("call %llu failing with %d: %u times told as lost, %u times as: %s",
               static_cast<unsigned long long>(n), code, told.lost, told.other,
               told.sentence.c_str());
    }
  }
  assert_true(seen != 0);
}

bool never_lost(const Told &told) { return told.lost == 0; }
bool always_lost(const Told &told) { return told.other == 0; }
/// Without a context there is nothing that could be lost, and nobody to ask.
bool lost_with_its_context(const Told &told) {
  return told.other == 0 ||
         (told.other == 1 && told.sentence.find("cuDevicePrimaryCtxRetain") != std::string::npos);
}

void a_call_that_fails_in_doubt_loses_nothing(void **) {
  each_call(abi::result::unknown, false, never_lost);
  each_call(abi::result::external_device, false, never_lost);
}

void a_device_that_does_not_answer_again_is_lost(void **) {
  each_call(abi::result::unknown, true, lost_with_its_context);
  each_call(abi::result::external_device, true, lost_with_its_context);
}

void a_device_that_is_taken_is_not_lost(void **) {
  each_call(abi::result::device_unavailable, false, never_lost);
}

void codes_that_end_the_process_are_a_loss_at_once(void **) {
  each_call(abi::result::tensor_memory_leak, false, always_lost);
  each_call(abi::result::tensor_memory_leak, true, always_lost);
  each_call(abi::result::launch_failed, true, always_lost);
  each_call(abi::result::mps_rpc_failure, false, always_lost);
}

void a_device_in_exclusive_use_is_told_as_such(void **) {
  Cuda cuda("devices=1");
  uint64_t free_bytes = 0, total = 0;
  sim().fail("cuDevicePrimaryCtxRetain", 1, abi::result::device_unavailable);
  must_refuse(cuda, WEIR_ERROR_BACKEND, "exclusive", t.device_memory, 0U, &free_bytes, &total);
  must(cuda, t.device_memory, 0U, &free_bytes, &total);
}

/// The second question reaches the device itself, but where a caller may hold a lock of everybody's it asks the context only.
void polls_ask_no_more_than_the_context(void **) {
  Cuda cuda("devices=1");
  weir_be_stream stream = nullptr;
  weir_be_fence fence = 0;
  must(cuda, t.stream_create, 0U, uint64_t{0}, &stream);
  must(cuda, t.fence_record, stream, &fence);
  must(cuda, t.stream_synchronize, stream);
  const auto fails = [&](const char *call, const char *second, weir_result wanted, auto entry,
                         auto... args) {
    sim().fail(call, 1, abi::result::unknown);
    sim().fail(second, 1, abi::result::unknown);
    const uint64_t asked = sim().calls("cuMemGetInfo");
    assert_int_equal(cuda(entry, args...), wanted);
    sim().fail(second, 0, 0);
    return sim().calls("cuMemGetInfo") - asked;
  };
  const weir_result lost = WEIR_ERROR_DEVICE_LOST, other = WEIR_ERROR_BACKEND;
  assert_int_equal(fails("cuEventQuery", "cuEventCreate", lost, t.fence_poll, fence), 0);
  assert_int_equal(fails("cuEventQuery", "cuMemGetInfo", other, t.fence_poll, fence), 0);
  assert_int_equal(fails("cuStreamWaitEvent", "cuMemGetInfo", other, t.stream_wait, stream, fence),
                   0);
  assert_int_equal(fails("cuEventQuery", "cuMemGetInfo", lost, t.fence_wait, fence, UINT64_MAX), 1);
  assert_int_equal(fails("cuStreamQuery", "cuMemGetInfo", lost, t.stream_query, stream), 1);
  // What does not speak of the device is no answer to the question.
  sim().fail("cuStreamQuery", 1, abi::result::unknown);
  sim().fail("cuMemGetInfo", 1, abi::result::out_of_memory);
  assert_int_equal(cuda(t.stream_query, stream), other);
  must(cuda, t.fence_destroy, fence);
  must(cuda, t.stream_destroy, stream);
}

/// While the thread records a graph in the strict mode, the question must not spoil it.
void the_question_leaves_captures_alone(void **) {
  Cuda cuda("devices=1");
  weir_be_stream stream = nullptr;
  must(cuda, t.stream_create, 0U, uint64_t{0}, &stream);
  abi::Context context = nullptr;
  assert_int_equal(app::cuDevicePrimaryCtxRetain(&context, 0), 0);
  assert_int_equal(app::cuCtxPushCurrent(context), 0);
  abi::Stream mine = nullptr;
  assert_int_equal(app::cuStreamCreate(&mine, abi::stream_non_blocking), 0);
  assert_int_equal(app::cuStreamBeginCapture(mine, abi::capture_mode_global), 0);
  sim().fail("cuStreamQuery", 1, abi::result::unknown);
  assert_int_equal(cuda(t.stream_query, stream), WEIR_ERROR_BACKEND);
  abi::Graph graph = nullptr;
  assert_int_equal(app::cuStreamEndCapture(mine, &graph), 0);
  assert_int_equal(app::cuGraphDestroy(graph), 0);
  assert_int_equal(app::cuStreamDestroy(mine), 0);
  assert_int_equal(app::cuCtxPopCurrent(&context), 0);
  assert_int_equal(app::cuDevicePrimaryCtxRelease(0), 0);
  must(cuda, t.stream_destroy, stream);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_scenario_calls_all_of_the_driver),
      cmocka_unit_test(a_call_that_fails_in_doubt_loses_nothing),
      cmocka_unit_test(a_device_that_does_not_answer_again_is_lost),
      cmocka_unit_test(a_device_that_is_taken_is_not_lost),
      cmocka_unit_test(codes_that_end_the_process_are_a_loss_at_once),
      cmocka_unit_test(a_device_in_exclusive_use_is_told_as_such),
      cmocka_unit_test(polls_ask_no_more_than_the_context),
      cmocka_unit_test(the_question_leaves_captures_alone),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
