// SPDX-License-Identifier: Apache-2.0
//
// When the page is written, and what of the pool goes where in it.

#include "core/pool/publisher.hpp"

#include <algorithm>
#include <cstring>
#include <ctime>

namespace weir::pool {
namespace {

/// Between two writes; between those of a thread at rest, while something happens and at most.
constexpr uint64_t least_ns = 50'000'000, usual_ns = 100'000'000, longest_ns = 1'000'000'000;
/// Of a walk, for one write.
constexpr uint32_t usual_looks = 512;
/// ... where nothing but the calls that ask for figures looks on.
constexpr uint32_t more_looks = 2048;

/// To within some milliseconds, for a few nanoseconds.
uint64_t coarse_ns() noexcept {
  timespec now{};
  (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void put(const UseWalk::Bytes &bytes, live::Amounts *amounts) noexcept {
  amounts->leased = bytes.leased;
  amounts->cold = bytes.cold;
}

void put(const Durations &from, live::Durations *to) noexcept {
  for (size_t i = 0; i < Durations::buckets; ++i) to->counts[i] = from.count(i);
  to->sum_ns = from.sum_ns();
}

}  // namespace

static_assert(live::most_devices == page::max_devices);
#define WEIR_SAME_REASON(name, meaning) \
  static_assert(live::wait_##name == static_cast<uint32_t>(Wait::name));
WEIR_LIVE_WAITS(WEIR_SAME_REASON)
#undef WEIR_SAME_REASON
static_assert(live::reason_count == wait_reasons && Durations::buckets <= live::most_durations);
static_assert(MoveTimes::tiers == live::tier_count);

Publisher::Publisher(const Env &env, const PageLayer &page, const LeaseLayer &lease,
                     const Others &others)
    : env_(env),
      page_(page),
      lease_(lease),
      others_(others),
      walk_(env, page, clients_),
      interval_ns_(usual_ns) {}

void Publisher::start(live::Page &page, uint64_t serial, std::string_view name) {
  const Locked lock(env_.sync.lock);
  serial_ = serial;
  began_ns_ = env_.now_ns();
  name_ = live::short_name(name);
  if (!page.on()) return;
  live_ = &page;
  claim_.take(page);
  write_due(coarse_ns(), usual_looks);
  env_.sync.wakes.evictor.notify_all();  // it rests for good, and has to give beats from now on
}

void Publisher::look_at_copy() noexcept {
  CopySamples &copies = env_.sync.tap.copies();
  if (!copies.watches()) return;
  uint64_t took_ns = 0;
  const auto ended = [this](uint64_t bits) {
    const backend::Stamp stamp{bits};
    if (!env_.streams.passed(stamp)) return CopySamples::End::not_yet;
    return env_.streams.done(stamp) ? CopySamples::End::passed : CopySamples::End::lost;
  };
  if (copies.look(steady_ns(), ended, &took_ns))
    env_.sync.tap.moves().add(page::host_bit, Place(uint8_t{0}).bit(), took_ns);
}

/// For the live page the clock is read in one beat of several where threads of the pool's look too; for a copy that is watched, in each.
void Publisher::beat() noexcept {
  constexpr uint32_t every = 8;
  look_at_copy();
  if (live_ == nullptr || (env_.config.background && ++beats_ % every != 0)) return;
  const uint64_t now = coarse_ns();
  if (now - written_ns_ >= least_ns) write_due(now, usual_looks);
}

void Publisher::beat_at_rest() noexcept {
  look_at_copy();
  const uint64_t now = coarse_ns(), before = activity_;
  if (live_ == nullptr || now < next_ns_) return;
  if (now - written_ns_ >= least_ns) write_due(now, usual_looks);
  interval_ns_ = activity_ != before ? usual_ns : std::min(2 * interval_ns_, longest_ns);
}

uint64_t Publisher::rest_ns() noexcept {
  const CopySamples &copies = env_.sync.tap.copies();
  const uint64_t look_ns = copies.watches() ? copies.rest_ns(steady_ns()) : UINT64_MAX;
  if (live_ == nullptr) return look_ns;
  const uint64_t now = coarse_ns();
  if (next_ns_ <= now) next_ns_ = now + interval_ns_;
  return std::min(look_ns, next_ns_ - now);
}

void Publisher::write_now(uint32_t looks) {
  const Locked lock(env_.sync.lock);
  if (live_ == nullptr) return;
  write_due(coarse_ns(), looks);
}

void Publisher::write_due(uint64_t now_ns, uint32_t looks) noexcept {
  written_ns_ = now_ns;
  if (!live_->may_write()) {
    live_ = nullptr;
    return;
  }
  if (claim_.slot() == nullptr) claim_.take(*live_);
  if (claim_.slot() == nullptr) return;
  clients_.follow(page_.accounts);
  walk_.step(looks);
  live::Page::Writing writing(*claim_.slot());
  activity_ = write(writing.pool());
}

void Publisher::describe(live::Pool *pool) {
  const Locked lock(env_.sync.lock);
  look_at_copy();
  clients_.follow(page_.accounts);
  walk_.step(live_ != nullptr ? usual_looks : more_looks);
  (void)write(*pool);
}

uint64_t Publisher::write(live::Pool &pool) const noexcept {
  const Counters counters = Inspector({env_, page_, lease_, others_.carrier, others_.memory,
                                       others_.losses, others_.prefetcher.plans()})
                                .counters();
  pool.serial = serial_;
  pool.began_ns = began_ns_;
  pool.written_ns = env_.now_ns();
  pool.walked_ns = walk_.last().ended_ns;
  pool.name = name_;
  pool.background = env_.config.background ? 1 : 0;
  pool.counter_count = live::counter_count;
  pool.reason_count = live::reason_count;
  uint64_t activity = write_times(pool);
  for (uint32_t i = 0; i < live::counter_count; ++i) {
    pool.counters[i] = counters[static_cast<Counter>(i)];
    activity += pool.counters[i];
  }
  write_tiers(counters, pool);
  write_devices(pool);
  write_clients(pool);
  return activity;
}

uint64_t Publisher::write_times(live::Pool &pool) const noexcept {
  const Tap &tap = env_.sync.tap;
  uint64_t activity = 0;
  for (uint32_t i = 0; i < live::reason_count; ++i) {
    const auto why = static_cast<Wait>(i);
    pool.waits[i].total_ns = tap.waits().ns(why);
    pool.waits[i].now = tap.waits().now(why);
    activity += pool.waits[i].total_ns + pool.waits[i].now;
  }
  pool.duration_count = Durations::buckets;
  put(tap.waits().acquires(), &pool.acquires);
  for (size_t from = 0; from < MoveTimes::tiers; ++from)
    for (size_t to = 0; to < MoveTimes::tiers; ++to)
      put(tap.moves().of(from, to), &pool.moves[from][to]);
  return activity;
}

void Publisher::write_tiers(const Counters &counters, live::Pool &pool) const noexcept {
  using enum Counter;
  const auto put_tier = [&](live::Tier tier, uint64_t budget, uint64_t used) WEIR_HELD {
    pool.tiers[tier].budget = budget;
    pool.tiers[tier].used = used;
    put(walk_.last().tiers[tier], &pool.tiers[tier]);
  };
  put_tier(live::device_tier, counters[device_budget],
           counters[device_bytes] - counters[device_free_bytes]);
  put_tier(live::host_tier, counters[host_budget],
           counters[host_used_bytes] + counters[staging_bytes]);
  put_tier(live::compressed_tier, counters[compressed_budget], counters[compressed_bytes]);
  put_tier(live::storage_tier, counters[storage_budget], counters[storage_bytes]);
}

void Publisher::write_devices(live::Pool &pool) const noexcept {
  uint32_t count = 0;
  for (const auto &each : page_.devices) {
    const page::DeviceMemory &memory = each->memory;
    live::Device &device = pool.devices[count];
    device.id = each->device.id;
    device.state = each->lost()      ? WEIR_POOL_DEVICE_LOST
                   : each->leaving() ? WEIR_POOL_DEVICE_LEAVING
                                     : WEIR_POOL_DEVICE_PRESENT;
    device.free_bytes = memory.granules().idle();
    device.amounts.budget = memory.budget();
    device.amounts.used = memory.granules().held() - device.free_bytes;
    put(walk_.last().devices[count], &device.amounts);
    device.held_bytes = memory.held_bytes();
    device.borrowed_bytes = memory.borrowed_bytes();
    device.peak_bytes = memory.granules().peak();
    ++count;
  }
  pool.device_count = count;
}

void Publisher::write_clients(live::Pool &pool) const noexcept {
  uint32_t count = 0;
  for (size_t place = 0; place < ShownClients::places(); ++place) {
    const uint32_t id = clients_.at(place);
    if (id == ShownClients::none) continue;
    weir_client_stats stats = WEIR_CLIENT_STATS_INIT;
    page_.accounts.describe(id, &stats);
    live::Client &client = pool.client[count++];
    client.id = id;
    client.buffers = stats.buffers;
    client.priority = page_.accounts.priority(id);
    client.name = live::short_name(page_.accounts.name(id));
    const std::array<std::pair<uint8_t, uint64_t>, live::tier_count> tiers = {
        {{uint8_t{0}, stats.device_bytes},
         {Accounts::host, stats.host_bytes},
         {Accounts::compressed, stats.compressed_bytes},
         {Accounts::storage, stats.storage_bytes}}};
    for (uint32_t tier = 0; tier < live::tier_count; ++tier) {
      live::Amounts &amounts = client.tiers[tier];
      amounts.budget = page_.accounts.quota(id, tiers[tier].first).limit();
      amounts.used = tiers[tier].second;
      put(walk_.of_client(place, id, tier), &amounts);
    }
  }
  pool.client_count = count;
  pool.clients = page_.accounts.living();
}

}  // namespace weir::pool
