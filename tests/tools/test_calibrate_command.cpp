// SPDX-License-Identifier: Apache-2.0
//
// `weir calibrate` as its user meets it: the table, where it was saved, that `weir topo` then knows it, and one sentence for
// what is wrong. WEIR_BIN_DIR says where the program is; without it the test skips.
#include "tests/support/cache_folder.hpp"
#include "tests/tools/program.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace {

using weir::test::CacheFolder;
using weir::test::contains;
using weir::test::Outcome;
using weir::test::put;
using weir::test::TemporaryFile;

constexpr const char *machine =
    "host.devices=2;host.memory=16M;host.link_slowdown=1;"
    "host.links=h-0:pcie:200M,h-1:pcie:400M,0-1:nvlink:800M";

void expect(const Outcome &outcome, const std::vector<std::string> &parts) {
  if (outcome.status != 0) fail_msg("%s", outcome.errors.c_str());
  assert_string_equal(outcome.errors.c_str(), "");
  for (const std::string &part : parts)
    if (!contains(outcome.output, part))
      fail_msg("no \"%s\" in:\n%s", part.c_str(), outcome.output.c_str());
}

void a_table_of_links(void **) {
  const CacheFolder folder;
  expect(weir::test::run_weir({"calibrate", "--options", machine}),
         {"from  to    kind", "D0    host  pcie                      0.200  backend",
          "host  D1    pcie                      0.400  backend",
          "D1    D0    nvlink                    0.800  backend", "6 links measured in ",
          "; saved in " + folder.path()});
  assert_int_equal(folder.files().size(), 1);
  expect(weir::test::run_weir({"topo", "--options", machine}), {"GB/s one way (measured)"});
  expect(weir::test::run_weir({"topo", "--options", std::string(machine) + ";topology.cache=0"}),
         {"0.80 GB/s one way (backend)"});
}

void nothing_is_saved_if_so_wished(void **) {
  const CacheFolder folder;
  const Outcome outcome = weir::test::run_weir({"calibrate", "--no-save", "--options", machine});
  expect(outcome, {"6 links measured in "});
  assert_false(contains(outcome.output, "saved"));
  expect(
      weir::test::run_weir({"calibrate", "--options", std::string(machine) + ";topology.cache=0"}),
      {"not saved: this context has no cache"});
  assert_int_equal(folder.files().size(), 0);
}

void as_json(void **) {
  const CacheFolder folder;
  const Outcome outcome =
      weir::test::run_weir({"calibrate", "--json", "--seconds", "3", "--options", machine});
  expect(outcome, {});
  const auto json = nlohmann::json::parse(outcome.output);
  assert_int_equal(json["measured"].get<int>(), 6);
  assert_int_equal(json["saved"].get<int>(), 1);
  assert_true(json["folder"] == folder.path());
  assert_int_equal(json["links"].size(), 6);
  for (const auto &link : json["links"]) {
    const uint64_t reported = link["reported_bandwidth"], measured = link["measured_bandwidth"];
    assert_true(measured > 0 && measured <= reported + reported / 1000);
    assert_true(link["latency_ns"] > 0 && link["reported_source"] == "backend");
  }
}

void what_is_wrong_is_one_sentence(void **) {
  const CacheFolder folder;
  const auto refused = [](const std::vector<std::string> &arguments, const std::string &word) {
    const Outcome outcome = weir::test::run_weir(arguments);
    assert_int_equal(outcome.status, 1);
    if (!contains(outcome.errors, word))
      fail_msg("\"%s\" does not say %s", outcome.errors.c_str(), word.c_str());
    assert_int_equal(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1);
    return outcome;
  };
  for (const char *seconds : {"0", "-1", "nan", "1e9"})
    (void)refused({"calibrate", "--seconds", seconds}, "--seconds");
  (void)refused({"calibrate", "--options", "topology.cache=2"}, "topology.cache=2");
  const std::string file = folder.path() + "/file";
  put(file, "");
  CacheFolder::use(file);
  const Outcome outcome = refused({"calibrate", "--options", machine}, file);
  assert_true(contains(outcome.output, "6 links measured"));  // they are shown all the same
}

}  // namespace

int main() {
  if (!weir::test::weir_is_there()) return weir::test::skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_table_of_links),
      cmocka_unit_test(nothing_is_saved_if_so_wished),
      cmocka_unit_test(as_json),
      cmocka_unit_test(what_is_wrong_is_one_sentence),
  };
  return cmocka_run_group_tests_name("weir calibrate", tests, nullptr, nullptr);
}
