// SPDX-License-Identifier: Apache-2.0
//
// A client from its descriptor, and what it has.

#include "core/base/accounts.hpp"

#include <algorithm>

namespace weir {

Status Accounts::create_client(const weir_client_desc &desc, uint32_t *id) {
  if (desc.priority < WEIR_PRIORITY_LOWEST || desc.priority > WEIR_PRIORITY_HIGHEST)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "priority is %d, not %d..%d", desc.priority,
                WEIR_PRIORITY_LOWEST, WEIR_PRIORITY_HIGHEST);
  std::pmr::memory_resource *const memory = clients_.get_allocator().resource();
  auto fresh = make_owned<Client>(memory, memory);
  fresh->priority = desc.priority;
  fresh->name = kept_name(desc.name);
  const auto quota = [](uint64_t bytes) {
    return Budget(bytes == 0 ? UINT64_MAX : bytes == WEIR_NONE ? 0 : bytes);
  };
  fresh->quotas.fill(quota(desc.device_quota));
  fresh->quotas[host] = quota(desc.host_quota);
  fresh->quotas[compressed] = quota(desc.compressed_quota);
  fresh->quotas[storage] = quota(desc.storage_quota);
  *id = clients();
  clients_.push_back(std::move(fresh));
  ++living_;
  return {};
}

Status Accounts::destroy_client(uint32_t id) {
  Client &client = *clients_[id];
  if (client.buffers == 0) {
    living_ -= client.ended ? 0 : 1;
    client.ended = true;
    return {};
  }
  return fail(WEIR_ERROR_BUSY, "client%s has %u buffers", QuotedName(client.name).c_str(),
              client.buffers);
}

int8_t Accounts::priority(uint32_t client, int32_t wanted) const noexcept {
  return static_cast<int8_t>(std::clamp<int32_t>(wanted + find(client).priority,
                                                 WEIR_PRIORITY_LOWEST, WEIR_PRIORITY_HIGHEST));
}

void Accounts::describe(uint32_t client, weir_client_stats *stats) const noexcept {
  const Client &one = find(client);
  stats->buffers = one.buffers;
  for (uint8_t place = 0; place < devices; ++place) stats->device_bytes += one.quotas[place].used();
  stats->host_bytes = one.quotas[host].used();
  stats->compressed_bytes = one.quotas[compressed].used();
  stats->storage_bytes = one.quotas[storage].used();
}

}  // namespace weir
