// SPDX-License-Identifier: Apache-2.0
//
// NodeTable: the ranges of a line as nodes, chained in address order, in a table beside the line. It says where a range lies and
// whether it is live; which free one is taken is the arena's business (arena.hpp).
//
// Invariants, all checked by validate():
//  - the nodes tile the line without gap or overlap; no two free ones touch;
//  - a link to a neighbour is marked if that one is free, so that freeing a range shows what it joins without a look at the neighbour;
//  - a node's generation is odd while it is live and even otherwise, and never goes back;
//  - an entry that is no node is in the list of the unused.
//
// Only reserve() and keep_spare() allocate, before anything is changed.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

namespace weir::physical {

template <class Unit>
class NodeTable {
  static_assert(std::is_same_v<Unit, uint64_t> || std::is_same_v<Unit, uint32_t>);

  /// A range's length is the distance to the next one's offset.
  struct SmallEntry {
    Unit offset = 0;
    uint32_t generation = 0;
    uint32_t before = 0;  ///< neighbours in address order, as links
    uint32_t after = 0;
    uint32_t list_before = 0;  ///< in the bin; the owner while live
    uint32_t list_after = 0;   ///< in the bin, or the next unused entry
  };
  /// Here there is room for a copy of the length, which saves the look at its neighbour; the tail's is not kept. Aligned, so
  /// that none lies across two cache lines.
  struct alignas(32) WideEntry : SmallEntry {
    uint32_t noted_length = 0;  ///< too_long if it does not fit
  };
  static constexpr bool wide = sizeof(Unit) == 8;
  static constexpr uint32_t too_long = UINT32_MAX;

 public:
  using Node = uint32_t;
  using Entry = std::conditional_t<wide, WideEntry, SmallEntry>;
  static_assert(sizeof(Entry) == (wide ? 32 : 24));

  /// Entry 0 stands at the line's end and closes the chain to a ring; it counts as allocated, so that
  /// nothing merges across the ends. As a link in a list, it means "no more".
  static constexpr Node end = 0;
  /// In a link to a neighbour: it is free. A free range's links have none.
  static constexpr Node free_mark = uint32_t{1} << 31;

  explicit NodeTable(std::pmr::memory_resource *memory) : entries_(memory) {
    grow(1);
    entries_[end].generation = 1;
    note_length(entries_[end], too_long);
  }

  Entry &operator[](Node node) noexcept { return entries_[node]; }
  const Entry &operator[](Node node) const noexcept { return entries_[node]; }

  // ---- ranges ----
  uint64_t length(Node node) const {
    return uint64_t{entries_[after(node)].offset} - entries_[node].offset;
  }
  /// length() of a range that is live or in a bin, as note_length() was told.
  uint64_t noted_length(Node node) const {
    if constexpr (wide) {
      if (const uint32_t known = entries_[node].noted_length; known != too_long) [[likely]]
        return known;
    }
    return length(node);
  }
  /// noted_length(node) >= length, and true of the end's entry too.
  bool holds(Node node, uint64_t length) const {
    if constexpr (wide) {
      const uint32_t known = entries_[node].noted_length;
      if (known >= length) return true;
      if (known != too_long) [[likely]]
        return false;
    }
    return this->length(node) >= length;
  }
  void note_length(Entry &entry, uint64_t length) noexcept {
    if constexpr (wide)
      entry.noted_length = static_cast<uint32_t>(std::min<uint64_t>(length, too_long));
  }
  bool is_free(Node node) const { return (entries_[node].generation & 1) == 0; }
  bool live(Node node) const { return node != end && has(node) && !is_free(node); }
  Node live_index(Node node) const {
    assert(live(node));
    return node;
  }
  static bool leads_to_free(Node link) { return (link & free_mark) != 0; }
  static Node node_of(Node link) { return link & ~free_mark; }
  Node before(Node node) const { return node_of(entries_[node].before); }
  Node after(Node node) const { return node_of(entries_[node].after); }
  /// The free range that ends the line, or `end`.
  Node tail() const {
    const Node last = entries_[end].before;
    return leads_to_free(last) ? node_of(last) : end;
  }
  /// A live one at the front of the free range `node`, which goes on behind it.
  void link_live_before(Node taken, Node node, uint64_t offset) noexcept {
    Entry &entry = entries_[taken];
    const Node predecessor = entries_[node].before;
    entry.offset = static_cast<Unit>(offset);
    entry.before = predecessor;
    entries_[predecessor].after = taken;
    entry.after = node | free_mark;
    entries_[node].before = taken;
  }
  /// A free one before a live one whose predecessor is live.
  void link_free_before(Node gap, Node node, uint64_t offset) noexcept {
    Entry &entry = entries_[gap];
    entry.offset = static_cast<Unit>(offset);
    entry.before = entries_[node].before;
    entry.after = node;
    link_as_free(gap);
  }
  /// What the neighbours' links say of a range between two live ones.
  void link_as_free(Node node) noexcept {
    entries_[entries_[node].before].after = node | free_mark;
    entries_[entries_[node].after].before = node | free_mark;
  }
  void link_as_live(Node node) noexcept {
    entries_[entries_[node].before].after = node;
    entries_[entries_[node].after].before = node;
  }
  /// A free one.
  void unlink(Node node) noexcept {
    const Entry &entry = entries_[node];
    entries_[entry.before].after = entry.after;
    entries_[entry.after].before = entry.before;
  }
  /// Makes the node live, without an owner.
  void make_live(Node node, uint64_t length) noexcept {
    Entry &entry = entries_[node];
    note_length(entry, length);
    ++entry.generation;
    entry.list_before = 0;
    ++live_;
  }
  void make_free(Node node) noexcept {
    --live_;
    ++entries_[node].generation;
  }
  uint32_t live_count() const { return live_; }
  uint64_t free_count() const { return entries_.size() - 1 - unused_count_ - live_; }

  // ---- entries ----
  /// Makes room for that many take() calls, beside those put by. std::bad_alloc with nothing changed.
  void reserve(uint32_t count) {
    if (count + spare_ > unused_count_) [[unlikely]]
      grow(count + spare_);
  }
  /// From now on so many are left whenever reserve() has returned, for a caller that has taken no more than that since.
  void keep_spare(uint32_t count) {
    if (count > unused_count_) grow(count);
    spare_ = count;
  }
  [[gnu::always_inline]] Node take() noexcept {
    assert(unused_count_ != 0);
    const Node node = unused_;
    unused_ = entries_[node].list_after;
    --unused_count_;
    return node;
  }
  void drop(Node node) noexcept {
    entries_[node].before = unused_mark;
    entries_[node].list_after = unused_;
    unused_ = node;
    ++unused_count_;
  }
  bool has(Node node) const { return node < entries_.size(); }
  bool is_unused(Node node) const { return entries_[node].before == unused_mark; }
  uint64_t bytes() const { return entries_.capacity() * sizeof(Entry); }

  /// Empty, or the first invariant that does not hold. `used`: the length of the live ones. O(n).
  std::string validate(uint64_t used) const {
    const auto at = [](Node node, const char *what) {
      return "node " + std::to_string(node) + ": " + what;
    };
    const auto differ = [](uint64_t found, uint64_t counted, const char *what) {
      return std::to_string(found) + " " + what + ", " + std::to_string(counted) + " counted";
    };
    uint64_t ranges = 0, live = 0, taken = 0, unused = 0;
    bool free_before = false;
    Node before = end;
    for (Node node = after(end); node != end; before = node, node = after(node)) {
      if (!has(node)) return at(before, "its successor lies out of the table");
      const Entry &entry = entries_[node];
      if (node_of(entry.before) != before) return at(node, "its predecessor does not lead to it");
      if (entries_[before].after != link_to(node) || entry.before != link_to(before))
        return at(node, "a link says wrongly whether it leads to a free range");
      if (before == end && entry.offset != 0)
        return at(node, "the first range does not start at 0");
      if (!has(after(node))) return at(node, "its successor lies out of the table");
      if (entries_[after(node)].offset <= entry.offset)
        return at(node, "its length is not positive");
      if (!is_free(node) && noted_length(node) != length(node))
        return at(node, "it has another length than noted");
      if (free_before && is_free(node)) return at(node, "two free ranges touch");
      if (++ranges >= entries_.size()) return at(node, "the chain does not end");
      free_before = is_free(node);
      live += free_before ? 0 : 1;
      taken += free_before ? 0 : length(node);
    }
    if (is_free(end)) return "the end's entry counts as free";
    if (entries_[end].before != link_to(before))
      return at(before, "the end does not link back to it");
    if (ranges == 0 && entries_[end].offset != 0) return "no range covers the line";
    if (live != live_) return differ(live, live_, "live ranges");
    if (taken != used) return differ(taken, used, "quanta used");
    if (ranges - live != free_count()) return differ(ranges - live, free_count(), "free ranges");
    for (Node node = unused_; node != end && unused <= unused_count_; ++unused) {
      if (!has(node) || !is_unused(node) || !is_free(node))
        return at(node, "in the list of the unused, but in use");
      node = entries_[node].list_after;
    }
    if (unused != unused_count_)
      return "the list of unused entries has another length than counted";
    return {};
  }

 private:
  static constexpr uint32_t unused_mark = UINT32_MAX;  ///< `before` of an entry that is no range

  Node link_to(Node node) const { return node | (is_free(node) ? free_mark : 0); }

  /// By an eighth, so that little lies idle. The new entries are taken in their order.
  [[gnu::noinline]] void grow(uint32_t count) {
    const size_t present = entries_.size();
    const size_t wanted = present + std::max<size_t>({count, 4, present / 8});
    if (wanted >= node_of(unused_mark)) throw std::bad_alloc();
    entries_.reserve(wanted);  // exactly
    entries_.resize(wanted);
    const size_t first = std::max<size_t>(present, end + 1);
    for (size_t node = wanted; node-- > first;) drop(static_cast<Node>(node));
  }

  std::pmr::vector<Entry> entries_;
  // In this order: side by side, compilers would write the first and the third by a detour through a vector.
  Node unused_ = end;
  uint32_t live_ = 0;
  uint32_t unused_count_ = 0;
  uint32_t spare_ = 0;  ///< of them, put by
};

}  // namespace weir::physical
