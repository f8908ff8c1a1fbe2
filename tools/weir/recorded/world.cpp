// SPDX-License-Identifier: Apache-2.0
//
// What is made of the trace's machine and pools here.
#include "tools/weir/recorded/world.hpp"

#include "tools/weir/error.hpp"

#include <weir/weir.h>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

namespace weir::tool::recorded {
namespace {

constexpr uint64_t usual_granule = uint64_t{2} << 20;
constexpr uint64_t most_threads = 1024;

/// A device that can do nothing of this kind is made so.
struct Ability {
  uint64_t capability;
  const char *option;
};
constexpr Ability abilities[] = {
    {WEIR_CAP_VMM, "vmm"},
    {WEIR_CAP_MULTI_MAP, "multi_map"},
    {WEIR_CAP_MAP_PART, "map_part"},
    {WEIR_CAP_PEER, "peer"},
    {WEIR_CAP_SHARED_RANGE, "shared_range"},
    {WEIR_CAP_MAP_RUN, "map_run"},
    {WEIR_CAP_BATCH_COPY, "batch_copy"},
};

const char *const link_kinds[] = {"pcie",   "nvlink", "infinity_fabric", "xe",
                                  "memory", "c2c",    "network"};

bool is_number(uint64_t budget) {
  return budget != 0 && budget != WEIR_NONE && budget != WEIR_UNLIMITED;
}

/// A budget of the trace as the option has it. `none`: what no bytes at all are called.
uint64_t changed(uint64_t recorded, const std::optional<SizeOrShare> &option, const char *flag,
                 uint64_t none) {
  if (!option) return recorded;
  if (option->percent && !is_number(recorded))
    throw ToolError(std::string(flag) +
                    ": the trace's budget has no size that it could be a percentage of");
  const uint64_t bytes = option->of(recorded);
  return bytes == 0 ? none : bytes;
}

uint32_t narrow(uint64_t value, const char *what) {
  if (value > UINT32_MAX)
    throw ToolError("the trace's " + std::string(what) + " of " + std::to_string(value) +
                    " can't be");
  return static_cast<uint32_t>(value);
}

const ProgramDevice *find_device(const Program &program, uint32_t context, uint32_t device) {
  for (const ProgramDevice &one : program.devices)
    if (one.context == context && one.device == device) return &one;
  return nullptr;
}

/// Devices that pools and streams of each context are on, in order.
std::vector<std::vector<uint32_t>> used_devices(const Program &program) {
  std::vector<std::set<uint32_t>> used;
  const auto note = [&used](uint32_t context, uint64_t device) {
    if (used.size() <= context) used.resize(context + 1);
    if (device < WEIR_DEVICE_ANY) used[context].insert(static_cast<uint32_t>(device));
  };
  for (const ProgramPool &pool : program.pools)
    for (const auto &device : pool.devices) note(pool.context, device.first);
  for (const ProgramStream &stream : program.streams) note(stream.context, stream.device);
  for (const ProgramCall &call : program.calls)
    if (call.kind == CallKind::pool_device) note(program.pools[call.pool].context, call.device);
  std::vector<std::vector<uint32_t>> lists;
  for (const std::set<uint32_t> &set : used) lists.emplace_back(set.begin(), set.end());
  return lists;
}

std::string links_option(const Program &program, uint32_t context,
                         const std::vector<uint32_t> &devices) {
  const auto end = [&devices](uint64_t device) -> std::string {
    if (device == WEIR_DEVICE_HOST) return "h";
    const auto found = std::find(devices.begin(), devices.end(), device);
    return found == devices.end() ? "" : std::to_string(found - devices.begin());
  };
  std::string text;
  std::set<std::string> told;
  for (const ProgramLink &link : program.links) {
    const std::string from = end(link.from), to = end(link.to);
    // Both ways of a link are one entry there.
    if (link.context != context || from.empty() || to.empty() || from == to ||
        told.contains(to + "-" + from) || !told.insert(from + "-" + to).second)
      continue;
    if (std::find(std::begin(link_kinds), std::end(link_kinds), link.kind) == std::end(link_kinds))
      continue;
    text += (text.empty() ? ";host.links=" : ",") + from + "-" + to + ":" + link.kind + ":" +
            std::to_string(link.bandwidth);
  }
  return text;
}

/// The most that pools of the context may hold of one device.
uint64_t most_budget(const Program &program, const ReplayOptions &options, uint32_t context) {
  std::map<uint64_t, uint64_t> sums;
  const auto add = [&](uint64_t device, uint64_t recorded) {
    const uint64_t budget = changed(recorded, options.given_device_memory, "--device-memory", 0);
    uint64_t &sum = sums[device];
    if (is_number(budget)) sum = budget > UINT64_MAX - sum ? UINT64_MAX : sum + budget;
  };
  for (const ProgramPool &pool : program.pools)
    if (pool.context == context)
      for (const auto &[device, budget] : pool.devices) add(device, budget);
  for (const ProgramCall &call : program.calls)
    if (call.kind == CallKind::pool_device && program.pools[call.pool].context == context)
      add(call.device, call.length);
  uint64_t most = 0;
  for (const auto &[device, sum] : sums) most = std::max(most, sum);
  return most;
}

}  // namespace

std::string host_options(const Program &program, const ReplayOptions &options, uint32_t context,
                         const std::vector<uint32_t> &devices) {
  uint64_t granule = options.granule, memory = 0, capabilities = 0;
  for (const uint32_t device : devices) {
    const ProgramDevice *found = find_device(program, context, device);
    if (found == nullptr) continue;
    if (granule == 0) granule = found->granule;
    memory = std::max(memory, found->memory);
    capabilities |= found->capabilities;
  }
  uint64_t large = 0;
  for (const ProgramPool &pool : program.pools) {
    if (pool.context != context) continue;
    if (granule == 0) granule = std::has_single_bit(pool.page_size) ? pool.page_size : 0;
    if (options.granule == 0 && pool.large_page_size > pool.page_size) large = pool.large_page_size;
  }
  if (granule == 0) granule = usual_granule;
  const uint64_t budget = most_budget(program, options, context);
  // Beside the budgets room for what the device rounds.
  if (budget > memory) memory = budget + budget / 8 + (uint64_t{64} << 20);
  memory = std::max(memory, granule);
  std::string text =
      "host.devices=" + std::to_string(std::max<size_t>(devices.size(), 1)) +
      ";host.memory=" + std::to_string(memory) + ";host.granule=" + std::to_string(granule) +
      ";host.granule_large=" + std::to_string(large % granule == 0 && large != granule ? large : 0);
  for (const Ability &ability : abilities) {
    bool able = capabilities == 0 || (capabilities & ability.capability) != 0;
    if (ability.capability == WEIR_CAP_VMM) able = able && options.vmm;
    if (ability.capability == WEIR_CAP_MULTI_MAP) able = able && options.multi_map;
    if (!able) text += std::string(";host.") + ability.option + "=0";
  }
  text += links_option(program, context, devices);
  if (!options.contents) text += ";host.contents=0;host.register=0";
  if (!options.recorded_pace) return text;
  for (const ProgramLink &link : program.links)
    if (link.context == context && link.from == WEIR_DEVICE_HOST && link.bandwidth != 0)
      return text + ";host.link_bandwidth=" +
             std::to_string(static_cast<uint64_t>(static_cast<double>(link.bandwidth) /
                                                  options.recorded_slow));
  return text;
}

World::World(const Program &program, const ReplayOptions &options)
    : program_(program), options_(options) {
  const std::vector<std::vector<uint32_t>> devices = used_devices(program);
  contexts_.resize(devices.size());
  for (uint32_t i = 0; i < devices.size(); ++i) open(i, devices[i]);
}

void World::open(uint32_t context, const std::vector<uint32_t> &devices) {
  Place &place = contexts_[context];
  const bool host = options_.backend == "host";
  place.handle =
      open_context(host ? host_options(program_, options_, context, devices) : std::string(),
                   host && !options_.verify ? WEIR_CONTEXT_NO_SEARCH : 0);
  const weir_device first = tool::find_device(place.handle.get(), options_.backend);
  for (size_t i = 0; i < devices.size(); ++i) {
    const auto device = static_cast<weir_device>(first + i);
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    require(weir_device_info_get(place.handle.get(), device, &info),
            "the trace uses " + std::to_string(devices.size()) + " devices, and backend '" +
                options_.backend + "' has not as many");
    const uint64_t needed = WEIR_CAP_HOST_CALL | (options_.verify ? WEIR_CAP_HOST_ACCESS : 0);
    if ((info.capabilities & needed) != needed)
      throw ToolError("device " + std::to_string(device) + " (" + info.name +
                      ") can't replay: the CPU must reach its memory, which --no-verify does "
                      "without, and its streams must run host functions");
    place.devices.emplace(devices[i], device);
  }
}

weir_device World::device(uint32_t context, uint64_t device) const {
  if (device >= WEIR_DEVICE_ANY) return static_cast<weir_device>(device);
  const auto &devices = contexts_[context].devices;
  const auto found = devices.find(static_cast<uint32_t>(device));
  if (found == devices.end())
    throw ToolError("device " + std::to_string(device) + " of the trace is in none of its pools");
  return found->second;
}

uint64_t World::budget(uint64_t recorded) const {
  return changed(recorded, options_.given_device_memory, "--device-memory", 0);
}

Pool World::make_pool(uint32_t index) const {
  const ProgramPool &recorded = program_.pools[index];
  std::vector<weir_pool_device> devices;
  for (const auto &[device, bytes] : recorded.devices) {
    weir_pool_device one = WEIR_POOL_DEVICE_INIT;
    one.device = this->device(recorded.context, device);
    one.budget = budget(bytes);
    devices.push_back(one);
  }
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = static_cast<uint32_t>(devices.size());
  desc.devices = devices.data();
  desc.flags = recorded.flags;
  if (options_.encrypt_storage) desc.flags |= WEIR_POOL_ENCRYPT_STORAGE;
  if (options_.buffered_storage) desc.flags |= WEIR_POOL_BUFFERED_STORAGE;
  if (!options_.io_uring) desc.flags |= WEIR_POOL_NO_IO_URING;
  desc.host_budget =
      changed(recorded.host_budget, options_.host_memory, "--host-memory", WEIR_NONE);
  desc.page_size = options_.granule != 0 ? options_.granule : recorded.page_size;
  desc.large_page_size = options_.granule != 0 ? options_.granule : recorded.large_page_size;
  desc.watermark_low_permille = narrow(recorded.watermark_low_permille, "watermark_low_permille");
  desc.watermark_high_permille =
      narrow(recorded.watermark_high_permille, "watermark_high_permille");
  desc.evict_wait_ns = recorded.evict_wait_ns;
  const std::string &policy = options_.policy.empty() ? recorded.policy : options_.policy;
  if (!policy.empty()) desc.policy = policy.c_str();
  if (!recorded.name.empty()) desc.name = recorded.name.c_str();
  desc.compressed_budget =
      changed(recorded.compressed_budget, options_.compressed_memory, "--compressed-memory", 0);
  desc.storage_budget =
      changed(recorded.storage_budget, options_.storage_size, "--storage-size", 0);
  std::vector<const char *> paths;
  for (const std::string &path : options_.storage) paths.push_back(path.c_str());
  if (desc.storage_budget != 0 && paths.empty())
    throw ToolError("the trace's pool has " + format_bytes(desc.storage_budget) +
                    " of storage: --storage DIR says where, --storage-size 0 does without");
  if (desc.storage_budget != 0) {
    desc.storage_paths = paths.data();
    desc.storage_path_count = static_cast<uint32_t>(paths.size());
  }
  if (recorded.compress_threads > most_threads)
    throw ToolError("the trace's compress_threads of " + std::to_string(recorded.compress_threads) +
                    " are more than 1024");
  desc.compress_threads = options_.compress_threads != 0
                              ? options_.compress_threads
                              : static_cast<uint32_t>(recorded.compress_threads);
  desc.compress_share_percent = narrow(recorded.compress_share_percent, "compress_share_percent");
  const std::string &codec = options_.codec_given ? options_.codec : recorded.codec;
  if (!codec.empty()) desc.codec = codec.c_str();
  desc.idle_grace_ns = recorded.idle_grace_ns;
  desc.segment_size = recorded.segment_size;
  desc.recompress_idle_ns = recorded.recompress_idle_ns;
  desc.rebalance_bytes_per_second = recorded.rebalance_bytes_per_second;
  desc.record_budget = recorded.record_budget;
  desc.policy_memory = recorded.policy_memory;
  desc.policy_cpu_percent = narrow(recorded.policy_cpu_percent, "policy_cpu_percent");
  weir_pool handle = nullptr;
  require(weir_pool_create(contexts_[recorded.context].handle.get(), &desc, &handle),
          "cannot make pool '" + printable(recorded.name) + "' again");
  return Pool(handle);
}

weir_buffer World::make_buffer(weir_pool pool, uint32_t index, weir_client client) const {
  const ProgramBuffer &recorded = program_.buffers[index];
  const auto place = [&](uint64_t number) {
    return device(program_.pools[recorded.pool].context, number);
  };
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = recorded.size;
  desc.priority = recorded.priority;
  desc.flags = recorded.flags;
  desc.alignment = recorded.alignment;
  desc.element = recorded.element;
  desc.tag = recorded.tag;
  desc.home = place(recorded.home);
  desc.client = client;
  if (recorded.name != 0) desc.name = program_.names[recorded.name].c_str();
  std::vector<weir_device> users, devices;
  weir_shard_desc shards = WEIR_SHARD_DESC_INIT;
  if (recorded.layout != no_thing) {
    const ProgramLayout &layout = program_.layouts[recorded.layout];
    for (const uint32_t user : layout.users) users.push_back(place(user));
    for (const uint32_t one : layout.shard_devices) devices.push_back(place(one));
    desc.users = users.data();
    desc.user_count = static_cast<uint32_t>(users.size());
    shards.policy = narrow(layout.shard_policy, "shard_policy");
    shards.devices = devices.data();
    shards.device_count = static_cast<uint32_t>(devices.size());
    if (!layout.shard_weights.empty()) shards.weights = layout.shard_weights.data();
    shards.stripe = layout.stripe;
    if (layout.shard_policy != 0) desc.shards = &shards;
  }
  weir_buffer buffer = nullptr;
  require(weir_buffer_create(pool, &desc, &buffer),
          "cannot make a buffer of " + std::to_string(recorded.size) + " bytes");
  return buffer;
}

}  // namespace weir::tool::recorded
