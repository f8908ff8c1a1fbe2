// SPDX-License-Identifier: Apache-2.0
//
// The parts of the conformance suite that decide how results are told: waivers, filters, arguments, what a test's process
// says, and the formats. How the whole program tells them is test_conformance_program.py's; that the suite catches faults of
// backends is shown by the mutants.

#include "conformance/child.hpp"
#include "conformance/filter.hpp"
#include "conformance/report.hpp"
#include "conformance/settings.hpp"
#include "conformance/shapes.hpp"
#include "conformance/test.hpp"
#include "conformance/waivers.hpp"
#include "tests/support/cmocka.hpp"

#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace weir::conformance;

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

void ids_are_unique_and_of_known_groups(void **) {
  std::set<std::string> ids;
  for (const Requirement &each : requirements()) {
    assert_true(ids.insert(each.id).second);
    assert_string_not_equal(group_of(each).c_str(), "unknown group");
    const std::string sentence = each.sentence;
    assert_int_equal(sentence.back(), '.');
    assert_null(std::strpbrk(each.sentence, "|#\n"));
  }
  assert_true(ids.size() > 200);
}

void waivers_are_read(void **) {
  std::vector<Waiver> waivers;
  const std::string text =
      "# a comment\n\n cuda | NVIDIA * | VM-00[67] | #12 | 2026-12-31 | parts are not mapped\n";
  assert_string_equal(read_waivers(text, &waivers).c_str(), "");
  assert_int_equal(waivers.size(), 1);
  assert_int_equal(waivers[0].line, 3);
  assert_string_equal(waivers[0].issue.c_str(), "#12");
  const auto found = [&](const char *backend, const char *device, const char *test,
                         const char *day) {
    return find_waiver(waivers, backend, device, test, day) != nullptr;
  };
  assert_true(found("cuda", "NVIDIA H200", "VM-006", "2026-12-31"));
  assert_false(found("cuda", "NVIDIA H200", "VM-006", "2027-01-01"));
  assert_false(found("cuda", "NVIDIA H200", "VM-008", "2026-12-31"));
  assert_false(found("hip", "NVIDIA H200", "VM-006", "2026-12-31"));
  assert_false(found("cuda", "Tesla", "VM-006", "2026-12-31"));
  assert_false(expired(waivers[0], "2026-12-31"));
  assert_true(expired(waivers[0], "2027-01-01"));
}

void bad_waivers_are_named_by_line(void **) {
  const std::vector<std::pair<std::string, std::string>> bad{
      {"# one\na | b | c | d | 2026-01-01\n", "line 2: 6 fields"},
      {"a | b | c | d | 2026-01-01 | e | f\n", "line 1: more than 6"},
      {"a | b | c | d | tomorrow | e\n", "\"tomorrow\" is no date"},
      {"a | b | c | d | 2027-02-31 | e\n", "\"2027-02-31\" is no date"},
      {"a | b | c | d | 2027-99-01 | e\n", "\"2027-99-01\" is no date"},
      {"a | b |  | d | 2026-01-01 | e\n", "line 1: a field is empty"}};
  for (const auto &[text, why] : bad) {
    std::vector<Waiver> waivers;
    assert_true(contains(read_waivers(text, &waivers), why));
  }
}

void reports_of_processes_are_read_back(void **) {
  const Report said{"fail", WEIR_CAP_VMM, "first line\nsecond line"};
  Report heard;
  assert_true(read_report(write_report(said), &heard));
  assert_string_equal(heard.verdict.c_str(), "fail");
  assert_string_equal(heard.message.c_str(), "first line\nsecond line");
  assert_true(heard.capabilities == WEIR_CAP_VMM);
  assert_true(read_report(write_report({"empty", 0, "nothing there"}), &heard));
  assert_string_equal(heard.verdict.c_str(), "empty");
  assert_true(read_report(write_report({"pass", 0, ""}), &heard));
  assert_string_equal(heard.message.c_str(), "");
  // What is cut off, or is no verdict, is none.
  for (const char *bad :
       {"", "pass", "pass\n", "pass\n1", "pass\n1\n", "pass\n1\ntext", "perhaps\n1\n\n"})
    assert_false(read_report(bad, &heard));
}

void arguments_are_checked(void **) {
  const auto why = [](const std::vector<std::string> &arguments) {
    Settings settings;
    return read_arguments(arguments, &settings);
  };
  assert_string_equal(why({"a.so", "--device", "1", "--seed", "9", "--options", "a=b;c=d"}).c_str(),
                      "");
  assert_string_equal(why({"--list"}).c_str(), "");
  assert_true(contains(why({}), "no backend"));
  assert_true(contains(why({"a.so", "b.so"}), "b.so"));
  assert_true(contains(why({"a.so", "--device"}), "--device needs a value"));
  assert_true(contains(why({"a.so", "--device", "x"}), "--device x"));
  assert_true(contains(why({"a.so", "--device", "4294967296"}), "4294967296"));
  assert_true(contains(why({"a.so", "--jobs", "0"}), "--jobs 0"));
  assert_true(contains(why({"a.so", "--what"}), "--what"));
  assert_string_equal(why({"a.so", "--all-devices"}).c_str(), "");
  assert_true(contains(why({"a.so", "--device", "0", "--all-devices"}),
                       "--all-devices and --device exclude each other"));
  assert_true(contains(why({"a.so", "--all-devices", "--run-one", "VM-001"}),
                       "--all-devices and --run-one exclude each other"));
}

void filters_name_what_matches_nothing(void **) {
  const auto why = [](const char *text) { return Filter().read(text); };
  assert_string_equal(why("").c_str(), "");
  assert_string_equal(why("VM-*,CP-001").c_str(), "");
  assert_string_equal(why("VM-*,VX-*,-CP-999").c_str(),
                      "--filter: VX-* matches no requirement; --filter: -CP-999 matches no "
                      "requirement");
  assert_string_equal(why("VM-001,").c_str(), "");
  assert_true(contains(why(",VM-001"), "--filter:  matches no requirement"));
  assert_string_equal(why("VM-001,-VM-*").c_str(), "--filter: VM-001,-VM-* leaves no requirement");
  const auto chooses = [](const char *text, const char *id) {
    Filter filter;
    (void)filter.read(text);
    return filter.chooses(id);
  };
  assert_true(chooses("", "VM-001"));
  assert_true(chooses("VM-*,-VM-002", "VM-001"));
  assert_false(chooses("VM-*,-VM-002", "VM-002"));
  assert_false(chooses("VM-*,-VM-002", "CP-001"));
  // Only what is left out: all the others.
  assert_true(chooses("-FA-*", "CP-001"));
  assert_false(chooses("-FA-*", "FA-001"));
  assert_true(matches_a_requirement("VM-00?"));
  assert_false(matches_a_requirement("vm-001"));
}

void the_same_again_is_a_command_line(void **) {
  Settings settings;
  settings.program = "bin/weir-conformance";
  settings.backend = "./a.so";
  assert_string_equal(again(settings, "VM-013").c_str(),
                      "bin/weir-conformance ./a.so --device 0 --options \"\" --seed 1 --run-one "
                      "VM-013");
  settings.backend = "/my backends/a.so";
  settings.options = "memory=64M;devices=2";
  settings.device = 1;
  settings.seed = 9;
  settings.allow_oom = true;
  assert_string_equal(again(settings, "VM-013").c_str(),
                      "bin/weir-conformance \"/my backends/a.so\" --device 1 --options "
                      "\"memory=64M;devices=2\" --seed 9 --allow-oom --run-one VM-013");
  settings.options = "name=it's $HOME";
  assert_true(contains(again(settings, "VM-013"), " --options 'name=it'\\''s $HOME' "));
}

void a_child_is_told_what_its_parent_was(void **) {
  Settings settings, child;
  settings.backend = "/x/a.so";
  settings.options = "memory=64M;devices=2";
  settings.device = 1;
  settings.seed = 77;
  settings.allow_oom = true;
  const auto arguments = arguments_for(settings, Settings::Role::one, "VM-001");
  assert_string_equal(read_arguments(arguments, &child).c_str(), "");
  assert_string_equal(child.options.c_str(), settings.options.c_str());
  assert_int_equal(child.device, 1);
  assert_true(child.seed == 77 && child.allow_oom && child.role == Settings::Role::one);
  assert_string_equal(child.subject.c_str(), "VM-001");
}

Result result_of(Verdict verdict) {
  Result result;
  result.requirement = &requirements().front();
  result.verdict = verdict;
  result.message = "got \"x\" <y> & \n\x01z";
  result.waiver = "#12: known";
  result.was = Verdict::crash;
  return result;
}

void formats_are_escaped(void **) {
  const std::vector<Result> results{result_of(Verdict::fail)};
  const std::string line = json_line(results[0]);
  assert_true(contains(line, "got \\\"x\\\" <y> & \\u000a\\u0001z"));
  assert_true(line.find('\n') == line.size() - 1);
  Settings settings;
  settings.options = "a=\"b\"";
  const std::string suite = junit_suite(results, {{"backend", "a<b"}}, settings);
  const std::string junit = junit_text({suite}, false);
  assert_true(contains(junit, "<property name=\"options\" value=\"a=&quot;b&quot;\"/>"));
  assert_true(contains(junit, "<property name=\"seed\" value=\"1\"/>"));
  assert_false(contains(junit, "<testsuites>"));
  assert_true(contains(junit_text({suite, suite}, true), "?>\n<testsuites>\n<testsuite "));
  assert_true(contains(junit, "got &quot;x&quot; &lt;y&gt; &amp; &#10;?z"));
  assert_true(contains(junit, "a&lt;b") && contains(junit, "failures=\"1\""));
}

void verdicts_are_told_as_tap_has_them(void **) {
  assert_true(tap_line(3, result_of(Verdict::pass)).starts_with("ok 3 - "));
  assert_true(contains(tap_line(3, result_of(Verdict::not_supported)), " # SKIP not-supported: "));
  const std::string waived = tap_line(3, result_of(Verdict::waived));
  assert_true(waived.starts_with("not ok 3 - ") &&
              contains(waived, " # TODO waived: #12: known\n"));
  assert_true(contains(waived, "# crash: got"));
  const std::string empty = tap_line(3, result_of(Verdict::empty));
  assert_true(empty.starts_with("ok 3 - ") && contains(empty, " # SKIP empty: got "));
  assert_true(empty.find('\n') == empty.size() - 1);
  Result advised = result_of(Verdict::advised);
  advised.output = "printed";
  advised.again = "do it again";
  const std::string told = tap_line(3, advised);
  assert_true(told.starts_with("not ok 3 - ") && contains(told, " # TODO advised: got "));
  assert_true(contains(told, "\n# advised: got ") && contains(told, "\n# printed\n"));
  assert_true(contains(told, "\n# again: do it again\n"));
  for (const Verdict bad : {Verdict::fail, Verdict::crash, Verdict::timeout}) {
    assert_true(is_bad(bad));
    const std::string line = tap_line(3, result_of(bad));
    assert_true(line.starts_with("not ok 3 - ") && !contains(line, "TODO"));
    assert_true(contains(line, std::string("\n# ") + verdict_name(bad) + ": "));
  }
  // A text of several lines never ends the comment.
  assert_true(contains(waived, "\n# \x01z\n"));
}

void only_three_verdicts_fail_a_run(void **) {
  for (const Verdict verdict : all_verdicts) {
    const bool bad =
        verdict == Verdict::fail || verdict == Verdict::crash || verdict == Verdict::timeout;
    assert_true(is_bad(verdict) == bad);
  }
}

/// One result a verdict, of requirements one after the other.
std::vector<Result> one_of_each() {
  std::vector<Result> results;
  for (const Verdict verdict : all_verdicts) {
    Result result = result_of(verdict);
    result.requirement = &requirements()[results.size()];
    result.duration_ns = (results.size() + 1) * 1'000'000'000;
    result.output = "printed by it\n";
    result.again = "do it again";
    results.push_back(result);
  }
  return results;
}

void all_verdicts_are_counted_and_listed(void **) {
  std::vector<Result> results = one_of_each();
  assert_string_equal(summary(results).c_str(),
                      "1 pass, 1 fail, 1 not-supported, 1 waived, 1 crash, 1 timeout, 1 empty, 1 "
                      "advised but not kept");
  const auto id = [&](Verdict verdict) {
    return std::string(results[static_cast<size_t>(verdict)].requirement->id);
  };
  assert_string_equal(
      ending(results).c_str(),
      ("# failed: " + id(Verdict::fail) + "\n# crashed: " + id(Verdict::crash) +
       "\n# timed out: " + id(Verdict::timeout) + "\n# waived: " + id(Verdict::waived) +
       "\n# empty: " + id(Verdict::empty) + "\n# advised, not kept: " + id(Verdict::advised) +
       "\n# slowest: " + id(Verdict::advised) + " 8.000 s, " + id(Verdict::empty) + " 7.000 s, " +
       id(Verdict::timeout) + " 6.000 s, " + id(Verdict::crash) + " 5.000 s, " +
       id(Verdict::waived) + " 4.000 s\n")
          .c_str());
  const std::string submission = submission_text(results, {}, Settings());
  for (const char *count : {"\"count_empty\": 1", "\"count_advised\": 1", "\"count_crash\": 1"})
    assert_true(contains(submission, count));
  const std::string junit = junit_suite(results, {}, Settings());
  assert_true(contains(junit, "tests=\"8\" failures=\"1\" errors=\"2\" skipped=\"4\""));
  assert_true(contains(junit, "<skipped message=\"empty: got ") &&
              contains(junit, "<skipped message=\"advised: got "));
  assert_true(contains(junit,
                       "<failure type=\"fail\" message=\"got &quot;x&quot; &lt;y&gt; &amp; "
                       "&#10;?z\"/><system-out>printed by it&#10;again: do it "
                       "again&#10;</system-out></testcase>"));
  results.resize(2);
  results[1].verdict = Verdict::fail;
  assert_true(contains(ending({results[1], results[1]}),
                       "# failed: " + id(Verdict::fail) + ", " + id(Verdict::fail) + "\n"));
}

void requirements_of_order_that_applied_are_counted(void **) {
  std::vector<Result> results;
  for (const char *id : {"RT-001", "FE-003", "FE-004", "FE-019"}) {
    Result result = result_of(Verdict::pass);
    result.requirement = find_requirement(id);
    results.push_back(result);
  }
  results[3].verdict = Verdict::not_supported;
  assert_true(
      contains(ending(results), "# order: 2 of 3 requirements that hold a stream up applied\n"));
  results[1].verdict = Verdict::fail;  // it applied all the same
  results[2].verdict = Verdict::empty;
  assert_int_equal(count_order(results).applied, 1);
  assert_int_equal(count_order(results).planned, 3);
}

void results_of_several_devices_tell_which(void **) {
  Result result = result_of(Verdict::fail);
  result.device = 1;
  assert_true(contains(json_line(result), "\"device_index\": 1"));
  const std::string id = result.requirement->id;
  assert_true(contains(tap_line(3, result), id + " The"));
  result.tells_device = true;
  assert_true(contains(tap_line(3, result), "not ok 3 - " + id + " [1] The"));
  assert_true(contains(ending({result}), "# failed: " + id + " [1]\n"));
  const std::string junit = junit_suite({result}, {{"backend", "b"}}, Settings());
  assert_true(contains(junit, "<testsuite name=\"weir-conformance b [1]\""));
  assert_true(contains(junit, " classname=\"runtime [1]\" name=\"" + id + " The"));
}

void how_a_run_was_asked_for_is_told(void **) {
  Settings settings;
  settings.options = "a=b;c=d";
  settings.filter = "VM-*";
  settings.seed = 7;
  settings.device = 1;
  settings.jobs = 3;
  settings.timeout_s = 9;
  assert_string_equal(
      settings_lines(settings).c_str(),
      "# device-index: 1\n# options: a=b;c=d\n# filter: VM-*\n# seed: 7\n# timeout: "
      "9\n# jobs: 3\n# soak: 0\n# allow-oom: no\n");
}

void nothing_is_no_failure_and_counts_as_the_last_word(void **) {
  const auto after = [](const Outcome &first) -> Outcome {
    TRY(first);
    return {};
  };
  const auto found = [](const Outcome &first) -> Outcome {
    FIND(first);
    return {};
  };
  const Outcome nothing = Test::nothing("why");
  assert_true(nothing.passed() && nothing.empty() && nothing.text() == "why");
  assert_true(after(nothing).passed() && !after(nothing).empty());
  assert_true(found(nothing).empty());
  assert_false(found(Outcome::failure("x")).passed());
  assert_false(Outcome().empty() || Outcome::failure("x").empty());
  assert_true(in_threads(2, [](uint32_t) { return Test::nothing("why"); }).empty());
  assert_false(in_threads(2, [](uint32_t index) {
                 return index == 0 ? Test::nothing("why") : Outcome();
               }).empty());
  assert_false(in_threads(2, [](uint32_t index) {
                 return index == 0 ? Test::nothing("why") : Outcome::failure("x");
               }).passed());
}

void levels_are_told_from_needs(void **) {
  assert_string_equal(level_of(always()).c_str(), "required");
  assert_string_equal(level_of(needs(WEIR_CAP_VMM | WEIR_CAP_PEER, 2)).c_str(),
                      "VMM+PEER, 2 devices");
  assert_string_equal(level_of(lacks(WEIR_CAP_MULTI_MAP, WEIR_CAP_VMM)).c_str(),
                      "VMM, without MULTI_MAP");
  assert_string_equal(level_of(advised()).c_str(), "advised");
  assert_string_equal(level_of(advised(needs(WEIR_CAP_VMM))).c_str(), "VMM, advised");
  assert_true(alone(advised()).advised && advised(alone()).alone);
}

void seeds_differ_by_requirement_and_by_seed(void **) {
  assert_true(seed_for(1, "VM-001") == seed_for(1, "VM-001"));
  assert_true(seed_for(1, "VM-001") != seed_for(1, "VM-002"));
  assert_true(seed_for(1, "VM-001") != seed_for(2, "VM-001"));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(ids_are_unique_and_of_known_groups),
      cmocka_unit_test(waivers_are_read),
      cmocka_unit_test(bad_waivers_are_named_by_line),
      cmocka_unit_test(reports_of_processes_are_read_back),
      cmocka_unit_test(arguments_are_checked),
      cmocka_unit_test(a_child_is_told_what_its_parent_was),
      cmocka_unit_test(formats_are_escaped),
      cmocka_unit_test(verdicts_are_told_as_tap_has_them),
      cmocka_unit_test(levels_are_told_from_needs),
      cmocka_unit_test(filters_name_what_matches_nothing),
      cmocka_unit_test(the_same_again_is_a_command_line),
      cmocka_unit_test(only_three_verdicts_fail_a_run),
      cmocka_unit_test(all_verdicts_are_counted_and_listed),
      cmocka_unit_test(requirements_of_order_that_applied_are_counted),
      cmocka_unit_test(results_of_several_devices_tell_which),
      cmocka_unit_test(how_a_run_was_asked_for_is_told),
      cmocka_unit_test(nothing_is_no_failure_and_counts_as_the_last_word),
      cmocka_unit_test(seeds_differ_by_requirement_and_by_seed),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
