// SPDX-License-Identifier: Apache-2.0
//
// The drain: records of several rings, in one order.

#include "core/lease/use_log.hpp"

#include "core/page/hot.hpp"

namespace weir::lease {
namespace {

// A birth or such: what and of whom; the moment; its bytes, or a stream's life.
//   index 32 | generation 20 | kind
constexpr unsigned kind_at = 52;

/// Moments go round: of two that are in the log at a time the earlier is less than half the way behind.
bool is_before(uint32_t one, uint32_t other) noexcept {
  return static_cast<int32_t>(one - other) < 0;
}

}  // namespace

UseLog::~UseLog() {
  UseRing *ring = rings_.load(std::memory_order_acquire);
  while (ring != nullptr) MemoryDelete<UseRing>{memory_}(std::exchange(ring, ring->next));
}

void UseLog::start(uint64_t large) {
  large_ = large;
  lives_ = make_owned<Lives>(memory_);
}

UseRing *UseLog::add_ring(const ObservedStream &stream) noexcept {
  if (count_.fetch_add(1, std::memory_order_relaxed) < most_rings) {
    try {
      UseRing *ring = make_owned<UseRing>(memory_, stream.slot, stream.life).release();
      ring->next = rings_.load(std::memory_order_relaxed);
      while (!rings_.compare_exchange_weak(ring->next, ring, std::memory_order_release,
                                           std::memory_order_relaxed)) {
      }
      return ring;
    } catch (const std::bad_alloc &) {  // as if there were too many
    }
  }
  count_.fetch_sub(1, std::memory_order_relaxed);
  return nullptr;
}

void UseLog::note(Kind kind, uint32_t index, uint64_t generation, uint64_t value) noexcept {
  const uint64_t what =
      index | generation >> UseRecord::generation_down | static_cast<uint64_t>(kind) << kind_at;
  const uint64_t at = lives_->head();
  lives_->put(at, {what, next_moment(), value});
  lives_->publish(at + 1);
}

// What dies here has been used before, and what is used has been born before. So births and deaths are looked at first, then the
// rings, which then have all uses of what has died by then; and what is born after the first look is used after `unfetched()`.
void UseLog::fetch() noexcept {
  lives_->fetch();
  for (UseRing *ring = rings_.load(std::memory_order_acquire); ring != nullptr; ring = ring->next)
    ring->fetch();
}

bool UseLog::unfetched(uint32_t *from) const noexcept {
  Lives::Record record{};
  bool intact = true;
  if (!lives_->peek(&record, &intact)) return false;
  // Written over already, by one that is later than what has been copied: its moment is not known. All that was fetched can wait.
  *from = intact ? static_cast<uint32_t>(record[1])
                 : moment_.load(std::memory_order_relaxed) - (UINT32_MAX >> 2);
  return true;
}

/// Where the earliest operation is that has been fetched, and how far one may go on there before others have their turn.
struct UseLog::Next {
  UseRing *ring = nullptr;
  bool alone = true;
  uint32_t others = 0;  ///< moment of the first of them

  bool stays() const noexcept {
    return ring != nullptr && ring->ready() && (alone || !is_before(others, ring->moment()));
  }
};

bool UseLog::find_next(Next *next) const noexcept {
  *next = {};
  const auto pass_over = [next](const UseRing &ring) {
    if (next->alone || is_before(ring.moment(), next->others)) next->others = ring.moment();
    next->alone = false;
  };
  for (UseRing *ring = rings_.load(std::memory_order_acquire); ring != nullptr; ring = ring->next) {
    if (!ring->ready()) {
      if (ring->more()) return false;
    } else if (next->ring == nullptr) {
      next->ring = ring;
    } else if (is_before(ring->moment(), next->ring->moment())) {
      pass_over(*std::exchange(next->ring, ring));
    } else {
      pass_over(*ring);
    }
  }
  return true;
}

bool UseLog::tell_life(Observer &observer, const uint32_t *before) {
  const auto lives = lives_->copied();
  if (lives.empty()) return false;
  const auto [what, when, value] = lives[0];
  if (what != 0 && before != nullptr && is_before(*before, static_cast<uint32_t>(when)))
    return false;
  lives_->drop(1);
  const auto index = static_cast<uint32_t>(what);
  const uint64_t generation = (what << UseRecord::generation_down) & page::Word::generation_mask;
  switch (static_cast<Kind>(what >> kind_at)) {
    case Kind::born:
      observer.born(index, generation, value);
      break;
    case Kind::died:
      observer.died(index, generation);
      break;
    case Kind::began: {
      const auto life = static_cast<uint32_t>(value);
      for (UseRing *ring = rings_.load(std::memory_order_acquire); ring != nullptr;
           ring = ring->next)
        if (ring->slot == index) ring->life = life;
      observer.began({index, life});
      break;
    }
    default:
      observer.missed_lives(when);
  }
  return true;
}

void UseLog::tell_operation(Observer &observer, UseRing &ring, size_t *told) {
  const ObservedStream stream{ring.slot, ring.life};
  if (const uint64_t missed = ring.take_missed(); missed != 0) observer.missed(stream, missed);
  const uint32_t name = ring.take(&uses_);
  *told += uses_.size();
  observer.observe({stream, name, uses_});
}

bool UseLog::tell(Observer &observer, size_t most, size_t *told) {
  uint32_t bound = 0;
  const bool bounded = unfetched(&bound);
  Next next;
  while (*told < most) {
    if (!next.stays() && !find_next(&next)) return true;
    const uint32_t moment = next.ring != nullptr ? next.ring->moment() : 0;
    const bool waits = next.ring != nullptr && bounded && !is_before(moment, bound);
    const bool has_operation = next.ring != nullptr && !waits;
    if (tell_life(observer, has_operation ? &moment : nullptr)) {
      ++*told;
    } else if (has_operation) {
      tell_operation(observer, *next.ring, told);
    } else {
      return lives_->more();
    }
  }
  return false;
}

void UseLog::skip_uses() noexcept {
  for (UseRing *ring = rings_.load(std::memory_order_acquire); ring != nullptr; ring = ring->next)
    ring->skip();
}

bool UseLog::empty() const noexcept {
  if (!on()) return true;
  if (!lives_->empty()) return false;
  for (UseRing *ring = rings_.load(std::memory_order_acquire); ring != nullptr; ring = ring->next)
    if (!ring->empty()) return false;
  return true;
}

size_t UseLog::drain(Observer &observer, size_t most) {
  size_t told = 0;
  if (!on()) return told;
  do {
    fetch();
  } while (tell(observer, most, &told));
  return told;
}

}  // namespace weir::lease
