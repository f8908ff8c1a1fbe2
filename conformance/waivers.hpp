// SPDX-License-Identifier: Apache-2.0
//
// Waivers: known failures of certain backends and devices, with an issue and a date after which they are
// ignored. A waiver changes how a result is reported, never whether a test is run.
//
//   backend glob | device glob | test glob | issue | YYYY-MM-DD | reason
//
// Empty lines and lines that begin with '#' say nothing.
#pragma once

#include <string>
#include <vector>

namespace weir::conformance {

struct Waiver {
  std::string backend, device, test, issue, expiry, reason;
  unsigned line = 0;
  bool used = false;
};

/// "" or what is wrong with the text, with its line.
std::string read_waivers(const std::string &text, std::vector<Waiver> *waivers);
/// Whether its last day, in UTC, is past; `today` is YYYY-MM-DD.
bool expired(const Waiver &waiver, const std::string &today);
/// The first one that covers the test and has not expired; nullptr if none does.
Waiver *find_waiver(std::vector<Waiver> &waivers, const std::string &backend,
                    const std::string &device, const std::string &test, const std::string &today);
std::string today_utc();

}  // namespace weir::conformance
