// SPDX-License-Identifier: Apache-2.0
//
// What a pool is made with, and what one acquire may ask for. Read from the C ABI's descriptors, with every default
// filled in (core/pool/pool.cpp).
#pragma once

#include "core/backend/runtime.hpp"
#include "core/base/clock.hpp"
#include "core/base/numa.hpp"
#include "core/base/stacks.hpp"
#include "core/page/device_memory.hpp"
#include "core/tier/cold_tiers.hpp"
#include "core/transfer/paths.hpp"

#include <atomic>
#include <string>
#include <vector>

namespace weir::page {

struct EngineConfig {
  struct DeviceBudget {
    const backend::Device *device;
    uint64_t budget;
    uint32_t node = UINT32_MAX;  ///< NUMA node; UINT32_MAX: unknown
  };
  std::pmr::vector<DeviceBudget> devices;
  transfer::Routes routes;  ///< of the devices, by position
  transfer::SplitSizes split_sizes;
  numa::Nodes nodes;     ///< of the system
  bool no_peer = false;  ///< pages do not go to neighbours to make room
  /// The tier HOST.
  struct Host {
    uint64_t budget = 0;
    bool follows = false;     ///< the budget is what the machine has to spare
    std::string memory_root;  ///< of the files that tell what that is; tests have their own
    bool checksum = false;
  } host;
  /// What the memory of every device is made with; its budget and addresses are its own.
  DeviceMemory::Terms memory{.watermark_low = 10, .watermark_high = 30};
  uint64_t record_budget = UINT64_MAX;  ///< what the records may come to for buffers to be made
  /// How long idle memory stays; UINT64_MAX: until a trim. Ten seconds outlast the pause between two steps, batches or
  /// requests of a program at work, and are little to whoever waits for the memory.
  uint64_t idle_grace_ns = 10'000'000'000;
  uint64_t evict_wait_ns = 10'000'000'000;
  const char *policy = "lru-window";
  bool plans = false;  ///< the policy carries out plans of what is to come
  /// What streams acquire is logged for who learns from it (core/lease/use_log.hpp).
  struct Learning {
    bool on = false;                        ///< not without `background`
    uint64_t memory = uint64_t{32} << 20U;  ///< for what is learned, of all devices
    uint32_t cpu_percent = 100;             ///< of one CPU, to learn and plan; 100: no limit
  } learning;
  bool background = true;
  uint32_t pool_id = 0;
  const Stacks *stacks = nullptr;  ///< by which calls buffers were made; nullptr: that is not kept
  const Clock *clock = nullptr;    ///< a test's; from the start on the pool's
  /// The tiers below HOST, without their staging, which the start sets up.
  tier::ColdTiers::Config below;
  /// How long a page lies unused in COMPRESSED before it is coded again, densely; UINT64_MAX: for good.
  uint64_t recompress_idle_ns = 10'000'000'000;
  /// Bytes a second that go from lower tiers to neighbours with memory to spare, in the background; 0: none.
  uint64_t rebalance_rate = uint64_t{1} << 30U;
};

struct AcquireOptions {
  uint64_t timeout_ns = 0;
  const std::atomic<bool> *cancelled = nullptr;
  uint32_t operation = 0;  ///< its number (lease/operation_names.hpp); 0: it has none
};

}  // namespace weir::page
