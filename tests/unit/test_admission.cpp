// SPDX-License-Identifier: Apache-2.0
//
// Which caller may take memory while it is short: the order of the queue, what a head that waits for leases changes, and which caller is to be
// woken. No pool is needed for that, only its lock.

#include "core/lease/admission.hpp"

#include "tests/support/cmocka.hpp"  // last: it has macros with plain names

namespace {

using weir::Locked;
using weir::PoolLock;
using weir::lease::Admission;
using weir::lease::Ticket;
using Answer = Admission::Answer;

struct Queue {
  PoolLock lock{weir::Log()};
  Locked held{lock};
  Admission admission;
  Ticket first, second, third;

  Answer ask(Ticket &ticket, bool fits = false, bool patient = true) {
    return admission.ask(ticket, fits, patient);
  }
};

void whoever_comes_first_goes_and_the_others_follow_in_order(void **) {
  Queue queue;
  assert_true(queue.ask(queue.first) == Answer::go);
  assert_true(queue.ask(queue.second) == Answer::wait);
  assert_true(queue.ask(queue.third, true, false) == Answer::wait);  // what is free is the head's
  assert_true(queue.ask(queue.first) == Answer::go);
  assert_true(queue.admission.leave(queue.first));
  assert_true(queue.ask(queue.third) == Answer::wait);
  assert_true(queue.ask(queue.second) == Answer::go);
  assert_true(queue.admission.leave(queue.second));
  assert_true(queue.ask(queue.third) == Answer::go);
}

void who_leaves_the_middle_or_the_end_is_not_missed(void **) {
  Queue queue;
  for (Ticket *ticket : {&queue.first, &queue.second, &queue.third}) (void)queue.ask(*ticket);
  assert_true(queue.admission.leave(queue.second));
  assert_false(queue.admission.leave(queue.second));  // no caller has to be told twice
  assert_true(queue.admission.leave(queue.third));
  Ticket fourth;
  assert_true(queue.ask(fourth) == Answer::wait);
  assert_true(queue.admission.leave(queue.first));
  assert_true(queue.ask(fourth) == Answer::go);
  assert_true(queue.admission.leave(fourth));
  assert_true(queue.ask(queue.second) == Answer::go);
}

void a_head_that_waits_for_leases_is_passed_by_what_fits(void **) {
  Queue queue;
  assert_true(queue.ask(queue.first) == Answer::go);
  queue.admission.begin_wait(queue.first);
  assert_true(queue.ask(queue.second, true) == Answer::go);
  assert_false(queue.admission.leave(queue.second));  // it went past, and was never queued
  assert_true(queue.ask(queue.second, false, false) == Answer::refused);
  assert_false(queue.admission.leave(queue.second));
  assert_true(queue.ask(queue.second, false, true) == Answer::wait_for_leases);
  assert_true(queue.admission.leave(queue.second));
  queue.admission.begin_try(queue.first);
  assert_true(queue.ask(queue.second, true, false) == Answer::wait);
}

void who_went_past_and_then_waits_is_queued(void **) {
  Queue queue;
  queue.admission.begin_wait(queue.first);
  assert_true(queue.ask(queue.second, true) == Answer::go);
  queue.admission.begin_wait(queue.second);
  assert_true(queue.ask(queue.first) == Answer::go);
  assert_true(queue.admission.leave(queue.first));
  assert_true(queue.ask(queue.third, false, false) == Answer::refused);
  assert_true(queue.ask(queue.second) == Answer::go);
}

void a_release_has_somebody_to_wake_while_a_watch_lives(void **) {
  Admission admission;
  assert_false(admission.has_watchers());
  {
    const Admission::Watch watch(admission);
    {
      const Admission::Watch another(admission);
      assert_true(admission.has_watchers());
    }
    assert_true(admission.has_watchers());
  }
  assert_false(admission.has_watchers());
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(whoever_comes_first_goes_and_the_others_follow_in_order),
      cmocka_unit_test(who_leaves_the_middle_or_the_end_is_not_missed),
      cmocka_unit_test(a_head_that_waits_for_leases_is_passed_by_what_fits),
      cmocka_unit_test(who_went_past_and_then_waits_is_queued),
      cmocka_unit_test(a_release_has_somebody_to_wake_while_a_watch_lives),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
