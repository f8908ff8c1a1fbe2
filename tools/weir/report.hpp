// SPDX-License-Identifier: Apache-2.0
//
// Report: what a replay found, as text for people and as JSON for programs. The JSON names are a
// contract with scripts; they are only added to.
#pragma once

#include "bound.hpp"
#include "link_times.hpp"
#include "oracle.hpp"
#include "replay_options.hpp"
#include "replayer.hpp"
#include "weir_machine.hpp"

#include <weir/weir.h>

#include <algorithm>
#include <optional>
#include <string>

namespace weir::tool {

struct Report {
  const ReplayOptions *options = nullptr;
  const Plan *plan = nullptr;
  const Settings *settings = nullptr;
  RunResult constrained;
  std::optional<double> first_seconds;  ///< of the run before it, on cold memory, if there was one
  std::optional<uint64_t> first_promoted;      ///< bytes brought up in that run
  weir_pool_stats stats{};                     ///< of the constrained run
  LowerPeaks lower_peaks;                      ///< the same
  std::optional<double> seconds_all_resident;  ///< nothing: it was not run
  weir_pool_stats all_resident_stats{};
  uint64_t verify_errors = 0;  ///< of all runs
  std::vector<VerifyError> first_errors;
  std::optional<double> seconds_plain;
  std::optional<double> compute_seconds;  ///< with --pace: the sum of the modelled times
  OracleTraffic oracle;
  std::optional<double> oracle_slowdown;
  std::optional<LinkBusy> links;  ///< of the constrained run, with --pace on the host backend
  std::optional<Bound> bound;     ///< the same
  std::optional<Bound>
      bound_loaded;  ///< the same, of a program that loads what it reads and did not write

  /// Bytes of all pages compressed, before to after; 0 if there were none.
  double compressed_ratio() const {
    return stats.compressed_out_bytes == 0 ? 0
                                           : static_cast<double>(stats.compressed_in_bytes) /
                                                 static_cast<double>(stats.compressed_out_bytes);
  }
  /// For how long both directions of the link have to be busy at once in a run of the least possible time: what the least bytes up and
  /// those that the oracle writes back take, one after the other, beyond that time. With a bound.
  double least_both_seconds() const {
    const auto bytes = static_cast<double>(bound->fetched + oracle.written_back);
    return std::max(0.0, bytes / options->pace->link_bandwidth() - bound->seconds);
  }
  std::optional<double> slowdown() const {
    if (!seconds_all_resident) return {};
    return constrained.seconds / *seconds_all_resident;
  }
};

std::string report_json(const Report &report);
std::string report_text(const Report &report);

/// A file that appears only when it is complete: written beside its name, then renamed; removed if
/// that never happens.
class OutputFile {
 public:
  /// Creates the temporary file, so that an unwritable place is known before the work. Throws
  /// ToolError.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;
  void commit(const std::string &text);

 private:
  std::string path_;
  std::string temporary_;
  int file_ = -1;
};

}  // namespace weir::tool
