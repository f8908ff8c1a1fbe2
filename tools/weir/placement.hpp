// SPDX-License-Identifier: Apache-2.0
//
// Placement: where a way of managing memory puts the blocks of a trace, and what it reserves for them. One interface over
// the placements that Weir's pools use and over a model of PyTorch's, so that a replay and a drawing need not know which
// one they look at. Metadata only: no byte is touched. One stream, so what was freed may be used again at once.
//
// Invariants: a live block's pieces lie in reserved containers, overlap no other block's, and add up to at least its bytes;
// their order is that of the block's own bytes. A refused allocation leaves every live block where it was or moved, and
// the counters tell so; nothing of the refused block is left. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::tool {

enum class PlacementKind : uint8_t {
  multi_map,  ///< granules mapped at several addresses: buffers share granules wherever there is room
  vmm,  ///< one mapping a granule: neighbours on a line of addresses share their boundary granules
  segments,  ///< no virtual memory: plain allocations, blocks in them, compaction by copy
  pytorch    ///< PyTorch's caching allocator, without expandable segments, as a yardstick
};
inline constexpr PlacementKind all_placements[] = {PlacementKind::multi_map, PlacementKind::vmm,
                                                   PlacementKind::segments, PlacementKind::pytorch};
std::string_view placement_name(PlacementKind kind);  ///< "multi-map", "vmm", "segments", "pytorch"
std::optional<PlacementKind> placement_of(std::string_view name);

struct PlacementOptions {
  uint64_t granule = uint64_t{2} << 20;  ///< a power of two, 4096 or more
  uint64_t capacity = UINT64_MAX;        ///< the most that may be reserved at any time
  double move_share = 0.01;  ///< bytes moved stay within this share of the bytes allocated; 0: none
  bool record_moves = false;  ///< keep what take_moves() gives
};

/// A piece of memory reserved from the system: a granule (multi_map, vmm) or a segment. An id names one as long as it is
/// reserved, and may name another later; under vmm it is the granule's place on the line of addresses.
struct Container {
  uint64_t id = 0;
  uint64_t bytes = 0;
};

/// A run of a block's bytes that lies in one container.
struct Piece {
  uint64_t container = 0;
  uint64_t offset = 0;  ///< in the container
  uint64_t bytes = 0;
};

struct Move {
  uint32_t block = 0;
  Piece from;
  Piece to;  ///< of as many bytes
};

struct PlacementCounters {
  uint64_t reserved_bytes = 0;
  uint64_t peak_reserved_bytes = 0;
  uint64_t allocated_bytes = 0;  ///< of all allocations that succeeded, as asked for
  uint64_t moved_bytes = 0;
  uint64_t moves = 0;
  uint64_t opened = 0;     ///< containers reserved
  uint64_t map_calls = 0;  ///< runs of a block mapped at a time (segments: taken from the system)
};

class Placement {
 public:
  virtual ~Placement() = default;
  Placement(const Placement &) = delete;
  Placement &operator=(const Placement &) = delete;

  /// Places `bytes` (> 0) for a block that is not live; false if the capacity has no room for it. Others may have been
  /// moved first, whether it succeeds or not.
  virtual bool allocate(uint32_t block, uint64_t bytes) = 0;
  /// The block must be live.
  virtual void free(uint32_t block) = 0;

  /// All that is reserved now, by id.
  virtual std::vector<Container> containers() const = 0;
  /// Where a live block lies, in the order of its bytes.
  virtual std::vector<Piece> pieces(uint32_t block) const = 0;
  /// What was moved since the last call, in order. Empty unless PlacementOptions::record_moves.
  std::vector<Move> take_moves() { return std::exchange(moves_, {}); }

  const PlacementCounters &counters() const noexcept { return counters_; }

 protected:
  Placement() = default;

  PlacementCounters counters_;
  std::vector<Move> moves_;
};

std::unique_ptr<Placement> make_placement(PlacementKind kind, const PlacementOptions &options);

/// What a trace's blocks come to in granules. Placements keep a word for each and take a step for each that a block gets: what
/// a trace may cost is bounded by its length, so that a few lines are not a day's work.
class GranuleCount {
 public:
  explicit GranuleCount(uint64_t granule) noexcept : granule_(granule) {}
  void add(uint64_t block_bytes) noexcept {
    opened_ += block_bytes / granule_;
    ++blocks_;
  }
  /// Throws ToolError with the figures where it is more than a placement follows.
  void check(const std::string &trace, uint64_t peak_live_bytes) const;

 private:
  const uint64_t granule_;
  uint64_t opened_ = 0, blocks_ = 0;
};

}  // namespace weir::tool
