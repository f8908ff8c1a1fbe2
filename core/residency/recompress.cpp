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

Recompressor::Recompressor(Engine &engine, std::pmr::memory_resource *memory)
    : engine_(engine), waiting_(memory), parts_(memory), wake_(engine.lock_) {
  job_.attached = false;
}

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
  Locked lock(engine_.lock_);
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

uint16_t Recompressor::last_use(Region &region) const {
  PageInfo info;
  engine_.describe_uses(region, &info);
  return static_cast<uint16_t>(info.last_use);
}

/// nullptr: it is gone, or waits no more.
Region *Recompressor::find(const Entry &entry) const noexcept {
  Region *region = engine_.regions_.find(entry.region, entry.generation);
  return region != nullptr && region->to_recompress ? region : nullptr;
}

bool Recompressor::has_turn(const Region &region) const noexcept {
  return !waiting_.empty() && find(waiting_.front()) == &region;
}

void Recompressor::note(Region &region, uint32_t page) noexcept {
  if (dozing_ && pressed()) wake_.notify_all();
  if (!region.to_recompress) {
    queue(region);
  } else if (page < next_page_ && has_turn(region)) {
    again_ = true;
  }
}

/// To the end of the line.
void Recompressor::queue(Region &region) noexcept {
  if (waiting_.size() >= tidy_at_) tidy();
  try {
    waiting_.push_back(Entry{region.id, ticks_of(engine_.now_ns()),
                             engine_.regions_.generation(region), last_use(region)});
    region.to_recompress = true;
  } catch (const std::bad_alloc &) {
    region.to_recompress = false;
  }
}

/// Of the first, which is `region` unless that is gone.
void Recompressor::end_turn(Region *region, bool again) noexcept {
  waiting_.pop_front();
  next_page_ = 0;
  again_ = false;
  if (region == nullptr) return;
  region->to_recompress = false;
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
  const Page &copies = region.pages[page];
  const tier::CompressedStore &store = *engine_.lower_.compressed;
  if (region.kept || (copies.latest() & vm::compressed_bit) == 0) return Verdict::pass;
  if (store.dense(engine_.lower_.copies[copies.lower].compressed)) return Verdict::pass;
  const bool elsewhere = (copies.latest() & ~vm::below_host) != 0;
  if (elsewhere || copies.busy != 0 || copies.sinking) return Verdict::put_off;
  // Its new blobs come beside the old ones. They are shorter; where not even so much is free, other pages leave first.
  uint64_t taken = 0;
  for (uint32_t at = copies.lower; at != tier::CopyTable::none; at = engine_.lower_.copies[at].next)
    taken += store.blob_bytes(engine_.lower_.copies[at].compressed);
  return store.room() < taken ? Verdict::put_off : Verdict::go;
}

uint64_t Recompressor::work(Releasable &lock) {
  if (working_) return UINT64_MAX;
  struct Turn {
    Recompressor &self;
    explicit Turn(Recompressor &self_) noexcept : self(self_) { self.working_ = true; }
    ~Turn() {
      self.working_ = false;
      self.engine_.changed_.notify_all();
    }
  } turn(*this);
  // One turn for each: those that get another are not due for a while.
  size_t turns = waiting_.size();
  for (uint32_t looks = 1; turns != 0 && pressed(); ++looks) {
    if (looks % 256 == 0) {  // others want the lock too
      lock.unlocked([] {});
    }
    if (engine_.stopping_ || waiting_.empty()) break;
    const Entry entry = waiting_.front();
    Region *region = find(entry);
    const bool used = region != nullptr && last_use(*region) != entry.use;
    if (region != nullptr) {
      const uint64_t now = engine_.now_ns();
      const uint32_t waited = ticks_of(now) - entry.since;
      if (waited < idle_) return now + (uint64_t{idle_ - waited} << tick_shift);
    }
    if (region == nullptr || used || next_page_ >= region->pages.size()) {
      end_turn(region, used || again_);
      --turns;
      continue;
    }
    const uint32_t page = next_page_++;
    const Verdict verdict = judge(*region, page);
    if (verdict == Verdict::put_off) again_ = true;
    if (verdict == Verdict::go) recode(lock, *region, page);
  }
  return UINT64_MAX;
}

// ---- how ----

void Recompressor::recode(Releasable &lock, Region &region, uint32_t page) {
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
  job_.pin = vm::RegionPin(region);
  uint64_t won = 0;
  const bool secret = region.scrub;
  const Outcome outcome = lock.unlocked([&] {
    engine_.points.at("recompress");
    Outcome recoded = Outcome::later;
    try {
      recoded = recode_parts(&won);
    } catch (const std::bad_alloc &) {
      recoded = Outcome::later;
    }
    if (secret) {
      raw_.clear();
      blob_.clear();
    }
    engine_.points.at("recompressed");
    return recoded;
  });
  settle(outcome, won);
  engine_.changed_.notify_all();
}

/// Outside the lock, which it takes for places. There must be room for both versions at a time.
Recompressor::Outcome Recompressor::recode_parts(uint64_t *won) {
  Lower &lower = engine_.lower_;
  uint64_t before = 0;
  uint64_t after = 0;
  uint32_t record = job_.chain;
  for (const LiftPart &part : parts_) {
    constexpr auto urgency = Workers::Urgency::background;
    if (hurried_.load(std::memory_order_relaxed)) return Outcome::later;
    const Status decoded = lower.codec->decode(lower.compressed->address(part.place), part.blob,
                                               raw_.data(), part.bytes, urgency, part.secret);
    // What is damaged is told to whoever reads it; the checksum of the page goes with it whatever happens here.
    if (!decoded) return Outcome::never;
    const uint64_t bytes =
        lower.codec->encode(raw_.data(), part.bytes, blob_.data(), false, &job_.plan, urgency,
                            tier::Effort::dense, part.secret);
    before += tier::UnitArena::rounded(part.blob);
    after += tier::UnitArena::rounded(bytes);
    if (bytes == 0 || after > before - before / worth) return Outcome::never;
    tier::UnitSlot slot;
    {
      const Locked lock(engine_.lock_);
      if (!job_.attached || engine_.stopping_) return Outcome::later;
      slot = engine_.try_place_compressed(job_.region->client, bytes);
      if (!slot) return Outcome::later;
      tier::LowerCopy &own = lower.copies[record];
      own.compressed = slot;
      record = own.next;
    }
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
  if (job_.attached) {
    copies.sinking = false;
    region.dense_codec = job_.plan;
    const bool read = copies.busy != 0;  // the old blobs are being brought up right now
    if (read || outcome == Outcome::later) {
      note(region, job_.page);
    } else {
      if (outcome == Outcome::done) exchange(copies.lower, job_.chain);
      engine_.lower_.compressed->set_dense(table[copies.lower].compressed);
      if (won != 0)
        engine_.events_.tell(
            {What::recoded, 0, Event::nowhere, region.id, job_.page, job_.used, won});
    }
  }
  engine_.free_places(region, job_.chain, vm::compressed_bit);
  table.give(job_.chain);
  if (job_.orphan != tier::CopyTable::none) {
    engine_.free_places(region, job_.orphan, vm::below_host);
    table.give(job_.orphan);
  }
  job_.attached = false;
  engine_.unpin(job_.pin);
}

/// The page's records get the new blobs, the job's the old ones.
void Recompressor::exchange(uint32_t page_chain, uint32_t job_chain) noexcept {
  tier::CopyTable &table = engine_.lower_.copies;
  for (uint32_t to = page_chain, from = job_chain; to != tier::CopyTable::none;) {
    std::swap(table[to].compressed, table[from].compressed);
    to = table[to].next;
    from = table[from].next;
  }
}

}  // namespace weir::residency
