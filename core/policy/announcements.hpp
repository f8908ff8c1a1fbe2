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
#include <deque>
#include <memory_resource>
#include <optional>
#include <set>
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
  void append(uint32_t slot, std::pmr::vector<AnnouncedUses> &fresh);
  size_t count(uint32_t slot) noexcept { return find(slot).operations.size(); }
  /// The stream has acquired its oldest operation, or it is not to be.
  void consume(uint32_t slot) noexcept;
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
  /// nullptr: it has been consumed, or is not announced.
  const AnnouncedUses *operation(uint32_t slot, uint64_t number) noexcept {
    const Stream *stream = find(slot, number);
    return stream != nullptr ? &stream->operations[number - stream->base] : nullptr;
  }
  /// Whether that operation uses the region, of which the owner lives, and has not been consumed.
  bool lists(uint32_t slot, uint32_t region, uint64_t number) const noexcept {
    const auto found = upcoming_.find(region);
    return found != upcoming_.end() && found->second.contains({number, slot});
  }
  struct NextUse {
    uint64_t number;  ///< of the operation
    bool needed;      ///< it needs content that is there
  };
  /// The stream's next operation from that one on that uses the region, if one is announced.
  std::optional<NextUse> next_use(uint32_t slot, uint32_t region, uint64_t from) const noexcept;

 private:
  struct Stream {
    explicit Stream(std::pmr::memory_resource *memory) : operations(memory) {}
    void pop() noexcept {
      operations.pop_front();
      if (taken >= ++base) return;
      taken = base;
      taken_use = 0;
    }
    std::pmr::deque<AnnouncedUses> operations;  ///< oldest first
    uint64_t base = 0;                          ///< the number of the first
    uint64_t taken = 0;                         ///< uses have been taken up to this operation's ...
    size_t taken_use = 0;                       ///< ... of this index
    uint64_t ahead = 0;                         ///< the sum of `brought`
  };
  struct Upcoming {
    uint64_t number;              ///< of an operation ...
    uint32_t slot;                ///< ... of this stream
    mutable bool needed = false;  ///< by one of its uses at least, with the content that is there
    bool operator<(const Upcoming &other) const noexcept {
      return number != other.number ? number < other.number : slot < other.slot;
    }
  };
  void unlist(uint32_t region, Upcoming use) noexcept;
  Stream &find(uint32_t slot) noexcept {
    const auto found = streams_.find(slot);
    return found != streams_.end() ? found->second : none_;
  }
  /// The stream, if that operation of it has not been consumed.
  Stream *find(uint32_t slot, uint64_t number) noexcept {
    Stream &stream = find(slot);
    const bool there = number >= stream.base && number - stream.base < stream.operations.size();
    return there ? &stream : nullptr;
  }

  Stream none_;                                        ///< of slots whose stream never announced
  std::pmr::unordered_map<uint32_t, Stream> streams_;  ///< by slot, of those that ever announced
  /// By region, which operations use it.
  std::pmr::unordered_map<uint32_t, std::pmr::set<Upcoming>> upcoming_;
};

}  // namespace weir::policy
