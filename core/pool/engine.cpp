// SPDX-License-Identifier: Apache-2.0
//
// An engine's beginning and end, clients, and who looks.

#include "core/pool/engine.hpp"

#include "core/pool/usable_bytes.hpp"

#include <algorithm>

namespace weir::pool {

Engine::Engine(std::pmr::memory_resource *memory, backend::StreamTable &streams, Ticks &ticks,
               uint32_t pool_id, const Log &log)
    : memory_(memory),
      streams_(streams),
      ticks_(ticks),
      log_(log),
      lock_(log),
      pages_(*this, pool_id),
      leases_(*this),
      movers_(env_, page_, lease_, pages_, services_, *this),
      services_(env_, page_, lease_, pages_, movers_, *this),
      background_(lock_, tap, config_.nodes, &memory_) {
  config_.pool_id = pool_id;
}

Engine::PageOwners::PageOwners(Engine &engine, uint32_t pool_id)
    : regions(&engine.memory_, &engine.movers_.life),
      places(&engine.memory_),
      buffers(regions, &engine.memory_, pool_id),
      devices(&engine.memory_),
      carrier(engine.streams_),
      accounts(&engine.memory_),
      slabs(regions, accounts, &engine.memory_),
      doubts(&engine.memory_),
      tiers(&engine.memory_, {regions, places, buffers, accounts, engine.told_.gauges}, cold,
            engine.movers_.scrub_turns, engine.streams_, engine.ticks_),
      cold(&engine.memory_, accounts) {}

Engine::LeaseOwners::LeaseOwners(Engine &engine)
    : history(&engine.memory_, engine.streams_, engine.pages_.buffers),
      leases(&engine.memory_, engine.pages_.buffers),
      remote_writes(&engine.memory_, engine.streams_),
      states(&engine.memory_),
      log(&engine.memory_),
      operations(&engine.memory_) {}

Engine::Movers::Movers(const Env &env, const PageLayer &page, const LeaseLayer &lease,
                       PageOwners &owners, Services &services, Engine &engine)
    : idle(env, owners.carrier),
      pages(env, page, idle),
      life(env, page, pages, idle, services.sizes, prefetcher),
      losses(env, page, lease, {owners.doubts}, pages),
      evictor(env, page, lease, {demoter, host_room, losses}, pages, idle, life, lender),
      lender(env, page, lease, pages, idle, life, evictor),
      carriage(env, page, {owners.doubts, idle, losses}, owners.carrier),
      filler(env, page, lease, {losses}, pages, carriage),
      layouts(env, page, life, evictor),
      gatherer(env, page, {host_room, idle, prefetcher, relocator}, evictor, filler,
               services.claims),
      scrubber(env, page, lease, {owners.carrier, relocator}, evictor),
      relocator(env, page, lease, {pages, idle, losses, evictor, life}),
      prefetcher(env, page, lease, services.acquirer),
      uses(owners.buffers, prefetcher.announcements()),
      host_view(page::host_bit, owners.tiers, engine.leases_.leases, uses, engine.ticks_),
      compressed_view(page::compressed_bit, owners.tiers, engine.leases_.leases, uses,
                      engine.ticks_),
      demoter(env, owners.cold, owners.tiers, owners.regions),
      host_room(env, owners.cold, owners.tiers, engine.leases_.leases, demoter),
      scrub_turns(engine.lock_, scrubber) {}

Engine::Services::Services(const Env &env, const PageLayer &page, const LeaseLayer &lease,
                           PageOwners &owners, Movers &movers, Engine &engine)
    : sizes(engine.memory_, engine.config_, owners.devices, owners.buffers, engine.log_),
      claims(env, page, lease, movers.pages, movers.life),
      remote(env, page, lease, movers.pages, claims, small),
      grants(env, page, lease, movers.pages, movers.losses, movers.prefetcher, claims, remote),
      ready(env, page, lease, movers.pages, movers.prefetcher),
      acquirer(env, page, lease,
               {movers.pages, movers.idle, movers.layouts, movers.evictor, grants, host_leases,
                small, movers.prefetcher, ready},
               claims, remote, movers.gatherer, movers.filler),
      small(env, page, lease, {movers.pages, movers.host_room}, movers.life, homes, cpu),
      homes(env, page, engine.log_),
      maker(env, page, lease, {sizes, movers.life, homes, small, movers.demoter, movers.prefetcher},
            registrar, movers.scrubber),
      lines(env, page, lease, {movers.losses, small, maker}, holder, grants, claims),
      cpu(env, page, lease, {movers.demoter, movers.host_room}, movers.pages, movers.losses,
          claims),
      host_leases(env, page, lease, movers.pages, cpu, claims, movers.host_room),
      holder(env, page, {movers.pages, lease.history}, cpu, claims, grants, acquirer, small),
      registrar(env, page, lease, movers.pages, cpu, movers.demoter, movers.host_room),
      device_maker(env, page, lease, {sizes, movers.pages, movers.relocator, movers.prefetcher}),
      membership(env, page, lease,
                 {owners.devices, movers.carriage, sizes, movers.pages, movers.life, movers.idle,
                  movers.losses, small, homes, movers.relocator, movers.prefetcher},
                 engine.config_, device_maker, movers.evictor),
      trimmer(env, page,
              {owners.carrier, movers.demoter, movers.host_room, movers.idle, movers.relocator},
              movers.evictor),
      policy_store(env, page, lease, movers.prefetcher),
      upkeep(env, page,
             {movers.host_room, movers.demoter, movers.recompressor, movers.idle, movers.prefetcher,
              publisher},
             movers.evictor),
      publisher(env, page, lease,
                {owners.carrier, engine.memory_, movers.losses, movers.prefetcher}) {}

Status Engine::start(page::EngineConfig config) {
  config_ = std::move(config);
  transfer::Paths paths;
  paths.find(config_.routes, config_.split_sizes);
  {
    const Locked lock(lock_);
    movers_.carriage.set_paths(std::move(paths));
    movers_.idle.scan().start(config_.idle_grace_ns);
  }
  if (config_.clock == nullptr) config_.clock = &system_clock_;
  if (config_.host.follows) {
    const int64_t spare = move::HostRoom::spare_memory(config_.host.memory_root);
    config_.host.budget = static_cast<uint64_t>(std::max<int64_t>(spare, 0));
  }
  std::pmr::vector<backend::Runtime *> runtimes(&memory_);
  bool registrable = true;
  WEIR_TRY(services_.sizes.choose_pages());
  pages_.devices.reserve(page::max_devices);
  config_.devices.reserve(page::max_devices);
  for (const page::EngineConfig::DeviceBudget &budget : config_.devices) {
    Owned<PoolDevice> fresh;
    WEIR_TRY(
        services_.device_maker.make(budget, static_cast<uint8_t>(pages_.devices.size()), &fresh));
    pages_.devices.push_back(std::move(fresh));
    if (std::find(runtimes.begin(), runtimes.end(), budget.device->runtime) == runtimes.end())
      runtimes.push_back(budget.device->runtime);
    registrable = registrable && budget.device->has(WEIR_CAP_HOST_REGISTER);
  }
  {
    const Locked lock(lock_);
    for (const auto &device : pages_.devices) pages_.places.open(device->place);
    movers_.losses.tell_peers();
  }
  // Where there can be no plan nothing is learned for one.
  const bool plannable =
      std::ranges::any_of(pages_.devices, [](const auto &device) { return device->vmm(); });
  if (config_.learning.on && config_.background && (plannable || !config_.plans)) {
    // What is smaller is not worth a plan: all of it stays.
    constexpr uint64_t share = 65536;
    UsableBytes budgets;
    for (const auto &device : pages_.devices) budgets.add(device->device, device->memory.budget());
    leases_.log.start(budgets.all() / share);
  }
  const uint32_t node = services_.homes.common_node();
  services_.cpu.start(config_.nodes, node);
  if (runtimes.size() > 1)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "a pool over devices of several backends is not supported");
  backend::Runtime &runtime = *runtimes.front();
  WEIR_TRY(start_cold_tiers(runtime, node));
  pages_.tiers.open(
      make_owned<tier::HostStore>(&memory_, &memory_, config_.host.budget, std::move(runtimes),
                                  registrable, config_.nodes, log_),
      config_.host.checksum);
  movers_.prefetcher.start(movers_.evictor);
  services_.homes.warn_of_integrated();
  for (const page::EngineConfig::DeviceBudget &entry : config_.devices)
    services_.sizes.warn_of_budget(*entry.device, entry.budget);
  if (memory_.bytes() >= config_.record_budget)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "record_budget is %llu, and the pool's records take %llu bytes without any buffer",
                llu(config_.record_budget), llu(memory_.bytes()));
  uint32_t own = 0;
  WEIR_TRY(create_client(weir_client_desc WEIR_CLIENT_DESC_INIT, &own));
  return config_.background ? services_.upkeep.start(background_, node) : Status();
}

Status Engine::start_cold_tiers(backend::Runtime &runtime, uint32_t node) {
  constexpr uint64_t mib = uint64_t{1} << 20U;
  if (config_.below.compressed == 0 && config_.below.storage.budget == 0) return {};
  // A page goes in parts, so that staging stays small: one part where pages are of usual size.
  uint64_t part = 0;
  for (const auto &device : pages_.devices) {
    const page::DeviceMemory &memory = device->memory;
    const uint64_t most = memory.vmm() ? 32 * mib : 4 * mib;
    const uint64_t page = memory.vmm() ? memory.large_page_size() : memory.budget();
    part = std::max(part, tier::UnitArena::rounded(std::min(page, most)));
  }
  const bool no_host = config_.host.budget == 0 && !config_.host.follows;
  const uint64_t share = no_host || config_.host.follows ? 4 : config_.host.budget / 16 / part;
  const auto slots =
      static_cast<uint32_t>(std::clamp<uint64_t>(share, 2, tier::Staging::max_slots));
  if (!no_host && !config_.host.follows && config_.host.budget < slots * part + part)
    return fail(
        WEIR_ERROR_INVALID_ARGUMENT,
        "host_budget is %llu: with tiers below HOST it takes %llu, of which %llu for staging",
        llu(config_.host.budget), llu(slots * part + part), llu(slots * part));
  tier::ColdTiers::Config config = config_.below;
  if (!config_.background) config.threads = 0;
  config.staging_slots = slots;
  config.part_bytes = part;
  config.nodes = &config_.nodes;
  config.node = node;
  WEIR_TRY(pages_.cold.start(std::move(config), runtime, streams_, *config_.clock, log_));
  if (!no_host && !config_.host.follows) config_.host.budget -= pages_.cold.staging().bytes();
  Owned<Policy> compressed_order;
  if (pages_.cold.compressed() != nullptr) {
    compressed_order = make_policy(config_.policy, movers_.compressed_view, &memory_);
    // A method that was asked for by name is not to be left for another.
    if (config_.recompress_idle_ns != UINT64_MAX &&
        config_.below.codec == codec::CodecChoice::automatic) {
      const Locked lock(lock_);  // for nobody yet
      movers_.recompressor = make_owned<move::Recompressor>(
          &memory_, env_, pages_.cold, pages_.tiers, pages_.regions, movers_.uses);
      WEIR_TRY(movers_.recompressor->start(config_.recompress_idle_ns));
    }
  }
  WEIR_TRY(movers_.demoter.start(movers_.recompressor.get()));
  const Locked lock(lock_);
  pages_.tiers.set_orders(make_policy(config_.policy, movers_.host_view, &memory_),
                          std::move(compressed_order));
  return {};
}

void Engine::lose_device(uint8_t place) {
  const Locked lock(lock_);
  movers_.losses.lose(*pages_.devices[place]);
}

Status Engine::shutdown() {
  {
    Locked lock(lock_);
    if (pages_.buffers.addresses() != 0)
      return fail(WEIR_ERROR_BUSY, "%zu allocations of weir_malloc are out",
                  pages_.buffers.addresses());
    for (uint32_t i = 0; i < pages_.buffers.end(); ++i) {
      const uint64_t word = pages_.buffers.hot(i).word.load();
      if ((word & Word::alive) != 0 && (Word::leases(word) != 0 || (word & Word::partial) != 0))
        return fail(WEIR_ERROR_BUSY, "a buffer of the pool%s has unreleased leases",
                    pages_.buffers.quoted(i).c_str());
    }
    for (const auto &device : pages_.devices) {
      if (device->leaving())
        return fail(WEIR_ERROR_BUSY, "device %u is being removed from the pool", device->device.id);
    }
    lock_.stop();
    changed_.notify_all();
  }
  background_.stop();
  if (move::PlanExecutor *plans = movers_.prefetcher.plans(); plans != nullptr) {
    const Locked lock(lock_);
    plans->close();
  }
  return {};
}

Engine::~Engine() {
  background_.stop();  // of an engine that did not start
  release_all();
  for (Region &region : pages_.regions) page::Aliases::drop(region);
}

/// Buffers, then the devices' memory.
void Engine::release_all() noexcept {
  Locked lock(lock_);
  for (uint32_t i = 0; i < pages_.buffers.end(); ++i) {
    if ((pages_.buffers.hot(i).word.load() & Word::alive) == 0) continue;
    Region &region = *pages_.buffers.target(i).region;
    region.holds.count = 0;
    region.holds.to_write = false;
    if (region.host.registered != nullptr) services_.registrar.unregister_memory(lock, region);
    services_.maker.destroy_locked(i);
  }
  for (Region &region : pages_.regions) {
    if (region.is.secret)
      movers_.scrubber.scrub_device(lock, region.id, pages_.regions.generation(region), true);
  }
  lock.unlocked([this] {
    movers_.scrub_turns.finish(true, true);
    pages_.carrier.close();
  });
  for (auto &device : pages_.devices) {
    (void)movers_.idle.give_bounce_back(lock, *device);
    services_.device_maker.release(lock, *device);
  }
}

// ---- clients ----

static_assert(Accounts::devices == page::max_devices &&
              uint32_t{1} << Accounts::storage == page::storage_bit &&
              uint32_t{1} << Accounts::compressed == page::compressed_bit &&
              uint32_t{1} << Accounts::host == page::host_bit);

Status Engine::create_client(const weir_client_desc &desc, uint32_t *id) {
  Locked lock(lock_);
  return pages_.accounts.create_client(desc, id);
}

Status Engine::destroy_client(uint32_t id) {
  Locked lock(lock_);
  return pages_.accounts.destroy_client(id);
}

// ---- who listens ----

Status Engine::listen(EventListener *listener) {
  const Locked lock(lock_);
  return told_.events.listen(listener) ? Status() : fail(WEIR_ERROR_BUSY, "as many listen as can");
}

void Engine::ignore(const EventListener *listener) {
  const Locked lock(lock_);
  told_.events.ignore(listener);
}

// ---- who waits ----

void Engine::wake_all() {
  Locked lock(lock_);
  changed_.notify_all();
}

void Engine::wait_idle() {
  {
    Locked lock(lock_);
    while (!services_.upkeep.idle()) changed_.wait(lock);
    // Slots of HOST whose copies up are still on their way stay charged until these have ended.
    while (const auto busy = pages_.tiers.retired(false)) {
      if (!lock.unlocked([&] { return streams_.wait(busy->one(), UINT64_MAX); })) return;
      (void)pages_.tiers.sweep_retired();
    }
  }
  // So do places in STORAGE that a thread of the pool's is overwriting.
  movers_.scrub_turns.finish(true, true);
}

// ---- who looks ----

Inspector Engine::inspector() noexcept {
  return Inspector(
      {env_, page_, lease_, pages_.carrier, memory_, movers_.losses, movers_.prefetcher.plans()});
}

bool Engine::has_leases(const Stream &stream) noexcept {
  StreamState *state = leases_.states.find(stream.slot);
  return state != nullptr && state->has_leases();
}

}  // namespace weir::pool
