// SPDX-License-Identifier: Apache-2.0
//
// Report: the numbers' names and the table. A number that does not exist is null in JSON and "-" in
// text.
#include "report.hpp"

#include "error.hpp"
#include "text.hpp"

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace weir::tool {
namespace {

using Json = nlohmann::ordered_json;

template <class Number>
Json optional_number(const std::optional<Number> &value) {
  return value ? Json(*value) : Json(nullptr);
}

Json errors_json(const std::vector<VerifyError> &errors) {
  Json list = Json::array();
  for (const VerifyError &error : errors)
    list.push_back({{"operation", error.operation},
                    {"block", error.block},
                    {"offset", error.offset},
                    {"expected", error.expected},
                    {"got", error.got}});
  return list;
}

std::string percent(double part, double whole) {
  return whole > 0 ? format_fixed(100 * part / whole, 1) + " %" : std::string("-");
}

std::string times(const std::optional<double> &value) {
  return value ? format_fixed(*value, 3) + " x" : "-";
}

class Table {
 public:
  void row(const std::string &label, const std::string &value) {
    text_ +=
        "  " + label + std::string(label.size() < 30 ? 30 - label.size() : 1, ' ') + value + "\n";
  }
  void heading(const std::string &title) { text_ += title + "\n"; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// What the tiers below HOST did, where there are any.
void add_lower_rows(const Report &report, Table &table) {
  const weir_pool_stats &stats = report.stats;
  if (report.settings->compressed_budget != 0) {
    table.row("compressed memory", format_bytes(report.settings->compressed_budget) + ", at most " +
                                       format_bytes(report.lower_peaks.compressed) + " used");
    table.row("compressed", format_bytes(stats.compressed_in_bytes) + " to " +
                                format_bytes(stats.compressed_out_bytes) + " (" +
                                times(stats.compressed_out_bytes != 0
                                          ? std::optional<double>(report.compressed_ratio())
                                          : std::nullopt) +
                                "), not worth it " + format_bytes(stats.incompressible_bytes));
    table.row("decompressed", format_bytes(stats.decompressed_bytes));
  }
  if (report.settings->storage_budget != 0) {
    table.row("storage", format_bytes(report.settings->storage_budget) + ", at most " +
                             format_bytes(report.lower_peaks.storage) + " used");
    table.row("written to storage", format_bytes(stats.storage_written_bytes));
    table.row(
        "read from storage",
        format_bytes(stats.storage_read_bytes) +
            (stats.io_errors != 0 ? " (" + std::to_string(stats.io_errors) + " errors)" : ""));
  }
}

/// For how long the links were busy, and what of it the order of the program allows to be at once.
void add_link_rows(const Report &report, Table &table) {
  const auto seconds = [](double time) { return format_fixed(time, 3) + " s"; };
  const LinkBusy &links = *report.links;
  table.row("link busy, up and down", seconds(links.up) + ", " + seconds(links.down));
  const double least = report.least_both_seconds();
  table.row("both at once", seconds(links.both) + " (" + percent(links.both, least) + " of the " +
                                seconds(least) + " in the least possible time)");
  if (report.constrained.overrun_seconds > 0)
    table.row("held by checking",
              seconds(report.constrained.overrun_seconds) + " longer than operations take");
}

/// Why plans ended, and how many for each reason.
std::vector<std::pair<const char *, uint64_t>> plan_ends(const weir_pool_stats &stats) {
  return {{"untrusted", stats.plans_ended_untrusted}, {"moved", stats.plans_ended_moved},
          {"missed", stats.plans_ended_missed},       {"old", stats.plans_ended_old},
          {"budget", stats.plans_ended_budget},       {"device", stats.plans_ended_device},
          {"share", stats.plans_ended_share},         {"announced", stats.plans_ended_announced},
          {"memory", stats.plans_ended_memory}};
}

/// What the policy has planned, where it plans.
void add_plan_rows(const weir_pool_stats &stats, Table &table) {
  if (stats.learned_operations != 0)
    table.row("operations learned", std::to_string(stats.learned_operations) + ", " +
                                        std::to_string(stats.lost_uses) + " uses lost");
  if (stats.plans_made == 0) return;
  table.row("operations planned", std::to_string(stats.planned_operations) + ", by " +
                                      std::to_string(stats.plans_made) + " plans");
  std::string ends;
  for (const auto &[why, count] : plan_ends(stats))
    if (count != 0)
      ends += (ends.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(why);
  table.row("plans ended", ends.empty() ? "none" : ends);
  table.row("fetched and cleaned for plans",
            format_bytes(stats.plan_fetched_bytes) + ", " + format_bytes(stats.plan_cleaned_bytes));
}

}  // namespace

std::string report_json(const Report &report) {
  const Plan &plan = *report.plan;
  const ReplayOptions &options = *report.options;
  const weir_pool_stats &stats = report.stats;
  Json json;
  json["trace"] = plan.name.empty() ? options.trace : plan.name;
  json["operations"] = plan.operations.size();
  json["uses"] = plan.uses;
  json["peak_live_bytes"] = plan.peak_live_bytes;
  json["largest_operation_bytes"] = plan.largest_set_bytes;
  json["device_bytes"] = stats.device_budget - report.settings->neighbour_budget;
  json["neighbour_bytes"] = report.settings->neighbour_budget;
  json["lent_bytes"] = stats.lent_bytes;
  json["peer_bytes"] = stats.peer_bytes;
  json["relayed_bytes"] = stats.relayed_bytes;
  json["host_relayed_bytes"] = stats.host_relayed_bytes;
  json["split_bytes"] = stats.split_bytes;
  json["host_bytes"] = report.settings->host_budget;
  json["host_held_bytes"] = stats.host_bytes;
  json["compressed_budget"] = report.settings->compressed_budget;
  json["storage_budget"] = report.settings->storage_budget;
  json["storage"] = options.storage;
  json["encrypt_storage"] = options.encrypt_storage;
  json["codec"] = options.codec;
  json["granule"] = report.settings->page;
  json["scale"] = plan.scale;
  json["data"] = data_mode_name(options.data);
  json["seed"] = options.seed;
  json["verify"] = options.verify;
  json["check_one_in"] = options.check_one_in;
  json["contents"] = options.contents;
  json["announce"] = options.announce == announce_all ? Json("all") : Json(options.announce);
  json["ahead"] = options.ahead;
  json["backend"] = options.backend;
  json["policy"] = options.policy.empty() ? Json(nullptr) : Json(options.policy);
  json["policy_load"] = options.policy_load.empty() ? Json(nullptr) : Json(options.policy_load);
  json["vmm"] = options.vmm;
  json["multi_map"] = options.multi_map;
  json["warm_up"] = options.warm_up;
  json["promoted_bytes"] = stats.promoted_bytes;
  json["demoted_bytes"] = stats.demoted_bytes;
  json["dropped_clean_bytes"] = stats.dropped_clean_bytes;
  json["discarded_bytes"] = stats.discarded_bytes;
  json["prefetched_bytes"] = stats.prefetched_bytes;
  json["background_demoted_bytes"] = stats.background_demoted_bytes;
  json["zero_filled_bytes"] = stats.zero_filled_bytes;
  json["refaulted_bytes"] = stats.refaulted_bytes;
  json["compressed_bytes"] = report.lower_peaks.compressed;
  json["compressed_ratio"] = report.compressed_ratio();
  json["compressed_in_bytes"] = stats.compressed_in_bytes;
  json["decompressed_bytes"] = stats.decompressed_bytes;
  json["incompressible_bytes"] = stats.incompressible_bytes;
  json["storage_bytes"] = report.lower_peaks.storage;
  json["storage_written_bytes"] = stats.storage_written_bytes;
  json["storage_read_bytes"] = stats.storage_read_bytes;
  json["sunk_bytes"] = stats.sunk_bytes;
  json["lifted_bytes"] = stats.lifted_bytes;
  json["io_errors"] = stats.io_errors;
  json["checksum_failures"] = stats.checksum_failures;
  json["evictions"] = stats.evictions;
  json["eviction_failures"] = stats.eviction_failures;
  json["hits"] = stats.hits;
  json["misses"] = stats.misses;
  json["learned_operations"] = stats.learned_operations;
  json["lost_uses"] = stats.lost_uses;
  json["planned_operations"] = stats.planned_operations;
  json["plans_made"] = stats.plans_made;
  json["plan_fetched_bytes"] = stats.plan_fetched_bytes;
  json["plan_cleaned_bytes"] = stats.plan_cleaned_bytes;
  for (const auto &[why, count] : plan_ends(stats)) json["plans_ended_" + std::string(why)] = count;
  json["policy_switches"] = stats.policy_switches;
  json["policy_carries_plans"] = stats.policy_carries_plans;
  json["verify_errors"] = report.verify_errors;
  if (!report.first_errors.empty()) json["first_verify_errors"] = errors_json(report.first_errors);
  json["seconds"] = report.constrained.seconds;
  json["seconds_all_resident"] = optional_number(report.seconds_all_resident);
  json["first_seconds"] = optional_number(report.first_seconds);
  json["first_promoted_bytes"] = optional_number(report.first_promoted);
  json["virtual"] = options.virtual_time;
  json["slowdown"] = optional_number(report.slowdown());
  json["oracle_slowdown"] = optional_number(report.oracle_slowdown);
  json["oracle_fetched_bytes"] = report.oracle.fetched;
  json["oracle_written_back_bytes"] = report.oracle.written_back;
  if (report.bound) {
    json["bound_seconds"] = report.bound->seconds;
    json["bound_simple_seconds"] = report.bound->simple_seconds;
    json["bound_fetched_bytes"] = report.bound->fetched;
    json["bound_loaded_seconds"] = report.bound_loaded->seconds;
    json["bound_loaded_fetched_bytes"] = report.bound_loaded->fetched;
  }
  if (report.links) {
    json["link_up_seconds"] = report.links->up;
    json["link_down_seconds"] = report.links->down;
    json["link_both_seconds"] = report.links->both;
    json["link_both_least_seconds"] = report.least_both_seconds();
  }
  if (options.pace) json["overrun_seconds"] = report.constrained.overrun_seconds;
  json["all_resident_device_bytes"] = report.all_resident_stats.device_budget;
  json["all_resident_demoted_bytes"] = report.all_resident_stats.demoted_bytes;
  json["compute_seconds"] = optional_number(report.compute_seconds);
  if (options.pace) {
    json["pace"] = {{"flops", options.pace->flops},
                    {"bytes_per_second", options.pace->bytes},
                    {"link_bytes_per_second", options.pace->link},
                    {"slow", options.pace->slow}};
  } else {
    json["pace"] = nullptr;
  }
  if (report.seconds_plain) {
    json["seconds_plain"] = *report.seconds_plain;
    json["overhead_all_resident"] = *report.seconds_all_resident / *report.seconds_plain;
  }
  json["notes"] = report.settings->notes;
  return json.dump(2) + "\n";
}

std::string report_text(const Report &report) {
  const Plan &plan = *report.plan;
  const ReplayOptions &options = *report.options;
  const weir_pool_stats &stats = report.stats;
  const auto peak = static_cast<double>(plan.peak_live_bytes);
  Table table;
  table.heading((plan.name.empty() ? options.trace : plan.name) + ": " +
                std::to_string(plan.operations.size()) + " operations, " +
                std::to_string(plan.uses) + " uses" +
                (plan.scale != 1 ? ", sizes divided by " + std::to_string(plan.scale) : ""));
  for (const std::string &note : report.settings->notes) table.heading("  note: " + note);
  table.row("needed at its peak", format_bytes(plan.peak_live_bytes));
  const uint64_t own = stats.device_budget - report.settings->neighbour_budget;
  table.row("device memory", format_bytes(own) + " (" + percent(static_cast<double>(own), peak) +
                                 " of the peak), pages of " + format_bytes(report.settings->page));
  table.row("host memory", format_bytes(report.settings->host_budget) + ", held " +
                               format_bytes(stats.host_bytes));
  const uint64_t brought = stats.promoted_bytes + stats.peer_bytes;
  table.row("brought to the device",
            format_bytes(brought) + " (ahead of demand " +
                percent(static_cast<double>(stats.prefetched_bytes), static_cast<double>(brought)) +
                ")");
  table.row("copied from the device",
            format_bytes(stats.demoted_bytes) + " (ahead of demand " +
                percent(static_cast<double>(stats.background_demoted_bytes),
                        static_cast<double>(stats.demoted_bytes)) +
                ")");
  if (report.settings->neighbour_budget != 0)
    table.row("a neighbour's memory", format_bytes(report.settings->neighbour_budget) + ": " +
                                          format_bytes(stats.lent_bytes) + " of that there, " +
                                          format_bytes(stats.peer_bytes) + " back");
  add_lower_rows(report, table);
  table.row("dropped clean", format_bytes(stats.dropped_clean_bytes));
  table.row(
      "uses found resident",
      std::to_string(stats.hits) + " of " + std::to_string(stats.hits + stats.misses) + " (" +
          percent(static_cast<double>(stats.hits), static_cast<double>(stats.hits + stats.misses)) +
          ")");
  add_plan_rows(stats, table);
  if (report.seconds_all_resident)
    table.row("time, all resident", format_fixed(*report.seconds_all_resident, 3) + " s");
  if (report.seconds_plain) {
    table.row("time, plain memory", format_fixed(*report.seconds_plain, 3) + " s");
    table.row("overhead, all resident",
              times(*report.seconds_all_resident / *report.seconds_plain));
  }
  if (options.virtual_time && report.first_seconds)
    table.row("time, constrained, first", format_fixed(*report.first_seconds, 3) + " s");
  table.row("time, constrained", format_fixed(report.constrained.seconds, 3) + " s");
  table.row("slowdown", times(report.slowdown()));
  if (report.bound && report.compute_seconds.value_or(0) > 0) {
    const auto beside = [&](double seconds) {
      return times(seconds / *report.compute_seconds) + " (" + format_fixed(seconds, 3) + " s)";
    };
    table.row("slowdown, least possible", beside(report.bound->seconds));
    table.row("the same, by the simple bound", beside(report.bound->simple_seconds));
  }
  if (report.links) add_link_rows(report, table);
  table.row("slowdown, oracle", times(report.oracle_slowdown));
  table.row("wrong words", options.verify ? std::to_string(report.verify_errors) : "not checked");
  return table.take();
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".XXXXXX") {
  file_ = mkostemp(temporary_.data(), O_CLOEXEC);
  if (file_ < 0) throw ToolError("cannot write '" + path_ + "': " + std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  close(file_);
  unlink(temporary_.c_str());
}

void OutputFile::commit(const std::string &text) {
  const auto failed = [this] {
    throw ToolError("cannot write '" + path_ + "': " + std::strerror(errno));
  };
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = write(file_, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) failed();
    done += static_cast<size_t>(wrote);
  }
  if (fchmod(file_, 0644) != 0 || rename(temporary_.c_str(), path_.c_str()) != 0) failed();
  close(file_);
  file_ = -1;
}

}  // namespace weir::tool
