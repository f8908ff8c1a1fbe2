// SPDX-License-Identifier: Apache-2.0
//
// Pages by age.

#include "core/policy/age_heap.hpp"

#include "core/base/pool_lock.hpp"

#include <algorithm>
#include <cassert>
#include <tuple>

namespace weir::policy {
namespace {

using Entry = AgeHeap::Entry;

/// Pages of one last use are evicted in the order of addresses, so that one call unmaps neighbours.
bool later(const Entry &a, const Entry &b) noexcept {
  if (a.tick != b.tick) return a.tick > b.tick;
  return a.region != b.region ? a.region > b.region : a.page > b.page;
}

/// With less slack than a vector takes: there is an entry for every page.
constexpr size_t with_slack(size_t count) noexcept { return count + count / 8 + 16; }

}  // namespace

void AgeHeap::reserve(size_t pages) {
  make_room_for(heap_.size() + pages);
  reserved_ = std::max(pages, reserved_ - reserved_ / 8);
}

void AgeHeap::make_room_for(size_t count) {
  if (heap_.capacity() < count) heap_.reserve(with_slack(count));
}

void AgeHeap::push(const Entry &entry) {
  if (heap_.size() >= tidy_at_ && end_ == heap_.size()) tidy();
  make_room_for(heap_.size() + 1);
  heap_.push_back(entry);
  std::swap(heap_[end_], heap_.back());
  heap_in_next();
}

/// The entry behind the heap becomes one of it.
void AgeHeap::heap_in_next() noexcept {
  ++end_;
  std::push_heap(heap_.begin(), heap_.begin() + static_cast<ptrdiff_t>(end_), later);
}

void AgeHeap::unpark() noexcept {
  while (end_ != heap_.size()) heap_in_next();
}

Entry AgeHeap::park_oldest() noexcept {
  std::pop_heap(heap_.begin(), heap_.begin() + static_cast<ptrdiff_t>(end_), later);
  return heap_[--end_];
}

void AgeHeap::remove_parked() noexcept {
  heap_[end_] = heap_.back();
  heap_.pop_back();
}

void AgeHeap::forget_some(View &view) noexcept {
  assert(end_ == heap_.size());  // nothing is parked
  for (int looks = 0; looks < 2 && !heap_.empty(); ++looks) {
    if (hand_ >= heap_.size()) hand_ = 0;
    if (view.knows(heap_[hand_].ref())) {
      ++hand_;
    } else {
      remove(hand_);
      give_room_back();
    }
  }
}

/// The last entry takes the place, and moves from there to where it belongs.
void AgeHeap::remove(size_t at) noexcept {
  heap_[at] = heap_.back();
  heap_.pop_back();
  end_ = heap_.size();
  for (; at != 0 && at < end_ && later(heap_[(at - 1) / 2], heap_[at]); at = (at - 1) / 2)
    std::swap(heap_[(at - 1) / 2], heap_[at]);
  for (size_t child = 2 * at + 1; child < end_; child = 2 * at + 1) {
    if (child + 1 < end_ && later(heap_[child], heap_[child + 1])) ++child;
    if (!later(heap_[at], heap_[child])) break;
    std::swap(heap_[at], heap_[child]);
    at = child;
  }
}

void AgeHeap::give_room_back() noexcept {
  const size_t wanted = heap_.size() + reserved_;
  if (heap_.capacity() <= 2 * with_slack(wanted)) return;
  if_memory([&] {
    std::pmr::vector<Entry> shorter(heap_.get_allocator());
    shorter.reserve(with_slack(wanted));
    shorter.assign(heap_.begin(), heap_.end());
    heap_.swap(shorter);
  });
}

void AgeHeap::tidy() noexcept {
  const auto key = [](const Entry &e) {
    return std::tuple(e.region, e.page, uint64_t{e.generation});
  };
  std::ranges::sort(heap_, [&key](const Entry &a, const Entry &b) {
    return key(a) != key(b) ? key(a) < key(b) : later(a, b);
  });
  const auto same = [&key](const Entry &a, const Entry &b) { return key(a) == key(b); };
  heap_.erase(std::unique(heap_.begin(), heap_.end(), same), heap_.end());
  end_ = heap_.size();
  std::ranges::make_heap(heap_, later);
  tidy_at_ = std::max(least_tidy, 2 * heap_.size());
}

}  // namespace weir::policy
