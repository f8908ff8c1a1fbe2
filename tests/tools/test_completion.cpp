// SPDX-License-Identifier: Apache-2.0
//
// Completion scripts: what the real shells make of them. bash reads the script and is asked for the words behind several command lines;
// fish likewise and zsh checks the syntax, where they are installed. What is offered is what --help shows.
// WEIR_BIN_DIR says where the program is; without it the test skips.
#include "tests/tools/program.hpp"
#include "tools/weir/completion.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

namespace {

using weir::test::contains;
using weir::test::error_of;
using weir::test::installed;
using weir::test::Outcome;
using weir::test::run_program;
using weir::test::run_weir;
using weir::test::TemporaryFile;
using weir::tool::CommandTable;
using weir::tool::completion_script;
using weir::tool::value_kind;
using weir::tool::ValueKind;

using Words = std::vector<std::string>;

Words lines_of(const std::string &text) {
  Words lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string script_for(const std::string &shell) {
  const Outcome outcome = run_weir({"completion", shell});
  assert_int_equal(outcome.status, 0);
  assert_string_equal(outcome.errors.c_str(), "");
  return outcome.output;
}

/// What bash offers for the last of the words, by the script as it was written.
Words offered_by(const std::string &script, Words words) {
  static const std::string bash = installed("bash");
  if (bash.empty()) fail_msg("there is no bash here");
  const TemporaryFile file(script);
  Words arguments = {bash,
                     "--noprofile",
                     "--norc",
                     "-c",
                     "source \"$1\" || exit 9; shift\n"
                     "COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMP_LINE=\"$*\"\n"
                     "_weir || exit 8\n"
                     "for word in \"${COMPREPLY[@]}\"; do printf '%s\\n' \"$word\"; done",
                     "bash",
                     file.path(),
                     "weir"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  const Outcome outcome = run_program(arguments);
  assert_string_equal(outcome.errors.c_str(), "");
  assert_int_equal(outcome.status, 0);
  Words offered = lines_of(outcome.output);
  std::sort(offered.begin(), offered.end());
  return offered;
}

void expect(const std::string &script, const Words &words, Words wanted) {
  std::sort(wanted.begin(), wanted.end());
  const Words offered = offered_by(script, words);
  if (offered == wanted) return;
  std::string line, got;
  for (const std::string &word : words) line += " '" + word + "'";
  for (const std::string &word : offered) got += " " + word;
  fail_msg("weir%s:%s", line.c_str(), got.c_str());
}

void bash_completes_words(void **) {
  const std::string script = script_for("bash");
  expect(script, {""},
         {"devices", "topo", "calibrate", "info", "doctor", "exporter", "top", "replay", "frag",
          "codec", "import", "snapshot", "completion"});
  expect(script, {"re"}, {"replay"});
  expect(script, {"co"}, {"codec", "completion"});
  expect(script, {"xyz"}, {});
  expect(script, {"--v"}, {"--version"});
  expect(script, {"topo", "--"}, {"--help", "--xml", "--options", "--svg", "--dot", "--json"});
  expect(script, {"replay", "--policy"}, {"--policy", "--policy-load", "--policy-save"});
  expect(script, {"devices", ""}, {});
  expect(script, {"nonsense", "--"}, {});
  expect(script, {"--help", "to"}, {"top", "topo"});
}

void bash_completes_values(void **) {
  const std::string script = script_for("bash");
  expect(script, {"replay", "--data", ""}, {"pattern", "tensor", "random", "zero"});
  expect(script, {"replay", "--data", "te"}, {"tensor"});
  // As bash cuts "--data=te".
  expect(script, {"replay", "--data", "=", "te"}, {"tensor"});
  expect(script, {"replay", "--data", "="}, {"pattern", "tensor", "random", "zero"});
  expect(script, {"replay", "--data", "=", "tensor", "--see"}, {"--seed"});
  expect(script, {"replay", "--pace", ""}, {"a100", "h100", "recorded"});
  expect(script, {"replay", "--announce", ""}, {"all"});
  expect(script, {"codec", "--codec", "p"}, {"planes"});
  expect(script, {"replay", "--codec", "z"}, {"zstd"});
  expect(script, {"frag", "--color", "t"}, {"tier", "tag"});
  expect(script, {"replay", "--seed", ""}, {});
  expect(script, {"completion", ""}, {"bash", "zsh", "fish"});
  expect(script, {"completion", "f"}, {"fish"});
}

void bash_completes_files(void **) {
  std::string name = (std::filesystem::temp_directory_path() / "weir-names-XXXXXX").string();
  assert_non_null(mkdtemp(name.data()));
  const std::filesystem::path folder = name;
  std::filesystem::create_directory(folder / "a folder");
  std::ofstream(folder / "a trace.vmt") << "x";
  const std::string script = script_for("bash");
  const std::string begun = name + "/a";
  expect(script, {"replay", begun}, {name + "/a folder", name + "/a trace.vmt"});
  expect(script, {"topo", "--xml", begun}, {name + "/a folder", name + "/a trace.vmt"});
  expect(script, {"doctor", "--storage", begun}, {name + "/a folder"});
  expect(script, {"topo", "--options", begun}, {});
  std::filesystem::remove_all(folder);
}

/// The options that stand at the beginning of --help's lines.
std::set<std::string> options_in_help(const std::string &help) {
  std::set<std::string> options;
  for (const std::string &line : lines_of(help)) {
    if (!line.starts_with("  -")) continue;
    std::string names = line.substr(2, line.find(' ', 2) - 2);
    names = names.substr(0, names.find('='));
    std::istringstream stream(names);
    for (std::string part; std::getline(stream, part, ',');) options.insert(part);
  }
  return options;
}

void bash_offers_what_help_shows(void **) {
  const std::string script = script_for("bash");
  const Words commands = offered_by(script, {""});
  assert_true(commands.size() >= 9);
  for (const std::string &command : commands) {
    const Words offered = offered_by(script, {command, "-"});
    const std::set<std::string> shown = options_in_help(run_weir({command, "--help"}).output);
    assert_true(shown.size() >= 2);
    if (std::set<std::string>(offered.begin(), offered.end()) != shown)
      fail_msg("%s --help shows %zu options, and %zu are offered", command.c_str(), shown.size(),
               offered.size());
  }
}

/// A table whose words mean something to a shell.
CommandTable awkward() {
  using What = ValueKind::What;
  const std::string meaning = "it's [a:b] \\ \"c\" $(exit 7) `exit 7` $HOME; # (d)";
  return {{"weir", "", {{{"-h", "--help"}, meaning, {}, false}}},
          {"go",
           meaning,
           {{{"--set"}, meaning, {What::text, {"it's", "a$b", "c:d"}}, false},
            {{"--dir"}, meaning, {What::folder, {}}, true},
            {{}, meaning, {What::file, {}}, true}}}};
}

void checks_syntax(const std::string &shell, const std::string &flag, const std::string &script) {
  const std::string program = installed(shell);
  const TemporaryFile file(script);
  const Outcome outcome = run_program({program, flag, file.path()});
  assert_string_equal(outcome.errors.c_str(), "");
  assert_int_equal(outcome.status, 0);
}

void syntax(void **) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    if (installed(shell).empty()) {
      std::printf("skipped: %s is not installed: its script's syntax is not checked\n",
                  shell.c_str());
      continue;
    }
    checks_syntax(shell, "-n", script_for(shell));
    checks_syntax(shell, "-n", completion_script(shell, awkward()));
  }
}

void awkward_words_are_only_words(void **) {
  const std::string script = completion_script("bash", awkward());
  expect(script, {""}, {"go"});
  expect(script, {"go", "--"}, {"--set", "--dir"});
  expect(script, {"--h"}, {"--help"});
}

/// fish tells what it would offer, with descriptions.
void fish_completes(void **) {
  const std::string fish = installed("fish");
  if (fish.empty()) {
    std::printf("skipped: fish is not installed\n");
    return;
  }
  const auto offered = [&](const std::string &script, const std::string &line) {
    const TemporaryFile file(script);
    const Outcome outcome = run_program(
        {fish, "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", file.path(), line});
    assert_int_equal(outcome.status, 0);
    return outcome.output;
  };
  const std::string script = script_for("fish");
  assert_string_equal(offered(script, "weir repl").c_str(),
                      "replay\trun an allocation and use trace under a memory budget\n");
  assert_true(contains(offered(script, "weir replay --data t"), "tensor"));
  assert_true(contains(offered(script, "weir completion "), "zsh"));
  assert_true(contains(offered(script, "weir topo --"), "--svg"));
  assert_false(contains(offered(script, "weir topo --"), "--pace"));
  assert_true(contains(offered(completion_script("fish", awkward()), "weir g"),
                       "it's [a:b] \\ \"c\" $(exit 7) `exit 7` $HOME; # (d)"));
}

/// zsh can only be asked on a terminal: what it is given is looked at.
void zsh_escapes(void **) {
  const std::string script = completion_script("zsh", awkward());
  assert_true(contains(script, "#compdef weir\n"));
  assert_true(contains(script, "'--set=[it'\\''s \\[a\\:b\\] \\\\ \"c\""));
  assert_true(contains(script, ":value:(it\\'\\''s a\\$b c\\:d)'"));
  assert_true(contains(script, "'*--dir=["));
  assert_true(contains(script, ":folder:_files -/'"));
  assert_true(contains(script, "'*:file:_files'"));
  assert_true(contains(script, "'go:it'\\''s [a\\:b] \\\\ "));
}

void kinds_by_name(void **) {
  using What = ValueKind::What;
  assert_true(value_kind("").what == What::none);
  assert_true(value_kind("FILE").what == What::file);
  assert_true(value_kind("DIR").what == What::folder);
  assert_true(value_kind("TEXT").what == What::text && value_kind("TEXT").words.empty());
  assert_true(value_kind("a100|h100|FLOPS,BYTES").words == Words({"a100", "h100"}));
  assert_true(value_kind("lru-window").words == Words({"lru-window"}));
  assert_true(value_kind("|").words.empty());
}

void wrong_shells_are_named(void **) {
  assert_string_equal(error_of([] { (void)completion_script("tcsh", {}); }).c_str(),
                      "shell: 'tcsh' is not 'bash', 'zsh' or 'fish'");
  assert_string_equal(error_of([] { (void)completion_script("", {}); }).c_str(),
                      "shell: '' is not 'bash', 'zsh' or 'fish'");
  const Outcome outcome = run_weir({"completion"});
  assert_int_equal(outcome.status, 1);
  assert_true(contains(outcome.errors, "no shell given (see weir completion --help)"));
}

}  // namespace

int main() {
  if (!weir::test::weir_is_there()) return weir::test::skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(bash_completes_words),
      cmocka_unit_test(bash_completes_values),
      cmocka_unit_test(bash_completes_files),
      cmocka_unit_test(bash_offers_what_help_shows),
      cmocka_unit_test(syntax),
      cmocka_unit_test(awkward_words_are_only_words),
      cmocka_unit_test(fish_completes),
      cmocka_unit_test(zsh_escapes),
      cmocka_unit_test(kinds_by_name),
      cmocka_unit_test(wrong_shells_are_named),
  };
  return cmocka_run_group_tests_name("weir completion", tests, nullptr, nullptr);
}
