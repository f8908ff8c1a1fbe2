// SPDX-License-Identifier: Apache-2.0
//
// The weir command without a command, and with one that there is not: exit status 2, and what would have been right.
// WEIR_BIN_DIR says where the program is; without it the test skips.
#include "tests/tools/program.hpp"
#include "tools/weir/usage.hpp"

#include <algorithm>

namespace {

using weir::test::contains;
using weir::test::Outcome;
using weir::test::run_weir;
using weir::tool::nearest_command;

const std::vector<std::string_view> all = {"devices", "topo", "calibrate", "info",
                                           "replay",  "frag", "codec"};

void help_without_a_command(void **) {
  const Outcome alone = run_weir({}), help = run_weir({"--help"});
  assert_int_equal(alone.status, 2);
  assert_string_equal(alone.output.c_str(), "");
  assert_int_equal(help.status, 0);
  assert_string_equal(alone.errors.c_str(), help.output.c_str());
  for (const std::string_view command : all) assert_true(contains(help.output, command));
}

void refused(const std::vector<std::string> &arguments, const std::vector<std::string> &words) {
  const Outcome outcome = run_weir(arguments);
  assert_int_equal(outcome.status, 2);
  assert_string_equal(outcome.output.c_str(), "");
  assert_int_equal(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1);
  for (const std::string &word : words)
    if (!contains(outcome.errors, word))
      fail_msg("\"%s\" does not say %s", outcome.errors.c_str(), word.c_str());
}

void wrong_commands_are_named(void **) {
  const std::string list = "devices, topo, calibrate, info, replay, frag and codec";
  refused({"tpoo"}, {"'tpoo'; did you mean 'topo'?", list});
  refused({"device", "--json"}, {"'device'; did you mean 'devices'?", list});
  refused({"list"}, {"there is no command 'list'. ", list});
  refused({""}, {"there is no command ''. ", list});
  refused({"examples/a.vmt", "replay"}, {"'examples/a.vmt'", list});
  refused({"--json"}, {"there is no option '--json'", "weir --help"});
}

/// What a command does not understand is that command's to tell, and no new status.
void wrong_options_stay_the_commands(void **) {
  const Outcome outcome = run_weir({"topo", "--jsn"});
  assert_int_equal(outcome.status, 1);
  assert_string_equal(
      outcome.errors.c_str(),
      "weir: weir topo has no option '--jsn'; did you mean '--json'? (see weir topo "
      "--help)\n");
}

/// The values that stand beside a wrong option are not called unexpected.
void wrong_options_are_named_alone(void **) {
  const Outcome apart = run_weir({"replay", "--devcie-memory", "3", "absent.vmt"});
  const Outcome joined = run_weir({"replay", "--devcie-memory=3", "absent.vmt"});
  assert_int_equal(apart.status, 1);
  assert_string_equal(apart.errors.c_str(),
                      "weir: weir replay has no option '--devcie-memory'; did you mean "
                      "'--device-memory'? (see weir replay --help)\n");
  assert_string_equal(joined.errors.c_str(), apart.errors.c_str());
  const Outcome far = run_weir({"topo", "--speed"});
  assert_string_equal(far.errors.c_str(),
                      "weir: weir topo has no option '--speed' (see weir topo --help)\n");
  const Outcome argument = run_weir({"topo", "here"});
  assert_int_equal(argument.status, 1);
  assert_true(contains(argument.errors, "here") && !contains(argument.errors, "no option"));
}

void the_nearest(void **) {
  const auto expect = [](std::string_view word, std::string_view command) {
    if (nearest_command(word, all) != command)
      fail_msg("%s: %s", std::string(word).c_str(),
               std::string(nearest_command(word, all)).c_str());
  };
  expect("dev", "devices");
  expect("topology", "");
  expect("tops", "topo");
  expect("relpay", "replay");
  expect("rply", "replay");
  expect("fra", "frag");
  expect("inf0", "info");
  expect("TOPO", "");
  expect("c", "");  // calibrate or codec
  expect("code", "codec");
  expect("", "");
  expect(std::string(100000, 'a'), "");
  assert_true(nearest_command("topo", {}).empty());
}

}  // namespace

int main() {
  if (!weir::test::weir_is_there()) return weir::test::skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(help_without_a_command),
      cmocka_unit_test(wrong_commands_are_named),
      cmocka_unit_test(wrong_options_stay_the_commands),
      cmocka_unit_test(wrong_options_are_named_alone),
      cmocka_unit_test(the_nearest),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
