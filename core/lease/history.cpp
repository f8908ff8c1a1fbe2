// SPDX-License-Identifier: Apache-2.0
//
// What is kept of past uses, and what is told of them.

#include "core/lease/history.hpp"

#include "core/page/spans.hpp"

#include <array>

namespace weir::lease {
namespace {

/// At this many a region's tombstones are looked through for such as have passed.
constexpr size_t many_tombstones = 64;

bool touches(const page::Tombstone &dead, uint64_t begin, uint64_t end) noexcept {
  return dead.begin < end && begin < dead.end;
}

/// Whether no lease is counted that may publish, and none can be had without the lock.
bool nobody_publishes(uint64_t word) noexcept {
  using page::Word;
  constexpr uint64_t shut = Word::history | Word::partial | Word::closing;
  return Word::leases(word) == 0 && ((word & shut) != 0 || (word & Word::resident) == 0);
}

/// One tombstone for each stream: its last work stands for all of it, wherever it is.
void merge(Packed<page::Tombstone> &dead) noexcept {
  size_t kept = 0;
  for (const page::Tombstone &next : dead) {
    size_t same = 0;
    while (same < kept && dead[same].stamp.slot() != next.stamp.slot()) ++same;
    if (same != kept) {
      widen(dead[same], next);
    } else {
      dead[kept++] = next;
    }
  }
  dead.resize(kept);
}

}  // namespace

void History::note(uint32_t buffer, uint64_t begin, uint64_t end, Stamp stamp) noexcept {
  const bool noted = if_memory([&]() WEIR_HELD {
    const auto entry = spare_.have(uses_, buffer, memory_);
    entry->second.add(PastUse{begin, end, stamp}, streams_);
    buffers_.hot(buffer).set_flags(page::Word::history, 0);
  });
  if (!noted) (void)streams_.wait(stamp, UINT64_MAX);
}

void History::grant_whole(uint32_t buffer, bool write, const backend::Stream *stream) noexcept {
  page::Hot &hot = buffers_.hot(buffer);
  if (write) {
    forget(buffer);
    hot.stamp.store(0, std::memory_order_relaxed);
    return;
  }
  const Stamp old = hot.last_use();
  const bool other = old && (stream == nullptr || old.slot() != stream->slot);
  const Stamp past = other ? hot.take_past() : Stamp{};
  if (past && !streams_.passed(past)) note(buffer, 0, hot.size(), past);
}

bool History::pending(uint32_t buffer) noexcept {
  const auto entry = uses_.find(buffer);
  if (entry == uses_.end()) return false;
  entry->second.forget_passed(streams_);
  if (!entry->second.empty()) return true;
  forget(entry);
  return false;
}

bool History::fold(uint32_t buffer, uint32_t slot) noexcept {
  page::Hot &hot = buffers_.hot(buffer);
  const uint64_t word = hot.word.load(std::memory_order_acquire);
  const auto entry = uses_.find(buffer);
  page::Span *span = buffers_.spans().of(word);
  if (span == nullptr || !nobody_publishes(word)) return false;
  if (entry != uses_.end()) entry->second.forget_passed(streams_);
  Stamp all = hot.last_use();
  if (all && all.slot() != slot && streams_.passed(all)) all = {};
  const auto uses = past_uses(buffer);
  const auto own = [slot](const PastUse &use) { return use.stamp.slot() == slot; };
  if ((all && all.slot() != slot) || !std::all_of(uses.begin(), uses.end(), own)) return false;
  uint64_t before = all.bits;
  for (const PastUse &use : uses) {
    const uint64_t write = (all.bits | use.stamp.bits) & Stamp::write_bit;
    if (use.stamp.point() > all.point()) all = use.stamp;
    all.bits |= write;
  }
  {
    const Guard hold(span->lock);
    span->forget();
    for (const PastUse &use : uses) {
      span->note(before, all, {use.begin, use.end, use.stamp});
      before = all.bits;
    }
    hot.stamp.store(all.bits, std::memory_order_release);
  }
  if (entry != uses_.end()) forget(entry);
  return true;
}

void History::unfold(uint32_t buffer) noexcept {
  page::Hot &hot = buffers_.hot(buffer);
  const uint64_t word = hot.word.load(std::memory_order_acquire);
  page::Span *span = buffers_.spans().of(word);
  if (span == nullptr || !nobody_publishes(word)) return;
  const Stamp stamp = hot.last_use();
  std::array<PastUse, page::Span::most_uses + 1> uses;
  size_t count = 0;
  {
    const Guard hold(span->lock);
    for (const page::SpanUse &use : span->uses(stamp))
      uses[count++] = {use.begin, use.end, use.stamp};
    if (count == 0) return;
    if (span->before()) uses[count++] = {0, hot.size(), span->before()};
  }
  const bool noted = if_memory([&]() WEIR_HELD {
    for (size_t i = 0; i < count; ++i) {
      const auto entry = spare_.have(uses_, buffer, memory_);
      buffers_.hot(buffer).set_flags(page::Word::history, 0);
      entry->second.add(uses[i], streams_);
    }
  });
  if (!noted) return;  // then the stamp stands for all of it, as before
  page::Region &region = *buffers_.target(buffer).region;
  region.past.last_use = std::max(region.past.last_use, stamp.point());
  hot.stamp.store(0, std::memory_order_release);
}

void History::gather(const Range &range, bool write, std::pmr::vector<Stamp> *stamps) {
  if (range.begin != 0 || range.end != buffers_.hot(range.buffer).size()) unfold(range.buffer);
  const page::Hot &hot = buffers_.hot(range.buffer);
  const Stamp whole = hot.last_use();
  if (whole && (write || whole.write())) stamps->push_back(whole);
  // Before its first use a tenant's past is that of its place.
  if ((hot.word.load(std::memory_order_relaxed) & page::Word::virgin) != 0)
    gather_place(*range.region, range.base + range.begin, range.base + range.end, stamps);
  for (const PastUse &use : past_uses(range.buffer)) {
    if (use.begin < range.end && range.begin < use.end && (write || use.stamp.write()))
      stamps->push_back(use.stamp);
  }
}

bool History::follows(const Range &range, bool write, uint32_t slot) noexcept {
  if (range.begin != 0 || range.end != buffers_.hot(range.buffer).size()) {
    const Stamp whole = buffers_.hot(range.buffer).last_use();
    if (whole && whole.slot() != slot) unfold(range.buffer);
  }
  const auto fine = [&](Stamp past) {
    return !past || past.slot() == slot || !(write || past.write()) || streams_.passed(past);
  };
  const auto uses = past_uses(range.buffer);
  return fine(buffers_.hot(range.buffer).last_use()) &&
         std::all_of(uses.begin(), uses.end(), [&](const PastUse &use) {
           return use.end <= range.begin || range.end <= use.begin || fine(use.stamp);
         });
}

/// No more is kept than a few of a stream.
void History::bury(page::Region &region, uint64_t begin, uint64_t end, Stamp stamp) noexcept {
  if (!stamp || streams_.passed(stamp)) return;
  auto &dead = region.past.tombstones;
  // Of one place that is taken and given again and again the last work stands for all.
  page::Tombstone *last = dead.empty() ? nullptr : &dead.back();
  if (last != nullptr && last->stamp.slot() == stamp.slot() && begin <= last->begin &&
      last->end <= end && last->stamp.point() <= stamp.point()) {
    stamp.bits |= last->stamp.bits & Stamp::write_bit;
    *last = page::Tombstone{begin, end, stamp};
    return;
  }
  if (dead.size() >= many_tombstones) {
    dead.erase_if([this](const page::Tombstone &old) { return streams_.passed(old.stamp); });
    if (dead.size() >= many_tombstones / 2) merge(dead);
  }
  if (!if_memory([&] { dead.push_back(page::Tombstone{begin, end, stamp}); }))
    (void)streams_.wait(stamp, UINT64_MAX);
}

void History::bury_all(const Range &range) noexcept {
  bury(*range.region, range.base, range.base + range.end, buffers_.hot(range.buffer).last_use());
  for (const PastUse &use : past_uses(range.buffer))
    bury(*range.region, range.base + use.begin, range.base + use.end, use.stamp);
  forget(range.buffer);
}

void History::inherit(uint32_t buffer, uint64_t size, page::Region &region) {
  PastUses inherited(memory_);
  for (const page::Tombstone &dead : region.past.tombstones)
    inherited.add(PastUse{0, size, dead.stamp}, streams_);
  inherited.forget_passed(streams_);
  if (!inherited.empty()) uses_.emplace(buffer, std::move(inherited));
  region.past.tombstones.clear();
}

void History::take_over(const Range &range) noexcept {
  for (const page::Tombstone &dead : range.region->past.tombstones) {
    if (touches(dead, range.base, range.base + range.end))
      note(range.buffer, 0, buffers_.hot(range.buffer).size(), dead.stamp);
  }
}

void History::gather_place(const page::Region &region, uint64_t begin, uint64_t end,
                           std::pmr::vector<Stamp> *stamps) {
  for (const page::Tombstone &dead : region.past.tombstones) {
    if (touches(dead, begin, end)) stamps->push_back(dead.stamp);
  }
}

bool History::past_ended(const page::Region &region, uint64_t begin, uint64_t end,
                         const backend::Stream *stream) const noexcept {
  for (const page::Tombstone &dead : region.past.tombstones) {
    if (!touches(dead, begin, end)) continue;
    if (stream != nullptr && dead.stamp.slot() == stream->slot) continue;
    if (!streams_.passed(dead.stamp)) return false;
  }
  return true;
}

bool History::past_of(const page::Region &region, uint64_t begin, uint64_t end,
                      Stamp *past) const noexcept {
  *past = Stamp{};
  for (const page::Tombstone &dead : region.past.tombstones) {
    if (!touches(dead, begin, end)) continue;
    if (*past && dead.stamp.slot() != past->slot()) {
      if (streams_.passed(dead.stamp)) continue;
      if (!streams_.passed(*past)) return false;
      *past = Stamp{};
    }
    if (dead.stamp.point() > past->point()) *past = dead.stamp;
  }
  if (*past) past->bits |= Stamp::write_bit;  // whoever comes next waits for all of it
  return true;
}

void History::await_places(const page::Region &region, uint64_t most_ns) noexcept {
  for (const page::Tombstone &dead : region.past.tombstones)
    (void)streams_.wait(dead.stamp, most_ns);
}

void History::collect(page::Region &region, uint32_t page, std::pmr::vector<Stamp> *fences,
                      bool copies) {
  const auto add = [this, fences](Stamp stamp) {
    if (stamp && !streams_.passed(stamp)) fences->push_back(stamp);
  };
  const uint64_t begin = region.shape.offset(page);
  const uint64_t end = begin + region.shape.page_bytes(page);
  for (const page::Tombstone &dead : region.past.tombstones) {
    if (touches(dead, begin, end)) add(dead.stamp);
  }
  // Of every device: a copy to another one may still be reading this one's granule.
  for (const auto &r : region.residences) add(r->pages[page].ready);
  if (copies) return;
  (void)each_owner(region, page, [&](uint32_t buffer, uint64_t base) WEIR_HELD {
    unfold(buffer);
    add(buffers_.hot(buffer).last_use());
    for (const PastUse &use : past_uses(buffer)) {
      if (base + use.begin < end && base + use.end > begin) add(use.stamp);
    }
    return true;
  });
}

bool History::at_rest(const page::Region &region, uint32_t page) const noexcept {
  const uint64_t begin = region.shape.offset(page);
  return past_ended(region, begin, begin + region.shape.page_bytes(page), nullptr) &&
         std::all_of(region.residences.begin(), region.residences.end(),
                     [&](const auto &r) { return streams_.passed(r->pages[page].ready); });
}

void History::keep_latest(std::pmr::vector<Stamp> *stamps) noexcept {
  std::sort(stamps->begin(), stamps->end(), [](Stamp a, Stamp b) {
    return a.slot() != b.slot() ? a.slot() < b.slot() : a.point() > b.point();
  });
  const auto same = [](Stamp a, Stamp b) { return a.slot() == b.slot(); };
  stamps->erase(std::unique(stamps->begin(), stamps->end(), same), stamps->end());
}

}  // namespace weir::lease
