// SPDX-License-Identifier: Apache-2.0
//
// Formats. Text of backends goes into them, so everything is escaped.
#include "conformance/report.hpp"

#include "conformance/waivers.hpp"

#include <conformance_version.hpp>

#include <sys/utsname.h>

#include <algorithm>
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

/// For a place where a line end would end what is said.
std::string one_line(std::string text) {
  for (char &c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return text;
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

bool is_skipped(Verdict verdict) {
  return verdict == Verdict::not_supported || verdict == Verdict::empty;
}

/// "VM-013", or "VM-013 [1]" where the device must be told.
std::string with_device(const std::string &text, const Result &result) {
  return result.tells_device ? text + " [" + std::to_string(result.device) + "]" : text;
}

/// How the run was asked for.
std::vector<std::pair<std::string, std::string>> told_settings(const Settings &settings) {
  return {{"device-index", std::to_string(settings.device)},
          {"options", settings.options},
          {"filter", settings.filter},
          {"seed", std::to_string(settings.seed)},
          {"timeout", std::to_string(settings.timeout_s)},
          {"jobs", std::to_string(settings.jobs)},
          {"soak", std::to_string(settings.soak_s)},
          {"allow-oom", settings.allow_oom ? "yes" : "no"}};
}

/// Without those that a soak added.
size_t of_list(const std::vector<Result> &results) {
  size_t count = 0;
  for (const Result &result : results)
    count += find_requirement(result.requirement->id) != nullptr ? 1U : 0U;
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
    case Verdict::empty:
      return "empty";
    case Verdict::advised:
      return "advised";
  }
  return "fail";
}

std::string suite_version() {
  return std::string(WEIR_SUITE_VERSION) + " (" + WEIR_SUITE_TAG + ", " +
         (WEIR_SUITE_CLEAN != 0 ? "clean" : "not known to be clean") + ")";
}

std::string tap_line(size_t number, const Result &result) {
  const Verdict verdict = result.verdict;
  const bool skipped = is_skipped(verdict);
  const bool good = skipped || verdict == Verdict::pass;
  std::string line = (good ? "ok " : "not ok ") + std::to_string(number) + " - " +
                     with_device(result.requirement->id, result) + " " +
                     result.requirement->sentence;
  if (skipped)
    line += std::string(" # SKIP ") + verdict_name(verdict) + ": " + one_line(result.message);
  if (verdict == Verdict::waived) line += " # TODO waived: " + one_line(result.waiver);
  if (verdict == Verdict::advised) line += " # TODO advised: " + one_line(result.message);
  line += "\n";
  if (skipped) return line;
  if (good) return line + comment_lines(result.message);
  const Verdict what = verdict == Verdict::waived ? result.was : verdict;
  line += comment_lines(std::string(verdict_name(what)) + ": " + result.message);
  line += comment_lines(result.output);
  if (!result.again.empty()) line += comment_lines("again: " + one_line(result.again));
  return line;
}

std::string settings_lines(const Settings &settings) {
  std::string text;
  for (const auto &[key, value] : told_settings(settings))
    text += "# " + key + ": " + one_line(value) + "\n";
  return text;
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
              {"device_index", std::to_string(result.device)},
              {"message", json(result.message)}},
             " ") +
         "\n";
}

namespace {

/// What says how a test ended; "" for one that passed.
std::string junit_end(const Result &result) {
  const std::string message = " message=\"" + xml(result.message) + "\"/>";
  switch (result.verdict) {
    case Verdict::pass:
      return {};
    case Verdict::not_supported:
      return "<skipped" + message;
    case Verdict::empty:
    case Verdict::advised:
      return "<skipped message=\"" +
             xml(std::string(verdict_name(result.verdict)) + ": " + result.message) + "\"/>";
    case Verdict::waived:
      return "<skipped message=\"" + xml("waived: " + result.waiver) + "\"/>";
    case Verdict::fail:
      return "<failure type=\"fail\"" + message;
    case Verdict::crash:
    case Verdict::timeout:
      return std::string("<error type=\"") + verdict_name(result.verdict) + "\"" + message;
  }
  return {};
}

/// What the test printed, what is to be known of one that passed, and how to do again one that did not.
std::string junit_output(const Result &result) {
  std::string text;
  const auto add = [&text](const std::string &line) {
    if (!line.empty()) text += line + (line.back() == '\n' ? "" : "\n");
  };
  if (result.verdict == Verdict::pass) add(result.message);
  add(result.output);
  if (result.verdict != Verdict::pass && !is_skipped(result.verdict) && !result.again.empty())
    add("again: " + result.again);
  return text.empty() ? text : "<system-out>" + xml(text) + "</system-out>";
}

std::string junit_properties(const Facts &facts, const Settings &settings) {
  std::string text = "  <properties>\n";
  const auto add = [&text](const std::string &name, const std::string &value) {
    text += "    <property name=\"" + xml(name) + "\" value=\"" + xml(value) + "\"/>\n";
  };
  for (const auto &[key, value] : facts) add(key, value);
  for (const auto &[key, value] : told_settings(settings)) add(key, value);
  return text + "  </properties>\n";
}

}  // namespace

std::string junit_suite(const std::vector<Result> &results, const Facts &facts,
                        const Settings &settings) {
  std::string cases;
  uint64_t total = 0;
  for (const Result &result : results) {
    total += result.duration_ns;
    cases += "  <testcase classname=\"" + xml(with_device(group_of(*result.requirement), result)) +
             "\" name=\"" +
             xml(std::string(result.requirement->id) + " " + result.requirement->sentence) +
             "\" time=\"" + seconds(result.duration_ns) + "\"";
    const std::string inner = junit_end(result) + junit_output(result);
    cases += inner.empty() ? "/>\n" : ">" + inner + "</testcase>\n";
  }
  const auto count = [&results](std::initializer_list<Verdict> verdicts) {
    size_t all = 0;
    for (const Verdict verdict : verdicts) all += count_of(results, verdict);
    return std::to_string(all);
  };
  return "<testsuite name=\"weir-conformance " +
         xml(results.empty() ? fact(facts, "backend")
                             : with_device(fact(facts, "backend"), results[0])) +
         "\" tests=\"" + std::to_string(results.size()) + "\" failures=\"" +
         count({Verdict::fail}) + "\" errors=\"" + count({Verdict::crash, Verdict::timeout}) +
         "\" skipped=\"" +
         count({Verdict::not_supported, Verdict::waived, Verdict::empty, Verdict::advised}) +
         "\" time=\"" + seconds(total) + "\">\n" + junit_properties(facts, settings) + cases +
         "</testsuite>\n";
}

std::string junit_text(const std::vector<std::string> &suites, bool all_devices) {
  std::string text;
  for (const std::string &suite : suites) text += suite;
  if (all_devices) text = "<testsuites>\n" + text + "</testsuites>\n";
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + text;
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
      {"all_devices", settings.all_devices ? "true" : "false"},
      {"seed", std::to_string(settings.seed)},
      {"jobs", std::to_string(settings.jobs)},
      {"timeout_s", std::to_string(settings.timeout_s)},
      {"soak_s", std::to_string(settings.soak_s)},
      {"allow_oom", settings.allow_oom ? "true" : "false"},
      {"waivers", settings.waivers.empty() ? "false" : "true"},
      {"complete", of_list(results) == requirements().size() ? "true" : "false"}};
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
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + verdict_name(verdict) +
            (verdict == Verdict::advised ? " but not kept" : "");
  }
  return text;
}

OrderCount count_order(const std::vector<Result> &results) {
  OrderCount count;
  for (const Result &result : results) {
    if ((result.requirement->needs.with & WEIR_CAP_HOST_CALL) == 0) continue;
    ++count.planned;
    count.applied += is_skipped(result.verdict) ? 0U : 1U;
  }
  return count;
}

std::string ending(const std::vector<Result> &results) {
  static constexpr std::array<std::pair<Verdict, const char *>, 6> headings{
      {{Verdict::fail, "failed"},
       {Verdict::crash, "crashed"},
       {Verdict::timeout, "timed out"},
       {Verdict::waived, "waived"},
       {Verdict::empty, "empty"},
       {Verdict::advised, "advised, not kept"}}};
  std::string text;
  for (const auto &[verdict, heading] : headings) {
    std::string ids;
    for (const Result &result : results) {
      if (result.verdict == verdict)
        ids += (ids.empty() ? "" : ", ") + with_device(result.requirement->id, result);
    }
    if (!ids.empty()) text += std::string("# ") + heading + ": " + ids + "\n";
  }
  std::vector<const Result *> slow;
  for (const Result &result : results)
    if (result.duration_ns != 0) slow.push_back(&result);
  std::stable_sort(slow.begin(), slow.end(), [](const Result *a, const Result *b) {
    return a->duration_ns > b->duration_ns;
  });
  std::string slowest;
  for (size_t i = 0; i < std::min<size_t>(slow.size(), 5); ++i) {
    char took[32];
    std::snprintf(took, sizeof took, " %.3f s", static_cast<double>(slow[i]->duration_ns) * 1e-9);
    slowest +=
        (slowest.empty() ? "" : ", ") + with_device(slow[i]->requirement->id, *slow[i]) + took;
  }
  const OrderCount order = count_order(results);
  if (order.planned != 0) {
    text += "# order: " + std::to_string(order.applied) + " of " + std::to_string(order.planned) +
            " requirements that hold a stream up applied\n";
  }
  return text + (slowest.empty() ? "" : "# slowest: " + slowest + "\n");
}

std::string write_file(const std::string &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? "" : "cannot write " + path;
}

}  // namespace weir::conformance
