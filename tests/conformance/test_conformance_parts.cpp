// SPDX-License-Identifier: Apache-2.0
//
// The parts of the conformance suite that decide how results are told: waivers, arguments, what a test's process
// says, and the formats. That the suite catches faults of backends is shown by the mutants.

#include "conformance/child.hpp"
#include "conformance/report.hpp"
#include "conformance/settings.hpp"
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
  const std::string junit = junit_text(results, {{"backend", "a<b"}});
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
  for (const Verdict bad : {Verdict::fail, Verdict::crash, Verdict::timeout}) {
    const std::string line = tap_line(3, result_of(bad));
    assert_true(line.starts_with("not ok 3 - ") && !contains(line, "TODO"));
    assert_true(contains(line, std::string("\n# ") + verdict_name(bad) + ": "));
  }
  // A text of several lines never ends the comment.
  assert_true(contains(waived, "\n# \x01z\n"));
}

void levels_are_told_from_needs(void **) {
  assert_string_equal(level_of(always()).c_str(), "required");
  assert_string_equal(level_of(needs(WEIR_CAP_VMM | WEIR_CAP_PEER, 2)).c_str(),
                      "VMM+PEER, 2 devices");
  assert_string_equal(level_of(lacks(WEIR_CAP_MULTI_MAP, WEIR_CAP_VMM)).c_str(),
                      "VMM, without MULTI_MAP");
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
      cmocka_unit_test(seeds_differ_by_requirement_and_by_seed),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
