// SPDX-License-Identifier: Apache-2.0
//
// The commands on a recorded program, as their user meets them: weir replay does it again, weir frag and the other ways of weir replay take it
// for operations, and each says what it leaves out. The trace is that of docs/trace-format.md.
#include "tests/tools/program.hpp"

#include <nlohmann/json.hpp>

#include <vector>

namespace {

using weir::test::contains;
using weir::test::Outcome;
using weir::test::run_weir;
using weir::test::TemporaryFile;
using weir::test::text_of;
using Json = nlohmann::json;

std::string example() {
  const char *source = std::getenv("WEIR_SOURCE_DIR");
  return std::string(source != nullptr ? source : ".") + "/examples/traces/two_streams.vmt";
}

Json json_of(const std::vector<std::string> &arguments) {
  const Outcome outcome = run_weir(arguments);
  if (outcome.status != 0) fail_msg("%s", outcome.errors.c_str());
  return Json::parse(outcome.output);
}

void replay_does_it_again(void **) {
  const Json report = json_of({"replay", example(), "--json"});
  assert_int_equal(report["version"].get<int>(), 2);
  assert_int_equal(report["acquires"].get<int>(), 2);
  assert_int_equal(report["verify_errors"].get<int>(), 0);
  const Json &pool = report["pools"][0];
  assert_string_equal(pool["name"].get<std::string>().c_str(), "demo");
  for (const char *name : {"promoted_bytes", "zero_filled_bytes", "misses"})
    assert_true(pool["stats"][name] == pool["recorded"][name]);
  const TemporaryFile copy("");
  const Outcome outcome = run_weir({"replay", example(), "--json-out", copy.path()});
  assert_int_equal(outcome.status, 0);
  assert_true(contains(outcome.output, "recorded 8.00 MiB (equal)"));
  assert_true(Json::parse(text_of(copy.path()))["pools"] == report["pools"]);
}

/// Names are any bytes: pages, pictures and reports get text.
void names_may_be_any_bytes(void **) {
  const TemporaryFile trace(
      "#vmt 2\npool 0 0 flags=1 host_budget=1048576 page_size=65536 policy=lru-window name=%ff%00\n"
      "pool_device 0 0 1048576\nstream 0 0 0\nb 0 0 70000 name=%ff%1b[2J%c3%a9</script>\np %80\n"
      "l 0 0 0 =%fe%0a%20x 1\nu 0 w\nr 0 0\nend\n");
  const TemporaryFile page("");
  Outcome outcome = run_weir({"frag", trace.path(), "--html", page.path(), "--json"});
  assert_string_equal(outcome.errors.c_str(), "");
  assert_int_equal(outcome.status, 0);
  assert_true(contains(text_of(page.path()), "??[2J"));
  assert_false(contains(text_of(page.path()), "\xff"));
  outcome =
      run_weir({"frag", trace.path(), "--html", page.path(), "--json", "--device-memory", "100%"});
  assert_int_equal(outcome.status, 0);
  for (const std::vector<std::string> &more : {std::vector<std::string>{},
                                               {"--json"},
                                               {"--as-operations"},
                                               {"--as-operations", "--json"}}) {
    std::vector<std::string> arguments = {"replay", trace.path()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    outcome = run_weir(arguments);
    assert_string_equal(outcome.errors.c_str(), "");
    assert_int_equal(outcome.status, 0);
    assert_false(contains(outcome.output, "\x1b"));
    assert_false(contains(outcome.output, "\xff"));
  }
}

/// The program's clock is not the machine's: each replay is as the last.
void virtual_time_does_it_exactly(void **) {
  const auto run = [] {
    return run_weir({"replay", example(), "--pace", "recorded", "--virtual", "--json"});
  };
  const Outcome first = run(), second = run();
  if (first.status != 0 && contains(first.errors, "sanitizer")) skip();
  assert_string_equal(first.errors.c_str(), "");
  assert_string_equal(first.output.c_str(), second.output.c_str());
  // Two leases of 81 and 83.5 us on two streams.
  assert_true(Json::parse(first.output)["seconds"].get<double>() < 0.01);
}

void others_take_it_for_operations(void **) {
  const Json operations =
      json_of({"replay", example(), "--as-operations", "--device-memory", "100%", "--json"});
  assert_int_equal(operations["operations"].get<int>(), 2);
  assert_true(contains(operations["notes"].dump(), "no operations"));
  const Json placements = json_of({"replay", example(), "--allocator-only", "--json"});
  assert_int_equal(placements["peak_live_bytes"].get<int>(), 16 << 20);
  const TemporaryFile page("");
  const Outcome frag = run_weir({"frag", example(), "--html", page.path(), "--json"});
  assert_int_equal(frag.status, 0);
  assert_int_equal(Json::parse(frag.output)["peak_live_bytes"].get<int>(), 16 << 20);
  assert_true(contains(frag.errors, "3 calls that are no operations"));
  assert_true(contains(text_of(page.path()), "two-streams"));
  const Outcome pool =
      run_weir({"frag", example(), "--html", page.path(), "--json", "--device-memory", "100%"});
  assert_int_equal(pool.status, 0);
}

void a_cut_trace_is_told_once(void **) {
  const std::string whole = text_of(example());
  const TemporaryFile cut(whole.substr(0, whole.find("u 2 w") + 3));
  const Json report = json_of({"replay", cut.path(), "--json"});
  assert_int_equal(report["acquires"].get<int>(), 1);
  assert_int_equal(report["notes"].size(), 1);
  assert_true(contains(report["notes"][0], "it is cut off"));
  const Outcome text = run_weir({"replay", cut.path()});
  const size_t at = text.output.find("last whole event");
  assert_true(at != text.output.npos);
  assert_true(text.output.find("last whole event", at + 1) == text.output.npos);
}

void paces_of_the_other_version_are_refused(void **) {
  const TemporaryFile first("#vmt 1\na 0 4096 x\no 0 1 n\nu 0 w\ne\n");
  assert_true(contains(run_weir({"replay", first.path(), "--pace", "recorded"}).errors,
                       "--pace: 'recorded' is for recorded programs"));
  assert_true(contains(run_weir({"replay", example(), "--pace", "a100"}).errors, "--pace"));
  assert_true(contains(
      run_weir({"frag", first.path(), "--device-memory", "50%", "--pace", "recorded"}).errors,
      "--pace: 'recorded'"));
}

}  // namespace

int main() {
  if (!weir::test::weir_is_there()) return weir::test::skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(replay_does_it_again),
      cmocka_unit_test(names_may_be_any_bytes),
      cmocka_unit_test(virtual_time_does_it_exactly),
      cmocka_unit_test(others_take_it_for_operations),
      cmocka_unit_test(a_cut_trace_is_told_once),
      cmocka_unit_test(paces_of_the_other_version_are_refused),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
