// SPDX-License-Identifier: Apache-2.0
//
// CpuShare, with a clock that passes when it is told to: how much may be used at once and in the long run, when work goes on that had to
// stop, and that nothing is counted where computing takes no time.

#include "core/base/cpu_share.hpp"

#include "tests/support/cmocka.hpp"

#include <initializer_list>

namespace {

using weir::CpuShare;

constexpr uint64_t ms = 1'000'000;

class FakeClock final : public weir::Clock {
 public:
  uint64_t now_ns() const noexcept override {
    ++looks;
    return now;
  }
  uint64_t thread_cpu_ns() const noexcept override { return cpu; }
  uint64_t now = 0, cpu = 0;
  mutable uint64_t looks = 0;
};

template <class Work>
void spend(CpuShare &share, Work &&work) {
  const CpuShare::Piece piece(share);
  work();
}

/// A piece of work that takes so much, of a thread that has a CPU of its own.
void work(FakeClock &clock, CpuShare &share, uint64_t ns) {
  spend(share, [&] {
    clock.now += ns;
    clock.cpu += ns;
  });
}

/// Works whenever it may, in pieces, until so much time has passed. Returns the CPU time that it took.
uint64_t work_until(FakeClock &clock, CpuShare &share, uint64_t end, uint64_t piece) {
  const uint64_t before = clock.cpu;
  while (clock.now < end) {
    if (share.used_up())
      clock.now += share.wait_ns();
    else
      work(clock, share, piece);
  }
  return clock.cpu - before;
}

void what_was_saved_up_may_be_used_at_once(void **) {
  FakeClock clock;
  CpuShare share(clock, 10);
  uint64_t used = 0;
  for (; !share.used_up(); used += 2 * ms) work(clock, share, 2 * ms);
  // What it earned meanwhile too.
  assert_in_range(used, CpuShare::saved_ns, CpuShare::saved_ns * 10 / 9 + 2 * ms);
}

void in_the_long_run_it_takes_its_share(void **) {
  for (const uint32_t percent : {1U, 10U, 50U, 99U}) {
    for (const uint64_t piece : {ms / 50, 3 * ms, 40 * ms}) {
      FakeClock clock;
      CpuShare share(clock, percent);
      constexpr uint64_t span = 100'000 * ms;
      const uint64_t earned = span / 100 * percent;
      const uint64_t used = work_until(clock, share, span, piece);
      const uint64_t slack = CpuShare::saved_ns + piece + CpuShare::counted_ns;
      assert_in_range(used, earned - CpuShare::pause_ns - piece - CpuShare::counted_ns,
                      earned + slack);
    }
  }
}

/// What another thread does for it counts, and what that thread does besides does not.
void a_visit_counts_for_itself(void **) {
  FakeClock clock;
  CpuShare share(clock, 10);
  uint64_t visits = 0;
  for (; !share.used_up(); visits += 2 * ms) {
    {
      const CpuShare::Visit visit(share);
      clock.cpu += 2 * ms;
    }
    clock.cpu += 1'000 * ms;
  }
  assert_in_range(visits, CpuShare::saved_ns, CpuShare::saved_ns + 2 * ms);
  // The thread that works has taken its own time down by its own clock.
  work(clock, share, ms);
  const uint64_t wait = share.wait_ns();
  {
    const CpuShare::Visit visit(share);
    clock.cpu += ms;
  }
  assert_in_range(share.wait_ns(), wait + 9 * ms, wait + 11 * ms);
}

void idle_time_is_saved_up_to_the_bound_and_no_further(void **) {
  FakeClock clock;
  CpuShare share(clock, 10);
  work_until(clock, share, 5'000 * ms, ms);
  clock.now += 3'600'000 * ms;
  const uint64_t start = clock.now;
  const uint64_t used = work_until(clock, share, start + 1'000 * ms, ms);
  assert_in_range(used, CpuShare::saved_ns,
                  CpuShare::saved_ns + 100 * ms + ms + CpuShare::counted_ns);
}

/// Not for a piece at a time: a plan that has to be given up each time would be worth nothing.
void who_had_to_stop_goes_on_when_there_is_enough(void **) {
  FakeClock clock;
  CpuShare share(clock, 10);
  while (!share.used_up()) work(clock, share, ms);
  const uint64_t wait = share.wait_ns();
  assert_in_range(wait, 10 * CpuShare::pause_ns, 10 * (CpuShare::pause_ns + 2 * ms));
  clock.now += wait - 1;
  assert_true(share.used_up());
  clock.now += 1;
  assert_false(share.used_up());
  assert_int_equal(share.wait_ns(), 0);
  uint64_t used = 0;
  for (; !share.used_up(); used += ms) work(clock, share, ms);
  assert_true(used >= CpuShare::pause_ns - ms);
}

void many_small_pieces_count_as_one_large(void **) {
  FakeClock clock;
  CpuShare share(clock, 10);
  uint64_t pieces = 0;
  for (; !share.used_up(); ++pieces) spend(share, [&] { clock.cpu += 97; });  // and no time passes
  assert_in_range(pieces * 97, CpuShare::saved_ns, CpuShare::saved_ns + 2 * CpuShare::counted_ns);
  assert_in_range(clock.looks, 1, 2 + CpuShare::saved_ns / CpuShare::counted_ns);
}

/// As a program does that has something to do again and again: whatever it takes to sleep and to wake.
void pieces_that_come_one_by_one_leave_half_of_the_share(void **) {
  for (const uint64_t piece : {ms / 1000, ms / 100, ms / 20}) {
    FakeClock clock;
    CpuShare share(clock, 10);
    const uint64_t start = clock.now = ms;
    for (int i = 0; i < 1000; ++i) {
      clock.cpu += piece / 2;  // to wake
      if (!share.rests()) spend(share, [&] { clock.cpu += piece / 2; });
      const uint64_t rest = share.rest(2 * ms);
      assert_true(rest != 0);
      if (i % 2 == 0) {  // woken too early, by another thread
        clock.now += rest / 2;
        assert_true(share.rests());
        assert_int_equal(share.rest(2 * ms), rest - rest / 2);
        clock.now += rest - rest / 2;
      } else {
        clock.now += rest;
      }
      assert_false(share.rests());
      assert_false(share.used_up());
    }
    assert_in_range(clock.cpu, (clock.now - start) / 21, (clock.now - start) / 19);
  }
}

void nobody_rests_longer_than_is_said(void **) {
  FakeClock clock;
  clock.now = ms;
  CpuShare share(clock, 10);
  assert_int_equal(share.rest(2 * ms), 0);
  spend(share, [&] { clock.cpu += 10 * ms; });
  assert_int_equal(share.rest(2 * ms), 2 * ms);
  clock.now += 2 * ms;
  assert_int_equal(share.rest(2 * ms), 0);
  assert_false(share.rests());
}

void where_computing_takes_no_time_nothing_is_counted(void **) {
  FakeClock clock;
  CpuShare share(clock, 1);
  const uint64_t looks = clock.looks;
  for (int i = 0; i < 1000; ++i) {
    spend(share, [] {});
    assert_false(share.used_up() || share.rests());
    assert_int_equal(share.rest(ms), 0);
  }
  assert_int_equal(clock.looks, looks);
}

void a_whole_cpu_is_no_limit(void **) {
  FakeClock clock;
  CpuShare share(clock, 100);
  spend(share, [&] { clock.cpu += 1'000'000 * ms; });
  assert_false(share.used_up());
}

void a_clock_that_goes_back_earns_nothing(void **) {
  FakeClock clock;
  clock.now = 10'000 * ms;
  CpuShare share(clock, 10);
  spend(share, [&] { clock.cpu += CpuShare::counted_ns; });
  clock.now = 0;
  while (!share.used_up()) spend(share, [&] { clock.cpu += ms; });
  clock.now = 10'000 * ms;
  assert_true(share.used_up());
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(what_was_saved_up_may_be_used_at_once),
      cmocka_unit_test(in_the_long_run_it_takes_its_share),
      cmocka_unit_test(a_visit_counts_for_itself),
      cmocka_unit_test(idle_time_is_saved_up_to_the_bound_and_no_further),
      cmocka_unit_test(who_had_to_stop_goes_on_when_there_is_enough),
      cmocka_unit_test(many_small_pieces_count_as_one_large),
      cmocka_unit_test(pieces_that_come_one_by_one_leave_half_of_the_share),
      cmocka_unit_test(nobody_rests_longer_than_is_said),
      cmocka_unit_test(where_computing_takes_no_time_nothing_is_counted),
      cmocka_unit_test(a_whole_cpu_is_no_limit),
      cmocka_unit_test(a_clock_that_goes_back_earns_nothing),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
