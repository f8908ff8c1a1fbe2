// SPDX-License-Identifier: Apache-2.0
//
// The slow path of acquire, as the residency protocol has it (docs/design.md, section 7, steps 1 to 11).

#include "core/residency/remote.hpp"
#include "core/residency/scrub.hpp"

#include <algorithm>
#include <optional>

namespace weir::residency {
namespace {

Status bad_use(size_t i, const char *what, unsigned long long value) {
  return of_use(i, fail(WEIR_ERROR_INVALID_ARGUMENT, "uses[%zu].%s is %llu", i, what, value));
}

}  // namespace

/// Checks the uses and merges those of one buffer that overlap. Under the lock.
Status Engine::build_plan(const weir_use *uses, size_t count, Plan *plan) {
  plan->items.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const weir_use &use = uses[i];
    if (use.mode < WEIR_READ || use.mode > WEIR_DISCARD_WRITE) return bad_use(i, "mode", use.mode);
    if ((use.flags & ~uint32_t{WEIR_USE_ALLOW_REMOTE}) != 0) return bad_use(i, "flags", use.flags);
    if ((use.reserved[0] | use.reserved[1] | use.reserved[2]) != 0)
      return bad_use(i, "reserved", use.reserved[0]);
    PlanItem item;
    if (!buffers_.find(use.buffer, &item.buffer))
      return of_use(
          i, fail(WEIR_ERROR_INVALID_HANDLE, "uses[%zu].buffer %p is no live buffer of this pool",
                  i, static_cast<void *>(use.buffer)));
    const vm::Hot &hot = buffers_.hot(item.buffer);
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
                   [](const PlanItem &a, const PlanItem &b) {
                     return a.buffer != b.buffer ? a.buffer < b.buffer : a.begin < b.begin;
                   });
  size_t kept = 0;
  for (size_t i = 0; i < plan->items.size(); ++i) {
    const PlanItem item = plan->items[i];
    PlanItem *last = kept > 0 ? &plan->items[kept - 1] : nullptr;
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

Status Engine::check_lost(const Plan &plan) {
  for (const PlanPage &page : plan.pages) {
    if (!page.region->pages[page.page].lost() || page.discard) continue;
    const uint32_t use = plan.items[page.item].use;
    return of_use(
        use, fail(WEIR_ERROR_DATA_LOST, "uses[%u]: bytes of page %u were lost with their device",
                  use, page.page));
  }
  return {};
}

/// Whether a page of the plan is left with nothing but a copy that was found damaged.
bool Engine::corrupt_to_the_last(const Plan &plan) noexcept {
  return std::any_of(plan.pages.begin(), plan.pages.end(), [](const PlanPage &page) {
    return page.corrupt && page.region->pages[page.page].latest() == page.from;
  });
}

/// Gets the set's pages in place, leased, and filled. On failure nothing is claimed.
Status Engine::bring_in(Releasable &lock, Plan &plan, const AcquireOptions &options) {
  const uint64_t now = now_ns();
  const uint64_t deadline =
      options.timeout_ns < UINT64_MAX - now ? now + options.timeout_ns : UINT64_MAX;
  lease::Ticket ticket;
  const AtEnd leave([&]() WEIR_HELD {
    if (admission_.leave(ticket)) changed_.notify_all();
  });
  std::optional<lease::Admission::Watch> watch;
  bool repacked = false, gave_way = false;
  uint32_t idle_given = 0;
  for (;;) {
    WEIR_TRY(plan.check_device());
    if (plan.remote != nullptr) WEIR_TRY(divide(lock, plan));
    settle_layouts(lock, plan);
    WEIR_TRY(resolve(plan));
    WEIR_TRY(spread(plan));
    WEIR_TRY(check_conflicts(plan));
    if (scan_all(plan)) {  // a drain or fill of Weir's own: it ends by itself
      if (plan.quiet) return Status(WEIR_ERROR_WOULD_BLOCK);
      changed_.wait(lock);
      continue;
    }
    WEIR_TRY(plan.try_each([this](Plan &part) { return check_lost(part); }));
    WEIR_TRY(plan.try_each([](Plan &part) { return part.check_device(); }));
    WEIR_TRY(plan.try_each([this](Plan &part) WEIR_HELD { return check_budget(part); }));
    bool absent = false, fits = true;
    plan.each([&absent, &fits](const Plan &part) {
      absent = absent || part.absent;
      fits = fits && part.device->vmm() && part.device->memory.room() >= part.need_bytes;
    });
    if (absent && !plan.quiet) {
      using Answer = lease::Admission::Answer;
      const Answer answer = admission_.ask(ticket, fits, options.timeout_ns != 0);
      if (answer == Answer::refused) {
        events_.tell(What::would_block);
        return fail(WEIR_ERROR_WOULD_BLOCK, "other acquires are waiting for room before this one");
      }
      if (answer != Answer::go) {
        const Status waited =
            wait_changed(lock, options, answer == Answer::wait_for_leases ? deadline : UINT64_MAX);
        if (waited.code() == WEIR_ERROR_TIMEOUT) {
          events_.tell(What::would_block);
          return fail(WEIR_ERROR_TIMEOUT, "other acquires were waiting for room before this one");
        }
        WEIR_TRY(waited);
        continue;
      }
    }
    admission_.begin_try(ticket);
    bool claimed = false;
    Plan *stuck = &plan;
    Status status = claim_and_fill(lock, plan, ticket, &claimed, &stuck);
    if (status) return {};
    PoolDevice &device = *stuck->device;
    if (claimed) {
      // The runtime has less than the budget says: live with what there is.
      if (status.code() == WEIR_ERROR_DEVICE_OOM && !plan.quiet) {
        events_.tell(What::device_oom);
        // What is idle here may be what is missing there. Once: what this set got of its memory is idle again now, too.
        if ((idle_given & device.bit()) != 0 || give_idle(lock, device, UINT64_MAX) == 0)
          device.memory.granules().lower_budget(device.memory.page_size());
        idle_given |= device.bit();
        continue;
      }
      if (stuck->rerouted && !plan.quiet) continue;
      // A damaged copy has been given up, and another is left.
      if (status.code() == WEIR_ERROR_CORRUPT && !plan.quiet && !corrupt_to_the_last(*stuck))
        continue;
      return status;
    }
    if (status.code() == WEIR_NOT_READY) {
      if (!plan.quiet) continue;
      status = Status(WEIR_ERROR_WOULD_BLOCK);
    }
    if (status.code() != WEIR_ERROR_WOULD_BLOCK || plan.quiet) return status;
    if (!device.vmm() &&
        !repacked) {  // fragments: take everything out that can go, then lay it out anew
      repacked = true;
      // Looked at again even if nothing went: a release that came while the lock was dropped has woken nobody.
      (void)evict_chosen(lock, device, {.bytes = UINT64_MAX}, false);
      continue;
    }
    if (!plan.others.empty() && !gave_way) {
      // Claims were dropped, and the lock with them: what the plan names may have gone.
      WEIR_TRY(resolve(plan));
      gave_way = !give_way(lock, plan, device);
      continue;  // as above, even if nothing went
    }
    if (options.timeout_ns == 0) {
      events_.tell(What::would_block);
      ErrorDetail detail{.tier = WEIR_TIER_DEVICE, .device = device.device.id};
      detail.asked = stuck->need_bytes;
      bool busy = false;
      stuck->count_need(&busy);  // without what has come early
      detail.available = device.memory.room() + detail.asked - stuck->need_bytes;
      return fail(WEIR_ERROR_WOULD_BLOCK, detail,
                  "%llu bytes of device %u are short until other leases are released",
                  llu(detail.asked - std::min(detail.asked, detail.available)), device.device.id);
    }
    admission_.begin_wait(ticket);
    changed_.notify_all();  // who queued behind may have to answer WOULD_BLOCK now
    if (!watch) {
      // From here a release on the hit path takes the lock to notify. One that came before is seen by looking again.
      watch.emplace(admission_);
      continue;
    }
    const uint64_t start = now_ns();
    status = wait_changed(lock, options, deadline);
    events_.tell(What::waited, now_ns() - start);
    // What was on its way in when everything was taken out lies in the midst of the room now.
    repacked = gave_way = false;
    if (status.code() == WEIR_ERROR_TIMEOUT) {
      events_.tell(What::would_block);
      return fail(WEIR_ERROR_TIMEOUT, "waited %llu ns for other leases on device %u",
                  llu(options.timeout_ns), device.device.id);
    }
    WEIR_TRY(status);
  }
}

/// Leases everything and brings it in, or has done neither. *claimed: it had all been leased when it failed; *stuck: the plan
/// of the set that could not go on.
Status Engine::claim_and_fill(Releasable &lock, Plan &plan, lease::Ticket &ticket, bool *claimed,
                              Plan **stuck) {
  RemoteClaims beside(*this, plan);
  WEIR_TRY(beside.take());
  std::pmr::vector<vm::RegionPin> pins(&memory_);
  const AtEnd unpin([&]() WEIR_HELD {
    for (vm::RegionPin &pin : pins) regions_.unpin(pin);
    if (!pins.empty()) changed_.notify_all();
  });
  if (plan.lease == nullptr) {  // no lease keeps the regions alive
    pins.reserve(plan.items.size());
    for (const PlanItem &item : plan.items) pins.emplace_back(*item.region);
  }
  Status status = try_claim(lock, plan, stuck);
  *claimed = status.ok();
  if (*claimed) {
    if (admission_.leave(ticket)) changed_.notify_all();
    status = fill_all(lock, plan, stuck);
  }
  if (!status || beside.keep()) return status;
  drop_claims(plan);
  *claimed = false;
  return Status(WEIR_NOT_READY);
}

/// Leases, then granules. On failure both are given back.
Status Engine::try_claim(Releasable &lock, Plan &plan, Plan **stuck) {
  // What a prefetch holds before it has marked its pages is waited for, as what is in flight is.
  const uint32_t holds = plan.quiet ? 1 : 0;
  plan.each([holds](const Plan &part) { part.device->gathering += holds; });
  const AtEnd gathered([&]() WEIR_HELD {
    plan.each([holds](const Plan &part) { part.device->gathering -= holds; });
    if (plan.quiet) changed_.notify_all();
  });
  const auto claim = [&]() WEIR_HELD -> Status {
    if (plan.lease != nullptr) WEIR_TRY(take_claims(plan));
    WEIR_TRY(plan.try_each([&](Plan &part) WEIR_HELD {
      *stuck = &part;
      return part.absent ? gather(lock, part) : Status{};
    }));
    if (!still_stands(plan)) return Status(WEIR_NOT_READY);
    bool work = false;
    plan.each([&work](const Plan &part) { work = work || part.work; });
    const auto close = [this](const PlanItem &item)
                           WEIR_HELD { return leases_.close_for_copy(item.buffer); };
    if (plan.lease == nullptr && work && !std::all_of(plan.items.begin(), plan.items.end(), close))
      return fail(WEIR_ERROR_LEASE_CONFLICT, "the buffer is leased for writing elsewhere");
    // Only when all of them have what they need for it: a mark can't be taken back by an exception.
    plan.each([this](Plan &part) WEIR_HELD {
      if (part.work) prepare_filling(part);
    });
    plan.each([this](Plan &part) WEIR_HELD {
      if (part.work) mark_filling(part);
    });
    return {};
  };
  return or_undo(claim, [&]() WEIR_HELD {
    const KeepError keep;
    plan.each([this](Plan &part) WEIR_HELD {
      forgo_filling(part);
      return_granules(part);
    });
    drop_claims(plan);
    plan.each([this, &lock](Plan &part)
                  WEIR_HELD { give_to_system(lock, *part.device, part.doomed); });
  });
}

bool Engine::still_absent(const Plan &plan, const PlanPage &page) noexcept {
  const Residence *here = page.region->on(plan.place());
  return here != nullptr && here->pages[page.page].state() == PageState::absent;
}

/// Making room drops the lock: whether everything is as it was when the plan was made.
bool Engine::still_stands(Plan &plan) {
  bool same = true;
  // Another reader of the same pages may have been faster.
  plan.each([this, &same](const Plan &part) {
    const auto stands = [&part](const PlanPage &page) {
      const PageState state = page.region->on(part.place())->pages[page.page].state();
      const Page &copies = page.region->pages[page.page];
      return copies.busy == 0 && copies.latest() == page.latest &&
             state == (page.absent ? PageState::absent : PageState::resident);
    };
    // A device that has left, or is lost, has none of these any more.
    same = same && part.check_device().ok() &&
           std::all_of(part.pages.begin(), part.pages.end(), stands);
  });
  if (!same || plan.lease != nullptr) return same;
  // What no lease keeps in place may have been moved.
  return std::all_of(plan.items.begin(), plan.items.end(), [this](const PlanItem &item) WEIR_HELD {
    if (!buffers_.hot(item.buffer).lives(item.generation)) return false;
    const Target where = buffers_.target(item.buffer);
    return where.region == item.region && where.base == item.base;
  });
}

/// Brings in what the plan and its others lack, of which everything is claimed. On failure nothing is any more; *stuck: who
/// failed.
Status Engine::fill_all(Releasable &lock, Plan &plan, Plan **stuck) {
  Status status;
  bool work = false;
  plan.each([&](Plan &part) WEIR_HELD {
    work = work || part.work;
    if (!part.work) return;
    if (!status) {
      const KeepError keep;
      settle_fill(part, false);
      give_to_system(lock, *part.device, part.doomed);
      return;
    }
    status = do_fill(lock, part);
    if (!status) *stuck = &part;
  });
  const auto check = [&](auto &&what) WEIR_HELD {
    if (!status || !work) return;
    status = plan.try_each([&](Plan &part) { return *stuck = &part, what(part); });
  };
  check([](Plan &part) { return part.check_device(); });  // lost by another's call meanwhile
  check([this](Plan &part) { return check_lost(part); });
  if (!status) {
    const KeepError keep;
    drop_claims(plan);
  }
  return status;
}

Status Engine::do_fill(Releasable &lock, Plan &plan) {
  PoolDevice *lost = nullptr;
  const Status status = lock.unlocked([&] {
    for (const physical::Doomed &old : plan.doomed)
      (void)plan.device->memory.granules().destroy(old);
    const Status filled = with_memory("while filling pages", [&] { return fill(plan); });
    lost = &lost_by(plan, filled);
    return filled;
  });
  for (const physical::Doomed &old : plan.doomed) plan.device->memory.granules().forget(old);
  plan.doomed.clear();
  note_loss(*lost, status);
  if (status && plan.device->lost()) clear_mappings(lock, plan);
  settle_fill(plan, status.ok() && !plan.device->lost());
  return status;
}

Status Engine::acquire_slow(Stream &stream, weir_use *uses, size_t count,
                            const AcquireOptions &options, Lease *lease) {
  const Scrubbing scrubbing(*this);
  Locked lock(lock_);
  PoolDevice *device = nullptr;
  if (stream.device != nullptr) {
    uint8_t place = 0;
    WEIR_TRY(place_of(stream, &place));
    device = devices_[place].get();
  }
  Plan plan(&memory_, &stream, device);
  plan.lease = lease;
  WEIR_TRY(build_plan(uses, count, &plan));
  if (plan.items.size() > Lease::inline_items) lease->more.reserve(plan.items.size());
  Remote remote(&memory_);
  const bool any = std::any_of(plan.items.begin(), plan.items.end(),
                               [](const PlanItem &item) { return item.remote; });
  if (any && device != nullptr) {
    remote.asked = plan.items;
    plan.remote = &remote;
  } else {
    for (const PlanItem &item : plan.items)
      WEIR_TRY(of_use(item.use, unslab_for(lock, item.buffer, plan.place())));
  }
  for (bool again = true; again;) {
    WEIR_TRY(device != nullptr ? bring_in(lock, plan, options) : bring_to_host(lock, plan));
    WEIR_TRY(order_after_past(lock, plan, &again));
  }
  commit_remote(plan, lease);
  commit(plan);
  if (StreamState *state = states_.find(stream.slot); state != nullptr) {
    ++state->granted;
    prefetcher_.note_acquire(*state);
  }
  fill_lease(plan, uses, count, lease);
  return {};
}

// ---- for the prefetcher ----

static PlanItem item_of(const PrefetchRequest &request) noexcept {
  return {{request.begin, request.end, request.buffer}, request.generation, request.mode};
}

bool Engine::lies_in_reach(const PrefetchRequest &request) noexcept {
  bool busy = false;
  return remote_place(item_of(request), device_at(request.place), &busy) != nullptr;
}

Status Engine::bring_ahead(Releasable &lock, std::span<const PrefetchRequest *const> requests,
                           uint64_t not_before) {
  Plan plan(&memory_, nullptr, &device_at(requests[0]->place));
  plan.quiet = true;
  plan.lends = requests[0]->lend;
  plan.not_before = not_before;
  plan.items.reserve(requests.size());
  for (const PrefetchRequest *request : requests) plan.items.push_back(item_of(*request));
  WEIR_TRY(bring_in(lock, plan, AcquireOptions{}));
  for (const PlanItem &item : plan.items) {
    // The buffer may have died while its slab was being brought in; or somebody has it to himself, and may be moving it.
    if (plan.lends || !buffers_.hot(item.buffer).lives(item.generation, Word::writer)) continue;
    const Target where = buffers_.target(item.buffer);
    refresh_word(item.buffer, *where.region, where.base, where.size);
  }
  return {};
}

void Engine::fill_lease(Plan &plan, weir_use *uses, size_t count, Lease *lease) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t index = 0;
    (void)buffers_.find(uses[i].buffer, &index);
    const Target where = buffers_.target(index);
    const Region &region = *where.region;
    const uint64_t start =
        plan.device != nullptr ? address_on(*where.region, place_in(plan, index)) + where.base
        : region.registered != nullptr ? reinterpret_cast<uint64_t>(region.registered)
                                       : reinterpret_cast<uint64_t>(region.alias);
    uses[i].address = start + uses[i].offset;
  }
  const size_t items = (plan.remote != nullptr ? plan.remote->asked : plan.items).size();
  // Only now does the record count as a lease: release looks at `count` under the timeline's lock.
  const Guard hold(plan.stream->timeline.lock);
  if (items > Lease::inline_items) lease->more.resize(items);
  lease->count = static_cast<uint32_t>(items);
  LeaseItem *next = lease->items();
  const auto list = [&next](const Plan &part) {
    for (const PlanItem &item : part.items) {
      const bool remote =
          part.in_place || (item.region->shards != nullptr && part.device != nullptr);
      const LeaseKind kinds[] = {LeaseKind::partial, LeaseKind::whole, LeaseKind::partial_remote,
                                 LeaseKind::whole_remote};
      const LeaseKind kind = kinds[(remote ? 2 : 0) + (item.whole ? 1 : 0)];
      *next++ = LeaseItem{item.begin, item.end, item.buffer, item.mode, kind};
    }
  };
  list(plan);
  if (plan.remote == nullptr) return;
  for (const auto &part : plan.remote->plans) list(*part);
}

}  // namespace weir::residency
