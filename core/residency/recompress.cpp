// SPDX-License-Identifier: Apache-2.0
//
// Recompression: which pages, when, and the exchange of a page's blobs.

#include "core/residency/recompress.hpp"

#include "core/residency/plan.hpp"

#include <algorithm>
#include <cstring>

namespace weir::residency {
namespace {

/// A page that comes to less than this part fewer bytes stays as it is: what is dense comes back more slowly.
constexpr uint64_t worth = 32;
constexpr unsigned tick_shift = 20;  // about a millisecond

uint32_t ticks_of(uint64_t ns) noexcept { return static_cast<uint32_t>(ns >> tick_shift); }

}  // namespace

Status Recompressor::start(uint64_t part_bytes, uint64_t idle_ns) {
  constexpr uint64_t longest = uint64_t{1} << 50U;  // days: differences of ticks stay unambiguous
  idle_ = ticks_of(std::min(idle_ns, longest));
  WEIR_TRY(raw_.start(part_bytes, "decompress pages in that are coded again"));
  return blob_.start(tier::Codec::bound(part_bytes), "compress pages again in");
}

void Recompressor::run_in_background() {
  thread_ = std::thread([this] { loop(); });
}

void Recompressor::join() {
  if (thread_.joinable()) thread_.join();
}

void Recompressor::loop() {
  Lock lock(engine_.mutex_);
  while (!engine_.stopping_) {
    const uint64_t next = work(lock);
    if (engine_.stopping_) break;
    if (next == UINT64_MAX) {
      dozing_ = true;
      wake_.wait(lock);
      dozing_ = false;
      continue;
    }
    const uint64_t now = engine_.now_ns();
    wake_.wait_for(lock, std::chrono::nanoseconds(next > now ? next - now : 0));
  }
}

// ---- which ----

bool Recompressor::pressed() const noexcept {
  const tier::CompressedStore &store = *engine_.lower_.compressed;
  return store.room() <= store.budget() / 2;
}

uint32_t Recompressor::last_use(Region &region) const {
  PageInfo info;
  engine_.describe_uses(region, &info);
  return static_cast<uint32_t>(info.last_use);
}

void Recompressor::note(Region &region, uint32_t page) noexcept {
  Page &copies = region.pages[page];
  if (dozing_ && pressed()) wake_.notify_all();
  if (copies.to_recompress) return;
  try {
    const PageRef ref{region.id, page, engine_.region_generations_[region.id]};
    waiting_.push_back(Entry{ref, ticks_of(engine_.now_ns()), last_use(region)});
  } catch (const std::bad_alloc &) {
    return;
  }
  copies.to_recompress = true;
}

/// What is to become of the page that has waited longest.
Recompressor::Verdict Recompressor::judge(const Entry &entry, uint32_t now) {
  if (entry.page.region >= engine_.regions_.size()) return Verdict::forget;
  const auto &region = engine_.regions_[entry.page.region];
  if (region == nullptr ||
      engine_.region_generations_[entry.page.region] != entry.page.generation ||
      entry.page.page >= region->pages.size())
    return Verdict::forget;
  Page &copies = region->pages[entry.page.page];
  const bool here = (copies.latest & vm::compressed_bit) != 0;
  if (!here || region->kept || engine_.lower_.copies[copies.lower].dense) {
    copies.to_recompress = false;
    return Verdict::forget;
  }
  if (now - entry.since < idle_) return Verdict::wait;
  const bool elsewhere = (copies.latest & ~vm::below_host) != 0;
  const bool used = elsewhere || last_use(*region) != entry.use;
  if (used || copies.busy != 0 || copies.sinking) return Verdict::put_off;
  // Its new blobs come beside the old ones. They are shorter; where not even so much is free, other pages leave first.
  uint64_t taken = 0;
  for (uint32_t at = copies.lower; at != tier::CopyTable::none; at = engine_.lower_.copies[at].next)
    taken += engine_.lower_.copies[at].compressed_bytes;
  return engine_.lower_.compressed->room() < taken ? Verdict::put_off : Verdict::go;
}

uint64_t Recompressor::work(Lock &lock) {
  if (working_) return UINT64_MAX;
  struct Turn {
    Recompressor &self;
    explicit Turn(Recompressor &self_) noexcept : self(self_) { self.working_ = true; }
    ~Turn() {
      self.working_ = false;
      self.engine_.changed_.notify_all();
    }
  } turn(*this);
  // One look at each: those that were used go to the end and are not due for a while.
  for (size_t looks = waiting_.size(); looks != 0 && pressed(); --looks) {
    if (looks % 256 == 0) {  // others want the lock too
      lock.unlock();
      lock.lock();
    }
    if (engine_.stopping_ || waiting_.empty()) break;
    const Entry entry = waiting_.front();
    const uint64_t now = engine_.now_ns();
    const Verdict verdict = judge(entry, ticks_of(now));
    if (verdict == Verdict::wait) {
      const uint32_t rest = idle_ - (ticks_of(now) - entry.since);
      return now + (uint64_t{rest} << tick_shift);
    }
    waiting_.pop_front();
    if (verdict == Verdict::forget) continue;
    Region &region = *engine_.regions_[entry.page.region];
    region.pages[entry.page.page].to_recompress = false;
    if (verdict == Verdict::put_off) {
      note(region, entry.page.page);
    } else {
      recode(lock, region, entry.page.page);
    }
  }
  return UINT64_MAX;
}

// ---- how ----

void Recompressor::recode(Lock &lock, Region &region, uint32_t page) {
  Page &copies = region.pages[page];
  try {
    parts_.clear();
    parts_.reserve(engine_.parts_of(region, page));
    engine_.list_parts(region, page, 0, &parts_);
    job_ = Sinking{};
    job_.attached = false;
    job_.chain = engine_.lower_.copies.take(static_cast<uint32_t>(parts_.size()));
  } catch (const std::bad_alloc &) {
    note(region, page);
    return;
  }
  job_.region = &region;
  job_.page = page;
  job_.used = region.shape.used_bytes(page);
  job_.plan = region.dense_codec;
  job_.attached = true;
  copies.sinking = true;
  hurried_.store(false, std::memory_order_relaxed);
  ++region.operations;
  lock.unlock();
  engine_.points.at("recompress");
  Outcome outcome = Outcome::later;
  uint64_t won = 0;
  try {
    outcome = recode_parts(lock, &won);
  } catch (const std::bad_alloc &) {
    outcome = Outcome::later;
  }
  if (region.scrub) {
    raw_.clear();
    blob_.clear();
  }
  engine_.points.at("recompressed");
  lock.lock();
  settle(outcome, won);
  engine_.changed_.notify_all();
}

/// Outside the lock, which it takes for places. There must be room for both versions at a time.
Recompressor::Outcome Recompressor::recode_parts(Lock &lock, uint64_t *won) {
  Lower &lower = engine_.lower_;
  uint64_t before = 0;
  uint64_t after = 0;
  uint32_t record = job_.chain;
  for (const LiftPart &part : parts_) {
    constexpr auto urgency = Workers::Urgency::background;
    if (hurried_.load(std::memory_order_relaxed)) return Outcome::later;
    const Status decoded = lower.codec->decode(lower.compressed->address(part.copy.compressed),
                                               part.copy.compressed_bytes, raw_.data(), part.bytes,
                                               urgency, part.secret);
    // What is damaged is told to whoever reads it; the checksum of the page goes with it whatever happens here.
    if (!decoded) return Outcome::never;
    const uint64_t bytes =
        lower.codec->encode(raw_.data(), part.bytes, blob_.data(), false, &job_.plan, urgency,
                            tier::Effort::dense, part.secret);
    before += tier::UnitArena::rounded(part.copy.compressed_bytes);
    after += tier::UnitArena::rounded(bytes);
    if (bytes == 0 || after > before - before / worth) return Outcome::never;
    Engine::Locked held(lock);
    if (!job_.attached || engine_.stopping_) return Outcome::later;
    const tier::UnitSlot slot = engine_.try_place_compressed(job_.region->client, bytes);
    if (!slot) return Outcome::later;
    tier::LowerCopy &own = lower.copies[record];
    own.compressed = slot;
    own.compressed_bytes = static_cast<uint32_t>(bytes);
    record = own.next;
    held.unlock();
    lower.compressed->put(slot, blob_.data(), bytes);
  }
  *won = before - after;
  return Outcome::done;
}

/// Under the lock: the page has its new blobs, or its old ones as before.
void Recompressor::settle(Outcome outcome, uint64_t won) noexcept {
  tier::CopyTable &table = engine_.lower_.copies;
  Region &region = *job_.region;
  Page &copies = region.pages[job_.page];
  --region.operations;
  if (job_.attached) {
    copies.sinking = false;
    region.dense_codec = job_.plan;
    const bool read = copies.busy != 0;  // the old blobs are being brought up right now
    if (read || outcome == Outcome::later) {
      note(region, job_.page);
    } else {
      table[copies.lower].dense = true;
      if (outcome == Outcome::done) exchange(copies.lower, job_.chain);
      engine_.stats_.recompressed_bytes += won != 0 ? job_.used : 0;
      engine_.stats_.recompressed_won_bytes += won;
    }
  }
  engine_.free_places(region, job_.chain, vm::compressed_bit);
  table.give(job_.chain);
  if (job_.orphan != tier::CopyTable::none) {
    engine_.free_places(region, job_.orphan, vm::below_host);
    table.give(job_.orphan);
  }
  job_.attached = false;
  engine_.retire_region(region);
}

/// The page's records get the new blobs, the job's the old ones.
void Recompressor::exchange(uint32_t page_chain, uint32_t job_chain) noexcept {
  tier::CopyTable &table = engine_.lower_.copies;
  for (uint32_t to = page_chain, from = job_chain; to != tier::CopyTable::none;) {
    std::swap(table[to].compressed, table[from].compressed);
    std::swap(table[to].compressed_bytes, table[from].compressed_bytes);
    to = table[to].next;
    from = table[from].next;
  }
}

}  // namespace weir::residency
