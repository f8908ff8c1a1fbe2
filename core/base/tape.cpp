// SPDX-License-Identifier: Apache-2.0
//
// Rings of bytes, one writer and one reader each, merged by the numbers of their notes.

#include "core/base/tape.hpp"

#include "core/base/thread_id.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace weir {

namespace {

constexpr size_t alignment = 64;

}  // namespace

Tape::~Tape() {
  for (std::atomic<Ring *> &each : rings_) {
    Ring *const ring = each.load();
    if (ring == nullptr) continue;
    memory_->deallocate(ring->bytes, ring_bytes_, alignment);
    ring->~Ring();
    memory_->deallocate(ring, sizeof(Ring), alignof(Ring));
  }
}

Tape::Ring *Tape::ring_of(uint32_t thread) noexcept {
  if (thread == 0 || thread >= most_threads) return nullptr;
  Ring *ring = rings_[thread].load(std::memory_order_relaxed);
  if (ring != nullptr) return ring;
  void *bytes = nullptr;
  try {
    bytes = memory_->allocate(ring_bytes_, alignment);
    ring = new (memory_->allocate(sizeof(Ring), alignof(Ring))) Ring;
  } catch (...) {
    if (bytes != nullptr) memory_->deallocate(bytes, ring_bytes_, alignment);
    return nullptr;
  }
  ring->bytes = static_cast<std::byte *>(bytes);
  rings_[thread].store(ring, std::memory_order_release);
  uint32_t highest = highest_.load(std::memory_order_relaxed);
  while (highest < thread && !highest_.compare_exchange_weak(highest, thread)) {
  }
  return ring;
}

void Tape::lose(Ring *ring) noexcept {
  lost_.fetch_add(1, std::memory_order_relaxed);
  if (ring != nullptr) ring->lost = true;
}

void Tape::put(Note *head, size_t bytes, std::initializer_list<Tail> tails) noexcept {
  const uint32_t thread = number_thread();
  Ring *const ring = ring_of(thread);
  uint64_t all = rounded(bytes);
  for (const Tail tail : tails) all += rounded(tail.size());
  if (ring == nullptr || all > ring_bytes_ / 2) return lose(ring);
  uint64_t at = ring->head.load(std::memory_order_relaxed);
  const uint64_t offset = at & (ring_bytes_ - 1);
  // A note lies in one piece: a rest at the end that is too short is passed over.
  const uint64_t gap = offset + all > ring_bytes_ ? ring_bytes_ - offset : 0;
  if (at + gap + all - ring->tail.load(std::memory_order_acquire) > ring_bytes_) return lose(ring);
  if (gap != 0) {
    // As little as eight bytes: of a note that is nothing its size and kind are all that is read.
    const uint64_t nothing = gap;
    std::memcpy(ring->bytes + offset, &nothing, sizeof nothing);
    at += gap;
  }
  head->bytes = static_cast<uint32_t>(all);
  head->thread = static_cast<uint16_t>(thread);
  head->after_loss = std::exchange(ring->lost, false) ? 1 : 0;
  head->order = orders_.fetch_add(1, std::memory_order_relaxed);
  std::byte *to = ring->bytes + (at & (ring_bytes_ - 1));
  std::memcpy(to, head, bytes);
  to += rounded(bytes);
  for (const Tail tail : tails) {
    if (!tail.empty()) std::memcpy(to, tail.data(), tail.size());
    to += rounded(tail.size());
  }
  ring->head.store(at + all, std::memory_order_release);
}

const Note *Tape::front(Ring &ring) noexcept {
  for (;;) {
    const uint64_t tail = ring.tail.load(std::memory_order_relaxed);
    if (tail == ring.head.load(std::memory_order_acquire)) return nullptr;
    const auto *const note =
        reinterpret_cast<const Note *>(ring.bytes + (tail & (ring_bytes_ - 1)));
    // One of before clear() may have been on its way then.
    if (note->kind != 0 && note->order >= expected_) return note;
    ring.tail.store(tail + note->bytes, std::memory_order_release);
  }
}

const Note *Tape::next() noexcept {
  // Most often the same thread goes on.
  if (at_ != 0) {
    const Note *const note = front(*rings_[at_].load(std::memory_order_relaxed));
    if (note != nullptr && note->order == expected_) return note;
  }
  const Note *first = nullptr;
  const uint32_t highest = highest_.load(std::memory_order_acquire);
  for (uint32_t thread = 1; thread <= highest; ++thread) {
    Ring *const ring = rings_[thread].load(std::memory_order_acquire);
    const Note *const note = ring != nullptr ? front(*ring) : nullptr;
    if (note == nullptr || (first != nullptr && first->order < note->order)) continue;
    first = note;
    at_ = thread;
    if (note->order == expected_) return note;
  }
  return first != nullptr && skips_ ? first : nullptr;
}

void Tape::take() noexcept {
  Ring &ring = *rings_[at_].load(std::memory_order_relaxed);
  const Note *const note = front(ring);
  expected_ = note->order + 1;
  ring.tail.store(ring.tail.load(std::memory_order_relaxed) + note->bytes,
                  std::memory_order_release);
}

void Tape::clear() noexcept {
  for (std::atomic<Ring *> &each : rings_) {
    Ring *const ring = each.load(std::memory_order_acquire);
    if (ring != nullptr) ring->tail.store(ring->head.load(std::memory_order_acquire));
  }
  expected_ = orders_.load();
  at_ = 0;
  skips_ = false;
  lost_.store(0, std::memory_order_relaxed);
}

}  // namespace weir
