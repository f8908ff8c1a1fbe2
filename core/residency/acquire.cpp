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
  ErrorDetail detail;
  detail.use_index = i;
  return fail(WEIR_ERROR_INVALID_ARGUMENT, detail, "uses[%zu].%s is %llu", i, what, value);
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
    if (!buffers_.find(use.buffer, &item.buffer)) {
      ErrorDetail detail;
      detail.use_index = i;
      return fail(WEIR_ERROR_INVALID_HANDLE, detail,
                  "uses[%zu].buffer %p is no live buffer of this pool", i,
                  static_cast<void *>(use.buffer));
    }
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
    ErrorDetail detail;
    detail.use_index = plan.items[page.item].use;
    return fail(WEIR_ERROR_DATA_LOST, detail,
                "uses[%u]: bytes of page %u were lost with their device", plan.items[page.item].use,
                page.page);
  }
  return {};
}

/// Whether a page of the plan is left with nothing but a copy that was found damaged.
bool Engine::corrupt_to_the_last(const Plan &plan) noexcept {
  return std::any_of(plan.pages.begin(), plan.pages.end(), [](const PlanPage &page) {
    return page.corrupt && page.region->pages[page.page].latest() == page.from;
  });
}

/// Gets the set's pages in place, leased, and filled. Called and returns with the lock held; on failure nothing
/// is claimed.
Status Engine::bring_in(Releasable &lock, Plan &plan, const AcquireOptions &options) {
  const uint64_t now = now_ns();
  const uint64_t deadline =
      options.timeout_ns < UINT64_MAX - now ? now + options.timeout_ns : UINT64_MAX;
  struct Turn {  // leaves the queue whatever happens; the lock is held whenever this ends
    Engine &engine;
    lease::Ticket ticket;
    ~Turn() {
      if (engine.admission_.leave(ticket)) engine.changed_.notify_all();
    }
  } turn{*this, {}};
  std::optional<lease::Admission::Watch> watch;
  bool repacked = false, gave_way = false;
  uint32_t idle_given = 0;
  for (;;) {
    WEIR_TRY(check_device(plan));
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
    WEIR_TRY(plan.try_each([this](Plan &part) { return check_device(part); }));
    WEIR_TRY(plan.try_each([this](Plan &part) WEIR_HELD { return check_budget(part); }));
    bool absent = false, fits = true;
    plan.each([&absent, &fits](const Plan &part) {
      absent = absent || part.absent;
      fits = fits && part.device->vmm() && part.device->granules->room() >= part.need_bytes;
    });
    if (absent && !plan.quiet) {
      using Answer = lease::Admission::Answer;
      const Answer answer = admission_.ask(turn.ticket, fits, options.timeout_ns != 0);
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
    admission_.begin_try(turn.ticket);
    bool claimed = false;
    Plan *stuck = &plan;
    Status status = claim_and_fill(lock, plan, turn.ticket, &claimed, &stuck);
    if (status) return {};
    PoolDevice &device = *stuck->device;
    if (claimed) {
      // The runtime has less than the budget says: live with what there is.
      if (status.code() == WEIR_ERROR_DEVICE_OOM && !plan.quiet) {
        events_.tell(What::device_oom);
        // What is idle here may be what is missing there. Once: what this set got of its memory is idle again now, too.
        if ((idle_given & device.bit()) != 0 || give_idle(lock, device, UINT64_MAX) == 0)
          device.granules->lower_budget(device.page_size);
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
      (void)evict_all(lock, device);
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
      count_need(*stuck, &busy);  // without what has come early
      detail.available = device.granules->room() + detail.asked - stuck->need_bytes;
      return fail(WEIR_ERROR_WOULD_BLOCK, detail,
                  "%llu bytes of device %u are short until other leases are released",
                  llu(detail.asked - std::min(detail.asked, detail.available)), device.device.id);
    }
    admission_.begin_wait(turn.ticket);
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
  if (plan.lease == nullptr) {  // no lease keeps the regions alive
    pins.reserve(plan.items.size());
    for (const PlanItem &item : plan.items) pins.emplace_back(*item.region);
  }
  const auto unpin_all = [&]() WEIR_HELD {
    for (vm::RegionPin &pin : pins) unpin(pin);
    if (!pins.empty()) changed_.notify_all();
  };
  Status status;
  try {
    status = try_claim(lock, plan, stuck);
    *claimed = status.ok();
    if (*claimed) {
      if (admission_.leave(ticket)) changed_.notify_all();
      status = fill_all(lock, plan, stuck);
    }
  } catch (...) {
    unpin_all();
    throw;
  }
  unpin_all();
  if (!status || beside.keep()) return status;
  drop_claims(plan);
  *claimed = false;
  return Status(WEIR_NOT_READY);
}

/// Leases, then granules. On failure both are given back.
Status Engine::try_claim(Releasable &lock, Plan &plan, Plan **stuck) {
  // What a prefetch holds before it has marked its pages is waited for, as what is in flight is.
  struct Gathering {
    Engine &engine;
    Plan &plan;
    Gathering(Engine &e, Plan &p) : engine(e), plan(p) {
      plan.each([this](const Plan &part) { part.device->gathering += plan.quiet ? 1 : 0; });
    }
    ~Gathering() {
      plan.each([this](const Plan &part) { part.device->gathering -= plan.quiet ? 1 : 0; });
      if (plan.quiet) engine.changed_.notify_all();
    }
  } const gathering(*this, plan);
  const auto undo = [&]() WEIR_HELD {
    plan.each([this](Plan &part) WEIR_HELD { return_granules(part); });
    drop_claims(plan);
    plan.each([this, &lock](Plan &part) WEIR_HELD { destroy_doomed(lock, part); });
  };
  try {
    if (plan.lease != nullptr) WEIR_TRY(take_claims(plan));
    const Status status = plan.try_each([&](Plan &part) WEIR_HELD {
      *stuck = &part;
      return part.absent ? gather(lock, part) : Status{};
    });
    if (!status) {
      const KeepError keep;
      undo();
      return status;
    }
    if (!still_stands(plan)) {
      undo();
      return Status(WEIR_NOT_READY);
    }
    bool work = false;
    plan.each([&work](const Plan &part) { work = work || part.work; });
    if (plan.lease == nullptr && work && !close_for_copy(plan)) {
      undo();
      return fail(WEIR_ERROR_LEASE_CONFLICT, "the buffer is leased for writing elsewhere");
    }
    // Only when all of them have what they need for it: a mark can't be taken back by an exception.
    plan.each([this](Plan &part) WEIR_HELD {
      if (part.work) prepare_filling(part);
    });
    plan.each([this](Plan &part) WEIR_HELD {
      if (part.work) mark_filling(part);
    });
    return {};
  } catch (...) {
    plan.each([this](Plan &part) WEIR_HELD { forgo_filling(part); });
    undo();
    throw;
  }
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
    // A device that has left, or is lost, has none of what follows any more.
    same = same && check_device(part).ok();
    for (const PlanPage &page : part.pages) {
      if (!same) return;
      const PageState state = page.region->on(part.place())->pages[page.page].state();
      const Page &copies = page.region->pages[page.page];
      same = same && copies.busy == 0 && copies.latest() == page.latest &&
             state == (page.absent ? PageState::absent : PageState::resident);
    }
  });
  // What no lease keeps in place may have been moved.
  for (const PlanItem &item : plan.items) {
    if (plan.lease != nullptr || !same) break;
    same = buffers_.hot(item.buffer).lives(item.generation);
    if (!same) break;
    const Target where = buffers_.target(item.buffer);
    same = where.region == item.region && where.base == item.base;
  }
  return same;
}

/// For a plan without a lease of its own. False: a buffer of it is leased for writing.
bool Engine::close_for_copy(Plan &plan) {
  return std::all_of(plan.items.begin(), plan.items.end(), [this](const PlanItem &item) WEIR_HELD {
    return leases_.close_for_copy(item.buffer);
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
      destroy_doomed(lock, part);
      return;
    }
    status = do_fill(lock, part);
    if (!status) *stuck = &part;
  });
  const auto check = [&](auto &&what) WEIR_HELD {
    if (!status || !work) return;
    status = plan.try_each([&](Plan &part) { return *stuck = &part, what(part); });
  };
  check([this](Plan &part) { return check_device(part); });  // lost by another's call meanwhile
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
    for (const physical::Doomed &old : plan.doomed) (void)plan.device->granules->destroy(old);
    const Status filled = with_memory("while filling pages", [&] { return fill(plan); });
    lost = &lost_by(plan, filled);
    return filled;
  });
  for (const physical::Doomed &old : plan.doomed) plan.device->granules->forget(old);
  plan.doomed.clear();
  note_loss(*lost, status);
  if (status && plan.device->lost()) clear_mappings(lock, plan);
  settle_fill(plan, status.ok() && !plan.device->lost());
  return status;
}

bool Engine::evict_all(Releasable &lock, PoolDevice &device) {
  Wanted wanted;
  wanted.bytes = UINT64_MAX;
  std::pmr::vector<PageRef> victims(&memory_);
  device.policy->choose(wanted, &victims);
  Status why;
  return !victims.empty() && evict(lock, device, victims, false, &why) != 0;
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
  }
  for (const PlanItem &item : plan.items) {
    if (plan.remote == nullptr)
      WEIR_TRY(of_use(item.use, unslab_for(lock, item.buffer, plan.place())));
  }
  bool again = true;
  while (again) {
    if (device != nullptr) {
      WEIR_TRY(bring_in(lock, plan, options));
    } else {
      WEIR_TRY(bring_to_host(lock, plan));
    }
    WEIR_TRY(order_after_past(lock, plan, &again));
  }
  commit_remote(plan, lease);
  commit(plan);
  if (StreamState *state = states_.find(stream.slot); state != nullptr) {
    ++state->granted;
    if (hints_.retry()) work_.notify_all();
    if (state->has_announced.load(std::memory_order_relaxed)) consume_announced(*state);
  }
  return fill_lease(plan, uses, count, lease);
}

Status Engine::fill_lease(Plan &plan, weir_use *uses, size_t count, Lease *lease) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t index = 0;
    (void)buffers_.find(uses[i].buffer, &index);
    const Target where = buffers_.target(index);
    if (plan.device != nullptr) {
      uses[i].address =
          address_on(*where.region, place_in(plan, index)) + where.base + uses[i].offset;
    } else {
      uses[i].address =
          reinterpret_cast<uint64_t>(where.region->registered != nullptr ? where.region->registered
                                                                         : where.region->alias) +
          uses[i].offset;
    }
  }
  size_t items = plan.items.size();
  if (plan.remote != nullptr) items = plan.remote->asked.size();
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
  if (plan.remote == nullptr) return {};
  for (const auto &part : plan.remote->plans) list(*part);
  return {};
}

}  // namespace weir::residency
