// SPDX-License-Identifier: Apache-2.0
//
// Reads the engine through its own calls, so that the picture follows the same rules as any caller's.

#include "core/observe/snapshot.hpp"

#include <nlohmann/json.hpp>

namespace weir::observe {

std::string snapshot(residency::Engine &engine, const char *name) {
  nlohmann::ordered_json document;
  document["pool"] = name;
  weir_pool_stats stats{};
  engine.stats(&stats);
  auto &counters = document["stats"];
#define WEIR_FIELD(field, meaning) counters[#field] = stats.field;
  WEIR_POOL_STATS_FIELDS(WEIR_FIELD)
#undef WEIR_FIELD
  auto &devices = document["devices"] = nlohmann::ordered_json::array();
  engine.for_each_device([&devices](const weir_pool_device_stats &device) {
    devices.push_back({{"device", device.device},
                       {"budget", device.budget},
                       {"bytes", device.bytes},
                       {"free_bytes", device.free_bytes},
                       {"held_bytes", device.held_bytes},
                       {"page_size", device.page_size},
                       {"large_page_size", device.large_page_size},
                       {"peak_bytes", device.peak_bytes},
                       {"segments", device.segments},
                       {"returned_bytes", device.returned_bytes},
                       {"memory_total", device.memory_total}});
  });
  auto &clients = document["clients"] = nlohmann::ordered_json::array();
  engine.for_each_client([&clients](const char *client, const weir_client_stats &held) {
    clients.push_back({{"name", client},
                       {"buffers", held.buffers},
                       {"device_bytes", held.device_bytes},
                       {"host_bytes", held.host_bytes},
                       {"compressed_bytes", held.compressed_bytes},
                       {"storage_bytes", held.storage_bytes}});
  });
  auto &buffers = document["buffers"] = nlohmann::ordered_json::array();
  engine.for_each_buffer([&buffers](const weir_buffer_info &buffer) {
    buffers.push_back({{"size", buffer.size},
                       {"tag", buffer.tag},
                       {"home", buffer.home},
                       {"device_bytes", buffer.device_bytes},
                       {"peer_bytes", buffer.peer_bytes},
                       {"host_bytes", buffer.host_bytes},
                       {"compressed_bytes", buffer.compressed_bytes},
                       {"storage_bytes", buffer.storage_bytes},
                       {"both_bytes", buffer.both_bytes},
                       {"unwritten_bytes", buffer.unwritten_bytes},
                       {"lost_bytes", buffer.lost_bytes},
                       {"leases", buffer.leases},
                       {"held", buffer.held},
                       {"priority", buffer.priority},
                       {"pages", buffer.pages}});
  });
  return document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace weir::observe
