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
      granules_(memory) {
  if (!vmm_) arena_.emplace(std::max<uint64_t>(budget_.limit(), page_size_), 256, memory);
}

GranulePool::~GranulePool() {
  for (FreeList &list : idle_) {
    while (list.size != 0) (void)destroy(granules_[pop(&list)]);
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
  return idle_[0].size * page_size_ + idle_[1].size * large_size_;
}

GranuleId GranulePool::pop(FreeList *list) noexcept {
  const GranuleId id = list->head;
  list->head = granules_[id].node;
  --list->size;
  return id;
}

void GranulePool::push(FreeList *list, GranuleId id) noexcept {
  granules_[id].node = list->head;
  list->head = id;
  ++list->size;
}

GranuleId GranulePool::new_slot() {
  if (unused_.size != 0) {
    const GranuleId id = pop(&unused_);
    granules_[id] = Granule{};
    return id;
  }
  granules_.emplace_back();
  return static_cast<GranuleId>(granules_.size() - 1);
}

GranuleId GranulePool::claim(PageClass c, uint64_t bytes, DoomedList *doomed) {
  if (!vmm_) {
    const GranuleId id = new_slot();
    Arena::Allocation extent;
    try {
      extent = arena_->allocate(bytes, 256);
    } catch (...) {
      push(&unused_, id);
      throw;
    }
    if (!extent) {
      push(&unused_, id);
      return no_granule;
    }
    granules_[id].place = segment_ + extent.offset;
    granules_[id].node = extent.node;
    return id;
  }
  if (idle_of(c).size != 0) return pop(&idle_of(c));
  const uint64_t size = page_size(c);
  const PageClass other_class = c == PageClass::small ? PageClass::large : PageClass::small;
  FreeList &other = idle_of(other_class);
  const uint64_t other_size = page_size(other_class);
  if (budget_.room() + other.size * other_size < size) return no_granule;
  doomed->reserve(doomed->size() + other.size);
  const GranuleId id = new_slot();
  while (budget_.room() < size) {
    const GranuleId victim = pop(&other);
    doomed->push_back(Doomed{victim, &granules_[victim]});
    budget_.refund(other_size);
  }
  const bool charged = budget_.charge(size);
  assert(charged);
  (void)charged;
  granules_[id].set_class(c);
  return id;
}

void GranulePool::release(GranuleId id) noexcept {
  Granule &granule = granules_[id];
  if (!vmm_) {
    arena_->free(granule.node);
    granule = Granule{};
    push(&unused_, id);
    return;
  }
  push(&idle_of(granule.page_class()), id);
}

uint64_t GranulePool::take_idle(uint64_t bytes, DoomedList *doomed) {
  if (!vmm_) return 0;
  doomed->reserve(doomed->size() + idle_[0].size + idle_[1].size);
  uint64_t taken = 0;
  for (const PageClass c : {PageClass::large, PageClass::small}) {
    while (idle_of(c).size != 0 && taken < bytes) {
      const GranuleId id = pop(&idle_of(c));
      doomed->push_back(Doomed{id, &granules_[id]});
      taken += page_size(c);
      budget_.refund(page_size(c));
    }
  }
  return taken;
}

void GranulePool::forget(GranuleId id, bool returned) noexcept {
  if (returned) budget_.refund(page_size(granules_[id].page_class()));
  granules_[id] = Granule{};
  push(&unused_, id);
}

void GranulePool::lower_budget(uint64_t bytes) noexcept {
  const uint64_t limit = budget_.limit();
  if (vmm_) budget_.set_limit(std::max(budget_.used(), limit - std::min(limit, bytes)));
}

Status GranulePool::materialize(Granule &granule) {
  if (!vmm_ || granule.place != 0) return {};
  return device_.check(
      device_.table().granule_create(device_.state(), device_.index,
                                     page_size(granule.page_class()), &granule.place),
      "granule_create");
}

Status GranulePool::destroy(Granule &granule) {
  if (granule.place == 0) return {};
  const Status status =
      device_.check(device_.table().granule_destroy(device_.state(), device_.index, granule.place),
                    "granule_destroy");
  granule.place = 0;
  return status;
}

}  // namespace weir::physical
