// SPDX-License-Identifier: Apache-2.0
//
// Room in HOST: for a page that needs it now, and kept by the background.

#include "core/move/host_room.hpp"

#include "core/base/amount.hpp"

#include "core/base/memory_limit.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

namespace weir::move {

using tier::HostStore;

Status HostRoom::take(Releasable &lock, uint32_t client, uint32_t node, uint64_t bytes,
                      tier::HostSlot *slot) {
  HostStore &host = tiers_.host();
  bool dropped = false;
  bool stuck = false;
  Status why;
  for (;;) {
    // While there is budget for a chunk near the device, another node's does not do.
    const bool anywhere = stuck || host.growth_for(bytes) == 0;
    *slot = tiers_.try_slot(client, node, bytes, anywhere);
    if (*slot) {
      uint32_t wanting = numa::unknown;
      if (is_short()) env_.sync.wakes.host_room.notify_all();
      if (host.wants_growth(&wanting)) env_.sync.wakes.evictor.notify_all();
      return {};
    }
    if (tiers_.sweep_retired()) continue;
    const bool within = tiers_.host_quota(client).room() >= HostStore::rounded(bytes);
    if (within && !stuck && host.growth_for(bytes) != 0) {
      why = grow(lock, node, bytes);
      if (why) continue;
      stuck = true;  // the machine has no more: what HOST has must do
      *slot = tiers_.try_slot(client, node, bytes, true);
      if (*slot) return {};
      if (!cold_.any()) return why;
    }
    if (growing_) {
      const WaitScope waits(Wait::mapping);
      env_.sync.changed.wait(lock);
      continue;
    }
    if (!dropped && within && tiers_.drop_redundant(page::host_bit, bytes, UINT32_MAX)) continue;
    dropped = true;
    if (const auto busy = tiers_.retired(false)) {
      const WaitScope waits(Wait::copy);
      WEIR_TRY(lock.unlocked([&] { return env_.streams.wait(busy->one(), UINT64_MAX); }));
      continue;
    }
    const WaitScope waits(Wait::eviction);
    if (make_room(lock, client, bytes, within, stuck, &why)) continue;
    return why ? fail_full(client, bytes, within) : why;
  }
}

/// Of what others have: an empty chunk that is too short, or pages that can move further down.
bool HostRoom::make_room(Releasable &lock, uint32_t client, uint64_t bytes, bool within, bool stuck,
                         Status *why) {
  const HostStore &host = tiers_.host();
  const uint64_t size = HostStore::rounded(bytes);
  uint64_t given_back = 0;
  // No chunk is long enough: empty ones make room for one that is.
  if (within && !stuck && !host.could_hold(size)) give_chunks_back(lock, WEIR_WHOLE, &given_back);
  if (given_back != 0) return true;
  const bool possible = size <= tiers_.host_quota(client).limit() && host.could_hold(size);
  return possible && cold_.any() &&
         demoter_.demote(lock, std::max(size, Demoter::round_bytes), within ? UINT32_MAX : client,
                         0, why);
}

Status HostRoom::fail_full(uint32_t client, uint64_t bytes, bool within) const {
  const HostStore &host = tiers_.host();
  const Budget &quota = tiers_.host_quota(client);
  const uint64_t room = within ? host.room() : quota.room();
  const ErrorDetail detail{.tier = WEIR_TIER_HOST,
                           .asked = bytes,
                           .available = room,
                           .cause = within ? Cause::host_budget : Cause::host_quota,
                           .client = within ? UINT32_MAX : client};
  return fail(WEIR_ERROR_OVER_BUDGET, detail,
              "HOST has no room for %s that are written or must leave a device: %s of %s "
              "in use%s%s; a larger %s makes room",
              Amount(bytes).c_str(), Amount(within ? host.used() : quota.used()).c_str(),
              Amount(within ? host.budget() : quota.limit()).c_str(),
              within ? "" : " by this client", within ? "" : tiers_.quoted_client(client).c_str(),
              within ? "host_budget" : "host_quota");
}

Status HostRoom::give_slot(Releasable &lock, Region &region, uint32_t page, uint32_t node) {
  HostStore &host = tiers_.host();
  const page::Page &copies = region.pages[page];
  if (region.host.registered != nullptr || copies.host()) return {};
  const uint64_t used = region.shape.used_bytes(page);
  tier::HostSlot slot;
  Status status;
  region.count_lease(page, 1);
  try {
    status = take(lock, region.owner.client, node, used, &slot);
  } catch (...) {
    region.count_lease(page, -1);
    throw;
  }
  if (status && !host.clean(slot, region.owner.client)) {
    // Not under the lock. Nobody knows of the slot yet.
    auto *memory = static_cast<unsigned char *>(host.address(slot));
    const uint64_t bytes = host.bytes(slot);
    lock.unlocked([&] { std::memset(memory, 0, bytes); });
  }
  if (status) host.take_over(slot, region.owner.client, used);
  region.count_lease(page, -1);
  if (!status) return status;
  if (copies.host()) {
    tiers_.free_slot(region.owner.client, slot, region.is.secret);
  } else {
    tiers_.take_slot(region, page, slot);
  }
  return {};
}

Status HostRoom::grow(Releasable &lock, uint32_t node, uint64_t bytes) {
  HostStore &host = tiers_.host();
  const WaitScope waits(Wait::mapping);
  if (growing_) {
    env_.sync.changed.wait(lock);
    return {};
  }
  if (env_.config.host.follows) {  // much may have been taken since the last look
    const int64_t spare =
        lock.unlocked([this] { return spare_memory(env_.config.host.memory_root); });
    host.set_budget(host.held() + static_cast<uint64_t>(std::max<int64_t>(spare, 0)));
    if (growing_) return {};
  }
  const uint64_t growth = host.growth_for(bytes);
  if (growth == 0 || !host.begin_growth(growth)) return {};
  growing_ = true;
  Owned<HostStore::Chunk> chunk;
  const Status status = lock.unlocked([&] {
    const Status made = with_memory("for the records of a host chunk",
                                    [&] { return host.make_chunk(growth, node, &chunk); });
    // Which pins it for the kernel: not under the lock.
    if (made && cold_.storage() != nullptr) cold_.storage()->add_memory(chunk->view, chunk->bytes);
    return made;
  });
  growing_ = false;
  env_.sync.changed.notify_all();
  if (!status) {
    host.cancel_growth(growth);
    return status;
  }
  host.attach(std::move(chunk));
  return {};
}

void HostRoom::give_chunks_back(Releasable &lock, uint64_t bytes, uint64_t *freed) noexcept {
  HostStore &host = tiers_.host();
  (void)tiers_.sweep_retired();
  while (*freed < bytes && !growing_) {
    Owned<HostStore::Chunk> chunk = host.detach_empty();
    if (chunk == nullptr) break;
    *freed += chunk->bytes;
    lock.unlocked([&] {
      if (cold_.storage() != nullptr) cold_.storage()->remove_memory(chunk->view);
      host.unmake_chunk(*chunk);
      chunk.reset();
    });
  }
}

bool HostRoom::shrink(Releasable &lock, uint64_t bytes) {
  HostStore &host = tiers_.host();
  if (shrinking_) {  // one at a time closes a chunk
    while (shrinking_) env_.sync.changed.wait(lock);
    return true;
  }
  shrinking_ = true;
  const AtEnd turn([&]() WEIR_HELD {
    host.reopen();
    shrinking_ = false;
    env_.sync.changed.notify_all();
  });
  uint64_t freed = 0;
  give_chunks_back(lock, bytes, &freed);
  while (freed < bytes && cold_.any() && !growing_) {
    const uint32_t chunk = host.close_emptiest();
    if (chunk == UINT32_MAX) break;
    const uint64_t before = freed;
    empty_chunk(lock, chunk);
    host.reopen();
    (void)tiers_.sweep_retired();
    give_chunks_back(lock, bytes, &freed);
    if (freed == before) break;
  }
  return freed != 0;
}

/// Lists pages of a chunk that may leave it, from *from on, some thousand records in a taking of the lock. False: there are no more.
bool HostRoom::list_chunk(Releasable &lock, uint32_t chunk, policy::PageCursor *from,
                          std::pmr::vector<policy::PageRef> *pages) {
  const auto may_leave = [&](Region &region, uint32_t page) WEIR_HELD {
    const page::Page &copies = region.pages[page];
    return copies.host().chunk == chunk && !copies.sinking && !leases_.in_use(region, page) &&
           !tiers_.aliases().in_use(region);
  };
  pages->clear();
  uint64_t bytes = 0;
  const auto enter = [](const Region &region) { return region.host.registered == nullptr; };
  const auto list = [&](Region &region, const policy::PageRef &ref) WEIR_HELD {
    if (!may_leave(region, ref.page)) return true;
    pages->push_back(ref);
    bytes += region.shape.used_bytes(ref.page);
    return bytes < Demoter::round_bytes;
  };
  bool more = true;
  while (more && bytes < Demoter::round_bytes) {
    more = !tiers_.walk(page::host_bit, from, enter, list);
    lock.unlocked([this] {
      env_.sync.points.at("chunk.part");
      std::this_thread::yield();  // to who waits for it
    });
  }
  // Some may have gone meanwhile, or be in use.
  std::erase_if(*pages, [&](const policy::PageRef &ref) WEIR_HELD {
    Region *const region = tiers_.find(ref, page::host_bit);
    return region == nullptr || !may_leave(*region, ref.page);
  });
  return more;
}

/// Moves down what may leave a chunk, until a whole walk finds nothing of the kind. May drop the lock.
void HostRoom::empty_chunk(Releasable &lock, uint32_t chunk) {
  std::pmr::vector<policy::PageRef> pages(env_.memory);
  policy::PageCursor from;
  bool moved = false;
  for (;;) {
    const policy::PageCursor before = from;
    const bool more = list_chunk(lock, chunk, &from, &pages);
    if (demoter_.working()) {  // one round at a time, and what that one has is its own
      demoter_.await_change(lock);
      from = before;
      continue;
    }
    if (!pages.empty() && !demoter_.demote(lock, pages)) return;
    moved = moved || !pages.empty();
    if (more) continue;
    (void)tiers_.sweep_retired();
    if (!moved || tiers_.host().is_empty(chunk)) return;
    moved = false;
    from = {};
  }
}

// ---- for the background ----

void HostRoom::grow_ahead(Releasable &lock) {
  uint32_t node = numa::unknown;
  if (tiers_.host().wants_growth(&node)) (void)grow(lock, node, HostStore::unit);
}

bool HostRoom::step(Releasable &lock) {
  env_.scrub_turns.finish_behind(lock);
  follow_memory(lock, false);
  return keep_free(lock) || demoter_.keep_compressed_free(lock);
}

uint64_t HostRoom::rest_ns() noexcept {
  if (env_.config.host.follows) return look_every_ns;
  const uint64_t now = env_.now_ns(), retry = demoter_.retry_at_ns();
  if (retry > now) return retry - now;
  // Nothing could be demoted: what is leased, or on its way, may be soon.
  constexpr uint64_t look_again_ns = 100'000'000;
  return is_short() ? look_again_ns : UINT64_MAX;
}

bool HostRoom::keep_free(Releasable &lock) {
  if (!cold_.any() || env_.now_ns() < demoter_.retry_at_ns()) return false;
  const uint64_t low = cold_.low_water(tiers_.host().budget()), high = 2 * low;
  const uint64_t room = tiers_.host().room();
  if (room >= (ahead_ ? high : low)) {
    ahead_ = false;
    return false;
  }
  Status why;
  // Two pages at least: one is summed up and compressed while the other is written.
  const uint64_t round = std::max(Demoter::round_bytes, 2 * cold_.part_bytes());
  ahead_ = demoter_.demote(lock, std::min(high - room, round), UINT32_MAX, high, &why);
  // What failed is tried again later, or by whoever can't do without.
  if (!why) demoter_.put_off(env_.now_ns());
  return ahead_ && why.ok();
}

int64_t HostRoom::spare_memory(const std::string &root) {
  constexpr uint64_t most = uint64_t{1} << 50U;
  const MemoryLimit::Room found = MemoryLimit(root).read();
  const auto room = static_cast<int64_t>(std::min(found.bytes, most));
  const auto reserve = static_cast<int64_t>(std::min(found.limit, most) / 16);
  return std::min(room / 5 * 4, room - reserve);
}

void HostRoom::follow_memory(Releasable &lock, bool at_once) {
  if (!env_.config.host.follows) return;
  const uint64_t now = env_.now_ns();
  if (!at_once && looked_at_ns_ != 0 && now - looked_at_ns_ < look_every_ns) return;
  looked_at_ns_ = now;
  const int64_t spare =
      lock.unlocked([this] { return spare_memory(env_.config.host.memory_root); });
  HostStore &host = tiers_.host();
  const uint64_t held = host.held();
  const uint64_t budget = spare >= 0 ? held + static_cast<uint64_t>(spare)
                                     : held - std::min(held, static_cast<uint64_t>(-spare));
  host.set_budget(budget);
  if (held > budget) (void)shrink(lock, held - budget);
}

}  // namespace weir::move
