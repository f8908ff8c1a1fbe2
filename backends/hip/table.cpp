// SPDX-License-Identifier: Apache-2.0
//
// The HIP runtime behind the backend ABI: states, and entries that hand each call to the part that knows. No exception
// leaves an entry. fence_record and fence_poll are on Weir's fastest path and must stay free of locks.

#include "backends/common/entry.hpp"
#include "backends/hip/memory.hpp"
#include "backends/hip/streams.hpp"
#include "backends/hip/virtual_memory.hpp"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

struct weir_be_state {
  weir::hip::Options options;
  weir::hip::Runtime runtime;
  weir::hip::Devices devices{runtime, options};
  // After the devices are known.
  std::optional<weir::hip::VirtualMemory> virtual_memory;
  std::optional<weir::hip::Memory> memory;
  std::optional<weir::hip::Streams> streams;
  weir_log_callback log = nullptr;
  void *log_user = nullptr;
};

namespace weir::hip {
namespace {

template <class Body>
weir_result enter(weir_be_state *state, const char *entry, Body body) noexcept {
  return common::enter(state, "hip", entry, [&] { return body(*state); });
}

void say(const weir_be_state &state, int32_t level, const std::string &line) {
  if (state.log != nullptr) state.log(state.log_user, level, line.c_str());
}

// ---- runtime

/// Tries virtual memory where it is offered, and takes the offer back where it is of no use.
void probe(weir_be_state &state) {
  bool any_one_size = false;
  for (uint32_t device = 0; state.options.probe && device < state.devices.count(); ++device) {
    if (!state.devices.can(device, WEIR_CAP_VMM)) continue;
    std::string why;
    bool one_size = false;
    const weir_result result = state.virtual_memory->probe(device, &one_size, &why);
    any_one_size = any_one_size || one_size;
    if (one_size && state.devices.description(device).granule_large != 0) {
      state.devices.turn_off_large_granules(device);
      say(state, WEIR_LOG_WARNING,
          "hip: device " + std::to_string(device) +
              " is used without large granules: mappings of two sizes in one range fail");
    }
    if (result == WEIR_SUCCESS || result == WEIR_ERROR_DEVICE_OOM) continue;
    state.devices.turn_off_vmm(device);
    say(state, WEIR_LOG_WARNING,
        "hip: device " + std::to_string(device) + " is used without virtual memory: " + why);
  }
  // In a range that several devices map into, the sizes of all of them meet.
  if (any_one_size && !state.devices.shares_one_size()) state.devices.turn_off_shared_ranges();
  state.virtual_memory->share_ranges();
}

weir_result open(weir_be_state &state, std::string *why) {
  if (!state.runtime.start(why)) return WEIR_ERROR_NOT_SUPPORTED;
  if (!state.runtime.lacking().empty()) {
    say(state, WEIR_LOG_INFO,
        "hip: runtime " + state.runtime.version_text() + " lacks " + state.runtime.lacking() +
            "; what needs it is off");
  }
  if (const weir_result result = state.devices.open(); result != WEIR_SUCCESS) {
    const char *sentence = common::sentence_of(common::last_native());
    *why = sentence != nullptr ? sentence : "a device can't be described";
    return result;
  }
  state.virtual_memory.emplace(state.runtime, state.options, state.devices);
  state.memory.emplace(state.runtime, state.devices);
  state.streams.emplace(state.runtime, state.devices);
  probe(state);
  return WEIR_SUCCESS;
}

weir_result start(const weir_be_start *desc, weir_be_state **state, const char **reason) noexcept {
  // The sentence must outlive the call and is the library's until the next start: one a thread.
  thread_local char sentence[512];
  *reason = sentence;
  try {
    auto made = std::make_unique<weir_be_state>();
    made->log = desc->log;
    made->log_user = desc->log_user;
    std::string why = parse_options(desc->options, &made->options);
    const weir_result result = why.empty() ? open(*made, &why) : WEIR_ERROR_INVALID_ARGUMENT;
    if (result != WEIR_SUCCESS) {
      std::snprintf(sentence, sizeof sentence, "%s", why.c_str());
      return result;
    }
    *state = made.release();
    return WEIR_SUCCESS;
  } catch (const std::exception &) {
    std::snprintf(sentence, sizeof sentence, "no host memory for the backend's own records");
    return WEIR_ERROR_OUT_OF_HOST_MEMORY;
  }
}

void stop(weir_be_state *state) noexcept {
  const std::unique_ptr<weir_be_state> last(state);
  last->streams->clear();
  last->virtual_memory->clear();
  last->memory->clear();
}

const char *runtime_version(weir_be_state *state) noexcept {
  return state->runtime.version_text().c_str();
}

int64_t last_error_code(weir_be_state *) noexcept { return common::last_native(); }

const char *error_text(weir_be_state *, int64_t native) noexcept {
  const char *sentence = common::sentence_of(native);
  if (sentence != nullptr) return sentence;
  if (native == common::native_refusal) return "the backend refused the call";
  return native >= 0 && native <= INT32_MAX ? words(static_cast<abi::Error>(native))
                                            : "unknown error code";
}

// ---- devices

weir_result device_count(weir_be_state *state, uint32_t *count) noexcept {
  *count = state->devices.count();
  return WEIR_SUCCESS;
}

weir_result device_describe(weir_be_state *state, uint32_t device,
                            weir_be_device *description) noexcept {
  return enter(state, "device_describe", [&](weir_be_state &s) -> weir_result {
    WEIR_BACKEND_TRY(s.devices.check(device));
    common::give(s.devices.description(device), description);
    return WEIR_SUCCESS;
  });
}

weir_result device_memory(weir_be_state *state, uint32_t device, uint64_t *free_bytes,
                          uint64_t *total_bytes) noexcept {
  return enter(state, "device_memory",
               [&](weir_be_state &s) { return s.devices.memory(device, free_bytes, total_bytes); });
}

weir_result link_describe(weir_be_state *state, uint32_t from, uint32_t to,
                          weir_be_link *link) noexcept {
  return enter(state, "link_describe", [&](weir_be_state &s) -> weir_result {
    weir_be_link full{};
    WEIR_BACKEND_TRY(s.devices.link(from, to, &full));
    common::give(full, link);
    return WEIR_SUCCESS;
  });
}

weir_result peer_enable(weir_be_state *state, uint32_t device, uint32_t peer) noexcept {
  return enter(state, "peer_enable",
               [&](weir_be_state &s) { return s.devices.enable_peer(device, peer); });
}

// ---- memory

weir_result granule_create(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                           weir_be_granule *granule) noexcept {
  return enter(state, "granule_create", [&](weir_be_state &s) {
    return s.virtual_memory->create(device, bytes, flags, granule);
  });
}

weir_result granule_destroy(weir_be_state *state, uint32_t device,
                            weir_be_granule granule) noexcept {
  return enter(state, "granule_destroy",
               [&](weir_be_state &s) { return s.virtual_memory->destroy(device, granule); });
}

weir_result range_reserve(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t alignment,
                          uint64_t *address) noexcept {
  return enter(state, "range_reserve", [&](weir_be_state &s) {
    return s.virtual_memory->reserve(device, bytes, alignment, address);
  });
}

weir_result range_free(weir_be_state *state, uint32_t device, uint64_t address,
                       uint64_t bytes) noexcept {
  return enter(state, "range_free",
               [&](weir_be_state &s) { return s.virtual_memory->free(device, address, bytes); });
}

weir_result map(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                weir_be_granule granule, uint64_t offset, const uint32_t *peers,
                uint32_t peer_count) noexcept {
  return enter(state, "map", [&](weir_be_state &s) {
    return s.virtual_memory->map(device, address, bytes, granule, offset, peers, peer_count);
  });
}

weir_result unmap(weir_be_state *state, uint32_t device, uint64_t address,
                  uint64_t bytes) noexcept {
  return enter(state, "unmap",
               [&](weir_be_state &s) { return s.virtual_memory->unmap(device, address, bytes); });
}

weir_result map_run(weir_be_state *state, uint32_t device, uint64_t address,
                    const weir_be_piece *pieces, uint32_t count, const uint32_t *peers,
                    uint32_t peer_count) noexcept {
  return enter(state, "map_run", [&](weir_be_state &s) {
    return s.virtual_memory->map_run(device, address, pieces, count, peers, peer_count);
  });
}

weir_result unmap_run(weir_be_state *state, uint32_t device, uint64_t address,
                      uint64_t bytes) noexcept {
  return enter(state, "unmap_run", [&](weir_be_state &s) {
    return s.virtual_memory->unmap_run(device, address, bytes);
  });
}

weir_result granule_export(weir_be_state *state, uint32_t device, weir_be_granule granule,
                           int32_t *fd) noexcept {
  return enter(state, "granule_export",
               [&](weir_be_state &s) { return s.virtual_memory->export_fd(device, granule, fd); });
}

weir_result granule_import(weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                           weir_be_granule *granule) noexcept {
  return enter(state, "granule_import", [&](weir_be_state &s) {
    return s.virtual_memory->import_fd(device, fd, bytes, granule);
  });
}

weir_result plain_allocate(weir_be_state *state, uint32_t device, uint64_t bytes,
                           uint64_t alignment, uint64_t *address) noexcept {
  return enter(state, "plain_allocate", [&](weir_be_state &s) {
    return s.memory->allocate(device, bytes, alignment, address);
  });
}

weir_result plain_free(weir_be_state *state, uint32_t device, uint64_t address,
                       uint64_t bytes) noexcept {
  return enter(state, "plain_free",
               [&](weir_be_state &s) { return s.memory->free(device, address, bytes); });
}

weir_result host_allocate(weir_be_state *state, uint64_t bytes, void **memory) noexcept {
  return enter(state, "host_allocate",
               [&](weir_be_state &s) { return s.memory->host_allocate(bytes, memory); });
}

weir_result host_free(weir_be_state *state, void *memory, uint64_t bytes) noexcept {
  return enter(state, "host_free",
               [&](weir_be_state &s) { return s.memory->host_free(memory, bytes); });
}

weir_result host_register(weir_be_state *state, void *memory, uint64_t bytes) noexcept {
  return enter(state, "host_register",
               [&](weir_be_state &s) { return s.memory->host_register(memory, bytes); });
}

weir_result host_unregister(weir_be_state *state, void *memory, uint64_t bytes) noexcept {
  return enter(state, "host_unregister",
               [&](weir_be_state &s) { return s.memory->host_unregister(memory, bytes); });
}

// ---- streams

weir_result stream_create(weir_be_state *state, uint32_t device, uint64_t flags,
                          weir_be_stream *stream) noexcept {
  return enter(state, "stream_create",
               [&](weir_be_state &s) { return s.streams->create(device, flags, stream); });
}

weir_result stream_wrap(weir_be_state *state, uint32_t device, void *native,
                        weir_be_stream *stream) noexcept {
  return enter(state, "stream_wrap",
               [&](weir_be_state &s) { return s.streams->wrap(device, native, stream); });
}

weir_result stream_destroy(weir_be_state *state, weir_be_stream stream) noexcept {
  return enter(state, "stream_destroy",
               [&](weir_be_state &s) { return s.streams->destroy(stream); });
}

weir_result stream_native(weir_be_state *state, weir_be_stream stream, void **native) noexcept {
  return state->streams->native(stream, native);
}

weir_result stream_check(weir_be_state *state, weir_be_stream stream) noexcept {
  return state->streams->check(stream);
}

weir_result stream_synchronize(weir_be_state *state, weir_be_stream stream) noexcept {
  return enter(state, "stream_synchronize",
               [&](weir_be_state &s) { return s.streams->synchronize(stream); });
}

weir_result stream_query(weir_be_state *state, weir_be_stream stream) noexcept {
  return state->streams->query(stream);
}

weir_result stream_host_call(weir_be_state *state, weir_be_stream stream,
                             weir_host_function function, void *user) noexcept {
  return enter(state, "stream_host_call",
               [&](weir_be_state &s) { return s.streams->host_call(stream, function, user); });
}

// ---- fences

weir_result fence_record(weir_be_state *state, weir_be_stream stream,
                         weir_be_fence *fence) noexcept {
  return enter(state, "fence_record",
               [&](weir_be_state &s) { return s.streams->record(stream, fence); });
}

weir_result stream_wait(weir_be_state *state, weir_be_stream stream, weir_be_fence fence) noexcept {
  return enter(state, "stream_wait",
               [&](weir_be_state &s) { return s.streams->wait(stream, fence); });
}

weir_result fence_poll(weir_be_state *state, weir_be_fence fence) noexcept {
  return state->streams->poll(fence);
}

weir_result fence_wait(weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) noexcept {
  return state->streams->wait(fence, timeout_ns);
}

weir_result fence_destroy(weir_be_state *state, weir_be_fence fence) noexcept {
  return state->streams->destroy(fence);
}

// ---- copies

weir_result copy_async(weir_be_state *state, weir_be_stream stream,
                       const weir_be_copy *copy) noexcept {
  return enter(state, "copy_async",
               [&](weir_be_state &s) { return s.streams->copy(stream, copy); });
}

weir_result copy_batch_async(weir_be_state *state, weir_be_stream stream,
                             const weir_be_copy *copies, uint32_t count) noexcept {
  return enter(state, "copy_batch_async",
               [&](weir_be_state &s) { return s.streams->copy_batch(stream, copies, count); });
}

weir_result fill_async(weir_be_state *state, weir_be_stream stream, uint64_t address, uint8_t value,
                       uint64_t bytes) noexcept {
  return enter(state, "fill_async",
               [&](weir_be_state &s) { return s.streams->fill(stream, address, value, bytes); });
}

weir_backend_table make_table() noexcept {
  weir_backend_table t{};
  t.struct_size = sizeof t;
  t.abi_major = WEIR_BACKEND_ABI_MAJOR;
  t.name = "hip";
  t.start = start;
  t.stop = stop;
  t.runtime_version = runtime_version;
  t.last_error_code = last_error_code;
  t.error_text = error_text;
  t.device_count = device_count;
  t.device_describe = device_describe;
  t.device_memory = device_memory;
  t.link_describe = link_describe;
  t.granule_create = granule_create;
  t.granule_destroy = granule_destroy;
  t.range_reserve = range_reserve;
  t.range_free = range_free;
  t.map = map;
  t.unmap = unmap;
  t.granule_export = granule_export;
  t.granule_import = granule_import;
  t.plain_allocate = plain_allocate;
  t.plain_free = plain_free;
  t.host_allocate = host_allocate;
  t.host_free = host_free;
  t.host_register = host_register;
  t.host_unregister = host_unregister;
  t.stream_create = stream_create;
  t.stream_wrap = stream_wrap;
  t.stream_destroy = stream_destroy;
  t.stream_native = stream_native;
  t.stream_check = stream_check;
  t.stream_synchronize = stream_synchronize;
  t.stream_query = stream_query;
  t.stream_host_call = stream_host_call;
  t.fence_record = fence_record;
  t.stream_wait = stream_wait;
  t.fence_poll = fence_poll;
  t.fence_wait = fence_wait;
  t.fence_destroy = fence_destroy;
  t.copy_async = copy_async;
  t.copy_batch_async = copy_batch_async;
  t.fill_async = fill_async;
  t.peer_enable = peer_enable;
  t.map_run = map_run;
  t.unmap_run = unmap_run;
  return t;
}

}  // namespace
}  // namespace weir::hip

extern "C" __attribute__((visibility("default"))) const weir_backend_table *weir_backend_query(
    uint32_t abi_major) {
  static const weir_backend_table table = weir::hip::make_table();
  return abi_major == WEIR_BACKEND_ABI_MAJOR ? &table : nullptr;
}
