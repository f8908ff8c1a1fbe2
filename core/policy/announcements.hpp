// SPDX-License-Identifier: Apache-2.0
//
// Announcements: the operations that streams have announced and not acquired yet, and when each region is used next by them.
// They are hints: a buffer that has died meanwhile is still named here, so whoever takes a use looks at its buffer first.
// It fetches nothing. Guarded by whoever owns it (the pool's lock).
//
// Invariants: a stream's operations are numbered in a row, and the number of its oldest counts those consumed so far. What is
// listed of a region are operations that have not been consumed, since its owner was made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory_resource>
#include <optional>
#include <unordered_map>
#include <vector>

namespace weir::policy {

struct AnnouncedUse {
  uint32_t buffer;
  uint32_t region;  ///< that the buffer was on
  uint64_t generation;
  uint64_t begin, end;
  uint8_t mode;
  bool remote;
  bool shares = false;   ///< it lies on pages that are others' too
  uint64_t size = 0;     ///< of the buffer
  uint64_t brought = 0;  ///< bytes that have come to a device for it
  /// Of content that is there: not where all of the buffer is written anew.
  bool needs() const noexcept;
};
using AnnouncedUses = std::pmr::vector<AnnouncedUse>;  ///< of one operation

class Announcements {
 public:
  /// Operations of a stream that are looked at ahead of it.
  static constexpr uint64_t lookahead = 64;

  explicit Announcements(std::pmr::memory_resource *memory)
      : none_(memory), streams_(memory), upcoming_(memory) {}

  /// Puts operations behind the stream's others. Throws std::bad_alloc with nothing changed.
  void append(uint32_t slot, const std::pmr::vector<AnnouncedUses> &fresh);
  size_t count(uint32_t slot) noexcept { return find(slot).operations(); }
  /// The stream has acquired its oldest operations, or they are not to be: so many, or as many as there are.
  void consume(uint32_t slot, uint64_t count = 1) noexcept;
  /// The region's owner has ended.
  void forget(uint32_t region) noexcept { upcoming_.erase(region); }

  struct Next {
    AnnouncedUse use;
    uint64_t number;  ///< of its operation
    size_t index;     ///< among the operation's uses
  };
  /// Takes the stream's next use that needs bytes; none: all within `lookahead` operations have been taken.
  std::optional<Next> take(uint32_t slot) noexcept;
  /// What was taken is the next again, unless its operation has been consumed meanwhile.
  void untake(uint32_t slot, uint64_t number, size_t index) noexcept;
  /// So many bytes have come for a use that was taken.
  void note_brought(uint32_t slot, uint64_t number, size_t index, uint64_t bytes) noexcept;
  /// Bytes that have come for operations which the stream has not acquired yet.
  uint64_t ahead(uint32_t slot) noexcept { return find(slot).ahead; }
  /// How many operations of the stream come before that one.
  uint64_t before(uint32_t slot, uint64_t number) noexcept {
    return number - std::min(number, find(slot).base);
  }
  /// How many operations come before the next that uses the region; UINT64_MAX: none is announced.
  uint64_t before_use_of(uint32_t region) noexcept;

  // ---- for who plans ahead (policy/announced_forecast.hpp) ----
  /// The number of the stream's oldest operation.
  uint64_t oldest(uint32_t slot) noexcept { return find(slot).base; }
  /// The uses of one operation, until it is consumed or others are announced.
  struct Uses {
    std::pmr::deque<AnnouncedUse>::const_iterator first, last;
    auto begin() const noexcept { return first; }
    auto end() const noexcept { return last; }
  };
  /// None: it has been consumed, or is not announced.
  std::optional<Uses> operation(uint32_t slot, uint64_t number) noexcept;
  /// Whether that operation uses the region, of which the owner lives, and has not been consumed.
  bool lists(uint32_t slot, uint32_t region, uint64_t number) const noexcept {
    const auto next = next_use(slot, region, number);
    return next && next->number == number;
  }
  struct NextUse {
    uint64_t number;  ///< of the operation
    bool needed;      ///< it needs content that is there
  };
  /// The stream's next operation from that one on that uses the region, if one is announced.
  std::optional<NextUse> next_use(uint32_t slot, uint32_t region, uint64_t from) const noexcept;

 private:
  /// A stream's operations, one behind the other in two queues: an operation that is over takes no more than what it frees there.
  struct Stream {
    explicit Stream(std::pmr::memory_resource *memory) : uses(memory), ends(memory) {}
    size_t operations() const noexcept { return ends.size(); }
    /// Where in `uses` the operation begins and ends that comes so many after the oldest.
    size_t begin_of(size_t operation) const noexcept {
      return operation == 0 ? 0 : ends[operation - 1] - over;
    }
    size_t end_of(size_t operation) const noexcept { return ends[operation] - over; }
    void pop() noexcept {
      over = ends.front();
      ends.pop_front();
      if (taken >= ++base) return;
      taken = base;
      taken_use = 0;
    }
    std::pmr::deque<AnnouncedUse> uses;  ///< of all operations, the oldest first
    std::pmr::deque<uint64_t> ends;  ///< of each operation the uses up to its end, since the first
    uint64_t over = 0;               ///< uses that are in `uses` no more
    uint64_t base = 0;               ///< the number of the oldest operation
    uint64_t taken = 0;              ///< uses have been taken up to this operation's ...
    size_t taken_use = 0;            ///< ... of this index
    uint64_t ahead = 0;              ///< the sum of `brought`
  };
  /// The operations of one stream that use one region, the next first. Never empty, but while one is put in.
  class Upcoming {
   public:
    Upcoming(uint32_t slot, std::pmr::memory_resource *memory) : slot_(slot), numbers_(memory) {}
    uint32_t slot() const noexcept { return slot_; }
    bool empty() const noexcept { return first_ == numbers_.size(); }
    uint64_t first() const noexcept { return numbers_[first_] >> 1U; }
    /// An operation that is the last, or a further use by it. Throws std::bad_alloc with nothing changed.
    void add(uint64_t number, bool needed) {
      if (!empty() && numbers_.back() >> 1U == number)
        numbers_.back() |= needed ? 1U : 0U;
      else
        numbers_.push_back(number << 1U | (needed ? 1U : 0U));
    }
    void pop() noexcept {
      ++first_;
      if (first_ < 32 || first_ * 2 < numbers_.size()) return;
      numbers_.erase(numbers_.begin(), numbers_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    /// Without those from that number on.
    void cut(uint64_t number) noexcept {
      while (!empty() && numbers_.back() >> 1U >= number) numbers_.pop_back();
    }
    std::optional<NextUse> from(uint64_t number) const noexcept {
      const auto begin = numbers_.begin() + static_cast<std::ptrdiff_t>(first_);
      const auto found = std::lower_bound(begin, numbers_.end(), number << 1U);
      if (found == numbers_.end()) return {};
      return NextUse{*found >> 1U, (*found & 1U) != 0};
    }

   private:
    uint32_t slot_;
    size_t first_ = 0;
    std::pmr::vector<uint64_t> numbers_;  ///< and whether content is needed, in the lowest bit
  };
  using ByRegion = std::pmr::unordered_multimap<uint32_t, Upcoming>;

  ByRegion::iterator upcoming(uint32_t region, uint32_t slot) noexcept;
  void unlist(uint32_t region, uint32_t slot, uint64_t number) noexcept;
  void cut(uint32_t region, uint32_t slot, uint64_t number) noexcept;
  Stream &find(uint32_t slot) noexcept {
    const auto found = streams_.find(slot);
    return found != streams_.end() ? found->second : none_;
  }
  /// The stream, if that operation of it has not been consumed.
  Stream *find(uint32_t slot, uint64_t number) noexcept {
    Stream &stream = find(slot);
    const bool there = number >= stream.base && number - stream.base < stream.operations();
    return there ? &stream : nullptr;
  }

  Stream none_;                                        ///< of slots whose stream never announced
  std::pmr::unordered_map<uint32_t, Stream> streams_;  ///< by slot, of those that ever announced
  ByRegion upcoming_;                                  ///< one a stream
};

}  // namespace weir::policy
