// SPDX-License-Identifier: Apache-2.0
//
// Reads the pool through the calls that programs have, so that the picture follows the same rules as any caller's.

#include "core/pool/snapshot.hpp"

#include "core/base/name.hpp"
#include "core/base/stacks.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <string>

namespace weir::pool {

std::string snapshot(const Inspector &pool, const char *name) {
  nlohmann::ordered_json document;
  document["pool"] = shown(name);
  weir_pool_stats stats{};
  pool.stats(&stats);
  auto &counters = document["stats"];
#define WEIR_FIELD(field, meaning) counters[#field] = stats.field;
  WEIR_POOL_STATS_FIELDS(WEIR_FIELD)
#undef WEIR_FIELD
#define WEIR_OF(field) \
  { #field, of.field }
  auto &devices = document["devices"] = nlohmann::ordered_json::array();
  pool.for_each_device([&devices](const weir_pool_device_stats &of) {
    devices.push_back({WEIR_OF(device), WEIR_OF(budget), WEIR_OF(bytes), WEIR_OF(free_bytes),
                       WEIR_OF(held_bytes), WEIR_OF(page_size), WEIR_OF(large_page_size),
                       WEIR_OF(peak_bytes), WEIR_OF(segments), WEIR_OF(returned_bytes),
                       WEIR_OF(memory_total)});
  });
  auto &clients = document["clients"] = nlohmann::ordered_json::array();
  pool.for_each_client([&clients](const char *client, const weir_client_stats &of) {
    clients.push_back({{"name", shown(client)},
                       WEIR_OF(buffers),
                       WEIR_OF(device_bytes),
                       WEIR_OF(host_bytes),
                       WEIR_OF(compressed_bytes),
                       WEIR_OF(storage_bytes)});
  });
  std::set<uint32_t> stacks;  // that buffers have
  auto &buffers = document["buffers"] = nlohmann::ordered_json::array();
  pool.for_each_buffer([&](const BufferSight &sight) {
    const weir_buffer_info &of = sight.info;
    nlohmann::ordered_json &one = buffers.emplace_back();
    if (!sight.name.empty()) one["name"] = shown(sight.name);
    if (sight.allocation) one["allocation"] = true;  // of weir_malloc
    one["client"] = sight.client;                    // its position above
    if (sight.stack != 0) one["stack"] = *stacks.insert(sight.stack).first;
    one.update({WEIR_OF(size), WEIR_OF(tag), WEIR_OF(home), WEIR_OF(device_bytes),
                WEIR_OF(peer_bytes), WEIR_OF(host_bytes), WEIR_OF(compressed_bytes),
                WEIR_OF(storage_bytes), WEIR_OF(both_bytes), WEIR_OF(unwritten_bytes),
                WEIR_OF(lost_bytes), WEIR_OF(leases), WEIR_OF(held), WEIR_OF(priority),
                WEIR_OF(pages)});
  });
#undef WEIR_OF
  if (!stacks.empty() || pool.dropped_stacks() != 0) {
    std::map<std::string, std::string> modules;  // their builds, by path
    auto &lists = document["stacks"] = nlohmann::ordered_json::object();
    for (const uint32_t number : stacks) {
      auto &lines = lists[std::to_string(number)] = nlohmann::ordered_json::array();
      for (void *const frame : pool.stack(number)) {
        const FrameSight sight = look_up_frame(frame);
        lines.push_back(shown(sight.line));
        if (!sight.file.empty()) modules[sight.file] = sight.build_id;
      }
    }
    auto &files = document["modules"] = nlohmann::ordered_json::array();
    for (const auto &[file, build_id] : modules)
      files.push_back({{"path", shown(file)}, {"build_id", build_id}});
    document["dropped_stacks"] = pool.dropped_stacks();
  }
  return document.dump(1, ' ');  // every name has been made text
}

}  // namespace weir::pool
