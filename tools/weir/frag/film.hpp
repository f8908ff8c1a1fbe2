// SPDX-License-Identifier: Apache-2.0
//
// Film: how a trace's memory lay at a bounded number of instants, exactly, with the curves between them. What lies still
// from frame to frame is told once: a span is a run of a line (a block's bytes, or memory reserved) with its first and
// last frame. Invariants: within a frame the blocks' spans of a lane do not overlap; spans are ordered by first frame,
// lane and address.
#pragma once

#include "tools/weir/frag/story.hpp"
#include "tools/weir/frag/timeline.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace weir::tool::frag {

/// The colours of the tier mode, and what a map tells of a piece.
enum class Kind : uint8_t { device, host, compressed, storage, unwritten, idle };
inline constexpr size_t kind_count = 6;
inline constexpr const char *kind_names[kind_count] = {"DEVICE",  "HOST",      "COMPRESSED",
                                                       "STORAGE", "unwritten", "kept, no owner"};

/// A number line that is drawn: a device's memory, or a tier's.
struct Lane {
  std::string name;
  std::string note;      ///< what its offsets are
  uint64_t granule = 0;  ///< size of what is reserved at a time; 0: as told by the spans
  uint64_t end = 0;      ///< past the last byte ever reserved
};

inline constexpr uint32_t no_block = UINT32_MAX;

struct Span {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t block = no_block;  ///< none: reserved memory, or memory without an owner
  uint8_t lane = 0;
  Kind kind = Kind::device;
  uint32_t first = 0;
  uint32_t last = 0;

  bool same_place(const Span &other) const {
    return address == other.address && bytes == other.bytes && block == other.block &&
           lane == other.lane && kind == other.kind;
  }
};

/// One instant that is known exactly.
struct Frame {
  uint64_t time = 0;
  uint64_t live = 0;      ///< bytes of live blocks, as asked for
  uint64_t reserved = 0;  ///< bytes of all lanes reserved; with a pool, of the device
  uint64_t moved = 0;     ///< bytes moved so far
  uint64_t operation = UINT64_MAX;
  std::string operation_name;
  std::string phase;
};

/// A value over all times, in buckets: nothing that was ever reached is lost, only when within a bucket.
struct Curve {
  std::string name;
  std::vector<uint64_t> low, high;
};

/// A frame worth looking at.
struct Mark {
  std::string key;  ///< what '#t=' takes
  std::string text;
  uint32_t frame = 0;
};

struct Figure {
  std::string name;
  std::string value;
  std::string note;
};

struct Film {
  std::string title;
  std::string source;  ///< how the blocks were placed
  std::string unit;    ///< of time
  std::vector<std::string> notes;
  uint64_t end = 0;     ///< the last time
  uint64_t bucket = 1;  ///< times in each of the curves' buckets
  std::vector<Lane> lanes;
  std::vector<Frame> frames;
  std::vector<Span> reserved;
  std::vector<Span> blocks;
  std::vector<Curve> curves;
  Timeline timeline;
  std::vector<Mark> marks;
  std::vector<Figure> figures;
  bool tiers = false;  ///< several tiers: colours tell them
};

}  // namespace weir::tool::frag
