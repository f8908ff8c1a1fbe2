// SPDX-License-Identifier: Apache-2.0
//
// Announcements, prefetches, and how they are brought.

#include "core/move/prefetcher.hpp"

#include <algorithm>

namespace weir::move {
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

/// A call may say so many things of the stream, which the pool knows from then on.
Status Prefetcher::admit(Stream &stream, size_t count, StreamState **state) {
  if (count > most_hints)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "count is %zu, more than %zu", count, most_hints);
  return bringer_.stream_state(stream, state);
}

Status Prefetcher::announce(Stream &stream, const weir_operation *operations, size_t count,
                            bool replace) {
  StreamState *state = nullptr;
  WEIR_TRY(admit(stream, count, &state));
  Locked lock(env_.sync.lock);
  // All of it is checked and copied before any of it counts.
  std::pmr::vector<policy::AnnouncedUses> fresh(env_.memory);
  for (size_t i = 0; i < count; ++i) {
    policy::AnnouncedUses operation(env_.memory);
    WEIR_TRY(read_operation(operations[i], i, &operation));
    fresh.push_back(std::move(operation));
  }
  settle(*state);  // they were announced before
  alarm();
  const size_t old = announcements_.count(stream.slot);
  announcements_.append(stream.slot, fresh);
  // Only now: what fails leaves the old ones.
  if (replace && old != 0) consume(*state, old);
  state->set_way(StreamState::announced, announcements_.count(stream.slot) != 0);
  if (plans_ != nullptr) plans_->note_announced(*state, count, replace && old != 0);
  wake_for(*state);
  return {};
}

/// Without the uses of buffers that are dead by now.
Status Prefetcher::read_operation(const weir_operation &from, size_t number,
                                  policy::AnnouncedUses *operation) {
  constexpr weir_result invalid = WEIR_ERROR_INVALID_ARGUMENT;
  if (from.use_count != 0 && from.uses == nullptr)
    return fail(invalid, "operations[%zu].uses is NULL", number);
  if (from.operation_id != 0 && !lease_.operations.given(from.operation_id))
    return fail(invalid, "operations[%zu].operation_id is %llu; weir_operation_id has not given it",
                number, llu(from.operation_id));
  if ((from.reserved[0] | from.reserved[1]) != 0)
    return fail(invalid, "operations[%zu]: its reserved words are not zero", number);
  if (from.use_count > UINT16_MAX)
    return fail(invalid, "operations[%zu].use_count is %llu; an operation has at most 65535 uses",
                number, llu(from.use_count));
  operation->reserve(from.use_count);
  for (uint64_t u = 0; u < from.use_count; ++u) {
    const weir_use &use = from.uses[u];
    uint32_t index = 0;
    const bool alive = page_.buffers.find(use.buffer, &index).ok();
    uint64_t length = use.length;
    if (!well_formed(use) || (alive && !page_.buffers.range_of(index, use.offset, &length)))
      return of_use(u, fail(invalid,
                            "operations[%zu].uses[%llu]: range, mode, flags or reserved words are "
                            "not valid",
                            number, llu(u)));
    if (!alive) continue;
    const page::Hot &hot = page_.buffers.hot(index);
    operation->push_back({index, page_.buffers.target(index).region->id, hot.generation(),
                          use.offset, use.offset + length, static_cast<uint8_t>(use.mode),
                          (use.flags & WEIR_USE_ALLOW_REMOTE) != 0, page_.buffers.tenant(index),
                          hot.size()});
  }
  return {};
}

void Prefetcher::note_acquire(StreamState &state, const Plan *set) {
  if (hints_.retry()) env_.sync.wakes.prefetcher.notify_all();
  if (state.has_announced()) settle(state);
  const bool announced = state.has_announced();
  if (announced) {
    alarm();  // there are less of them than the thread was told
    consume(state, 1);
  }
  if (plans_ != nullptr) plans_->note_acquire(state, announced, set);
  if (announced) wake_for(state);
}

/// Wakes the lanes if they rest and what the stream has announced has something for them.
void Prefetcher::wake_for(StreamState &state) {
  if (!env_.sync.wakes.prefetcher.awaited()) return;
  PrefetchRequest request{};
  if (!next_announced(state, &request)) return;
  announcements_.untake(request.slot, request.number, request.use);
  env_.sync.wakes.prefetcher.notify_all();
}

/// So many of the stream's announced operations are over.
void Prefetcher::consume(StreamState &state, uint64_t count) {
  const uint32_t slot = state.stream->slot;
  announcements_.consume(slot, count);
  state.set_way(StreamState::announced, announcements_.count(slot) != 0);
  // Pages that were needed too soon to be evicted may not be so any more.
  if (refused_) env_.sync.wakes.prefetcher.notify_all();
  if (short_of_room()) env_.sync.wakes.evictor.notify_all();
}

/// Whether a device has less free memory than the evictor's thread sees to.
bool Prefetcher::short_of_room() const noexcept {
  return std::ranges::any_of(page_.devices, [](const auto &device) {
    return device->vmm() && device->open() && device->memory.room() < device->memory.low_water();
  });
}

void Prefetcher::forget_stream(StreamState &state) noexcept {
  alarm();
  (void)state.take_announced();
  if (const size_t left = announcements_.count(state.stream->slot); left != 0) consume(state, left);
  hints_.forget_stream(state.stream->slot);
  if (plans_ != nullptr) plans_->forget_stream(state);
}

/// The next use worth bringing in, within the first operations announced on the stream. It is taken.
bool Prefetcher::next_announced(const StreamState &state, PrefetchRequest *request) {
  if (state.device == nullptr) return false;
  const auto device = std::ranges::find_if(page_.devices, [&state](const auto &each) {
    return each->device.id == state.device->id && !each->gone();
  });
  if (device == page_.devices.end()) return false;
  const uint8_t place = (*device)->place;
  if (plans_ != nullptr && plans_->planned(place) == PlanExecutor::Planned::of_announced)
    return false;
  const uint32_t slot = state.stream->slot;
  for (auto next = announcements_.take(slot); next; next = announcements_.take(slot)) {
    const policy::AnnouncedUse &use = next->use;
    const page::Hot &hot = page_.buffers.hot(use.buffer);
    const uint64_t there = hot.device() == state.device->id ? Word::resident : 0;
    if (!hot.lives(use.generation, Word::closing | Word::virgin | there)) continue;
    const Region &region = *page_.buffers.target(use.buffer).region;
    if (region.is.slab && region.home != place) continue;
    *request = PrefetchRequest{use.buffer, use.generation, use.begin,   use.end,      use.mode,
                               place,      slot,           next->index, next->number, use.remote};
    request->bytes = bytes_of(*request, true);
    return true;
  }
  return false;
}

bool Prefetcher::next_announced(PrefetchRequest *request) {
  return std::ranges::any_of(lease_.states.all(), [this, request](const auto &state) WEIR_HELD {
    settle(*state);
    return next_announced(*state, request);
  });
}

// ---- prefetch ----

Status Prefetcher::prefetch(Stream &stream, const weir_use *uses, size_t count) {
  if (stream.device == nullptr)
    return fail(WEIR_ERROR_NOT_SUPPORTED, "prefetch to the CPU's memory is not supported");
  StreamState *state = nullptr;
  WEIR_TRY(admit(stream, count, &state));
  const Scrubbing scrubbing(env_.scrub_turns);
  Locked lock(env_.sync.lock);
  uint8_t place = 0;
  WEIR_TRY(find_place(page_.devices, stream, &place));
  // All are checked before any of them counts.
  PrefetchBatch asked(env_.memory);
  asked.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const weir_use &use = uses[i];
    if (!well_formed(use))
      return of_use(i,
                    fail(WEIR_ERROR_INVALID_ARGUMENT,
                         "uses[%zu]: mode %u, flags or reserved words are not valid", i, use.mode));
    uint32_t index = 0;
    WEIR_TRY(of_use(i, page_.buffers.find(use.buffer, &index)));
    uint64_t length = use.length;
    WEIR_TRY(of_use(i, page_.buffers.range_of(index, use.offset, &length)));
    asked.push_back({index, page_.buffers.hot(index).generation(), use.offset, use.offset + length,
                     static_cast<uint8_t>(use.mode), place});
    asked.back().remote = (use.flags & WEIR_USE_ALLOW_REMOTE) != 0;
  }
  ask(lock, asked, stream.slot);
  return {};
}

void Prefetcher::ask(Releasable &lock, PrefetchBatch &asked, uint32_t slot) {
  const StreamState *state = lease_.states.find(slot);
  const uint32_t life =
      state != nullptr ? state->stream_generation.load(std::memory_order_relaxed) : 0;
  alarm();
  hints_.begin_call();
  for (PrefetchRequest &request : asked) {
    request.asker = slot;
    request.bytes = bytes_of(request, false);
    // A lease of a range on the hit path would count as a use of all of it.
    page_.buffers.detach_span(request.buffer);
    hints_.ask(request, life, *this);
    // It is as good as used just now: what is older goes before it, also when the hint has ended.
    page_.buffers.target(request.buffer).region->used_at(env_.ticks.now());
  }
  if (hints_.retry()) env_.sync.wakes.prefetcher.notify_all();
  if (env_.config.background) return;
  PrefetchBatch batch(env_.memory);
  for (gather(false, &batch); !batch.empty(); gather(false, &batch)) (void)run(lock, batch);
}

// ---- what hints are told of buffers, streams and devices ----

bool Prefetcher::stamp(uint32_t buffer, uint64_t generation, uint64_t *stamp) noexcept {
  const page::Hot &hot = page_.buffers.hot(buffer);
  if (!hot.lives(generation)) return false;
  *stamp = hot.stamp.load(std::memory_order_relaxed);
  return true;
}

bool Prefetcher::progress(uint32_t slot, uint32_t generation, policy::Progress *now) noexcept {
  if (slot == 0) {
    now->uses = now->point = env_.gauges.granted;
    return true;
  }
  StreamState *state = lease_.states.find(slot);
  if (state == nullptr || !state->stream->alive() ||
      state->stream_generation.load(std::memory_order_relaxed) != generation)
    return false;
  *now = {state->granted, state->stream->timeline.last()};
  now->uses += state->count_hits();
  return true;
}

uint64_t Prefetcher::pages(uint8_t place) noexcept {
  const PoolDevice &device = *page_.devices[place];
  return device.memory.budget() / device.memory.page_size();
}

/// What it takes of the device that it is for, in whole pages but for what is smaller than one. `missing`: of them those that are
/// not there.
uint64_t Prefetcher::bytes_of(const PrefetchRequest &request, bool missing) noexcept {
  Region &region = *page_.buffers.target(request.buffer).region;
  if (region.is.slab) return request.end - request.begin;
  const page::Geometry &shape = region.shape;
  const uint32_t first = shape.page_at(request.begin), last = shape.page_at(request.end - 1);
  const bool sharded = region.shards != nullptr;
  const Residence *here = missing && !sharded ? region.on(request.place) : nullptr;
  if (here == nullptr && !sharded)
    return shape.offset(last) + shape.page_bytes(last) - shape.offset(first);
  uint64_t bytes = 0;
  for (uint32_t p = first; p <= last; ++p) {
    const bool counts =
        sharded ? region.home_of(p) == request.place : here->pages[p].state() == PageState::absent;
    if (counts) bytes += shape.page_bytes(p);
  }
  return bytes;
}

/// Whether the device has room for it beside what comes with it, or may be given some.
bool Prefetcher::leaves_room(const PrefetchRequest &request, uint64_t beside) noexcept {
  const PoolDevice &device = *page_.devices[request.place];
  const uint64_t room = device.memory.room(), budget = device.memory.budget();
  // An announced use that comes long before its turn takes the place of one that is announced too: more would be copied in all. So
  // no more comes early than hides the copies (the fixed horizon of R. H. Patterson et al., "Informed prefetching and caching"), but
  // into memory that is free and that the demoter has not made so.
  if (request.planned) return true;  // there is, or the plan has given up as much
  if (request.slot != 0)
    return room >= device.memory.high_water() + beside + request.bytes ||
           announcements_.ahead(request.slot) + beside + request.bytes <=
               std::max(budget / 8, 2 * request.bytes);
  if (room >= request.bytes) return true;  // it evicts nothing
  return hints_.may_evict(
      request, budget - std::min(budget, device.memory.held_bytes() + request.bytes), *this);
}

void Prefetcher::describe(Region &region, uint32_t page, uint8_t place, PageInfo *info) noexcept {
  if (plans_ != nullptr) plans_->describe(region, place, info);
  if (hints_.count() == 0) return;
  const uint64_t begin = region.shape.offset(page);
  const uint64_t end = begin + region.shape.page_bytes(page);
  const auto look = [&](uint32_t buffer, uint64_t base) WEIR_HELD {
    const uint64_t age =
        hints_.age(buffer, begin - std::min(begin, base), end - std::min(end, base),
                   region.shards != nullptr ? policy::Hints::any_place : place, *this);
    info->prefetch = std::min(info->prefetch, age);
  };
  if (!region.is.slab) {
    if (region.owner.buffer != page::BufferTable::none) look(region.owner.buffer, 0);
    return;
  }
  auto &tenants = *region.tenants;
  if (tenants.allocations() <= hints_.count()) {
    for (auto node = tenants.first_tenant(); node != page::Slab::none;
         node = tenants.next_tenant(node))
      look(tenants.owner(node), tenants.offset(node));
    return;
  }
  hints_.each_buffer([&](uint32_t buffer) WEIR_HELD {
    if ((page_.buffers.hot(buffer).word.load(std::memory_order_relaxed) & Word::alive) == 0) return;
    const page::Target where = page_.buffers.target(buffer);
    if (where.region == &region) look(buffer, where.base);
  });
}

void Prefetcher::note_evicted(const PageRef &ref, const PoolDevice &device) noexcept {
  Region *found = hints_.count() != 0 ? page_.regions.find(ref.region, ref.generation) : nullptr;
  const Residence *here = found != nullptr ? found->on(device.place) : nullptr;
  if (here == nullptr || here->pages[ref.page].state() != PageState::absent) return;
  const Region &region = *found;
  if (region.is.slab || region.owner.buffer == page::BufferTable::none) return;
  const uint64_t begin = region.shape.offset(ref.page);
  hints_.ask_again(region.owner.buffer, begin, begin + region.shape.page_bytes(ref.page), *this);
}

// ---- at work ----

bool Prefetcher::worth_bringing(const PrefetchRequest &request) {
  if (!page_.buffers.hot(request.buffer).lives(request.generation, Word::closing | Word::virgin))
    return false;
  // Used meanwhile, it was in time for somebody else.
  if (request.call != 0 && !hints_.wants(request, *this)) return false;
  const Region &region = *page_.buffers.target(request.buffer).region;
  // What a hold may write is copied anew for every lease elsewhere.
  const page::Hold *hold = page_.buffers.hold_of(request.buffer);
  const bool elsewhere = region.shards == nullptr && hold != nullptr &&
                         hold->scope != ClaimScope::on(Place(request.place));
  if (hold != nullptr &&
      (hold->kind == page::HoldKind::alone || (hold->kind == page::HoldKind::shared && elsewhere)))
    return false;
  return !region.is.slab || region.home == request.place;
}

/// Several uses for one device, so that what comes from storage is read at once. WOULD_BLOCK: there was no room.
Status Prefetcher::bring_together(Releasable &lock, std::span<const PrefetchRequest> requests) {
  const PoolDevice &device = *page_.devices[requests[0].place];
  WEIR_TRY(device.check(device.joined()));
  std::array<const PrefetchRequest *, policy::most_together> chosen{};
  size_t count = 0;
  uint64_t announced = 0, not_before = 0;
  for (const PrefetchRequest &request : requests) {
    if (!worth_bringing(request)) continue;
    if (!leaves_room(request, announced)) return Status(WEIR_ERROR_WOULD_BLOCK);
    if (request.remote && bringer_.lies_in_reach(request)) continue;
    chosen[count++] = &request;
    if (request.slot != 0) announced += request.bytes;
    // What is needed before the last of them stays.
    const uint64_t distance =
        request.slot != 0 ? announcements_.before(request.slot, request.number) : 0;
    not_before = std::max(not_before, distance + 1);
  }
  if (count == 0) return {};
  const std::span<const PrefetchRequest *const> coming(chosen.data(), count);
  WEIR_TRY(bringer_.bring_ahead(lock, coming, not_before));
  for (const PrefetchRequest *from : coming)
    if (from->slot != 0)
      announcements_.note_brought(from->slot, from->number, from->use, from->bytes);
  return {};
}

/// Takes what was asked for by calls, or else was announced: as much as is well read at once, all for one device.
void Prefetcher::gather(bool announced, PrefetchBatch *batch) {
  batch->clear();
  batch->reserve(policy::most_together);
  if (!announced) return hints_.take(batch);
  refused_ = false;
  PrefetchRequest request{};
  while (batch->size() < policy::most_together && next_announced(&request)) {
    if (!policy::fits(*batch, request))
      return announcements_.untake(request.slot, request.number, request.use);
    batch->push_back(request);
  }
}

bool Prefetcher::bring_planned(Releasable &lock) {
  PrefetchRequest request{};
  if (plans_ == nullptr || !plans_->next(&request)) return false;
  Status status(WEIR_ERROR_OUT_OF_HOST_MEMORY);
  const AtEnd settled([&]() WEIR_HELD { plans_->settle(lock, request, status); });
  status = bring_together(lock, {&request, 1});
  return true;
}

/// All of a batch at once, or one after the other where there is not the room. False: what was left of it waits for room.
bool Prefetcher::run(Releasable &lock, PrefetchBatch &batch) {
  for (PrefetchRequest &request : batch) request.refused = 0;
  if (batch.size() > 1 && bring_together(lock, batch)) return true;
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto before = std::span(batch).first(i);
    const bool behind = std::ranges::any_of(before, [&](const PrefetchRequest &earlier) {
      return earlier.refused != 0 && earlier.asker == batch[i].asker;
    });
    const Status status =
        behind ? Status(WEIR_ERROR_WOULD_BLOCK) : bring_together(lock, {&batch[i], 1});
    // What fails for another reason fails again for whoever uses it.
    if (status.code() != WEIR_ERROR_WOULD_BLOCK) continue;
    if (batch[i].slot == 0) {
      if (batch[i].call != 0) hints_.refuse(batch[i]);
      continue;
    }
    // No room without taking what is needed sooner: go on when a stream has. The others of the batch are announced too.
    refused_ = true;
    alarm();
    for (size_t left = batch.size(); left-- > i;)
      announcements_.untake(batch[left].slot, batch[left].number, batch[left].use);
    return false;
  }
  return true;
}

Status Prefetcher::rebalance(uint64_t bytes, uint64_t *moved) {
  const Scrubbing scrubbing(env_.scrub_turns);
  Locked lock(env_.sync.lock);
  *moved = 0;
  if (rebalancer_ == nullptr) return {};
  Rebalancer own = rebalancer_->apart();  // whole, and nobody else's
  own.list(lock);
  PrefetchBatch batch(env_.memory);
  while (*moved < bytes && !env_.sync.lock.stopping() && own.gather(bytes - *moved, &batch)) {
    const uint64_t before = env_.gauges.rebalanced;
    (void)run(lock, batch);
    *moved += env_.gauges.rebalanced - before;
  }
  return {};
}

bool Prefetcher::Lane::step(Releasable &lock) {
  own_.env_.scrub_turns.finish_behind(lock);
  batch_.clear();
  rest_ns_ = Rebalancer::never;
  bool brought = false;  // for a plan
  if_memory([&]() WEIR_HELD {
    own_.gather(false, &batch_);
    if (batch_.empty() && own_.bring_planned(lock)) {
      brought = true;
      return;
    }
    if (batch_.empty() && !blocked_) own_.gather(true, &batch_);
    Rebalancer *rebalancer = own_.rebalancer_.get();
    if (batch_.empty() && rebalancer != nullptr) (void)rebalancer->next(lock, &batch_, &rest_ns_);
    if (batch_.empty()) return;
    own_.hints_.begin_work();
    const AtEnd done([this]() WEIR_HELD {
      own_.hints_.end_work();
      own_.env_.sync.changed.notify_all();
    });
    if (!own_.run(lock, batch_)) blocked_ = true;
  });                                      // or a hint less
  blocked_ = blocked_ && !batch_.empty();  // until it has rested
  return brought || !batch_.empty();
}

}  // namespace weir::move
