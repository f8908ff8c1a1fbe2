// SPDX-License-Identifier: Apache-2.0
//
// Lines of calls and of what there is, made from the same structs that the calls were given.

#include "core/pool/recorded_calls.hpp"

#include "core/base/descriptor.hpp"
#include "core/pool/context.hpp"
#include "core/pool/pool.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

namespace weir::pool::recorded {
namespace {

using record::VmtOperation;
using record::VmtUse;

/// Of a use's line, and of a list of devices or weights.
constexpr size_t bytes_of_use = 128, bytes_of_entry = 16, bytes_of_names = 4096;

VmtUse use_of(const weir_use &use) noexcept {
  return {number(use.buffer), use.offset, use.length, use.mode, use.flags};
}

bool add_uses(VmtLines &text, const weir_use *uses, size_t count) noexcept {
  return std::all_of(uses, uses + count,
                     [&text](const weir_use &use) { return text.use(use_of(use)); });
}

void tell_stream(Tape *tape, const backend::Stream &stream) noexcept {
  if (tape == nullptr) return;
  notes::StreamUsed note;
  note.slot = stream.slot;
  if (stream.device != nullptr) note.device = static_cast<int32_t>(stream.device->id);
  notes::put(*tape, notes::stream, &note);
}

const char *codec_name(codec::CodecChoice choice) noexcept {
  constexpr std::array<const char *, 9> names{"",       "lz4",  "zstd",   "raw",   "fx",
                                              "sparse", "mask", "planes", "narrow"};
  return names[static_cast<size_t>(choice)];
}

/// A time or rate that may be none.
uint64_t or_none(uint64_t value, uint64_t none) noexcept {
  return value != none ? value : WEIR_NONE;
}

uint64_t flags_of(const page::EngineConfig &config) noexcept {
  uint64_t flags = 0;
  if (!config.background) flags |= WEIR_POOL_NO_BACKGROUND;
  if (config.host.checksum) flags |= WEIR_POOL_CHECKSUM_HOST;
  if (config.below.storage.encrypt) flags |= WEIR_POOL_ENCRYPT_STORAGE;
  if (config.below.storage.budget != 0 && !config.below.storage.direct)
    flags |= WEIR_POOL_BUFFERED_STORAGE;
  if (config.below.storage.budget != 0 && !config.below.storage.uring)
    flags |= WEIR_POOL_NO_IO_URING;
  if (config.no_peer) flags |= WEIR_POOL_NO_PEER;
  return flags;
}

record::VmtPool pool_of(Pool &pool, const weir_pool_stats &stats) noexcept {
  const page::EngineConfig &config = pool.engine().inspector().config();
  record::VmtPool line;
  line.pool = pool.id();
  line.name = pool.name();
  line.policy = config.policy;
  line.codec = codec_name(config.below.codec);
  line.flags = flags_of(config);
  line.host_budget = stats.host_budget != 0 ? stats.host_budget : WEIR_NONE;
  line.segment_size = config.memory.segment_size;
  line.compressed_budget = config.below.compressed;
  line.storage_budget = config.below.storage.budget;
  line.storage_path_count = config.below.storage.directories.size();
  line.record_budget = config.record_budget;
  line.policy_memory = config.plans ? config.learning.memory : 0;
  line.pace.watermark_low_permille = config.memory.watermark_low;
  line.pace.watermark_high_permille = config.memory.watermark_high;
  line.pace.evict_wait_ns = config.evict_wait_ns;
  line.pace.compress_threads = config.below.threads;
  line.pace.compress_share_percent = config.below.share;
  line.pace.idle_grace_ns = or_none(config.idle_grace_ns, UINT64_MAX);
  line.pace.recompress_idle_ns = or_none(config.recompress_idle_ns, UINT64_MAX);
  line.pace.rebalance_bytes_per_second = or_none(config.rebalance_rate, 0);
  line.pace.policy_cpu_percent = config.learning.cpu_percent;
  return line;
}

}  // namespace

void buffer(const Pool &pool, Tape *tape, weir_buffer made, const weir_buffer_desc &desc,
            uint32_t stack) noexcept {
  weir_shard_desc shards = WEIR_SHARD_DESC_INIT;
  const bool sharded =
      desc.shards != nullptr && read_descriptor(desc.shards, "shards", &shards).ok();
  const size_t entries = desc.user_count + (sharded ? 2 * size_t{shards.device_count} : 0);
  lines(tape, bytes_of_names + bytes_of_entry * entries, [&](VmtLines &text) {
    record::VmtBuffer line;
    line.buffer = number(made);
    line.pool = pool.id();
    line.size = desc.size;
    if (desc.client != nullptr) line.client = number(desc.client);
    line.home = desc.home;
    line.flags = desc.flags;
    line.alignment = desc.alignment;
    line.element = desc.element;
    line.tag = desc.tag;
    line.priority = desc.priority;
    if (desc.name != nullptr) line.name = desc.name;
    line.stack = stack;
    line.users = {desc.users, desc.user_count};
    if (sharded) {
      line.shard_policy = shards.policy;
      line.shard_devices = {shards.devices, shards.device_count};
      if (shards.weights != nullptr) line.shard_weights = {shards.weights, shards.device_count};
      line.stripe = shards.stripe;
    }
    return text.buffer(line);
  });
}

void client(const Pool &pool, Tape *tape, const void *made, const weir_client_desc &desc) noexcept {
  lines(tape, bytes_of_names, [&](VmtLines &text) {
    return text.client({number(made), pool.id(), desc.name != nullptr ? desc.name : "",
                        desc.priority, desc.device_quota, desc.host_quota, desc.compressed_quota,
                        desc.storage_quota});
  });
}

void prefetch(const Pool &pool, Tape *tape, const backend::Stream &stream, const weir_use *uses,
              size_t count) noexcept {
  tell_stream(tape, stream);
  lines(tape, bytes_of_use * (count + 1), [&](VmtLines &text) {
    return text.prefetch(pool.id(), stream.slot, count) && add_uses(text, uses, count);
  });
}

void announce(const Pool &pool, Tape *tape, const backend::Stream &stream,
              const weir_operation *operations, size_t count, uint64_t flags) noexcept {
  tell_stream(tape, stream);
  size_t bytes = bytes_of_use;
  for (size_t i = 0; i < count; ++i)
    bytes += bytes_of_names + bytes_of_use * static_cast<size_t>(operations[i].use_count);
  lines(tape, bytes, [&](VmtLines &text) {
    bool fits = text.announce(pool.id(), stream.slot, count, flags);
    for (size_t i = 0; fits && i < count; ++i) {
      const weir_operation &of = operations[i];
      VmtOperation operation{of.operation_id, {}};
      if (of.operation_id == 0 && of.name != nullptr) operation.name = of.name;
      fits = text.operation(operation, of.use_count) && add_uses(text, of.uses, of.use_count);
    }
    return fits;
  });
}

void stats(Pool &pool) noexcept {
  Tape *const tape = tape_of(pool.engine().tap);
  if (tape == nullptr) return;
  weir_pool_stats stats = WEIR_POOL_STATS_INIT;
  pool.engine().inspector().stats(&stats);
  std::array<record::VmtFigure, 256> figures;
  size_t count = 0;
#define WEIR_FIGURE(field, meaning) \
  if (stats.field != 0) figures[count++] = {#field, stats.field};
  WEIR_POOL_STATS_FIELDS(WEIR_FIGURE)
#undef WEIR_FIGURE
  lines(tape, 2 * bytes_of_names, [&](VmtLines &text) {
    return text.stats(pool.id(), {figures.data(), count});
  });
}

std::string head(Context &context) {
  std::string memory(size_t{1} << 20U, '\0');
  VmtLines text(memory.data(), memory.size());
  topology::Places &places = context.places();
  (void)text.begin();
  (void)text.header("name", program_invocation_short_name);
  (void)text.context(0, "");
  for (uint32_t id = 0; id < places.count(); ++id) {
    const backend::Device &device = *places.find(id);
    uint64_t free_bytes = 0, all_bytes = 0;
    (void)device.table().device_memory(device.state(), device.index, &free_bytes, &all_bytes);
    (void)text.device({0, id, context.runtime(device.backend).name(), device.description.name,
                       all_bytes, device.description.granule, device.description.capabilities});
  }
  for (uint32_t from = 0; from <= places.count(); ++from)
    for (uint32_t to = 0; to <= places.count(); ++to) {
      const weir_device ends[] = {from != 0 ? from - 1 : WEIR_DEVICE_HOST,
                                  to != 0 ? to - 1 : WEIR_DEVICE_HOST};
      weir_link_info link = WEIR_LINK_INFO_INIT;
      if (from == to || !places.link(ends[0], ends[1], &link)) continue;
      (void)text.link(
          {0, ends[0], ends[1], weir_link_kind_string(link.kind), link.bandwidth, link.latency_ns});
    }
  return std::string(text.text());
}

void pool(Pool &pool, Tape *tape) {
  const Inspector inspector = pool.engine().inspector();
  weir_pool_stats stats = WEIR_POOL_STATS_INIT;
  inspector.stats(&stats);
  record::VmtPool line = pool_of(pool, stats);
  std::vector<weir_pool_device_stats> devices;
  inspector.for_each_device([&](const weir_pool_device_stats &of) { devices.push_back(of); });
  if (!devices.empty()) {
    line.page_size = devices[0].page_size;
    line.large_page_size = devices[0].large_page_size;
  }
  lines(tape, 2 * bytes_of_names, [&](VmtLines &text) {
    bool fits = text.pool(line);
    for (const weir_pool_device_stats &of : devices)
      fits = fits && text.pool_device(pool.id(), of.device, of.budget);
    return fits;
  });
}

}  // namespace weir::pool::recorded
