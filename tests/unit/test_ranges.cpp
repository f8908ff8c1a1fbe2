// SPDX-License-Identifier: Apache-2.0
//
// Ranges by themselves: how they nest, when there are none, how they end; and that the log by which other tests judge them
// sees a push or a pop that is missing.

#include "core/base/ranges.hpp"

#include "core/base/waits.hpp"
#include "tests/unit/logging_sink.hpp"
#include "tests/support/cmocka.hpp"

#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace weir;
using namespace weir::test;

/// Begins as "+text", ends as "-text".
std::string told(const RangeLog &log) {
  std::string all;
  for (const RangeEvent &event : log.events()) all += (event.begins ? "+" : "-") + event.text + " ";
  return all;
}

void a_range_ends_before_the_one_that_it_began_in(void **) {
  LoggingSink one, two;
  Ranges ranges;
  ranges.add(&one);
  ranges.add(&two);
  Waits waits;
  {
    const RangeScope outer({&ranges, "p"}, RangeKind::acquire,
                           [](RangeText &text) { text.add("a%d", 1); });
    const WaitCall call(waits);
    const WaitScope room(Wait::room);
    const WaitScope io(Wait::io);
  }
  const char *const expected = "+a1, pool \"p\" +room +io -io -room -a1, pool \"p\" ";
  assert_string_equal(told(one.log).c_str(), expected);
  assert_string_equal(told(two.log).c_str(), expected);
  assert_int_equal(one.log.events()[1].category, static_cast<uint32_t>(RangeKind::wait));
  assert_string_equal(one.log.wrong().c_str(), "");
}

void nobody_asked(void **) {
  bool named = false;
  {
    const RangeScope outer({}, RangeKind::acquire, [&](RangeText & /*text*/) { named = true; });
    const WaitScope wait(Wait::room);
  }
  assert_false(named);
}

void a_wait_outside_of_a_range_is_none(void **) {
  LoggingSink sink;
  Ranges ranges;
  ranges.add(&sink);
  {
    const RangeScope range({&ranges, "p"}, RangeKind::move, [](RangeText &) {});
  }
  sink.log.clear();
  { const WaitScope wait(Wait::io); }
  // Nor is another thread's.
  const RangeScope range({&ranges, "p"}, RangeKind::move, [](RangeText &) {});
  std::thread([] { const WaitScope wait(Wait::io); }).join();
  assert_int_equal(sink.log.events().size(), 1);
}

void an_exception_ends_them(void **) {
  LoggingSink sink;
  Ranges ranges;
  ranges.add(&sink);
  try {
    const RangeScope outer({&ranges, "p"}, RangeKind::move, [](RangeText &) {});
    const WaitScope wait(Wait::mapping);
    throw std::runtime_error("planted");
  } catch (const std::runtime_error &) {
  }
  assert_int_equal(sink.log.pushes(), 2);
  assert_string_equal(sink.log.wrong().c_str(), "");
  sink.log.clear();
  { const WaitScope wait(Wait::io); }  // the thread is in no range any more
  assert_int_equal(sink.log.events().size(), 0);
}

void of_two_pools_each_tells_its_own(void **) {
  LoggingSink outer_sink, inner_sink;
  Ranges outer_ranges, inner_ranges;
  outer_ranges.add(&outer_sink);
  inner_ranges.add(&inner_sink);
  {
    const RangeScope outer({&outer_ranges, "o"}, RangeKind::acquire, [](RangeText &) {});
    {
      const RangeScope inner({&inner_ranges, "i"}, RangeKind::acquire, [](RangeText &) {});
      const WaitScope wait(Wait::io);
    }
    const WaitScope wait(Wait::room);
  }
  assert_string_equal(told(inner_sink.log).c_str(), "+, pool \"i\" +io -io -, pool \"i\" ");
  assert_string_equal(told(outer_sink.log).c_str(), "+, pool \"o\" +room -room -, pool \"o\" ");
}

void a_text_is_cut(void **) {
  RangeText text;
  for (int i = 0; i < 100; ++i) text.add("%s", "0123456789");
  assert_int_equal(std::string(text.c_str()).size(), 255);
  LoggingSink sink;
  Ranges ranges;
  ranges.add(&sink);
  const std::string name(300, 'n');
  {
    const RangeScope range({&ranges, name.c_str()}, RangeKind::move, [](RangeText &) {});
  }
  assert_true(sink.log.events()[0].text.ends_with("...\""));
  {
    const RangeScope range({&ranges, "a\nb\x1b"}, RangeKind::move, [](RangeText &) {});
  }
  assert_string_equal(sink.log.events()[2].text.c_str(), ", pool \"a\\x0ab\\x1b\"");
}

// ---- what the log is to find ----

void a_missing_pop_is_found(void **) {
  LoggingSink sink;
  Ranges ranges;
  ranges.add(&sink);
  sink.forgets = 1;
  {
    const RangeScope outer({&ranges, "p"}, RangeKind::acquire,
                           [](RangeText &text) { text.add("lost"); });
    const WaitScope wait(Wait::io);
  }
  assert_non_null(std::strstr(sink.log.wrong().c_str(), "has not ended 'lost"));
}

void a_pop_too_many_is_found(void **) {
  RangeLog log;
  log.push("weir", "a");
  log.pop("weir");
  assert_string_equal(log.wrong().c_str(), "");
  log.pop("weir");
  assert_non_null(std::strstr(log.wrong().c_str(), "none has begun"));
}

void a_pop_on_another_thread_is_found(void **) {
  RangeLog log;
  log.push("weir", "a");
  std::thread([&] { log.pop("weir"); }).join();
  assert_int_equal(log.pushes(), log.pops());
  assert_non_null(std::strstr(log.wrong().c_str(), "none has begun"));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_range_ends_before_the_one_that_it_began_in),
      cmocka_unit_test(nobody_asked),
      cmocka_unit_test(a_wait_outside_of_a_range_is_none),
      cmocka_unit_test(an_exception_ends_them),
      cmocka_unit_test(of_two_pools_each_tells_its_own),
      cmocka_unit_test(a_text_is_cut),
      cmocka_unit_test(a_missing_pop_is_found),
      cmocka_unit_test(a_pop_too_many_is_found),
      cmocka_unit_test(a_pop_on_another_thread_is_found),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
