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
#include "core/policy/prices.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <new>
#include <tuple>

namespace weir::policy {
namespace {

/// Sixteen bytes a page, whatever the device holds.
struct Entry {
  uint64_t tick : 48;
  uint64_t generation : 16;
  uint32_t region;
  uint32_t page;

  static Entry of(const PageRef &ref, uint64_t tick) noexcept {
    return Entry{tick & 0xffffffffffffU, ref.generation, ref.region, ref.page};
  }
  PageRef ref() const noexcept { return PageRef{region, page, static_cast<uint16_t>(generation)}; }
};
static_assert(sizeof(Entry) == 16);
/// Pages of one last use are evicted in the order of addresses, so that one call unmaps neighbours.
bool later(const Entry &a, const Entry &b) noexcept {
  if (a.tick != b.tick) return a.tick > b.tick;
  return a.region != b.region ? a.region > b.region : a.page > b.page;
}

/// With less slack than a vector takes: there is an entry for every page.
constexpr size_t with_slack(size_t count) noexcept { return count + count / 8 + 16; }

struct Scored {
  Entry entry;
  double score;
  uint64_t bytes;
};

class LruWindow final : public Policy {
 public:
  LruWindow(View &view, std::pmr::memory_resource *memory)
      : view_(view), heap_(memory), disposable_(memory), candidates_(memory) {}

  void reserve(size_t pages) override {
    make_room_for(heap_.size() + pages);
    candidates_.reserve(max_candidates);
    reserved_ = std::max(pages, reserved_ - reserved_ / 8);
  }

  void admit(const PageRef &page, uint64_t tick) override {
    forget_some();
    push(Entry::of(page, tick));
  }
  void forget_some() noexcept override {
    assert(heap_end_ == heap_.size());  // nothing is parked
    for (int looks = 0; looks < 2 && !heap_.empty(); ++looks) {
      if (hand_ >= heap_.size()) hand_ = 0;
      if (view_.knows(heap_[hand_].ref())) {
        ++hand_;
      } else {
        remove(hand_);
        give_room_back();
      }
    }
  }
  void dispose(const PageRef &page) override {
    if (disposable_.size() >= tidy_disposable_at_) tidy_disposable();
    disposable_.push_back(page);
  }
  bool any_disposable() const noexcept override { return !disposable_.empty(); }
  bool give_back(const PageRef &page, uint64_t tick) noexcept override {
    return if_memory([&] { admit(page, tick); });
  }

  uint64_t choose(const Wanted &wanted, std::pmr::vector<PageRef> *victims) override {
    // Whatever may be needed is had before the first entry is taken out: none is lost where there is no memory.
    candidates_.reserve(max_candidates);
    const size_t all = heap_.size() + disposable_.size();
    victims->reserve(victims->size() + std::min<size_t>(all, wanted.bytes / 4096 + max_candidates));
    looks_ = wanted.most_looks;
    const size_t first = victims->size();
    uint64_t found = take_disposable(wanted, victims);
    const size_t first_used = victims->size();
    const bool no_more = wanted.disposable_only || wanted.given_up_only;
    if (wanted.dead_before != UINT64_MAX || no_more) return found;
    while (found < wanted.bytes && heap_end_ != 0 && room_for_victims(*victims)) {
      const uint64_t more = take_best(wanted, wanted.bytes - found, victims);
      if (more == 0 && candidates_.empty()) break;
      found += more;
    }
    while (heap_end_ != heap_.size()) heap_in_next();
    if (found >= wanted.bytes || !wanted.all_or_nothing) {
      give_room_back();
      return found;
    }
    disposable_.insert(disposable_.end(), victims->begin() + static_cast<ptrdiff_t>(first),
                       victims->begin() + static_cast<ptrdiff_t>(first_used));
    // Victims stay after all, in their order. The heap has room for what has just been taken from it.
    for (size_t i = first_used; i < victims->size(); ++i) {
      PageInfo info;
      const PageRef &page = (*victims)[i];
      if (view_.describe(page, &info)) push(Entry::of(page, info.last_use));
    }
    victims->resize(first);
    return 0;
  }

 private:
  static constexpr size_t max_candidates = 256;

  static bool room_for_victims(const std::pmr::vector<PageRef> &victims) noexcept {
    return victims.size() < victims.capacity();
  }

  // Pages that come and go without ever being chosen are told of again and again. So that what is kept of them stays in
  // proportion to the pages there are, two entries are asked for at every admission, and doubles are removed whenever a list
  // has doubled.
  static constexpr size_t least_tidy = 1024;

  /// The last entry takes the place, and moves from there to where it belongs.
  void remove(size_t at) noexcept {
    heap_[at] = heap_.back();
    heap_.pop_back();
    heap_end_ = heap_.size();
    for (; at != 0 && at < heap_end_ && later(heap_[(at - 1) / 2], heap_[at]); at = (at - 1) / 2)
      std::swap(heap_[(at - 1) / 2], heap_[at]);
    for (size_t child = 2 * at + 1; child < heap_end_; child = 2 * at + 1) {
      if (child + 1 < heap_end_ && later(heap_[child], heap_[child + 1])) ++child;
      if (!later(heap_[at], heap_[child])) break;
      std::swap(heap_[at], heap_[child]);
      at = child;
    }
  }

  void make_room_for(size_t count) {
    if (heap_.capacity() < count) heap_.reserve(with_slack(count));
  }
  /// What is left of a list that was long. Not what has been reserved; and without memory for the shorter one it stays.
  void give_room_back() noexcept {
    const size_t wanted = heap_.size() + reserved_;
    if (heap_.capacity() <= 2 * with_slack(wanted)) return;
    if_memory([&] {
      std::pmr::vector<Entry> shorter(heap_.get_allocator());
      shorter.reserve(with_slack(wanted));
      shorter.assign(heap_.begin(), heap_.end());
      heap_.swap(shorter);
    });
  }

  void tidy_disposable() noexcept {
    std::erase_if(disposable_, [this](const PageRef &page) { return !view_.knows(page); });
    const auto key = [](const PageRef &p) { return std::tuple(p.region, p.page, p.generation); };
    std::ranges::sort(disposable_, {}, key);
    const auto same = [&key](const PageRef &a, const PageRef &b) { return key(a) == key(b); };
    disposable_.erase(std::unique(disposable_.begin(), disposable_.end(), same), disposable_.end());
    tidy_disposable_at_ = std::max(least_tidy, 2 * disposable_.size());
  }
  void tidy_heap() noexcept {
    const auto key = [](const Entry &e) {
      return std::tuple(e.region, e.page, uint64_t{e.generation});
    };
    std::ranges::sort(heap_, [&key](const Entry &a, const Entry &b) {
      return key(a) != key(b) ? key(a) < key(b) : later(a, b);
    });
    const auto same = [&key](const Entry &a, const Entry &b) { return key(a) == key(b); };
    heap_.erase(std::unique(heap_.begin(), heap_.end(), same), heap_.end());
    heap_end_ = heap_.size();
    std::ranges::make_heap(heap_, later);
    tidy_heap_at_ = std::max(least_tidy, 2 * heap_.size());
  }

  void push(const Entry &entry) {
    if (heap_.size() >= tidy_heap_at_ && heap_end_ == heap_.size()) tidy_heap();
    make_room_for(heap_.size() + 1);
    heap_.push_back(entry);
    std::swap(heap_[heap_end_], heap_.back());
    heap_in_next();
  }
  /// The entry behind the heap becomes one of it.
  void heap_in_next() noexcept {
    ++heap_end_;
    std::push_heap(heap_.begin(), heap_.begin() + static_cast<ptrdiff_t>(heap_end_), later);
  }
  /// The oldest entry, parked: out of the heap but still in the list.
  Entry park_oldest() noexcept {
    std::pop_heap(heap_.begin(), heap_.begin() + static_cast<ptrdiff_t>(heap_end_), later);
    return heap_[--heap_end_];
  }
  /// Takes the entry that was parked last out of the list.
  void remove_parked() noexcept {
    heap_[heap_end_] = heap_.back();
    heap_.pop_back();
  }

  uint64_t take_disposable(const Wanted &wanted, std::pmr::vector<PageRef> *victims) {
    uint64_t found = 0;
    if (wanted.dirty_only) return found;
    auto kept = disposable_.begin(), next = kept;
    for (; next != disposable_.end() && found < wanted.bytes && room_for_victims(*victims);
         ++next) {
      PageInfo info;
      if (!view_.describe(*next, &info) || !info.disposable) continue;
      if (!counts_for(info, wanted) || !info.evictable || info.dead_since >= wanted.dead_before ||
          (wanted.clean_only && info.borrowed && info.dirty)) {
        *kept++ = *next;
        continue;
      }
      victims->push_back(*next);
      found += info.bytes;
    }
    disposable_.erase(kept, next);
    return found;
  }

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

  /// One round: the oldest entries by up-to-date ticks, the best of them taken. candidates_ is left empty only
  /// when the heap held nothing that may go.
  uint64_t take_best(const Wanted &wanted, uint64_t bytes, std::pmr::vector<PageRef> *victims) {
    candidates_.clear();
    uint64_t gathered = 0;
    const uint64_t enough = bytes * 4;
    size_t compared = 32;
    while (heap_end_ != 0 && candidates_.size() < max_candidates &&
           (gathered < enough || candidates_.size() < compared) && looks_ != 0) {
      --looks_;
      const Entry entry = park_oldest();
      PageInfo info;
      const bool known = view_.describe(entry.ref(), &info);
      // What can't go now (leased, of another client) stays parked to the end, so that one pass ends.
      if (known && info.last_use <= entry.tick && !allowed(info, wanted)) continue;
      remove_parked();
      if (!known) continue;
      if (info.last_use > entry.tick) {
        push(Entry::of(entry.ref(), info.last_use));
        continue;
      }
      // The oldest are not those that are used last any more: more are worth a look.
      if (info.foreseen != UINT64_MAX) compared = max_candidates;
      candidates_.push_back(Scored{entry, score(info, view_.now()), info.bytes});
      gathered += info.bytes;
    }
    std::ranges::stable_sort(candidates_, std::greater{}, &Scored::score);
    uint64_t found = 0;
    for (const Scored &candidate : candidates_) {
      if (found < bytes && room_for_victims(*victims)) {
        victims->push_back(candidate.entry.ref());
        found += candidate.bytes;
      } else {
        push(candidate.entry);
      }
    }
    return found;
  }

  View &view_;
  std::pmr::vector<Entry> heap_;  ///< and behind it, while victims are chosen, what was parked
  size_t heap_end_ = 0;
  size_t hand_ = 0;      ///< the entry to be asked for next
  size_t reserved_ = 0;  ///< the most that was asked for lately
  size_t looks_ = 0;     ///< left of Wanted::most_looks
  size_t tidy_heap_at_ = least_tidy, tidy_disposable_at_ = least_tidy;
  std::pmr::vector<PageRef> disposable_;
  std::pmr::vector<Scored> candidates_;
};

}  // namespace

Owned<Policy> make_lru_window(View &view, std::pmr::memory_resource *memory) {
  return adopt_as<Policy>(make_owned<LruWindow>(memory, view, memory));
}

}  // namespace weir::policy
