// SPDX-License-Identifier: Apache-2.0
//
// The thread's last error (core/base/status.hpp): a clean-up leaves it alone, whatever fails in it and however deep, what fails there
// can be looked at meanwhile, and an error goes whole from thread to thread.

#include "core/base/status.hpp"
#include "tests/support/cmocka.hpp"

#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

namespace {

using weir::ErrorDetail;
using weir::HandedOver;
using weir::KeepError;
using weir::last_error;
using weir::Status;

Status fail_with(weir_result code, uint64_t asked) {
  ErrorDetail detail;
  detail.asked = asked;
  return weir::fail(code, detail, "asked for %llu", weir::llu(asked));
}

void is_about(weir_result code, uint64_t asked) {
  assert_int_equal(last_error().result, code);
  assert_int_equal(last_error().detail.asked, asked);
  assert_string_equal(last_error().text, ("asked for " + std::to_string(asked)).c_str());
}

void a_clean_up_leaves_the_error_alone(void **) {
  const Status first = fail_with(WEIR_ERROR_OVER_BUDGET, 7);
  {
    const KeepError keep;
    for (uint64_t i = 100; i < 200; ++i) {
      (void)fail_with(WEIR_ERROR_BACKEND, i);
      is_about(WEIR_ERROR_BACKEND, i);
    }
  }
  assert_int_equal(first.code(), WEIR_ERROR_OVER_BUDGET);
  is_about(WEIR_ERROR_OVER_BUDGET, 7);
  (void)fail_with(WEIR_ERROR_BACKEND, 8);  // no clean-up any more
  is_about(WEIR_ERROR_BACKEND, 8);
}

void a_clean_up_within_another_keeps_the_other_ones(void **) {
  (void)fail_with(WEIR_ERROR_BUSY, 1);
  {
    const KeepError outer;
    { const KeepError unused; }
    (void)fail_with(WEIR_ERROR_IO, 2);
    {
      const KeepError inner;
      (void)fail_with(WEIR_ERROR_BACKEND, 3);
    }
    is_about(WEIR_ERROR_IO, 2);
    (void)fail_with(WEIR_ERROR_IO, 4);
  }
  is_about(WEIR_ERROR_BUSY, 1);
  {
    const KeepError outer;
    {
      const KeepError inner;
      (void)fail_with(WEIR_ERROR_BACKEND, 5);  // before anything has failed outside of it
    }
    is_about(WEIR_ERROR_BUSY, 1);
    (void)fail_with(WEIR_ERROR_BACKEND, 6);
  }
  is_about(WEIR_ERROR_BUSY, 1);
}

void the_use_of_a_failure_is_part_of_it(void **) {
  const auto fail_of_use = [](uint64_t use) { return of_use(use, fail_with(WEIR_ERROR_IO, 9)); };
  assert_int_equal(fail_of_use(3).code(), WEIR_ERROR_IO);
  assert_int_equal(last_error().detail.use_index, 3);
  {
    const KeepError keep;
    (void)of_use(4, Status(WEIR_ERROR_IO));  // not told yet
    assert_int_equal(last_error().detail.use_index, 4);
  }
  assert_int_equal(last_error().detail.use_index, 3);
  assert_true(of_use(5, Status()).ok());
  assert_int_equal(last_error().detail.use_index, 3);
}

void an_error_goes_to_another_thread(void **) {
  HandedOver failed;
  HandedOver fine;
  std::thread([&] {
    failed.put(fail_with(WEIR_ERROR_DEVICE_LOST, 11));
    (void)fail_with(WEIR_ERROR_IO, 12);
    fine.put(Status());
  }).join();
  (void)fail_with(WEIR_ERROR_BUSY, 13);
  assert_true(fine.take().ok());
  is_about(WEIR_ERROR_BUSY, 13);
  {
    const KeepError keep;
    assert_int_equal(failed.take().code(), WEIR_ERROR_DEVICE_LOST);
    is_about(WEIR_ERROR_DEVICE_LOST, 11);
  }
  is_about(WEIR_ERROR_BUSY, 13);
  assert_int_equal(failed.take().code(), WEIR_ERROR_DEVICE_LOST);
  is_about(WEIR_ERROR_DEVICE_LOST, 11);
}

/// Its own text may be an argument of a failure: what it was caused by.
void a_failure_may_tell_of_the_one_before(void **) {
  (void)fail_with(WEIR_ERROR_IO, 14);
  const KeepError keep;
  (void)weir::fail(WEIR_ERROR_BACKEND, "after: %s", last_error().text);
  assert_string_equal(last_error().text, "after: asked for 14");
}

int printed = 0;

struct Asked {
  uint64_t bytes;
  int print(char *text, size_t capacity) const {
    ++printed;
    return std::snprintf(text, capacity, "asked for %llu", weir::llu(bytes));
  }
};

Status fail_later_with(weir_result code, uint64_t asked) {
  ErrorDetail detail;
  detail.asked = asked;
  return weir::fail_later(code, detail, Asked{asked});
}

/// Failures that are not read print nothing, and each is told as it was, however often it is asked for.
void a_sentence_is_printed_when_it_is_asked_for(void **) {
  printed = 0;
  for (uint64_t i = 0; i < 10; ++i) (void)fail_later_with(WEIR_ERROR_OVER_BUDGET, i);
  (void)of_use(3, Status(WEIR_ERROR_OVER_BUDGET));
  assert_int_equal(weir::unread_error().result, WEIR_ERROR_OVER_BUDGET);
  assert_int_equal(printed, 0);
  is_about(WEIR_ERROR_OVER_BUDGET, 9);
  assert_int_equal(last_error().detail.use_index, 3);
  assert_int_equal(printed, 1);
  (void)fail_with(WEIR_ERROR_BUSY, 20);
  is_about(WEIR_ERROR_BUSY, 20);
  assert_int_equal(printed, 1);
}

void what_is_not_printed_yet_is_kept_and_goes_to_another_thread(void **) {
  printed = 0;
  HandedOver failed;
  std::thread([&] {
    failed.put(fail_later_with(WEIR_ERROR_WOULD_BLOCK, 21));
    (void)fail_later_with(WEIR_ERROR_IO, 22);
  }).join();
  (void)fail_later_with(WEIR_ERROR_BUSY, 23);
  {
    const KeepError keep;
    assert_int_equal(failed.take().code(), WEIR_ERROR_WOULD_BLOCK);
    is_about(WEIR_ERROR_WOULD_BLOCK, 21);
    (void)fail_with(WEIR_ERROR_IO, 24);
  }
  assert_int_equal(printed, 1);
  is_about(WEIR_ERROR_BUSY, 23);
  assert_int_equal(printed, 2);
}

struct Endless {
  int print(char *text, size_t capacity) const {
    return std::snprintf(text, capacity, "%s", std::string(250, 'x').append(200, '.').c_str()) +
           std::snprintf(text + 450, capacity - 450, "%s", umlauts().c_str());
  }
  static std::string umlauts() {
    std::string text;
    for (int i = 0; i < 100; ++i) text += "\xC3\xBC";
    return text;
  }
};

void a_long_sentence_is_cut_between_characters(void **) {
  (void)weir::fail_later(WEIR_ERROR_BUSY, {}, Endless{});
  const std::string_view text = last_error().text;
  assert_int_equal(text.size(), 510);
  assert_true(text.ends_with("\xC3\xBC"));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_clean_up_leaves_the_error_alone),
      cmocka_unit_test(a_clean_up_within_another_keeps_the_other_ones),
      cmocka_unit_test(the_use_of_a_failure_is_part_of_it),
      cmocka_unit_test(an_error_goes_to_another_thread),
      cmocka_unit_test(a_failure_may_tell_of_the_one_before),
      cmocka_unit_test(a_sentence_is_printed_when_it_is_asked_for),
      cmocka_unit_test(what_is_not_printed_yet_is_kept_and_goes_to_another_thread),
      cmocka_unit_test(a_long_sentence_is_cut_between_characters),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
