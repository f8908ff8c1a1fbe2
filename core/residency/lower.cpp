// SPDX-License-Identifier: Apache-2.0
//
// The tiers below HOST as a whole: set up with the pool, kept with some room by the sinker's thread, which also makes
// HOST's budget follow what the machine has to spare. All of it is background work: a caller that needs room makes
// it himself (host_room.cpp).

#include "core/residency/plan.hpp"

#include <algorithm>
#include <chrono>

namespace weir::residency {
namespace {

constexpr uint64_t mib = uint64_t{1} << 20U;
constexpr uint64_t look_every_ns = 500'000'000;
constexpr uint64_t retry_after_ns = 1'000'000'000;

uint64_t low_water(uint64_t budget, uint64_t part) noexcept {
  return std::min(std::max(budget / 32, 2 * part), budget / 4);
}

}  // namespace

Status Engine::start_lower(backend::Runtime &runtime) {
  const bool compressed = config_.compressed_budget != 0;
  const bool storage = config_.storage.budget != 0;
  if (!compressed && !storage) return {};
  // A page goes in parts, so that staging stays small: one part where pages are of usual size.
  uint64_t part = 0;
  for (const auto &device : devices_) {
    const uint64_t most = device->vmm() ? 32 * mib : 4 * mib;
    const uint64_t page = device->vmm() ? device->large_page_size : device->granules->budget();
    part = std::max(part, tier::UnitArena::rounded(std::min(page, most)));
  }
  const bool no_host = config_.host_budget == 0 && !config_.host_follows;
  const uint64_t share = no_host || config_.host_follows ? 4 : config_.host_budget / 16 / part;
  const auto slots =
      static_cast<uint32_t>(std::clamp<uint64_t>(share, 2, tier::Staging::max_slots));
  if (!no_host && !config_.host_follows && config_.host_budget < slots * part + part) {
    return fail(
        WEIR_ERROR_INVALID_ARGUMENT,
        "host_budget is %llu: with tiers below HOST it takes %llu, of which %llu for staging",
        llu(config_.host_budget), llu(slots * part + part), llu(slots * part));
  }
  const uint32_t threads = config_.background ? config_.compress_threads : 0;
  lower_.workers = make_owned<Workers>(&memory_, threads, config_.compress_share, *clock_);
  WEIR_TRY(lower_.workers->start());
  lower_.codec = make_owned<tier::Codec>(&memory_, *lower_.workers, config_.codec);
  lower_.staging = make_owned<tier::Staging>(&memory_, streams_);
  {
    const numa::PreferNode prefer(config_.nodes, node_);
    WEIR_TRY(lower_.staging->start(runtime, slots, part, tier::Codec::bound(part)));
  }
  if (!no_host && !config_.host_follows) config_.host_budget -= lower_.staging->bytes();
  if (storage) {
    lower_.storage =
        make_owned<tier::StorageStore>(&memory_, std::move(config_.storage), log_, &memory_);
    WEIR_TRY(lower_.storage->start());
    lower_.storage->add_memory(lower_.staging->base(), lower_.staging->bytes());
  }
  if (compressed) {
    lower_.compressed =
        make_owned<tier::CompressedStore>(&memory_, config_.compressed_budget, &memory_);
    WEIR_TRY(lower_.compressed->start());
    WEIR_TRY(lower_.rounded.start(part, "round floats in"));
    lower_.compressed_order = make_policy(config_.policy, lower_.compressed_view, &memory_);
    lower_.compressed_low = low_water(lower_.compressed->budget(), part);
    lower_.compressed_high = 2 * lower_.compressed_low;
    // A method that was asked for by name is not to be left for another.
    if (config_.recompress_idle_ns != UINT64_MAX && config_.codec == tier::CodecChoice::automatic) {
      recompressor_ = make_owned<Recompressor>(&memory_, *this, &memory_);
      WEIR_TRY(recompressor_->start(part, config_.recompress_idle_ns));
    }
  }
  lower_.host_order = make_policy(config_.policy, lower_.host_view, &memory_);
  lower_.host_low = low_water(config_.host_budget, part);
  lower_.host_high = 2 * lower_.host_low;
  return {};
}

/// Needs no lock: the codec is there from the start to the end, and counts by itself.
void Engine::codec_stats(weir_codec_stats *stats) const noexcept {
  if (lower_.codec == nullptr) return;
  const tier::CodecStats codec = lower_.codec->stats();
  static_assert(tier::method_count <= WEIR_CODEC_SLOTS && tier::form_count <= WEIR_ELEMENT_SLOTS);
  const auto share = [](const tier::CodecStats::Share &from) {
    return weir_codec_share{from.in_bytes, from.out_bytes};
  };
  std::transform(codec.methods.begin(), codec.methods.end(), stats->methods, share);
  std::transform(codec.forms.begin(), codec.forms.end(), stats->elements, share);
}

void Engine::add_lower_stats(Counters &stats) noexcept {
  if (!lower_.any()) return;
  stats[Counter::compressed_raw_bytes] += gauges_.compressed_raw;
  stats[Counter::storage_raw_bytes] += gauges_.storage_raw;
  stats[Counter::staging_bytes] += lower_.staging->bytes();
  stats[Counter::host_budget] += lower_.staging->bytes();
  stats[Counter::host_bytes] += lower_.staging->bytes();
  const tier::CodecStats codec = lower_.codec->stats();
  stats[Counter::compressed_in_bytes] += codec.in_bytes;
  stats[Counter::compressed_out_bytes] += codec.out_bytes;
  stats[Counter::decompressed_bytes] += codec.decoded_bytes;
  stats[Counter::incompressible_bytes] += codec.incompressible_bytes;
  if (lower_.compressed != nullptr) {
    stats[Counter::compressed_budget] += lower_.compressed->budget();
    stats[Counter::compressed_bytes] += lower_.compressed->used();
  }
  if (lower_.storage != nullptr) {
    stats[Counter::storage_budget] += lower_.storage->budget();
    stats[Counter::storage_bytes] += lower_.storage->used();
    stats[Counter::storage_written_bytes] += lower_.storage->written_bytes();
    stats[Counter::storage_read_bytes] += lower_.storage->read_bytes();
    stats[Counter::io_errors] += lower_.storage->errors();
  }
}

void Engine::look_at_compressed() {
  Locked lock(lock_);
  if (recompressor_ != nullptr) (void)recompressor_->work(lock);
}

// ---- the sinker's thread ----

/// Moves pages down while HOST has less room than the low watermark, up to the high one. True: it did something.
bool Engine::keep_host_free(Releasable &lock) {
  if (!lower_.any() || now_ns() < lower_.retry_after_ns) return false;
  const uint64_t room = host_->room();
  if (room >= (lower_.ahead ? lower_.host_high : lower_.host_low)) {
    lower_.ahead = false;
    return false;
  }
  Status why;
  // Two pages at least: one is summed up and compressed while the other is written.
  const uint64_t round = std::max(spill_bytes, 2 * lower_.staging->part_bytes());
  const uint64_t bytes = std::min(lower_.host_high - room, round);
  lower_.ahead = sink(lock, bytes, UINT32_MAX, vm::host_bit, true, false, &why);
  // What failed is tried again later, or by whoever can't do without.
  if (!why) lower_.retry_after_ns = now_ns() + retry_after_ns;
  return lower_.ahead && why.ok();
}

bool Engine::keep_compressed_free(Releasable &lock) {
  if (lower_.compressed == nullptr || lower_.storage == nullptr) return false;
  if (now_ns() < lower_.retry_after_ns || lower_.compressed->room() >= lower_.compressed_low)
    return false;
  Status why;
  const uint64_t raw = lower_.compressed_high - lower_.compressed->room();
  const bool moved =
      sink(lock, std::min(raw, spill_bytes), UINT32_MAX, vm::compressed_bit, true, false, &why);
  if (!why) lower_.retry_after_ns = now_ns() + retry_after_ns;
  return moved && why.ok();
}

void Engine::sinker_loop() {
  Locked lock(lock_);
  while (!stopping_) {
    scrub_behind(lock);
    bool worked = false;
    try {
      follow_memory(lock);
      worked = keep_host_free(lock) || keep_compressed_free(lock);
    } catch (const std::bad_alloc &) {
      worked = false;
    }
    if (worked || stopping_) continue;
    const uint64_t now = now_ns();
    if (config_.host_follows) {
      work_.wait_for(lock, std::chrono::nanoseconds(look_every_ns));
    } else if (lower_.retry_after_ns > now) {
      work_.wait_for(lock, std::chrono::nanoseconds(lower_.retry_after_ns - now));
    } else {
      work_.wait(lock);
    }
  }
}

// ---- HOST's budget follows the machine ----

/// What HOST may take beyond what it holds: four fifths of what the process still could, and never the last sixteenth of
/// the limit, which is left for the program's own memory. Negative: so much is to be given back.
int64_t Engine::spare_memory() const {
  constexpr uint64_t most = uint64_t{1} << 50U;
  const MemoryLimit::Room found = MemoryLimit(config_.memory_root).read();
  const auto room = static_cast<int64_t>(std::min(found.bytes, most));
  const auto reserve = static_cast<int64_t>(std::min(found.limit, most) / 16);
  return std::min(room / 5 * 4, room - reserve);
}

void Engine::follow_memory(Releasable &lock) {
  if (!config_.host_follows) return;
  const uint64_t now = now_ns();
  if (looked_at_ns_ != 0 && now - looked_at_ns_ < look_every_ns) return;
  looked_at_ns_ = now;
  const int64_t spare = lock.unlocked([this] { return spare_memory(); });
  const uint64_t held = host_->held();
  const uint64_t budget = spare >= 0 ? held + static_cast<uint64_t>(spare)
                                     : held - std::min(held, static_cast<uint64_t>(-spare));
  host_->set_budget(budget);
  if (lower_.any()) {
    lower_.host_low = low_water(budget, lower_.staging->part_bytes());
    lower_.host_high = 2 * lower_.host_low;
  }
  if (held > budget) (void)shrink_host(lock, held - budget);
}

void Engine::look_at_memory() {
  Locked lock(lock_);
  looked_at_ns_ = 0;
  follow_memory(lock);
}

/// Gives pinned memory back: empty chunks, then the one that is emptied soonest, whose pages move down. True: it gave
/// back something. May drop the lock.
bool Engine::shrink_host(Releasable &lock, uint64_t bytes) {
  if (shrinking_) {  // one at a time closes a chunk
    while (shrinking_) changed_.wait(lock);
    return true;
  }
  struct Turn {
    Engine &engine;
    explicit Turn(Engine &engine_) noexcept : engine(engine_) { engine.shrinking_ = true; }
    ~Turn() {
      engine.host_->reopen();
      engine.shrinking_ = false;
      engine.changed_.notify_all();
    }
  } turn(*this);
  uint64_t freed = 0;
  give_chunks_back(lock, bytes, &freed);
  while (freed < bytes && lower_.any() && !growing_) {
    const uint32_t chunk = host_->close_emptiest();
    if (chunk == UINT32_MAX) break;
    const uint64_t before = freed;
    while (empty_chunk(lock, chunk)) {
    }
    host_->reopen();
    (void)sweep_retired();
    give_chunks_back(lock, bytes, &freed);
    if (freed == before) break;
  }
  return freed != 0;
}

/// Moves some pages of a chunk down. False: none can go. May drop the lock.
bool Engine::empty_chunk(Releasable &lock, uint32_t chunk) {
  if (lower_.sinking) {
    await_change(lock);
    return true;
  }
  std::pmr::vector<PageRef> refs(&memory_);
  uint64_t bytes = 0;
  for (Region &region : regions_in(page::PlaceIndex::at(Place::host))) {
    if (region.registered != nullptr) continue;
    for (uint32_t p = 0; p < region.pages.size() && bytes < spill_bytes; ++p) {
      const Page &copies = region.pages[p];
      const bool here = copies.host() && copies.host().chunk == chunk;
      if (!here || (copies.latest() & vm::host_bit) == 0) continue;
      if (copies.sinking || leases_.in_use(region, p) || alias_in_use(region)) continue;
      refs.push_back(PageRef{region.id, p, regions_.generation(region)});
      bytes += region.shape.used_bytes(p);
    }
  }
  if (refs.empty()) return false;
  lower_.sinking = true;
  Status why;
  const size_t first = lower_.sinkings.size();
  uint64_t freed = list_sinking(refs, vm::host_bit, &why);
  freed += carry_down(lock, first, true, false, &why);
  end_sinking();
  return freed != 0;
}

}  // namespace weir::residency
