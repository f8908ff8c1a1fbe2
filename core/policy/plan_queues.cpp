// SPDX-License-Identifier: Apache-2.0
//
// The two queues: fetches in an array from which the front is cut now and then, evictions in a heap.

#include "core/policy/plan_queues.hpp"

#include "core/base/grow.hpp"

#include <algorithm>

namespace weir::policy {

void FetchQueue::make_room(uint64_t more) {
  if (head_ > items_.size() / 2) {
    items_.erase(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(head_));
    base_ += head_;
    head_ = 0;
  }
  grow_by(items_, more);
}

void FetchQueue::append(const PlannedFetch &item) noexcept {
  items_.push_back(item);
  bytes_ += item.bytes;
}

const PlannedFetch *FetchQueue::next(uint64_t *number) const noexcept {
  for (uint64_t at = std::max(*number, base_ + head_); at - base_ < items_.size(); ++at) {
    if (items_[at - base_].bytes == 0) continue;
    *number = at;
    return &items_[at - base_];
  }
  return nullptr;
}

void FetchQueue::take(uint64_t number, uint64_t bytes) noexcept {
  PlannedFetch &item = items_[number - base_];
  bytes = std::min(bytes, item.bytes);
  item.bytes -= bytes;
  bytes_ -= bytes;
  while (head_ < items_.size() && items_[head_].bytes == 0) ++head_;
}

const PlannedFetch *FetchQueue::expire(uint64_t now) noexcept {
  while (head_ < items_.size() && items_[head_].bytes == 0) ++head_;
  if (head_ == items_.size() || items_[head_].due > now) return nullptr;
  bytes_ -= items_[head_].bytes;
  return &items_[head_++];
}

void FetchQueue::clear() noexcept {
  base_ += items_.size();
  items_.clear();
  head_ = 0;
  bytes_ = 0;
}

void DropQueue::make_room(uint64_t more) { grow_by(heap_, more); }

void DropQueue::add(const PlannedDrop &drop) noexcept {
  heap_.push_back({drop, added_++});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

void DropQueue::remove_first() noexcept {
  std::pop_heap(heap_.begin(), heap_.end(), later);
  heap_.pop_back();
}

void DropQueue::clear() noexcept { heap_.clear(); }

}  // namespace weir::policy
