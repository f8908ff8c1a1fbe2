// SPDX-License-Identifier: Apache-2.0
//
// Results, and the forms in which they are told: TAP, JUnit, JSON lines, a bundle. Nothing here decides
// anything.
#pragma once

#include "conformance/settings.hpp"
#include "conformance/test.hpp"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace weir::conformance {

/// The closed set. `empty`: the requirement applied and found nothing to look at. `advised`: what is advised is not kept.
enum class Verdict : uint8_t { pass, fail, not_supported, waived, crash, timeout, empty, advised };
inline constexpr std::array<Verdict, 8> all_verdicts{
    Verdict::pass,  Verdict::fail,    Verdict::not_supported, Verdict::waived,
    Verdict::crash, Verdict::timeout, Verdict::empty,         Verdict::advised};
const char *verdict_name(Verdict verdict);
/// Whether the run has failed by it.
constexpr bool is_bad(Verdict verdict) {
  return verdict == Verdict::fail || verdict == Verdict::crash || verdict == Verdict::timeout;
}

struct Result {
  const Requirement *requirement = nullptr;
  Verdict verdict = Verdict::fail;
  std::string message;
  std::string output;           ///< what the test's process printed
  std::string calls;            ///< its last calls, for the log, if it did not pass
  std::string waiver;           ///< issue and reason, if waived
  Verdict was = Verdict::fail;  ///< if waived: the verdict without the waiver
  uint64_t duration_ns = 0;
  uint64_t capabilities = 0;
  uint64_t seed = 0;
  uint32_t device = 0;        ///< the device under test
  bool tells_device = false;  ///< the run has results of several devices: "VM-013 [1]"
  std::string again;          ///< the command line that does it again
};

/// What the backend and the device said of themselves; keys as in child.cpp.
using Facts = std::map<std::string, std::string>;

std::string tap_line(size_t number, const Result &result);
/// How the run was asked for, as comments of TAP.
std::string settings_lines(const Settings &settings);
/// The suite of one device.
std::string junit_suite(const std::vector<Result> &results, const Facts &facts,
                        const Settings &settings);
/// The file: its root is the one suite, or holds those of all devices.
std::string junit_text(const std::vector<std::string> &suites, bool all_devices);
std::string json_line(const Result &result);
/// Versions, backend, device, machine, settings and counts as one JSON object.
std::string submission_text(const std::vector<Result> &results, const Facts &facts,
                            const Settings &settings);
std::string summary(const std::vector<Result> &results);
/// Requirements of order: those that hold a stream up, and see what waits for it. How many were planned, and how many of them applied.
struct OrderCount {
  size_t planned = 0, applied = 0;
};
OrderCount count_order(const std::vector<Result> &results);
/// Which requirements did not pass, by verdict, and which took longest, as comments of TAP.
std::string ending(const std::vector<Result> &results);
/// "Suite 1.0.0 (tag, clean)".
std::string suite_version();

/// "" or why the file could not be written.
std::string write_file(const std::string &path, const std::string &text);

}  // namespace weir::conformance
