// SPDX-License-Identifier: Apache-2.0
//
// `weir replay`: the pre-pass, the all-resident run (with --yardstick: three times, alternating
// with plain memory), the constrained run, the oracle, the report. Exit status 1 if a single byte
// was wrong.
#include "commands.hpp"
#include "constrained.hpp"
#include "error.hpp"
#include "link_times.hpp"
#include "oracle.hpp"
#include "plain_machine.hpp"
#include "progress.hpp"
#include "recorded/replay.hpp"
#include "report.hpp"
#include "weir_machine.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

namespace weir::tool {
namespace {

constexpr int yardstick_rounds = 3;
constexpr uint32_t bound_cuts = 256;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string bytes_of(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw ToolError("cannot read '" + path + "': " + std::strerror(errno));
  return bytes;
}

class Replay {
 public:
  Replay(const ReplayOptions &options, std::unique_ptr<TraceFile> file)
      : options_(options),
        file_(std::move(file)),
        progress_(options.virtual_time ? Progress::Style::none
                                       : Progress::choose(options.json && !options.progress)),
        pattern_(options.data, options.seed, Pattern::usual_random_words, options.check_one_in) {}

  Report run() {
    read();
    settings_ = settle(options_, plan_);
    report_.options = &options_;
    report_.plan = &plan_;
    report_.settings = &settings_;
    run_options_.announce = options_.announce;
    run_options_.ahead = options_.ahead;
    run_options_.verify = options_.verify;
    run_options_.touch = options_.touch;
    run_options_.pace = options_.pace;
    run_options_.progress = [this](uint64_t operations) { progress_.update(operations); };
    if (options_.all_resident) all_resident();
    constrained();
    oracle();
    progress_.done();
    return report_;
  }

 private:
  void read() {
    progress_.start("reading", "bytes", 1);
    PlanOptions plan_options;
    plan_options.scale = options_.scale;
    plan_options.limit = options_.limit;
    plan_options.steps = options_.steps;
    bool known = false;
    plan_options.progress = [&](uint64_t bytes, uint64_t of) {
      if (!known) progress_.start("reading", "bytes", of);
      known = true;
      progress_.update(bytes);
    };
    plan_ = read_plan(std::move(file_), plan_options);
    if (plan_.operations.empty())
      throw ToolError("trace '" + options_.trace + "' has no operations to replay");
  }

  WeirMachineDesc machine_desc(const std::string &context_options, uint64_t device_budget) const {
    WeirMachineDesc desc;
    desc.context_options = context_options;
    desc.backend = options_.backend;
    desc.contents = options_.verify;
    desc.page = settings_.page;
    desc.device_budget = device_budget;
    desc.host_budget = settings_.host_budget;
    desc.policy = options_.policy;
    return desc;
  }

  RunResult measured(const std::string &step, Machine &machine) {
    progress_.start(step, "operations", plan_.operations.size());
    const RunResult result = replay(plan_, machine, pattern_, run_options_);
    report_.verify_errors += result.verify_errors;
    for (const VerifyError &error : result.first_errors)
      if (report_.first_errors.size() < VerifyLog::kept) report_.first_errors.push_back(error);
    return result;
  }

  void all_resident() {
    WeirMachine machine(
        machine_desc(settings_.all_resident_context_options, settings_.all_resident_budget),
        plan_.block_bytes.size());
    if (warms_up()) (void)measured("warming up", machine);
    const weir_pool_stats before = machine.stats();
    std::vector<double> seconds{measured("all resident", machine).seconds};
    if (options_.yardstick) {
      PlainMachine plain(settings_.all_resident_context_options, options_.backend,
                         plan_.block_bytes.size());
      if (warms_up()) (void)measured("warming up", plain);
      std::vector<double> plain_seconds{measured("plain memory", plain).seconds};
      for (int round = 1; round < yardstick_rounds; ++round) {
        seconds.push_back(measured("all resident", machine).seconds);
        plain_seconds.push_back(measured("plain memory", plain).seconds);
      }
      report_.seconds_plain = median(plain_seconds);
    }
    report_.seconds_all_resident = median(seconds);
    report_.all_resident_stats = stats_between(before, machine.stats());
  }

  /// A whole run whose time does not count: the first use of memory costs far more than any other, and which blocks find
  /// their like is different once; and in the first one a policy learns. Without filling and checking (--no-verify) nothing but copies
  /// touches memory, and without a pace those tell nothing.
  bool warms_up() const { return options_.warm_up && (options_.verify || options_.pace); }

  void constrained() {
    std::optional<OutputFile> learned;
    if (!options_.policy_save.empty()) learned.emplace(options_.policy_save);
    WeirMachineDesc desc = constrained_machine(options_, settings_);
    std::optional<LinkTimes> links;
    if (options_.pace && options_.backend == "host")
      desc.context_options += links.emplace().option();
    constrained(desc, learned ? &*learned : nullptr);
    if (links)
      report_.links = links->between(report_.constrained.begin_ns, report_.constrained.end_ns);
  }

  void constrained(const WeirMachineDesc &desc, OutputFile *learned) {
    WeirMachine machine(desc, plan_.block_bytes.size());
    if (!options_.policy_load.empty()) machine.load_policy(bytes_of(options_.policy_load));
    if (warms_up()) report_.first_seconds = measured("warming up", machine).seconds;
    machine.take_lower_peaks();
    const weir_pool_stats before = machine.stats();
    if (warms_up()) report_.first_promoted = before.promoted_bytes;
    report_.constrained = measured("constrained", machine);
    report_.stats = stats_between(before, machine.stats());
    report_.lower_peaks = machine.take_lower_peaks();
    if (learned != nullptr) learned->commit(machine.save_policy());
  }

  void oracle() {
    report_.oracle = run_oracle(plan_, report_.stats.device_budget - settings_.neighbour_budget);
    if (!options_.pace) return;
    report_.compute_seconds = compute_seconds(plan_, *options_.pace);
    report_.oracle_slowdown =
        oracle_slowdown(report_.oracle, *report_.compute_seconds, options_.pace->link_bandwidth());
    if (options_.backend != "host") return;  // whose link has another pace than the options say
    progress_.start("bounding", "operations", plan_.operations.size());
    const uint64_t capacity = report_.stats.device_budget - settings_.neighbour_budget;
    const auto bound = [&](Unwritten unwritten) {
      return least_time(plan_, capacity, *options_.pace, options_.touch, bound_cuts, unwritten);
    };
    report_.bound = bound(Unwritten::zero);
    report_.bound_loaded = bound(Unwritten::loaded);
  }

  const ReplayOptions &options_;
  std::unique_ptr<TraceFile> file_;  ///< until it is read
  Progress progress_;
  Pattern pattern_;
  Plan plan_;
  Settings settings_;
  RunOptions run_options_;
  Report report_;
};

void print_errors(const std::vector<VerifyError> &errors) {
  for (const VerifyError &error : errors)
    std::fprintf(stderr,
                 "wrong: operation %llu, block %u, offset %llu: expected %016llx, got %016llx\n",
                 static_cast<unsigned long long>(error.operation), error.block,
                 static_cast<unsigned long long>(error.offset),
                 static_cast<unsigned long long>(error.expected),
                 static_cast<unsigned long long>(error.got));
}

}  // namespace

int run_replay(const ReplayOptions &options) {
  std::optional<OutputFile> file;
  if (!options.json_out.empty()) file.emplace(options.json_out);
  auto trace = std::make_unique<TraceFile>(options.trace);
  recorded::ReplayReport report;
  if (trace->version() == 2 && !options.as_operations) {
    report = recorded::replay_recorded(*trace, options);
  } else {
    if (options.recorded_pace)
      throw ToolError("--pace: 'recorded' is for recorded programs (#vmt 2), as they were");
    Replay replay(options, std::move(trace));  // what the report points at
    const Report found = replay.run();
    report = {report_text(found), report_json(found), found.verify_errors, found.first_errors};
  }
  if (file) file->commit(report.json);
  const std::string &text = options.json ? report.json : report.text;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw ToolError("cannot write the report to standard output");
  if (report.verify_errors == 0) return 0;
  print_errors(report.first_errors);
  throw ToolError(std::to_string(report.verify_errors) +
                  " words read back were not what was written");
}

}  // namespace weir::tool
