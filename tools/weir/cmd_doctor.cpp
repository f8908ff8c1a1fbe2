// SPDX-License-Identifier: Apache-2.0
//
// `weir doctor`: what of this machine and this process holds Weir back, and what to change. It starts no backend and changes nothing.
#include "commands.hpp"
#include "doctor/checks.hpp"
#include "error.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <utility>

namespace weir::tool {
namespace {

using doctor::Finding;
using doctor::Level;
using Json = nlohmann::ordered_json;

const char *level_name(Level level) {
  switch (level) {
    case Level::ok:
      return "ok";
    case Level::warn:
      return "warn";
    case Level::bad:
      break;
  }
  return "bad";
}

size_t count(const std::vector<Finding> &findings, Level level) {
  size_t found = 0;
  for (const Finding &finding : findings) found += finding.level == level ? 1 : 0;
  return found;
}

void print_json(const std::vector<Finding> &findings) {
  Json checks = Json::array();
  for (const Finding &finding : findings)
    checks.push_back({{"check", finding.check},
                      {"level", level_name(finding.level)},
                      {"found", finding.found},
                      {"why", finding.why},
                      {"change", finding.change}});
  const Json json{{"checks", std::move(checks)},
                  {"ok", count(findings, Level::ok)},
                  {"warn", count(findings, Level::warn)},
                  {"bad", count(findings, Level::bad)}};
  std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

void print(const std::vector<Finding> &findings) {
  for (const Finding &finding : findings) {
    std::printf("%-4s  %-13s  %s\n", level_name(finding.level), finding.check.c_str(),
                finding.found.c_str());
    std::printf("      %-13s  %s\n", "why", finding.why.c_str());
    for (const std::string &change : finding.change)
      std::printf("      %-13s  %s\n", "change", change.c_str());
  }
  std::printf("%zu checks: %zu ok, %zu warn, %zu bad\n", findings.size(),
              count(findings, Level::ok), count(findings, Level::warn),
              count(findings, Level::bad));
}

}  // namespace

int run_doctor(const DoctorFlags &flags) {
  constexpr size_t most_folders = 16;  // weir/pool.h
  if (flags.storage.size() > most_folders)
    throw ToolError("--storage: " + std::to_string(flags.storage.size()) +
                    " directories are more than 16");
  const std::vector<Finding> findings = doctor::examine(doctor::this_machine(flags.storage));
  flags.json ? print_json(findings) : print(findings);
  if (std::fflush(stdout) != 0) throw ToolError("cannot write to standard output");
  return count(findings, Level::bad) != 0 ? 1 : 0;
}

}  // namespace weir::tool
