// SPDX-License-Identifier: Apache-2.0
//
// A run: one suite, or one for each device. Everything is looked at before the first requirement is run, so that what
// can't be run is told at once.
#include "conformance/runner.hpp"

#include "conformance/suite.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <sstream>

namespace weir::conformance {
namespace {

/// "" or why there is no such folder.
std::string make_folder(const std::string &path) {
  if (mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return {};
  return "cannot make " + path + ": " + std::strerror(errno);
}

class Run {
 public:
  explicit Run(const Settings &settings) : settings_(settings) { common_.today = today_utc(); }

  /// "" or why nothing can be run.
  std::string prepare();
  void run();
  /// "" or what could not be written.
  std::string write() const;
  bool good() const;

 private:
  std::string load_waivers();
  std::string find_devices();
  std::string folder_of(const Suite &suite) const;
  std::string waiver_lines() const;
  std::vector<Result> all_results() const;

  const Settings &settings_;
  Common common_;
  std::vector<std::unique_ptr<Suite>> suites_;
};

std::string Run::load_waivers() {
  if (settings_.waivers.empty()) return {};
  std::ifstream file(settings_.waivers);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return "cannot read " + settings_.waivers;
  const std::string why = read_waivers(text.str(), &common_.waivers);
  return why.empty() ? why : settings_.waivers + ": " + why;
}

/// The first device is looked at for their number.
std::string Run::find_devices() {
  for (uint32_t device = settings_.device; suites_.empty() || device < suites_[0]->devices();
       ++device) {
    Settings of_device = settings_;
    of_device.device = device;
    suites_.push_back(std::make_unique<Suite>(of_device, common_));
    if (std::string why = suites_.back()->look(); !why.empty())
      return settings_.all_devices ? "device " + std::to_string(device) + ": " + why : why;
    if (!settings_.all_devices) break;
  }
  return {};
}

std::string Run::folder_of(const Suite &suite) const {
  if (!settings_.all_devices) return settings_.bundle;
  return settings_.bundle + "/device-" + std::to_string(suite.device());
}

std::string Run::prepare() {
  if (std::string why = load_waivers(); !why.empty()) return why;
  if (std::string why = common_.filter.read(settings_.filter); !why.empty()) return why;
  if (std::string why = find_devices(); !why.empty()) return why;
  if (settings_.bundle.empty()) return {};
  if (std::string why = make_folder(settings_.bundle); !why.empty()) return why;
  for (const auto &suite : suites_) {
    if (std::string why = make_folder(folder_of(*suite)); !why.empty()) return why;
  }
  return {};
}

std::string Run::waiver_lines() const {
  std::string text;
  for (const Waiver &waiver : common_.waivers) {
    const std::string line = "# waiver of line " + std::to_string(waiver.line) + " (" +
                             waiver.test + ", " + waiver.issue + ")";
    if (!matches_a_requirement(waiver.test)) {
      text += line + " is mistyped: " + waiver.test + " matches no requirement\n";
    } else if (expired(waiver, common_.today)) {
      text += line + " is ignored: it expired on " + waiver.expiry + "\n";
    } else if (!waiver.used) {
      text += line + " was not needed\n";
    }
  }
  return text;
}

std::vector<Result> Run::all_results() const {
  std::vector<Result> all;
  for (const auto &suite : suites_)
    all.insert(all.end(), suite->results().begin(), suite->results().end());
  return all;
}

void Run::run() {
  const std::vector<Result> all_planned = all_results();
  // How many failures a soak adds is known at the end only, where a plan may stand too.
  const bool soaks = settings_.soak_s != 0;
  print("TAP version 13\n");
  if (!soaks) print("1.." + std::to_string(all_planned.size()) + "\n");
  print(std::string("# weir-conformance ") + suite_version() + "\n");
  bool lost = false;
  for (const auto &suite : suites_) {
    lost = suite->run(lost);
    if (!settings_.all_devices) continue;
    suite->say("# device " + std::to_string(suite->device()) + ": " + summary(suite->results()) +
               "\n" + ending(suite->results()));
  }
  // A waiver may have been needed on any of the devices.
  const std::string waivers = waiver_lines();
  for (const auto &suite : suites_) suite->record(waivers);
  print(waivers);
  const std::vector<Result> all = all_results();
  if (soaks) print("1.." + std::to_string(all.size()) + "\n");
  if (settings_.all_devices) {
    print("# all devices: " + summary(all) + "\n" + ending(all));
  } else {
    suites_[0]->say("# " + summary(all) + "\n" + ending(all));
  }
  if (count_order(all).applied < settings_.least_order)
    print("# failed: fewer than " + std::to_string(settings_.least_order) +
          " of them, which --order asks for\n");
}

std::string Run::write() const {
  if (!settings_.junit.empty()) {
    std::vector<std::string> texts;
    for (const auto &suite : suites_) texts.push_back(suite->junit());
    if (std::string why = write_file(settings_.junit, junit_text(texts, settings_.all_devices));
        !why.empty())
      return why;
  }
  if (settings_.bundle.empty()) return {};
  for (const auto &suite : suites_) {
    if (std::string why = suite->write(folder_of(*suite)); !why.empty()) return why;
  }
  return {};
}

bool Run::good() const {
  const std::vector<Result> all = all_results();
  return std::none_of(all.begin(), all.end(),
                      [](const Result &result) { return is_bad(result.verdict); }) &&
         count_order(all).applied >= settings_.least_order;
}

}  // namespace

int run_suite(const Settings &settings) {
  Run run(settings);
  if (const std::string why = run.prepare(); !why.empty()) {
    std::printf("Bail out! %s\n", why.c_str());
    return 2;
  }
  run.run();
  if (const std::string why = run.write(); !why.empty()) {
    std::fprintf(stderr, "weir-conformance: %s\n", why.c_str());
    return 2;
  }
  return run.good() ? 0 : 1;
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
