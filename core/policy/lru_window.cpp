// SPDX-License-Identifier: Apache-2.0
//
// The "lru-window" policy. A heap by last known use is brought up to date lazily: an entry that was used
// since is pushed back with its new tick when it comes up. Among the oldest entries the victim is the one
// with the largest expected distance to its next use divided by what its return trip costs (a dirty page
// costs a copy down as well): Belady's rule with costs ("MINC"), with age standing in for the distance where
// no next use is announced. A prefetched page that nobody has used yet is needed before any other whose use is not announced.
// (L. Belady, "A study of replacement algorithms", IBM Systems Journal 5, 1966.)

#include "core/policy/lru_window.hpp"

#include "core/base/pool_lock.hpp"
#include "core/policy/age_heap.hpp"
#include "core/policy/prices.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <tuple>

namespace weir::policy {
namespace {

using Entry = AgeHeap::Entry;

struct Scored {
  Entry entry;
  double score;
  uint64_t bytes;
  bool rough;  ///< not all of what lies there has been looked at
};

class LruWindow final : public Policy {
 public:
  LruWindow(View &view, std::pmr::memory_resource *memory)
      : view_(view),
        pages_(memory),
        of_client_(memory),
        idle_(memory),
        loans_(memory),
        candidates_(memory) {}

  void reserve(size_t pages) override {
    pages_.reserve(pages);
    candidates_.reserve(max_candidates);
  }

  void admit(const PageRef &page, uint64_t tick) override {
    pages_.forget_some(view_);
    push(Entry::of(page, tick));
  }
  void forget_some() noexcept override {
    pages_.forget_some(view_);
    forget_some_of_a_client();
  }
  void dispose(const PageRef &page, bool borrowed) override {
    List &list = borrowed ? loans_ : idle_;
    if (list.pages.size() >= list.tidy_at) tidy(list);
    list.pages.push_back(page);
  }
  bool any_disposable() const noexcept override {
    return !idle_.pages.empty() || !loans_.pages.empty();
  }
  bool give_back(const PageRef &page, uint64_t tick) noexcept override {
    return if_memory([&] { admit(page, tick); });
  }

  bool list_own(uint32_t client) override {
    const auto own =
        of_client_.try_emplace(client, AgeHeap(of_client_.get_allocator().resource())).first;
    if (own->second.whole) return true;
    own->second.empty_turns = 0;
    try {
      const auto push = [own](const PageRef &page, uint64_t last_use) {
        own->second.pages.push(Entry::of(page, last_use));
      };
      own->second.whole = view_.list(client, &own->second.listed, push);
    } catch (...) {
      of_client_.erase(own);
      throw;
    }
    return own->second.whole;
  }

  uint64_t choose(const Wanted &wanted, std::pmr::vector<PageRef> *victims) override {
    // Whatever may be needed is had before the first entry is taken out: none is lost where there is no memory. What is disposable may
    // be found to be idle, and come back.
    candidates_.reserve(max_candidates);
    const size_t disposable = idle_.pages.size() + loans_.pages.size();
    if (!loans_.pages.empty() && idle_.pages.capacity() < disposable)
      idle_.pages.reserve(disposable + disposable / 8);
    const bool no_more = wanted.disposable_only || wanted.given_up_only;
    const bool owned = wanted.dead_before == UINT64_MAX && !no_more;
    AgeHeap &pages = owned && wanted.client != UINT32_MAX ? heap_of(wanted.client) : pages_;
    const size_t all = pages.size() + idle_.pages.size() + loans_.pages.size();
    victims->reserve(victims->size() + std::min<size_t>(all, wanted.bytes / 4096 + max_candidates));
    looks_ = wanted.most_looks;
    passed_ = 0;
    last_taken_.reset();
    const size_t first = victims->size();
    uint64_t found = take_idle(wanted, victims);
    const size_t first_loan = victims->size();
    found += take_loans(wanted, wanted.bytes - std::min(wanted.bytes, found), victims);
    const size_t first_used = victims->size();
    if (!owned) return found;
    while (found < wanted.bytes && !pages.exhausted() && room_for_victims(*victims)) {
      const uint64_t more = take_best(pages, wanted, wanted.bytes - found, victims);
      if (more == 0 && candidates_.empty()) break;
      found += more;
    }
    pages.unpark();
    if (found >= wanted.bytes || !wanted.all_or_nothing) {
      pages.give_room_back();
      return found;
    }
    const auto at = [&](size_t i) { return victims->begin() + static_cast<ptrdiff_t>(i); };
    idle_.pages.insert(idle_.pages.end(), at(first), at(first_loan));
    loans_.pages.insert(loans_.pages.end(), at(first_loan), at(first_used));
    // Victims stay after all, in their order. The heap has room for what has just been taken from it.
    for (size_t i = first_used; i < victims->size(); ++i) {
      PageInfo info;
      const PageRef &page = (*victims)[i];
      if (view_.describe(page, &info)) pages.push(Entry::of(page, info.last_use));
    }
    victims->resize(first);
    return 0;
  }

 private:
  static constexpr size_t max_candidates = 256;
  /// A client's heap that was empty at so many turns in a row goes: a small quota is empty now and then. One that is being listed has
  /// more, so that who lists it is the faster one.
  static constexpr uint32_t most_empty_turns = 64, most_empty_turns_listed = 4096;
  /// So many that can't go now are looked at again by the next look. What comes after them is put off: for as many operations as it
  /// has not been used by then, but no more than most_ticks, and then some at each operation, so that they don't come up all at once.
  static constexpr size_t most_passed = 64;
  static constexpr uint64_t most_ticks = 1024, most_at_a_tick = 16;
  static constexpr size_t least_tidy = 1024;

  /// Pages that cost nobody anything, in the order in which they came.
  struct List {
    explicit List(std::pmr::memory_resource *memory) : pages(memory) {}
    std::pmr::vector<PageRef> pages;
    size_t tidy_at = least_tidy;
  };

  /// What comes to the client is told of from the first piece of the list on, so that who lists goes by what is there and not by a heap
  /// that changes meanwhile.
  struct Own {
    explicit Own(AgeHeap heap) : pages(std::move(heap)) {}
    AgeHeap pages;
    PageCursor listed;         ///< what lies before it is in `pages`
    bool whole = false;        ///< everything is
    uint32_t empty_turns = 0;  ///< in a row
  };

  static bool room_for_victims(const std::pmr::vector<PageRef> &victims) noexcept {
    return victims.size() < victims.capacity();
  }

  void tidy(List &list) noexcept {
    std::erase_if(list.pages, [this](const PageRef &page) { return !view_.knows(page); });
    const auto key = [](const PageRef &p) { return std::tuple(p.region, p.page, p.generation); };
    std::ranges::sort(list.pages, {}, key);
    const auto same = [&key](const PageRef &a, const PageRef &b) { return key(a) == key(b); };
    list.pages.erase(std::unique(list.pages.begin(), list.pages.end(), same), list.pages.end());
    list.tidy_at = std::max(least_tidy, 2 * list.pages.size());
  }

  // ---- a client's pages by themselves ----

  /// Made for the first look for the client's pages alone. What leaves by one heap stays in the other until that comes to it.
  AgeHeap &heap_of(uint32_t client) {
    while (!list_own(client)) {
    }
    return of_client_.find(client)->second.pages;
  }

  void push(const Entry &entry) {
    pages_.push(entry);
    if (of_client_.empty()) return;
    const auto own = of_client_.find(view_.client_of(entry.ref()));
    if (own != of_client_.end()) {
      own->second.pages.forget_some(view_);
      // One that would not be whole is made anew when it is wanted.
      if (!if_memory([&] { own->second.pages.push(entry); })) of_client_.erase(own);
    }
    forget_some_of_a_client();
  }
  /// Of each in turn. Of a client that is gone nothing is left in the end.
  void forget_some_of_a_client() noexcept {
    if (of_client_.empty()) return;
    auto own = of_client_.upper_bound(turn_);
    if (own == of_client_.end()) own = of_client_.begin();
    turn_ = own->first;
    own->second.pages.forget_some(view_);
    own->second.empty_turns = own->second.pages.size() == 0 ? own->second.empty_turns + 1 : 0;
    const uint32_t most = own->second.whole ? most_empty_turns : most_empty_turns_listed;
    if (own->second.empty_turns >= most) of_client_.erase(own);
  }

  // ---- what is nobody's, and what is lent ----

  /// Nobody pays for what has no owner: no client's quota has more room without it.
  uint64_t take_idle(const Wanted &wanted, std::pmr::vector<PageRef> *victims) {
    if (wanted.dirty_only || wanted.client != UINT32_MAX) return 0;
    return take_from(idle_, wanted, wanted.bytes, victims);
  }
  uint64_t take_loans(const Wanted &wanted, uint64_t bytes, std::pmr::vector<PageRef> *victims) {
    if (wanted.dirty_only || loans_.pages.empty()) return 0;
    return take_from(loans_, wanted, bytes, victims);
  }
  uint64_t take_from(List &list, const Wanted &wanted, uint64_t bytes,
                     std::pmr::vector<PageRef> *victims) {
    uint64_t found = 0;
    auto kept = list.pages.begin(), next = kept;
    for (; next != list.pages.end() && found < bytes && room_for_victims(*victims); ++next) {
      PageInfo info;
      if (!view_.glance(*next, &info) || !info.disposable) continue;
      if (info.rough && info.evictable) (void)view_.describe(*next, &info);
      if (!counts_for(info, wanted) || !info.evictable || info.dead_since >= wanted.dead_before ||
          (wanted.clean_only && info.borrowed && info.dirty)) {
        // One whose owner has died since is no loan any more: whoever wants room in a quota need not look at it.
        const bool loan = &list == &loans_ && info.borrowed;
        if (loan || &list == &idle_ || !if_memory([&] { dispose(*next, false); })) *kept++ = *next;
        continue;
      }
      victims->push_back(*next);
      found += info.bytes;
    }
    list.pages.erase(kept, next);
    return found;
  }

  // ---- the others ----

  /// Of evicting it, in copies. What is to be overwritten or destroyed does not come back.
  static double cost(const PageInfo &info) noexcept {
    if (info.done) return info.dirty ? 1.0 : Prices::clean_dead;
    return info.dirty ? 2.0 : 1.0;
  }
  static double score(const PageInfo &info, uint64_t now) noexcept {
    const double age = now > info.last_use ? static_cast<double>(now - info.last_use) : 1.0;
    constexpr double window = 64.0;  // beyond what is usually announced
    double distance =
        info.next_use != UINT64_MAX ? static_cast<double>(info.next_use) : window + age;
    if (info.next_use == UINT64_MAX && info.foreseen != UINT64_MAX)
      distance = std::max(1.0, static_cast<double>(info.foreseen));
    const bool prefetched = info.prefetch != UINT64_MAX;
    if (info.cold && !prefetched) distance = 1e18;
    // Nearer than anything whose use is not announced, dirty or clean; of two, that of the later call goes first.
    if (prefetched) {
      const auto place = static_cast<double>(info.prefetch);
      distance = std::min(distance, window / 2 * (place / (place + 1)));
    }
    // A class weighs more than any distance.
    return distance / cost(info) * std::pow(1e-6, info.priority);
  }

  /// Nobody pays for what has no owner.
  static bool counts_for(const PageInfo &info, const Wanted &wanted) noexcept {
    if (wanted.client == UINT32_MAX) return true;
    return wanted.client == info.client && (!info.disposable || info.borrowed);
  }

  static bool allowed(const PageInfo &info, const Wanted &wanted) noexcept {
    return info.evictable && counts_for(info, wanted) && !(wanted.clean_only && info.dirty) &&
           !(wanted.dirty_only && !info.dirty) &&
           !(info.prefetch != UINT64_MAX && wanted.keep_prefetched) &&
           !(info.next_use != UINT64_MAX && info.next_use < wanted.not_before);
  }

  /// The page that was parked last can't go now. It stays parked to the end, so that one pass ends. What is leased, held or nobody's in
  /// a client's heap may be so for long: the more there is of that, the more it would cost every look.
  void pass(AgeHeap &pages, const PageInfo &info, const Wanted &wanted) noexcept {
    if ((info.evictable && counts_for(info, wanted)) || ++passed_ <= most_passed) return;
    const uint64_t now = view_.now();
    const uint64_t unused = now - std::min(now, info.last_use);
    pages.put_off(now + std::min(unused, most_ticks) + (passed_ - most_passed) / most_at_a_tick);
  }

  /// One round: the oldest entries by up-to-date ticks, the best of them taken. candidates_ is left empty only
  /// when the heap held nothing that may go.
  uint64_t take_best(AgeHeap &pages, const Wanted &wanted, uint64_t bytes,
                     std::pmr::vector<PageRef> *victims) {
    candidates_.clear();
    uint64_t gathered = 0;
    const uint64_t enough = bytes * 4;
    size_t compared = 32;
    while (!pages.exhausted() && candidates_.size() < max_candidates &&
           (gathered < enough || candidates_.size() < compared) && looks_ != 0) {
      --looks_;
      const Entry entry = pages.park_oldest();
      PageInfo info;
      const bool known = view_.glance(entry.ref(), &info);
      if (known && info.last_use <= entry.tick && !allowed(info, wanted)) {
        pass(pages, info, wanted);
        continue;
      }
      pages.remove_parked();
      if (!known) continue;
      if (info.last_use > entry.tick) {
        pages.push(Entry::of(entry.ref(), info.last_use));
        continue;
      }
      if (known_twice(entry)) continue;
      // The oldest are not those that are used last any more: more are worth a look.
      if (info.foreseen != UINT64_MAX) compared = max_candidates;
      candidates_.push_back(Scored{entry, score(info, view_.now()), info.bytes, info.rough});
      gathered += info.bytes;
    }
    const Entry newest = candidates_.empty() ? Entry{} : candidates_.back().entry;
    last_taken_.reset();
    std::ranges::stable_sort(candidates_, std::greater{}, &Scored::score);
    uint64_t found = 0;
    for (const Scored &candidate : candidates_) {
      if (found < bytes && room_for_victims(*victims)) {
        if (candidate.rough && !may_go(pages, wanted, candidate.entry)) continue;
        victims->push_back(candidate.entry.ref());
        found += candidate.bytes;
        if (same_page(candidate.entry, newest)) last_taken_ = newest;
      } else {
        pages.push(candidate.entry);
      }
    }
    return found;
  }
  /// Looks at all of what lies there. If it may not go it is in the list again.
  bool may_go(AgeHeap &pages, const Wanted &wanted, const Entry &entry) {
    PageInfo info;
    if (!view_.describe(entry.ref(), &info)) return false;
    if (info.last_use > entry.tick) {
      pages.push(Entry::of(entry.ref(), info.last_use));
      return false;
    }
    if (allowed(info, wanted)) return true;
    pages.park(entry);
    return false;
  }
  /// As two entries of one tick, which come one after the other: a client's heap and the other leave such to each other.
  bool known_twice(const Entry &entry) const noexcept {
    if (of_client_.empty()) return false;
    if (!candidates_.empty()) return same_page(candidates_.back().entry, entry);
    return last_taken_ && same_page(*last_taken_, entry);
  }
  static bool same_page(const Entry &a, const Entry &b) noexcept {
    return a.region == b.region && a.page == b.page && a.generation == b.generation;
  }

  View &view_;
  AgeHeap pages_;
  /// Those of clients that have had to make room in a quota of their own, again: what others have is not looked through then.
  std::pmr::map<uint32_t, Own> of_client_;
  uint32_t turn_ = 0;  ///< the client some of whose entries were asked for last
  List idle_, loans_;  ///< what nobody owns any more; what is a neighbour's
  size_t looks_ = 0;   ///< left of Wanted::most_looks
  size_t passed_ = 0;  ///< by this look, as in use
  /// The newest page that the last round of this look saw, if it was taken.
  std::optional<Entry> last_taken_;
  std::pmr::vector<Scored> candidates_;
};

}  // namespace

Owned<Policy> make_lru_window(View &view, std::pmr::memory_resource *memory) {
  return adopt_as<Policy>(make_owned<LruWindow>(memory, view, memory));
}

}  // namespace weir::policy
