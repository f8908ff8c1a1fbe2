// SPDX-License-Identifier: Apache-2.0
//
// Leases of ranges in words, and who has a span.

#include "core/page/spans.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>

namespace weir::page {
void Span::note(uint64_t before, backend::Stamp now, const SpanUse &use) noexcept {
  if (before != last_) {
    // Something else has used it, or a lease of all of it came after them: that stamp stands for them.
    count_ = 0;
    before_ = before;
  }
  last_ = now.bits;
  const auto end = uses_.begin() + count_;
  // What comes from the history comes in no order (History::fold).
  const auto covered = std::remove_if(uses_.begin(), end, [&use](const SpanUse &old) {
    return use.begin <= old.begin && old.end <= use.end && old.stamp.point() <= use.stamp.point() &&
           (use.stamp.write() || !old.stamp.write());
  });
  count_ = static_cast<uint32_t>(covered - uses_.begin());
  if (count_ != most_uses) {
    uses_[count_++] = use;
    return;
  }
  // One for two: others only wait for more.
  SpanUse &last = uses_.back();
  last.begin = std::min(last.begin, use.begin);
  last.end = std::max(last.end, use.end);
  const uint64_t write = (last.stamp.bits | use.stamp.bits) & backend::Stamp::write_bit;
  if (use.stamp.point() > last.stamp.point()) last.stamp = use.stamp;
  last.stamp.bits |= write;
}

Spans::~Spans() {
  for (std::atomic<Span *> &chunk : chunks_) {
    Span *spans = chunk.load(std::memory_order_relaxed);
    if (spans == nullptr) continue;
    std::destroy_n(spans, chunk_size);
    memory_->deallocate(spans, chunk_size * sizeof(Span), alignof(Span));
  }
}

bool Spans::try_lease(Hot &hot, uint64_t generation, const SpanLease &range, uint32_t slot,
                      uint32_t device_id, uint64_t *where) noexcept {
  Span *span = of(hot.word.load(std::memory_order_relaxed));
  if (span == nullptr) return false;
  const Guard hold(span->lock);
  // It may have become another buffer's before.
  if (of(hot.word.load(std::memory_order_relaxed)) != span ||
      !hot.try_lease<Word::part>(generation, range.mode, slot, device_id, where))
    return false;
  span->leased = range;
  return true;
}

bool Spans::release(Hot &hot, const SpanLease &range, backend::Stamp stamp) noexcept {
  Span &span = *of(hot.word.load(std::memory_order_relaxed));
  const Guard hold(span.lock);
  const uint64_t before = hot.stamp.load(std::memory_order_relaxed);
  if (!hot.publish(stamp)) return false;
  span.note(before, backend::Stamp{hot.stamp.load(std::memory_order_relaxed)},
            {range.begin, range.end, stamp});
  hot.drop_lease(range.mode, Word::part);
  return true;
}

bool Spans::release_whole(Hot &hot, uint8_t mode, backend::Stamp stamp) noexcept {
  if (!hot.publish(stamp)) return false;
  // A later stamp of a range may have been there, and still is.
  if (Span *span = of(hot.word.load(std::memory_order_relaxed))) {
    const Guard hold(span->lock);
    span->forget();
  }
  hot.drop_lease(mode);
  return true;
}

void Spans::drop(Hot &hot, uint8_t mode) noexcept {
  Span &span = *of(hot.word.load(std::memory_order_relaxed));
  const Guard hold(span.lock);
  hot.drop_lease(mode, Word::part);
}

Spans::Look Spans::look(const Hot &hot) noexcept {
  const uint64_t seen = hot.word.load(std::memory_order_acquire);
  Span *span = of(seen);
  if (span == nullptr) return {seen, {}};
  const Guard hold(span->lock);
  const uint64_t word = hot.word.load(std::memory_order_acquire);
  if ((word & Word::part) == 0) return {word, {}};
  return {word, span->leased};
}

uint32_t Spans::take(BufferTable &buffers) {
  if (made_ <= most) {
    std::atomic<Span *> &chunk = chunks_[made_ / chunk_size];
    if (chunk.load(std::memory_order_relaxed) == nullptr) {
      auto *fresh =
          static_cast<Span *>(memory_->allocate(chunk_size * sizeof(Span), alignof(Span)));
      std::uninitialized_default_construct_n(fresh, chunk_size);
      chunk.store(fresh, std::memory_order_release);
    }
    return made_++;
  }
  // A few are asked, so that this costs the same however many there are.
  for (int tries = 0; tries < 8; ++tries) {
    hand_ = hand_ % most + 1;
    const uint32_t owner = at(hand_).buffer;
    if (owner != Span::no_buffer) detach(buffers.hot(owner));
    if (at(hand_).buffer == Span::no_buffer) return hand_;
  }
  return 0;
}

void Spans::attach(Hot &hot, uint32_t index, BufferTable &buffers) {
  if (Word::span(hot.word.load(std::memory_order_relaxed)) != 0) return;
  const uint32_t number = take(buffers);
  if (number == 0) return;
  Span &span = at(number);
  const Guard hold(span.lock);
  span.buffer = index;
  span.forget();
  hot.set_flags(uint64_t{number} << Word::span_shift, 0);
}

void Spans::detach(Hot &hot) noexcept {
  Span *span = of(hot.word.load(std::memory_order_relaxed));
  if (span == nullptr) return;
  const Guard hold(span->lock);
  if ((hot.word.load(std::memory_order_relaxed) & Word::part) != 0) return;
  hot.set_flags(0, Word::span_mask);
  span->buffer = Span::no_buffer;
}

}  // namespace weir::page
