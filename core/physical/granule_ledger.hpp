// SPDX-License-Identifier: Apache-2.0
//
// GranuleLedger: which granules of one page size are shared, by what, and where the room in them is. With it rounding a
// buffer to whole granules costs next to nothing where a granule may be mapped at several addresses: a buffer is laid out
// as `head` bytes at the rear of one granule, whole granules, `tail` bytes at the front of another, so that its addresses
// are contiguous; small buffers lie between. The two granules may be one.
//
//     granule X  [ tail of one buffer | small | small |   free   | head of another ]
//                0                                                                P
//
// The split chosen opens the fewest granules; then it leaves the least room where no fragment can use it (between two
// fragments); then it touches the fewest granules. Whole granules are the caller's own: the ledger only tells how many.
//
// One ledger serves one device and one client only: what shares a granule is never zeroed in between.
//
// Metadata only: it never calls the runtime, never evicts and never moves; where it has no room it answers "a new granule",
// which the caller names. A claim has two steps under the caller's lock: choose() or find_*(), which change nothing, and
// commit(), which takes what was chosen with the granules that the caller got for it. A granule is made and mapped outside
// of the lock: until show() nothing else is given room in it, and undoing is release() of what was claimed. hide() does the
// same to an older one, which empties it: take room elsewhere for each tenant, copy, release the old places.
//
// Invariants, checked by validate(): a granule's runs (fragments, small tenants, free ones) tile it in order; no two free
// ones touch; none is wholly free (it leaves the ledger with its last tenant); at most one fragment begins at its front and
// one ends at its rear; every free run of a shown granule, and no other, is in the indexes; a piece's generation is odd
// while it lives and never goes back.
//
// Each call is logarithmic in the number of runs. On std::bad_alloc nothing has changed. Not thread-safe.
#pragma once

#include "core/physical/room_tree.hpp"

#include <cassert>
#include <cstdint>
#include <memory_resource>
#include <string>
#include <vector>

namespace weir::physical {

class GranuleLedger {
 public:
  static constexpr uint32_t none = UINT32_MAX;
  static constexpr uint64_t quantum = 256;  ///< every place and length is a multiple of it

  enum class Kind : uint8_t {
    unused,  ///< not a run
    free,
    head,   ///< the first bytes of a buffer, at a granule's rear
    tail,   ///< the last bytes of a buffer, at a granule's front
    small,  ///< a whole buffer below a granule
  };

  /// A fragment or a small tenant, for as long as it lives.
  struct Piece {
    uint32_t node = none;
    uint32_t generation = 0;
    explicit operator bool() const noexcept { return node != none; }
    bool operator==(const Piece &) const = default;
  };

  /// How a buffer is to be laid out. Good until the ledger changes; then choose again.
  struct Split {
    uint64_t head = 0;   ///< bytes at a granule's rear; 0: the buffer begins with a whole granule
    uint64_t whole = 0;  ///< granules of the buffer's own
    uint64_t tail = 0;   ///< bytes at a granule's front; 0: it ends with a whole granule
    uint32_t head_run = none;  ///< free run for the head; none: a new granule
    uint32_t tail_run = none;
    uint64_t at = 0;  ///< the ledger's state it was chosen in

    bool opens_head() const noexcept { return head != 0 && head_run == none; }
    bool opens_tail() const noexcept { return tail != 0 && tail_run == none; }
    uint64_t new_granules() const noexcept {
      return whole + (opens_head() ? 1 : 0) + (opens_tail() ? 1 : 0);
    }
  };

  /// A place for one piece, found alone.
  struct Place {
    Kind kind = Kind::unused;
    uint64_t bytes = 0;
    uint64_t alignment = quantum;
    uint32_t run = none;  ///< none: a new granule
    uint64_t at = 0;
  };

  struct Claim {
    Piece head, tail;
  };

  /// What a release left.
  struct Released {
    bool emptied = false;  ///< the granule is wholly free and out of the ledger
    uint64_t granule = 0;  ///< its name
  };

  /// `page` bytes a granule, a power of two. Rounding that wastes no more than bytes / `least_share` is left alone, so that
  /// few granules are shared.
  GranuleLedger(uint64_t page, std::pmr::memory_resource *memory, uint64_t least_share = 200);
  GranuleLedger(const GranuleLedger &) = delete;
  GranuleLedger &operator=(const GranuleLedger &) = delete;

  // ---- finding: changes nothing ----
  /// For a buffer of `bytes` >= a page whose address is a multiple of `alignment`, a power of two up to a page.
  Split choose(uint64_t bytes, uint64_t alignment = quantum) const;
  /// For a fragment whose bytes are fixed, because its buffer keeps its address: multiples of the quantum below a page.
  Place find_head(uint64_t bytes) const;
  Place find_tail(uint64_t bytes) const;
  /// For a buffer below a page.
  Place find_small(uint64_t bytes, uint64_t alignment = quantum) const;

  // ---- taking ----
  /// False, with nothing changed, if the ledger is not as it was when the split was chosen. The names of new granules are
  /// looked at only where one is opened; they are hidden until show(). `owner` is the caller's word on both pieces.
  bool commit(const Split &split, uint64_t new_head, uint64_t new_tail, uint64_t owner,
              Claim *claim);
  bool commit(const Place &place, uint64_t new_granule, uint64_t owner, Piece *piece);
  /// The piece must live. A granule that is reported as emptied has nothing else in it.
  Released release(Piece piece) noexcept;

  // ---- granules, named by any piece in them ----
  /// Its room may be given out (again). Idempotent, as hide() is.
  void show(Piece piece) noexcept { set_shown(piece, true); }
  void hide(Piece piece) noexcept { set_shown(piece, false); }
  bool shown(Piece piece) const { return slot_of(piece).shown; }
  uint64_t granule(Piece piece) const { return slot_of(piece).name; }

  // ---- looking ----
  bool live(Piece piece) const noexcept {
    return piece.node < nodes_.size() && nodes_[piece.node].generation == piece.generation &&
           (piece.generation & 1U) != 0;
  }
  Kind kind(Piece piece) const { return node_of(piece).kind; }
  uint64_t offset(Piece piece) const { return uint64_t{node_of(piece).offset} * quantum; }
  uint64_t bytes(Piece piece) const { return uint64_t{node_of(piece).length} * quantum; }
  uint64_t owner(Piece piece) const { return node_of(piece).owner; }
  /// The pieces of a granule in order of place.
  Piece first_in(Piece piece) const { return live_from(slot_of(piece).first); }
  Piece next_in(Piece piece) const { return live_from(node_of(piece).after); }
  /// A piece of the shown granule without fragments that holds the fewest bytes; with `after`, the next one in that order.
  /// None: there is no (further) one.
  Piece emptiest() const { return piece_in(movable_.at_least(0)); }
  Piece next_emptiest(Piece after) const;
  /// Bytes that the granule's tenants take.
  uint64_t used_in(Piece piece) const { return slot_of(piece).used * quantum; }

  uint64_t page() const noexcept { return page_ * quantum; }
  uint64_t granules() const noexcept { return granules_; }
  uint64_t used() const noexcept { return used_ * quantum; }
  uint64_t free_bytes() const noexcept { return (granules_ * page_ - used_) * quantum; }
  uint64_t pieces() const noexcept { return pieces_; }

  /// Empty, or the first invariant that does not hold. O(n).
  std::string validate() const;

 private:
  struct Node {
    uint64_t owner = 0;
    uint32_t slot = none;
    uint32_t offset = 0, length = 0;       ///< in quanta
    uint32_t before = none, after = none;  ///< in the granule; `after` links what is unused
    uint32_t generation = 0;
    Kind kind = Kind::unused;
  };
  struct Slot {
    uint64_t name = 0;
    uint64_t used = 0;      ///< quanta
    uint32_t first = none;  ///< links what is unused
    uint32_t fragments = 0;
    bool shown = false, in_use = false;
  };
  /// Two rooms for the two ends of a buffer; UINT64_MAX excess: none.
  struct Pair {
    uint32_t rear = none, front = none;
    uint64_t excess = UINT64_MAX;
  };

  const Node &node_of(Piece piece) const {
    assert(live(piece));
    return nodes_[piece.node];
  }
  const Slot &slot_of(Piece piece) const { return slots_[node_of(piece).slot]; }
  Piece piece_at(uint32_t node) const { return {node, nodes_[node].generation}; }
  Piece live_from(uint32_t node) const;
  Piece piece_in(uint32_t slot) const {
    return slot == none ? Piece{} : live_from(slots_[slot].first);
  }

  Pair find_pair(uint64_t sum, uint64_t step) const;
  bool split_without_opening(uint64_t rest, uint64_t step, Split *split) const;
  void split_with_one_new(uint64_t rest, uint64_t step, Split *split) const;

  RoomTree &tree_of(const Node &node) noexcept;
  void index(uint32_t node) noexcept;
  void unindex(uint32_t node) noexcept;
  void reserve(uint32_t nodes, uint32_t slots);
  uint32_t take_node() noexcept;
  void drop_node(uint32_t node) noexcept;
  uint32_t open(uint64_t name) noexcept;
  uint32_t carve(uint32_t run, uint32_t offset, uint32_t length, Kind kind,
                 uint64_t owner) noexcept;
  void join(uint32_t node, uint32_t next) noexcept;
  void set_shown(Piece piece, bool shown) noexcept;
  uint32_t offset_for(Kind kind, const Node &run, uint64_t length, uint64_t alignment) const;

  std::string validate_granule(uint32_t slot, uint64_t *free_runs) const;

  const uint64_t page_;  ///< quanta
  const uint64_t least_share_;
  std::pmr::vector<Node> nodes_;
  std::pmr::vector<Slot> slots_;
  RoomTree front_, rear_, closed_;  ///< free runs: at a front, at a rear, at neither
  RoomTree movable_;                ///< granules without fragments by bytes in use
  uint32_t unused_node_ = none, unused_slot_ = none;
  uint32_t spare_nodes_ = 0, spare_slots_ = 0;
  uint64_t granules_ = 0, used_ = 0, pieces_ = 0;
  uint64_t state_ = 0;
};

}  // namespace weir::physical
