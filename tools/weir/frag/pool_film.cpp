// SPDX-License-Identifier: Apache-2.0
//
// One replay, watched: counters after every operation for the curves, the whole map at the instants.
#include "tools/weir/frag/pool_film.hpp"

#include "tools/weir/constrained.hpp"
#include "tools/weir/error.hpp"
#include "tools/weir/frag/instants.hpp"
#include "tools/weir/frag/recorder.hpp"
#include "tools/weir/replayer.hpp"
#include "tools/weir/text.hpp"

#include <algorithm>
#include <memory>

namespace weir::tool::frag {
namespace {

/// Bytes live at each time.
std::vector<uint64_t> live_bytes(const Story &story) {
  std::vector<uint64_t> gained(story.end + 2, 0);
  for (const StoryBlock &block : story.blocks) {
    gained[std::min(block.born, story.end + 1)] += block.bytes;
    if (block.dies != never) gained[std::min(block.dies, story.end + 1)] -= block.bytes;
  }
  for (size_t i = 1; i < gained.size(); ++i) gained[i] += gained[i - 1];
  gained.pop_back();
  return gained;
}

constexpr size_t device_lane = 0, host_lane = 1, compressed_lane = 2, storage_lane = 3;

size_t lane_of(const weir_piece &piece) {
  switch (piece.tier) {
    case WEIR_TIER_DEVICE:
      return device_lane;
    case WEIR_TIER_HOST:
      return host_lane;
    case WEIR_TIER_COMPRESSED:
      return compressed_lane;
    default:
      return storage_lane;
  }
}

class Watch {
 public:
  Watch(const Story &story, const ReplayOptions &options, uint32_t frames, PoolNumbers *numbers)
      : story_(story),
        options_(options),
        numbers_(*numbers),
        live_(live_bytes(story)),
        reserved_(options.vmm),
        curves_({"live", "DEVICE", "HOST", "COMPRESSED", "STORAGE"}, story.end) {
    const auto peak = std::max_element(live_.begin(), live_.end());
    numbers_.peak_live = *peak;
    named_ = {{"start", "start", start_of(story, story.end)},
              {"peak", "peak live", static_cast<uint64_t>(peak - live_.begin())},
              {"end", "end", story.end}};
    times_ = instants(frames, story.end, named_);
    film_.lanes = {{"DEVICE", options.vmm ? "granules by their number" : "segments in a row"},
                   {"HOST", "chunks of pinned memory, in a row"},
                   {"COMPRESSED", "offsets in the reservation"},
                   {"STORAGE", "offsets in the spill files"}};
  }

  Film film(const std::function<void(uint64_t, uint64_t)> &progress) {
    PlanOptions plan_options;
    plan_options.scale = options_.scale;
    plan_options.limit = options_.limit;
    const Plan plan = read_plan(options_.trace, plan_options);
    if (plan.operations.empty())
      throw ToolError("trace '" + options_.trace + "' has no operations to replay");
    settings_ = settle(options_, plan);
    if (options_.vmm) film_.lanes[device_lane].granule = settings_.page;
    const Pattern pattern(options_.data, options_.seed);
    WeirMachine machine(constrained_machine(options_, settings_), plan.block_bytes.size());
    look(machine, 0);
    RunOptions run;
    run.announce = options_.announce;
    run.ahead = options_.ahead;
    run.verify = options_.verify;
    run.pace = options_.pace;
    run.progress = [&](uint64_t operations) { progress(operations, story_.end); };
    run.after = [&](uint64_t operation) { look(machine, operation + 1); };
    const RunResult result = replay(plan, machine, pattern, run);
    if (result.verify_errors != 0)
      throw ToolError(std::to_string(result.verify_errors) +
                      " words read back were not what was written");
    finish();
    return std::move(film_);
  }

 private:
  void look(const WeirMachine &machine, uint64_t time) {
    const weir_pool_stats stats = machine.stats();
    curves_.add(time, {live_[time], stats.device_bytes - stats.device_free_bytes,
                       stats.host_used_bytes, stats.compressed_bytes, stats.storage_bytes});
    numbers_.device_budget = stats.device_budget;
    numbers_.promoted = stats.promoted_bytes;
    numbers_.demoted = stats.demoted_bytes;
    if (next_ == times_.size() || times_[next_] != time) return;
    ++next_;
    const uint64_t used = record(machine.map());
    Frame frame = frame_at(story_, time);
    frame.live = live_[time];
    frame.reserved = device_reserved_;
    frame.moved = stats.promoted_bytes + stats.demoted_bytes;
    film_.frames.push_back(std::move(frame));
    numbers_.peak_device = std::max(numbers_.peak_device, device_reserved_);
    if (device_reserved_ - used <= numbers_.most_unused) return;
    numbers_.most_unused = device_reserved_ - used;
    numbers_.most_unused_at = time;
    numbers_.reserved_at_most_unused = device_reserved_;
  }

  /// The frame's pieces; returns the bytes of device memory that buffers have.
  uint64_t record(const std::vector<weir_piece> &pieces) {
    std::vector<SegmentLine::Segment> lines[2];
    for (const weir_piece &piece : pieces)
      if (piece.state == WEIR_PIECE_RESERVED && lane_of(piece) <= host_lane)
        lines[lane_of(piece)].push_back({piece.container, piece.bytes});
    for (auto &line : lines)
      std::sort(line.begin(), line.end(), [](const auto &a, const auto &b) { return a.id < b.id; });
    if (!options_.vmm) line_[device_lane].set(lines[device_lane]);
    line_[host_lane].set(lines[host_lane]);
    uint64_t used = 0;
    device_reserved_ = 0;
    for (const weir_piece &piece : pieces) {
      const size_t lane = lane_of(piece);
      Span span{address(piece, lane), piece.bytes};
      span.lane = static_cast<uint8_t>(lane);
      if (piece.state == WEIR_PIECE_RESERVED) {
        if (lane == storage_lane) {
          spill_bytes_ = piece.bytes;  // preallocated: drawn as far as it was ever used
          continue;
        }
        if (lane == device_lane) device_reserved_ += piece.bytes;
        film_.lanes[lane].end = std::max(film_.lanes[lane].end, span.address + span.bytes);
        reserved_.add(span);
        continue;
      }
      span.kind = static_cast<Kind>(lane);
      if (piece.state == WEIR_PIECE_UNWRITTEN) span.kind = Kind::unwritten;
      if (piece.buffer == nullptr || piece.state == WEIR_PIECE_KEPT)
        span.kind = Kind::idle;
      else
        span.block = static_cast<uint32_t>(piece.tag);
      if (lane == device_lane && span.block != no_block) used += piece.bytes;
      film_.lanes[lane].end = std::max(film_.lanes[lane].end, span.address + span.bytes);
      blocks_.add(span);
    }
    reserved_.end_frame();
    blocks_.end_frame();
    return used;
  }

  uint64_t address(const weir_piece &piece, size_t lane) const {
    if (lane > host_lane) return piece.offset;
    if (lane == device_lane && options_.vmm) return piece.container * settings_.page + piece.offset;
    return line_[lane].address(piece.container) + piece.offset;
  }

  void finish() {
    film_.title = story_.name;
    film_.unit = "operations";
    film_.end = story_.end;
    film_.tiers = true;
    film_.bucket = curves_.bucket();
    film_.curves = curves_.take();
    film_.timeline = timeline_of(story_, film_.end, film_.bucket);
    std::erase_if(film_.curves, [](const Curve &curve) {
      return *std::max_element(curve.high.begin(), curve.high.end()) == 0;
    });
    film_.reserved = reserved_.take();
    draw_spill_files();
    film_.blocks = blocks_.take();
    // Lanes that were never used go; they are the last ones, but for HOST.
    while (film_.lanes.back().end == 0 && film_.lanes.size() > 1) film_.lanes.pop_back();
    named_.push_back({"worst", "most unused", numbers_.most_unused_at});
    film_.marks = marks(film_.frames, named_);
    describe();
  }

  void draw_spill_files() {
    Lane &lane = film_.lanes[storage_lane];
    if (lane.end == 0) return;
    lane.note += " of " + format_bytes(spill_bytes_) + ", as far as they were used";
    Span span{0, lane.end};
    span.lane = storage_lane;
    span.last = static_cast<uint32_t>(film_.frames.size() - 1);
    const auto after =
        std::find_if(film_.reserved.begin(), film_.reserved.end(),
                     [](const Span &one) { return one.first > 0 || one.lane > storage_lane; });
    film_.reserved.insert(after, span);
  }

  void describe() {
    const PoolNumbers &n = numbers_;
    film_.source = "pool: device " + format_bytes(n.device_budget) + ", host " +
                   format_bytes(settings_.host_budget);
    if (settings_.compressed_budget != 0)
      film_.source += ", compressed " + format_bytes(settings_.compressed_budget);
    if (settings_.storage_budget != 0)
      film_.source += ", storage " + format_bytes(settings_.storage_budget);
    film_.source += "; pages of " + format_bytes(settings_.page);
    if (options_.scale != 1) film_.source += "; sizes / " + std::to_string(options_.scale);
    const auto percent = [](uint64_t part, uint64_t whole) {
      return format_fixed(
                 whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole), 2) +
             " %";
    };
    film_.figures.push_back({"Peak live", format_bytes(n.peak_live), "of all tiers"});
    film_.figures.push_back({"Device held", format_bytes(n.peak_device),
                             "at most, of a budget of " + format_bytes(n.device_budget)});
    film_.figures.push_back({"Most unused", format_bytes(n.most_unused),
                             percent(n.most_unused, n.reserved_at_most_unused) +
                                 " of held device memory free or kept for reuse, at operation " +
                                 std::to_string(n.most_unused_at)});
    film_.figures.push_back({"Promoted", format_bytes(n.promoted), "copied up to the device"});
    film_.figures.push_back({"Demoted", format_bytes(n.demoted), "copied down from it"});
    film_.notes.push_back(
        std::to_string(film_.frames.size()) + " instants of " + std::to_string(film_.end + 1) +
        " are drawn, each as the pool told it under its lock: evenly spread, and the named ones.");
    film_.notes.push_back("The curves are of every operation: in steps of " +
                          std::to_string(film_.bucket) +
                          ", the lowest and the highest value of each.");
    for (const std::string &note : settings_.notes) film_.notes.push_back(note + ".");
  }

  const Story &story_;
  const ReplayOptions &options_;
  PoolNumbers &numbers_;
  std::vector<uint64_t> live_;
  Settings settings_;
  Film film_;
  SpanRecorder reserved_;
  SpanRecorder blocks_{true};
  CurveRecorder curves_;
  SegmentLine line_[2];  ///< of the device without VMM, and of HOST
  std::vector<NamedInstant> named_;
  std::vector<uint64_t> times_;
  size_t next_ = 0;
  uint64_t device_reserved_ = 0;
  uint64_t spill_bytes_ = 0;
};

}  // namespace

Film film_pool(const Story &story, const ReplayOptions &options, uint32_t frames,
               const std::function<void(uint64_t, uint64_t)> &progress, PoolNumbers *numbers) {
  return Watch(story, options, frames, numbers).film(progress);
}

}  // namespace weir::tool::frag
