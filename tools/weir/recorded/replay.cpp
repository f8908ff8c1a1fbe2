// SPDX-License-Identifier: Apache-2.0
//
// The steps of such a replay, and what it does not do.
#include "tools/weir/recorded/replay.hpp"

#include "tools/weir/error.hpp"
#include "tools/weir/progress.hpp"
#include "tools/weir/recorded/report.hpp"

namespace weir::tool::recorded {
namespace {

/// They change a trace, or ask for runs and bounds that only operations on one stream have.
void check(const ReplayOptions &options) {
  const ReplayOptions usual;
  const char *against = options.neighbour                    ? "--neighbour"
                        : options.scale != 1                 ? "--scale"
                        : options.steps                      ? "--steps"
                        : options.touch                      ? "--touch"
                        : options.yardstick                  ? "--yardstick"
                        : options.announce != usual.announce ? "--announce"
                        : !options.policy_load.empty()       ? "--policy-load"
                        : !options.policy_save.empty()       ? "--policy-save"
                        : options.pace                       ? "--pace, but for --pace recorded"
                                                             : nullptr;
  if (against != nullptr)
    throw ToolError(
        "trace '" + options.trace +
        "' is a recorded program (#vmt 2), which is done again as it was: that does not "
        "go with " +
        against + "; --as-operations takes it for a trace of version 1");
}

/// Tiers below HOST have times of this machine.
void check_virtual(const Program &program, const ReplayOptions &options) {
  if (options.contents) return;
  for (const ProgramPool &pool : program.pools)
    if (pool.compressed_budget != 0 || pool.storage_budget != 0)
      throw ToolError(std::string(options.virtual_time ? "--virtual" : "--no-contents") +
                      " does not go with trace '" + options.trace +
                      "': a pool of it has tiers below HOST");
}

}  // namespace

ReplayReport replay_recorded(TraceFile &file, const ReplayOptions &options) {
  check(options);
  Progress progress(options.virtual_time ? Progress::Style::none
                                         : Progress::choose(options.json && !options.progress));
  progress.start("reading", "bytes", file.source().file_bytes());
  ProgramOptions how;
  how.limit = options.limit;
  how.progress = [&progress](uint64_t bytes, uint64_t) { progress.update(bytes); };
  const Program program = read_program(file, how);
  if (program.pools.empty()) throw ToolError("trace '" + options.trace + "' has no pool to replay");
  check_virtual(program, options);
  progress.start("replaying", "acquires", program.leases.size());
  const RunOutcome outcome =
      run_recorded(program, options, [&progress](uint64_t acquires) { progress.update(acquires); });
  progress.done();
  ReplayReport report;
  report.text = report_text(program, options, outcome);
  report.json = report_json(program, options, outcome);
  report.verify_errors = outcome.verify_errors;
  report.first_errors = outcome.first_errors;
  return report;
}

}  // namespace weir::tool::recorded
