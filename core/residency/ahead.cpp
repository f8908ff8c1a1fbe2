// SPDX-License-Identifier: Apache-2.0
//
// Ahead of demand: announced operations, prefetch, and the background threads. Announcements are hints: a
// buffer that died meanwhile is skipped, and a prefetch takes neither a leased page nor one that is needed sooner
// than what it brings.

#include "core/residency/plan.hpp"
#include "core/residency/rebalance.hpp"
#include "core/residency/scrub.hpp"

#include <algorithm>
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

void Engine::unpin(vm::RegionPin &pin) noexcept {
  if (Region *last = pin.give_back()) retire_region(*last);
}

// ---- announcements ----

void Engine::set_next_use(Region &region, uint32_t slot) noexcept {
  const auto list = upcoming_.find(region.id);
  region.next_use =
      list == upcoming_.end() || list->second.empty() ? UINT64_MAX : list->second.front();
  region.next_use_slot = slot;
}

Status Engine::announce(Stream &stream, const weir_operation *operations, size_t count,
                        bool replace) {
  StreamState *state = nullptr;
  if (count > most_hints)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "count is %zu, more than %zu", count, most_hints);
  WEIR_TRY(stream_state(stream, &state));
  Locked lock(lock_);
  // All of it is checked and copied before any of it counts.
  std::pmr::vector<StreamState::Announced> fresh(&memory_);
  for (size_t i = 0; i < count; ++i) {
    StreamState::Announced operation(&memory_);
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
                  static_cast<unsigned long long>(from.use_count));
    }
    operation.uses.reserve(from.use_count);
    for (uint64_t u = 0; u < from.use_count; ++u) {
      const weir_use &use = from.uses[u];
      StreamState::AnnouncedUse copy{};
      uint32_t index = 0;
      const bool alive = buffers_.find(use.buffer, &index).ok();
      uint64_t length = use.length;
      if (!well_formed(use) || (alive && !buffers_.range_of(index, use.offset, &length))) {
        ErrorDetail detail;
        detail.use_index = u;
        return fail(
            WEIR_ERROR_INVALID_ARGUMENT, detail,
            "operations[%zu].uses[%llu]: range, mode, flags or reserved words are not valid", i,
            static_cast<unsigned long long>(u));
      }
      if (!alive) continue;
      copy.buffer = index;
      copy.generation =
          buffers_.hot(index).word.load(std::memory_order_relaxed) & Word::generation_mask;
      copy.begin = use.offset;
      copy.end = use.offset + length;
      copy.mode = static_cast<uint8_t>(use.mode);
      copy.remote = (use.flags & WEIR_USE_ALLOW_REMOTE) != 0;
      operation.uses.push_back(copy);
    }
    fresh.push_back(std::move(operation));
  }
  const size_t old = state->announced.size();
  append_announced(*state, fresh);
  // Only now: what fails leaves the old ones.
  for (size_t i = 0; replace && i < old; ++i) consume_announced(*state);
  state->has_announced.store(!state->announced.empty(), std::memory_order_relaxed);
  work_.notify_all();
  return {};
}

/// Puts operations behind the stream's others. Throws std::bad_alloc with nothing changed.
void Engine::append_announced(StreamState &state, std::pmr::vector<StreamState::Announced> &fresh) {
  struct Before {
    Region *region;
    uint64_t next_use;
    uint32_t next_use_slot;
    bool pushed;
  };
  std::pmr::vector<Before> before(&memory_);
  size_t uses = 0;
  for (const StreamState::Announced &operation : fresh) uses += operation.uses.size();
  before.reserve(uses);
  const size_t old = state.announced.size();
  try {
    for (StreamState::Announced &operation : fresh) {
      const uint64_t number = state.announced_base + state.announced.size();
      state.announced.push_back(std::move(operation));
      for (const StreamState::AnnouncedUse &use : state.announced.back().uses) {
        Region &region = *buffers_.target(use.buffer).region;
        before.push_back({&region, region.next_use, region.next_use_slot, false});
        auto &list = upcoming_[region.id];
        if (list.empty() || list.back() < number) {
          list.push_back(number);
          before.back().pushed = true;
        }
        set_next_use(region, state.stream->slot);
      }
    }
  } catch (...) {
    for (auto use = before.rbegin(); use != before.rend(); ++use) {
      const auto list = upcoming_.find(use->region->id);
      if (list != upcoming_.end() && use->pushed) list->second.pop_back();
      if (list != upcoming_.end() && list->second.empty()) upcoming_.erase(list);
      use->region->next_use = use->next_use;
      use->region->next_use_slot = use->next_use_slot;
    }
    while (state.announced.size() > old) state.announced.pop_back();
    throw;
  }
}

/// The stream's next announced operation has been acquired.
void Engine::consume_announced(StreamState &state) {
  if (state.announced.empty()) return;
  const uint64_t number = state.announced_base;
  for (const StreamState::AnnouncedUse &use : state.announced.front().uses) {
    const uint64_t word = buffers_.hot(use.buffer).word.load(std::memory_order_relaxed);
    if ((word & (Word::alive | Word::generation_mask)) != (Word::alive | use.generation)) continue;
    Region &region = *buffers_.target(use.buffer).region;
    const auto list = upcoming_.find(region.id);
    if (list == upcoming_.end()) continue;
    while (!list->second.empty() && list->second.front() <= number) list->second.pop_front();
    if (list->second.empty()) upcoming_.erase(list);
    set_next_use(region, state.stream->slot);
  }
  state.announced.pop_front();
  ++state.announced_base;
  state.prefetched_until = std::max(state.prefetched_until, state.announced_base);
  state.has_announced.store(!state.announced.empty(), std::memory_order_relaxed);
  work_.notify_all();
}

void Engine::forget_announced(StreamState &state) noexcept {
  while (!state.announced.empty()) consume_announced(state);
}

/// The next use worth bringing in, within the first operations announced on any stream.
bool Engine::next_announced(PrefetchRequest *request) {
  for (const auto &state : states_.all()) {
    if (state->device == nullptr) continue;
    uint8_t place = 0;
    if (!place_of(state->device->id, &place)) continue;
    const uint64_t end = state->announced_base + std::min<uint64_t>(state->announced.size(), 64);
    for (; state->prefetched_until < end; ++state->prefetched_until, state->prefetched_use = 0) {
      const auto &uses = state->announced[state->prefetched_until - state->announced_base].uses;
      while (state->prefetched_use < uses.size()) {
        const StreamState::AnnouncedUse &use = uses[state->prefetched_use++];
        if (use.mode == WEIR_DISCARD_WRITE) continue;
        const uint64_t word = buffers_.hot(use.buffer).word.load(std::memory_order_relaxed);
        if ((word & (Word::alive | Word::closing | Word::generation_mask)) !=
            (Word::alive | use.generation))
          continue;
        if ((word & (Word::resident | Word::virgin)) != 0) continue;
        const Target where = buffers_.target(use.buffer);
        if (where.region->slab && where.region->home != place) continue;
        *request = PrefetchRequest{use.buffer,
                                   use.generation,
                                   use.begin,
                                   use.end,
                                   use.mode,
                                   place,
                                   state->stream->slot,
                                   state->prefetched_use - 1,
                                   state->prefetched_until,
                                   use.remote};
        return true;
      }
    }
  }
  return false;
}

/// An announced use that was taken and not brought in is the next again, unless its operation has been acquired meanwhile.
void Engine::announced_again(const PrefetchRequest &request) noexcept {
  if (request.slot == 0) return;
  StreamState *state = states_.find(request.slot);
  if (state == nullptr || request.number < state->announced_base ||
      request.number - state->announced_base >= state->announced.size())
    return;
  state->prefetched_until = request.number;
  state->prefetched_use = request.use;
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
    PrefetchRequest request{};
    request.buffer = index;
    request.generation =
        buffers_.hot(index).word.load(std::memory_order_relaxed) & Word::generation_mask;
    request.begin = uses[i].offset;
    request.end = uses[i].offset + length;
    request.mode = static_cast<uint8_t>(uses[i].mode);
    request.place = place;
    request.remote = (uses[i].flags & WEIR_USE_ALLOW_REMOTE) != 0;
    asked.push_back(request);
  }
  ask(lock, asked, stream.slot);
  return {};
}

/// One call's prefetches: its bytes are needed from now on. Without background threads they are brought here, as far as that
/// needs no lease to end.
void Engine::ask(Releasable &lock, PrefetchBatch &asked, uint32_t slot) {
  ++prefetch_calls_;
  for (PrefetchRequest &request : asked) {
    request.call = prefetch_calls_;
    request.asker = slot;
    measure(request);
    add_hint(request);
    queue(request);
  }
  retry_refused();
  if (config_.background) return;
  PrefetchBatch batch(&memory_);
  for (gather_prefetches(false, &batch); !batch.empty(); gather_prefetches(false, &batch))
    (void)run_prefetches(lock, batch);
}

bool Engine::worth_prefetching(const PrefetchRequest &request) {
  const uint64_t word = buffers_.hot(request.buffer).word.load(std::memory_order_relaxed);
  const bool same = (word & (Word::alive | Word::closing | Word::generation_mask)) ==
                    (Word::alive | request.generation);
  if (!same || (word & Word::virgin) != 0) return false;
  // Used meanwhile, it was in time for somebody else.
  if (request.call != 0 && !hinted(request)) return false;
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
  for (size_t i = 0; i < count; ++i) {
    const PrefetchRequest &request = requests[i];
    if (!worth_prefetching(request)) continue;
    if (!leaves_room(request)) return Status(WEIR_ERROR_WOULD_BLOCK);
    PlanItem item;
    item.buffer = request.buffer;
    item.generation = request.generation;
    item.begin = request.begin;
    item.end = request.end;
    item.mode = request.mode;
    bool busy = false;
    if (request.remote && remote_place(item, *plan.device, &busy) != nullptr) continue;
    plan.items.push_back(item);
    // What is needed before the last of them stays.
    uint64_t distance = 0;
    if (request.slot != 0) {
      const StreamState *state = states_.find(request.slot);
      distance = request.number - std::min(request.number, state->announced_base);
    }
    plan.not_before = std::max(plan.not_before, distance + 1);
  }
  if (plan.items.empty()) return {};
  WEIR_TRY(bring_in(lock, plan, AcquireOptions{}));
  for (const PlanItem &item : plan.items) {
    // The buffer may have died while its slab was being brought in; or somebody has it to himself, and may be moving it.
    const uint64_t now = buffers_.hot(item.buffer).word.load(std::memory_order_relaxed);
    const bool same =
        (now & (Word::alive | Word::generation_mask)) == (Word::alive | item.generation);
    if (!same || (now & Word::writer) != 0 || plan.lends) continue;
    const Target where = buffers_.target(item.buffer);
    refresh_word(item.buffer, *where.region, where.base, where.size);
  }
  return {};
}

/// Takes what was asked for by calls, or else was announced: as much as is well read at once, all for one device.
void Engine::gather_prefetches(bool announced, PrefetchBatch *batch) {
  constexpr size_t most = 16;
  constexpr uint64_t most_bytes = uint64_t{16} << 20U;
  batch->clear();
  batch->reserve(most);
  uint64_t bytes = 0;
  const auto fits = [&](const PrefetchRequest &request) {
    const bool first = batch->empty();
    return first || (request.place == batch->front().place && batch->size() < most &&
                     bytes + (request.end - request.begin) <= most_bytes);
  };
  const auto add = [&](const PrefetchRequest &request) {
    batch->push_back(request);
    bytes += request.end - request.begin;
  };
  if (!announced) {
    const auto open = [this](const PrefetchRequest &r)
                          WEIR_HELD { return r.refused != prefetch_round_; };
    auto next = std::find_if(prefetches_.begin(), prefetches_.end(), open);
    while (next != prefetches_.end() && fits(*next)) {
      add(*next);
      next = prefetches_.erase(next);  // first: it may move the end
      next = std::find_if(next, prefetches_.end(), open);
    }
    return;
  }
  PrefetchRequest request{};
  while (batch->size() < most && next_announced(&request)) {
    if (!fits(request)) {
      announced_again(request);
      return;
    }
    add(request);
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
      if (batch[i].call == 0) continue;
      batch[i].refused = prefetch_round_;
      queue_refused(batch[i]);
      continue;
    }
    // No room without taking what is needed sooner: go on when the stream has.
    for (size_t left = batch.size(); left-- > i;) announced_again(batch[left]);
    return false;
  }
  return true;
}

void Engine::prefetcher_loop() {
  constexpr uint64_t least_rest_ns = 100'000;
  struct Busy {
    Engine &engine;
    explicit Busy(Engine &engine_) noexcept : engine(engine_) { ++engine.prefetching_; }
    ~Busy() {
      --engine.prefetching_;
      engine.changed_.notify_all();
    }
  };
  Locked lock(lock_);
  PrefetchBatch batch(&memory_);
  bool blocked = false;
  while (!stopping_) {
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
void Engine::demoter_loop() {
  Locked lock(lock_);
  while (!stopping_) {
    scrub_behind(lock);
    bool worked = false;
    try {
      uint32_t node = numa::unknown;
      if (host_->wants_growth(&node)) (void)grow_host(lock, node, tier::HostStore::unit);
      give_unneeded_back(lock);
      for (size_t i = 0; i < devices_.size(); ++i) {  // one may come while the lock is dropped
        PoolDevice *device = devices_[i].get();
        if (!device->vmm() || !device->open() || stopping_) continue;
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
    if (!worked && !stopping_) wait_for_work(lock);
  }
}

}  // namespace weir::residency
