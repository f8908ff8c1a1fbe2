// SPDX-License-Identifier: Apache-2.0
//
// The arena's searching, splitting and joining. Everything that can throw happens before the first change;
// no loop here depends on the number of ranges, apart from those of find_largest() and validate().

#include "core/physical/arena.hpp"

#include <algorithm>
#include <new>

namespace weir::physical {

template <class U, unsigned B>
BasicArena<U, B>::BasicArena(uint64_t size, uint64_t quantum, std::pmr::memory_resource *memory)
    : entries_(memory), bins_(memory), shift_(static_cast<uint32_t>(std::countr_zero(quantum))) {
  assert(std::has_single_bit(quantum));
  assert((size >> shift_) <= max_quanta);
  entries_.reserve(4);
  entries_.emplace_back().generation = 1;
  resize(std::min(size >> shift_, max_quanta) << shift_);
}

// ---- searching ----

/// Moves *bin to the first class at or above it that has a range; false if there is none.
template <class U, unsigned B>
bool BasicArena<U, B>::next_used(Bin *bin) const {
  if (bin->row >= rows_) return false;
  const uint32_t columns_left =
      bin->column < columns ? map(bin->row) & (UINT32_MAX << bin->column) : 0;
  if (columns_left != 0) {
    bin->column = static_cast<uint32_t>(std::countr_zero(columns_left));
    return true;
  }
  const uint64_t rows_left = used_rows_ & (UINT64_MAX << bin->row << 1);
  if (rows_left == 0) return false;
  bin->row = static_cast<uint32_t>(std::countr_zero(rows_left));
  bin->column = static_cast<uint32_t>(std::countr_zero(map(bin->row)));
  return true;
}

template <class U, unsigned B>
auto BasicArena<U, B>::look(Bin bin, uint64_t length, uint64_t alignment, uint32_t *looks) const
    -> Node {
  for (Node node = head(bin); node != end && *looks > 0; node = entries_[node].list_after) {
    --*looks;
    if (fits(node, binned_length(node), length, alignment)) return node;
  }
  return end;
}

template <class U, unsigned B>
auto BasicArena<U, B>::search(uint64_t length, uint64_t alignment) const -> Node {
  if (length <= bound_) {
    Bin bin = bin_of(length);
    uint32_t looks = max_looks;
    if (Node node = look(bin, length, alignment, &looks); node != end) return node;
    ++bin.column;
    if (alignment > 1) {
      if (Node node = search_aligned(bin, length, alignment); node != end) return node;
    } else if (next_used(&bin)) {
      return head(bin);
    }
    if (largest_ != end && fits(largest_, bound_, length, alignment)) return largest_;
  }
  const Node last = tail();
  return last != end && fits(last, this->length(last), length, alignment) ? last : end;
}

/// The classes from `bin` to the one where any offset leaves enough, a few looks in all, then that one.
template <class U, unsigned B>
auto BasicArena<U, B>::search_aligned(Bin bin, uint64_t length, uint64_t alignment) const -> Node {
  const Bin sure = bin_of_at_least(length + alignment - 1);
  const auto below = [&sure](Bin b) {
    return b.row != sure.row ? b.row < sure.row : b.column < sure.column;
  };
  bool more = next_used(&bin);
  for (uint32_t looks = max_looks; more && below(bin); more = next_used(&bin)) {
    if (Node node = look(bin, length, alignment, &looks); node != end) return node;
    if (looks == 0) {
      bin = sure;
    } else {
      ++bin.column;
    }
  }
  return more ? head(bin) : end;
}

/// Stops early at a range as long as the one that was taken, so that a class of equals costs nothing.
template <class U, unsigned B>
void BasicArena<U, B>::find_largest() const {
  if (largest_ != end) return;
  uint64_t longest = 0;
  if (used_rows_ != 0) {
    const auto row = static_cast<uint32_t>(std::bit_width(used_rows_)) - 1;
    const Bin top{row, static_cast<uint32_t>(std::bit_width(map(row))) - 1};
    for (Node node = head(top); node != end && longest < bound_; node = entries_[node].list_after) {
      if (binned_length(node) <= longest) continue;
      longest = binned_length(node);
      largest_ = node;
    }
  }
  bound_ = longest;
}

template <class U, unsigned B>
uint64_t BasicArena<U, B>::largest_free() const {
  find_largest();
  const Node last = tail();
  return std::max(bound_, last != end ? length(last) : 0) << shift_;
}

// ---- taking and giving ----

template <class U, unsigned B>
auto BasicArena<U, B>::allocate(uint64_t size, uint64_t alignment) -> Allocation {
  assert(size > 0 && std::has_single_bit(alignment) && alignment <= max_alignment);
  const uint64_t available = quanta() - used_;
  if (size > available << shift_) return {};
  const uint64_t quantum_mask = (uint64_t{1} << shift_) - 1;
  const uint64_t wanted = std::max<uint64_t>((size + quantum_mask) >> shift_, 1);
  const uint64_t step = std::max<uint64_t>(alignment >> shift_, 1);
  const Node node = search(wanted, step);
  if (node == end) return {};

  const uint64_t from = entries_[node].offset;
  const uint64_t start = align_up(from, step);
  const uint64_t rest = from + length(node) - start - wanted;
  const Node after = entries_[node].after;
  reserve((start != from ? 1u : 0u) + (rest != 0 ? 1u : 0u));

  if (after != end) take_from_bin(node);
  if (start != from) {
    const Node gap = take_entry();
    entries_[node].offset = static_cast<U>(start);
    link_before(gap, node, from);
    put_in_bin(gap, start - from);
  }
  if (rest != 0) {
    const Node remainder = take_entry();
    link_before(remainder, after, start + wanted);
    if (after != end) put_in_bin(remainder, rest);
  }
  Entry &entry = entries_[node];
  ++entry.generation;
  entry.list_before = 0;
  used_ += wanted;
  ++live_;
  return {node, start << shift_};
}

template <class U, unsigned B>
void BasicArena<U, B>::free(Node node) noexcept {
  assert(live(node));
  used_ -= length(node);
  --live_;
  ++entries_[node].generation;
  if (const Node before = entries_[node].before; is_free(before)) {
    take_from_bin(before);
    entries_[node].offset = entries_[before].offset;
    unlink(before);
    drop_entry(before);
  }
  if (const Node after = entries_[node].after; is_free(after)) {
    if (entries_[after].after != end) take_from_bin(after);
    unlink(after);
    drop_entry(after);
  }
  if (entries_[node].after != end) put_in_bin(node, length(node));
}

template <class U, unsigned B>
bool BasicArena<U, B>::resize(uint64_t size) {
  const uint64_t wanted = size >> shift_;
  const uint64_t present = quanta();
  const Node last = tail();
  if (wanted > max_quanta) return false;
  if (wanted > present) {
    if (rows_ < row_count(wanted)) {
      bins_.reserve(row_count(wanted) * row_words);  // exactly
      bins_.resize(row_count(wanted) * row_words);
      rows_ = row_count(wanted);
    }
    if (last == end) {
      reserve(1);
      link_before(take_entry(), end, present);
    }
  } else if (wanted < present) {
    if (last == end || entries_[last].offset > wanted) return false;
    if (entries_[last].offset == wanted) {
      unlink(last);
      drop_entry(last);
    }
  }
  entries_[end].offset = static_cast<U>(wanted);
  return true;
}

// ---- the node table ----

/// Makes room for that many take_entry() calls.
template <class U, unsigned B>
void BasicArena<U, B>::reserve(uint32_t count) {
  if (count <= unused_count_) return;
  const size_t needed = entries_.size() + count - unused_count_;
  if (needed > entries_.capacity()) grow(needed);
}

/// By a quarter, so that little lies idle.
template <class U, unsigned B>
void BasicArena<U, B>::grow(size_t needed) {
  if (needed >= unused_mark) throw std::bad_alloc();
  const size_t capacity = entries_.capacity();
  entries_.reserve(std::max(needed, capacity + std::max<size_t>(4, capacity / 4)));
}

template <class U, unsigned B>
auto BasicArena<U, B>::take_entry() noexcept -> Node {
  if (unused_ == end) {
    assert(entries_.size() < entries_.capacity());
    entries_.emplace_back();
    return static_cast<Node>(entries_.size() - 1);
  }
  const Node node = unused_;
  unused_ = entries_[node].list_after;
  --unused_count_;
  return node;
}

template <class U, unsigned B>
void BasicArena<U, B>::drop_entry(Node node) noexcept {
  entries_[node].before = unused_mark;
  entries_[node].list_after = unused_;
  unused_ = node;
  ++unused_count_;
}

template <class U, unsigned B>
void BasicArena<U, B>::link_before(Node node, Node successor, uint64_t offset) noexcept {
  Entry &entry = entries_[node];
  const Node predecessor = entries_[successor].before;
  entry.offset = static_cast<U>(offset);
  entry.before = predecessor;
  entry.after = successor;
  entries_[predecessor].after = node;
  entries_[successor].before = node;
}

template <class U, unsigned B>
void BasicArena<U, B>::unlink(Node node) noexcept {
  const Entry &entry = entries_[node];
  entries_[entry.before].after = entry.after;
  entries_[entry.after].before = entry.before;
}

// ---- the bins ----

template <class U, unsigned B>
void BasicArena<U, B>::put_in_bin(Node node, uint64_t length) noexcept {
  const Bin bin = bin_of(length);
  uint32_t &list = head(bin);
  entries_[node].list_before = end;
  entries_[node].list_after = list;
  if constexpr (wide) {
    entries_[node].binned_length = static_cast<uint32_t>(std::min<uint64_t>(length, too_long));
  }
  if (list != end) entries_[list].list_before = node;
  list = node;
  map(bin.row) |= uint32_t{1} << bin.column;
  used_rows_ |= uint64_t{1} << bin.row;
  if (length >= bound_) {
    bound_ = length;
    largest_ = node;
  }
}

/// Before anything moves: the node's length must still be the one it was put in with.
template <class U, unsigned B>
void BasicArena<U, B>::take_from_bin(Node node) noexcept {
  const Node before = entries_[node].list_before;
  const Node after = entries_[node].list_after;
  if (after != end) entries_[after].list_before = before;
  if (before != end) {
    entries_[before].list_after = after;
  } else {
    const Bin bin = bin_of(binned_length(node));
    head(bin) = after;
    if (after == end) {
      map(bin.row) &= ~(uint32_t{1} << bin.column);
      if (map(bin.row) == 0) used_rows_ &= ~(uint64_t{1} << bin.row);
    }
  }
  if (node == largest_) largest_ = end;
}

// ---- checking ----

template <class U, unsigned B>
std::string BasicArena<U, B>::validate() const {
  std::string broken = validate_line();
  if (broken.empty()) broken = validate_unused();
  if (broken.empty()) broken = validate_bins();
  return broken;
}

template <class U, unsigned B>
std::string BasicArena<U, B>::validate_line() const {
  const auto at = [](Node node, const char *what) {
    return "node " + std::to_string(node) + ": " + what;
  };
  const auto differ = [](uint64_t found, uint64_t counted, const char *what) {
    return std::to_string(found) + " " + what + ", " + std::to_string(counted) + " counted";
  };
  uint64_t ranges = 0, live = 0, used = 0;
  bool free_before = false;
  Node before = end;
  for (Node node = entries_[end].after; node != end; before = node, node = entries_[node].after) {
    if (node >= entries_.size()) return at(before, "its successor lies out of the table");
    const Entry &entry = entries_[node];
    if (entry.before != before) return at(node, "its predecessor does not lead to it");
    if (before == end && entry.offset != 0) return at(node, "the first range does not start at 0");
    if (entry.after >= entries_.size()) return at(node, "its successor lies out of the table");
    if (entries_[entry.after].offset <= entry.offset) return at(node, "its length is not positive");
    if (free_before && is_free(node)) return at(node, "two free ranges touch");
    if (++ranges >= entries_.size()) return at(node, "the chain does not end");
    free_before = is_free(node);
    live += free_before ? 0 : 1;
    used += free_before ? 0 : length(node);
  }
  if (is_free(end)) return "the end's entry counts as free";
  if (entries_[end].before != before) return at(before, "the end does not link back to it");
  if (ranges == 0 && quanta() != 0) return "no range covers the line";
  if (live != live_) return differ(live, live_, "live ranges");
  if (used != used_) return differ(used, used_, "quanta used");
  if (ranges - live != free_ranges()) return differ(ranges - live, free_ranges(), "free ranges");
  return {};
}

template <class U, unsigned B>
std::string BasicArena<U, B>::validate_unused() const {
  uint64_t count = 0;
  for (Node node = unused_; node != end; node = entries_[node].list_after) {
    if (node >= entries_.size() || entries_[node].before != unused_mark || !is_free(node)) {
      return "node " + std::to_string(node) + ": in the list of the unused, but in use";
    }
    if (++count > unused_count_) break;
  }
  if (count != unused_count_) return "the list of unused entries has another length than counted";
  return {};
}

template <class U, unsigned B>
std::string BasicArena<U, B>::validate_bins() const {
  uint64_t seen = 0, longest = 0;
  if (rows_ < row_count(quanta())) return "too few rows for the line's length";
  for (uint32_t row = 0; row < rows_; ++row) {
    if (((used_rows_ >> row & 1) != 0) != (map(row) != 0)) {
      return "row " + std::to_string(row) + ": its bit and its map disagree";
    }
    for (uint32_t column = 0; column < columns; ++column) {
      std::string broken = validate_bin({row, column}, &seen, &longest);
      if (!broken.empty()) {
        return "bin " + std::to_string(row) + "." + std::to_string(column) + ": " + broken;
      }
    }
  }
  const uint64_t binned = free_ranges() - (tail() != end ? 1 : 0);
  if (seen != binned) {
    return std::to_string(seen) + " in bins, " + std::to_string(binned) + " counted";
  }
  if (longest > bound_) return "a binned range is longer than the bound";
  if (largest_ != end && (longest != bound_ || length(largest_) != bound_)) {
    return "node " + std::to_string(largest_) + " is not the largest binned range";
  }
  return {};
}

template <class U, unsigned B>
std::string BasicArena<U, B>::validate_bin(Bin bin, uint64_t *seen, uint64_t *longest) const {
  const bool marked = (map(bin.row) >> bin.column & 1) != 0;
  if (marked != (head(bin) != end)) return "its map bit and its list disagree";
  Node before = end;
  for (Node node = head(bin); node != end; before = node, node = entries_[node].list_after) {
    if (node >= entries_.size()) return "a link leads out of the table";
    const Entry &entry = entries_[node];
    const std::string name = "node " + std::to_string(node);
    if (!is_free(node) || entry.before == unused_mark) return name + " is not a free range";
    if (entry.after == end) return name + " is the tail";
    if (entry.list_before != before) return name + " does not link back";
    if (binned_length(node) != length(node)) return name + " has another length than noted";
    const Bin own = bin_of(length(node));
    if (own.row != bin.row || own.column != bin.column) return name + " is of another class";
    *longest = std::max(*longest, length(node));
    if (++*seen > free_ranges()) return "more ranges than counted";
  }
  return {};
}

template class BasicArena<uint64_t, 5>;
template class BasicArena<uint32_t, 3>;

}  // namespace weir::physical
