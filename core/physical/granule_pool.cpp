// SPDX-License-Identifier: Apache-2.0
//
// Free lists, the budget, and the segment of devices without VMM.

#include "core/physical/granule_pool.hpp"

#include <algorithm>
#include <cassert>

namespace weir::physical {

GranulePool::GranulePool(const backend::Device &device, uint64_t page_size,
                         uint64_t large_page_size, uint64_t budget,
                         std::pmr::memory_resource *memory)
    : device_(device),
      vmm_(device.has(WEIR_CAP_VMM)),
      page_size_(page_size),
      large_size_(large_page_size),
      budget_(budget / page_size * page_size),
      granules_(memory),
      unused_(memory),
      idle_{std::pmr::vector<GranuleId>(memory), std::pmr::vector<GranuleId>(memory)} {
  if (!vmm_) arena_.emplace(std::max<uint64_t>(budget_.limit(), page_size_), 256, memory);
}

GranulePool::~GranulePool() {
  for (auto &list : idle_) {
    for (GranuleId id : list) (void)destroy(id);
  }
  if (segment_ != 0) {
    (void)device_.table().plain_free(device_.state(), device_.index, segment_, segment_bytes_);
  }
}

Status GranulePool::start() {
  if (vmm_) return {};
  const uint64_t bytes = budget_.limit();
  if (bytes == 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "the budget of device %u is less than a page",
                device_.id);
  WEIR_TRY(device_.check(
      device_.table().plain_allocate(device_.state(), device_.index, bytes,
                                     std::min<uint64_t>(page_size_, 2U << 20U), &segment_),
      "plain_allocate"));
  segment_bytes_ = bytes;
  return {};
}

uint64_t GranulePool::idle() const noexcept {
  if (!vmm_) return arena_->free_units();
  return idle_[0].size() * page_size_ + idle_[1].size() * large_size_;
}

GranuleId GranulePool::new_slot() {
  if (!unused_.empty()) {
    const GranuleId id = unused_.back();
    unused_.pop_back();
    granules_[id] = Granule{};
    return id;
  }
  // Everything that could later need a place gets it now: release() and forget() must not allocate.
  const size_t count = granules_.size() + 1;
  const size_t room = count + count / 2;
  for (auto *list : {&unused_, &idle_[0], &idle_[1]}) {
    if (list->capacity() < count) list->reserve(room);
  }
  granules_.emplace_back();
  return static_cast<GranuleId>(granules_.size() - 1);
}

GranuleId GranulePool::claim(PageClass c, uint64_t bytes, std::pmr::vector<GranuleId> *doomed) {
  if (!vmm_) {
    const GranuleId id = new_slot();
    Arena::Allocation extent;
    try {
      extent = arena_->allocate(bytes, 256);
    } catch (...) {
      unused_.push_back(id);
      throw;
    }
    if (!extent) {
      unused_.push_back(id);
      return no_granule;
    }
    granules_[id] = Granule{0, segment_ + extent.offset, bytes, extent.node, client_unknown, c};
    return id;
  }
  auto &list = idle_[static_cast<size_t>(c)];
  if (!list.empty()) {
    const GranuleId id = list.back();
    list.pop_back();
    return id;
  }
  const uint64_t size = page_size(c);
  const auto &other = idle_[c == PageClass::small ? 1 : 0];
  const uint64_t other_size =
      page_size(c == PageClass::small ? PageClass::large : PageClass::small);
  if (budget_.room() + other.size() * other_size < size) return no_granule;
  doomed->reserve(doomed->size() + other.size());
  const GranuleId id = new_slot();
  auto &victims = idle_[c == PageClass::small ? 1 : 0];
  while (budget_.room() < size) {
    doomed->push_back(victims.back());
    budget_.refund(other_size);
    victims.pop_back();
  }
  const bool charged = budget_.charge(size);
  assert(charged);
  (void)charged;
  granules_[id].bytes = size;
  granules_[id].page_class = c;
  return id;
}

void GranulePool::release(GranuleId id) noexcept {
  Granule &granule = granules_[id];
  if (!vmm_) {
    arena_->free(granule.node);
    granule = Granule{};
    unused_.push_back(id);
    return;
  }
  idle_[static_cast<size_t>(granule.page_class)].push_back(id);
}

uint64_t GranulePool::take_idle(uint64_t bytes, std::pmr::vector<GranuleId> *doomed) {
  if (!vmm_) return 0;
  doomed->reserve(doomed->size() + idle_[0].size() + idle_[1].size());
  uint64_t taken = 0;
  for (auto *list : {&idle_[1], &idle_[0]}) {
    while (!list->empty() && taken < bytes) {
      const GranuleId id = list->back();
      list->pop_back();
      doomed->push_back(id);
      taken += granules_[id].bytes;
      budget_.refund(granules_[id].bytes);
    }
  }
  return taken;
}

void GranulePool::forget(GranuleId id, bool returned) noexcept {
  if (returned) budget_.refund(granules_[id].bytes);
  granules_[id] = Granule{};
  unused_.push_back(id);
}

void GranulePool::lower_budget(uint64_t bytes) noexcept {
  const uint64_t limit = budget_.limit();
  if (vmm_) budget_.set_limit(std::max(budget_.used(), limit - std::min(limit, bytes)));
}

Status GranulePool::materialize(GranuleId id) {
  Granule &granule = granules_[id];
  if (!vmm_ || granule.handle != 0) return {};
  return device_.check(device_.table().granule_create(device_.state(), device_.index, granule.bytes,
                                                      &granule.handle),
                       "granule_create");
}

Status GranulePool::destroy(GranuleId id) {
  Granule &granule = granules_[id];
  if (granule.handle == 0) return {};
  const Status status =
      device_.check(device_.table().granule_destroy(device_.state(), device_.index, granule.handle),
                    "granule_destroy");
  granule.handle = 0;
  return status;
}

}  // namespace weir::physical
