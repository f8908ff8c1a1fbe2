// SPDX-License-Identifier: Apache-2.0
//
// Two runs of the same placement: the first draws the curves and finds the instants worth a frame, the second stops at
// each frame and looks where everything lies.
#include "tools/weir/frag/placement_film.hpp"

#include "tools/weir/frag/instants.hpp"
#include "tools/weir/frag/recorder.hpp"
#include "tools/weir/text.hpp"

#include <algorithm>

namespace weir::tool::frag {
namespace {

bool by_granules(PlacementKind kind) {
  return kind == PlacementKind::multi_map || kind == PlacementKind::vmm;
}

const char *reserved_note(PlacementKind kind) {
  switch (kind) {
    case PlacementKind::multi_map:
      return "granules by their number: a buffer may have pieces in any of them";
    case PlacementKind::vmm:
      return "one line of addresses: neighbours share their boundary granules";
    case PlacementKind::segments:
    case PlacementKind::pytorch:
      return "segments, drawn one after the other: their own addresses are the driver's";
  }
  return "";
}

/// One run: step() does the next event.
class Run {
 public:
  Run(const Story &story, const PlacementFilmOptions &options)
      : story_(story), placement_(make_placement(options.kind, options.placement)) {}

  /// False if the capacity refused the allocation; the run is over then.
  bool step() {
    const StoryEvent &event = story_.events[time_];
    const uint64_t bytes = story_.blocks[event.block].bytes;
    if (event.free) {
      placement_->free(event.block);
      live_ -= bytes;
    } else {
      if (!placement_->allocate(event.block, bytes)) return false;
      live_ += bytes;
    }
    ++time_;
    return true;
  }

  uint64_t time() const { return time_; }
  uint64_t live() const { return live_; }
  const Placement &placement() const { return *placement_; }
  uint64_t reserved() const { return placement_->counters().reserved_bytes; }

 private:
  const Story &story_;
  std::unique_ptr<Placement> placement_;
  uint64_t time_ = 0;
  uint64_t live_ = 0;
};

class Filming {
 public:
  Filming(const Story &story, const PlacementFilmOptions &options, PlacementNumbers *numbers)
      : story_(story),
        options_(options),
        numbers_(*numbers),
        reserved_(by_granules(options.kind)) {}

  Film film() {
    survey();
    const std::vector<NamedInstant> named = named_instants();
    const std::vector<uint64_t> times = instants(options_.frames, film_.end, named);
    Run run(story_, options_);
    for (const uint64_t time : times) {
      while (run.time() < time) (void)run.step();
      frame(run);
    }
    film_.reserved = reserved_.take();
    film_.blocks = blocks_.take();
    film_.marks = marks(film_.frames, named);
    film_.timeline = timeline_of(story_, film_.end, film_.bucket);
    describe();
    return std::move(film_);
  }

 private:
  void survey() {
    CurveRecorder curves({"live", "reserved"}, story_.events.size());
    Run run(story_, options_);
    curves.add(0, {0, 0});
    while (run.time() < story_.events.size()) {
      if (!run.step()) {
        numbers_.refused_at = run.time() + 1;
        break;
      }
      curves.add(run.time(), {run.live(), run.reserved()});
      note(run);
    }
    numbers_.counters = run.placement().counters();
    film_.end = run.time();
    film_.bucket = curves.bucket();
    film_.curves = curves.take();
  }

  void note(const Run &run) {
    PlacementNumbers &n = numbers_;
    if (run.live() > n.peak_live) {
      n.peak_live = run.live();
      peak_live_at_ = run.time();
    }
    if (run.reserved() > n.peak_reserved) {
      n.peak_reserved = run.reserved();
      n.peak_reserved_at = run.time();
      n.live_at_peak_reserved = run.live();
    }
    // A placement may round an end up or leave it out: it is never below what is live by more than that.
    const uint64_t unused = run.reserved() - std::min(run.live(), run.reserved());
    if (unused > n.most_unused) {
      n.most_unused = unused;
      n.most_unused_at = run.time();
      n.reserved_at_most_unused = run.reserved();
    }
  }

  std::vector<NamedInstant> named_instants() const {
    std::vector<NamedInstant> named = {{"start", "start", start_of(story_, film_.end)},
                                       {"peak", "peak live", peak_live_at_},
                                       {"reserved", "peak reserved", numbers_.peak_reserved_at},
                                       {"worst", "most unused", numbers_.most_unused_at}};
    if (numbers_.refused_at == never)
      named.push_back({"end", "end", film_.end});
    else
      named.push_back({"end", "refused next", film_.end});
    return named;
  }

  void frame(const Run &run) {
    Frame frame = frame_at(story_, run.time());
    frame.live = run.live();
    frame.reserved = run.reserved();
    frame.moved = run.placement().counters().moved_bytes;
    film_.frames.push_back(std::move(frame));
    reserve(run.placement().containers());
    while (born_ < story_.blocks.size() && story_.blocks[born_].born <= run.time())
      live_.push_back(static_cast<uint32_t>(born_++));
    std::erase_if(live_, [&](uint32_t block) { return !story_.blocks[block].live_at(run.time()); });
    for (const uint32_t block : live_)
      for (const Piece &piece : run.placement().pieces(block))
        blocks_.add({address(piece.container) + piece.offset, piece.bytes, block});
    blocks_.end_frame();
  }

  void reserve(const std::vector<Container> &containers) {
    if (!by_granules(options_.kind)) {
      std::vector<SegmentLine::Segment> segments;
      for (const Container &one : containers) segments.push_back({one.id, one.bytes});
      line_.set(segments);
    }
    for (const Container &one : containers) {
      const uint64_t from = address(one.id);
      reserved_.add({from, one.bytes});
      lane_end_ = std::max(lane_end_, from + one.bytes);
    }
    reserved_.end_frame();
  }

  uint64_t address(uint64_t container) const {
    return by_granules(options_.kind) ? container * options_.placement.granule
                                      : line_.address(container);
  }

  void describe() {
    const PlacementNumbers &n = numbers_;
    film_.title = story_.name;
    film_.unit = "allocations and frees";
    film_.source = "placement '" + std::string(placement_name(options_.kind)) + "'";
    if (by_granules(options_.kind))
      film_.source += ", granules of " + format_bytes(options_.placement.granule);
    if (options_.placement.capacity != UINT64_MAX)
      film_.source += ", capacity " + format_bytes(options_.placement.capacity);
    film_.lanes.push_back({"DEVICE", reserved_note(options_.kind),
                           by_granules(options_.kind) ? options_.placement.granule : 0, lane_end_});
    const auto at = [](uint64_t time) { return "at event " + std::to_string(time); };
    const auto share = [](uint64_t part, uint64_t whole) {
      return format_fixed(
                 whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole), 2) +
             " %";
    };
    film_.figures.push_back({"Peak live", format_bytes(n.peak_live), at(peak_live_at_)});
    film_.figures.push_back({"Peak reserved", format_bytes(n.peak_reserved),
                             format_fixed(n.peak_live == 0 ? 1
                                                           : static_cast<double>(n.peak_reserved) /
                                                                 static_cast<double>(n.peak_live),
                                          4) +
                                 " x peak live, " + at(n.peak_reserved_at)});
    film_.figures.push_back(
        {"Fragmentation",
         share(n.peak_reserved - std::min(n.live_at_peak_reserved, n.peak_reserved),
               n.peak_reserved),
         "of reserved is unused at its peak"});
    film_.figures.push_back({"Most unused", format_bytes(n.most_unused),
                             share(n.most_unused, n.reserved_at_most_unused) + " of reserved, " +
                                 at(n.most_unused_at)});
    film_.figures.push_back({"Moved", format_bytes(n.counters.moved_bytes),
                             share(n.counters.moved_bytes, n.counters.allocated_bytes) +
                                 " of the bytes allocated, " + std::to_string(n.counters.moves) +
                                 " moves"});
    if (n.refused_at != never) {
      const StoryEvent &event = story_.events[n.refused_at - 1];
      film_.figures.push_back({"Refused", format_bytes(story_.blocks[event.block].bytes),
                               "block " + std::to_string(event.block) + ", " + at(n.refused_at) +
                                   " of " + std::to_string(story_.events.size())});
    }
    film_.notes.push_back(std::to_string(film_.frames.size()) + " instants of " +
                          std::to_string(film_.end + 1) +
                          " are drawn, each exact: evenly spread, and the named ones. Blocks that "
                          "live between two of "
                          "them only are not shown.");
    film_.notes.push_back("The curves are of every event: in steps of " +
                          std::to_string(film_.bucket) +
                          ", the lowest and the highest value of each.");
  }

  const Story &story_;
  const PlacementFilmOptions &options_;
  PlacementNumbers &numbers_;
  Film film_;
  SpanRecorder reserved_;
  SpanRecorder blocks_{true};
  SegmentLine line_;
  std::vector<uint32_t> live_;
  uint64_t born_ = 0;
  uint64_t peak_live_at_ = 0;
  uint64_t lane_end_ = 0;
};

}  // namespace

Film film_placement(const Story &story, const PlacementFilmOptions &options,
                    PlacementNumbers *numbers) {
  GranuleCount granules(options.placement.granule);
  for (const StoryBlock &block : story.blocks) granules.add(block.bytes);
  granules.check(story.name, story.peak_live_bytes);
  return Filming(story, options, numbers).film();
}

}  // namespace weir::tool::frag
