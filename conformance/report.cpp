// SPDX-License-Identifier: Apache-2.0
//
// Formats. Text of backends goes into them, so everything is escaped.
#include "conformance/report.hpp"

#include "conformance/waivers.hpp"

#include <conformance_version.hpp>

#include <sys/utsname.h>

#include <cstdio>
#include <fstream>
#include <sstream>

namespace weir::conformance {
namespace {

/// As a JSON string, with its quotes. Bytes that are no ASCII are written as Latin-1, so that any are legal.
std::string json(const std::string &text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string xml(const std::string &text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\n':
        out += "&#10;";
        break;
      default:
        out += byte < 0x20 || byte >= 0x7f ? '?' : c;
    }
  }
  return out;
}

std::string comment_lines(const std::string &text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += "# " + line + "\n";
  return out;
}

std::string seconds(uint64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6f", static_cast<double>(nanoseconds) * 1e-9);
  return text;
}

size_t count_of(const std::vector<Result> &results, Verdict verdict) {
  size_t count = 0;
  for (const Result &result : results) count += result.verdict == verdict ? 1U : 0U;
  return count;
}

std::string fact(const Facts &facts, const char *key) {
  const auto found = facts.find(key);
  return found != facts.end() ? found->second : "";
}

/// The value of the first line of a file that begins with the key.
std::string line_of(const char *path, const std::string &key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    const size_t first = line.find_first_not_of(" \t\"", at + 1);
    if (first == std::string::npos) return {};
    return line.substr(first, line.find_last_not_of(" \t\"") - first + 1);
  }
  return {};
}

/// "key": value pairs as an object; values are JSON already.
std::string object(const std::vector<std::pair<std::string, std::string>> &members,
                   const char *between) {
  std::string text = "{";
  for (size_t i = 0; i < members.size(); ++i) {
    text += (i != 0 ? "," : "") + std::string(between) + json(members[i].first) + ": " +
            members[i].second;
  }
  return text + (*between == '\n' ? "\n}" : "}");
}

}  // namespace

const char *verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::fail:
      return "fail";
    case Verdict::not_supported:
      return "not-supported";
    case Verdict::waived:
      return "waived";
    case Verdict::crash:
      return "crash";
    case Verdict::timeout:
      return "timeout";
  }
  return "fail";
}

std::string suite_version() {
  return std::string(WEIR_SUITE_VERSION) + " (" + WEIR_SUITE_TAG + ", " +
         (WEIR_SUITE_CLEAN != 0 ? "clean" : "not known to be clean") + ")";
}

std::string tap_line(size_t number, const Result &result) {
  const bool good = result.verdict == Verdict::pass || result.verdict == Verdict::not_supported;
  std::string line = (good ? "ok " : "not ok ") + std::to_string(number) + " - " +
                     result.requirement->id + " " + result.requirement->sentence;
  if (result.verdict == Verdict::not_supported) line += " # SKIP not-supported: " + result.message;
  if (result.verdict == Verdict::waived) line += " # TODO waived: " + result.waiver;
  line += "\n";
  if (result.verdict == Verdict::not_supported) return line;
  if (!good) {
    const Verdict what = result.verdict == Verdict::waived ? result.was : result.verdict;
    line += comment_lines(std::string(verdict_name(what)) + ": " + result.message);
    line += comment_lines(result.output);
  } else {
    line += comment_lines(result.message);
  }
  return line;
}

std::string json_line(const Result &result) {
  return object(
             {{"id", json(result.requirement->id)},
              {"group", json(group_of(*result.requirement))},
              {"level", json(level_of(result.requirement->needs))},
              {"verdict", json(verdict_name(result.verdict))},
              {"without_waiver",
               json(verdict_name(result.verdict == Verdict::waived ? result.was : result.verdict))},
              {"waiver", json(result.waiver)},
              {"duration_ns", std::to_string(result.duration_ns)},
              {"capabilities", json(capability_names(result.capabilities))},
              {"seed", std::to_string(result.seed)},
              {"message", json(result.message)}},
             " ") +
         "\n";
}

std::string junit_text(const std::vector<Result> &results, const Facts &facts) {
  std::string cases;
  uint64_t total = 0;
  for (const Result &result : results) {
    total += result.duration_ns;
    cases += "  <testcase classname=\"" + xml(group_of(*result.requirement)) + "\" name=\"" +
             xml(std::string(result.requirement->id) + " " + result.requirement->sentence) +
             "\" time=\"" + seconds(result.duration_ns) + "\"";
    const std::string inner = " message=\"" + xml(result.message) + "\"/>";
    switch (result.verdict) {
      case Verdict::pass:
        cases += "/>\n";
        continue;
      case Verdict::not_supported:
        cases += "><skipped" + inner;
        break;
      case Verdict::waived:
        cases += "><skipped message=\"" + xml("waived: " + result.waiver) + "\"/>";
        break;
      case Verdict::fail:
        cases += "><failure type=\"fail\"" + inner;
        break;
      case Verdict::crash:
        cases += "><error type=\"crash\"" + inner;
        break;
      case Verdict::timeout:
        cases += "><error type=\"timeout\"" + inner;
        break;
    }
    cases += "</testcase>\n";
  }
  const auto count = [&results](Verdict verdict) {
    return std::to_string(count_of(results, verdict));
  };
  const size_t errors = count_of(results, Verdict::crash) + count_of(results, Verdict::timeout);
  const size_t skipped =
      count_of(results, Verdict::not_supported) + count_of(results, Verdict::waived);
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"weir-conformance " +
         xml(fact(facts, "backend")) + "\" tests=\"" + std::to_string(results.size()) +
         "\" failures=\"" + count(Verdict::fail) + "\" errors=\"" + std::to_string(errors) +
         "\" skipped=\"" + std::to_string(skipped) + "\" time=\"" + seconds(total) + "\">\n" +
         cases + "</testsuite>\n";
}

std::string submission_text(const std::vector<Result> &results, const Facts &facts,
                            const Settings &settings) {
  std::vector<std::pair<std::string, std::string>> members{
      {"suite", json(WEIR_SUITE_VERSION)},
      {"tag", json(WEIR_SUITE_TAG)},
      {"clean_tree", WEIR_SUITE_CLEAN != 0 ? "true" : "false"},
      {"date", json(today_utc())},
      {"abi_major", std::to_string(WEIR_BACKEND_ABI_MAJOR)},
      {"options", json(settings.options)},
      {"filter", json(settings.filter)},
      {"device_index", std::to_string(settings.device)},
      {"seed", std::to_string(settings.seed)},
      {"jobs", std::to_string(settings.jobs)},
      {"timeout_s", std::to_string(settings.timeout_s)},
      {"allow_oom", settings.allow_oom ? "true" : "false"},
      {"waivers", settings.waivers.empty() ? "false" : "true"},
      {"complete", results.size() == requirements().size() ? "true" : "false"}};
  for (const auto &[key, value] : facts) members.emplace_back("said_" + key, json(value));
  utsname system{};
  if (uname(&system) == 0)
    members.emplace_back(
        "kernel", json(std::string(system.sysname) + " " + system.release + " " + system.machine));
  members.emplace_back("os", json(line_of("/etc/os-release", "PRETTY_NAME", '=')));
  members.emplace_back("cpu", json(line_of("/proc/cpuinfo", "model name", ':')));
  for (const Verdict verdict : all_verdicts) {
    members.emplace_back(std::string("count_") + verdict_name(verdict),
                         std::to_string(count_of(results, verdict)));
  }
  return object(members, "\n") + "\n";
}

std::string summary(const std::vector<Result> &results) {
  std::string text;
  for (const Verdict verdict : all_verdicts) {
    const size_t count = count_of(results, verdict);
    if (count == 0 && verdict != Verdict::pass) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + verdict_name(verdict);
  }
  return text;
}

std::string write_file(const std::string &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? "" : "cannot write " + path;
}

}  // namespace weir::conformance
