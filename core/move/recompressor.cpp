// SPDX-License-Identifier: Apache-2.0
//
// Recompression: which pages, when, and the exchange of a page's blobs.

#include "core/move/recompressor.hpp"

#include <algorithm>
#include <cstring>

namespace weir::move {
namespace {

/// A page that comes to less than this part fewer bytes stays as it is: what is dense comes back more slowly.
constexpr uint64_t worth = 32;
constexpr unsigned tick_shift = 20;  // about a millisecond

uint32_t ticks_of(uint64_t ns) noexcept { return static_cast<uint32_t>(ns >> tick_shift); }

}  // namespace

Status Recompressor::start(uint64_t idle_ns) {
  constexpr uint64_t longest = uint64_t{1} << 50U;  // days: differences of ticks stay unambiguous
  idle_ = ticks_of(std::min(idle_ns, longest));
  WEIR_TRY(raw_.start(cold_.part_bytes(), "decompress pages in that are coded again"));
  return blob_.start(codec::Codec::bound(cold_.part_bytes()), "compress pages again in");
}

uint64_t Recompressor::rest_ns() noexcept {
  return due_ns_ == UINT64_MAX ? due_ns_ : due_ns_ - std::min(env_.now_ns(), due_ns_);
}

// ---- which ----

bool Recompressor::pressed() const noexcept {
  const tier::CompressedStore &store = *cold_.compressed();
  return store.room() <= store.budget() / 2;
}

uint16_t Recompressor::last_use(Region &region) const {
  policy::PageInfo info;
  uses_.describe(region, &info);
  return static_cast<uint16_t>(info.last_use);
}

/// nullptr: it is gone, or waits no more.
Region *Recompressor::find(const Entry &entry) const noexcept {
  Region *region = regions_.find(entry.region, entry.generation);
  return region != nullptr && region->is.to_recompress ? region : nullptr;
}

void Recompressor::note(Region &region, uint32_t page) noexcept {
  if (due_ns_ == UINT64_MAX && pressed()) wake_.notify_all();
  if (!region.is.to_recompress) {
    queue(region);
  } else if (page < walk_.next && find(waiting_.front()) == &region) {  // it has the turn
    walk_.again = true;
  }
}

/// To the end of the line.
void Recompressor::queue(Region &region) noexcept {
  if (waiting_.size() >= tidy_at_) tidy();
  if_memory([&]() WEIR_HELD {
    waiting_.push_back(
        Entry{region.id, ticks_of(env_.now_ns()), regions_.generation(region), last_use(region)});
    region.is.to_recompress = true;
  });
}

/// Of the first, which is `region` unless that is gone.
void Recompressor::end_turn(Region *region, bool again) noexcept {
  waiting_.pop_front();
  walk_ = {};
  if (region == nullptr) return;
  region->is.to_recompress = false;
  if (again) queue(*region);
}

/// Where little presses, buffers come and go without ever having a turn.
void Recompressor::tidy() noexcept {
  const auto gone = [this](const Entry &entry) WEIR_HELD { return find(entry) == nullptr; };
  if (!waiting_.empty() && gone(waiting_.front())) end_turn(nullptr, false);
  std::erase_if(waiting_, gone);
  tidy_at_ = std::max(least_tidy, 2 * waiting_.size());
}

/// What is to become of a page of a region that was not used for long enough.
Recompressor::Verdict Recompressor::judge(const Region &region, uint32_t page) const noexcept {
  const page::Page &copies = region.pages[page];
  const tier::CompressedStore &store = *cold_.compressed();
  if (region.is.kept || (copies.latest() & page::compressed_bit) == 0) return Verdict::pass;
  if (store.dense(cold_.record(copies.lower).in(store.place))) return Verdict::pass;
  const bool elsewhere = (copies.latest() & ~page::below_host) != 0;
  if (elsewhere || copies.busy() != 0 || copies.sinking) return Verdict::put_off;
  // Its new blobs come beside the old ones. They are shorter; where not even so much is free, other pages leave first.
  uint64_t taken = 0;
  for (uint32_t at = copies.lower; at != tier::ColdTiers::none; at = cold_.next(at))
    taken += store.blob_bytes(cold_.record(at).in(store.place));
  return store.room() < taken ? Verdict::put_off : Verdict::go;
}

uint64_t Recompressor::work(Releasable &lock) {
  if (working_) return UINT64_MAX;
  working_ = true;
  const AtEnd turn([this]() WEIR_HELD {
    working_ = false;
    env_.sync.changed.notify_all();
  });
  // One turn for each: those that get another are not due for a while.
  size_t turns = waiting_.size();
  for (uint32_t looks = 1; turns != 0 && pressed(); ++looks) {
    if (looks % 256 == 0) {  // others want the lock too
      lock.unlocked([] {});
    }
    if (env_.sync.lock.stopping() || waiting_.empty()) break;
    const Entry entry = waiting_.front();
    Region *region = find(entry);
    const bool used = region != nullptr && last_use(*region) != entry.use;
    if (region != nullptr) {
      const uint64_t now = env_.now_ns();
      const uint32_t waited = ticks_of(now) - entry.since;
      if (waited < idle_) return now + (uint64_t{idle_ - waited} << tick_shift);
    }
    if (region == nullptr || used || walk_.next >= region->pages.size()) {
      end_turn(region, used || walk_.again);
      --turns;
      continue;
    }
    const uint32_t page = walk_.next++;
    const Verdict verdict = judge(*region, page);
    if (verdict == Verdict::put_off) walk_.again = true;
    if (verdict == Verdict::go) recode(lock, *region, page);
  }
  return UINT64_MAX;
}

// ---- how ----

void Recompressor::recode(Releasable &lock, Region &region, uint32_t page) {
  const uint64_t used = region.shape.used_bytes(page);
  const bool secret = region.is.secret;
  try {
    parts_.clear();
    parts_.reserve(cold_.parts_of(used));
    tier::LiftPart like;
    like.secret = secret;
    cold_.list_parts(region.pages[page].lower, page::compressed_bit, used, like, &parts_);
    job_ = Job{};
    job_.chain = cold_.take_chain(used);
  } catch (const std::bad_alloc &) {
    note(region, page);
    return;
  }
  job_.used = used;
  job_.plan = region.codec.dense;
  hurried_.store(false, std::memory_order_relaxed);
  tiers_.pin(job_, region, page, false);
  uint64_t won = 0;
  const Outcome outcome = lock.unlocked([&] {
    const RangeScope range(env_.sync.tap.ranges(), RangeKind::move,
                           [](RangeText &text) { text.add("recompress a page"); });
    env_.sync.points.at("recompress");
    Outcome recoded = Outcome::later;
    if_memory([&] { recoded = recode_parts(&won); });
    if (secret) {
      raw_.clear();
      blob_.clear();
    }
    env_.sync.points.at("recompressed");
    return recoded;
  });
  settle(outcome, won);
  env_.sync.changed.notify_all();
}

/// Outside the lock, which it takes for places. There must be room for both versions at a time.
Recompressor::Outcome Recompressor::recode_parts(uint64_t *won) {
  tier::CompressedStore &store = *cold_.compressed();
  uint64_t before = 0;
  uint64_t after = 0;
  uint32_t record = job_.chain;
  for (const tier::LiftPart &part : parts_) {
    constexpr auto urgency = Workers::Urgency::background;
    if (hurried_.load(std::memory_order_relaxed)) return Outcome::later;
    const Status decoded = cold_.codec().decode(store.address(part.place), part.blob, raw_.data(),
                                                part.bytes, urgency, part.secret);
    // What is damaged is told to whoever reads it; the checksum of the page goes with it whatever happens here.
    if (!decoded) return Outcome::never;
    const uint64_t bytes =
        cold_.codec().encode(raw_.data(), part.bytes, blob_.data(), false, &job_.plan, urgency,
                             codec::Effort::dense, part.secret);
    before += tier::UnitArena::rounded(part.blob);
    after += tier::UnitArena::rounded(bytes);
    if (bytes == 0 || after > before - before / worth) return Outcome::never;
    tier::UnitSlot slot;
    {
      const Locked lock(env_.sync.lock);
      if (!job_.attached || env_.sync.lock.stopping()) return Outcome::later;
      slot = cold_.try_place(store, job_.region->owner.client, bytes);
      if (!slot) return Outcome::later;
      cold_.place(record, store, slot);
      record = cold_.next(record);
    }
    store.put(slot, blob_.data(), bytes);
  }
  *won = before - after;
  return Outcome::done;
}

/// Under the lock: the page has its new blobs, or its old ones as before.
void Recompressor::settle(Outcome outcome, uint64_t won) noexcept {
  Region &region = *job_.region;
  const page::Page &copies = region.pages[job_.page];
  if (tiers_.unpin(job_)) {
    region.codec.dense = job_.plan;
    const bool read = copies.busy() != 0;  // the old blobs are being brought up right now
    if (read || outcome == Outcome::later) {
      note(region, job_.page);
    } else {
      if (outcome == Outcome::done) cold_.exchange(copies.lower, job_.chain, page::compressed_bit);
      tier::CompressedStore &store = *cold_.compressed();
      store.set_dense(cold_.record(copies.lower).in(store.place));
      if (won != 0)
        env_.events.tell({What::recoded, 0, Event::nowhere, region.id, job_.page, job_.used, won});
    }
  }
  tiers_.free_chain(region, job_.chain);
  regions_.unpin(job_.pin);
}

}  // namespace weir::move
