// SPDX-License-Identifier: Apache-2.0
//
// Figures for Prometheus: that the text keeps the format's rules whatever names are, that its values are what the pool's calls tell, which
// numbers things of one name get, and what becomes of many clients and pools. promtool has a look, too, where it is installed.

#include "tests/unit/neighbours.hpp"

#include "core/metrics/numbers.hpp"
#include "core/metrics/text.hpp"
#include "tests/tools/program.hpp"

#include <weir/observe.h>

#include <atomic>
#include <map>
#include <regex>
#include <set>
#include <thread>

namespace {

using namespace weir;
using namespace weir::test;

std::string metrics_of(World &world) {
  size_t needed = 0;
  ok(weir_metrics_text(world.context, nullptr, 0, &needed));
  std::string text(needed + 4096, '\0');
  ok(weir_metrics_text(world.context, text.data(), text.size(), &needed));
  text.resize(needed - 1);
  return text;
}

struct Parsed {
  std::map<std::string, std::string> types;
  std::map<std::string, std::string> values;  ///< by the series as it is written
};

/// By the rules of the format: each family's head once and before its values, no series twice, names and labels of the alphabet.
Parsed parse(const std::string &text) {
  Parsed parsed;
  assert_true(!text.empty() && text.back() == '\n');
  const std::regex help("# HELP ([a-z][a-z0-9_]*) [^\n]+"),
      type("# TYPE ([a-z][a-z0-9_]*) (counter|gauge|histogram)"),
      sample(
          "(([a-z][a-z0-9_]*)(\\{[a-z_]+=\"([^\"\\\\]|\\\\[\\\\\"n])*\"(,[a-z_]+=\"([^\"\\\\]|\\\\["
          "\\\\\"n])*\")*\\})?) ([0-9]+(\\.[0-9]+)?)");
  std::istringstream lines(text);
  std::string helped, family;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      helped = match[1];
    } else if (std::regex_match(line, match, type)) {
      family = match[1];
      assert_string_equal(helped.c_str(), family.c_str());
      assert_true(parsed.types.emplace(family, match[2]).second);
    } else if (std::regex_match(line, match, sample)) {
      const std::string name = match[2];
      const bool histogram = parsed.types[family] == "histogram";
      const std::string rest = name.substr(std::min(family.size(), name.size()));
      assert_true(name.starts_with(family));
      assert_true(histogram ? rest == "_bucket" || rest == "_sum" || rest == "_count"
                            : rest.empty());
      assert_true((parsed.types[family] == "counter") == name.ends_with("_total") ||
                  parsed.types[family] == "histogram");
      if (!parsed.values.emplace(match[1], match[7]).second) fail_msg("twice: %s", line.c_str());
    } else {
      fail_msg("no line of the format: %s", line.c_str());
    }
  }
  return parsed;
}

/// Of the first pool called "pool".
std::string series(const std::string &name, const std::string &labels = "", int number = 0) {
  return name + "{pool=\"pool\",pool_number=\"" + std::to_string(number) + "\"" +
         (labels.empty() ? "" : "," + labels) + "}";
}

void is(const Parsed &parsed, const std::string &key, uint64_t value) {
  const auto found = parsed.values.find(key);
  if (found == parsed.values.end()) fail_msg("no series %s", key.c_str());
  assert_string_equal(found->second.c_str(), std::to_string(value).c_str());
}

void values_are_what_the_calls_tell(void **) {
  World world({.device_pages = 8, .host_pages = 4, .compressed_pages = 6, .storage_pages = 64});
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 8; ++i) {
    buffers.push_back(world.buffer(2 * page_bytes));
    world.fill(buffers[i], 2 * page_bytes, 1 + i);
  }
  for (uint32_t i = 0; i < 8; ++i) world.check(buffers[i], 2 * page_bytes, 1 + i);
  const Parsed parsed = parse(metrics_of(world));
  const weir_pool_stats stats = world.stats();
  is(parsed, series("weir_buffers"), 8);
  is(parsed, series("weir_buffer_bytes"), 16 * page_bytes);
  is(parsed, series("weir_uses_total", "result=\"hit\""), stats.hits);
  is(parsed, series("weir_uses_total", "result=\"miss\""), stats.misses);
  is(parsed, series("weir_demoted_bytes_total"), stats.demoted_bytes);
  is(parsed, series("weir_promoted_bytes_total"), stats.promoted_bytes);
  is(parsed, series("weir_evictions_total"), stats.evictions);
  is(parsed, series("weir_refusals_total", "reason=\"would_block\""), stats.would_block);
  is(parsed, series("weir_memory_budget_bytes", "tier=\"device\",device=\"0\""), 8 * page_bytes);
  is(parsed, series("weir_memory_used_bytes", "tier=\"device\",device=\"0\""),
     stats.device_bytes - stats.device_free_bytes);
  is(parsed, series("weir_memory_used_bytes", "tier=\"compressed\""), stats.compressed_bytes);
  is(parsed, series("weir_memory_uncompressed_bytes", "tier=\"storage\""), stats.storage_raw_bytes);
  is(parsed, series("weir_device_state", "device=\"0\",state=\"present\""), 1);
  is(parsed, series("weir_device_state", "device=\"0\",state=\"lost\""), 0);
  is(parsed, series("weir_client_buffers", "client=\"(unnamed)\""), 8);
  is(parsed, series("weir_waiting_threads", "reason=\"eviction\""), 0);
  assert_true(parsed.values.at(series("weir_oversubscription_ratio")) == "2");
  // Buckets add up; the last has all.
  uint64_t before = 0;
  for (size_t bucket = 0; bucket < Durations::buckets; ++bucket) {
    const std::string key =
        series("weir_move_seconds_bucket",
               "from=\"device\",to=\"host\",le=\"" + metrics::bound_text(bucket) + "\"");
    const uint64_t now = std::stoull(parsed.values.at(key));
    assert_true(now >= before);
    before = now;
  }
  is(parsed, series("weir_move_seconds_count", "from=\"device\",to=\"host\""), before);
  assert_true(before > 0);
  assert_true(parsed.values.contains(series("weir_slow_acquire_seconds_bucket", "le=\"1e-06\"")));
  assert_true(parsed.values.contains(series("weir_wait_seconds_total", "reason=\"decode\"")));
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// Also what takes a look at all buffers, which nothing else takes then.
void it_needs_no_live_page(void **) {
  (void)setenv("WEIR_LIVE", "0", 1);
  World world({.device_pages = 8});
  (void)unsetenv("WEIR_LIVE");
  const weir_buffer leased = world.buffer(2 * page_bytes), other = world.buffer(page_bytes);
  world.fill(leased, 2 * page_bytes, 1);
  world.fill(other, page_bytes, 2);
  ok(weir_advise(world.pool, other, 0, WEIR_WHOLE, WEIR_ADVISE_COLD));
  weir_use use = WEIR_USE(leased, WEIR_READ);
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, world.streams[0], &use, 1, nullptr, &lease));
  (void)metrics_of(world);
  const Parsed parsed = parse(metrics_of(world));
  is(parsed, series("weir_memory_leased_bytes", "tier=\"device\",device=\"0\""), 2 * page_bytes);
  is(parsed, series("weir_memory_cold_bytes", "tier=\"device\",device=\"0\""), page_bytes);
  is(parsed, series("weir_client_leased_bytes", "client=\"(unnamed)\",tier=\"device\""),
     2 * page_bytes);
  ok(weir_release(lease, world.streams[0]));
  ok(weir_buffer_destroy(world.pool, leased));
  ok(weir_buffer_destroy(world.pool, other));
  close_clean(world);
}

void the_text_is_cut_and_asked_for_as_others(void **) {
  World world({.device_pages = 4});
  size_t needed = 0;
  char text[16];
  std::fill(std::begin(text), std::end(text), 'x');
  assert_int_equal(weir_metrics_text(world.context, text, sizeof text, &needed), WEIR_INCOMPLETE);
  assert_true(needed > 10'000 && text[15] == '\0' && text[14] != 'x');
  assert_int_equal(weir_metrics_text(world.context, nullptr, 0, nullptr),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(weir_metrics_text(world.context, nullptr, 8, &needed),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(weir_metrics_text(nullptr, text, sizeof text, &needed),
                   WEIR_ERROR_INVALID_HANDLE);
  close_clean(world);
}

weir_pool pool_named(World &world, const char *name) {
  const weir_pool_device device = with_pages(0, 1);
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = 1;
  desc.devices = &device;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = 4 * page_bytes;
  desc.name = name;
  weir_pool made = nullptr;
  ok(weir_pool_create(world.context, &desc, &made));
  return made;
}

void names_can_not_break_the_text(void **) {
  World world({.device_pages = 4});
  const char *name = "a\"} 1\nweir_buffers{pool=\"\\\x01\xff ü";
  const weir_pool pool = pool_named(world, name);
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.name = "\\\n\"";
  weir_client client = nullptr;
  ok(weir_client_create(pool, &desc, &client));
  const std::string text = metrics_of(world);
  const Parsed parsed = parse(text);
  // As names are shown everywhere, with what the format escapes.
  const std::string shown = "a\\\"} 1\\\\x0aweir_buffers{pool=\\\"\\\\\\\\x01\\\\xff ü";
  is(parsed, "weir_buffers{pool=\"" + shown + "\",pool_number=\"0\"}", 0);
  is(parsed,
     "weir_client_buffers{pool=\"" + shown + "\",pool_number=\"0\",client=\"\\\\\\\\x0a\\\"\"}", 0);
  ok(weir_client_destroy(client));
  ok(weir_pool_destroy(pool));
  close_clean(world);
}

void pools_of_a_name_keep_their_numbers(void **) {
  World world({.device_pages = 4});
  const weir_pool second = pool_named(world, "pool"), other = pool_named(world, "other");
  Parsed parsed = parse(metrics_of(world));
  for (const int number : {0, 1})
    assert_true(parsed.values.contains(series("weir_pages", "", number)));
  assert_true(parsed.values.contains("weir_pages{pool=\"other\",pool_number=\"0\"}"));
  const weir_pool third = pool_named(world, "pool");
  parsed = parse(metrics_of(world));
  assert_true(parsed.values.contains(series("weir_pages", "", 2)));
  ok(weir_pool_destroy(second));
  parsed = parse(metrics_of(world));
  assert_false(parsed.values.contains(series("weir_pages", "", 1)));
  assert_true(parsed.values.contains(series("weir_pages", "", 2)));
  const weir_pool fourth = pool_named(world, "pool");
  parsed = parse(metrics_of(world));
  for (const int number : {0, 1, 2})
    assert_true(parsed.values.contains(series("weir_pages", "", number)));
  for (weir_pool pool : {other, third, fourth}) ok(weir_pool_destroy(pool));
  close_clean(world);
}

/// None ends while it is looked at, and one that comes or goes while it is looked at is there whole or not at all.
void pools_come_and_go_meanwhile(void **) {
  World world({.device_pages = 4});
  std::atomic<bool> over{false}, failed{false};
  std::atomic<uint32_t> looks{0};
  std::vector<std::thread> lookers;
  for (int i = 0; i < 2; ++i)
    lookers.emplace_back([&] {
      std::vector<char> text(1 << 20);
      size_t needed = 0;
      while (!over.load()) {
        if (weir_metrics_text(world.context, text.data(), text.size(), &needed) != WEIR_SUCCESS)
          failed.store(true);
        ++looks;
      }
    });
  for (uint32_t round = 0; round < 50 || looks.load() < 20; ++round)
    ok(weir_pool_destroy(pool_named(world, "pool")));
  const Parsed parsed = parse(metrics_of(world));
  over.store(true);
  for (std::thread &looker : lookers) looker.join();
  assert_false(failed.load());
  assert_true(parsed.values.contains(series("weir_pages")));
  assert_false(parsed.values.contains(series("weir_pages", "", 1)));
  close_clean(world);
}

void many_clients_are_counted(void **) {
  World world({.device_pages = 4});
  std::vector<weir_client> clients(300);
  for (size_t i = 0; i < clients.size(); ++i) {
    weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    const std::string name = i < 40 ? "one" : "client " + std::to_string(i);
    desc.name = name.c_str();
    desc.host_quota = i < 40 ? page_bytes : 0;
    ok(weir_client_create(world.pool, &desc, &clients[i]));
  }
  const std::string text = metrics_of(world);
  assert_true(text.size() < 200'000);
  const Parsed parsed = parse(text);
  is(parsed, series("weir_clients"), clients.size() + 1);
  is(parsed, series("weir_clients_hidden"), clients.size() + 1 - live::most_clients);
  // Those of one name are told together; without a limit nothing is told.
  is(parsed, series("weir_client_quota_bytes", "client=\"one\",tier=\"host\""), 40 * page_bytes);
  assert_false(parsed.values.contains(
      series("weir_client_quota_bytes", "client=\"client 41\",tier=\"host\"")));
  for (weir_client client : clients) ok(weir_client_destroy(client));
  close_clean(world);
}

void numbers_are_kept_and_given_again(void **) {
  metrics::Numbers numbers;
  using Thing = metrics::Numbers::Thing;
  const auto give = [&numbers](std::vector<Thing> things) { return numbers.number(things); };
  assert_true(give({{1, 0, "a"}, {2, 0, "a"}, {3, 0, "b"}, {4, 0, ""}, {5, 0, ""}}) ==
              (std::vector<uint32_t>{0, 1, 0, 0, 1}));
  assert_true(give({{5, 0, ""}, {2, 0, "a"}, {3, 1, "b"}, {3, 0, "b"}}) ==
              (std::vector<uint32_t>{1, 1, 1, 0}));
  // Gone ones have left their numbers; a new name is a new thing.
  assert_true(give({{6, 0, "a"}, {2, 0, "a"}, {5, 0, "a"}, {7, 0, ""}}) ==
              (std::vector<uint32_t>{0, 1, 2, 0}));
}

void decimals_are_exact(void **) {
  using metrics::Number;
  using metrics::number_text;
  assert_string_equal(number_text({UINT64_MAX, 0}).c_str(), "18446744073709551615");
  assert_string_equal(number_text(Number::of_ns(1)).c_str(), "0.000000001");
  assert_string_equal(number_text(Number::of_ns(1'500'000'000)).c_str(), "1.5");
  assert_string_equal(number_text(Number::ratio(1, 3)).c_str(), "0.333333333");
  assert_string_equal(number_text(Number::ratio(UINT64_MAX - 1, UINT64_MAX)).c_str(),
                      "0.999999999");
  assert_string_equal(number_text(Number::ratio(5, 0)).c_str(), "0");
  assert_string_equal(metrics::bound_text(0).c_str(), "1e-06");
  assert_string_equal(metrics::bound_text(Durations::buckets - 1).c_str(), "+Inf");
}

void families_are_told_in_their_order(void **) {
  std::set<std::string> names;
  for (const metrics::Family &family : metrics::families()) {
    assert_true(names.insert(family.name).second);
    assert_true(!family.help.empty());
    const std::string name = family.name;
    assert_true(name.starts_with("weir_"));
    assert_true((family.type == metrics::Type::counter) == name.ends_with("_total"));
    if (family.type == metrics::Type::histogram) assert_true(name.ends_with("_seconds"));
  }
  World world({.device_pages = 4, .host_pages = 4, .compressed_pages = 2, .storage_pages = 4});
  const Parsed parsed = parse(metrics_of(world));
  for (const auto &[name, type] : parsed.types) assert_true(names.contains(name));
  close_clean(world);
}

void promtool_has_nothing_to_say(void **) {
  const std::string promtool = installed("promtool");
  if (promtool.empty()) {
    std::puts("skipped: there is no promtool");
    skip();
  }
  World world({.device_pages = 4, .host_pages = 4, .compressed_pages = 2, .storage_pages = 4});
  const TemporaryFile text(metrics_of(world));
  const Outcome outcome =
      run_program({"/bin/sh", "-c", "exec \"$0\" check metrics <\"$1\"", promtool, text.path()});
  if (outcome.status != 0 || !outcome.errors.empty())
    fail_msg("%s%s", outcome.output.c_str(), outcome.errors.c_str());
  close_clean(world);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(values_are_what_the_calls_tell),
      cmocka_unit_test(it_needs_no_live_page),
      cmocka_unit_test(the_text_is_cut_and_asked_for_as_others),
      cmocka_unit_test(names_can_not_break_the_text),
      cmocka_unit_test(pools_of_a_name_keep_their_numbers),
      cmocka_unit_test(pools_come_and_go_meanwhile),
      cmocka_unit_test(many_clients_are_counted),
      cmocka_unit_test(numbers_are_kept_and_given_again),
      cmocka_unit_test(decimals_are_exact),
      cmocka_unit_test(families_are_told_in_their_order),
      cmocka_unit_test(promtool_has_nothing_to_say),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
