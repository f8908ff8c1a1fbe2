// SPDX-License-Identifier: Apache-2.0
//
// Waiting by asking: how long the pauses are, and what becomes of the thread's timers. How late a wait ends is the machine's
// affair and is no test's.

#include "backends/common/patience.hpp"
#include "core/base/signals.hpp"

#include <thread>

#include "tests/support/cmocka.hpp"

namespace {

using namespace weir::common;

int slack() { return prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL); }

void pauses_are_an_eighth_within_bounds(void **) {
  constexpr uint64_t ever = UINT64_MAX;
  assert_int_equal(pause_after(800'000, 5'000, ever), 100'000);
  assert_int_equal(pause_after(80'000'000, 5'000, ever), 1'000'000);
  // None is shorter than what the kernel makes of it.
  assert_int_equal(pause_after(80'000, 30'000, ever), 30'000);
  // None goes past the limit.
  assert_int_equal(pause_after(800'000, 5'000, 70), 70);
  assert_int_equal(pause_after(80'000, 30'000, 70), 70);
}

void what_sleeps_last_is_learnt(void **) {
  Oversleep oversleep;
  for (int i = 0; i < 100; ++i) oversleep.note(1000, 21'000);
  assert_in_range(oversleep.ns(), 19'000, 20'000);
  oversleep.note(1000, 1'000'000'000);  // a busy machine, once
  assert_in_range(oversleep.ns(), 20'000, 27'000);
  for (int i = 0; i < 100; ++i) oversleep.note(1000, 900);
  assert_int_equal(oversleep.ns(), 0);
}

void a_thread_has_its_timers_back(void **) {
  assert_int_equal(prctl(PR_SET_TIMERSLACK, 40'000UL, 0UL, 0UL, 0UL), 0);
  int asked = 0, inside = 0;
  const weir_result result = poll_until(UINT64_MAX, [&] {
    inside = slack();
    const uint64_t until =
        monotonic_ns() + 40'000;  // so that the busy time is over after two of them
    while (monotonic_ns() < until) {
    }
    return ++asked < 8 ? WEIR_NOT_READY : WEIR_SUCCESS;
  });
  assert_int_equal(result, WEIR_SUCCESS);
  assert_int_equal(inside, 1);
  assert_int_equal(slack(), 40'000);
  assert_int_equal(poll_until(200'000, [] { return WEIR_NOT_READY; }), WEIR_ERROR_TIMEOUT);
  assert_int_equal(slack(), 40'000);
  assert_int_equal(poll_until(0, [] { return WEIR_NOT_READY; }), WEIR_ERROR_TIMEOUT);
}

void weirs_own_threads_have_none(void **) {
  assert_int_equal(prctl(PR_SET_TIMERSLACK, 40'000UL, 0UL, 0UL, 0UL), 0);
  int own = 0;
  std::thread thread;
  {
    const weir::SignalsBlocked blocked;
    thread = std::thread([&own] { own = slack(); });
  }
  thread.join();
  assert_int_equal(own, 1);
  assert_int_equal(slack(), 40'000);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(pauses_are_an_eighth_within_bounds),
      cmocka_unit_test(what_sleeps_last_is_learnt),
      cmocka_unit_test(a_thread_has_its_timers_back),
      cmocka_unit_test(weirs_own_threads_have_none),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
