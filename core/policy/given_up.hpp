// SPDX-License-Identifier: Apache-2.0
//
// GivenUp: pages of a device that a plan has done with: they are not needed before what is planned to take their room. They stay, and can
// be used, until the room is needed; then they go before all that no plan has given up. What is clean goes at once; what is dirty is
// cleaned first, in the order in which it was given up, as the link down has time.
//
// Invariants: a page that was used after it was given up, or of which that was taken back, is not in it any more, whatever is listed. What
// is listed and void is removed as it comes up, and when it is half of all. Guarded by the pool's lock.
#pragma once

#include "core/policy/policy.hpp"

#include <deque>
#include <unordered_map>

namespace weir::policy {

class GivenUp {
 public:
  explicit GivenUp(std::pmr::memory_resource *memory)
      : clean_(memory), dirty_(memory), regions_(memory) {}

  /// The page, of so many bytes, may go, unless it is used after the tick, which is that of its last use. One that is listed already
  /// is listed anew. Throws std::bad_alloc with nothing changed.
  void give_up(const PageRef &page, uint64_t tick, uint64_t bytes, bool dirty);
  /// The region's pages stay, all that are listed.
  void take_back(uint32_t region) noexcept { regions_.erase(region); }
  void clear() noexcept;
  /// Bytes of the region that are listed.
  uint64_t bytes_of(uint32_t region) const noexcept {
    const auto found = regions_.find(region);
    return found != regions_.end() ? found->second.bytes : 0;
  }
  bool holds(const PageRef &page) const noexcept;
  /// The tick at which a page of the region was listed last; 0: none is.
  uint64_t listed_at(uint32_t region) const noexcept {
    const auto found = regions_.find(region);
    return found != regions_.end() ? found->second.tick : 0;
  }

  /// Appends what may go at once, and then, unless only that is wanted, what has to be copied; they are listed no more. The bytes of
  /// all of them. With all_or_nothing none if they are less than wanted.
  uint64_t choose(const Wanted &wanted, View &view, std::pmr::vector<PageRef> *victims);
  /// Appends dirty pages, the first given up first, until they come to `bytes`: they stay listed, and settle()
  /// is told of them in the end. False: there is none.
  bool next_to_clean(uint64_t bytes, View &view, std::pmr::vector<PageRef> *pages);
  /// They were handed out to be cleaned: those that are clean now may go at once, others have to be copied still.
  void settle(const std::pmr::vector<PageRef> &pages, View &view) noexcept;
  bool any_dirty() const noexcept { return !dirty_.empty(); }
  size_t size() const noexcept { return clean_.size() + dirty_.size(); }

 private:
  struct Entry {
    PageRef page;
    uint32_t turn;  ///< at which it was listed
    uint64_t tick;
    uint64_t bytes;
  };
  struct Listed {
    uint16_t generation;
    uint64_t bytes = 0;
    uint64_t tick = 0;                 ///< of the last
    std::pmr::vector<uint32_t> turns;  ///< by page: at which it was listed; 0: it is not
  };
  using Queue = std::pmr::deque<Entry>;

  bool stands(const Entry &entry) const noexcept;
  /// Whether it may be looked at: else it is listed no more.
  bool look(const Entry &entry, View &view, PageInfo *info) noexcept;
  void unlist(const Entry &entry) noexcept;
  uint64_t take(Queue &from, const Wanted &wanted, View &view, std::pmr::vector<Entry> *taken);
  void sweep() noexcept;

  Queue clean_, dirty_;
  std::pmr::unordered_map<uint32_t, Listed> regions_;
  uint32_t turns_ = 0;
  size_t sweep_at_ = 256;
};

}  // namespace weir::policy
