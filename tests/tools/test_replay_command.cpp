// SPDX-License-Identifier: Apache-2.0
//
// The weir command as its user meets it: runs the program itself on small traces and looks at exit
// status, both outputs and what it leaves on disk. WEIR_BIN_DIR says where the program is; without
// it the test skips.
#include "tests/tools/program.hpp"

#include <nlohmann/json.hpp>

#include <dirent.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <vector>

namespace {

using weir::test::contains;
using weir::test::Outcome;
using weir::test::run_weir;
using weir::test::TemporaryFile;
using weir::test::text_of;
using Json = nlohmann::json;

/// A directory that must be empty again in the end: what is spilled has no name.
class Folder {
 public:
  Folder() {
    const char *parent = std::getenv("TMPDIR");
    path_ = std::string(parent != nullptr ? parent : "/tmp") + "/weir-spilled-XXXXXX";
    assert_non_null(mkdtemp(path_.data()));
  }
  ~Folder() {
    if (rmdir(path_.c_str()) != 0) print_error("%s is not empty\n", path_.c_str());
  }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  const std::string &path() const { return path_; }

 private:
  std::string path_;
};

/// 24 blocks of 64 KiB and a few small ones, written, read in rounds, updated in part: at half its
/// peak it must move data.
std::string busy_trace() {
  constexpr int blocks = 24;
  std::string text = "#vmt 1\n#name busy\n";
  int op = 0;
  const auto operation = [&](const std::string &uses) {
    text += "o " + std::to_string(op++) + " 1000 n\n" + uses;
  };
  for (int i = 0; i < blocks; ++i) text += "a " + std::to_string(i) + " 65536 x\n";
  for (int i = 0; i < 4; ++i) text += "a " + std::to_string(blocks + i) + " 700 y\n";
  for (int round = 0; round < 4; ++round)
    for (int i = 0; i < blocks; ++i) {
      const std::string block = "u " + std::to_string(i);
      const std::string small = "u " + std::to_string(blocks + i % 4) + " x\n";
      operation(round == 0 ? block + " w\n" : block + " r\n" + block + " w 1000 20000\n" + small);
    }
  return text + "e\n";
}

void expect_refusal(const Outcome &outcome, std::string_view named) {
  assert_int_equal(outcome.status, 1);
  assert_true(contains(outcome.errors, named));
  assert_string_equal(outcome.output.c_str(), "");
  assert_int_equal(outcome.errors.find('\n'), outcome.errors.size() - 1);  // one sentence
}

void replays_and_reports(void **) {
  const TemporaryFile trace(busy_trace());
  const Outcome outcome = run_weir({"replay", trace.path(), "--device-memory", "50%", "--json"});
  assert_int_equal(outcome.status, 0);
  const Json report = Json::parse(outcome.output);
  for (const char *name : {"operations",
                           "peak_live_bytes",
                           "device_bytes",
                           "promoted_bytes",
                           "demoted_bytes",
                           "dropped_clean_bytes",
                           "hits",
                           "misses",
                           "verify_errors",
                           "seconds",
                           "seconds_all_resident",
                           "slowdown",
                           "oracle_slowdown",
                           "host_bytes",
                           "compressed_budget",
                           "compressed_bytes",
                           "compressed_ratio",
                           "compressed_in_bytes",
                           "decompressed_bytes",
                           "incompressible_bytes",
                           "storage_budget",
                           "storage_bytes",
                           "storage_written_bytes",
                           "storage_read_bytes",
                           "storage",
                           "encrypt_storage",
                           "codec",
                           "sunk_bytes",
                           "lifted_bytes",
                           "io_errors",
                           "checksum_failures"})
    assert_true(report.contains(name));
  for (const char *name : {"compressed_budget", "compressed_bytes", "compressed_ratio",
                           "storage_budget", "storage_bytes", "storage_written_bytes",
                           "storage_read_bytes", "sunk_bytes", "lifted_bytes", "io_errors"})
    assert_true(report[name].get<double>() == 0);
  assert_true(report["storage"].empty());
  assert_int_equal(report["operations"].get<int>(), 96);
  assert_int_equal(report["peak_live_bytes"].get<int>(), 24 * 65536 + 4 * 700);
  assert_int_equal(report["verify_errors"].get<int>(), 0);
  assert_true(report["device_bytes"].get<uint64_t>() <= 24 * 65536 / 2 + 4 * 700 / 2);
  assert_true(report["promoted_bytes"].get<uint64_t>() > 0);
  assert_true(report["demoted_bytes"].get<uint64_t>() > 0);
  assert_int_equal(report["all_resident_demoted_bytes"].get<uint64_t>(), 0);
  assert_true(report["oracle_slowdown"].is_null());  // no pace: no link speed to go by
}

/// A neighbour with memory enough for the rest: nothing goes to the host.
void replays_beside_a_neighbour(void **) {
  const TemporaryFile trace(busy_trace());
  const Outcome outcome =
      run_weir({"replay", trace.path(), "--device-memory", "50%", "--neighbour", "100%", "--json"});
  assert_int_equal(outcome.status, 0);
  const Json report = Json::parse(outcome.output);
  assert_int_equal(report["verify_errors"].get<int>(), 0);
  assert_true(report["neighbour_bytes"].get<uint64_t>() >= 24 * 65536);
  assert_true(report["device_bytes"].get<uint64_t>() <= 24 * 65536 / 2 + 4 * 700 / 2);
  assert_true(report["lent_bytes"].get<uint64_t>() > 0);
  assert_true(report["peer_bytes"].get<uint64_t>() > 0);
}

void replays_every_way(void **) {
  const TemporaryFile trace(busy_trace());
  const std::vector<std::vector<std::string>> ways = {
      {"--no-vmm"},
      {"--no-multi-map"},
      {"--announce", "0", "--ahead", "1"},
      {"--data", "tensor", "--yardstick"},
      {"--data", "random", "--scale", "7"},
      {"--data", "zero"},
      {"--pace", "1e9,1e9,1e9", "--slow", "2", "--check-one-in", "64"},
      {"--pace", "1e9,1e9,1e9", "--no-contents"},
      {"--no-verify"},
      {"--limit", "50", "--no-warm-up"},
      {"--steps"},
      {"--touch", "--no-vmm"},
  };
  for (const auto &way : ways) {
    std::vector<std::string> arguments = {"replay", trace.path(), "--device-memory", "40%",
                                          "--json"};
    arguments.insert(arguments.end(), way.begin(), way.end());
    const Outcome outcome = run_weir(arguments);
    if (outcome.status != 0) print_error("%s: %s\n", way[0].c_str(), outcome.errors.c_str());
    assert_int_equal(outcome.status, 0);
    assert_int_equal(Json::parse(outcome.output)["verify_errors"].get<int>(), 0);
  }
}

/// Asked before a test has made anything: skip() destroys nothing.
bool has_virtual_time() {
  return run_weir({"replay", "-", "--pace", "a100", "--virtual"})
             .errors.find("built with a sanitizer") == std::string::npos;
}

/// Time that only passes while all wait: a trace of more memory than any machine has, in which each run is as the last.
void replays_in_virtual_time(void **) {
  if (!has_virtual_time()) skip();
  std::string text = busy_trace();
  // 24 blocks of 64 KiB become 24 of 256 GiB.
  for (size_t at; (at = text.find(" 65536")) != std::string::npos;)
    text.replace(at, 6, " 274877906944");
  const TemporaryFile trace(text);
  const std::vector<std::string> arguments = {
      "replay", trace.path(),     "--device-memory", "40%",       "--json",
      "--pace", "1e15,1e15,1e12", "--virtual",       "--granule", "1G"};
  const Outcome outcome = run_weir(arguments);
  assert_string_equal(outcome.errors.c_str(), "");
  const Json report = Json::parse(outcome.output);
  assert_true(report["virtual"].get<bool>());
  assert_true(report["peak_live_bytes"].get<uint64_t>() > uint64_t{24} << 38U);
  assert_true(report["promoted_bytes"].get<uint64_t>() >=
              report["bound_fetched_bytes"].get<uint64_t>());
  assert_true(report["seconds"].get<double>() >= report["bound_seconds"].get<double>());
  assert_true(report["first_seconds"].get<double>() > 0);
  assert_true(report["first_promoted_bytes"].get<uint64_t>() >=
              report["bound_fetched_bytes"].get<uint64_t>());
  // With everything in place it takes the operations' own time, and next to nothing more.
  const double compute = report["compute_seconds"].get<double>();
  assert_true(report["seconds_all_resident"].get<double>() >= compute);
  assert_true(report["seconds_all_resident"].get<double>() <= 1.05 * compute);
  for (int i = 0; i < 3; ++i)
    assert_string_equal(run_weir(arguments).output.c_str(), outcome.output.c_str());
  // Who hands the turn on, the program or the kernel, decides nothing.
  setenv("WEIR_VIRTUAL_TIME_BY_KERNEL", "1", 1);
  const Outcome by_kernel = run_weir(arguments);
  unsetenv("WEIR_VIRTUAL_TIME_BY_KERNEL");
  assert_string_equal(by_kernel.output.c_str(), outcome.output.c_str());
}

/// Operations of some microseconds: no clock that the pool reads to measure what it does lets time pass.
void what_the_pool_measures_takes_no_virtual_time(void **) {
  if (!has_virtual_time()) skip();
  const std::string tree = std::getenv("WEIR_SOURCE_DIR");
  const Outcome outcome =
      run_weir({"replay", tree + "/examples/traces/graphsage_train.vmt.zst", "--device-memory",
                "50%", "--pace", "a100", "--virtual", "--no-verify", "--json"});
  const Json report = Json::parse(outcome.output);
  const double share =
      report["seconds_all_resident"].get<double>() / report["compute_seconds"].get<double>();
  assert_true(share >= 1 && share <= 1.01);
}

/// Which has every block named before the first operation, and so created: none takes memory before it is used, or the 40 of which
/// one is alive at a time, in a pool with room for three, would not fit.
void announces_all_of_a_trace(void **) {
  std::string text = "#vmt 1\n#name passing\na 0 65536 x\n";
  for (int i = 0; i < 40; ++i) {
    const std::string block = std::to_string(i + 1);
    text += "a " + block + " 65536 x\no " + std::to_string(2 * i) + " 1000 n\nu " + block +
            " w\no " + std::to_string(2 * i + 1) + " 1000 n\nu " + block + " r\nu 0 x\ne\nf " +
            block + "\n";
  }
  const TemporaryFile trace(text);
  const std::vector<std::string> arguments = {"replay",
                                              trace.path(),
                                              "--device-memory",
                                              "192K",
                                              "--host-memory",
                                              "0",
                                              "--ahead",
                                              "1",
                                              "--json",
                                              "--pace",
                                              "1e9,1e9,1e8",
                                              "--announce",
                                              "all",
                                              "--no-all-resident",
                                              "--policy",
                                              "lru-window"};
  const Outcome outcome = run_weir(arguments);
  if (outcome.status != 0) print_error("%s\n", outcome.errors.c_str());
  assert_int_equal(outcome.status, 0);
  const Json report = Json::parse(outcome.output);
  assert_string_equal(report["announce"].get<std::string>().c_str(), "all");
  assert_string_equal(report["policy"].get<std::string>().c_str(), "lru-window");
  assert_int_equal(report["verify_errors"].get<int>(), 0);
  assert_true(report["seconds_all_resident"].is_null() && report["slowdown"].is_null());
  assert_int_equal(report["first_promoted_bytes"].get<uint64_t>(), 0);
  std::vector<std::string> unknown = arguments;
  unknown.back() = "none-such";
  assert_int_equal(run_weir(unknown).status, 1);
}

/// What one run has learned is another's from its first operation on, and both are what that one saves.
void saves_and_loads_what_a_policy_has_learned(void **) {
  const TemporaryFile trace(busy_trace()), first(""), second(""), damaged("no such bytes");
  const auto run = [&trace](std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "replay", trace.path(),  "--device-memory",  "64M",  "--json",
        "--pace", "1e9,1e9,1e8", "--policy",         "auto", "--announce",
        "0",      "--no-verify", "--no-all-resident"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_weir(arguments);
  };
  const auto bytes_of = [](const TemporaryFile &file) {
    std::ifstream in(file.path(), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  Outcome outcome = run({"--policy-save", first.path()});
  if (outcome.status != 0) print_error("%s\n", outcome.errors.c_str());
  assert_int_equal(outcome.status, 0);
  assert_true(Json::parse(outcome.output)["policy_load"].is_null());
  const std::string learned = bytes_of(first);
  assert_true(learned.size() > 100 && learned.compare(0, 8, "WEIRplcy") == 0);
  outcome = run({"--policy-load", first.path(), "--policy-save", second.path()});
  assert_int_equal(outcome.status, 0);
  assert_string_equal(Json::parse(outcome.output)["policy_load"].get<std::string>().c_str(),
                      first.path().c_str());
  assert_true(bytes_of(second).size() > learned.size());
  outcome = run({"--policy-load", damaged.path()});
  assert_int_equal(outcome.status, 1);
  assert_true(contains(outcome.errors, "cannot load what was learned"));
  outcome = run({"--policy-load", "/nonexistent/file"});
  assert_int_equal(outcome.status, 1);
  assert_true(contains(outcome.errors, "/nonexistent/file"));
  assert_int_equal(run({"--policy-save", "/nonexistent/file"}).status, 1);
}

/// No run is faster than the bound, and the tight one is not below the simple one.
void bounds_a_paced_run(void **) {
  const TemporaryFile trace(busy_trace());
  const Outcome outcome = run_weir({"replay", trace.path(), "--device-memory", "40%", "--json",
                                    "--pace", "1e9,1e9,1e8", "--no-verify", "--no-warm-up"});
  assert_int_equal(outcome.status, 0);
  const Json report = Json::parse(outcome.output);
  assert_true(report["bound_fetched_bytes"].get<uint64_t>() > 0);
  assert_true(report["bound_fetched_bytes"].get<uint64_t>() <=
              report["promoted_bytes"].get<uint64_t>());
  const double bound = report["bound_seconds"].get<double>();
  assert_true(bound >= report["bound_simple_seconds"].get<double>());
  assert_true(report["bound_simple_seconds"].get<double>() >=
              report["compute_seconds"].get<double>());
  assert_true(report["seconds"].get<double>() >= bound);
}

void replays_allocations_alone(void **) {
  const TemporaryFile trace(busy_trace());
  const Outcome outcome =
      run_weir({"replay", trace.path(), "--allocator-only", "--json", "--granule", "64K",
                "--placement", "vmm", "--placement", "pytorch"});
  assert_int_equal(outcome.status, 0);
  const Json report = Json::parse(outcome.output);
  assert_int_equal(report["peak_live_bytes"].get<int>(), 24 * 65536 + 4 * 700);
  assert_int_equal(report["placements"].size(), 2);
  assert_int_equal(report["placements"]["vmm"]["peak_reserved_bytes"].get<int>(), 25 * 65536);
  assert_true(report["placements"]["vmm"]["survived"].get<bool>());
  expect_refusal(run_weir({"replay", trace.path(), "--allocator-only", "--device-memory", "1M"}),
                 "--device-memory");
  expect_refusal(run_weir({"replay", trace.path(), "--capacity", "1M"}), "--allocator-only");
  expect_refusal(run_weir({"replay", trace.path(), "--allocator-only", "--placement", "best"}),
                 "'best'");
}

/// A replay whose host memory holds next to nothing; expects every byte to be right.
Json replay_below_host(const std::vector<std::string> &way) {
  const TemporaryFile trace(busy_trace());
  std::vector<std::string> arguments = {"replay",    trace.path(), "--device-memory", "40%",
                                        "--granule", "16K",        "--json"};
  arguments.insert(arguments.end(), way.begin(), way.end());
  const Outcome outcome = run_weir(arguments);
  if (outcome.status != 0) fail_msg("%s: %s", way[0].c_str(), outcome.errors.c_str());
  const Json report = Json::parse(outcome.output);
  assert_int_equal(report["verify_errors"].get<int>(), 0);
  assert_int_equal(report["io_errors"].get<int>(), 0);
  assert_int_equal(report["checksum_failures"].get<int>(), 0);
  assert_true(report["sunk_bytes"].get<uint64_t>() > 0);
  assert_true(report["lifted_bytes"].get<uint64_t>() > 0);
  return report;
}

uint64_t bytes(const Json &report, const char *name) { return report[name].get<uint64_t>(); }

void storage_alone(void **) {
  Folder folder;
  const Json report = replay_below_host({"--host-memory", "0", "--storage", folder.path()});
  assert_int_equal(bytes(report, "host_bytes"), 0);
  assert_true(bytes(report, "storage_written_bytes") > 0);
  assert_true(bytes(report, "storage_read_bytes") > 0);
  assert_true(bytes(report, "storage_bytes") > 0);
  assert_true(bytes(report, "storage_bytes") <= bytes(report, "storage_budget"));
  assert_true(bytes(report, "storage_budget") > bytes(report, "peak_live_bytes"));
  assert_int_equal(bytes(report, "compressed_bytes"), 0);
  assert_true(report["compressed_ratio"].get<double>() == 0);
  assert_string_equal(report["storage"].at(0).get<std::string>().c_str(), folder.path().c_str());
}

void compression_alone(void **) {
  const Json report =
      replay_below_host({"--host-memory", "10%", "--compressed-memory", "70%", "--data", "zero"});
  assert_true(report["compressed_ratio"].get<double>() > 4);
  assert_true(bytes(report, "compressed_in_bytes") > 0);
  assert_true(bytes(report, "decompressed_bytes") > 0);
  assert_true(bytes(report, "compressed_bytes") > 0);
  assert_true(bytes(report, "compressed_bytes") <= bytes(report, "compressed_budget"));
  assert_int_equal(bytes(report, "storage_written_bytes"), 0);
}

void both_in_every_way(void **) {
  Folder one;
  Folder two;
  const std::vector<std::vector<std::string>> ways = {
      {"--data", "tensor"},
      {"--data", "random", "--codec", "lz4"},
      {"--data", "tensor", "--codec", "zstd", "--compress-threads", "2"},
      {"--data", "tensor", "--codec", "raw"},
      {"--buffered-storage", "--no-io-uring"},
      {"--storage", two.path()},
      {"--no-vmm", "--data", "tensor"},
      {"--announce", "0", "--ahead", "1"},
  };
  for (std::vector<std::string> way : ways) {
    // Without VMM a move needs staging for whole blocks, for which such a budget is too small.
    const char *host = way[0] == "--no-vmm" ? "0" : "8%";
    way.insert(way.end(), {"--host-memory", host, "--compressed-memory", "10%", "--storage",
                           one.path(), "--storage-size", "130%"});
    const Json report = replay_below_host(way);
    assert_true(bytes(report, "storage_written_bytes") > 0);
    assert_int_equal(report["storage"].size(), way[0] == "--storage" ? 2 : 1);
  }
}

/// The text table has the rows of the tiers there are, and no others.
void tells_of_tiers_there_are(void **) {
  Folder folder;
  const TemporaryFile trace(busy_trace());
  const auto text = [&](std::vector<std::string> tiers) {
    tiers.insert(tiers.begin(), {"replay", trace.path(), "--device-memory", "40%"});
    const Outcome outcome = run_weir(tiers);
    assert_int_equal(outcome.status, 0);
    return outcome.output;
  };
  const std::string none = text({});
  assert_false(contains(none, "compressed"));
  assert_false(contains(none, "storage"));
  const std::string all = text({"--host-memory", "10%", "--compressed-memory", "20%", "--storage",
                                folder.path(), "--data", "tensor"});
  for (const char *row : {"compressed memory", "decompressed", "  storage", "written to storage",
                          "read from storage"})
    assert_true(contains(all, row));
}

void writes_the_report_whole_or_not_at_all(void **) {
  std::string folder = "/tmp/weir-command-XXXXXX";
  assert_non_null(mkdtemp(folder.data()));
  const std::string path = folder + "/report.json";
  const TemporaryFile trace(busy_trace());
  const TemporaryFile broken("#vmt 1\na 0 100 x\no 0 1 n\nu 0 w\nu 7 r\n");
  expect_refusal(run_weir({"replay", broken.path(), "--json-out", path}), "line 5");
  assert_int_equal(rmdir(folder.c_str()), 0);  // it was empty
  expect_refusal(run_weir({"replay", trace.path(), "--json-out", path}), path);

  assert_int_equal(mkdir(folder.c_str(), 0700), 0);
  assert_int_equal(run_weir({"replay", trace.path(), "--json-out", path}).status, 0);
  assert_int_equal(Json::parse(text_of(path))["operations"].get<int>(), 96);
  assert_int_equal(unlink(path.c_str()), 0);
  assert_int_equal(rmdir(folder.c_str()), 0);
}

void says_what_is_wrong(void **) {
  const TemporaryFile trace(busy_trace());
  const TemporaryFile text("hello\n");
  const TemporaryFile nothing("");
  expect_refusal(run_weir({"replay", "/nonexistent.vmt"}), "/nonexistent.vmt");
  expect_refusal(run_weir({"replay", text.path()}), "#vmt 1");
  expect_refusal(run_weir({"replay", nothing.path()}), "empty");
  expect_refusal(run_weir({"replay", trace.path(), "--granule", "1000"}), "--granule: '1000'");
  expect_refusal(run_weir({"replay", trace.path(), "--backend", "abacus"}), "abacus");
  expect_refusal(
      run_weir({"replay", trace.path(), "--device-memory", "40%", "--host-memory", "64K"}),
      "budget");
  expect_refusal(run_weir({"replay", trace.path(), "--device-memory", "40%", "--host-memory", "0"}),
                 "budget");
  expect_refusal(run_weir({"replay", trace.path(), "--device-memory", "40%", "--host-memory", "64K",
                           "--storage", "/tmp", "--storage-size", "64K"}),
                 "budget");
  expect_refusal(run_weir({"replay", trace.path(), "--storage-size", "1G"}),
                 "--storage-size: '1G' needs --storage DIR");
  expect_refusal(
      run_weir({"replay", "--storage", "/tmp", "--storage", "/nonexistent", trace.path()}),
      "--storage: '/nonexistent'");
  expect_refusal(run_weir({"replay"}), "trace");
}

void lists_devices_and_limits(void **) {
  const Outcome devices = run_weir({"devices", "--json"});
  assert_int_equal(devices.status, 0);
  const Json backends = Json::parse(devices.output)["backends"];
  assert_string_equal(backends.at(0)["name"].get<std::string>().c_str(), "host");
  assert_true(backends[0]["available"].get<bool>());
  assert_true(backends[0]["devices"].at(0)["memory_total"].get<uint64_t>() > 0);
  assert_true(contains(run_weir({"devices"}).output, "host"));
  const Outcome info = run_weir({"info", "--json"});
  assert_int_equal(info.status, 0);
  assert_true(Json::parse(info.output).contains("limits"));
  assert_true(contains(run_weir({"info"}).output, "vm.max_map_count"));
  assert_int_equal(setenv("WEIR_TRACE", "/nowhere/%p.json", 1),
                   0);  // read, and shown; no context is made
  assert_true(contains(run_weir({"info"}).output, "options: WEIR_TRACE=/nowhere/%p.json\n"));
  assert_int_equal(unsetenv("WEIR_TRACE"), 0);
}

}  // namespace

int main() {
  if (!weir::test::weir_is_there()) return weir::test::skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(replays_and_reports),
      cmocka_unit_test(replays_beside_a_neighbour),
      cmocka_unit_test(replays_every_way),
      cmocka_unit_test(saves_and_loads_what_a_policy_has_learned),
      cmocka_unit_test(bounds_a_paced_run),
      cmocka_unit_test(announces_all_of_a_trace),
      cmocka_unit_test(replays_in_virtual_time),
      cmocka_unit_test(what_the_pool_measures_takes_no_virtual_time),
      cmocka_unit_test(replays_allocations_alone),
      cmocka_unit_test(storage_alone),
      cmocka_unit_test(compression_alone),
      cmocka_unit_test(both_in_every_way),
      cmocka_unit_test(tells_of_tiers_there_are),
      cmocka_unit_test(writes_the_report_whole_or_not_at_all),
      cmocka_unit_test(says_what_is_wrong),
      cmocka_unit_test(lists_devices_and_limits),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
