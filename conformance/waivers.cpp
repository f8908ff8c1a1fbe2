// SPDX-License-Identifier: Apache-2.0
//
// Reading waivers. A line that is not understood stops the run: a waiver that silently does nothing, or too
// much, is worse than none.
#include "conformance/waivers.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <sstream>

namespace weir::conformance {
namespace {

std::string trimmed(const std::string &text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// A day of the calendar, written as it compares: what is none, such as 2027-02-31, would never be over.
bool is_date(const std::string &text) {
  static const std::string shape = "0000-00-00";
  const bool shaped = text.size() == shape.size() &&
                      std::equal(text.begin(), text.end(), shape.begin(), [](char c, char wanted) {
                        return wanted == '-' ? c == '-' : c >= '0' && c <= '9';
                      });
  if (!shaped) return false;
  const auto number = [&text](size_t at, size_t count) {
    return std::stoi(text.substr(at, count));
  };
  return std::chrono::year_month_day(std::chrono::year(number(0, 4)),
                                     std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                     std::chrono::day(static_cast<unsigned>(number(8, 2))))
      .ok();
}

bool matches(const std::string &glob, const std::string &text) {
  return fnmatch(glob.c_str(), text.c_str(), 0) == 0;
}

/// "" or what is wrong with the line.
std::string read_line(const std::string &line, Waiver *waiver) {
  const std::array<std::string *, 6> fields{&waiver->backend, &waiver->device, &waiver->test,
                                            &waiver->issue,   &waiver->expiry, &waiver->reason};
  std::istringstream stream(line);
  std::string field;
  size_t count = 0;
  while (std::getline(stream, field, '|')) {
    if (count == fields.size()) return "more than 6 fields";
    *fields[count++] = trimmed(field);
  }
  if (count != fields.size()) return "6 fields are needed, there are " + std::to_string(count);
  for (const std::string *each : fields) {
    if (each->empty()) return "a field is empty";
  }
  return is_date(waiver->expiry) ? "" : "\"" + waiver->expiry + "\" is no date (YYYY-MM-DD)";
}

}  // namespace

std::string read_waivers(const std::string &text, std::vector<Waiver> *waivers) {
  std::istringstream lines(text);
  std::string line;
  for (unsigned number = 1; std::getline(lines, line); ++number) {
    line = trimmed(line);
    if (line.empty() || line.front() == '#') continue;
    Waiver waiver;
    waiver.line = number;
    if (const std::string why = read_line(line, &waiver); !why.empty())
      return "line " + std::to_string(number) + ": " + why;
    waivers->push_back(waiver);
  }
  return {};
}

bool expired(const Waiver &waiver, const std::string &today) { return waiver.expiry < today; }

Waiver *find_waiver(std::vector<Waiver> &waivers, const std::string &backend,
                    const std::string &device, const std::string &test, const std::string &today) {
  for (Waiver &waiver : waivers) {
    if (!expired(waiver, today) && matches(waiver.backend, backend) &&
        matches(waiver.device, device) && matches(waiver.test, test))
      return &waiver;
  }
  return nullptr;
}

std::string today_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

}  // namespace weir::conformance
