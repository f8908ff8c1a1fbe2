// SPDX-License-Identifier: Apache-2.0
//
// An engine's beginning and end, clients, trim, and who looks.

#include "core/base/signals.hpp"
#include "core/residency/membership.hpp"
#include "core/residency/scrub.hpp"

#include <algorithm>
#include <system_error>

namespace weir::residency {
namespace {

/// Beyond this no more address space is reserved at once.
constexpr uint64_t most_promised = uint64_t{1} << 48U;

}  // namespace

/// A device as its policy sees it.
class Engine::DeviceView final : public View {
 public:
  DeviceView(Engine &engine, const PoolDevice &device) noexcept
      : engine_(engine), device_(device) {}
  bool describe(const PageRef &ref, PageInfo *info) WEIR_HELD override {
    if (!knows(ref)) return false;
    Region &region = engine_.regions_.at(ref.region);
    Residence *here = region.on(device_.place);
    const Page &copies = region.pages[ref.page];
    info->bytes = region.shape.charged_bytes(ref.page);
    info->priority = region.priority;
    info->dirty = (copies.latest() & device_.bit()) != 0 && (copies.latest() & ~device_.bit()) == 0;
    const bool idle = region.idle(ref.page);
    const bool borrowed = here->pages[ref.page].borrowed && !idle;
    info->borrowed = borrowed;
    info->disposable = idle || borrowed;
    info->dead_since = borrowed      ? PageInfo::lives
                       : region.slab ? region.tenants->pages[ref.page].idle_since
                                     : region.dead_since;
    if (region.slab && !idle) region.tenants->pages[ref.page].told = false;
    info->cold = region.cold || copies.latest() == 0 || (copies.latest() & device_.bit()) == 0;
    info->client = region.client;
    const bool spare = copies.busy == 0 && engine_.is_spare(region, ref.page, *here);
    info->evictable = spare || !engine_.leases_.in_use(region, ref.page, device_.place);
    engine_.uses_.describe(region, info);
    engine_.prefetcher_.describe(region, ref.page, device_.place, info);
    return true;
  }
  bool knows(const PageRef &ref) noexcept WEIR_HELD override {
    Region *region = engine_.regions_.find(ref.region, ref.generation);
    const Residence *here = region != nullptr ? region->on(device_.place) : nullptr;
    // One on the move is no victim, but it may be here again, and nobody tells of it then: it is not to be forgotten.
    return here != nullptr && here->pages[ref.page].state() != PageState::absent;
  }
  uint64_t now() const override { return engine_.ticks_.now(); }

 private:
  Engine &engine_;
  const PoolDevice &device_;
};

Engine::Engine(std::pmr::memory_resource *memory, backend::StreamTable &streams, Ticks &ticks,
               uint32_t pool_id, const Log &log)
    : memory_(memory),
      streams_(streams),
      ticks_(ticks),
      log_(log),
      lock_(log),
      regions_(&memory_, this),
      places_(&memory_),
      buffers_(regions_, &memory_, pool_id),
      devices_(&memory_),
      carrier_(streams_),
      accounts_(&memory_),
      history_(&memory_, streams_, buffers_),
      leases_(&memory_, buffers_),
      remote_writes_(&memory_, streams_),
      doubts_(&memory_),
      slabs_(regions_, accounts_, &memory_),
      prefetcher_(
          &memory_, sync(),
          {{devices_, regions_, places_, buffers_, accounts_, uses_, gauges_, config_.routes},
           states_,
           ticks_,
           scrub_turns_},
          *this),
      uses_(buffers_, prefetcher_.announcements()),
      host_view_(vm::host_bit, tiers_, leases_, uses_, ticks_),
      compressed_view_(vm::compressed_bit, tiers_, leases_, uses_, ticks_),
      tiers_(&memory_, {regions_, places_, buffers_, accounts_, gauges_}, cold_, scrub_turns_,
             streams_, ticks_),
      cold_(&memory_, accounts_),
      demoter_(&memory_, sync(), cold_, tiers_, regions_, events_, scrub_turns_),
      host_room_(&memory_, sync(), cold_, tiers_, leases_, demoter_, streams_),
      states_(&memory_),
      relocator_(&memory_, sync(), {regions_, places_, buffers_, slabs_, tiers_, history_, leases_},
                 devices_, streams_, events_, scrub_turns_, *this),
      scrub_turns_(lock_, *this) {
  config_.pool_id = pool_id;
}

Status Engine::start(EngineConfig config) {
  config_ = std::move(config);
  {
    const Locked lock(lock_);
    paths_.find(config_.routes, config_.split_sizes);
    idle_scan_.start(config_.idle_grace_ns);
  }
  if (config_.clock != nullptr) clock_ = config_.clock;
  if (config_.host_follows) {
    host_room_.follow(config_.memory_root);
    const int64_t spare = move::HostRoom::spare_memory(config_.memory_root);
    config_.host_budget = static_cast<uint64_t>(std::max<int64_t>(spare, 0));
  }
  std::pmr::vector<backend::Runtime *> runtimes(&memory_);
  bool registrable = true;
  WEIR_TRY(choose_pages());
  devices_.reserve(vm::max_devices);
  config_.devices.reserve(vm::max_devices);
  for (const EngineConfig::DeviceBudget &budget : config_.devices) {
    Owned<PoolDevice> fresh;
    WEIR_TRY(make_device(budget, static_cast<uint8_t>(devices_.size()), &fresh));
    devices_.push_back(std::move(fresh));
    if (std::find(runtimes.begin(), runtimes.end(), budget.device->runtime) == runtimes.end())
      runtimes.push_back(budget.device->runtime);
    registrable = registrable && budget.device->has(WEIR_CAP_HOST_REGISTER);
  }
  {
    const Locked lock(lock_);
    for (const auto &device : devices_) places_.open(device->place);
    Membership(*this).tell_peers();
  }
  node_ = common_node();
  relay_.start(config_.nodes, node_);
  if (runtimes.size() > 1)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "a pool over devices of several backends is not supported");
  backend::Runtime &runtime = *runtimes.front();
  WEIR_TRY(start_cold_tiers(runtime));
  tiers_.open(make_owned<tier::HostStore>(&memory_, &memory_, config_.host_budget,
                                          std::move(runtimes), registrable, config_.nodes, log_));
  prefetcher_.start(config_, *clock_);
  warn_of_integrated();
  for (const EngineConfig::DeviceBudget &entry : config_.devices)
    warn_of_budget(*entry.device, entry.budget);
  if (memory_.bytes() >= config_.record_budget)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "record_budget is %llu, and the pool's records take %llu bytes without any buffer",
                llu(config_.record_budget), llu(memory_.bytes()));
  uint32_t own = 0;
  WEIR_TRY(create_client(weir_client_desc WEIR_CLIENT_DESC_INIT, &own));
  if (!config_.background) return {};
  try {
    const SignalsBlocked blocked;
    const auto near = [this, node = node_](void (Engine::*loop)()) {
      return std::thread([this, loop, node] {
        (void)numa::stay_on(config_.nodes, node);
        (this->*loop)();
      });
    };
    evictor_ = near(&Engine::evictor_loop);
    prefetcher_.run_in_background(cold_.storage() != nullptr, config_.nodes, node_);
    if (recompressor_ != nullptr) recompressor_->run_in_background();
    if (cold_.any() || config_.host_follows) demoting_ = near(&Engine::demoter_loop);
  } catch (const std::system_error &error) {
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "cannot start a background thread: %s",
                error.what());
  }
  return {};
}

/// With all it needs, and known to nobody yet.
Status Engine::make_device(const EngineConfig::DeviceBudget &budget, uint8_t place,
                           Owned<PoolDevice> *out) {
  const backend::Device &device = *budget.device;
  WEIR_TRY(check_device_budget(device, budget.budget));
  // A guess at what will be used: any of these may be without a limit.
  uint64_t promised = 0;
  for (const uint64_t bytes : {budget.budget, config_.host_budget, config_.compressed_budget,
                               config_.compressed_budget, config_.storage.budget})
    promised = std::min(promised + std::min(bytes, most_promised), most_promised);
  page::DeviceMemory::Terms terms{config_.page_size, config_.large_page_size, budget.budget};
  terms.segment_size = config_.segment_size;
  terms.addresses = promised;
  terms.watermark_low = config_.watermark_low;
  terms.watermark_high = config_.watermark_high;
  Owned<PoolDevice> fresh = make_owned<PoolDevice>(&memory_, place, device, terms, &memory_);
  fresh->node = budget.node;
  fresh->bounce = make_owned<transfer::Bounce>(&memory_, device, fresh->memory.granules(),
                                               fresh->memory.mapper());
  fresh->view = adopt_as<View>(make_owned<DeviceView>(&memory_, *this, *fresh));
  fresh->policy = make_policy(config_.policy, *fresh->view, &memory_);
  if (fresh->policy == nullptr)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "there is no policy \"%s\"", config_.policy);
  fresh->memory.mapper().stay_near(config_.nodes, fresh->node);
  WEIR_TRY(fresh->memory.mapper().start());
  WEIR_TRY(fresh->streams.open(streams_, device, this));
  *out = std::move(fresh);
  return {};
}

uint8_t Engine::device_count() noexcept {
  Locked lock(lock_);
  return static_cast<uint8_t>(devices_.size());
}

Status Engine::shutdown() {
  {
    Locked lock(lock_);
    if (buffers_.addresses() != 0)
      return fail(WEIR_ERROR_BUSY, "%zu allocations of weir_malloc are out", buffers_.addresses());
    for (uint32_t i = 0; i < buffers_.end(); ++i) {
      const uint64_t word = buffers_.hot(i).word.load();
      if ((word & Word::alive) != 0 && (Word::leases(word) != 0 || (word & Word::partial) != 0))
        return fail(WEIR_ERROR_BUSY, "a buffer of the pool has unreleased leases");
    }
    for (const auto &device : devices_) {
      if (device->leaving())
        return fail(WEIR_ERROR_BUSY, "device %u is being removed from the pool", device->device.id);
    }
    lock_.stop();
    work_.notify_all();
    if (recompressor_ != nullptr) recompressor_->wake();
    changed_.notify_all();
  }
  for (std::thread *thread : {&evictor_, &demoting_})
    if (thread->joinable()) thread->join();
  prefetcher_.join();
  if (recompressor_ != nullptr) recompressor_->join();
  return {};
}

Engine::~Engine() {
  if (evictor_.joinable()) (void)shutdown();  // it is the first thread to be started
  release_all();
  for (Region &region : regions_) page::Aliases::drop(region);
}

/// Buffers, then the devices' memory.
void Engine::release_all() noexcept {
  Locked lock(lock_);
  for (uint32_t i = 0; i < buffers_.end(); ++i) {
    if ((buffers_.hot(i).word.load() & Word::alive) == 0) continue;
    Region &region = *buffers_.target(i).region;
    region.holds = 0;
    region.held_to_write = false;
    if (region.registered != nullptr) unregister_memory(lock, region);
    destroy_locked(i);
  }
  for (Region &region : regions_) {
    if (region.scrub) scrub_device(lock, region.id, regions_.generation(region), true);
  }
  lock.unlocked([this] {
    scrub_turns_.finish(true, true);
    carrier_.close();
  });
  for (auto &device : devices_) {
    (void)give_bounce_back(lock, *device);
    release_device(lock, *device);
  }
}

/// Takes every page off a device that is being let go of, whatever fails: fences, unmap, granules.
void Engine::release_device(Releasable &lock, PoolDevice &device) noexcept {
  device.streams.drain();
  (void)relocator_.sweep_limbo(device);
  if (!device.limbo.empty()) {
    device.streams.drain();  // of what had to be overwritten
    (void)relocator_.sweep_limbo(device);
  }
  for (Region &region : regions_) {
    Residence *here = region.on(device.place);
    if (here == nullptr) continue;
    for (uint32_t p = 0; p < here->pages.size(); ++p) {
      DevicePage &state = here->pages[p];
      if (state.granule == physical::no_granule) continue;
      history_.await_places(region, config_.evict_wait_ns);
      (void)device.memory.unmap(granule_address(region, *here, p), region.shape.granule_bytes(p),
                                device.memory.mapping_of(region, p));
      if (device.memory.leave(region, p)) device.memory.granules().release(state.granule);
      state.granule = physical::no_granule;
    }
    if (here->range && device.vmm()) device.memory.addresses().free(here->range);
  }
  lock.unlocked([&] { device.streams.close(streams_); });
}

// ---- clients ----

static_assert(Accounts::devices == vm::max_devices &&
              uint32_t{1} << Accounts::storage == vm::storage_bit &&
              uint32_t{1} << Accounts::compressed == vm::compressed_bit &&
              uint32_t{1} << Accounts::host == vm::host_bit);

Status Engine::create_client(const weir_client_desc &desc, uint32_t *id) {
  Locked lock(lock_);
  return accounts_.create_client(desc, id);
}

Status Engine::destroy_client(uint32_t id) {
  Locked lock(lock_);
  return accounts_.destroy_client(id);
}

// ---- trim, who listens ----

Status Engine::trim(uint32_t device_id, uint32_t level, uint64_t bytes, uint64_t *freed) {
  *freed = 0;
  if (level > WEIR_TRIM_EMERGENCY) return fail(WEIR_ERROR_INVALID_ARGUMENT, "level is %u", level);
  const Scrubbing scrubbing(*this, true);
  Locked lock(lock_);
  if (device_id == WEIR_DEVICE_HOST) {
    while (level != WEIR_TRIM_GRADUAL && demoter_.working()) demoter_.await_change(lock);
    host_room_.give_chunks_back(lock, bytes, freed);
    const uint64_t held = tiers_.host().held();
    if (*freed < bytes && level != WEIR_TRIM_GRADUAL) (void)host_room_.shrink(lock, bytes - *freed);
    *freed += held - std::min(held, tiers_.host().held());
    if (cold_.compressed() != nullptr) (void)cold_.compressed()->trim();
    const uint64_t pinned = carrier_.pinned_bytes();
    if (level == WEIR_TRIM_EMERGENCY && pinned != 0) {
      const uint64_t wait_ns = config_.evict_wait_ns;
      if (lock.unlocked([&] { return carrier_.close_pinned(wait_ns); })) *freed += pinned;
    }
    return {};
  }
  uint8_t place = 0;
  WEIR_TRY(place_of(device_id, &place));
  PoolDevice &device = *devices_[place];
  Status why;
  while (level != WEIR_TRIM_GRADUAL && relocator_.await_limbo(lock, device)) {
  }
  if (level == WEIR_TRIM_EMERGENCY) (void)give_bounce_back(lock, device);
  for (uint32_t barren = 0; *freed < bytes && barren < 2 && !device.lost();) {
    *freed += give_idle(lock, device, bytes - *freed);
    if (*freed >= bytes) break;
    std::pmr::vector<PageRef> victims(&memory_);
    device.policy->choose({.bytes = bytes - *freed, .clean_only = level == WEIR_TRIM_GRADUAL},
                          &victims);
    if (victims.empty()) break;
    if (evict(lock, device, victims, false, &why) == 0) ++barren;
  }
  if (level == WEIR_TRIM_EMERGENCY) {
    uint64_t spare = 0;
    host_room_.give_chunks_back(lock, UINT64_MAX, &spare);
    if (cold_.compressed() != nullptr) (void)cold_.compressed()->trim();
  }
  return {};
}

Status Engine::listen(EventRing *ring) {
  const Locked lock(lock_);
  return events_.listen(ring) ? Status() : fail(WEIR_ERROR_BUSY, "as many listen as can");
}

void Engine::ignore(const EventRing *ring) {
  const Locked lock(lock_);
  events_.ignore(ring);
}

Status Engine::reset_peak(uint32_t device_id) {
  Locked lock(lock_);
  uint8_t place = 0;
  WEIR_TRY(place_of(device_id, &place));
  devices_[place]->memory.granules().reset_peak();
  return {};
}

// ---- who looks ----

Inspector Engine::inspector() noexcept {
  return Inspector({lock_, *this, devices_, regions_, places_, buffers_, slabs_, leases_, tiers_,
                    cold_, gauges_, events_, accounts_, carrier_, states_, memory_, generation_});
}

bool Engine::has_leases(const Stream &stream) noexcept {
  StreamState *state = states_.find(stream.slot);
  return state != nullptr && state->has_leases();
}

}  // namespace weir::residency
