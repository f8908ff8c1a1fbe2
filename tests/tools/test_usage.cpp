// SPDX-License-Identifier: Apache-2.0
//
// The weir command without a command, and with commands, options and values that there are not: the exit status, and what would have
// been right.
// WEIR_BIN_DIR says where the program is; without it the test skips.
#include "tests/tools/program.hpp"
#include "tools/weir/usage.hpp"

#include <algorithm>

namespace {

using weir::test::contains;
using weir::test::Outcome;
using weir::test::run_weir;
using weir::test::text_of;
using weir::tool::Choices;
using weir::tool::nearest;

const Choices all = {"devices",  "topo",   "calibrate", "info",  "doctor",
                     "exporter", "replay", "frag",      "codec", "completion"};

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
  const std::string list =
      "devices, topo, calibrate, info, doctor, exporter, top, replay, frag, codec, import, "
      "snapshot and "
      "completion";
  refused({"tpoo"}, {"'tpoo'; did you mean 'topo'?", list});
  refused({"device", "--json"}, {"'device'; did you mean 'devices'?", list});
  refused({"list"}, {"there is no command 'list'. ", list});
  refused({""}, {"there is no command ''. ", list});
  refused({"examples/a.vmt", "replay"}, {"'examples/a.vmt'", list});
  // Two are as near.
  refused({"tpo"}, {"'tpo'; did you mean 'topo' or 'top'?", list});
  refused({"doctro"}, {"'doctro'; did you mean 'doctor'?", list});
  refused({"--json"}, {"weir has no option '--json' (see weir --help)"});
  refused({"--verison"}, {"weir has no option '--verison'; did you mean '--version'?"});
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

/// Of an option that takes one of a set: before anything is done, and with the whole set.
void wrong_values_are_named(void **) {
  const auto expect = [](const std::vector<std::string> &arguments, const std::string &sentence) {
    const Outcome outcome = run_weir(arguments);
    assert_int_equal(outcome.status, 1);
    assert_string_equal(outcome.output.c_str(), "");
    assert_string_equal(outcome.errors.c_str(), ("weir: " + sentence + "\n").c_str());
  };
  expect({"replay", "absent.vmt", "--data", "tesnor"},
         "--data: 'tesnor' is not 'pattern', 'tensor', 'random' or 'zero'; did you mean 'tensor'?");
  expect({"replay", "absent.vmt", "--data", "blue"},
         "--data: 'blue' is not 'pattern', 'tensor', 'random' or 'zero'");
  expect({"replay", "absent.vmt", "--policy", "lru"},
         "--policy: 'lru' is not 'auto' or 'lru-window'; did you mean 'lru-window'?");
  expect({"replay", "absent.vmt", "--storage", ".", "--codec", "zst"},
         "--codec: 'zst' is not 'auto', 'lz4', 'zstd' or 'raw'; did you mean 'zstd'?");
  expect({"replay", "absent.vmt", "--pace", "h10"},
         "--pace: 'h10' is not 'a100', 'h100' or 'recorded', nor "
         "FLOPS,BYTES_PER_S,LINK_BYTES_PER_S; did you "
         "mean 'h100'?");
  expect({"replay", "absent.vmt", "--announce", "alll"},
         "--announce: 'alll' is not 'all', nor a number; did you mean 'all'?");
  expect({"replay", "absent.vmt", "--allocator-only", "--placement", "pytroch"},
         "--placement: 'pytroch' is not 'multi-map', 'vmm', 'segments' or 'pytorch'; did you mean "
         "'pytorch'?");
  expect({"frag", "absent.vmt", "--color", "tire"},
         "--colour: 'tire' is not 'tier', 'tag', 'size' or 'age'; did you mean 'tier'?");
  expect({"codec", "absent", "--element", "bf61"},
         "--element: 'bf61' is not 'f16', 'bf16', 'f32' or 'f64'; did you mean 'bf16'?");
  expect({"completion", "fihs"},
         "shell: 'fihs' is not 'bash', 'zsh' or 'fish'; did you mean 'fish'?");
}

/// A backend's name is looked for among those that there are.
void wrong_backends_are_named(void **) {
  const weir::test::TemporaryFile trace(
      text_of(std::string(std::getenv("WEIR_SOURCE_DIR")) + "/examples/traces/two_layers.vmt"));
  const Outcome outcome = run_weir({"replay", trace.path(), "--backend", "hots"});
  assert_int_equal(outcome.status, 1);
  assert_true(contains(outcome.errors, "--backend: 'hots' is not 'host'"));
  assert_true(contains(outcome.errors, "; did you mean 'host'?"));
}

void the_nearest(void **) {
  const auto expect = [](std::string_view word, std::string_view commands) {
    std::string near;
    for (const std::string_view each : nearest(word, all))
      near.append(near.empty() ? "" : " ").append(each);
    if (near != commands) fail_msg("%s: %s", std::string(word).c_str(), near.c_str());
  };
  expect("dev", "devices");
  expect("topology", "");
  expect("tops", "topo");
  expect("relpay", "replay");
  expect("rply", "replay");
  expect("fra", "frag");
  expect("inf0", "info");
  expect("TOPO", "");
  expect("c", "calibrate codec completion");
  expect("code", "codec");
  expect("", "");
  expect(std::string(100000, 'a'), "");
  expect("---", "");
  expect("compeltoin", "completion");  // two swaps
  expect("cmpltn", "");                // four of six letters
  expect("calbrt", "");                // three of six
  expect("calibrat", "calibrate");
  expect("clbrate", "calibrate");  // two of seven
  assert_true(nearest("topo", {}).empty());
  // Hyphens in front do not count as letters that are right.
  assert_true(nearest("--ab", {"--cd"}).empty());
  assert_true(nearest("-x", {"--svg", "--xml"}).empty());
}

/// An option's name may be cut short, and of two as near as each other both are told.
void the_nearest_option(void **) {
  const Choices options = {"--storage", "--storage-size", "--steps", "--seed"};
  assert_true(nearest("--storag", options) == Choices({"--storage", "--storage-size"}));
  assert_true(nearest("--storage-", options) == Choices({"--storage-size"}));
  assert_true(nearest("--stpes", options) == Choices({"--steps"}));
  assert_true(nearest("--speed", options) == Choices({"--seed"}));
}

}  // namespace

int main() {
  if (!weir::test::weir_is_there()) return weir::test::skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(help_without_a_command),
      cmocka_unit_test(wrong_commands_are_named),
      cmocka_unit_test(wrong_options_stay_the_commands),
      cmocka_unit_test(wrong_options_are_named_alone),
      cmocka_unit_test(wrong_values_are_named),
      cmocka_unit_test(wrong_backends_are_named),
      cmocka_unit_test(the_nearest),
      cmocka_unit_test(the_nearest_option),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
