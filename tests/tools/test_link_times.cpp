// SPDX-License-Identifier: Apache-2.0
//
// How long a link was busy: worked examples, against counting nanosecond by nanosecond, and what a context of the host backend tells.
#include "tests/tools/program.hpp"

#include "tools/weir/error.hpp"
#include "tools/weir/link_times.hpp"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>

namespace {

using namespace weir::tool;

bool is(double seconds, uint64_t nanoseconds) {
  return std::abs(seconds - static_cast<double>(nanoseconds) * 1e-9) < 1e-12;
}

void counts_what_overlaps(void **) {
  // Out of order, side by side, one within another, and some of it before and after the time that counts.
  const Times up{{50, 60}, {10, 20}, {20, 30}, {52, 55}, {95, 200}}, down{{0, 15}, {28, 53}};
  const LinkBusy busy = link_busy(up, down, 5, 100);
  assert_true(is(busy.up, 20 + 10 + 5));
  assert_true(is(busy.down, 10 + 25));
  assert_true(is(busy.both, 5 + 2 + 3));
  assert_true(is(link_busy(up, {}, 5, 100).both, 0));
  assert_true(is(link_busy(up, up, 5, 100).both, 35));
  assert_true(is(link_busy(up, down, 300, 400).up, 0));
}

void counts_as_one_would_by_hand(void **) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    bool busy[2][64] = {};
    Times times[2];
    for (int way = 0; way < 2; ++way) {
      for (uint64_t n = random() % 6; n > 0; --n) {
        const uint64_t from = random() % 60, to = from + 1 + random() % (64 - from - 1);
        times[way].emplace_back(from, to);
        for (uint64_t at = from; at < to; ++at) busy[way][at] = true;
      }
    }
    const uint64_t begin = random() % 64, end = begin + random() % (64 - begin + 1);
    uint64_t up = 0, down = 0, both = 0;
    for (uint64_t at = begin; at < end; ++at) {
      up += busy[0][at];
      down += busy[1][at];
      both += busy[0][at] && busy[1][at];
    }
    const LinkBusy found = link_busy(times[0], times[1], begin, end);
    assert_true(is(found.up, up) && is(found.down, down) && is(found.both, both));
  }
}

void reads_what_the_backend_writes(void **) {
  const LinkTimes links;
  const std::string option = links.option();
  assert_int_equal(option.find(";host.link_log="), 0);
  // Nothing has been told yet.
  bool refused = false;
  try {
    (void)links.between(0, 100);
  } catch (const ToolError &) {
    refused = true;
  }
  assert_true(refused);
  const int file = std::atoi(option.c_str() + std::string(";host.link_log=").size());
  const std::string text = "0 h 10 30 7\n0 1 0 99 7\nh 0 20 50 9\nend\n";
  assert_int_equal(pwrite(file, text.data(), text.size(), 0), text.size());
  const LinkBusy busy = links.between(0, 100);
  assert_true(is(busy.up, 30) && is(busy.down, 20) && is(busy.both, 10));
  const std::string lost = "0 h lost 3\nend\n";
  assert_int_equal(ftruncate(file, 0), 0);
  assert_int_equal(pwrite(file, lost.data(), lost.size(), 0), lost.size());
  refused = false;
  try {
    (void)links.between(0, 100);
  } catch (const ToolError &) {
    refused = true;
  }
  assert_true(refused);
}

/// Of a replay in virtual time they are what its bytes take, and fit its time.
void a_replay_tells_them(void **) {
  const char *tree = std::getenv("WEIR_SOURCE_DIR");
  if (tree == nullptr || weir::test::weir_path().empty()) skip();
  std::vector<std::string> arguments = {
      "replay",          std::string(tree) + "/examples/traces/graphsage_train.vmt.zst",
      "--device-memory", "50%",
      "--pace",          "a100",
      "--virtual",       "--no-all-resident",
      "--limit",         "600"};
  const weir::test::Outcome text = weir::test::run_weir(arguments);
  if (text.errors.find("built with a sanitizer") != std::string::npos) skip();
  assert_int_equal(text.status, 0);
  assert_true(text.output.find("both at once") != std::string::npos);
  arguments.emplace_back("--json");
  const auto report = nlohmann::json::parse(weir::test::run_weir(arguments).output);
  const auto number = [&](const char *name) { return report[name].get<double>(); };
  constexpr double link = 25e9;
  // Each copy is rounded up to a nanosecond.
  const auto takes = [&](double seconds, const char *bytes) {
    return seconds >= number(bytes) / link * 0.9999 && seconds <= number(bytes) / link * 1.001;
  };
  const double up = number("link_up_seconds"), down = number("link_down_seconds");
  const double both = number("link_both_seconds");
  assert_true(number("promoted_bytes") > 0 && number("demoted_bytes") > 0);
  assert_true(takes(up, "promoted_bytes") && takes(down, "demoted_bytes"));
  assert_true(both >= 0 && both <= std::min(up, down));
  assert_true(up + down - both <= number("seconds"));
  const double least = (number("bound_fetched_bytes") + number("oracle_written_back_bytes")) / link;
  assert_true(std::abs(number("link_both_least_seconds") -
                       std::max(0.0, least - number("bound_seconds"))) < 1e-9);
  assert_true(number("overrun_seconds") < 1e-3);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(counts_what_overlaps),
      cmocka_unit_test(counts_as_one_would_by_hand),
      cmocka_unit_test(reads_what_the_backend_writes),
      cmocka_unit_test(a_replay_tells_them),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
