// SPDX-License-Identifier: Apache-2.0
//
// Ahead of demand: announced operations, prefetch, and the background threads. Announcements are hints: a
// buffer that died meanwhile is skipped, and a prefetch takes neither a leased page nor one that is needed sooner
// than what it brings.

#include "core/residency/plan.hpp"
#include "core/residency/rebalance.hpp"
#include "core/residency/scrub.hpp"

#include <algorithm>
#include <bitset>
#include <chrono>

namespace weir::residency {
namespace {

/// Operations or uses of one call: what is past that is no count.
constexpr size_t most_hints = size_t{1} << 24U;

/// But for its buffer and range. A hint's use obeys the same rules as an acquire's.
bool well_formed(const weir_use &use) noexcept {
  return use.mode >= WEIR_READ && use.mode <= WEIR_DISCARD_WRITE &&
         (use.flags & ~uint32_t{WEIR_USE_ALLOW_REMOTE}) == 0 &&
         (use.reserved[0] | use.reserved[1] | use.reserved[2]) == 0;
}

}  // namespace

// ---- announcements ----

Status Engine::announce(Stream &stream, const weir_operation *operations, size_t count,
                        bool replace) {
  StreamState *state = nullptr;
  if (count > most_hints)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "count is %zu, more than %zu", count, most_hints);
  WEIR_TRY(stream_state(stream, &state));
  Locked lock(lock_);
  // All of it is checked and copied before any of it counts.
  std::pmr::vector<policy::AnnouncedUses> fresh(&memory_);
  for (size_t i = 0; i < count; ++i) {
    policy::AnnouncedUses operation(&memory_);
    const weir_operation &from = operations[i];
    if (from.use_count != 0 && from.uses == nullptr) {
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "operations[%zu].uses is NULL", i);
    }
    if ((from.reserved[0] | from.reserved[1] | from.reserved[2]) != 0) {
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "operations[%zu]: its reserved words are not zero",
                  i);
    }
    if (from.use_count > UINT16_MAX) {
      return fail(WEIR_ERROR_INVALID_ARGUMENT,
                  "operations[%zu].use_count is %llu; an operation has at most 65535 uses", i,
                  llu(from.use_count));
    }
    operation.reserve(from.use_count);
    for (uint64_t u = 0; u < from.use_count; ++u) {
      const weir_use &use = from.uses[u];
      uint32_t index = 0;
      const bool alive = buffers_.find(use.buffer, &index).ok();
      uint64_t length = use.length;
      if (!well_formed(use) || (alive && !buffers_.range_of(index, use.offset, &length))) {
        ErrorDetail detail;
        detail.use_index = u;
        return fail(
            WEIR_ERROR_INVALID_ARGUMENT, detail,
            "operations[%zu].uses[%llu]: range, mode, flags or reserved words are not valid", i,
            llu(u));
      }
      if (!alive) continue;
      operation.push_back({index, buffers_.target(index).region->id,
                           buffers_.hot(index).generation(), use.offset, use.offset + length,
                           static_cast<uint8_t>(use.mode),
                           (use.flags & WEIR_USE_ALLOW_REMOTE) != 0});
    }
    fresh.push_back(std::move(operation));
  }
  const size_t old = announcements_.count(stream.slot);
  announcements_.append(stream.slot, fresh);
  // Only now: what fails leaves the old ones.
  for (size_t i = 0; replace && i < old; ++i) consume_announced(*state);
  state->has_announced.store(announcements_.count(stream.slot) != 0, std::memory_order_relaxed);
  work_.notify_all();
  return {};
}

/// The stream's next announced operation has been acquired.
void Engine::consume_announced(StreamState &state) {
  const uint32_t slot = state.stream->slot;
  announcements_.consume(slot);
  state.has_announced.store(announcements_.count(slot) != 0, std::memory_order_relaxed);
  work_.notify_all();
}

/// What the slot's last stream has said of its future.
void Engine::forget_announced(StreamState &state) noexcept {
  while (announcements_.count(state.stream->slot) != 0) consume_announced(state);
  hints_.forget_stream(state.stream->slot);
}

/// The next use worth bringing in, within the first operations announced on any stream.
bool Engine::next_announced(PrefetchRequest *request) {
  for (const auto &state : states_.all()) {
    if (state->device == nullptr) continue;
    uint8_t place = 0;
    if (!place_of(state->device->id, &place)) continue;
    const uint32_t slot = state->stream->slot;
    for (auto next = announcements_.take(slot); next; next = announcements_.take(slot)) {
      const policy::AnnouncedUse &use = next->use;
      constexpr uint64_t needless = Word::closing | Word::resident | Word::virgin;
      if (!buffers_.hot(use.buffer).lives(use.generation, needless)) continue;
      const Region &region = *buffers_.target(use.buffer).region;
      if (region.slab && region.home != place) continue;
      *request = PrefetchRequest{use.buffer, use.generation, use.begin,   use.end,      use.mode,
                                 place,      slot,           next->index, next->number, use.remote};
      request->bytes = bytes_missing(*request);
      return true;
    }
  }
  return false;
}

// ---- prefetch ----

Status Engine::prefetch(Stream &stream, const weir_use *uses, size_t count) {
  if (stream.device == nullptr)
    return fail(WEIR_ERROR_NOT_SUPPORTED, "prefetch to the CPU's memory is not supported");
  if (count > most_hints)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "count is %zu, more than %zu", count, most_hints);
  StreamState *state = nullptr;
  WEIR_TRY(stream_state(stream, &state));
  const Scrubbing scrubbing(*this);
  Locked lock(lock_);
  uint8_t place = 0;
  WEIR_TRY(place_of(stream, &place));
  // All are checked before any of them counts.
  PrefetchBatch asked(&memory_);
  asked.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    uint32_t index = 0;
    if (!well_formed(uses[i])) {
      return of_use(
          i, fail(WEIR_ERROR_INVALID_ARGUMENT,
                  "uses[%zu]: mode %u, flags or reserved words are not valid", i, uses[i].mode));
    }
    WEIR_TRY(of_use(i, buffers_.find(uses[i].buffer, &index)));
    uint64_t length = uses[i].length;
    WEIR_TRY(of_use(i, buffers_.range_of(index, uses[i].offset, &length)));
    PrefetchRequest request{index,
                            buffers_.hot(index).generation(),
                            uses[i].offset,
                            uses[i].offset + length,
                            static_cast<uint8_t>(uses[i].mode),
                            place};
    request.remote = (uses[i].flags & WEIR_USE_ALLOW_REMOTE) != 0;
    asked.push_back(request);
  }
  ask(lock, asked, stream.slot);
  return {};
}

/// One call's prefetches: its bytes are needed from now on. Without background threads they are brought here, as far as that
/// needs no lease to end.
void Engine::ask(Releasable &lock, PrefetchBatch &asked, uint32_t slot) {
  const StreamState *state = states_.find(slot);
  const uint32_t life =
      state != nullptr ? state->stream_generation.load(std::memory_order_relaxed) : 0;
  UseView view(*this);
  hints_.begin_call();
  for (PrefetchRequest &request : asked) {
    request.asker = slot;
    request.bytes = bytes_around(request);
    hints_.ask(request, life, view);
    // It is as good as used just now: what is older goes before it, also when the hint has ended.
    Region &region = *buffers_.target(request.buffer).region;
    region.last_use = std::max(region.last_use, ticks_.now());
  }
  if (hints_.retry()) work_.notify_all();
  if (config_.background) return;
  PrefetchBatch batch(&memory_);
  for (gather_prefetches(false, &batch); !batch.empty(); gather_prefetches(false, &batch))
    (void)run_prefetches(lock, batch);
}

// ---- what hints are told of buffers, streams and devices ----

bool Engine::UseView::stamp(uint32_t buffer, uint64_t generation, uint64_t *stamp) noexcept {
  const vm::Hot &hot = engine_.buffers_.hot(buffer);
  if (!hot.lives(generation)) return false;
  *stamp = hot.stamp.load(std::memory_order_relaxed);
  return true;
}

bool Engine::UseView::progress(uint32_t slot, uint32_t generation, policy::Progress *now) noexcept {
  if (slot == 0) {
    now->uses = now->point = engine_.gauges_.granted;
    return true;
  }
  StreamState *state = engine_.states_.find(slot);
  if (state == nullptr || !state->stream->alive() ||
      state->stream_generation.load(std::memory_order_relaxed) != generation)
    return false;
  *now = {state->granted, state->stream->timeline.last()};
  now->uses += state->count_hits();
  return true;
}

uint64_t Engine::UseView::pages(uint8_t place) noexcept {
  const PoolDevice &device = engine_.device_at(place);
  return device.granules->budget() / device.page_size;
}

/// What it takes of the device that it is for, in whole pages but for what is smaller than one.
uint64_t Engine::bytes_around(const PrefetchRequest &request) noexcept {
  const Region &region = *buffers_.target(request.buffer).region;
  const vm::Geometry &shape = region.shape;
  const uint32_t first = shape.page_at(request.begin);
  const uint32_t last = shape.page_at(request.end - 1);
  if (region.shards == nullptr)
    return region.slab ? request.end - request.begin
                       : shape.offset(last) + shape.page_bytes(last) - shape.offset(first);
  uint64_t bytes = 0;
  for (uint32_t p = first; p <= last; ++p)
    bytes += region.home_of(p) == request.place ? shape.page_bytes(p) : 0;
  return bytes;
}

/// What has to come for an announced use: of its pages those that are not on the device.
uint64_t Engine::bytes_missing(const PrefetchRequest &request) noexcept {
  Region &region = *buffers_.target(request.buffer).region;
  const Residence *here = region.on(request.place);
  if (here == nullptr || region.slab || region.shards != nullptr) return bytes_around(request);
  const vm::Geometry &shape = region.shape;
  uint64_t bytes = 0;
  for (uint32_t p = shape.page_at(request.begin); p <= shape.page_at(request.end - 1); ++p)
    bytes += here->pages[p].state() == PageState::absent ? shape.page_bytes(p) : 0;
  return bytes;
}

/// Whether the device has room for it beside what comes with it, or may be given some.
bool Engine::leaves_room(const PrefetchRequest &request, uint64_t beside) noexcept {
  const PoolDevice &device = device_at(request.place);
  const uint64_t room = device.granules->room(), budget = device.granules->budget();
  // An announced use that comes long before its turn takes the place of one that is announced too: more would be copied in all. So
  // no more comes early than hides the copies (the fixed horizon of R. H. Patterson et al., "Informed prefetching and caching"), but
  // into memory that is free and that the demoter has not made so.
  if (request.slot != 0)
    return room >= device.high_water + beside + request.bytes ||
           announcements_.ahead(request.slot) + beside + request.bytes <=
               std::max(budget / 8, 2 * request.bytes);
  if (room >= request.bytes) return true;  // it evicts nothing
  UseView view(*this);
  return hints_.may_evict(request, budget - std::min(budget, device.held_bytes + request.bytes),
                          view);
}

/// What prefetches say of a page.
void Engine::describe_hints(Region &region, uint32_t page, uint8_t place, PageInfo *info) noexcept {
  if (hints_.count() == 0) return;
  const uint64_t begin = region.shape.offset(page);
  const uint64_t end = begin + region.shape.page_bytes(page);
  UseView view(*this);
  const auto look = [&](uint32_t buffer, uint64_t base) WEIR_HELD {
    const uint64_t age =
        hints_.age(buffer, begin - std::min(begin, base), end - std::min(end, base),
                   region.shards != nullptr ? policy::Hints::any_place : place, view);
    info->prefetch = std::min(info->prefetch, age);
  };
  if (!region.slab) {
    if (region.buffer != vm::BufferTable::none) look(region.buffer, 0);
    return;
  }
  auto &tenants = *region.tenants;
  if (tenants.allocations() <= hints_.count()) {
    for (auto node = tenants.first_tenant(); node != vm::Slab::none;
         node = tenants.next_tenant(node))
      look(tenants.owner(node), tenants.offset(node));
    return;
  }
  hints_.each_buffer([&](uint32_t buffer) WEIR_HELD {
    if ((buffers_.hot(buffer).word.load(std::memory_order_relaxed) & Word::alive) == 0) return;
    const Target where = buffers_.target(buffer);
    if (where.region == &region) look(buffer, where.base);
  });
}

/// A page that a demand has taken all the same is asked for again, in its turn.
void Engine::ask_again(const PageRef &ref, const PoolDevice &device) noexcept {
  Region *found = hints_.count() != 0 ? regions_.find(ref.region, ref.generation) : nullptr;
  const Residence *here = found != nullptr ? found->on(device.place) : nullptr;
  if (here == nullptr || here->pages[ref.page].state() != PageState::absent) return;
  const Region &region = *found;
  if (region.slab || region.buffer == vm::BufferTable::none) return;
  const uint64_t begin = region.shape.offset(ref.page);
  UseView view(*this);
  hints_.ask_again(region.buffer, begin, begin + region.shape.page_bytes(ref.page), view);
}

// ---- at work ----

bool Engine::worth_prefetching(const PrefetchRequest &request) {
  if (!buffers_.hot(request.buffer).lives(request.generation, Word::closing | Word::virgin))
    return false;
  // Used meanwhile, it was in time for somebody else.
  UseView view(*this);
  if (request.call != 0 && !hints_.wants(request, view)) return false;
  const Region &region = *buffers_.target(request.buffer).region;
  // What a hold may write is copied anew for every lease elsewhere.
  const Hold *hold = buffers_.hold_of(request.buffer);
  const bool elsewhere = region.shards == nullptr && hold != nullptr &&
                         hold->scope != ClaimScope::on(Place(request.place));
  if (hold != nullptr &&
      (hold->kind == HoldKind::alone || (hold->kind == HoldKind::shared && elsewhere)))
    return false;
  return !region.slab || region.home == request.place;
}

/// Several uses for one device, so that what comes from storage is read at once. Called and returns with the lock held;
/// WOULD_BLOCK: there was no room.
Status Engine::prefetch_together(Releasable &lock, const PrefetchRequest *requests, size_t count) {
  Plan plan(&memory_, nullptr, devices_[requests[0].place].get());
  WEIR_TRY(check_device(plan));
  plan.quiet = true;
  plan.lends = requests[0].lend;
  plan.items.reserve(count);
  uint64_t announced = 0;
  std::bitset<policy::most_together> comes;
  for (size_t i = 0; i < count; ++i) {
    const PrefetchRequest &request = requests[i];
    if (!worth_prefetching(request)) continue;
    if (!leaves_room(request, announced)) return Status(WEIR_ERROR_WOULD_BLOCK);
    PlanItem item;
    item.buffer = request.buffer;
    item.generation = request.generation;
    item.begin = request.begin;
    item.end = request.end;
    item.mode = request.mode;
    bool busy = false;
    if (request.remote && remote_place(item, *plan.device, &busy) != nullptr) continue;
    plan.items.push_back(item);
    comes.set(i);
    if (request.slot != 0) announced += request.bytes;
    // What is needed before the last of them stays.
    const uint64_t distance =
        request.slot != 0 ? announcements_.before(request.slot, request.number) : 0;
    plan.not_before = std::max(plan.not_before, distance + 1);
  }
  if (plan.items.empty()) return {};
  WEIR_TRY(bring_in(lock, plan, AcquireOptions{}));
  for (size_t i = 0; announced != 0 && i < count; ++i) {
    const PrefetchRequest &from = requests[i];
    if (comes[i]) announcements_.note_brought(from.slot, from.number, from.use, from.bytes);
  }
  for (const PlanItem &item : plan.items) {
    // The buffer may have died while its slab was being brought in; or somebody has it to himself, and may be moving it.
    if (plan.lends || !buffers_.hot(item.buffer).lives(item.generation, Word::writer)) continue;
    const Target where = buffers_.target(item.buffer);
    refresh_word(item.buffer, *where.region, where.base, where.size);
  }
  return {};
}

/// Takes what was asked for by calls, or else was announced: as much as is well read at once, all for one device.
void Engine::gather_prefetches(bool announced, PrefetchBatch *batch) {
  batch->clear();
  batch->reserve(policy::most_together);
  if (!announced) return hints_.take(batch);
  PrefetchRequest request{};
  while (batch->size() < policy::most_together && next_announced(&request)) {
    if (!policy::fits(*batch, request))
      return announcements_.untake(request.slot, request.number, request.use);
    batch->push_back(request);
  }
}

/// All of a batch at once, or one after the other where there is not the room. False: what was left of it waits for room.
bool Engine::run_prefetches(Releasable &lock, PrefetchBatch &batch) {
  for (PrefetchRequest &request : batch) request.refused = 0;
  if (batch.size() > 1 && prefetch_together(lock, batch.data(), batch.size())) return true;
  const auto refused = [](const PrefetchRequest &request) { return request.refused != 0; };
  for (size_t i = 0; i < batch.size(); ++i) {
    const bool behind = std::any_of(batch.begin(), batch.begin() + static_cast<ptrdiff_t>(i),
                                    [&](const PrefetchRequest &earlier) {
                                      return refused(earlier) && earlier.asker == batch[i].asker;
                                    });
    const Status status =
        behind ? Status(WEIR_ERROR_WOULD_BLOCK) : prefetch_together(lock, &batch[i], 1);
    // What fails for another reason fails again for whoever uses it.
    if (status.code() != WEIR_ERROR_WOULD_BLOCK) continue;
    if (batch[i].slot == 0) {
      if (batch[i].call != 0) hints_.refuse(batch[i]);
      continue;
    }
    // No room without taking what is needed sooner: go on when the stream has. The others of the batch are announced too.
    for (size_t left = batch.size(); left-- > i;)
      announcements_.untake(batch[left].slot, batch[left].number, batch[left].use);
    return false;
  }
  return true;
}

void Engine::prefetcher_loop() {
  constexpr uint64_t least_rest_ns = 100'000;
  struct Busy {
    Engine &engine;
    explicit Busy(Engine &engine_) noexcept : engine(engine_) { engine.hints_.begin_work(); }
    ~Busy() {
      engine.hints_.end_work();
      engine.changed_.notify_all();
    }
  };
  Locked lock(lock_);
  PrefetchBatch batch(&memory_);
  bool blocked = false;
  while (!lock_.stopping()) {
    scrub_behind(lock);
    batch.clear();
    uint64_t rest = Rebalancer::never;
    try {
      gather_prefetches(false, &batch);
      if (batch.empty() && !blocked) gather_prefetches(true, &batch);
      if (batch.empty()) (void)rebalancer_->next(&batch, &rest);
      if (!batch.empty()) {
        const Busy busy(*this);
        if (!run_prefetches(lock, batch)) blocked = true;
      }
    } catch (const std::bad_alloc &) {
      // A hint less.
    }
    if (!batch.empty()) continue;
    if (rest == Rebalancer::never) {
      work_.wait(lock);
    } else {
      work_.wait_for(lock, std::chrono::nanoseconds(std::max(rest, least_rest_ns)));
    }
    blocked = false;
  }
}

/// Keeps granules free between the watermarks, so that demand rarely meets a dirty victim; grows HOST before it is full;
/// gives back to the system what nobody needs.
void Engine::evictor_loop() {
  Locked lock(lock_);
  while (!lock_.stopping()) {
    scrub_behind(lock);
    bool worked = false;
    try {
      host_room_.grow_ahead(lock);
      give_unneeded_back(lock);
      for (size_t i = 0; i < devices_.size(); ++i) {  // one may come while the lock is dropped
        PoolDevice *device = devices_[i].get();
        if (!device->vmm() || !device->open() || lock_.stopping()) continue;
        const uint64_t room = device->granules->room();
        if (room >= device->low_water && !(device->draining_ahead && room < device->high_water)) {
          device->draining_ahead = false;
          continue;
        }
        device->draining_ahead = true;
        Wanted wanted;
        wanted.bytes = std::min<uint64_t>(device->high_water - room, uint64_t{64} << 20U);
        wanted.not_before = 8;
        wanted.keep_prefetched = true;
        std::pmr::vector<PageRef> victims(&memory_);
        device->policy->choose(wanted, &victims);
        Status why;
        if (victims.empty() || evict(lock, *device, victims, true, &why) == 0) {
          device->draining_ahead = false;
        } else {
          worked = true;
        }
      }
    } catch (const std::bad_alloc &) {
      worked = false;
    }
    if (!worked && !lock_.stopping()) wait_for_work(lock);
  }
}

}  // namespace weir::residency
