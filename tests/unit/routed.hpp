// SPDX-License-Identifier: Apache-2.0
//
// Machines of the host backend in which a copy between two devices has other ways than a direct link, for the tests of the
// copy engine. Copies take as long as a memcpy: only the choice goes by the links.
#pragma once

#include <string>

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "tests/unit/interleaving.hpp"

namespace weir::test {

/// Devices 0 and 1 reach each other over 2 only, or through the host, which is slower.
inline const std::string around_a_corner =
    "host.memory=16M;host.granule=16K;host.granule_large=0;host.devices=3;"
    "host.links=0-1:none:0,0-2:nvlink:50G,1-2:nvlink:50G,h-0:pcie:10G,h-1:pcie:10G,h-2:pcie:10G";
/// Through the host only.
inline const std::string apart =
    "host.memory=16M;host.granule=16K;host.granule_large=0;host.devices=3;"
    "host.links=0-1:none:0,0-2:none:0,1-2:none:0,h-0:pcie:10G,h-1:pcie:10G,h-2:pcie:10G";
/// A direct link, one around a corner, and the host's slots, all of them worth taking. Large pages: copies are split from 8 MiB.
inline const std::string three_ways =
    "host.memory=96M;host.granule=512K;host.granule_large=0;host.devices=3;"
    "host.links=0-1:nvlink:50G,0-2:nvlink:30G,1-2:nvlink:30G,h-0:pcie:25G,h-1:pcie:25G,h-2:pcie:"
    "25G";
inline constexpr uint64_t large_page = uint64_t{512} << 10U;
inline constexpr uint64_t large = 12 * (uint64_t{1} << 20U);
/// The same, all of it an eighth as large, for sweeps: what a position costs is the pages that it touches.
inline const std::string three_small_ways =
    "host.memory=12M;host.granule=64K;host.granule_large=0;host.devices=3;"
    "host.links=0-1:nvlink:2G,0-2:nvlink:1200M,1-2:nvlink:1200M,h-0:pcie:1G,h-1:pcie:1G,h-2:pcie:"
    "1G";
inline constexpr uint64_t small_page = large_page / 8;
inline constexpr uint64_t small_large = large / 8;
inline void split_small(weir_context context) {
  reinterpret_cast<pool::Context *>(context)->split_sizes = {uint64_t{1} << 20U,
                                                             uint64_t{256} << 10U};
}

/// A pool over devices 0, 1 and 2; streams on the first two. `close` is the last line, as of any World.
inline World routed(const std::string &options, uint64_t page = page_bytes,
                    uint64_t device_pages = 40, uint64_t flags = WEIR_POOL_NO_BACKGROUND,
                    weir_backend_query_fn backend = nullptr, const Clock *clock = nullptr) {
  weir_context context = make_context(options.c_str(), backend);
  if (options == three_small_ways) split_small(context);
  if (clock != nullptr) reinterpret_cast<pool::Context *>(context)->clock = clock;
  weir_pool_device devices[3] = {};
  for (uint32_t i = 0; i < 3; ++i) devices[i] = {i, 0, device_pages * page, {0, 0}};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.devices = devices;
  desc.device_count = 3;
  desc.flags = flags;
  desc.host_budget = 64 * page;
  desc.page_size = desc.large_page_size = page;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  World world(context, pool);
  for (uint32_t i = 0; i < 2; ++i) ok(weir_stream_create(context, i, 0, &world.streams[i]));
  return world;
}

inline uint64_t held_on(World &world, uint32_t device) {
  weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
  ok(weir_pool_device_stats_get(world.pool, device, &stats));
  return stats.bytes;
}

}  // namespace weir::test
