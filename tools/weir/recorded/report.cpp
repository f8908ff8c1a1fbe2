// SPDX-License-Identifier: Apache-2.0
//
// Numbers and names of the report of a recorded program.
#include "tools/weir/recorded/report.hpp"

#include "tools/weir/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace weir::tool::recorded {
namespace {

using Json = nlohmann::ordered_json;

/// Counters that people want to see; the others are in the JSON.
constexpr const char *shown_counters[] = {"promoted_bytes",
                                          "demoted_bytes",
                                          "dropped_clean_bytes",
                                          "discarded_bytes",
                                          "zero_filled_bytes",
                                          "peer_bytes",
                                          "prefetched_bytes",
                                          "hits",
                                          "misses",
                                          "evictions"};

Figures counters_of(const weir_pool_stats &stats) {
  Figures figures;
#define WEIR_FIELD(field, meaning) figures.emplace_back(#field, stats.field);
  WEIR_POOL_STATS_FIELDS(WEIR_FIELD)
#undef WEIR_FIELD
  return figures;
}

/// What the trace leaves out is 0.
uint64_t figure_of(const Figures &figures, std::string_view name) {
  const auto found = std::find_if(figures.begin(), figures.end(),
                                  [name](const auto &figure) { return figure.first == name; });
  return found == figures.end() ? 0 : found->second;
}

std::string amount(std::string_view name, uint64_t value) {
  return name.ends_with("bytes") ? format_bytes(value) : std::to_string(value);
}

std::string row(const std::string &label, const std::string &value) {
  return "  " + label + std::string(label.size() < 30 ? 30 - label.size() : 1, ' ') + value + "\n";
}

std::string pool_name(const Program &program, size_t pool) {
  const std::string &name = program.pools[pool].name;
  return name.empty() ? "pool" : printable(name);
}

std::vector<std::string> notes_of(const Program &program, const RunOutcome &outcome) {
  std::vector<std::string> notes = program.notes;
  notes.insert(notes.end(), outcome.notes.begin(), outcome.notes.end());
  return notes;
}

std::string spread(uint64_t replayed, uint64_t recorded) {
  if (replayed == recorded) return "equal";
  const auto part = static_cast<double>(replayed) - static_cast<double>(recorded);
  return recorded == 0 ? "more"
                       : format_fixed(100 * part / static_cast<double>(recorded), 2) + " %";
}

}  // namespace

std::string report_json(const Program &program, const ReplayOptions &options,
                        const RunOutcome &outcome) {
  Json json = {{"trace", options.trace},
               {"name", program.name},
               {"version", 2},
               {"acquires", program.leases.size()},
               {"uses", program.acquired_uses},
               {"buffers", program.buffers.size()},
               {"allocations", program.allocations.size()},
               {"streams", program.streams.size()},
               {"threads", program.threads},
               {"peak_live_bytes", program.peak_live_bytes},
               {"seconds", outcome.seconds},
               {"verified", options.verify},
               {"verify_errors", outcome.verify_errors},
               {"notes", notes_of(program, outcome)}};
  Json &pools = json["pools"] = Json::array();
  for (size_t i = 0; i < outcome.pools.size(); ++i) {
    const PoolOutcome &pool = outcome.pools[i];
    Json one = {{"name", pool_name(program, i)}};
    Json &stats = one["stats"] = Json::object();
    for (const auto &[name, value] : counters_of(pool.stats)) stats[name] = value;
    one["recorded"] = nullptr;
    if (pool.recorded != nullptr) {
      Json &recorded = one["recorded"] = Json::object();
      for (const auto &[name, value] : *pool.recorded) recorded[name] = value;
    }
    pools.push_back(std::move(one));
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string report_text(const Program &program, const ReplayOptions &options,
                        const RunOutcome &outcome) {
  std::string text = (program.name.empty() ? options.trace : program.name) + ": " +
                     std::to_string(program.leases.size()) + " acquires, " +
                     std::to_string(program.acquired_uses) + " uses, " +
                     std::to_string(program.buffers.size()) + " buffers, " +
                     std::to_string(program.allocations.size()) + " allocations, at most " +
                     format_bytes(program.peak_live_bytes) + " of them at once\n";
  for (const std::string &note : notes_of(program, outcome)) text += "  note: " + note + "\n";
  text += row("seconds", format_fixed(outcome.seconds, 3));
  text += row("wrong words", options.verify ? std::to_string(outcome.verify_errors) : "-");
  for (size_t i = 0; i < outcome.pools.size(); ++i) {
    const PoolOutcome &pool = outcome.pools[i];
    const Figures counters = counters_of(pool.stats);
    text += "pool '" + pool_name(program, i) + "'\n";
    text += row("device budget", format_bytes(pool.stats.device_budget));
    text += row("host budget", format_bytes(pool.stats.host_budget));
    for (const char *name : shown_counters) {
      const uint64_t replayed = figure_of(counters, name);
      const uint64_t recorded = pool.recorded != nullptr ? figure_of(*pool.recorded, name) : 0;
      if (replayed == 0 && recorded == 0) continue;
      std::string value = amount(name, replayed);
      if (pool.recorded != nullptr)
        value += ", recorded " + amount(name, recorded) + " (" + spread(replayed, recorded) + ")";
      text += row(name, value);
    }
  }
  return text;
}

}  // namespace weir::tool::recorded
