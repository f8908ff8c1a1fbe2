// SPDX-License-Identifier: Apache-2.0
//
// Free lists and the budget; without VMM the calls are passed on to the segments.

#include "core/physical/granule_pool.hpp"

#include <algorithm>
#include <cassert>

namespace weir::physical {
namespace {

/// So many unused records are kept anyway.
constexpr size_t least_unused = 64;

}  // namespace

GranulePool::GranulePool(const backend::Device &device, uint64_t page_size,
                         uint64_t large_page_size, uint64_t budget, uint64_t segment_size,
                         std::pmr::memory_resource *memory)
    : device_(device),
      page_size_(page_size),
      large_size_(large_page_size),
      budget_(budget / page_size * page_size),
      memory_(memory),
      granules_(memory) {
  if (device.has(WEIR_CAP_VMM)) return;
  segments_ = make_owned<Segments>(memory, device, page_size, budget_.limit(), segment_size,
                                   &system_, memory);
}

GranulePool::~GranulePool() {
  for (IdleList &list : idle_) {
    while (list.size != 0) (void)destroy_granule(granules_[pop(&list)]);
  }
}

uint64_t GranulePool::idle() const {
  if (!vmm()) return segments_->free_bytes();
  return idle_[0].size * page_size_ + idle_[1].size * large_size_;
}

bool GranulePool::returnable(uint64_t reserve) const {
  if (!vmm()) return segments_->any_spare(reserve);
  const auto has = [&](PageClass c) {
    return idle_[static_cast<size_t>(c)].size != 0 && idle() >= reserve + page_size(c);
  };
  return has(PageClass::large) || has(PageClass::small);
}

std::string GranulePool::validate() const {
  if (!vmm()) {
    const std::string broken = segments_->validate();
    return broken.empty() ? validate_unused() : broken;
  }
  if (idle() > budget_.used()) return "more granules are idle than are charged";
  for (const IdleList &list : idle_) {
    if (list.fewest > list.size) return "fewer granules are idle than ever were";
  }
  return validate_unused();
}

/// The list is all that say they are unused, linked both ways.
std::string GranulePool::validate_unused() const {
  const auto marked = std::count_if(granules_.begin(), granules_.end(), [](const Granule &granule) {
    return granule.client() == client_unused;
  });
  if (static_cast<size_t>(marked) != unused_.size)
    return "unused records of granules are not listed";
  GranuleId before = no_granule;
  GranuleId id = unused_.head;
  for (size_t left = unused_.size; left != 0; --left, before = id, id = granules_[id].node) {
    if (id >= granules_.size() || granules_[id].client() != client_unused)
      return "a record of a granule is listed as unused and is not";
    if (granules_[id].place != before) return "unused records of granules are not linked both ways";
  }
  return id == no_granule ? std::string()
                          : "more records of granules are listed as unused than there are";
}

// ---- lists ----

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

/// For a claim.
GranuleId GranulePool::need(IdleList *list) noexcept {
  const GranuleId id = pop(list);
  list->fewest = std::min(list->fewest, list->size);
  return id;
}

GranuleId GranulePool::new_slot() {
  if (unused_.size != 0) {
    const GranuleId id = unused_.head;
    unlink_slot(id);
    granules_[id] = Granule{};
    return id;
  }
  granules_.emplace_back();
  return static_cast<GranuleId>(granules_.size() - 1);
}

/// A record that is no granule any more. Once most are unused, those at the end go: a device that held much keeps little of it.
void GranulePool::give_slot(GranuleId id) noexcept {
  granules_[id] = Granule{};
  granules_[id].set_client(client_unused);
  granules_[id].place = no_granule;
  if (unused_.head != no_granule) granules_[unused_.head].place = id;
  push(&unused_, id);
  while (unused_.size > least_unused && unused_.size > granules_.size() / 2 &&
         granules_.back().client() == client_unused) {
    unlink_slot(static_cast<GranuleId>(granules_.size() - 1));
    granules_.pop_back();
  }
}

void GranulePool::unlink_slot(GranuleId id) noexcept {
  const auto before = static_cast<GranuleId>(granules_[id].place);
  const GranuleId after = granules_[id].node;
  --unused_.size;
  if (after != no_granule) granules_[after].place = before;
  (before != no_granule ? granules_[before].node : unused_.head) = after;
}

// ---- claims ----

template <class Claim>
GranuleId GranulePool::claim_extent(Claim claim) {
  const GranuleId id = new_slot();
  Segments::Extent extent;
  try {
    extent = claim();
  } catch (...) {
    give_slot(id);
    throw;
  }
  if (extent.id == Segments::none) {
    give_slot(id);
    return no_granule;
  }
  granules_[id].place = extent.address;
  granules_[id].node = extent.id;
  return id;
}

GranuleId GranulePool::claim(PageClass c, uint64_t bytes, DoomedList *doomed) {
  if (!vmm()) return claim_extent([&] { return segments_->claim(bytes); });
  if (idle_of(c).size != 0) return need(&idle_of(c));
  const uint64_t size = page_size(c);
  const PageClass other_class = c == PageClass::small ? PageClass::large : PageClass::small;
  IdleList &other = idle_of(other_class);
  const uint64_t other_size = page_size(other_class);
  if (budget_.room() + other.size * other_size < size) return no_granule;
  doomed->reserve(doomed->size() + other.size);
  const GranuleId id = new_slot();
  while (budget_.room() < size) {
    const GranuleId victim = need(&other);
    doomed->push_back(Doomed{victim, &granules_[victim], nullptr, false});
    budget_.refund(other_size);
  }
  [[maybe_unused]] const bool charged = budget_.charge(size);
  assert(charged);
  granules_[id].set_class(c);
  return id;
}

GranuleId GranulePool::claim_at(uint32_t segment, uint64_t offset, uint64_t bytes,
                                uint32_t before) {
  return claim_extent([&] { return segments_->claim_at(segment, offset, bytes, before); });
}

void GranulePool::release(GranuleId id) noexcept {
  Granule &granule = granules_[id];
  if (!vmm()) {
    const uint32_t client = granule.client();
    segments_->release(granule.node, client == client_unknown ? Segments::several : client);
    give_slot(id);
    return;
  }
  push(&idle_of(granule.page_class()), id);
}

void GranulePool::forget(GranuleId id) noexcept {
  budget_.refund(page_size(granules_[id].page_class()));
  give_slot(id);
}

void GranulePool::set_budget(uint64_t bytes) noexcept {
  bytes = bytes / page_size_ * page_size_;
  if (!vmm()) return segments_->set_limit(bytes);
  budget_.set_limit(bytes);
}

void GranulePool::lower_budget(uint64_t bytes) noexcept {
  if (!vmm()) return segments_->lower_limit(bytes);
  budget_.lower(bytes);
}

// ---- giving back ----

/// Takes one idle granule of the class out, to be destroyed; *doomed has room for it. The idle granules that were not needed (`fewest`)
/// become one less.
uint64_t GranulePool::doom(PageClass c, DoomedList *doomed) noexcept {
  IdleList &list = idle_of(c);
  const GranuleId id = pop(&list);
  list.fewest -= list.fewest != 0 ? 1U : 0U;
  for (size_t &fewest : list.fewest_before) fewest -= fewest != 0 ? 1U : 0U;
  doomed->push_back(Doomed{id, &granules_[id]});
  return page_size(c);
}

template <class Take>
uint64_t GranulePool::doom_segments(DoomedList *doomed, Take take) {
  std::pmr::vector<Segment *> segments(memory_);
  doomed->reserve(doomed->size() + segments_->records());
  const uint64_t taken = take(&segments);
  for (Segment *segment : segments) doomed->push_back(Doomed{no_granule, nullptr, segment});
  return taken;
}

uint64_t GranulePool::take_idle(uint64_t bytes, DoomedList *doomed) {
  if (!vmm()) {
    return doom_segments(doomed, [&](auto *out) { return segments_->take_empty(bytes, out); });
  }
  doomed->reserve(doomed->size() + idle_[0].size + idle_[1].size);
  uint64_t taken = 0;
  for (const PageClass c : {PageClass::large, PageClass::small}) {
    while (idle_of(c).size != 0 && taken < bytes) taken += doom(c, doomed);
  }
  return taken;
}

void GranulePool::look_at_idle() noexcept {
  if (!vmm()) return segments_->look_at_idle();
  for (IdleList &list : idle_) {
    std::move_backward(list.fewest_before.begin(), list.fewest_before.end() - 1,
                       list.fewest_before.end());
    list.fewest_before.front() = list.fewest;
    list.fewest = list.size;
  }
}

uint64_t GranulePool::take_unneeded(uint64_t reserve, uint64_t most, DoomedList *doomed) {
  if (!vmm()) {
    return doom_segments(doomed,
                         [&](auto *out) { return segments_->take_idle(reserve, most, out); });
  }
  doomed->reserve(doomed->size() + idle_[0].unneeded() + idle_[1].unneeded());
  uint64_t taken = 0;
  for (const PageClass c : {PageClass::large, PageClass::small}) {
    const uint64_t size = page_size(c);
    while (idle_of(c).unneeded() != 0 && idle() >= reserve + size &&
           (taken == 0 || taken + size <= most))
      taken += doom(c, doomed);
  }
  return taken;
}

void GranulePool::forget(const Doomed &gone) noexcept {
  if (gone.segment != nullptr) return segments_->forget(gone.segment);
  if (gone.charged) return forget(gone.id);
  give_slot(gone.id);
}

// ---- the runtime's calls ----

Status GranulePool::materialize(Granule &granule) {
  if (granule.place != 0) return {};
  if (!vmm()) return segments_->make(granule.node, &granule.place);
  const uint64_t size = page_size(granule.page_class());
  WEIR_TRY(device_.check(
      device_.table().granule_create(device_.state(), device_.index, size, 0, &granule.place),
      "granule_create"));
  system_.take(size);
  return {};
}

Status GranulePool::destroy_granule(Granule &granule) {
  if (granule.place == 0) return {};
  const Status status =
      device_.check(device_.table().granule_destroy(device_.state(), device_.index, granule.place),
                    "granule_destroy");
  granule.place = 0;
  system_.give(page_size(granule.page_class()));
  return status;
}

Status GranulePool::destroy(const Doomed &doomed) {
  return doomed.segment != nullptr ? segments_->destroy(*doomed.segment)
                                   : destroy_granule(*doomed.granule);
}

}  // namespace weir::physical
