// SPDX-License-Identifier: Apache-2.0
//
// Two devices of the host backend whose link is better than the host's, and pools over them: for tests of what neighbours do
// for each other and of devices that come and go.
#pragma once

#include "tests/unit/interleaving.hpp"

#include "tests/unit/fault_sweep.hpp"

#include <string>

namespace weir::test {

inline constexpr const char *fast_peer =
    "host.memory=16M;host.granule=16K;host.granule_large=0;host.devices=2;"
    "host.links=0-1:nvlink:150G,h-0:pcie:16G,h-1:pcie:16G";

/// A pool over the first or both.
inline Setup neighbours(uint64_t device_pages, uint32_t pool_devices = 2,
                        const char *options = fast_peer, uint64_t flags = WEIR_POOL_NO_BACKGROUND) {
  Setup setup;
  setup.options = options;
  setup.device_pages = device_pages;
  setup.devices = 2;
  setup.pool_devices = pool_devices;
  setup.flags = flags;
  return setup;
}

inline weir_pool_device with_pages(weir_device device, uint64_t pages) {
  weir_pool_device entry{};
  entry.device = device;
  entry.budget = pages * page_bytes;
  return entry;
}

inline weir_result add_device(World &world, weir_device device, uint64_t pages) {
  const weir_pool_device entry = with_pages(device, pages);
  return weir_pool_add_device(world.pool, &entry);
}

/// For a sweep: a context of the two, and a pool over the first or both of them, of 12 pages each.
inline void open_neighbours(Subject *subject, Balance *balance, uint32_t pool_devices) {
  subject->open_context(balance, fast_peer);
  const weir_pool_device devices[] = {with_pages(0, 12), with_pages(1, 12)};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = pool_devices;
  desc.devices = devices;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = 32 * page_bytes;
  desc.page_size = desc.large_page_size = page_bytes;
  subject->open_pool(desc);
}

}  // namespace weir::test
