// SPDX-License-Identifier: Apache-2.0
//
// One requirement: load, start, look, run, stop, tell. The verdict is told after the state has been stopped,
// so that a backend that dies in stop() has not passed.
#include "conformance/child.hpp"

#include "conformance/fixtures.hpp"
#include "conformance/process.hpp"
#include "conformance/test.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace weir::conformance {
namespace {

/// Whether the runner listens, and not a person, running one requirement by hand, as under a debugger.
bool has_starter() {
  struct stat info {};
  return fstat(starter_descriptor, &info) == 0 &&
         (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
}

void tell(const std::string &text) {
  const int to = has_starter() ? starter_descriptor : STDOUT_FILENO;
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(to, text.data() + done, text.size() - done);
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

/// "" if the requirement applies to the device, else why not.
std::string why_not(const Test &t, const Needs &needs) {
  const uint64_t missing = needs.with & ~t.about.capabilities;
  if (missing != 0) return "the device has no " + capability_names(missing);
  const uint64_t too_much = needs.without & t.about.capabilities;
  if (too_much != 0) return "the device has " + capability_names(too_much);
  if (t.device_count < needs.devices)
    return words("needs ", needs.devices, " devices, there are ", t.device_count);
  return {};
}

/// The verdict, with all that a person should know beside it: a failure's notes and complaints too.
void judge(const Outcome &outcome, const std::string &notes, const std::string &complaint,
           Report *report) {
  if (outcome.passed() && complaint.empty()) {
    report->verdict = outcome.empty() ? "empty" : "pass";
    report->message =
        outcome.text() + (outcome.text().empty() || notes.empty() ? "" : "; ") + notes;
    return;
  }
  report->verdict = "fail";
  report->message = outcome.passed() ? complaint : outcome.text();
  if (!outcome.passed() && !complaint.empty()) report->message += "\nand " + complaint;
  if (outcome.empty()) report->message += "\nnote: " + outcome.text();
  if (!notes.empty()) report->message += "\nnote: " + notes;
}

Report examine(const Settings &settings, const Requirement &requirement) {
  Report report;
  Complaints complaints;
  const Library library = [&] {
    Library opened;
    if (const Outcome outcome = opened.open(settings.backend); !outcome.passed())
      complaints.add(outcome.text());
    return opened;
  }();
  if (report.message = complaints.first(); !report.message.empty()) {
    report.verdict = "fail";
    return report;
  }
  Test t(settings, library, complaints, seed_for(settings.seed, requirement.id));
  Outcome outcome = t.prepare();
  report.capabilities = t.about.capabilities;
  if (outcome.passed()) {
    report.message = why_not(t, requirement.needs);
    if (!report.message.empty()) {
      report.verdict = "not-supported";
      return report;
    }
    set_phase(CallPage::Phase::body);
    outcome = requirement.run(t);
  }
  set_phase(CallPage::Phase::ending);
  t.stop();
  judge(outcome, t.notes, complaints.first(), &report);
  return report;
}

std::string hexadecimal(const uint8_t *bytes, size_t count) {
  std::string text;
  char digits[3];
  for (size_t i = 0; i < count; ++i) {
    std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
    text += digits;
  }
  return text;
}

/// Lines of "key<TAB>value"; an "error" line says why there are no more.
std::string look(const Settings &settings) {
  Complaints complaints;
  Library library;
  if (const Outcome opened = library.open(settings.backend); !opened.passed())
    return "error\t" + opened.text() + "\n";
  Test t(settings, library, complaints, settings.seed);
  if (const Outcome ready = t.prepare(); !ready.passed()) return "error\t" + ready.text() + "\n";
  std::string text;
  const auto line = [&text](const char *key, const std::string &value) {
    text += std::string(key) + "\t" + value + "\n";
  };
  const auto bounded = [](const char *chars, size_t size) {
    return std::string(chars, strnlen(chars, size));
  };
  line("backend", word(t.table.name));
  line("runtime", t.table.runtime_version != nullptr ? word(CALL(runtime_version)) : "");
  line("abi", std::to_string(t.table.abi_major));
  line("table_bytes", std::to_string(t.table.struct_size));
  line("devices", std::to_string(t.device_count));
  line("device", bounded(t.about.name, sizeof t.about.name));
  line("pci", bounded(t.about.pci_address, sizeof t.about.pci_address));
  line("uuid", hexadecimal(t.about.uuid, sizeof t.about.uuid));
  line("memory", std::to_string(t.about.memory_total));
  line("granule", std::to_string(t.about.granule));
  line("granule_large", std::to_string(t.about.granule_large));
  line("capabilities", capability_names(t.about.capabilities));
  return text;
}

int help(const Settings &settings) {
  const Helper *helper = find_helper(settings.subject);
  Channel channel{Descriptor(starter_descriptor)};
  Complaints complaints;
  Library library;
  Outcome outcome = library.open(settings.backend);
  {
    Test t(settings, library, complaints, settings.seed);
    if (outcome.passed()) outcome = t.prepare();
    if (outcome.passed() && helper == nullptr)
      outcome = Outcome::failure("no helper " + settings.subject);
    if (outcome.passed()) outcome = helper->run(t, channel);
  }
  if (outcome.passed() && !complaints.first().empty())
    outcome = Outcome::failure(complaints.first());
  if (outcome.passed()) return 0;
  std::fprintf(stderr, "in the other process: %s\n", outcome.text().c_str());
  channel.send_failure(outcome.text());
  return 1;
}

}  // namespace

std::string write_report(const Report &report) {
  return report.verdict + "\n" + std::to_string(report.capabilities) + "\n" + report.message + "\n";
}

bool read_report(const std::string &text, Report *report) {
  const size_t first = text.find('\n');
  if (first == std::string::npos) return false;
  const size_t second = text.find('\n', first + 1);
  if (second == std::string::npos || text.back() != '\n' || text.size() < second + 2) return false;
  report->verdict = text.substr(0, first);
  report->capabilities = std::strtoull(text.c_str() + first + 1, nullptr, 10);
  report->message = text.substr(second + 1, text.size() - second - 2);
  return report->verdict == "pass" || report->verdict == "fail" ||
         report->verdict == "not-supported" || report->verdict == "empty";
}

uint64_t seed_for(uint64_t seed, const std::string &id) {
  uint64_t mixed = seed;
  for (const char c : id) mixed = Random(mixed ^ static_cast<uint8_t>(c)).next();
  return mixed;
}

int run_role(const Settings &settings) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing else ends a test whose runner has died
  if (has_starter()) {
    fcntl(starter_descriptor, F_SETFD, FD_CLOEXEC);
    share_calls(settings.role != Settings::Role::helper);
  }
  if (settings.role == Settings::Role::helper) return help(settings);
  if (settings.role == Settings::Role::describe) {
    tell(look(settings));
    return 0;
  }
  const Requirement *requirement = find_requirement(settings.subject);
  if (requirement == nullptr) {
    std::fprintf(stderr, "weir-conformance: there is no requirement %s\n",
                 settings.subject.c_str());
    return 2;
  }
  const Report report = examine(settings, *requirement);
  if (has_starter()) {
    tell(write_report(report));
    set_phase(CallPage::Phase::told);
    return 0;
  }
  if (report.verdict == "fail") std::fputs(last_calls(call_page()).c_str(), stderr);
  const bool advice = report.verdict == "fail" && requirement->needs.advised;
  std::printf("%s %s\n%s%s%s\n", requirement->id, requirement->sentence,
              advice ? "advised, not kept" : report.verdict.c_str(),
              report.message.empty() ? "" : ": ", report.message.c_str());
  return report.verdict == "fail" ? 1 : 0;
}

}  // namespace weir::conformance
