// SPDX-License-Identifier: Apache-2.0
//
// Segments opened, made, emptied and given back. All but what calls the runtime is done under the lock, in one step.

#include "core/physical/segments.hpp"

#include "core/base/grow.hpp"

#include <algorithm>
#include <bit>

namespace weir::physical {
namespace {

constexpr uint64_t mib = uint64_t{1} << 20U;
constexpr uint64_t least_preferred = 32 * mib;
constexpr uint64_t most_preferred = 1024 * mib;

uint64_t rounded(uint64_t bytes) noexcept {
  return (bytes + Segment::quantum - 1) / Segment::quantum * Segment::quantum;
}

/// Where the last extent ends: with less memory than that it can't be made.
uint64_t needed_by(const Arena &arena) {
  uint64_t end = 0;
  for (auto node = arena.first(); node != Arena::none; node = arena.next(node))
    end = arena.offset(node) + arena.size(node);
  return end;
}

}  // namespace

Segments::Segments(const backend::Device &device, uint64_t page_size, uint64_t budget,
                   uint64_t preferred, HeldBytes *held, std::pmr::memory_resource *memory)
    : device_(device),
      page_size_(page_size),
      fixed_(rounded(preferred)),
      held_(*held),
      memory_(memory),
      budget_(budget),
      segments_(memory),
      slots_(memory) {}

Segments::~Segments() {
  for (const auto &segment : segments_) (void)destroy(*segment);
}

/// An eighth of what is held already, so that little is taken in vain; powers of two leave the least odds and ends.
uint64_t Segments::preferred() const noexcept {
  if (fixed_ != 0) return fixed_;
  const uint64_t share = std::bit_floor(budget_.limit() / 8);
  const uint64_t most = std::clamp(share, least_preferred, most_preferred);
  return std::clamp(std::bit_floor(budget_.used() / 8), least_preferred, most);
}

// ---- claims ----

uint32_t Segments::take_slot() {
  if (unused_slot_ == none) {
    slots_.emplace_back();
    return static_cast<uint32_t>(slots_.size() - 1);
  }
  const uint32_t slot = unused_slot_;
  unused_slot_ = slots_[slot].node;
  return slot;
}

void Segments::drop_slot(uint32_t slot) noexcept {
  slots_[slot] = Slot{nullptr, unused_slot_};
  unused_slot_ = slot;
}

/// The extent at a place that was looked for; none if there was none.
Segments::Extent Segments::settle(Segment &segment, uint32_t slot,
                                  const Arena::Allocation &found) noexcept {
  if (!found) return {};
  slots_[slot] = Slot{&segment, found.node};
  segment.arena.set_owner(found.node, slot);
  segment.idle_looks = 0;
  const bool made = segment.state == Segment::State::made;
  const uint64_t address = made ? segment.address + found.offset : 0;
  reorder(&segment);
  return {slot, address};
}

Segments::Extent Segments::claim(uint64_t bytes) {
  const Lock lock(mutex_);
  bytes = rounded(bytes);
  const uint32_t slot = take_slot();
  Segment *fresh = nullptr;
  Extent found;
  try {
    for (const auto &segment : segments_) {
      if (!segment->usable() || segment->arena.free_units() < bytes) continue;
      found = settle(*segment, slot, segment->arena.allocate(bytes));
      if (found.id != none) return found;
    }
    fresh = open_for(bytes);
    if (fresh != nullptr) found = settle(*fresh, slot, fresh->arena.allocate(bytes));
  } catch (...) {
    if (fresh != nullptr) abandon(*fresh);
    drop_slot(slot);
    throw;
  }
  if (found.id == none) drop_slot(slot);
  return found;
}

Segments::Extent Segments::claim_at(uint32_t number, uint64_t offset, uint64_t bytes,
                                    uint32_t before) {
  const Lock lock(mutex_);
  Segment *segment = find([number](const Segment &s) { return s.number == number; });
  if (segment == nullptr || segment->state != Segment::State::made) return {};
  // Both may have changed since the caller looked.
  if (before != none && (before >= slots_.size() || slots_[before].segment != segment)) return {};
  const uint32_t slot = take_slot();
  Extent found;
  try {
    const Arena::Node next = before != none ? slots_[before].node : Arena::none;
    found = settle(*segment, slot, segment->arena.allocate_before(next, offset, rounded(bytes)));
  } catch (...) {
    drop_slot(slot);
    throw;
  }
  if (found.id == none) drop_slot(slot);
  return found;
}

/// A segment with room for `bytes` that has no memory yet, or nullptr.
Segment *Segments::open_for(uint64_t bytes) {
  uint64_t empties = 0;
  for (const auto &segment : segments_) empties += segment->empty() ? segment->charge : 0;
  const uint64_t room = budget_.room();
  if (room + empties < bytes) return nullptr;
  grow_by(segments_);
  const uint64_t wanted = std::max(bytes, std::min(preferred(), granted_));
  const auto size_in = [wanted](uint64_t most) {
    return std::min(wanted, most / Segment::quantum * Segment::quantum);
  };
  segments_.push_back(make_owned<Segment>(memory_, size_in(room + empties), memory_));
  Segment &fresh = *segments_.back();
  if (room < bytes) replace_empties(fresh, bytes - room);
  fresh.bytes = size_in(room + fresh.charge);
  (void)fresh.arena.resize(fresh.bytes);  // shortens it, if anything: it can't fail
  fresh.number = numbers_++;
  // A segment that is replaced stays charged until it has been given back.
  if (fresh.bytes > fresh.charge) {
    (void)budget_.charge(fresh.bytes - fresh.charge);
    fresh.charge = fresh.bytes;
  }
  return &fresh;
}

/// Marks empty segments, the largest first, until `needed` bytes are covered: `by` takes over their charge.
void Segments::replace_empties(Segment &by, uint64_t needed) noexcept {
  while (by.charge < needed) {
    Segment *largest = nullptr;
    for (const auto &segment : segments_) {
      if (segment->empty() && (largest == nullptr || segment->bytes > largest->bytes))
        largest = segment.get();
    }
    largest->state = Segment::State::replaced;
    largest->replaced_by = &by;
    by.charge += largest->charge;
  }
}

/// Undoes the opening of a segment that is no longer needed before it had any memory: all is as if it had not been opened.
void Segments::abandon(Segment &segment) noexcept {
  uint64_t kept = 0;
  for (const auto &old : segments_) {
    if (old->replaced_by != &segment) continue;
    old->replaced_by = nullptr;
    old->state = Segment::State::made;
    kept += old->charge;
  }
  budget_.refund(segment.charge - kept);
  erase(&segment);
}

/// Its bytes in use have changed.
void Segments::reorder(Segment *segment) noexcept {
  auto at = position(segment);
  const uint64_t used = segment->arena.used();
  for (; at != segments_.begin() && (*(at - 1))->arena.used() < used; --at)
    std::swap(*at, *(at - 1));
  for (; at + 1 != segments_.end() && (*(at + 1))->arena.used() > used; ++at)
    std::swap(*at, *(at + 1));
}

void Segments::release(uint32_t extent, uint32_t client) noexcept {
  const Lock lock(mutex_);
  Segment &segment = *slots_[extent].segment;
  const Arena::Node node = slots_[extent].node;
  const uint64_t begin = segment.arena.offset(node), end = begin + segment.arena.size(node);
  segment.owners.enter(begin, end, client);
  segment.owners.settle(begin, end, client);
  segment.arena.free(node);
  drop_slot(extent);
  reorder(&segment);
  if (!segment.arena.empty()) return;
  if (segment.state == Segment::State::open) {
    abandon(segment);
  } else if (segment.state == Segment::State::refused) {
    erase(&segment);
  }
}

Segments::Foreign Segments::foreign(uint32_t extent, uint32_t client) const noexcept {
  const Lock lock(mutex_);
  const Segment &segment = *slots_[extent].segment;
  const Arena::Node node = slots_[extent].node;
  const uint64_t begin = segment.arena.offset(node), end = begin + segment.arena.size(node);
  Foreign found;
  segment.owners.each_foreign(begin, end, client, [&](uint64_t from, uint64_t to) {
    if (from == begin) {
      found.front = to - from;
    } else if (to == end) {
      found.back = to - from;
    } else {
      found.all = true;
    }
  });
  found.all = found.all || found.front + found.back == end - begin;
  return found;
}

// ---- memory ----

Status Segments::make(uint32_t extent, uint64_t *address) {
  Lock lock(mutex_);
  const Slot slot = slots_[extent];
  Segment &segment = *slot.segment;
  if (segment.state == Segment::State::open) WEIR_TRY(obtain(lock, segment));
  while (segment.state == Segment::State::making) changed_.wait(lock);
  if (segment.state == Segment::State::refused)
    return fail(segment.why, "device %u gave no memory for a segment of %llu bytes", device_.id,
                llu(segment.bytes));
  *address = segment.address + segment.arena.offset(slot.node);
  return {};
}

/// Gets a segment its memory: all of it, or less. The caller's extent keeps the segment alive.
Status Segments::obtain(Lock &lock, Segment &segment) {
  segment.state = Segment::State::making;  // from here on nothing is carved out of it
  const auto to_go = [&segment](const Segment &s) { return s.replaced_by == &segment; };
  while (Segment *old = find(to_go)) {
    lock.unlocked([&] { (void)destroy(*old); });
    erase(old);
  }
  budget_.refund(segment.charge - segment.bytes);
  segment.charge = segment.bytes;
  const uint64_t needed = needed_by(segment.arena);
  const uint64_t least = std::max(needed, segment.bytes / 8);
  const uint64_t alignment = std::bit_floor(std::min<uint64_t>(page_size_, 2 * mib));
  uint64_t size = segment.bytes;
  Status status;
  for (;;) {
    status = lock.unlocked([&] {
      return device_.check(device_.table().plain_allocate(device_.state(), device_.index, size,
                                                          alignment, &segment.address),
                           "plain_allocate");
    });
    if (status.code() != WEIR_ERROR_DEVICE_OOM || size == needed) break;
    const uint64_t half = size / 2 / Segment::quantum * Segment::quantum;
    size = half >= least ? half : needed;
  }
  if (status) {
    if (size < segment.bytes) granted_ = size;
    (void)segment.arena.resize(size);  // shortens the free range at the end: it can't fail
    held_.take(size);
    refusals_ = 0;
    segment.state = Segment::State::made;
  } else {
    granted_ = needed / 2 / Segment::quantum * Segment::quantum;
    segment.address = 0;
    segment.why = status.code();
    segment.state = Segment::State::refused;
    size = 0;
  }
  budget_.refund(segment.charge - size);
  segment.charge = size;
  if (status) segment.bytes = size;
  changed_.notify_all();
  return status;
}

Status Segments::destroy(Segment &segment) {
  if (segment.address == 0) return {};
  const Status status = device_.check(
      device_.table().plain_free(device_.state(), device_.index, segment.address, segment.bytes),
      "plain_free");
  segment.address = 0;
  held_.give(segment.bytes);
  return status;
}

// ---- giving back ----

uint64_t Segments::take_empty(uint64_t bytes, std::pmr::vector<Segment *> *out) {
  const Lock lock(mutex_);
  out->reserve(out->size() + segments_.size());
  uint64_t taken = 0;
  for (auto at = segments_.rbegin(); at != segments_.rend() && taken < bytes; ++at) {
    if (!(*at)->empty()) continue;
    (*at)->state = Segment::State::doomed;
    out->push_back(at->get());
    taken += (*at)->bytes;
  }
  return taken;
}

void Segments::forget(Segment *segment) noexcept {
  const Lock lock(mutex_);
  budget_.refund(segment->charge);
  erase(segment);
  granted_ = UINT64_MAX;
}

void Segments::lower_limit(uint64_t bytes) noexcept {
  const Lock lock(mutex_);
  // Twice as much each time in a row: segments are large, and each refusal costs a call.
  budget_.lower(bytes << std::min(refusals_++, 20U));
}

void Segments::look_at_idle() noexcept {
  const Lock lock(mutex_);
  for (const auto &segment : segments_) {
    if (!segment->empty()) {
      segment->idle_looks = 0;
    } else if (segment->idle_looks <= looks_a_grace) {
      ++segment->idle_looks;
    }
  }
}

/// A segment is kept for the reserve's sake only if it is not far more than that.
bool Segments::spare(const Segment &segment, uint64_t free, uint64_t reserve) noexcept {
  return segment.empty() && (free - segment.bytes >= reserve || segment.bytes > 2 * reserve);
}

uint64_t Segments::take_idle(uint64_t reserve, uint64_t most, std::pmr::vector<Segment *> *out) {
  const Lock lock(mutex_);
  out->reserve(out->size() + segments_.size());
  uint64_t taken = 0;
  uint64_t left = free_locked();
  for (auto at = segments_.rbegin(); at != segments_.rend(); ++at) {
    Segment &segment = **at;
    if (segment.idle_looks <= looks_a_grace) continue;
    if (!spare(segment, left, reserve) || (taken != 0 && taken + segment.bytes > most)) continue;
    segment.state = Segment::State::doomed;
    out->push_back(&segment);
    taken += segment.bytes;
    left -= segment.bytes;
  }
  return taken;
}

// ---- numbers ----

uint64_t Segments::free_locked() const noexcept {
  uint64_t bytes = 0;
  for (const auto &segment : segments_)
    bytes += segment->usable() ? segment->arena.free_units() : 0;
  return bytes;
}

bool Segments::any_spare(uint64_t reserve) const {
  const Lock lock(mutex_);
  const uint64_t free = free_locked();
  return std::any_of(segments_.begin(), segments_.end(),
                     [&](const auto &segment) { return spare(*segment, free, reserve); });
}

uint32_t Segments::count() const {
  const Lock lock(mutex_);
  return static_cast<uint32_t>(std::count_if(segments_.begin(), segments_.end(), [](const auto &s) {
    return s->state == Segment::State::made;
  }));
}

void Segments::survey(std::pmr::vector<Piece> *pieces) const {
  const Lock lock(mutex_);
  for (const auto &segment : segments_) {
    if (segment->state != Segment::State::made) continue;
    const Arena &arena = segment->arena;
    pieces->push_back(Piece{segment->number, none, 0, segment->bytes});
    for (auto node = arena.first(); node != Arena::none; node = arena.next(node))
      pieces->push_back(
          Piece{segment->number, arena.owner(node), arena.offset(node), arena.size(node)});
  }
}

uint64_t Segments::largest_free() const {
  const Lock lock(mutex_);
  uint64_t largest = 0;
  for (const auto &segment : segments_) {
    if (segment->usable()) largest = std::max(largest, segment->arena.largest_free());
  }
  return largest;
}

std::string Segments::validate() const {
  const Lock lock(mutex_);
  uint64_t charged = 0;
  for (size_t i = 0; i < segments_.size(); ++i) {
    const Segment &segment = *segments_[i];
    if (std::string wrong = segment.arena.validate(); !wrong.empty()) return wrong;
    if (segment.state != Segment::State::replaced) charged += segment.charge;
    // While a segment is being made or given back, its address belongs to the thread that does that, and is not checked.
    if (segment.usable() && (segment.address != 0) != (segment.state == Segment::State::made))
      return "a segment's memory and its state do not agree";
    if (segment.arena.size() != segment.bytes) return "a segment is carved up beyond its memory";
    if (i != 0 && segments_[i - 1]->arena.used() < segment.arena.used())
      return "the fullest segments are not the first";
    if (segment.arena.empty() && segment.state == Segment::State::open)
      return "a segment without memory has nobody who wants it";
  }
  if (charged != budget_.used()) return "the segments do not add up to what is charged";
  for (const Slot &slot : slots_) {
    if (slot.segment != nullptr && !slot.segment->arena.live(slot.node))
      return "an extent is not in its segment";
  }
  return {};
}

}  // namespace weir::physical
