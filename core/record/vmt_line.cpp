// SPDX-License-Identifier: Apache-2.0
//
// Which lines there are, and their fields: the writing side of "#vmt 2". tools/weir/recorded/call_reader.cpp is the reading side, and
// tests/tools/test_call_reader.cpp holds them together.
#include "core/record/vmt_line.hpp"

#include "core/record/line_text.hpp"

namespace weir::record {

LineText VmtLines::line(std::string_view kind) noexcept {
  return {memory_, capacity_, size_, kind};
}

bool VmtLines::begin() noexcept { return line("#vmt 2").done(); }

bool VmtLines::header(std::string_view key, std::string_view value) noexcept {
  // "#" and a word; a blank in it would begin the value.
  char name[most_figure_name + 1] = {'#'};
  size_t length = 1;
  for (const char c : cut(key, most_figure_name)) name[length++] = c > ' ' && c < 127 ? c : '_';
  return line({name, length}).value(value).done();
}

bool VmtLines::context(uint64_t context, std::string_view options) noexcept {
  return line("context").number(context).key("options", cut(options, most_value)).done();
}

bool VmtLines::device(const VmtDevice &device) noexcept {
  return line("device")
      .number(device.context)
      .device(device.device)
      .key("backend", cut(device.backend, most_name))
      .key("name", cut(device.name, most_name))
      .key("memory", device.memory)
      .key("granule", device.granule)
      .key("capabilities", device.capabilities)
      .done();
}

bool VmtLines::link(const VmtLink &link) noexcept {
  return line("link")
      .number(link.context)
      .device(link.from)
      .device(link.to)
      .key("kind", cut(link.kind, most_name))
      .key("bandwidth", link.bandwidth)
      .key("latency_ns", link.latency_ns)
      .done();
}

bool VmtLines::pool(const VmtPool &pool) noexcept {
  return line("pool")
      .number(pool.pool)
      .number(pool.context)
      .key("flags", pool.flags)
      .key("host_budget", pool.host_budget)
      .key("page_size", pool.page_size)
      .key("large_page_size", pool.large_page_size)
      .key("watermark_low_permille", pool.pace.watermark_low_permille)
      .key("watermark_high_permille", pool.pace.watermark_high_permille)
      .key("evict_wait_ns", pool.pace.evict_wait_ns)
      .key("policy", cut(pool.policy, most_name))
      .key("name", cut(pool.name, most_name))
      .key("compressed_budget", pool.compressed_budget)
      .key("storage_budget", pool.storage_budget)
      .key("storage_path_count", pool.storage_path_count)
      .key("compress_threads", pool.pace.compress_threads)
      .key("compress_share_percent", pool.pace.compress_share_percent)
      .key("codec", cut(pool.codec, most_name))
      .key("idle_grace_ns", pool.pace.idle_grace_ns)
      .key("segment_size", pool.segment_size)
      .key("recompress_idle_ns", pool.pace.recompress_idle_ns)
      .key("rebalance_bytes_per_second", pool.pace.rebalance_bytes_per_second)
      .key("record_budget", pool.record_budget)
      .key("policy_memory", pool.policy_memory)
      .key("policy_cpu_percent", pool.pace.policy_cpu_percent)
      .done();
}

bool VmtLines::pool_device(uint64_t pool, uint64_t device, uint64_t budget) noexcept {
  return line("pool_device").number(pool).device(device).bytes(budget).done();
}

bool VmtLines::remove_device(uint64_t pool, uint64_t device) noexcept {
  return line("remove_device").number(pool).device(device).done();
}

bool VmtLines::stats(uint64_t pool, std::span<const VmtFigure> figures) noexcept {
  LineText line = this->line("stats");
  line.number(pool);
  for (const VmtFigure &figure : figures.first(std::min(figures.size(), most_figures)))
    line.key(cut(figure.name, most_figure_name), figure.value);
  return line.done();
}

bool VmtLines::client(const VmtClient &client) noexcept {
  return line("client")
      .number(client.client)
      .number(client.pool)
      .key("name", cut(client.name, most_name))
      .signed_key("priority", client.priority)
      .key("device_quota", client.device_quota)
      .key("host_quota", client.host_quota)
      .key("compressed_quota", client.compressed_quota)
      .key("storage_quota", client.storage_quota)
      .done();
}

bool VmtLines::stream(uint64_t stream, uint64_t context, uint64_t device, bool wrapped) noexcept {
  return line("stream")
      .number(stream)
      .number(context)
      .device(device)
      .key("wrapped", wrapped ? 1 : 0)
      .done();
}

bool VmtLines::operation_name(uint64_t pool, uint64_t operation, std::string_view name) noexcept {
  return line("n").number(pool).number(operation).word(cut(name, most_operation)).done();
}

bool VmtLines::ends(VmtThing thing, uint64_t number) noexcept {
  const char *kind = thing == VmtThing::pool     ? "end_pool"
                     : thing == VmtThing::client ? "end_client"
                     : thing == VmtThing::stream ? "end_stream"
                                                 : "f";
  return line(kind).number(number).done();
}

bool VmtLines::buffer(const VmtBuffer &buffer) noexcept {
  LineText line = this->line("b");
  line.number(buffer.buffer).number(buffer.pool).number(buffer.size);
  if (buffer.client != vmt_none) line.number_key("client", buffer.client);
  if (buffer.home != WEIR_DEVICE_DEFAULT) line.place_key("home", buffer.home);
  line.key("flags", buffer.flags)
      .key("alignment", buffer.alignment)
      .key("element", buffer.element)
      .key("tag", buffer.tag)
      .signed_key("priority", buffer.priority)
      .key("name", cut(buffer.name, most_name))
      .key("stack", buffer.stack)
      .devices_key("users", buffer.users)
      .key("shard_policy", buffer.shard_policy)
      .devices_key("shard_devices", buffer.shard_devices)
      .numbers_key("shard_weights", buffer.shard_weights)
      .key("stripe", buffer.stripe);
  return line.done();
}

bool VmtLines::rename(uint64_t buffer, std::string_view name) noexcept {
  return line("name").number(buffer).word(cut(name, most_name)).done();
}

bool VmtLines::priority(uint64_t buffer, int32_t priority) noexcept {
  return line("priority").number(buffer).signed_number(priority).done();
}

bool VmtLines::bytes(VmtBytes what, const VmtRange &range) noexcept {
  const char *kind = what == VmtBytes::read    ? "read"
                     : what == VmtBytes::write ? "write"
                                               : "discard";
  return line(kind).number(range.buffer).range(range).done();
}

bool VmtLines::advise(const VmtRange &range, uint64_t advice) noexcept {
  return line("advise").number(range.buffer).number(advice).range(range).done();
}

bool VmtLines::hold(uint64_t buffer, uint64_t device, uint32_t mode, uint64_t flags) noexcept {
  return line("hold")
      .number(buffer)
      .device(device)
      .plain(mode == WEIR_READ ? "r" : "x")
      .key("flags", flags)
      .done();
}

bool VmtLines::unhold(uint64_t buffer) noexcept { return line("unhold").number(buffer).done(); }

bool VmtLines::register_host(uint64_t buffer, uint64_t flags) noexcept {
  return line("register").number(buffer).key("flags", flags).done();
}

bool VmtLines::unregister_host(uint64_t buffer) noexcept {
  return line("unregister").number(buffer).done();
}

bool VmtLines::allocate(uint64_t allocation, uint64_t pool, uint64_t device, uint64_t stream,
                        uint64_t bytes, std::string_view name, uint64_t stack) noexcept {
  return line("m")
      .number(allocation)
      .number(pool)
      .device(device)
      .number_or_none(stream)
      .number(bytes)
      .key("name", cut(name, most_name))
      .key("stack", stack)
      .done();
}

bool VmtLines::module(uint64_t module, std::string_view path, std::string_view build_id) noexcept {
  return line("module")
      .number(module)
      .word(cut(path, vmt_longest_path))
      .key("build_id", cut(build_id, most_name))
      .done();
}

bool VmtLines::stack(uint64_t stack, std::string_view frames) noexcept {
  return line("stack").number(stack).word(cut(frames, vmt_longest_stack)).done();
}

bool VmtLines::free(uint64_t allocation, uint64_t stream) noexcept {
  return line("x").number(allocation).number_or_none(stream).done();
}

bool VmtLines::acquire(const VmtAcquire &acquire) noexcept {
  return line("l")
      .number(acquire.lease)
      .number(acquire.pool)
      .number(acquire.stream)
      .operation(acquire.operation)
      .number(acquire.uses)
      .key("flags", acquire.flags)
      .key("timeout_ns", acquire.timeout_ns)
      .key("async", acquire.async ? 1 : 0)
      .key("waited_us", acquire.waited_us)
      .done();
}

bool VmtLines::refused(const VmtAcquire &acquire, int32_t result) noexcept {
  return line("refused")
      .signed_number(result)
      .number(acquire.pool)
      .number(acquire.stream)
      .operation(acquire.operation)
      .number(acquire.uses)
      .key("flags", acquire.flags)
      .key("timeout_ns", acquire.timeout_ns)
      .key("async", acquire.async ? 1 : 0)
      .key("waited_us", acquire.waited_us)
      .done();
}

bool VmtLines::use(const VmtUse &use) noexcept {
  const bool remote = (use.flags & WEIR_USE_ALLOW_REMOTE) != 0;
  const char *mode = remote ? "X" : "x";
  if (use.mode == WEIR_READ) mode = remote ? "R" : "r";
  if (use.mode == WEIR_DISCARD_WRITE) mode = remote ? "W" : "w";
  return line("u")
      .number(use.buffer)
      .plain(mode)
      .range({use.buffer, use.offset, use.length})
      .key("flags", use.flags & ~static_cast<uint32_t>(WEIR_USE_ALLOW_REMOTE))
      .done();
}

bool VmtLines::release(uint64_t lease, uint64_t stream) noexcept {
  return line("r").number(lease).number(stream).done();
}

bool VmtLines::kernel(uint64_t lease, uint64_t nanoseconds) noexcept {
  return line("k").number(lease).number(nanoseconds).done();
}

bool VmtLines::prefetch(uint64_t pool, uint64_t stream, uint64_t uses) noexcept {
  return line("prefetch").number(pool).number(stream).number(uses).done();
}

bool VmtLines::announce(uint64_t pool, uint64_t stream, uint64_t operations,
                        uint64_t flags) noexcept {
  return line("announce").number(pool).number(stream).number(operations).key("flags", flags).done();
}

bool VmtLines::operation(const VmtOperation &operation, uint64_t uses) noexcept {
  return line("o").operation(operation).number(uses).done();
}

bool VmtLines::synchronize(uint64_t stream) noexcept {
  return line("synchronize").number(stream).done();
}

bool VmtLines::trim(uint64_t pool, uint64_t device, uint64_t level, uint64_t bytes) noexcept {
  return line("trim").number(pool).device(device).number(level).bytes(bytes).done();
}

bool VmtLines::rebalance(uint64_t pool, uint64_t bytes) noexcept {
  return line("rebalance").number(pool).bytes(bytes).done();
}

bool VmtLines::defragment(const VmtDefragment &call) noexcept {
  return line("defragment")
      .number(call.pool)
      .device(call.device)
      .key("flags", call.flags)
      .key("max_bytes", call.max_bytes)
      .key("max_moves", call.max_moves)
      .key("max_ns", call.max_ns)
      .key("max_cost_permille", call.max_cost_permille)
      .done();
}

bool VmtLines::defragmentation(const VmtDefragmentation &call) noexcept {
  return line("defragmentation")
      .number(call.pool)
      .number(call.threshold_permille)
      .key("flags", call.flags)
      .key("bytes_per_second", call.bytes_per_second)
      .key("max_cost_permille", call.max_cost_permille)
      .done();
}

bool VmtLines::policy_load(uint64_t pool, uint64_t bytes) noexcept {
  return line("policy_load").number(pool).number(bytes).done();
}

bool VmtLines::time(uint64_t microseconds) noexcept {
  return line("t").number(microseconds).done();
}

bool VmtLines::thread(uint64_t thread) noexcept { return line("j").number(thread).done(); }

bool VmtLines::phase(std::string_view name) noexcept {
  return line("p").word(cut(name, most_operation)).done();
}

bool VmtLines::lost(uint64_t events) noexcept { return line("lost").number(events).done(); }

bool VmtLines::end() noexcept { return line("end").done(); }

bool VmtMoment::at(VmtLines &lines, uint64_t thread, uint64_t microseconds) noexcept {
  if (microseconds_ == vmt_none || microseconds > microseconds_) {
    if (!lines.time(microseconds)) return false;
    microseconds_ = microseconds;
  }
  if (thread == thread_) return true;
  if (!lines.thread(thread)) return false;
  thread_ = thread;
  return true;
}

}  // namespace weir::record
