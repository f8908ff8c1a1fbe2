// SPDX-License-Identifier: Apache-2.0
//
// The arena's searching, splitting and joining. Everything that can throw happens before the first change;
// no loop here depends on the number of ranges, apart from those of largest_free(), each_range() and validate().

#include "core/physical/arena.hpp"

#include <algorithm>

namespace weir::physical {

namespace {

/// Of a choice with ?:, compilers would make a branch, and half of the guesses would be wrong.
template <class T>
T *pick(bool first, T *one, T *other) {
  const auto a = reinterpret_cast<uintptr_t>(one);
  const auto b = reinterpret_cast<uintptr_t>(other);
  return reinterpret_cast<T *>(b ^ ((a ^ b) & (uintptr_t{0} - uintptr_t{first})));
}

}  // namespace

template <class U, unsigned B>
BasicArena<U, B>::BasicArena(uint64_t size, uint64_t quantum, std::pmr::memory_resource *memory)
    : bins_(memory), shift_(static_cast<uint32_t>(std::countr_zero(quantum))), nodes_(memory) {
  assert(std::has_single_bit(quantum));
  assert((size >> shift_) <= max_quanta);
  resize(std::min(size >> shift_, max_quanta) << shift_);
}

// ---- searching ----

template <class U, unsigned B>
auto BasicArena<U, B>::look(uint32_t size_class, uint64_t length, uint64_t alignment,
                            uint32_t *looks) const -> Node {
  for (Node node = bins_[size_class]; node != end && *looks > 0; node = nodes_[node].list_after) {
    --*looks;
    if (fits(node, nodes_.noted_length(node), length, alignment)) return node;
  }
  return end;
}

/// Without an alignment. The end's entry holds any length and lies higher than all, so that whether a class has any range
/// is no branch of its own.
template <class U, unsigned B>
auto BasicArena<U, B>::search(uint64_t length) const -> Node {
  if (length <= bound_) [[likely]] {
    const uint32_t size_class = Classes::of(length);
    for (uint32_t i = 1; i <= near_classes; ++i)  // lowest_near() wants them
      __builtin_prefetch(&nodes_[bins_[size_class + i]]);
    uint32_t looks = first_looks;
    Node found = bins_[size_class];
    while (!nodes_.holds(found, length)) found = --looks != 0 ? nodes_[found].list_after : end;
    if (nodes_.noted_length(found) == length) return found;
    found = lowest_near(size_class, found);
    if (found == end && first_looks < max_looks) [[unlikely]] {
      looks = max_looks;
      found = look(size_class, length, 1, &looks);
    }
    if (found != end) return found;
    if (largest_ != end && nodes_.noted_length(largest_) >= length) return largest_;
  }
  const Node last = nodes_.tail();
  return last != end && nodes_.length(last) >= length ? last : end;
}

/// With one.
template <class U, unsigned B>
auto BasicArena<U, B>::search(uint64_t length, uint64_t alignment) const -> Node {
  if (length <= bound_) {
    const uint32_t size_class = Classes::of(length);
    uint32_t looks = max_looks;
    Node found = look(size_class, length, alignment, &looks);
    if (found == end) found = search_aligned(size_class + 1, length, alignment);
    if (found != end) return found;
    if (largest_ != end && fits(largest_, nodes_.noted_length(largest_), length, alignment))
      return largest_;
  }
  const Node last = nodes_.tail();
  return last != end && fits(last, nodes_.length(last), length, alignment) ? last : end;
}

/// The lowest of `found` and the heads of the next classes, or, where there is none of them, the head of the first
/// used class above. All are long enough, and nearly as tight. The end's entry stands for an empty class: nothing
/// lies higher, so that no branch has to guess.
template <class U, unsigned B>
auto BasicArena<U, B>::lowest_near(uint32_t size_class, Node found) const -> Node {
  for (uint32_t i = 1; i <= near_classes; ++i) {
    const Node other = bins_[size_class + i];
    found = nodes_[other].offset < nodes_[found].offset ? other : found;
  }
  if (found != end) return found;
  const uint32_t above = used_classes_.next(size_class + near_classes + 1);
  return above != Used::none ? bins_[above] : end;
}

/// The classes from `size_class` to the one where any offset leaves enough, a few looks in all, then that one.
template <class U, unsigned B>
auto BasicArena<U, B>::search_aligned(uint32_t size_class, uint64_t length,
                                      uint64_t alignment) const -> Node {
  const uint32_t sure = Classes::of_at_least(length + alignment - 1);
  uint32_t looks = max_looks;
  uint32_t used = used_classes_.next(size_class);
  for (; used < sure && looks != 0; used = used_classes_.next(used + 1)) {
    if (const Node found = look(used, length, alignment, &looks); found != end) return found;
  }
  used = used_classes_.next(sure);
  return used != Used::none ? bins_[used] : end;
}

/// Looks at that many ranges of the top class for the longest, unless one is known to be. Stops early at a
/// range as long as the one that was taken, so that a class of equals costs nothing.
template <class U, unsigned B>
void BasicArena<U, B>::find_largest(uint64_t looks) const {
  Node node = used_classes_.empty() ? end : bins_[used_classes_.last()];
  uint64_t longest = 0;
  for (; node != end && longest < bound_ && looks > 0; node = nodes_[node].list_after, --looks) {
    if (nodes_.noted_length(node) <= longest) continue;
    longest = nodes_.noted_length(node);
    largest_ = node;
  }
  if (node == end || longest == bound_) bound_ = longest;
}

// ---- taking and giving ----

template <class U, unsigned B>
auto BasicArena<U, B>::allocate(uint64_t size, uint64_t alignment) -> Allocation {
  assert(size > 0 && std::has_single_bit(alignment) && alignment <= max_alignment);
  const uint64_t wanted = ((size - 1) >> shift_) + 1;
  if (wanted > quanta() - used_) [[unlikely]]
    return {};
  const uint64_t step = alignment >> shift_;
  if (step > 1) [[unlikely]]
    return allocate_aligned(wanted, step);
  const Node node = search(wanted);
  if (node == end) [[unlikely]]
    return {};
  return carve<false>(node, nodes_[node].offset, wanted);
}

template <class U, unsigned B>
auto BasicArena<U, B>::allocate_aligned(uint64_t wanted, uint64_t step) -> Allocation {
  const Node node = search(wanted, step);
  if (node == end) return {};
  return carve<false>(node, align_up(nodes_[node].offset, step), wanted);
}

template <class U, unsigned B>
auto BasicArena<U, B>::allocate_before(Node next, uint64_t offset, uint64_t size) -> Allocation {
  const Node before = nodes_[next == none ? end : nodes_.live_index(next)].before;
  const Node node = nodes_.node_of(before);
  const uint64_t wanted = (size + (uint64_t{1} << shift_) - 1) >> shift_;
  const uint64_t start = offset >> shift_;
  assert(size > 0 && start << shift_ == offset);
  if (!nodes_.leads_to_free(before) || start < nodes_[node].offset) return {};
  const uint64_t skipped = start - nodes_[node].offset;
  if (skipped > nodes_.length(node) || wanted > nodes_.length(node) - skipped) return {};
  return carve<false>(node, start, wanted);
}

template <class U, unsigned B>
auto BasicArena<U, B>::take_before(Node next, uint64_t offset, uint64_t size) noexcept -> Node {
  const Node node = nodes_.before(next == none ? end : nodes_.live_index(next));
  assert(nodes_.is_free(node));
  return carve<true>(node, offset >> shift_, size >> shift_).node;
}

/// Takes a part of a free range, from `start` on.
template <class U, unsigned B>
template <bool reserved>
auto BasicArena<U, B>::carve(Node node, uint64_t start, uint64_t wanted) noexcept(reserved)
    -> Allocation {
  const bool binned = nodes_[node].after != end;
  const uint64_t present = binned ? nodes_.noted_length(node) : nodes_.length(node);
  const uint64_t from = nodes_[node].offset;
  const uint64_t rest = from + present - start - wanted;
  if constexpr (!reserved) nodes_.reserve((start != from ? 1u : 0u) + (rest != 0 ? 1u : 0u));

  Node taken = node;
  if (rest == 0) {
    if (binned) take_from_bin(node);
    nodes_[node].offset = static_cast<U>(start);
    nodes_.link_as_live(node);
  } else {  // what is left keeps its entry: its successor need not be touched
    taken = nodes_.take();
    nodes_.link_live_before(taken, node, start);
    nodes_[node].offset = static_cast<U>(start + wanted);
    if (binned) change_bin(node, rest);
  }
  if (start != from) {
    const Node gap = nodes_.take();
    nodes_.link_free_before(gap, taken, from);
    put_in_bin(gap, start - from);
  }
  nodes_.make_live(taken, wanted);
  used_ += wanted;
  return {taken, start << shift_};
}

/// Joins what is free on either side: the free neighbour keeps its entry and grows over the range. The links tell which
/// are: a branch that waited for the neighbours' entries would be what a free takes longest for.
template <class U, unsigned B>
void BasicArena<U, B>::free(Node node) noexcept {
  assert(nodes_.live(node));
  const uint64_t freed = nodes_.noted_length(node);
  const Node before = nodes_[node].before;
  const Node after = nodes_[node].after;
  used_ -= freed;
  nodes_.make_free(node);
  if (!nodes_.leads_to_free(after)) {
    if (!nodes_.leads_to_free(before)) {
      nodes_.link_as_free(node);
      if (after != end) put_in_bin(node, freed);
    } else {
      nodes_.drop(node);
      grow_over(nodes_.node_of(before), freed, after);
    }
  } else if (!nodes_.leads_to_free(before)) {
    const Node joined = nodes_.node_of(after);
    Entry &entry = nodes_[joined];
    const uint64_t present = nodes_.noted_length(joined);
    entry.offset = nodes_[node].offset;
    entry.before = before;
    nodes_[before].after = after;
    nodes_.drop(node);
    if (entry.after != end) change_bin(joined, present + freed);
  } else {
    const Node joined = nodes_.node_of(after);
    const Node next = nodes_[joined].after;
    const uint64_t present = nodes_.noted_length(joined);
    if (next != end) take_from_bin(joined);
    nodes_.drop(joined);
    nodes_.drop(node);
    grow_over(nodes_.node_of(before), present + freed, next);
  }
}

/// A free range takes what lies between it and the live one `after`.
template <class U, unsigned B>
void BasicArena<U, B>::grow_over(Node node, uint64_t length, Node after) noexcept {
  const uint64_t present = nodes_.noted_length(node);
  nodes_[node].after = after;
  nodes_[after].before = node | Table::free_mark;
  if (after != end) {
    change_bin(node, present + length);
  } else {
    take_from_bin(node);  // it is the tail now
  }
}

template <class U, unsigned B>
bool BasicArena<U, B>::resize(uint64_t size) {
  const uint64_t wanted = size >> shift_;
  const uint64_t present = quanta();
  const Node last = nodes_.tail();
  if (wanted > max_quanta) return false;
  if (wanted > present) {
    if (const size_t needed = bins_for(wanted); bins_.size() < needed) {
      bins_.reserve(needed);  // exactly
      bins_.resize(needed);
    }
    if (last == end) {
      nodes_.reserve(1);
      nodes_.link_free_before(nodes_.take(), end, present);
    }
  } else if (wanted < present) {
    if (last == end || nodes_[last].offset > wanted) return false;
    if (nodes_[last].offset == wanted) {
      nodes_.unlink(last);
      nodes_.drop(last);
    }
  }
  nodes_[end].offset = static_cast<U>(wanted);
  return true;
}

// ---- the bins ----

// The end's entry is in no bin. Links from and to "no more" are written into it like any other, so that whether a list
// has more is no branch: half of the guesses would be wrong.

/// At the head, or behind it where that lies lower, so that a low one stands in front. The end lies highest.
template <class U, unsigned B>
void BasicArena<U, B>::put_in_bin(Node node, uint64_t length) noexcept {
  const uint32_t size_class = Classes::of(length);
  Entry &entry = nodes_[node];
  const Node first = bins_[size_class];
  const bool behind = nodes_[first].offset < entry.offset;
  Node *const link = pick(behind, &nodes_[first].list_after, &bins_[size_class]);
  const Node next = *link;
  *link = node;
  const Node mask = Node{0} - Node{behind};
  entry.list_before = (first & mask) | ((heads | size_class) & ~mask);
  entry.list_after = next;
  nodes_[next].list_before = node;
  nodes_.note_length(entry, length);
  used_classes_.add(size_class);
  if (length >= bound_) {
    bound_ = length;
    largest_ = node;
  }
}

/// Which class it is in is of interest only where it is the head, and there its link tells. It mostly is: this guess is
/// right more often than not.
template <class U, unsigned B>
void BasicArena<U, B>::take_from_bin(Node node) noexcept {
  const Node before = nodes_[node].list_before;
  const Node after = nodes_[node].list_after;
  nodes_[after].list_before = before;
  if ((before & heads) != 0) {
    const uint32_t size_class = before & ~heads;
    bins_[size_class] = after;
    used_classes_.remove_if(after == end, size_class);
  } else {
    nodes_[before].list_after = after;
  }
  if (node == largest_) [[unlikely]]
    largest_ = end;
}

// ---- checking ----

template <class U, unsigned B>
std::string BasicArena<U, B>::validate() const {
  if (std::string broken = nodes_.validate(used_); !broken.empty()) return broken;
  uint64_t seen = 0, longest = 0;
  if (bins_.size() < bins_for(quanta())) return "too few bins for the line's length";
  if (!used_classes_.valid()) return "a row of classes and its bit disagree";
  for (uint32_t size_class = 0; size_class + near_classes < bins_.size(); ++size_class) {
    const std::string broken = validate_bin(size_class, &seen, &longest);
    if (!broken.empty()) return "bin " + std::to_string(size_class) + ": " + broken;
  }
  const uint64_t binned = free_ranges() - (nodes_.tail() != end ? 1 : 0);
  if (seen != binned)
    return std::to_string(seen) + " in bins, " + std::to_string(binned) + " counted";
  if (longest > bound_) return "a binned range is longer than the bound";
  if (largest_ != end && (!nodes_.is_free(largest_) || nodes_[largest_].after == end))
    return "node " + std::to_string(largest_) + " is kept as the largest, but is in no bin";
  return {};
}

template <class U, unsigned B>
std::string BasicArena<U, B>::validate_bin(uint32_t size_class, uint64_t *seen,
                                           uint64_t *longest) const {
  if (used_classes_.has(size_class) != (bins_[size_class] != end))
    return "its bit and its list disagree";
  Node before = heads | size_class;
  for (Node node = bins_[size_class]; node != end; before = node, node = nodes_[node].list_after) {
    if (!nodes_.has(node)) return "a link leads out of the table";
    const Entry &entry = nodes_[node];
    const std::string name = "node " + std::to_string(node);
    if (!nodes_.is_free(node) || nodes_.is_unused(node)) return name + " is not a free range";
    if (entry.after == end) return name + " is the tail";
    if (entry.list_before != before) return name + " does not link back";
    if (nodes_.noted_length(node) != nodes_.length(node))
      return name + " has another length than noted";
    if (Classes::of(nodes_.length(node)) != size_class) return name + " is of another class";
    *longest = std::max(*longest, nodes_.length(node));
    if (++*seen > free_ranges()) return "more ranges than counted";
  }
  return {};
}

template class BasicArena<uint64_t, 5>;
template class BasicArena<uint32_t, 3>;

}  // namespace weir::physical
