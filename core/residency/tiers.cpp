// SPDX-License-Identifier: Apache-2.0
//
// The tiers as a whole: set up with the pool, and kept with some room by the demoter's thread, which also makes HOST's budget follow
// what the machine has to spare. All of it is background work: a caller that needs room makes it himself (move/host_room.hpp).

#include "core/residency/plan.hpp"

#include <algorithm>

namespace weir::residency {

Status Engine::start_cold_tiers(backend::Runtime &runtime) {
  constexpr uint64_t mib = uint64_t{1} << 20U;
  if (config_.compressed_budget == 0 && config_.storage.budget == 0) return {};
  // A page goes in parts, so that staging stays small: one part where pages are of usual size.
  uint64_t part = 0;
  for (const auto &device : devices_) {
    const page::DeviceMemory &memory = device->memory;
    const uint64_t most = memory.vmm() ? 32 * mib : 4 * mib;
    const uint64_t page = memory.vmm() ? memory.large_page_size() : memory.budget();
    part = std::max(part, tier::UnitArena::rounded(std::min(page, most)));
  }
  const bool no_host = config_.host_budget == 0 && !config_.host_follows;
  const uint64_t share = no_host || config_.host_follows ? 4 : config_.host_budget / 16 / part;
  const auto slots =
      static_cast<uint32_t>(std::clamp<uint64_t>(share, 2, tier::Staging::max_slots));
  if (!no_host && !config_.host_follows && config_.host_budget < slots * part + part)
    return fail(
        WEIR_ERROR_INVALID_ARGUMENT,
        "host_budget is %llu: with tiers below HOST it takes %llu, of which %llu for staging",
        llu(config_.host_budget), llu(slots * part + part), llu(slots * part));
  tier::ColdTiers::Config config;
  config.compressed = config_.compressed_budget;
  config.storage = std::move(config_.storage);
  config.codec = config_.codec;
  config.threads = config_.background ? config_.compress_threads : 0;
  config.share = config_.compress_share;
  config.staging_slots = slots;
  config.part_bytes = part;
  config.nodes = &config_.nodes;
  config.node = node_;
  WEIR_TRY(cold_.start(std::move(config), runtime, streams_, *clock_, log_));
  if (!no_host && !config_.host_follows) config_.host_budget -= cold_.staging().bytes();
  Owned<Policy> compressed_order;
  if (cold_.compressed() != nullptr) {
    compressed_order = make_policy(config_.policy, compressed_view_, &memory_);
    // A method that was asked for by name is not to be left for another.
    if (config_.recompress_idle_ns != UINT64_MAX && config_.codec == tier::CodecChoice::automatic) {
      const Locked lock(lock_);  // for nobody yet
      recompressor_ = make_owned<move::Recompressor>(&memory_, &memory_, sync(), cold_, tiers_,
                                                     regions_, uses_, events_, *clock_);
      WEIR_TRY(recompressor_->start(config_.recompress_idle_ns));
    }
  }
  WEIR_TRY(demoter_.start(recompressor_.get()));
  const Locked lock(lock_);
  tiers_.set_orders(make_policy(config_.policy, host_view_, &memory_), std::move(compressed_order));
  return {};
}

void Engine::look_at_compressed() {
  Locked lock(lock_);
  if (recompressor_ != nullptr) (void)recompressor_->work(lock);
}

void Engine::look_at_memory() {
  Locked lock(lock_);
  host_room_.look_now();
  host_room_.follow_memory(lock, now_ns());
}

void Engine::demoter_loop() {
  Locked lock(lock_);
  while (!lock_.stopping()) {
    scrub_turns_.finish_behind(lock);
    bool worked = false;
    if_memory([&]() WEIR_HELD {
      host_room_.follow_memory(lock, now_ns());
      worked = host_room_.keep_free(lock, *clock_) || demoter_.keep_compressed_free(lock, *clock_);
    });
    if (worked || lock_.stopping()) continue;
    const uint64_t now = now_ns(), retry = demoter_.retry_at_ns();
    const uint64_t rest = retry > now ? retry - now : UINT64_MAX;
    sync().await_work(lock, config_.host_follows ? move::HostRoom::look_every_ns : rest);
  }
}

}  // namespace weir::residency
