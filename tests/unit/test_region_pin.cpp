// SPDX-License-Identifier: Apache-2.0
//
// RegionPin (core/page/region_pin.hpp), without a pool: it counts, moves with its value, names the region to the one that gives the
// last pin back, and in checked builds a forgotten one ends the process.

#include "core/page/region_pin.hpp"
#include "tests/support/cmocka.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory_resource>
#include <utility>
#include <vector>

namespace {

using weir::page::Region;
using weir::page::RegionPin;

void the_last_pin_names_the_region(void **) {
  Region region(7, std::pmr::new_delete_resource());
  assert_false(region.pin_count.any());
  RegionPin first(region);
  RegionPin second(region);
  assert_true(region.pin_count.any());
  assert_null(first.give_back());
  assert_true(region.pin_count.any());
  assert_ptr_equal(second.give_back(), &region);
  assert_false(region.pin_count.any());
}

/// While a page of it is on the move the region is not to be retired, whichever pin is given back.
void a_page_on_the_move_counts_too(void **) {
  Region region(7, std::pmr::new_delete_resource());
  region.pin_count.page_busy();
  RegionPin pin(region);
  assert_null(pin.give_back());
  assert_true(region.pin_count.any());
  region.pin_count.page_done();
  assert_false(region.pin_count.any());
}

void a_pin_moves_with_its_value(void **) {
  Region region(7, std::pmr::new_delete_resource());
  RegionPin later;
  {
    RegionPin first(region);
    later = std::move(first);
  }
  std::vector<RegionPin> many;
  many.push_back(std::move(later));
  for (int i = 0; i < 9; ++i) many.emplace_back(region);  // grows meanwhile
  size_t last = 0;
  for (RegionPin &pin : many) last += pin.give_back() != nullptr ? 1 : 0;
  assert_int_equal(last, 1);
  assert_false(region.pin_count.any());
}

template <class Work>
bool aborts(Work &&work) {
  const pid_t child = fork();
  if (child == 0) {
    (void)signal(SIGABRT, SIG_DFL);
    (void)freopen("/dev/null", "w", stderr);
    work();
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

void a_forgotten_pin_is_told(void **) {
#if !defined(NDEBUG)
  Region region(7, std::pmr::new_delete_resource());
  assert_true(aborts([&] { const RegionPin forgotten(region); }));
  assert_true(aborts([&] {
    RegionPin pin(region);
    pin = RegionPin(region);
  }));
  assert_true(aborts([&] {
    RegionPin pin(region);
    (void)pin.give_back();
    (void)pin.give_back();
  }));
  assert_false(aborts([&] {
    RegionPin pin(region);
    (void)pin.give_back();
  }));
#else
  skip();  // looked at in checked builds only
#endif
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_last_pin_names_the_region),
      cmocka_unit_test(a_page_on_the_move_counts_too),
      cmocka_unit_test(a_pin_moves_with_its_value),
      cmocka_unit_test(a_forgotten_pin_is_told),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
