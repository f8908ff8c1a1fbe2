// SPDX-License-Identifier: Apache-2.0
//
// --soak: the random model of FA-007 with seed after seed, each in a process of its own, until the time is over. Seeds that pass are
// counted; one that fails is a result of its own behind those of the list.
#include "conformance/suite.hpp"
#include "conformance/test.hpp"

#include <cstdlib>
#include <utility>

namespace weir::conformance {
namespace {

constexpr uint64_t second_ns = 1'000'000'000;
/// What --soak repeats.
constexpr const char *soaked_requirement = "FA-007";

bool has_passed(Verdict verdict) {
  return verdict == Verdict::pass || verdict == Verdict::not_supported || verdict == Verdict::empty;
}

}  // namespace

void Suite::tell_soaked(uint64_t seed, Result result) {
  Settings of_seed = settings_;
  of_seed.seed = seed;
  result.seed = seed;
  result.device = settings_.device;
  result.tells_device = settings_.all_devices;
  result.again = again(of_seed, soaked_requirement);
  waive(result);
  soaked_.emplace_back(std::string(soaked_requirement) + " seed " + std::to_string(seed),
                       *result.requirement);
  soaked_.back().second.id = soaked_.back().first.c_str();
  result.requirement = &soaked_.back().second;
  results_.push_back(std::move(result));
  finished_.push_back(true);
  tell_finished();
}

/// One seed at the least.
bool Suite::soak() {
  const uint64_t end = now_ns() + settings_.soak_s * second_ns;
  Settings each = settings_;
  uint64_t seeds = 0, steps = 0, failures = 0;
  bool stuck = false;
  for (bool goes_on = true; goes_on; ++each.seed) {
    Running running;
    const std::string why =
        run_to_end(running, arguments_for(each, Settings::Role::one, soaked_requirement),
                   each.timeout_s * second_ns);
    Result result;
    result.requirement = find_requirement(soaked_requirement);
    result.message = why;
    if (why.empty()) read_verdict(running, &result);
    ++seeds;
    if (has_passed(result.verdict)) {
      // The note of a model that passed begins with the number of its steps.
      steps += std::strtoull(result.message.c_str(), nullptr, 10);
    } else {
      ++failures;
      tell_soaked(each.seed, std::move(result));
    }
    stuck = running.stuck();
    goes_on = why.empty() && !stuck && now_ns() < end;
  }
  say("# soak: " + std::to_string(seeds) + " seeds from " + std::to_string(settings_.seed) +
      " on, " + std::to_string(steps) + " steps, " + std::to_string(failures) + " failed\n");
  return stuck;
}

}  // namespace weir::conformance
