// SPDX-License-Identifier: Apache-2.0
//
// The requirements of one run on one device: running them several at a time, judging what came of their processes, and
// telling it in their order. Several devices are several suites, one after the other, which share what is in Common.
#pragma once

#include "conformance/filter.hpp"
#include "conformance/report.hpp"
#include "conformance/running.hpp"
#include "conformance/settings.hpp"
#include "conformance/waivers.hpp"

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace weir::conformance {

/// What the suites of all devices have in common.
struct Common {
  std::string today;  ///< in UTC
  std::vector<Waiver> waivers;
  Filter filter;
  size_t told = 0;  ///< how many results are on stdout
};

void print(const std::string &text);

class Suite {
 public:
  /// On settings.device.
  Suite(Settings settings, Common &common);

  /// Looks at the backend and the device: "" or why nothing can be run.
  std::string look();
  /// Runs all of them. `lost`: a process is stuck in the driver already, and nothing is run. True if one is now.
  bool run(bool lost);
  /// Goes to stdout and into the bundle.
  void say(const std::string &text);
  /// Goes into the bundle.
  void record(const std::string &text) { tap_ += text; }
  /// Writes the bundle into a folder that is there: "" or what could not be written.
  std::string write(const std::string &folder) const;
  std::string junit() const { return junit_suite(results_, facts_, settings_); }

  uint32_t devices() const;
  uint32_t device() const noexcept { return settings_.device; }
  const std::vector<Result> &results() const noexcept { return results_; }

 private:
  struct Job {
    size_t index = 0;
    Running running;
  };
  using Jobs = std::vector<std::unique_ptr<Job>>;
  bool may_start(const Jobs &jobs, size_t next) const;
  void start(Job &job);
  void read_verdict(const Running &running, Result *result) const;
  void judge(const Job &job);
  void give_up(size_t next);
  void waive(Result &result);
  void tell_finished();
  /// True if a process is stuck in the driver.
  bool soak();
  void tell_soaked(uint64_t seed, Result result);

  const Settings settings_;
  Common &common_;
  Facts facts_;
  std::vector<Result> results_;
  std::vector<bool> finished_;
  size_t told_ = 0;
  std::string tap_, log_;
  /// What soak() tells of: requirements by name and seed.
  std::deque<std::pair<std::string, Requirement>> soaked_;
};

}  // namespace weir::conformance
