// SPDX-License-Identifier: Apache-2.0
//
// The "lru-window" policy. A heap by last known use is brought up to date lazily: an entry that was used
// since is pushed back with its new tick when it comes up. Among the oldest entries the victim is the one
// with the largest expected distance to its next use divided by what its return trip costs (a dirty page
// costs a copy down as well): Belady's rule with costs ("MINC"), with age standing in for the distance where
// no next use is announced. (L. Belady, "A study of replacement algorithms", IBM Systems Journal 5, 1966.)

#include "core/residency/policy.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

namespace weir::residency {
namespace {

struct Entry {
  uint64_t tick;
  PageRef page;
};
bool later(const Entry &a, const Entry &b) noexcept { return a.tick > b.tick; }

struct Scored {
  Entry entry;
  double score;
  uint64_t bytes;
};

class LruWindow final : public Policy {
 public:
  explicit LruWindow(std::pmr::memory_resource *memory)
      : heap_(memory), disposable_(memory), candidates_(memory), parked_(memory) {}

  const char *name() const noexcept override { return "lru-window"; }

  void reserve(size_t pages) override {
    const size_t count = heap_.size() + pages;
    for (auto *list : {&heap_, &parked_}) {
      if (list->capacity() < count) list->reserve(count + count / 2);
    }
    if (candidates_.capacity() < max_candidates) candidates_.reserve(max_candidates);
    if (disposable_.capacity() < count) disposable_.reserve(count + count / 2);
  }

  void admit(const PageRef &page, uint64_t tick) override { push(Entry{tick, page}); }
  void dispose(const PageRef &page) override { disposable_.push_back(page); }
  bool give_back(const PageRef &page, uint64_t tick) noexcept override {
    try {
      push(Entry{tick, page});
      return true;
    } catch (const std::bad_alloc &) {
      return false;
    }
  }

  uint64_t choose(const Wanted &wanted, View &view, std::pmr::vector<PageRef> *victims) override {
    // Whatever may be needed is had before the first entry is taken out: none is lost where there is no memory.
    parked_.clear();
    parked_.reserve(heap_.size());
    candidates_.reserve(max_candidates);
    victims->reserve(victims->size() + heap_.size() + disposable_.size());
    uint64_t found = take_disposable(wanted, view, victims);
    // Entries that can't go now (leased, of another client) wait here, so that one pass ends.
    while (found < wanted.bytes && !heap_.empty()) {
      const uint64_t more = take_best(wanted, wanted.bytes - found, view, victims);
      if (more == 0 && candidates_.empty()) break;
      found += more;
    }
    for (const Entry &entry : parked_) push(entry);
    return found;
  }

 private:
  static constexpr size_t max_candidates = 256;

  void push(const Entry &entry) {
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  uint64_t take_disposable(const Wanted &wanted, View &view, std::pmr::vector<PageRef> *victims) {
    uint64_t found = 0;
    size_t kept = 0;
    for (size_t i = 0; i < disposable_.size(); ++i) {
      PageInfo info;
      const PageRef page = disposable_[i];
      if (!view.describe(page, &info) || !info.disposable) continue;
      if (found >= wanted.bytes || wanted.dirty_only || wanted.client != UINT32_MAX ||
          !info.evictable) {
        disposable_[kept++] = page;
        continue;
      }
      victims->push_back(page);
      found += info.bytes;
    }
    disposable_.resize(kept);
    return found;
  }

  static double score(const PageInfo &info, uint64_t now) noexcept {
    const double age = now > info.last_use ? static_cast<double>(now - info.last_use) : 1.0;
    constexpr double window = 64.0;  // beyond what is usually announced
    double distance =
        info.next_use != UINT64_MAX ? static_cast<double>(info.next_use) : window + age;
    if (info.cold) distance = 1e18;
    // A class weighs more than any distance.
    return distance / (info.dirty ? 2.0 : 1.0) * std::pow(1e-6, info.priority);
  }

  static bool allowed(const PageInfo &info, const Wanted &wanted) noexcept {
    return info.evictable && !(info.disposable && wanted.client != UINT32_MAX) &&
           (wanted.client == UINT32_MAX || wanted.client == info.client) &&
           !(wanted.clean_only && info.dirty) && !(wanted.dirty_only && !info.dirty) &&
           !(info.next_use != UINT64_MAX && info.next_use < wanted.not_before);
  }

  /// One round: the oldest entries by up-to-date ticks, the best of them taken. candidates_ is left empty only
  /// when the heap held nothing that may go.
  uint64_t take_best(const Wanted &wanted, uint64_t bytes, View &view,
                     std::pmr::vector<PageRef> *victims) {
    candidates_.clear();
    uint64_t gathered = 0;
    const uint64_t enough = bytes * 4;
    while (!heap_.empty() && candidates_.size() < max_candidates &&
           (gathered < enough || candidates_.size() < 32)) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      const Entry entry = heap_.back();
      heap_.pop_back();
      PageInfo info;
      if (!view.describe(entry.page, &info)) continue;
      if (info.last_use > entry.tick) {
        push(Entry{info.last_use, entry.page});
        continue;
      }
      if (!allowed(info, wanted)) {
        parked_.push_back(entry);
        continue;
      }
      candidates_.push_back(Scored{entry, score(info, view.now()), info.bytes});
      gathered += info.bytes;
    }
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Scored &a, const Scored &b) { return a.score > b.score; });
    uint64_t found = 0;
    for (const Scored &candidate : candidates_) {
      if (found < bytes) {
        victims->push_back(candidate.entry.page);
        found += candidate.bytes;
      } else {
        push(candidate.entry);
      }
    }
    return found;
  }

  std::pmr::vector<Entry> heap_;
  std::pmr::vector<PageRef> disposable_;
  std::pmr::vector<Scored> candidates_;
  std::pmr::vector<Entry> parked_;
};

}  // namespace

Owned<Policy> make_lru_window(std::pmr::memory_resource *memory) {
  Owned<LruWindow> policy = make_owned<LruWindow>(memory, memory);
  return adopt_as<Policy>(std::move(policy));
}

Owned<Policy> make_policy(const char *name, std::pmr::memory_resource *memory) {
  if (name == nullptr || std::strcmp(name, "lru-window") == 0) return make_lru_window(memory);
  return {};
}

}  // namespace weir::residency
