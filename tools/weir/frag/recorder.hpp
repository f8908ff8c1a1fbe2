// SPDX-License-Identifier: Apache-2.0
//
// SpanRecorder: turns whole states, one a frame, into spans that last as long as they lie still. CurveRecorder: a value
// at every time, kept as the lowest and highest of each bucket. Both take frames and times in order only.
#pragma once

#include "tools/weir/frag/film.hpp"

#include <unordered_map>

namespace weir::tool::frag {

class SpanRecorder {
 public:
  /// `merge`: runs that touch, of one block and kind, are one.
  explicit SpanRecorder(bool merge) : merge_(merge) {}

  /// Of the frame that is being recorded, in any order.
  void add(const Span &span) { now_.push_back(span); }
  /// Ends the frame. Throws std::logic_error where two runs overlap: the caller is wrong.
  void end_frame();
  /// Of the frame just ended, in order.
  const std::vector<Span> &lying() const { return lying_; }
  /// All spans, in the film's order.
  std::vector<Span> take();

 private:
  void merge_touching();

  const bool merge_;
  uint32_t frame_ = 0;
  std::vector<Span> now_;
  std::vector<Span> lying_;
  std::vector<Span> done_;
};

class CurveRecorder {
 public:
  static constexpr uint64_t most_buckets = 1500;

  CurveRecorder(std::vector<std::string> names, uint64_t end);
  /// The values at `time`, in the order of the names.
  void add(uint64_t time, const std::vector<uint64_t> &values);
  uint64_t bucket() const { return bucket_; }
  std::vector<Curve> take();

 private:
  uint64_t bucket_;
  std::vector<Curve> curves_;
};

/// Places for segments of any size on a line: the lowest gap that is long enough, kept for as long as the segment is
/// there. For memory whose own addresses mean nothing.
class SegmentLine {
 public:
  struct Segment {
    uint64_t id = 0;
    uint64_t bytes = 0;
  };
  /// What is there now.
  void set(const std::vector<Segment> &segments);
  uint64_t address(uint64_t id) const { return places_.at(id).address; }

 private:
  struct Place {
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint64_t seen = 0;
  };
  std::unordered_map<uint64_t, Place> places_;
  uint64_t round_ = 0;
};

}  // namespace weir::tool::frag
