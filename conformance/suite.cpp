// SPDX-License-Identifier: Apache-2.0
//
// Processes become results. Nothing here starts a runtime or loads a backend.
#include "conformance/suite.hpp"

#include "conformance/child.hpp"

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace weir::conformance {
namespace {

constexpr uint64_t second_ns = 1'000'000'000;

/// Of what a requirement's process told, which has ended well.
Verdict verdict_of(const Report &report, const Needs &needs) {
  if (report.verdict == "pass") return Verdict::pass;
  if (report.verdict == "empty") return Verdict::empty;
  if (report.verdict == "not-supported") return Verdict::not_supported;
  return needs.advised ? Verdict::advised : Verdict::fail;
}

}  // namespace

void print(const std::string &text) {
  (void)std::fwrite(text.data(), 1, text.size(), stdout);
  (void)std::fflush(stdout);
}

Suite::Suite(Settings settings, Common &common) : settings_(std::move(settings)), common_(common) {
  for (const Requirement &each : requirements()) {
    if (!common_.filter.chooses(each.id)) continue;
    Result result;
    result.requirement = &each;
    result.seed = seed_for(settings_.seed, each.id);
    result.device = settings_.device;
    result.tells_device = settings_.all_devices;
    result.again = again(settings_, each.id);
    results_.push_back(std::move(result));
  }
  finished_.resize(results_.size());
}

void Suite::say(const std::string &text) {
  record(text);
  print(text);
}

uint32_t Suite::devices() const {
  const auto found = facts_.find("devices");
  return found != facts_.end() ? static_cast<uint32_t>(std::stoul(found->second)) : 0;
}

std::string Suite::look() {
  Running running;
  const std::string why =
      run_to_end(running, arguments_for(settings_, Settings::Role::describe, ""),
                 settings_.timeout_s * second_ns);
  if (!why.empty()) return why;
  if (running.timed_out()) return running.told_end("the backend does not start within the timeout");
  std::istringstream lines(running.told());
  for (std::string line; std::getline(lines, line);) {
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) facts_[line.substr(0, tab)] = line.substr(tab + 1);
  }
  if (facts_.contains("error")) return facts_["error"];
  if (const std::string end = running.bad_end(); !end.empty())
    return "looking at the backend: " + running.told_end(end) + "\n" + running.output();
  return facts_.contains("backend") ? "" : "the backend told nothing of itself";
}

bool Suite::may_start(const Jobs &jobs, size_t next) const {
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

void Suite::read_verdict(const Running &running, Result *to) const {
  Result &result = *to;
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
    result.message =
        told ? result.message + "; it had told: " + report.verdict + " " + report.message
             : running.told_end(result.message);
  } else if (!told || !end.empty()) {
    result.verdict = Verdict::crash;
    result.message = end.empty() ? "the process ended without a verdict" : end;
    result.message =
        told ? result.message + " after its verdict: " + report.verdict + " " + report.message
             : running.told_end(result.message);
  } else {
    result.verdict = verdict_of(report, result.requirement->needs);
  }
  if (result.verdict == Verdict::fail || result.verdict == Verdict::advised ||
      result.verdict == Verdict::crash || result.verdict == Verdict::timeout)
    result.calls = running.last_calls();
}

void Suite::judge(const Job &job) {
  Result &result = results_[job.index];
  read_verdict(job.running, &result);
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
  if (!is_bad(result.verdict) && result.verdict != Verdict::advised) return;
  Waiver *waiver = find_waiver(common_.waivers, facts_["backend"], facts_["device"],
                               result.requirement->id, common_.today);
  if (waiver == nullptr) return;
  waiver->used = true;
  if (result.verdict == Verdict::advised)
    return;  // it is no failure that a waiver would have to cover
  result.was = result.verdict;
  result.verdict = Verdict::waived;
  result.waiver = waiver->issue + ": " + waiver->reason + " (until " + waiver->expiry + ")";
}

void Suite::tell_finished() {
  for (; told_ < results_.size() && finished_[told_]; ++told_) {
    const Result &result = results_[told_];
    print(tap_line(++common_.told, result));
    record(tap_line(told_ + 1, result));
    log_ += std::string("== ") + result.requirement->id + " " + verdict_name(result.verdict) + "\n";
    log_ += result.message + (result.message.empty() ? "" : "\n") + result.output;
    log_ += result.calls;
  }
}

bool Suite::run(bool lost) {
  // How many failures soak() adds is known at the end only, where a plan may stand too.
  const bool soaks = settings_.soak_s != 0;
  const auto plan = [this] { record("1.." + std::to_string(results_.size()) + "\n"); };
  record("TAP version 13\n");
  if (!soaks) plan();
  record(std::string("# weir-conformance ") + suite_version() + "\n");
  for (const auto &[key, value] : facts_) say("# " + key + ": " + value + "\n");
  say(settings_lines(settings_));
  Jobs jobs;
  size_t next = 0;
  const auto end_here = [&] {
    give_up(next);
    next = results_.size();
    lost = true;
  };
  if (lost) end_here();
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
      if (job->running.stuck()) end_here();
      return true;
    });
    tell_finished();
  }
  tell_finished();
  if (soaks && !lost) lost = soak();
  if (soaks) plan();
  return lost;
}

std::string Suite::write(const std::string &folder) const {
  std::string lines;
  for (const Result &result : results_) lines += json_line(result);
  const std::pair<const char *, std::string> files[] = {
      {"submission.json", submission_text(results_, facts_, settings_)},
      {"results.jsonl", lines},
      {"results.tap", tap_},
      {"log.txt", log_}};
  for (const auto &[name, text] : files) {
    if (std::string why = write_file(folder + "/" + name, text); !why.empty()) return why;
  }
  return {};
}

}  // namespace weir::conformance
