// SPDX-License-Identifier: Apache-2.0
//
// SharedLine: places buffers on one line of addresses, byte by byte, where a granule can be mapped at one address only.
// Neighbours share the pages at their boundaries, and a page needs memory while any live byte lies in it. Addresses are
// plentiful and memory is not: of all holes that are long enough, the one is taken where the fewest pages must be opened.
//
//     pages    |        |        |        |        |
//     buffers  [   a      |  b  ]   hole    [   c     ]      the hole's first and last page are open already
//
// A shared page comes and goes with all buffers on it: the price of not needing MULTI_MAP.
//
// One line serves one device and one client only: what shares a page is never zeroed in between.
//
// Metadata only, in two steps under the caller's lock: choose() changes nothing, commit() takes what was chosen. The pages
// that a plan names must be made and mapped by the caller; undoing is release(), which names the pages to give back.
//
// Invariants, checked by validate(): live runs and holes tile the line in order; no two holes touch; every hole is in the
// four indexes under what it has; the pages open are all but those that lie wholly in a hole. A run's generation is odd
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

class SharedLine {
 public:
  static constexpr uint32_t none = UINT32_MAX;
  static constexpr uint64_t quantum = 256;

  struct Run {
    uint32_t node = none;
    uint32_t generation = 0;
    explicit operator bool() const noexcept { return node != none; }
    bool operator==(const Run &) const = default;
  };

  /// Pages of the line, by number.
  struct Pages {
    uint64_t first = 0;
    uint64_t count = 0;
  };

  /// Where a buffer is to lie. Good until the line changes; then choose again.
  struct Plan {
    uint32_t hole = none;  ///< none: no hole is long enough
    uint64_t address = 0;
    uint64_t bytes = 0;  ///< taken; whole pages where rounding wastes next to nothing
    Pages opens;
    uint64_t at = 0;
    explicit operator bool() const noexcept { return hole != none; }
  };

  /// A line of `bytes`, whole pages of them; all sizes powers of two but `bytes`. Rounding to whole pages that wastes no
  /// more than a buffer's bytes / `least_share` is left alone, so that few pages are shared.
  SharedLine(uint64_t bytes, uint64_t page, std::pmr::memory_resource *memory,
             uint64_t least_share = 200);
  SharedLine(const SharedLine &) = delete;
  SharedLine &operator=(const SharedLine &) = delete;

  /// For `bytes` (> 0) at a multiple of `alignment`, a power of two up to a page.
  Plan choose(uint64_t bytes, uint64_t alignment = quantum) const;
  /// None, with nothing changed, if the line is not as it was when the plan was made.
  Run commit(const Plan &plan, uint64_t owner);
  /// The run must live. What it names is open no more.
  Pages release(Run run) noexcept;

  bool live(Run run) const noexcept {
    return run.node < nodes_.size() && nodes_[run.node].generation == run.generation &&
           (run.generation & 1U) != 0;
  }
  uint64_t address(Run run) const { return node_of(run).begin * quantum; }
  uint64_t bytes(Run run) const { return (node_of(run).end - node_of(run).begin) * quantum; }
  uint64_t owner(Run run) const { return node_of(run).owner; }
  void set_owner(Run run, uint64_t owner) {
    assert(live(run));
    nodes_[run.node].owner = owner;
  }
  /// The live runs in order of address.
  Run first() const { return live_from(first_); }
  Run next(Run run) const { return live_from(node_of(run).after); }
  Run before(Run run) const;

  uint64_t page() const noexcept { return page_ * quantum; }
  uint64_t open_pages() const noexcept { return open_; }
  uint64_t runs() const noexcept { return runs_; }

  /// Empty, or the first invariant that does not hold. O(n).
  std::string validate() const;

 private:
  struct Node {
    uint64_t begin = 0, end = 0;  ///< in quanta
    uint64_t owner = 0;
    uint32_t before = none, after = none;  ///< in order of address; `after` links what is unused
    uint32_t generation = 0;
    bool hole = false;
  };
  /// What a hole has: room on an open page at either end, whole pages between.
  struct Rooms {
    uint64_t left = 0, whole = 0, right = 0;
  };

  const Node &node_of(Run run) const {
    assert(live(run));
    return nodes_[run.node];
  }
  Run live_from(uint32_t node) const;
  Rooms rooms_of(uint64_t begin, uint64_t end) const noexcept;
  uint64_t whole_pages(uint64_t begin, uint64_t end) const noexcept;
  void consider(uint32_t hole, bool at_end, uint64_t length, uint64_t step, Plan *best,
                uint64_t *best_cost) const;
  void index(uint32_t node) noexcept;
  void unindex(uint32_t node) noexcept;
  void reserve(uint32_t nodes);
  uint32_t take_node() noexcept;
  void drop_node(uint32_t node) noexcept;
  uint32_t insert_after(uint32_t node, uint64_t begin, uint64_t end) noexcept;

  const uint64_t page_;  ///< quanta
  const uint64_t least_share_;
  std::pmr::vector<Node> nodes_;
  /// The holes; all but the last only those that have such room.
  RoomTree left_, right_, whole_, length_;
  uint32_t first_ = none, last_ = none;
  uint32_t unused_ = none, spare_ = 0;
  uint64_t open_ = 0, used_ = 0, runs_ = 0;
  uint64_t state_ = 0;
};

}  // namespace weir::physical
