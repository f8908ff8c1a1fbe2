// SPDX-License-Identifier: Apache-2.0
//
// The table of page states (core/page/transitions.hpp): its steps lead from state to state and back, docs/page-states.md shows
// it as it is, and in checked builds a step that has no rule from a state ends the process.

#include "core/page/page.hpp"
#include "tests/support/cmocka.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using weir::page::DevicePage;
using weir::page::PageState;
using weir::page::Rule;
using weir::page::Step;

constexpr const char *names[weir::page::page_states] = {"ABSENT", "FILLING", "RESIDENT", "DRAINING",
                                                        "MOVING"};
const char *name_of(PageState state) { return names[static_cast<size_t>(state)]; }

std::string number(int value) {
  return value == 0 ? "" : (value > 0 ? "+" : "-") + std::to_string(value < 0 ? -value : value);
}

std::string table() {
  std::ostringstream out;
  out << "| Step | From | To | `busy` | In place | Granule | When "
         "|\n|---|---|---|--:|--:|---|---|\n";
  for (const Rule &rule : weir::page::rules)
    out << "| `" << rule.name << "` | " << name_of(rule.from) << " | " << name_of(rule.to) << " | "
        << number(rule.busy) << " | " << number(rule.in_place) << " | " << rule.granule << " | "
        << rule.when << " |\n";
  return out.str();
}

/// A page in that state, by steps of the table.
DevicePage page_in(PageState state) {
  DevicePage page;
  const std::vector<Step> way[weir::page::page_states] = {
      {},
      {Step::begin_fill},
      {Step::begin_fill, Step::filled},
      {Step::begin_fill, Step::filled, Step::begin_evict},
      {Step::begin_fill, Step::filled, Step::begin_move}};
  for (const Step step : way[static_cast<size_t>(state)]) (void)page.apply(step);
  assert_true(page.state() == state);
  return page;
}

void every_step_does_what_its_rule_says(void **) {
  for (const Rule &rule : weir::page::rules) {
    DevicePage page = page_in(rule.from);
    const Rule &applied = page.apply(rule.step);
    assert_ptr_equal(&applied, &rule);
    assert_true(page.state() == rule.to);
    assert_ptr_equal(weir::page::rule_of(rule.step, rule.from), &rule);
  }
}

/// A page that goes through the steps from ABSENT back to ABSENT leaves no count.
void counts_are_those_of_the_state(void **) {
  const auto busy = [](PageState state) {
    return state != PageState::absent && state != PageState::resident;
  };
  const auto in_place = [](PageState state) {
    return state != PageState::absent && state != PageState::filling;
  };
  for (const Rule &rule : weir::page::rules) {
    assert_int_equal(rule.busy, int{busy(rule.to)} - int{busy(rule.from)});
    // A refill counts its page as in place all the time.
    const bool refill = rule.step == Step::begin_refill || rule.step == Step::refilled ||
                        rule.step == Step::refill_failed;
    assert_int_equal(rule.in_place, refill ? 0 : int{in_place(rule.to)} - int{in_place(rule.from)});
  }
}

/// Whether the step ends a process that takes it in that state.
bool aborts(PageState from, Step step) {
  const pid_t child = fork();
  if (child == 0) {
    DevicePage page = page_in(from);
    (void)signal(SIGABRT, SIG_DFL);
    (void)freopen("/dev/null", "w", stderr);
    (void)page.apply(step);
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

void a_step_without_a_rule_is_refused(void **) {
#if defined(WEIR_DEBUG_CHECKS)
  size_t refused = 0;
  for (size_t state = 0; state < weir::page::page_states; ++state) {
    for (const Rule &rule : weir::page::rules) {
      const auto from = static_cast<PageState>(state);
      assert_int_equal(aborts(from, rule.step), from != rule.from);
      refused += from != rule.from ? 1 : 0;
    }
  }
  assert_int_equal(refused,
                   weir::page::page_states * weir::page::page_steps - weir::page::page_steps);
#else
  (void)aborts;
  skip();  // steps are looked at in checked builds only
#endif
}

void the_page_shows_the_table(void **) {
  const char *source = std::getenv("WEIR_SOURCE_DIR");
  if (source == nullptr) skip();  // run by hand
  std::ifstream file(std::string(source) + "/docs/page-states.md");
  std::stringstream text;
  text << file.rdbuf();
  if (text.str().find(table()) != std::string::npos) return;
  std::fputs(table().c_str(), stdout);
  fail_msg("docs/page-states.md does not have this table");
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_step_does_what_its_rule_says),
      cmocka_unit_test(counts_are_those_of_the_state),
      cmocka_unit_test(a_step_without_a_rule_is_refused),
      cmocka_unit_test(the_page_shows_the_table),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
