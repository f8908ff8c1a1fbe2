// SPDX-License-Identifier: Apache-2.0
//
// A set's way in.

#include "core/acquire/acquirer.hpp"

#include "core/acquire/claims.hpp"
#include "core/acquire/gatherer.hpp"
#include "core/acquire/grants.hpp"
#include "core/acquire/host_leases.hpp"
#include "core/acquire/layouts.hpp"
#include "core/acquire/ready_uses.hpp"
#include "core/acquire/refused.hpp"
#include "core/acquire/remote_uses.hpp"
#include "core/acquire/slabs.hpp"
#include "core/base/amount.hpp"
#include "core/move/evictor.hpp"
#include "core/move/filler.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory_resource>
#include <optional>
#include <utility>

namespace weir::acquire {

static Status bad_use(size_t i, const char *what, unsigned long long value) {
  return of_use(i, fail(WEIR_ERROR_INVALID_ARGUMENT, "uses[%zu].%s is %llu", i, what, value));
}

/// What one set remembers between its tries.
struct Acquirer::Drive {
  move::Plan &plan;
  const page::AcquireOptions &options;
  const uint64_t deadline;
  lease::Ticket ticket{};
  std::optional<lease::Admission::Watch> watch{};  ///< it waits for leases of others
  bool repacked = false;    ///< fragments: everything was taken out that could go
  bool caught_up = false;   ///< what plans have done with by now is known
  bool gave_way = false;    ///< nothing is left of its own that is in its way
  uint32_t idle_given = 0;  ///< devices, as bits, that have given back what was idle
};

/// What of the plan's device is short. The plan is only asked for its numbers: what it names may have gone.
static ErrorDetail refusal(const move::Plan &plan, Cause cause) noexcept {
  ErrorDetail detail{.tier = WEIR_TIER_DEVICE, .device = plan.device->device.id, .cause = cause};
  if (cause == Cause::queue) return detail;  // it may be that nothing is short
  detail.asked = plan.need.missing_bytes;
  detail.available = std::min(detail.asked, plan.device->memory.room() + plan.need.came_bytes);
  return detail;
}

Status Acquirer::build_plan(const weir_use *uses, size_t count, move::Plan *plan) {
  plan->items.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const weir_use &use = uses[i];
    if (use.mode < WEIR_READ || use.mode > WEIR_DISCARD_WRITE) return bad_use(i, "mode", use.mode);
    if ((use.flags & ~uint32_t{WEIR_USE_ALLOW_REMOTE}) != 0) return bad_use(i, "flags", use.flags);
    if ((use.reserved[0] | use.reserved[1] | use.reserved[2]) != 0)
      return bad_use(i, "reserved", use.reserved[0]);
    move::PlanItem item;
    if (!page_.buffers.find(use.buffer, &item.buffer))
      return of_use(
          i, fail(WEIR_ERROR_INVALID_HANDLE, "uses[%zu].buffer %p is no live buffer of this pool",
                  i, static_cast<void *>(use.buffer)));
    const page::Hot &hot = page_.buffers.hot(item.buffer);
    item.generation = hot.generation();
    if (use.offset >= hot.size()) return bad_use(i, "offset", use.offset);
    const uint64_t left = hot.size() - use.offset;
    if (use.length == 0 || (use.length != WEIR_WHOLE && use.length > left))
      return bad_use(i, "length", use.length);
    item.begin = use.offset;
    item.end = use.offset + (use.length == WEIR_WHOLE ? left : use.length);
    item.mode = static_cast<uint8_t>(use.mode);
    item.use = static_cast<uint32_t>(i);
    item.remote = (use.flags & WEIR_USE_ALLOW_REMOTE) != 0;
    plan->items.push_back(item);
  }
  std::stable_sort(plan->items.begin(), plan->items.end(),
                   [](const move::PlanItem &a, const move::PlanItem &b) {
                     return a.buffer != b.buffer ? a.buffer < b.buffer : a.begin < b.begin;
                   });
  size_t kept = 0;
  for (size_t i = 0; i < plan->items.size(); ++i) {
    const move::PlanItem item = plan->items[i];
    move::PlanItem *last = kept > 0 ? &plan->items[kept - 1] : nullptr;
    const bool same = last != nullptr && last->buffer == item.buffer;
    if (same && (item.begin < last->end || (item.begin == last->end && item.mode == last->mode))) {
      last->end = std::max(last->end, item.end);
      if (last->mode != item.mode) last->mode = WEIR_READ_WRITE;
      last->remote = last->remote && item.remote;
    } else {
      plan->items[kept++] = item;
    }
  }
  plan->items.resize(kept);
  return {};
}

Status Acquirer::bring_in(Releasable &lock, move::Plan &plan, const page::AcquireOptions &options) {
  const uint64_t now = env_.now_ns();
  const uint64_t deadline =
      options.timeout_ns < UINT64_MAX - now ? now + options.timeout_ns : UINT64_MAX;
  Drive drive{plan, options, deadline};
  const AtEnd leave([&]() WEIR_HELD {
    drive.watch.reset();
    if (lease_.admission.leave(drive.ticket)) env_.sync.changed.notify_all();
  });
  for (;;) {
    bool ready = false;
    WEIR_TRY(look(lock, drive, &ready));
    if (ready) WEIR_TRY(admitted(lock, drive, &ready));
    if (!ready) continue;
    lease_.admission.begin_try(drive.ticket);
    bool claimed = false;
    move::Plan *stuck = &plan;
    const Status status = claim_and_fill(lock, drive, &claimed, &stuck);
    if (status) return {};
    WEIR_TRY(claimed ? after_failed_fill(lock, drive, status, *stuck)
                     : make_way(lock, drive, status, *stuck));
  }
}

Status Acquirer::look(Releasable &lock, Drive &drive, bool *ready) {
  move::Plan &plan = drive.plan;
  WEIR_TRY(plan.check_device());
  if (plan.remote != nullptr) WEIR_TRY(remote_.divide(lock, plan));
  others_.layouts.settle(lock, plan);
  WEIR_TRY(claims_.resolve(plan));
  WEIR_TRY(claims_.spread(plan));
  WEIR_TRY(claims_.check_conflicts(plan));
  if (claims_.scan_all(plan)) {  // a drain or fill of Weir's own: it ends by itself
    if (plan.terms.quiet) return Status(WEIR_ERROR_WOULD_BLOCK);
    const WaitScope waits(Wait::conflict, plan.device->evictions.last_round());
    env_.sync.changed.wait(lock);
    return {};
  }
  WEIR_TRY(plan.try_each([this](move::Plan &part) WEIR_HELD { return claims_.check_lost(part); }));
  WEIR_TRY(plan.try_each([](move::Plan &part) { return part.check_device(); }));
  WEIR_TRY(
      plan.try_each([this](move::Plan &part) WEIR_HELD { return gatherer_.check_budget(part); }));
  *ready = true;
  return {};
}

Status Acquirer::admitted(Releasable &lock, Drive &drive, bool *may) {
  using Answer = lease::Admission::Answer;
  bool absent = false, fits = true;
  drive.plan.each([&absent, &fits](const move::Plan &part) {
    absent = absent || part.absent;
    fits = fits && part.device->vmm() && part.device->memory.room() >= part.need.missing_bytes;
  });
  if (!absent || drive.plan.terms.quiet) return {};
  if (move::PlanExecutor *plans = others_.prefetcher.plans();
      plans != nullptr && !fits && !std::exchange(drive.caught_up, true) && plans->catch_up(lock)) {
    *may = false;  // what the plan names may have gone
    return {};
  }
  const Answer answer = lease_.admission.ask(drive.ticket, fits, drive.options.timeout_ns != 0);
  if (answer == Answer::refused) {
    env_.events.tell(What::would_block);
    return fail(WEIR_ERROR_WOULD_BLOCK, refusal(drive.plan, Cause::queue),
                "other acquires are waiting for room before this one");
  }
  *may = answer == Answer::go;
  if (*may) return {};
  const WaitScope waits(Wait::room);
  Status waited =
      env_.sync.await_change(lock, drive.options.cancelled, *env_.config.clock,
                             answer == Answer::wait_for_leases ? drive.deadline : UINT64_MAX);
  if (waited.code() != WEIR_ERROR_TIMEOUT) return waited;
  env_.events.tell(What::would_block);
  return fail(WEIR_ERROR_TIMEOUT, refusal(drive.plan, Cause::queue),
              "other acquires were waiting for room before this one");
}

/// Whether a page of the plan is left with nothing but a copy that was found damaged.
static bool corrupt_to_the_last(const move::Plan &plan) noexcept {
  return std::any_of(plan.pages.begin(), plan.pages.end(), [](const move::PlanPage &page) {
    return page.source.corrupt && page.region->pages[page.page].latest() == page.source.bit;
  });
}

void Acquirer::lower_budget(PoolDevice &device) noexcept {
  const uint64_t unit = device.memory.page_size();
  const bool first =
      device.memory.budget() >= env_.config.devices[device.place].budget / unit * unit;
  device.memory.granules().lower_budget(unit);
  if (!first) return;
  env_.sync.lock.note(
      WEIR_LOG_WARNING,
      "device %u has less memory than its budget, which is %s now, and lowered as it has to be: "
      "others have the rest",
      device.device.id, Amount(device.memory.budget()).c_str());
}

Status Acquirer::after_failed_fill(Releasable &lock, Drive &drive, const Status &failed,
                                   move::Plan &stuck) {
  if (drive.plan.terms.quiet) return failed;
  if (failed.code() == WEIR_ERROR_DEVICE_OOM) {
    PoolDevice &device = *stuck.device;
    env_.events.tell(What::device_oom);
    // What is idle here may be what is missing there. Once: what this set got of its memory is idle again now, too.
    if ((drive.idle_given & device.bit()) != 0 ||
        others_.idle.give_idle(lock, device, UINT64_MAX) == 0)
      lower_budget(device);
    drive.idle_given |= device.bit();
    return {};
  }
  if (stuck.haul.rerouted) return {};
  // A damaged copy has been given up, and another is left.
  if (failed.code() == WEIR_ERROR_CORRUPT && !corrupt_to_the_last(stuck)) return {};
  return failed;
}

Status Acquirer::make_way(Releasable &lock, Drive &drive, Status failed, move::Plan &stuck) {
  move::Plan &plan = drive.plan;
  PoolDevice &device = *stuck.device;
  if (failed.code() == WEIR_NOT_READY) {
    if (!plan.terms.quiet) return {};
    failed = Status(WEIR_ERROR_WOULD_BLOCK);
  }
  if (failed.code() != WEIR_ERROR_WOULD_BLOCK || plan.terms.quiet) return failed;
  // Fragments: take everything out that can go, then lay it out anew.
  if (!device.vmm() && !drive.repacked) {
    drive.repacked = true;
    // Looked at again even if nothing went: a release that came while the lock was dropped has woken no thread.
    (void)others_.evictor.evict_chosen(lock, device, {.bytes = UINT64_MAX}, false);
    return {};
  }
  if (!plan.others.empty() && !drive.gave_way) {
    // Claims were dropped, and the lock with them: what the plan names may have gone.
    WEIR_TRY(claims_.resolve(plan));
    drive.gave_way = !gatherer_.give_way(lock, plan, device);
    return {};  // as above, even if nothing went
  }
  return wait_for_leases(lock, drive, stuck);
}

Status Acquirer::wait_for_leases(Releasable &lock, Drive &drive, move::Plan &stuck) {
  PoolDevice &device = *stuck.device;
  if (drive.options.timeout_ns == 0) {
    env_.events.tell(What::would_block);
    const ErrorDetail detail = refusal(stuck, Cause::leases);
    return fail_later(
        WEIR_ERROR_WOULD_BLOCK, detail,
        refused::Short{detail.asked - std::min(detail.asked, detail.available), device.device.id});
  }
  lease_.admission.begin_wait(drive.ticket);
  env_.sync.changed.notify_all();  // callers queued behind may have to answer WOULD_BLOCK now
  if (!drive.watch) {
    // From here a release on the hit path takes the lock to notify. One that came before is seen by looking again.
    drive.watch.emplace(lease_.admission);
    return {};
  }
  const uint64_t start = env_.now_ns();
  const WaitScope waits(Wait::room);
  Status waited =
      env_.sync.await_change(lock, drive.options.cancelled, *env_.config.clock, drive.deadline);
  env_.events.tell(What::waited, env_.now_ns() - start);
  // What was on its way in when everything was taken out lies in the midst of the room now.
  drive.repacked = drive.gave_way = false;
  if (waited.code() != WEIR_ERROR_TIMEOUT) return waited;
  env_.events.tell(What::would_block);
  return fail(WEIR_ERROR_TIMEOUT, refusal(stuck, Cause::leases),
              "waited %llu ns for other leases on device %u", llu(drive.options.timeout_ns),
              device.device.id);
}

Status Acquirer::claim_and_fill(Releasable &lock, Drive &drive, bool *claimed, move::Plan **stuck) {
  move::Plan &plan = drive.plan;
  // The claims of the plans beside it are taken back on the way out unless they are kept. They are never held while anybody waits
  // for leases.
  bool kept = false;
  const AtEnd leave_beside([&]() WEIR_HELD {
    if (!kept) remote_.drop(plan);
  });
  WEIR_TRY(remote_.take(plan));
  std::pmr::vector<page::RegionPin> pins(env_.memory);
  const AtEnd unpin([&]() WEIR_HELD {
    for (page::RegionPin &pin : pins) page_.regions.unpin(pin);
    if (!pins.empty()) env_.sync.changed.notify_all();
  });
  if (plan.lease == nullptr) {  // no lease keeps the regions alive
    pins.reserve(plan.items.size());
    for (const move::PlanItem &item : plan.items) pins.emplace_back(*item.region);
  }
  Status status = try_claim(lock, plan, stuck);
  *claimed = status.ok();
  if (*claimed) {
    if (lease_.admission.leave(drive.ticket)) env_.sync.changed.notify_all();
    status = fill_all(lock, plan, stuck);
  }
  if (!status) return status;
  // Not so if the lock was dropped since, and a page has gone (its device was lost).
  kept = remote_.stand(plan);
  if (kept) return status;
  claims_.drop(plan);
  *claimed = false;
  return Status(WEIR_NOT_READY);
}

Status Acquirer::try_claim(Releasable &lock, move::Plan &plan, move::Plan **stuck) {
  // What a prefetch holds before it has marked its pages is waited for, as what is in flight is.
  const uint32_t holds = plan.terms.quiet ? 1 : 0;
  plan.each([holds](const move::Plan &part) { part.device->gathering += holds; });
  const AtEnd gathered([&]() WEIR_HELD {
    plan.each([holds](const move::Plan &part) { part.device->gathering -= holds; });
    if (plan.terms.quiet) env_.sync.changed.notify_all();
  });
  const auto claim = [&]() WEIR_HELD -> Status {
    if (plan.lease != nullptr) WEIR_TRY(claims_.take(plan));
    WEIR_TRY(plan.try_each([&](move::Plan &part) WEIR_HELD {
      *stuck = &part;
      return part.absent ? gatherer_.gather(lock, part) : Status{};
    }));
    if (!claims_.still_stands(plan)) return Status(WEIR_NOT_READY);
    bool work = false;
    plan.each([&work](const move::Plan &part) { work = work || part.work; });
    const auto close = [this](const move::PlanItem &item)
                           WEIR_HELD { return lease_.leases.close_for_copy(item.buffer); };
    if (plan.lease == nullptr && work && !std::all_of(plan.items.begin(), plan.items.end(), close))
      return fail(WEIR_ERROR_LEASE_CONFLICT, "the buffer is leased for writing elsewhere");
    // Only when all of them have what they need for it: a mark can't be taken back by an exception.
    plan.each([this](move::Plan &part) WEIR_HELD {
      if (part.work) filler_.prepare(part);
    });
    plan.each([this](move::Plan &part) WEIR_HELD {
      if (part.work) filler_.mark(part);
    });
    return {};
  };
  return or_undo(claim, [&]() WEIR_HELD {
    const KeepError keep;
    (*stuck)->count_came();
    plan.each([this](move::Plan &part) WEIR_HELD {
      filler_.forgo(part);
      filler_.return_granules(part);
    });
    claims_.drop(plan);
    plan.each([this, &lock](move::Plan &part)
                  WEIR_HELD { others_.idle.give_to_system(lock, *part.device, part.doomed); });
  });
}

Status Acquirer::fill_all(Releasable &lock, move::Plan &plan, move::Plan **stuck) {
  Status status;
  bool work = false;
  plan.each([&](move::Plan &part) WEIR_HELD {
    work = work || part.work;
    if (!part.work) return;
    if (!status) {
      const KeepError keep;
      filler_.settle(part, false);
      others_.idle.give_to_system(lock, *part.device, part.doomed);
      return;
    }
    status = filler_.bring(lock, part);
    if (!status) *stuck = &part;
  });
  const auto check = [&](auto &&what) WEIR_HELD {
    if (!status || !work) return;
    status = plan.try_each([&](move::Plan &part) WEIR_HELD { return *stuck = &part, what(part); });
  };
  check([](move::Plan &part) { return part.check_device(); });  // lost by another's call meanwhile
  check([this](move::Plan &part) WEIR_HELD { return claims_.check_lost(part); });
  if (!status) {
    const KeepError keep;
    claims_.drop(plan);
  }
  return status;
}

/// By its first buffer's name, if that lives and has one.
static void name_acquire(page::BufferDirectory &buffers, std::span<const weir_use> uses,
                         RangeText &text) noexcept WEIR_HELD {
  uint32_t index = 0;
  uint64_t generation = 0;
  const bool lives = buffers.decode(uses.front().buffer, &index, &generation) &&
                     buffers.hot(index).lives(generation);
  text.add("acquire%s", lives ? buffers.quoted(index).c_str() : "");
  if (uses.size() > 1) text.add(", %zu buffers", uses.size());
}

Status Acquirer::acquire(Stream &stream, weir_use *uses, size_t count,
                         const page::AcquireOptions &options, lease::Lease *lease) {
  const Scrubbing scrubbing(env_.scrub_turns);
  Locked lock(env_.sync.lock);
  const AtEnd tells([this]() WEIR_HELD { env_.pulse.beat(); });
  PoolDevice *device = nullptr;
  if (stream.device != nullptr) {
    uint8_t place = 0;
    WEIR_TRY(find_place(page_.devices, stream, &place));
    device = page_.devices[place].get();
  }
  StreamState *const state = lease_.states.find(stream.slot);
  if (device != nullptr && state != nullptr &&
      others_.ready.grant(stream, *device, {uses, count}, lease)) {
    ++state->granted;
    if_memory([&]() WEIR_HELD { others_.prefetcher.note_acquire(*state, nullptr); });
    return {};
  }
  // What is over may make room.
  if (state != nullptr && state->has_announced()) others_.prefetcher.settle(*state);
  const RangeScope range(env_.sync.tap.ranges(), RangeKind::acquire,
                         [&](RangeText &text) WEIR_HELD {
                           name_acquire(page_.buffers, {uses, count}, text);
                         });
  const WaitCall call(env_.sync.tap.waits());
  // A small set's lists lie on the stack. They keep their memory from try to try, so a set that waits takes no more of it.
  std::array<std::byte, 4096> room;
  std::pmr::monotonic_buffer_resource scratch(room.data(), room.size(), env_.memory);
  move::Plan plan(&scratch, &stream, device);
  plan.lease = lease;
  WEIR_TRY(build_plan(uses, count, &plan));
  if (plan.items.size() > lease::Lease::inline_items) lease->more.reserve(plan.items.size());
  move::RemoteParts remote(env_.memory);
  const bool any = std::any_of(plan.items.begin(), plan.items.end(),
                               [](const move::PlanItem &item) { return item.remote; });
  if (any && device != nullptr) {
    remote.asked = plan.items;
    plan.remote = &remote;
  } else {
    for (const move::PlanItem &item : plan.items)
      WEIR_TRY(of_use(item.use, others_.small.unslab_for(lock, item.buffer, plan.place())));
  }
  for (bool again = true; again;) {
    WEIR_TRY(device != nullptr ? bring_in(lock, plan, options)
                               : others_.host_leases.bring_to_host(lock, plan));
    WEIR_TRY(others_.grants.order_after_past(lock, plan, &again));
  }
  others_.grants.commit(plan, lease);
  if (state != nullptr) {
    ++state->granted;
    others_.prefetcher.note_acquire(*state, &plan);
  }
  others_.grants.fill_lease(plan, uses, count, lease);
  return {};
}

// ---- for the prefetcher ----

Status Acquirer::stream_state(Stream &stream, StreamState **state) {
  StreamState *found = lease_.states.find(stream.slot);
  if (found == nullptr) {
    Locked lock(env_.sync.lock);
    found = &lease_.states.have(stream);
  }
  if (found->stream_generation.load(std::memory_order_relaxed) != stream.generation) {
    Locked lock(env_.sync.lock);
    if (found->stream_generation.load(std::memory_order_relaxed) != stream.generation) {
      others_.prefetcher.forget_stream(*found);
      found->device = stream.device;
      found->set_way(StreamState::learned, lease_.log.on() && stream.device != nullptr);
      lease_.log.began({stream.slot, stream.generation});
      found->stream_generation.store(stream.generation, std::memory_order_relaxed);
    }
  }
  *state = found;
  return {};
}

static move::PlanItem item_of(const policy::PrefetchRequest &request) noexcept {
  return {{request.begin, request.end, request.buffer}, request.generation, request.mode};
}

bool Acquirer::lies_in_reach(const policy::PrefetchRequest &request) noexcept {
  bool busy = false;
  return remote_.place_for(item_of(request), *page_.devices[request.place], &busy) != nullptr;
}

Status Acquirer::bring_ahead(Releasable &lock,
                             std::span<const policy::PrefetchRequest *const> requests,
                             uint64_t not_before) {
  move::Plan plan(env_.memory, nullptr, page_.devices[requests[0]->place].get());
  plan.terms.quiet = true;
  plan.terms.lends = requests[0]->lend;
  plan.terms.planned = requests[0]->planned;
  plan.terms.not_before = not_before;
  plan.items.reserve(requests.size());
  for (const policy::PrefetchRequest *request : requests) plan.items.push_back(item_of(*request));
  WEIR_TRY(bring_in(lock, plan, page::AcquireOptions{}));
  for (const move::PlanItem &item : plan.items) {
    // The buffer may have died while its slab was being brought in; or a writer has it alone, and may be moving it.
    if (plan.terms.lends || !page_.buffers.hot(item.buffer).lives(item.generation, Word::writer))
      continue;
    const page::Target where = page_.buffers.target(item.buffer);
    others_.pages.refresh_word(item.buffer, *where.region, where.base, where.size,
                               lease_.history.pending(item.buffer), {});
  }
  return {};
}

}  // namespace weir::acquire
