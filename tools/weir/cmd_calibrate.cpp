// SPDX-License-Identifier: Apache-2.0
//
// `weir calibrate`: has the library measure the links, and prints each with what it was said to be and what it is. The
// measuring and the saving are weir_topology_calibrate's.
#include "commands.hpp"
#include "error.hpp"
#include "handles.hpp"
#include "text.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

namespace weir::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr double a_day_s = 86400;

struct Row {
  weir_device from, to;
  weir_link_info link;
};

std::string end_name(weir_device device) {
  return device == WEIR_DEVICE_HOST ? "host" : "D" + std::to_string(device);
}

/// Those that are measured, and those that might have been.
std::vector<Row> rows_of(weir_context context) {
  uint32_t count = 0;
  require(weir_device_count(context, &count), "cannot count the devices");
  std::vector<Row> rows;
  const auto add = [&](weir_device from, weir_device to) {
    Row row{from, to, WEIR_LINK_INFO_INIT};
    require(weir_link_info_get(context, from, to, &row.link),
            "cannot ask about the link from " + end_name(from) + " to " + end_name(to));
    if (from != to && row.link.direct != 0) rows.push_back(row);
  };
  for (weir_device device = 0; device < count; ++device) {
    add(device, WEIR_DEVICE_HOST);
    add(WEIR_DEVICE_HOST, device);
    for (weir_device other = 0; other < count; ++other) add(device, other);
  }
  return rows;
}

std::string gigabytes(uint64_t bandwidth) {
  return bandwidth == 0 ? "-" : format_fixed(static_cast<double>(bandwidth) / 1e9, 3);
}

void print_table(const std::vector<Row> &rows) {
  std::printf("%-5s %-5s %-16s %14s  %-9s %14s %12s\n", "from", "to", "kind", "reported GB/s", "by",
              "measured GB/s", "latency us");
  for (const Row &row : rows) {
    const weir_link_info &link = row.link;
    const bool measured = link.source == WEIR_LINK_FIGURE_MEASURED;
    std::printf(
        "%-5s %-5s %-16s %14s  %-9s %14s %12s\n", end_name(row.from).c_str(),
        end_name(row.to).c_str(), weir_link_kind_string(link.kind),
        gigabytes(link.reported_bandwidth).c_str(), weir_link_figure_string(link.reported_source),
        measured ? gigabytes(link.bandwidth).c_str() : "-",
        measured ? format_fixed(static_cast<double>(link.latency_ns) / 1e3, 2).c_str() : "-");
  }
}

Json end_json(weir_device device) {
  return device == WEIR_DEVICE_HOST ? Json("host") : Json(device);
}

Json report_json(const std::vector<Row> &rows, const weir_calibrate_report &report) {
  Json links = Json::array();
  for (const Row &row : rows) {
    const weir_link_info &link = row.link;
    const bool measured = link.source == WEIR_LINK_FIGURE_MEASURED;
    links.push_back({{"from", end_json(row.from)},
                     {"to", end_json(row.to)},
                     {"kind", weir_link_kind_string(link.kind)},
                     {"reported_bandwidth", link.reported_bandwidth},
                     {"reported_source", weir_link_figure_string(link.reported_source)},
                     {"measured_bandwidth", measured ? Json(link.bandwidth) : Json(nullptr)},
                     {"latency_ns", measured ? Json(link.latency_ns) : Json(nullptr)}});
  }
  return {{"links", std::move(links)},
          {"measured", report.measured},
          {"failed", report.failed},
          {"skipped", report.skipped},
          {"saved", report.saved},
          {"folder", report.folder},
          {"seconds", static_cast<double>(report.elapsed_ns) / 1e9}};
}

void print_summary(const weir_calibrate_report &report, bool wanted) {
  std::printf("%u links measured in %s s", report.measured,
              format_fixed(static_cast<double>(report.elapsed_ns) / 1e9, 2).c_str());
  if (report.failed != 0) std::printf(", %u failed", report.failed);
  if (report.skipped != 0) std::printf(", no time for %u (--seconds)", report.skipped);
  if (report.saved != 0)
    std::printf("; saved in %s", report.folder);
  else if (wanted && report.measured != 0)
    std::printf("; not saved: this context has no cache");
  std::printf("\n");
}

}  // namespace

int run_calibrate(const CalibrateFlags &flags) {
  if (!(flags.seconds > 0) || flags.seconds > a_day_s)
    throw ToolError("--seconds is " + format_fixed(flags.seconds, 3) +
                    "; more than 0, and at most 86400, are needed");
  const Context context = open_context(flags.options);
  weir_calibrate_desc desc = WEIR_CALIBRATE_DESC_INIT;
  desc.max_ns = static_cast<uint64_t>(std::ceil(flags.seconds * 1e9));
  if (flags.no_save) desc.flags |= WEIR_CALIBRATE_NO_CACHE;
  weir_calibrate_report report = WEIR_CALIBRATE_REPORT_INIT;
  const weir_result done = weir_topology_calibrate(context.get(), &desc, &report);
  const std::string reason = weir_last_error();
  if (done != WEIR_ERROR_IO) require(done, "cannot measure the links");
  // What was measured is shown also where it cannot be saved.
  const std::vector<Row> rows = rows_of(context.get());
  if (flags.json) {
    std::printf("%s\n", report_json(rows, report).dump(2).c_str());
  } else {
    print_table(rows);
    print_summary(report, !flags.no_save && done == WEIR_SUCCESS);
  }
  if (std::fflush(stdout) != 0) throw ToolError("cannot write to standard output");
  if (done != WEIR_SUCCESS) throw ToolError(reason);
  return report.failed == 0 ? 0 : 1;
}

}  // namespace weir::tool
