// SPDX-License-Identifier: Apache-2.0
//
// BasicArena: hands out ranges of a number line and touches no memory behind it. A two-level segregated fit
// (Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems", ECRTS 2004) whose nodes lie
// in a table beside the line, so that it can manage memory the CPU cannot see.
//
// Invariants, all checked by validate():
//  - the nodes are as node_table.hpp says, and tile [0, size);
//  - a free node is in exactly one bin, that of its size, except the tail (the free range that ends the
//    line), which is in none: it is used last, so that holes fill first and the end stays free for resize();
//  - `bound_` is no smaller than any binned range, and `largest_`, where known, is a binned range that was a
//    long one of the top class when it was noted.
//
// Which range is taken: the first of the exact class's first few that fits, if it does so to the unit; else that or the
// head of one of the next classes above (an Arena's two are a thirty-second wider each), whichever lies lowest; else the
// head of the next class that has any; else another of the exact class; else the tail. Nearly the tightest, then, and low:
// that leaves the high places to empty and joins what is freed there, which fills a line further than the tightest fit
// alone does (bench/bench_arena.cpp).
//
// Every search is bounded: allocate() looks at a constant number of ranges whether it succeeds or not, so
// it may refuse while one range would fit that shares the top class (or, with alignment, a class near it)
// with others that do not. It never refuses the size that largest_free() or large_free() just told.
//
// Not thread-safe, const functions included (largest_free() keeps what it found). It must never allocate
// after it began to change something: a failing memory resource leaves everything as it was.
#pragma once

#include "core/physical/arena_classes.hpp"
#include "core/physical/node_table.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <memory_resource>
#include <string>
#include <vector>

namespace weir::physical {

template <class Unit, unsigned second_bits>
class BasicArena {
  using Table = NodeTable<Unit>;

 public:
  using Node = typename Table::Node;
  static constexpr Node none = UINT32_MAX;
  /// The longest line, in quanta.
  static constexpr uint64_t max_quanta = uint64_t{1} << (sizeof(Unit) == 8 ? 48 : 31);
  static constexpr uint64_t max_alignment = uint64_t{1} << 30;

  struct Allocation {
    Node node = none;
    uint64_t offset = 0;
    explicit operator bool() const { return node != none; }
  };

  /// `size` units, of which whole quanta are used (a power of two); all memory comes from `memory`.
  BasicArena(uint64_t size, uint64_t quantum, std::pmr::memory_resource *memory);
  BasicArena(const BasicArena &) = delete;
  BasicArena &operator=(const BasicArena &) = delete;

  /// A range of `size` units (at least one quantum) at a multiple of `alignment`, a power of two. Without a
  /// fit the node is none. std::bad_alloc, with nothing changed, when the node table can't grow.
  Allocation allocate(uint64_t size, uint64_t alignment = 1);
  /// The range at exactly `offset`, a multiple of the quantum, if it lies in the free range that ends where the live node
  /// `next` begins (none: where the line ends). std::bad_alloc as in allocate().
  Allocation allocate_before(Node next, uint64_t offset, uint64_t size);
  /// allocate_before() of what is known to be free, with entries that keep_spare() has put by.
  Node take_before(Node next, uint64_t offset, uint64_t size) noexcept;
  /// So many entries are left whenever a call that may throw has returned, for take_before(), which uses up two at most and
  /// gets them back as its node is freed. std::bad_alloc with nothing changed.
  void keep_spare(uint32_t entries) { nodes_.keep_spare(entries); }
  /// The next two calls of allocate() or allocate_before() do not throw. std::bad_alloc with nothing changed.
  void prepare() { nodes_.reserve(4); }
  /// Length of the free range right before a live node; 0: there is none.
  uint64_t free_before(Node node) const {
    const Node before = live_entry(node).before;
    return nodes_.leads_to_free(before) ? nodes_.length(nodes_.node_of(before)) << shift_ : 0;
  }
  /// The node must be live.
  void free(Node node) noexcept;
  /// Adds units at the end or takes free ones away from there; false, with nothing changed, if the end is
  /// in use or the size is beyond max_quanta. std::bad_alloc as in allocate().
  bool resize(uint64_t size);

  uint64_t offset(Node node) const { return uint64_t{live_entry(node).offset} << shift_; }
  uint64_t size(Node node) const { return nodes_.noted_length(nodes_.live_index(node)) << shift_; }
  uint32_t generation(Node node) const { return live_entry(node).generation; }
  /// 32 bits of the caller's for as long as the node lives; 0 at first.
  void set_owner(Node node, uint32_t owner) noexcept {
    nodes_[nodes_.live_index(node)].list_before = owner;
  }
  uint32_t owner(Node node) const { return live_entry(node).list_before; }
  bool live(Node node) const { return nodes_.live(node); }

  /// All ranges in address order, as visit(offset, size, node), the node none if the range is free. Ends when the
  /// visitor returns false. O(n).
  template <class Visit>
  void each_range(Visit &&visit) const {
    for (Node node = nodes_.after(end); node != end; node = nodes_.after(node)) {
      const uint64_t at = nodes_[node].offset;
      if (!visit(at << shift_, nodes_.length(node) << shift_, nodes_.is_free(node) ? none : node))
        return;
    }
  }
  /// The free range that ends the line, which allocate() takes from last.
  uint64_t tail_units() const {
    return nodes_.tail() != end ? nodes_.length(nodes_.tail()) << shift_ : 0;
  }

  /// The live nodes in address order.
  Node first() const { return live_from(nodes_[end].after); }
  Node next(Node node) const { return live_from(live_entry(node).after); }

  uint64_t size() const { return quanta() << shift_; }
  uint64_t used() const { return used_ << shift_; }
  uint64_t free_units() const { return (quanta() - used_) << shift_; }
  /// Exact. Walks the top class if its largest range has been taken since the last call, else O(1).
  uint64_t largest_free() const {
    if (largest_ == end || nodes_.noted_length(largest_) != bound_) find_largest(UINT64_MAX);
    return largest_known();
  }
  /// A free range of the top class, the longest of the few looked at: for refusals, which must stay O(1).
  uint64_t large_free() const {
    if (largest_ == end) find_largest(max_looks);
    return largest_known();
  }
  uint32_t allocations() const { return nodes_.live_count(); }
  uint64_t free_ranges() const { return nodes_.free_count(); }
  std::pmr::memory_resource *memory() const noexcept { return bins_.get_allocator().resource(); }
  uint64_t node_bytes() const { return nodes_.bytes() + bins_.capacity() * sizeof(Node); }
  bool empty() const { return nodes_.live_count() == 0; }

  /// Empty, or the first invariant that does not hold. O(n).
  std::string validate() const;

 private:
  using Entry = typename Table::Entry;
  using Classes = SizeClasses<second_bits>;
  using Used = UsedClasses<second_bits, max_quanta + max_alignment>;

  static constexpr Node end = Table::end;
  static constexpr uint32_t max_looks = 8;
  /// So many at first. Every further one is an entry that may not be in the cache, and in classes as narrow as an Arena's
  /// fills a line no further.
  static constexpr uint32_t first_looks = Classes::columns >= 16 ? 2 : max_looks;
  /// In place of the node before the first of a list: its class. So a range's class need not be computed to find its list.
  static constexpr Node heads = uint32_t{1} << 31;
  /// So many that their ranges are at most an eighth longer: beyond that, what is split off costs more than lying low
  /// gains.
  static constexpr uint32_t near_classes = Classes::columns >= 16 ? 2 : 1;

  /// One for each class of as many rows as the length needs, and those past them that lowest_near() looks at.
  static size_t bins_for(uint64_t quanta) {
    return (Classes::row_of(Classes::of(quanta)) + 1) * size_t{Classes::columns} + near_classes;
  }

  uint64_t quanta() const { return nodes_[end].offset; }
  const Entry &live_entry(Node node) const { return nodes_[nodes_.live_index(node)]; }
  /// At most one free range lies between two live ones.
  Node live_from(Node link) const {
    const Node node = nodes_.leads_to_free(link) ? nodes_[nodes_.node_of(link)].after : link;
    return node == end ? none : node;
  }

  /// Whether a range at that place and length holds `length` at the alignment.
  bool fits(Node node, uint64_t present, uint64_t length, uint64_t alignment) const {
    const uint64_t from = nodes_[node].offset;
    return align_up(from, alignment) - from + length <= present;
  }
  static uint64_t align_up(uint64_t value, uint64_t alignment) {
    return (value + alignment - 1) & ~(alignment - 1);
  }
  // The ways through an allocation are forced into one: as calls they cost a tenth of an allocate and a free.
  inline Node look(uint32_t size_class, uint64_t length, uint64_t alignment, uint32_t *looks) const;
  [[gnu::always_inline]] inline Node search(uint64_t length) const;
  Node search(uint64_t length, uint64_t alignment) const;
  [[gnu::always_inline]] inline Node lowest_near(uint32_t size_class, Node found) const;
  Node search_aligned(uint32_t size_class, uint64_t length, uint64_t alignment) const;
  [[gnu::noinline]] Allocation allocate_aligned(uint64_t wanted, uint64_t step);
  void find_largest(uint64_t looks) const;
  uint64_t largest_known() const {
    const uint64_t binned = largest_ != end ? nodes_.noted_length(largest_) : 0;
    return std::max(binned << shift_, tail_units());
  }

  /// `reserved`: there are entries for what it splits off.
  template <bool reserved>
  [[gnu::always_inline]] inline Allocation carve(Node node, uint64_t start,
                                                 uint64_t wanted) noexcept(reserved);
  inline void grow_over(Node node, uint64_t length, Node after) noexcept;
  inline void put_in_bin(Node node, uint64_t length) noexcept;
  inline void take_from_bin(Node node) noexcept;
  /// Also where the class stays the same: asking would cost as much as it saves.
  void change_bin(Node node, uint64_t to) noexcept {
    take_from_bin(node);
    put_in_bin(node, to);
  }

  std::string validate_bin(uint32_t size_class, uint64_t *seen, uint64_t *longest) const;

  std::pmr::vector<Node> bins_;  ///< list heads by class; no more than the size needs
  Used used_classes_;
  uint64_t used_ = 0;
  mutable uint64_t bound_ = 0;
  mutable Node largest_ = end;  ///< end: none known
  uint32_t shift_ = 0;          ///< log2 of the quantum
  Table nodes_;  ///< last: what each call reads of it lies beside what it changes here
};

/// Device memory, host memory and address space in bytes.
using Arena = BasicArena<uint64_t, 5>;
/// Slabs: thousands of short lines.
using SmallArena = BasicArena<uint32_t, 3>;

extern template class BasicArena<uint64_t, 5>;
extern template class BasicArena<uint32_t, 3>;

}  // namespace weir::physical
