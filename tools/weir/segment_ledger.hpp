// SPDX-License-Identifier: Apache-2.0
//
// SegmentLedger: where buffers lie in the segments of a device without virtual memory, and which of them to copy elsewhere
// when a request does not fit though its bytes do. A segment is one plain allocation of the runtime's, of any size.
//
// Metadata only: it never calls the runtime, never evicts; find() answers none and the caller decides whether to add a
// segment, to give an empty one back or to compact. Compaction is made of these steps, each of which may be undone:
//   find_windows() tells places that would hold the request if few bytes were elsewhere; hold_at() keeps a window's holes
//   from being given out; find() and commit() take a new place for each tenant; once the copies are done, release() of the
//   old places. hide() does the same to a whole segment, which empties it.
//
// Invariants, checked by validate(): a segment's runs tile it in order; no two holes touch; every hole of a shown segment,
// and no other, is in the index; a piece's generation is odd while it lives and never goes back.
//
// Each call is logarithmic in the number of runs, but for find_windows(), which walks them all. On std::bad_alloc nothing
// has changed. Not thread-safe.
#pragma once

#include "core/physical/room_tree.hpp"

#include <cstdint>
#include <memory_resource>
#include <string>
#include <vector>

namespace weir::tool {

using physical::RoomTree;

class SegmentLedger {
 public:
  static constexpr uint32_t none = UINT32_MAX;
  static constexpr uint64_t quantum = 256;

  struct Piece {
    uint32_t node = none;
    uint32_t generation = 0;
    explicit operator bool() const noexcept { return node != none; }
    bool operator==(const Piece &) const = default;
  };
  using Segment = uint32_t;

  /// A place for a buffer. Good until the ledger changes; then find again.
  struct Place {
    uint32_t run = none;  ///< none: no hole is long enough
    uint64_t bytes = 0, alignment = quantum;
    uint64_t at = 0;
    explicit operator bool() const noexcept { return run != none; }
  };

  /// A range of a segment that is free but for some tenants, which hold `live` bytes.
  struct Window {
    Segment segment = none;
    uint64_t offset = 0;
    uint64_t live = 0;
  };

  /// The holes from `first` on to the one that ends the range are enough together; between them tenants hold `live` bytes.
  struct Slide {
    Segment segment = none;
    uint32_t first = none, last = none;  ///< holes
    uint64_t live = 0;
    explicit operator bool() const noexcept { return first != none; }
  };

  explicit SegmentLedger(std::pmr::memory_resource *memory)
      : nodes_(memory), segments_(memory), holes_(memory) {}
  SegmentLedger(const SegmentLedger &) = delete;
  SegmentLedger &operator=(const SegmentLedger &) = delete;

  /// A segment that the caller has; whole quanta of it are used. Shown, and wholly free.
  Segment add(uint64_t name, uint64_t bytes);
  /// It must be empty.
  void remove(Segment segment) noexcept;
  /// Whether its holes are given out. Idempotent.
  void show(Segment segment) noexcept;
  void hide(Segment segment) noexcept;

  /// The smallest hole that is enough, or nearly that with an alignment beyond the quantum.
  Place find(uint64_t bytes, uint64_t alignment = quantum) const;
  /// None, with nothing changed, if the ledger is not as it was when the place was found.
  Piece commit(const Place &place, uint64_t owner);
  /// Takes [offset, offset + bytes), which must be free, of a segment.
  Piece hold_at(Segment segment, uint64_t offset, uint64_t bytes, uint64_t owner);
  /// The piece must live.
  void release(Piece piece) noexcept;

  /// Up to `most` windows of `bytes` whose tenants hold the fewest bytes, in that order.
  std::vector<Window> find_windows(uint64_t bytes, size_t most) const;

  /// The range of one segment whose holes hold `bytes` together with the fewest bytes of tenants between them. Sliding those
  /// down, one after the other, joins the holes; a tenant's old and new place may overlap, so its copy must go upwards.
  Slide find_slide(uint64_t bytes) const;
  /// The tenant between the range's first two holes; none: they are joined. Each slide_down() brings the next one.
  Piece next_to_slide(const Slide &slide) const;
  /// Exchanges a piece with the hole right below it.
  void slide_down(Piece piece, Slide *slide) noexcept;

  bool live(Piece piece) const noexcept {
    return piece.node < nodes_.size() && nodes_[piece.node].generation == piece.generation &&
           (piece.generation & 1U) != 0;
  }
  uint64_t offset(Piece piece) const { return node_of(piece).offset * quantum; }
  uint64_t bytes(Piece piece) const { return node_of(piece).length * quantum; }
  uint64_t owner(Piece piece) const { return node_of(piece).owner; }
  Segment segment_of(Piece piece) const { return node_of(piece).segment; }

  Segment first_segment() const { return next_in_use(0); }
  Segment next_segment(Segment segment) const { return next_in_use(segment + 1); }
  bool shown(Segment segment) const { return segments_[segment].shown; }
  uint64_t name(Segment segment) const { return segments_[segment].name; }
  uint64_t bytes_of(Segment segment) const { return segments_[segment].length * quantum; }
  uint64_t used_of(Segment segment) const { return segments_[segment].used * quantum; }
  /// The pieces of a segment in order of place.
  Piece first_in(Segment segment) const { return live_from(segments_[segment].first); }
  Piece next_in(Piece piece) const { return live_from(node_of(piece).after); }

  uint64_t reserved() const noexcept { return reserved_ * quantum; }
  uint64_t used() const noexcept { return used_ * quantum; }
  uint64_t free_bytes() const noexcept { return reserved() - used(); }
  uint64_t pieces() const noexcept { return pieces_; }
  uint64_t largest_hole() const noexcept;

  /// Empty, or the first invariant that does not hold. O(n).
  std::string validate() const;

 private:
  struct Node {
    uint64_t offset = 0, length = 0;  ///< in quanta
    uint64_t owner = 0;
    uint32_t segment = none;
    uint32_t before = none, after = none;  ///< in the segment; `after` links what is unused
    uint32_t generation = 0;
    bool hole = false;
  };
  struct Entry {
    uint64_t name = 0;
    uint64_t length = 0, used = 0;  ///< in quanta
    uint32_t first = none;
    bool shown = false, in_use = false;
  };

  const Node &node_of(Piece piece) const;
  Piece live_from(uint32_t node) const;
  Segment next_in_use(Segment segment) const;
  void slides_in(Segment segment, uint64_t length, Slide *best) const;
  void windows_in(Segment segment, uint64_t length, std::vector<Window> *found) const;
  void index(uint32_t node) noexcept;
  void unindex(uint32_t node) noexcept;
  void reserve(uint32_t nodes);
  uint32_t take_node() noexcept;
  void drop_node(uint32_t node) noexcept;
  uint32_t insert_after(uint32_t node, uint64_t offset, uint64_t length) noexcept;
  Piece carve(uint32_t run, uint64_t offset, uint64_t length, uint64_t owner) noexcept;
  void absorb_next(uint32_t node) noexcept;

  std::pmr::vector<Node> nodes_;
  std::pmr::vector<Entry> segments_;
  RoomTree holes_;
  uint32_t unused_ = none, spare_ = 0;
  uint64_t reserved_ = 0, used_ = 0, pieces_ = 0;
  uint64_t state_ = 0;
};

}  // namespace weir::tool
