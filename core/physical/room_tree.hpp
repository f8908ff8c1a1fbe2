// SPDX-License-Identifier: Apache-2.0
//
// RoomTree: numbered entries ordered by their room, each with a length; finds the smallest room that is enough and whose
// length is enough. A treap whose nodes lie in a table by number, so that adding and removing an entry allocates nothing
// once the table reaches its number. Or many treaps, one for each class of rooms, an eighth of a power of two wide each:
// where entries come and go with every small allocation, trees of a few entries cost a fraction of one of all.
//
// Invariants, checked by validate(): in-order is by (room, number); an entry's priority, a hash of its number, is no less
// than its children's; `longest` is the greatest length below and at an entry; an entry is in the tree of its room's class, and
// a class is marked if and only if its tree has entries. Depth is logarithmic whatever the order of calls, as the priorities do
// not depend on it. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <memory_resource>
#include <string>
#include <vector>

namespace weir::physical {

class RoomTree {
 public:
  static constexpr uint32_t none = UINT32_MAX;

  /// Of how many trees it is made: of one, or of one for each class, which takes a table of roots more.
  enum class Kind : uint8_t { one, classes };

  explicit RoomTree(std::pmr::memory_resource *memory, Kind kind = Kind::one)
      : entries_(memory), roots_(kind == Kind::one ? 0 : class_count, none, memory) {}
  RoomTree(const RoomTree &) = delete;
  RoomTree &operator=(const RoomTree &) = delete;

  /// Numbers below `count` can be inserted from now on. std::bad_alloc with nothing changed.
  void reserve(size_t count);
  /// The number must be below what was reserved, and not be in the tree.
  void insert(uint32_t number, uint64_t room, uint64_t length) noexcept;
  /// It must be in the tree.
  void erase(uint32_t number) noexcept;
  /// It must be in the tree, and has another room or length from now on.
  void change(uint32_t number, uint64_t room, uint64_t length) noexcept;

  /// The entry of the smallest room >= `room` (and of the lowest number among these) with length >= `length`.
  uint32_t at_least(uint64_t room, uint64_t length = 0) const noexcept {
    return first_from(room, 0, length);
  }
  /// The entry of the largest room with length >= `length`.
  uint32_t largest(uint64_t length = 0) const noexcept;
  /// The next one in order whose length is enough.
  uint32_t next(uint32_t number, uint64_t length = 0) const noexcept {
    return first_from(entries_[number].room, number + 1, length);
  }

  uint64_t room(uint32_t number) const noexcept { return entries_[number].room; }
  uint64_t length(uint32_t number) const noexcept { return entries_[number].length; }
  bool empty() const noexcept { return size_ == 0; }
  size_t size() const noexcept { return size_; }
  bool contains(uint32_t number) const noexcept {
    return number < entries_.size() && entries_[number].in_tree;
  }

  std::string validate() const;

 private:
  struct Entry {
    uint64_t room = 0;
    uint64_t length = 0;
    uint64_t longest = 0;
    uint32_t left = none, right = none;
    bool in_tree = false;
  };

  /// The last holds all rooms from 15 GiB on. Those of less than a quantum are of no use, and in the first.
  static constexpr uint32_t class_count = 192;
  static constexpr unsigned quantum_shift = 8;
  /// The class of a room, all of whose rooms lie below those of the next class.
  uint32_t class_of(uint64_t room) const noexcept;
  uint32_t &root_of(uint32_t kind) noexcept { return roots_.empty() ? root_ : roots_[kind]; }
  uint32_t root_of(uint32_t kind) const noexcept { return roots_.empty() ? root_ : roots_[kind]; }
  uint32_t trees() const noexcept { return roots_.empty() ? 1 : class_count; }
  /// The first class at or after `kind` that has entries, or none.
  uint32_t used_from(uint32_t kind) const noexcept;
  void mark(uint32_t kind) noexcept;

  static uint32_t priority(uint32_t number) noexcept;
  bool before(uint32_t a, uint32_t b) const noexcept {
    return entries_[a].room != entries_[b].room ? entries_[a].room < entries_[b].room : a < b;
  }
  bool enough(uint32_t tree, uint64_t length) const noexcept {
    return tree != none && entries_[tree].longest >= length;
  }
  void update(uint32_t tree) noexcept;
  /// What stands before `number`'s place goes left, the rest right.
  void split(uint32_t tree, uint32_t number, uint32_t *left, uint32_t *right) noexcept;
  uint32_t merge(uint32_t left, uint32_t right) noexcept;
  uint32_t insert_below(uint32_t tree, uint32_t number) noexcept;
  uint32_t erase_below(uint32_t tree, uint32_t number) noexcept;
  uint32_t first_from(uint64_t room, uint32_t number, uint64_t length) const noexcept;
  uint32_t first_at_or_after(uint32_t tree, uint64_t room, uint32_t number,
                             uint64_t length) const noexcept;
  std::string validate_below(uint32_t tree, std::vector<uint32_t> *order) const;

  std::pmr::vector<Entry> entries_;
  uint32_t root_ = none;                           ///< of all, without classes
  std::pmr::vector<uint32_t> roots_;               ///< by class
  std::array<uint64_t, class_count / 64> used_{};  ///< a bit for each class that has entries
  size_t size_ = 0;
};

}  // namespace weir::physical
