// SPDX-License-Identifier: Apache-2.0
//
// What lines make, and what they are of.
#include "tools/weir/recorded/program_things.hpp"

#include <weir/weir.h>

#include <algorithm>

namespace weir::tool::recorded {
namespace {

constexpr size_t most_contexts = 64;
constexpr size_t most_pools = 4096;
constexpr size_t most_devices = 4096;     // lines
constexpr size_t most_pool_devices = 28;  // weir/pool.h

}  // namespace

ProgramThings::ProgramThings(const CallReader &reader, const Call &call, Program &program)
    : reader_(reader), call_(call), program_(program) {
  program_.names.emplace_back();
  name_index_.emplace("", 0);
}

void ProgramThings::end_stream(uint64_t number, uint32_t stream) {
  if (leases_of_[stream] != 0) refuse("the stream has leases that are held");
  streams_.remove(number);
}

ProgramCall &ProgramThings::add() {
  ProgramCall &call = program_.calls.emplace_back();
  call.kind = call_.kind;
  call.line = reader_.line_number();
  return call;
}

uint32_t ProgramThings::intern(const std::string &text) {
  const auto [entry, fresh] =
      name_index_.try_emplace(text, static_cast<uint32_t>(program_.names.size()));
  if (fresh) program_.names.push_back(text);
  return entry->second;
}

uint32_t ProgramThings::context(uint64_t number) {
  const auto [entry, fresh] =
      contexts_.try_emplace(number, static_cast<uint32_t>(contexts_.size()));
  if (fresh && contexts_.size() > most_contexts) refuse("more than 64 contexts");
  return entry->second;
}

void ProgramThings::device() {
  if (program_.devices.size() == most_devices) refuse("more than 4096 devices");
  ProgramDevice device;
  device.context = context(call_.fields[0]);
  device.device = static_cast<uint32_t>(call_.fields[1]);
  device.backend = reader_.text(call_, "backend");
  device.name = reader_.text(call_, "name");
  device.memory = reader_.number(call_, "memory");
  device.granule = reader_.number(call_, "granule");
  device.capabilities = reader_.number(call_, "capabilities");
  program_.devices.push_back(std::move(device));
}

void ProgramThings::link() {
  if (program_.links.size() == most_devices) refuse("more than 4096 links");
  ProgramLink link;
  link.context = context(call_.fields[0]);
  link.from = call_.fields[1];
  link.to = call_.fields[2];
  link.kind = reader_.text(call_, "kind");
  link.bandwidth = reader_.number(call_, "bandwidth");
  link.latency_ns = reader_.number(call_, "latency_ns");
  program_.links.push_back(std::move(link));
}

void ProgramThings::pool() {
  const uint32_t found = pool_index_.find(call_.fields[0]);
  if (found != no_thing && !pools_[found].ended) refuse("this pool is there already");
  if (pools_.size() == most_pools) refuse("more than 4096 pools");
  ProgramPool pool;
  pool.context = context(call_.fields[1]);
  pool.name = reader_.text(call_, "name");
  pool.policy = reader_.text(call_, "policy");
  pool.codec = reader_.text(call_, "codec");
#define WEIR_FIELD(field) pool.field = reader_.number(call_, #field)
  WEIR_FIELD(flags);
  WEIR_FIELD(host_budget);
  WEIR_FIELD(page_size);
  WEIR_FIELD(large_page_size);
  WEIR_FIELD(segment_size);
  WEIR_FIELD(compressed_budget);
  WEIR_FIELD(storage_budget);
  WEIR_FIELD(storage_path_count);
  WEIR_FIELD(record_budget);
  WEIR_FIELD(policy_memory);
  WEIR_FIELD(policy_cpu_percent);
  WEIR_FIELD(watermark_low_permille);
  WEIR_FIELD(watermark_high_permille);
  WEIR_FIELD(evict_wait_ns);
  WEIR_FIELD(compress_threads);
  WEIR_FIELD(compress_share_percent);
  WEIR_FIELD(idle_grace_ns);
  WEIR_FIELD(recompress_idle_ns);
  WEIR_FIELD(rebalance_bytes_per_second);
#undef WEIR_FIELD
  const auto index = static_cast<uint32_t>(pools_.size());
  pool_index_.set(call_.fields[0], index);
  pools_.emplace_back();
  program_.pools.push_back(std::move(pool));
  add().thing = index;
}

void ProgramThings::pool_device() {
  const uint32_t index = pool_of(call_.fields[0]);
  PoolState &state = pools_[index];
  if (call_.kind == CallKind::remove_device || state.made) {
    ProgramCall &call = add();
    call.pool = index;
    call.device = call_.fields[1];
    call.length = call_.kind == CallKind::pool_device ? call_.fields[2] : 0;
    return;
  }
  std::vector<std::pair<uint32_t, uint64_t>> &devices = program_.pools[index].devices;
  if (call_.fields[1] >= WEIR_DEVICE_ANY) refuse("a pool has no such device");
  if (devices.size() == most_pool_devices) refuse("a pool of more than 28 devices");
  devices.emplace_back(static_cast<uint32_t>(call_.fields[1]), call_.fields[2]);
}

/// Any other call of the pool ends the list of devices that it is made with.
uint32_t ProgramThings::pool_of(uint64_t number) {
  const uint32_t index = pool_index_.find(number);
  if (index == no_thing || pools_[index].ended) refuse("there is no such pool");
  if (call_.kind != CallKind::pool_device) {
    if (program_.pools[index].devices.empty()) refuse("the pool has no device");
    pools_[index].made = true;
  }
  return index;
}

void ProgramThings::client() {
  ProgramClient client;
  client.pool = pool_of(call_.fields[1]);
  const uint32_t found = clients_.find(call_.fields[0]);
  if (found != no_thing && !pools_[program_.clients[found].pool].ended)
    refuse("this client is there already");
  client.name = reader_.text(call_, "name");
  client.priority = priority(reader_.signed_number(call_, "priority"));
  client.device_quota = reader_.number(call_, "device_quota");
  client.host_quota = reader_.number(call_, "host_quota");
  client.compressed_quota = reader_.number(call_, "compressed_quota");
  client.storage_quota = reader_.number(call_, "storage_quota");
  add().thing = static_cast<uint32_t>(program_.clients.size());
  clients_.set(call_.fields[0], static_cast<uint32_t>(program_.clients.size()));
  program_.clients.push_back(std::move(client));
}

int32_t ProgramThings::priority(int64_t number) const {
  if (number < WEIR_PRIORITY_LOWEST || number > WEIR_PRIORITY_HIGHEST)
    refuse("a priority is from -2 to 2");
  return static_cast<int32_t>(number);
}

void ProgramThings::stream() {
  if (streams_.has(call_.fields[0])) refuse("this stream is there already");
  add().thing = static_cast<uint32_t>(program_.streams.size());
  streams_.set(call_.fields[0], static_cast<uint32_t>(program_.streams.size()));
  program_.streams.push_back({context(call_.fields[1]), call_.fields[2]});
  leases_of_.push_back(0);
}

uint32_t ProgramThings::stream_of(uint64_t number) const {
  const uint32_t index = streams_.find(number);
  if (index == no_thing) refuse("there is no such stream");
  return index;
}

void ProgramThings::code_file() {
  program_.code_files.try_emplace(call_.fields[0],
                                  CodeFile{call_.text, reader_.text(call_, "build_id")});
}

/// Told twice, as two threads may, it is the same.
void ProgramThings::stack() {
  std::string &frames = program_.stacks[stack_of(call_.fields[0])];
  if (frames.empty()) frames = call_.text;
}

uint32_t ProgramThings::stack_of(uint64_t number) {
  if (number == 0) return no_thing;
  const uint32_t found = stacks_.find(number);
  if (found != no_thing) return found;
  stacks_.set(number, static_cast<uint32_t>(program_.stacks.size()));
  program_.stacks.emplace_back();
  return static_cast<uint32_t>(program_.stacks.size() - 1);
}

uint32_t ProgramThings::client_of(uint64_t number) const {
  const uint32_t index = clients_.find(number);
  if (index == no_thing || pools_[program_.clients[index].pool].ended)
    refuse("there is no such client");
  return index;
}

}  // namespace weir::tool::recorded
