// SPDX-License-Identifier: Apache-2.0
//
// What the allocator's replay found, as a table and as JSON. The JSON names are a contract with scripts; they are only
// added to. What a run did not reach is null in JSON and "-" in the table.
#include "allocator_replay.hpp"

#include <nlohmann/json.hpp>

namespace weir::tool {
namespace {

using Json = nlohmann::ordered_json;

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

uint64_t allocations(const AllocatorReport &report) { return report.trace->block_bytes.size(); }

double nanoseconds(const PlacementResult &result) {
  return result.operations == 0 ? 0 : result.seconds * 1e9 / static_cast<double>(result.operations);
}

Json result_json(const AllocatorReport &report, const PlacementResult &result) {
  const PlacementCounters &counters = result.counters;
  Json json;
  json["survived"] = result.survived;
  json["operations"] = result.operations;
  json["refused_bytes"] = result.survived ? Json(nullptr) : Json(result.refused_bytes);
  json["peak_reserved_bytes"] = counters.peak_reserved_bytes;
  json["min_capacity_bytes"] = result.min_capacity_bytes;
  json["moved_bytes"] = counters.moved_bytes;
  json["min_capacity_moved_bytes"] = result.min_capacity_moved_bytes;
  json["moves"] = counters.moves;
  json["allocated_bytes"] = counters.allocated_bytes;
  json["opened"] = counters.opened;
  json["map_calls"] = counters.map_calls;
  json["map_calls_per_allocation"] = share(counters.map_calls, allocations(report));
  json["nanoseconds_per_operation"] = nanoseconds(result);
  Json samples = Json::array();
  for (const FragmentationSample &sample : result.fragmentation)
    samples.push_back({{"operation", sample.operation},
                       {"live_bytes", sample.live_bytes},
                       {"reserved_bytes", sample.reserved_bytes},
                       {"moved_bytes", sample.moved_bytes}});
  json["fragmentation"] = std::move(samples);
  return json;
}

std::string times_peak(const AllocatorReport &report, uint64_t bytes) {
  return format_fixed(share(bytes, report.trace->peak_live_bytes), 4) + " x";
}

/// A table with one column a placement.
class Columns {
 public:
  explicit Columns(const AllocatorReport &report) : report_(report) {}

  template <class Cell>
  void row(const std::string &label, Cell &&cell) {
    text_ += "  " + padded(label, 28);
    for (const PlacementResult &result : report_.results) text_ += padded(cell(result), 14);
    text_.erase(text_.find_last_not_of(' ') + 1);
    text_ += "\n";
  }
  std::string take() { return std::move(text_); }

 private:
  static std::string padded(std::string text, size_t width) {
    text.append(text.size() < width ? width - text.size() : 1, ' ');
    return text;
  }

  const AllocatorReport &report_;
  std::string text_;
};

}  // namespace

std::string allocator_report_json(const AllocatorReport &report) {
  const AllocatorTrace &trace = *report.trace;
  Json json;
  json["trace"] = trace.name.empty() ? report.options->trace : trace.name;
  json["allocations"] = trace.block_bytes.size();
  json["frees"] = trace.events.size() - trace.block_bytes.size();
  json["allocated_bytes"] = trace.allocated_bytes;
  json["peak_live_bytes"] = trace.peak_live_bytes;
  json["granule"] = report.options->granule;
  json["capacity"] = report.capacity == UINT64_MAX ? Json(nullptr) : Json(report.capacity);
  Json placements = Json::object();
  for (const PlacementResult &result : report.results)
    placements[std::string(placement_name(result.kind))] = result_json(report, result);
  json["placements"] = std::move(placements);
  return json.dump(2) + "\n";
}

std::string allocator_report_text(const AllocatorReport &report) {
  const AllocatorTrace &trace = *report.trace;
  std::string text =
      (trace.name.empty() ? report.options->trace : trace.name) + ": " +
      std::to_string(trace.block_bytes.size()) + " allocations of " +
      format_bytes(trace.allocated_bytes) + ", at most " + format_bytes(trace.peak_live_bytes) +
      " live; granules of " + format_bytes(report.options->granule) + ", capacity " +
      (report.capacity == UINT64_MAX ? "unlimited" : format_bytes(report.capacity)) + "\n";
  Columns table(report);
  table.row("", [](const PlacementResult &r) { return std::string(placement_name(r.kind)); });
  if (report.capacity != UINT64_MAX)
    table.row("survived", [](const PlacementResult &r) {
      return r.survived ? std::string("yes") : "no, " + format_bytes(r.refused_bytes);
    });
  table.row("peak reserved",
            [](const PlacementResult &r) { return format_bytes(r.counters.peak_reserved_bytes); });
  table.row("  of peak live", [&](const PlacementResult &r) {
    return times_peak(report, r.counters.peak_reserved_bytes);
  });
  table.row("smallest capacity",
            [](const PlacementResult &r) { return format_bytes(r.min_capacity_bytes); });
  table.row("  of peak live",
            [&](const PlacementResult &r) { return times_peak(report, r.min_capacity_bytes); });
  table.row("moved", [](const PlacementResult &r) { return format_bytes(r.counters.moved_bytes); });
  table.row("  of bytes allocated", [](const PlacementResult &r) {
    return format_fixed(100 * share(r.counters.moved_bytes, r.counters.allocated_bytes), 3) + " %";
  });
  table.row("containers opened",
            [](const PlacementResult &r) { return std::to_string(r.counters.opened); });
  table.row("map calls an allocation", [&](const PlacementResult &r) {
    return format_fixed(share(r.counters.map_calls, allocations(report)), 3);
  });
  table.row("ns an operation",
            [](const PlacementResult &r) { return format_fixed(nanoseconds(r), 0); });
  return text + table.take();
}

}  // namespace weir::tool
