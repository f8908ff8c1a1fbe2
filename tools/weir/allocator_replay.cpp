// SPDX-License-Identifier: Apache-2.0
//
// The allocator's replay: reading, running, bisecting. A run is the same whatever it is run for; a try of the bisection
// ends at the first refusal.
#include "allocator_replay.hpp"

#include "choices.hpp"
#include "error.hpp"
#include "report.hpp"
#include "trace_reader.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>

namespace weir::tool {
namespace {

constexpr uint64_t least_granule = 4096;
constexpr uint64_t most_granule = uint64_t{1} << 30;
constexpr uint64_t most_blocks = uint64_t{1} << 31;
constexpr uint64_t samples_kept = 400;

uint64_t whole_units(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

PlacementOptions with_capacity(PlacementOptions options, uint64_t capacity) {
  options.capacity = capacity;
  return options;
}

}  // namespace

AllocatorTrace read_allocator_trace(const std::string &path) {
  TraceReader reader(path);
  AllocatorTrace trace;
  std::vector<bool> live;
  TraceBytes counted;
  for (TraceEvent event; reader.next(event);) {
    if (event.kind == TraceEvent::Kind::alloc) {
      if (event.id != trace.block_bytes.size()) reader.refuse("blocks are not numbered in order");
      if (event.id >= most_blocks) reader.refuse("more blocks than 2^31");
      if (const char *reason = counted.add(event.bytes)) reader.refuse(reason);
      trace.events.push_back(static_cast<uint32_t>(event.id << 1U));
      trace.block_bytes.push_back(event.bytes);
      live.push_back(true);
    } else if (event.kind == TraceEvent::Kind::free) {
      if (event.id >= live.size() || !live[event.id]) reader.refuse("a free of a block not live");
      trace.events.push_back(static_cast<uint32_t>(event.id << 1U | 1U));
      live[event.id] = false;
      counted.remove(trace.block_bytes[event.id]);
    }
  }
  trace.allocated_bytes = counted.all();
  trace.peak_live_bytes = counted.peak();
  trace.name = reader.name();
  trace.notes = reader.notes();
  if (trace.events.empty()) throw ToolError("trace '" + path + "' has no allocations to replay");
  return trace;
}

AllocatorOptions check_allocator_flags(const AllocatorFlags &flags, const std::string &trace,
                                       const std::string &granule, bool json,
                                       const std::string &json_out) {
  AllocatorOptions options;
  options.trace = trace;
  for (const std::string &name : flags.placements) {
    const std::optional<PlacementKind> kind = placement_of(name);
    if (!kind) throw ToolError(no_such_value("--placement", name, placement_choices()));
    if (std::find(options.placements.begin(), options.placements.end(), *kind) ==
        options.placements.end())
      options.placements.push_back(*kind);
  }
  if (options.placements.empty())
    options.placements.assign(std::begin(all_placements), std::end(all_placements));
  if (!flags.capacity.empty()) {
    options.capacity = parse_size_or_share(flags.capacity, "--capacity");
    if (!options.capacity->percent && options.capacity->bytes == 0)
      throw ToolError("--capacity: '" + flags.capacity + "' is no memory at all");
  }
  if (!granule.empty()) {
    options.granule = parse_size(granule, "--granule");
    if (!std::has_single_bit(options.granule) || options.granule < least_granule ||
        options.granule > most_granule)
      throw ToolError("--granule: '" + granule + "' is not a power of two from 4K to 1G");
  }
  options.json = json;
  options.json_out = json_out;
  return options;
}

PlacementResult replay_allocations(const AllocatorTrace &trace, PlacementKind kind,
                                   const PlacementOptions &options) {
  const std::unique_ptr<Placement> placement = make_placement(kind, options);
  PlacementResult result;
  result.kind = kind;
  const uint64_t every = trace.events.size() / samples_kept + 1;
  uint64_t live = 0;
  result.survived = true;
  const auto start = std::chrono::steady_clock::now();
  for (const uint32_t event : trace.events) {
    const uint32_t block = block_of(event);
    const uint64_t bytes = trace.block_bytes[block];
    if (is_free(event)) {
      placement->free(block);
      live -= bytes;
    } else if (placement->allocate(block, bytes)) {
      live += bytes;
    } else {
      result.survived = false;
      result.refused_bytes = bytes;
      break;
    }
    ++result.operations;
    if (result.operations % every == 0 || result.operations == trace.events.size())
      result.fragmentation.push_back({result.operations, live, placement->counters().reserved_bytes,
                                      placement->counters().moved_bytes});
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.counters = placement->counters();
  return result;
}

void find_min_capacity(const AllocatorTrace &trace, const PlacementOptions &options,
                       PlacementResult *result) {
  const uint64_t granule = options.granule;
  const auto survives = [&](uint64_t granules) {
    const PlacementResult attempt =
        replay_allocations(trace, result->kind, with_capacity(options, granules * granule));
    if (!attempt.survived) return false;
    result->min_capacity_bytes = granules * granule;
    result->min_capacity_moved_bytes = attempt.counters.moved_bytes;
    return true;
  };
  uint64_t low = whole_units(trace.peak_live_bytes, granule) / granule;  // nothing below survives
  const PlacementResult unlimited =
      replay_allocations(trace, result->kind, with_capacity(options, UINT64_MAX));
  if (!unlimited.survived) {
    throw ToolError("trace '" + trace.name + "': no capacity is enough for its allocation of " +
                    std::to_string(unlimited.refused_bytes) + " bytes");
  }
  uint64_t high =
      std::max(low, whole_units(unlimited.counters.peak_reserved_bytes, granule) / granule);
  // A capacity changes what a placement does, so that what was enough without one need not be enough.
  for (uint64_t step = std::max<uint64_t>(high / 64, 1); !survives(high); step *= 2) {
    low = high + 1;
    high += step;
  }
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (survives(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
}

int run_allocator_replay(const AllocatorOptions &options) {
  std::optional<OutputFile> file;
  if (!options.json_out.empty()) file.emplace(options.json_out);
  const AllocatorTrace trace = read_allocator_trace(options.trace);
  say_notes(options.trace, trace.notes);
  GranuleCount granules(options.granule);
  for (const uint64_t bytes : trace.block_bytes) granules.add(bytes);
  granules.check(trace.name, trace.peak_live_bytes);
  AllocatorReport report;
  report.options = &options;
  report.trace = &trace;
  PlacementOptions placement;
  placement.granule = options.granule;
  if (options.capacity) report.capacity = options.capacity->of(trace.peak_live_bytes);
  for (const PlacementKind kind : options.placements) {
    PlacementResult result =
        replay_allocations(trace, kind, with_capacity(placement, report.capacity));
    find_min_capacity(trace, placement, &result);
    report.results.push_back(std::move(result));
  }
  const std::string json = allocator_report_json(report);
  if (file) file->commit(json);
  const std::string text = options.json ? json : allocator_report_text(report);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw ToolError("cannot write the report to standard output");
  return 0;
}

}  // namespace weir::tool
