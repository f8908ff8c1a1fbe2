// SPDX-License-Identifier: Apache-2.0
//
// Reading a story: one walk over the lines. An operation's allocations and frees, and those of the host before it,
// belong to it: on the clock of operations they are done when it has ended.
#include "tools/weir/frag/story.hpp"

#include "tools/weir/trace_reader.hpp"

#include <algorithm>
#include <unordered_map>

namespace weir::tool::frag {
namespace {

/// Texts by number, each once.
class Names {
 public:
  explicit Names(std::vector<std::string> *list) : list_(list) {}
  uint32_t operator()(std::string_view text) {
    const auto [entry, fresh] =
        index_.try_emplace(std::string(text), static_cast<uint32_t>(list_->size()));
    if (fresh) list_->emplace_back(text);
    return entry->second;
  }

 private:
  std::vector<std::string> *list_;
  std::unordered_map<std::string, uint32_t> index_;
};

class Teller {
 public:
  Teller(const std::string &path, const StoryOptions &options)
      : options_(options),
        reader_(path, TraceReader::Tags::stacks),
        tags_(&story_.tags),
        phases_(&story_.phases),
        names_(&story_.names) {
    story_.clock = options.clock;
  }

  Story tell() {
    TraceEvent event;
    while (reader_.next(event)) {
      if (event.kind == TraceEvent::Kind::operation && story_.operations == options_.limit) break;
      take(event);
    }
    story_.name = reader_.name();
    story_.notes = reader_.notes();
    story_.end =
        story_.clock == Clock::operations ? story_.operations : uint64_t{story_.events.size()};
    return std::move(story_);
  }

 private:
  void take(const TraceEvent &event) {
    switch (event.kind) {
      case TraceEvent::Kind::alloc:
        return alloc(event);
      case TraceEvent::Kind::free:
        return free(event);
      case TraceEvent::Kind::operation:
        in_operation_ = true;
        ++story_.operations;
        story_.operation_marks.push_back({begins(), names_(event.text)});
        return;
      case TraceEvent::Kind::end:
        in_operation_ = false;
        return;
      case TraceEvent::Kind::phase:
        story_.phase_marks.push_back({begins(), phases_(event.text)});
        return;
      default:
        return;  // uses do not move a block
    }
  }

  /// The first time at which what is done from now on has been done.
  uint64_t begins() const {
    if (story_.clock == Clock::events) return story_.events.size() + 1;
    return in_operation_ ? story_.operations : story_.operations + 1;
  }

  void alloc(const TraceEvent &event) {
    if (event.id != story_.blocks.size())
      reader_.refuse("block ids must be 0, 1, 2, ... in order of allocation");
    if (event.id >= UINT32_MAX) reader_.refuse("more blocks than this program can hold (2^32)");
    if (const char *reason = counted_.add(event.bytes)) reader_.refuse(reason);
    trace_bytes_.push_back(event.bytes);
    const uint64_t bytes = (event.bytes - 1) / options_.scale + 1;
    story_.blocks.push_back({bytes, begins(), never, tags_(event.text)});
    story_.events.push_back({static_cast<uint32_t>(event.id), false});
    live_ += bytes;
    if (live_ <= story_.peak_live_bytes) return;
    story_.peak_live_bytes = live_;
    story_.peak_live_at = story_.blocks.back().born;
  }

  void free(const TraceEvent &event) {
    if (event.id >= story_.blocks.size() || story_.blocks[event.id].dies != never)
      reader_.refuse("free of a block that is not live");
    StoryBlock &block = story_.blocks[event.id];
    block.dies = begins();
    story_.events.push_back({static_cast<uint32_t>(event.id), true});
    live_ -= block.bytes;
    counted_.remove(trace_bytes_[event.id]);
  }

  const StoryOptions &options_;
  TraceReader reader_;
  Story story_;
  Names tags_;
  Names phases_;
  Names names_;
  TraceBytes counted_;
  std::vector<uint64_t> trace_bytes_;  ///< by block, not scaled
  uint64_t live_ = 0;
  bool in_operation_ = false;
};

/// The last mark not after `time`; the list's end where there is none.
std::vector<StoryMark>::const_iterator last_mark(const std::vector<StoryMark> &marks,
                                                 uint64_t time) {
  const auto after =
      std::upper_bound(marks.begin(), marks.end(), time,
                       [](uint64_t at, const StoryMark &mark) { return at < mark.time; });
  return after == marks.begin() ? marks.end() : after - 1;
}

}  // namespace

const std::string &Story::phase_at(uint64_t time) const {
  static const std::string none;
  const auto mark = last_mark(phase_marks, time);
  return mark == phase_marks.end() ? none : phases[mark->text];
}

uint64_t Story::operation_at(uint64_t time) const {
  const auto mark = last_mark(operation_marks, time);
  return mark == operation_marks.end() ? UINT64_MAX
                                       : static_cast<uint64_t>(mark - operation_marks.begin());
}

Story read_story(const std::string &path, const StoryOptions &options) {
  return Teller(path, options).tell();
}

}  // namespace weir::tool::frag
