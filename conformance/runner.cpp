// SPDX-License-Identifier: Apache-2.0
//
// Choosing requirements, running them several at a time, judging what came of their processes, and telling
// it in their order.
#include "conformance/runner.hpp"

#include "conformance/child.hpp"
#include "conformance/report.hpp"
#include "conformance/running.hpp"
#include "conformance/waivers.hpp"

#include <fnmatch.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

namespace weir::conformance {
namespace {

constexpr uint64_t second_ns = 1'000'000'000;

bool chosen(const std::string &filter, const std::string &id) {
  if (filter.empty()) return true;
  std::istringstream globs(filter);
  for (std::string glob; std::getline(globs, glob, ',');) {
    if (fnmatch(glob.c_str(), id.c_str(), 0) == 0) return true;
  }
  return false;
}

/// Waits until one of them has something to tell, has ended, or has used up its time.
void wait_for_any(const std::vector<Running *> &running) {
  std::vector<pollfd> waiting;
  uint64_t deadline = UINT64_MAX;
  for (const Running *each : running) {
    for (const int fd : {each->told_descriptor(), each->output_descriptor()}) {
      if (fd >= 0) waiting.push_back({fd, POLLIN, 0});
    }
    // Once it has closed its pipes it is about to end, which no descriptor tells.
    const bool ending = each->told_descriptor() < 0;
    deadline = std::min(deadline, ending ? now_ns() + 1'000'000 : each->deadline_ns());
  }
  const uint64_t now = now_ns();
  const uint64_t left = deadline > now ? (deadline - now) / 1'000'000 + 1 : 0;
  (void)poll(waiting.data(), waiting.size(), static_cast<int>(std::min<uint64_t>(left, 1000)));
}

/// Lets a process run to its end.
std::string run_to_end(Running &running, const std::vector<std::string> &arguments,
                       uint64_t timeout_ns) {
  if (std::string why = running.start(arguments, timeout_ns); !why.empty()) return why;
  while (!running.step()) wait_for_any({&running});
  return {};
}

class Suite {
 public:
  explicit Suite(const Settings &settings) : settings_(settings), today_(today_utc()) {}

  /// "" or why nothing can be run.
  std::string prepare();
  void run();
  /// "" or what could not be written.
  std::string write() const;
  bool good() const;

 private:
  struct Job {
    size_t index = 0;
    Running running;
  };
  std::string load_waivers();
  std::string look();
  bool may_start(const std::vector<std::unique_ptr<Job>> &jobs, size_t next) const;
  void start(Job &job);
  void judge(const Job &job);
  void give_up(size_t next);
  void waive(Result &result);
  void tell_finished();
  void say(const std::string &text);
  void say_waivers();

  const Settings &settings_;
  const std::string today_;
  std::vector<Waiver> waivers_;
  Facts facts_;
  std::vector<Result> results_;
  std::vector<bool> finished_;
  size_t told_ = 0;
  std::string tap_, log_;
};

void Suite::say(const std::string &text) {
  tap_ += text;
  (void)std::fwrite(text.data(), 1, text.size(), stdout);
  (void)std::fflush(stdout);
}

std::string Suite::load_waivers() {
  if (settings_.waivers.empty()) return {};
  std::ifstream file(settings_.waivers);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return "cannot read " + settings_.waivers;
  const std::string why = read_waivers(text.str(), &waivers_);
  return why.empty() ? why : settings_.waivers + ": " + why;
}

std::string Suite::look() {
  Running running;
  const std::string why =
      run_to_end(running, arguments_for(settings_, Settings::Role::describe, ""),
                 settings_.timeout_s * second_ns);
  if (!why.empty()) return why;
  if (running.timed_out()) return "the backend does not start within the timeout";
  std::istringstream lines(running.told());
  for (std::string line; std::getline(lines, line);) {
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) facts_[line.substr(0, tab)] = line.substr(tab + 1);
  }
  if (facts_.contains("error")) return facts_["error"];
  if (const std::string end = running.bad_end(); !end.empty())
    return "looking at the backend: " + end + "\n" + running.output();
  return facts_.contains("backend") ? "" : "the backend told nothing of itself";
}

std::string Suite::prepare() {
  if (std::string why = load_waivers(); !why.empty()) return why;
  for (const Requirement &each : requirements()) {
    if (!chosen(settings_.filter, each.id)) continue;
    Result result;
    result.requirement = &each;
    result.seed = seed_for(settings_.seed, each.id);
    results_.push_back(result);
  }
  if (results_.empty()) return "no requirement matches " + settings_.filter;
  finished_.resize(results_.size());
  if (std::string why = look(); !why.empty()) return why;
  if (!settings_.bundle.empty() && mkdir(settings_.bundle.c_str(), 0777) != 0 && errno != EEXIST)
    return "cannot make " + settings_.bundle + ": " + std::strerror(errno);
  return {};
}

bool Suite::may_start(const std::vector<std::unique_ptr<Job>> &jobs, size_t next) const {
  if (next == results_.size() || jobs.size() >= settings_.jobs) return false;
  if (jobs.empty()) return true;
  const auto is_alone = [this](size_t index) { return results_[index].requirement->needs.alone; };
  return !is_alone(next) && !is_alone(jobs.front()->index);
}

void Suite::start(Job &job) {
  const Requirement &requirement = *results_[job.index].requirement;
  const std::string why =
      job.running.start(arguments_for(settings_, Settings::Role::one, requirement.id),
                        settings_.timeout_s * second_ns);
  if (!why.empty()) log_ += std::string(requirement.id) + ": " + why + "\n";
}

void Suite::judge(const Job &job) {
  Result &result = results_[job.index];
  const Running &running = job.running;
  Report report;
  const bool told = read_report(running.told(), &report);
  const std::string end = running.bad_end();
  result.output = running.output();
  result.duration_ns = running.duration_ns();
  result.capabilities = report.capabilities;
  result.message = report.message;
  if (running.timed_out()) {
    result.verdict = Verdict::timeout;
    result.message = "not ended after " + std::to_string(settings_.timeout_s) + " s";
    if (running.stuck()) result.message += "; killed, and does not end: it is stuck in its driver";
    if (told) result.message += "; it had told: " + report.verdict + " " + report.message;
  } else if (!told || !end.empty()) {
    result.verdict = Verdict::crash;
    result.message = end.empty() ? "the process ended without a verdict" : end;
    if (told) result.message += " after its verdict: " + report.verdict + " " + report.message;
  } else if (report.verdict == "pass") {
    result.verdict = Verdict::pass;
  } else {
    result.verdict = report.verdict == "fail" ? Verdict::fail : Verdict::not_supported;
  }
  waive(result);
  finished_[job.index] = true;
}

/// A device whose driver does not come back is none to go on with.
void Suite::give_up(size_t next) {
  for (; next < results_.size(); ++next) {
    results_[next].verdict = Verdict::timeout;
    results_[next].message = "not run: a process before it is stuck in the driver";
    finished_[next] = true;
  }
}

void Suite::waive(Result &result) {
  if (result.verdict == Verdict::pass || result.verdict == Verdict::not_supported) return;
  Waiver *waiver =
      find_waiver(waivers_, facts_["backend"], facts_["device"], result.requirement->id, today_);
  if (waiver == nullptr) return;
  waiver->used = true;
  result.was = result.verdict;
  result.verdict = Verdict::waived;
  result.waiver = waiver->issue + ": " + waiver->reason + " (until " + waiver->expiry + ")";
}

void Suite::tell_finished() {
  for (; told_ < results_.size() && finished_[told_]; ++told_) {
    const Result &result = results_[told_];
    say(tap_line(told_ + 1, result));
    log_ += std::string("== ") + result.requirement->id + " " + verdict_name(result.verdict) + "\n";
    log_ += result.message + (result.message.empty() ? "" : "\n") + result.output;
  }
}

void Suite::say_waivers() {
  for (const Waiver &waiver : waivers_) {
    const std::string line = "# waiver of line " + std::to_string(waiver.line) + " (" +
                             waiver.test + ", " + waiver.issue + ")";
    if (expired(waiver, today_)) {
      say(line + " is ignored: it expired on " + waiver.expiry + "\n");
    } else if (!waiver.used) {
      say(line + " was not needed\n");
    }
  }
}

void Suite::run() {
  say("TAP version 13\n1.." + std::to_string(results_.size()) + "\n# weir-conformance " +
      suite_version() + "\n");
  for (const auto &[key, value] : facts_) say("# " + key + ": " + value + "\n");
  std::vector<std::unique_ptr<Job>> jobs;
  size_t next = 0;
  while (next < results_.size() || !jobs.empty()) {
    while (may_start(jobs, next)) {
      jobs.push_back(std::make_unique<Job>());
      jobs.back()->index = next++;
      start(*jobs.back());
    }
    std::vector<Running *> running;
    for (const auto &job : jobs) running.push_back(&job->running);
    wait_for_any(running);
    std::erase_if(jobs, [&](const std::unique_ptr<Job> &job) {
      if (!job->running.step()) return false;
      judge(*job);
      if (job->running.stuck()) {
        give_up(next);
        next = results_.size();
      }
      return true;
    });
    tell_finished();
  }
  say_waivers();
  say("# " + summary(results_) + "\n");
}

std::string Suite::write() const {
  std::vector<std::pair<std::string, std::string>> files;
  if (!settings_.junit.empty()) files.emplace_back(settings_.junit, junit_text(results_, facts_));
  if (!settings_.bundle.empty()) {
    std::string lines;
    for (const Result &result : results_) lines += json_line(result);
    const std::string folder = settings_.bundle + "/";
    files.emplace_back(folder + "submission.json", submission_text(results_, facts_, settings_));
    files.emplace_back(folder + "results.jsonl", lines);
    files.emplace_back(folder + "results.tap", tap_);
    files.emplace_back(folder + "log.txt", log_);
  }
  for (const auto &[path, text] : files) {
    if (std::string why = write_file(path, text); !why.empty()) return why;
  }
  return {};
}

bool Suite::good() const {
  return std::none_of(results_.begin(), results_.end(), [](const Result &result) {
    return result.verdict == Verdict::fail || result.verdict == Verdict::crash ||
           result.verdict == Verdict::timeout;
  });
}

}  // namespace

int run_suite(const Settings &settings) {
  Suite suite(settings);
  if (const std::string why = suite.prepare(); !why.empty()) {
    std::printf("Bail out! %s\n", why.c_str());
    return 2;
  }
  suite.run();
  if (const std::string why = suite.write(); !why.empty()) {
    std::fprintf(stderr, "weir-conformance: %s\n", why.c_str());
    return 2;
  }
  return suite.good() ? 0 : 1;
}

void print_list() {
  std::printf(
      "# SPDX-License-Identifier: Apache-2.0\n"
      "#\n"
      "# What a backend must do, requirement by requirement: id | level | sentence. This list is "
      "normative; it is\n"
      "# written by `weir-conformance --list`, and a test compares the two. Numbers are never "
      "reused.\n");
  for (const Requirement &each : requirements())
    std::printf("%s | %s | %s\n", each.id, level_of(each.needs).c_str(), each.sentence);
}

}  // namespace weir::conformance
