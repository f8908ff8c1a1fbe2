// SPDX-License-Identifier: Apache-2.0
//
// The backend's table: entries that hand their arguments to the part that knows, and nothing else. No
// exception leaves an entry. It has no stream_check, as queues record no graphs, and no peers: each device is a VkDevice alone.

#include "backends/common/entry.hpp"
#include "backends/vulkan/errors.hpp"
#include "backends/vulkan/platform.hpp"
#include "backends/vulkan/state.hpp"

#include <weir/backend.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>

namespace weir::vulkan {
namespace {

template <class Body>
weir_result enter(weir_be_state *state, const char *entry, Body body) noexcept {
  return common::enter(state, "vulkan", entry, [&] { return body(*state->running); });
}

/// The same for entries about a stream.
template <class Body>
weir_result enter_stream(weir_be_state *state, weir_be_stream stream, const char *entry,
                         Body body) noexcept {
  return enter(state, entry, [&](Running &running) -> weir_result {
    std::shared_ptr<Stream> found;
    WEIR_BACKEND_TRY(running.streams.find(stream, &found));
    return body(running, *found);
  });
}

weir_result missing(const char *what) noexcept {
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%s is NULL", what);
}

// ---- runtime

weir_result start_state(const weir_be_start &desc, std::unique_ptr<weir_be_state> *made,
                        std::string *why) {
  Options options;
  *why = parse_options(desc.options, &options);
  if (!why->empty()) return WEIR_ERROR_INVALID_ARGUMENT;
  auto state = std::make_unique<weir_be_state>();
  state->log = desc.log;
  state->log_user = desc.log_user;
  const bool told = desc.struct_size >= offsetof(weir_be_start, native) + sizeof desc.native;
  if (told && desc.native != nullptr) {
    WEIR_BACKEND_TRY(state->platform.adopt(options, desc.native, why));
  } else {
    WEIR_BACKEND_TRY(state->platform.start(options, why));
  }
  state->running = std::make_unique<Running>(state->platform);
  for (const std::string &remark : state->platform.remarks()) {
    if (state->log == nullptr) break;
    state->log(state->log_user, WEIR_LOG_WARNING, ("vulkan: " + remark).c_str());
  }
  *made = std::move(state);
  return WEIR_SUCCESS;
}

weir_result start(const weir_be_start *desc, weir_be_state **state, const char **reason) noexcept {
  // The sentence must outlive the call and is the library's until the next start: one a thread.
  thread_local char sentence[512];
  *reason = sentence;
  try {
    std::string why;
    std::unique_ptr<weir_be_state> made;
    const weir_result result = start_state(*desc, &made, &why);
    std::snprintf(sentence, sizeof sentence, "%s", why.c_str());
    if (result == WEIR_SUCCESS) *state = made.release();
    return result;
  } catch (const std::exception &) {
    std::snprintf(sentence, sizeof sentence, "no host memory for the backend's own records");
    return WEIR_ERROR_OUT_OF_HOST_MEMORY;
  }
}

void stop(weir_be_state *state) noexcept { const std::unique_ptr<weir_be_state> last(state); }

const char *runtime_version(weir_be_state *state) noexcept {
  return state->platform.version_text().c_str();
}

int64_t last_error_code(weir_be_state *) noexcept { return common::last_native(); }

const char *error_text(weir_be_state *, int64_t native) noexcept { return text_of(native); }

// ---- devices

weir_result device_count(weir_be_state *state, uint32_t *count) noexcept {
  *count = static_cast<uint32_t>(state->platform.devices().size());
  return WEIR_SUCCESS;
}

weir_result device_describe(weir_be_state *state, uint32_t device,
                            weir_be_device *description) noexcept {
  return enter(state, "device_describe", [&](Running &) -> weir_result {
    WEIR_BACKEND_TRY(state->platform.check_device(device));
    weir_be_device full{};
    describe(state->platform.device(device), &full);
    common::give(full, description);
    return WEIR_SUCCESS;
  });
}

weir_result device_memory(weir_be_state *state, uint32_t device, uint64_t *free_bytes,
                          uint64_t *total_bytes) noexcept {
  return enter(state, "device_memory", [&](Running &) -> weir_result {
    WEIR_BACKEND_TRY(state->platform.check_device(device));
    const Device &found = state->platform.device(device);
    *free_bytes = found.available();
    *total_bytes = found.memory();
    return WEIR_SUCCESS;
  });
}

weir_result link_describe(weir_be_state *state, uint32_t from, uint32_t to,
                          weir_be_link *link) noexcept {
  return enter(state, "link_describe", [&](Running &) -> weir_result {
    if (from != WEIR_DEVICE_HOST) WEIR_BACKEND_TRY(state->platform.check_device(from));
    if (to != WEIR_DEVICE_HOST) WEIR_BACKEND_TRY(state->platform.check_device(to));
    weir_be_link full{};
    describe_link(state->platform, from, to, &full);
    common::give(full, link);
    return WEIR_SUCCESS;
  });
}

// ---- memory

weir_result granule_create(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                           weir_be_granule *granule) noexcept {
  return enter(state, "granule_create", [&](Running &running) {
    return running.space.create(device, bytes, flags, granule);
  });
}

weir_result granule_destroy(weir_be_state *state, uint32_t device,
                            weir_be_granule granule) noexcept {
  return enter(state, "granule_destroy",
               [&](Running &running) { return running.space.destroy(device, granule); });
}

weir_result range_reserve(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t alignment,
                          uint64_t *address) noexcept {
  return enter(state, "range_reserve", [&](Running &running) {
    return running.space.reserve(device, bytes, alignment, address);
  });
}

weir_result range_free(weir_be_state *state, uint32_t device, uint64_t address,
                       uint64_t bytes) noexcept {
  return enter(state, "range_free",
               [&](Running &running) { return running.space.free(device, address, bytes); });
}

weir_result map(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                weir_be_granule granule, uint64_t offset, const uint32_t *peers,
                uint32_t peer_count) noexcept {
  return enter(state, "map", [&](Running &running) {
    return running.space.map(device, address, bytes, granule, offset, peers, peer_count);
  });
}

weir_result unmap(weir_be_state *state, uint32_t device, uint64_t address,
                  uint64_t bytes) noexcept {
  return enter(state, "unmap",
               [&](Running &running) { return running.space.unmap(device, address, bytes); });
}

weir_result map_run(weir_be_state *state, uint32_t device, uint64_t address,
                    const weir_be_piece *pieces, uint32_t count, const uint32_t *peers,
                    uint32_t peer_count) noexcept {
  return enter(state, "map_run", [&](Running &running) {
    return running.space.map_run(device, address, pieces, count, peers, peer_count);
  });
}

weir_result unmap_run(weir_be_state *state, uint32_t device, uint64_t address,
                      uint64_t bytes) noexcept {
  return enter(state, "unmap_run",
               [&](Running &running) { return running.space.unmap_run(device, address, bytes); });
}

weir_result granule_export(weir_be_state *state, uint32_t device, weir_be_granule granule,
                           int32_t *fd) noexcept {
  return enter(state, "granule_export",
               [&](Running &running) { return running.space.export_fd(device, granule, fd); });
}

weir_result granule_import(weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                           weir_be_granule *granule) noexcept {
  return enter(state, "granule_import", [&](Running &running) {
    return running.space.import_fd(device, fd, bytes, granule);
  });
}

weir_result native_memory(weir_be_state *state, uint32_t device, uint64_t address, uint32_t kind,
                          void *out) noexcept {
  return enter(state, "native_memory", [&](Running &running) -> weir_result {
    WEIR_BACKEND_TRY(state->platform.check_device(device));
    uint32_t size = 0;
    if (out != nullptr) std::memcpy(&size, out, sizeof size);
    if (kind != WEIR_VULKAN_BUFFER || size < sizeof(weir_vulkan_buffer)) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                    "kind=%u with struct_size=%u; kind %d is of %zu bytes", kind, size,
                    WEIR_VULKAN_BUFFER, sizeof(weir_vulkan_buffer));
    }
    Spot spot;
    const bool known = running.memory.find(device, address, 1, &spot) && !spot.host &&
                       (!spot.sparse || running.space.maps(device, address, 1));
    if (!known)
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "device %u has no memory at %#llx", device,
                    number(address));
    weir_vulkan_buffer told = WEIR_VULKAN_BUFFER_INIT;
    told.buffer = reinterpret_cast<uintptr_t>(spot.buffer);
    told.offset = spot.offset;
    told.bytes = spot.room;
    told.device = state->platform.device(device).handle();
    common::give(told, static_cast<weir_vulkan_buffer *>(out));
    return WEIR_SUCCESS;
  });
}

weir_result plain_allocate(weir_be_state *state, uint32_t device, uint64_t bytes,
                           uint64_t alignment, uint64_t *address) noexcept {
  return enter(state, "plain_allocate", [&](Running &running) {
    return running.memory.allocate_plain(device, bytes, alignment, address);
  });
}

weir_result plain_free(weir_be_state *state, uint32_t device, uint64_t address,
                       uint64_t bytes) noexcept {
  return enter(state, "plain_free",
               [&](Running &running) { return running.memory.free_plain(device, address, bytes); });
}

weir_result host_allocate(weir_be_state *state, uint64_t bytes, void **memory) noexcept {
  return enter(state, "host_allocate",
               [&](Running &running) { return running.memory.allocate_host(bytes, memory); });
}

weir_result host_free(weir_be_state *state, void *memory, uint64_t bytes) noexcept {
  return enter(state, "host_free",
               [&](Running &running) { return running.memory.free_host(memory, bytes); });
}

weir_result host_register(weir_be_state *state, void *memory, uint64_t bytes) noexcept {
  return enter(state, "host_register",
               [&](Running &running) { return running.memory.enroll(memory, bytes); });
}

weir_result host_unregister(weir_be_state *state, void *memory, uint64_t bytes) noexcept {
  return enter(state, "host_unregister",
               [&](Running &running) { return running.memory.dismiss(memory, bytes); });
}

// ---- streams

weir_result stream_create(weir_be_state *state, uint32_t device, uint64_t flags,
                          weir_be_stream *stream) noexcept {
  return enter(state, "stream_create",
               [&](Running &running) { return running.streams.create(device, flags, stream); });
}

weir_result stream_wrap(weir_be_state *state, uint32_t device, void *native,
                        weir_be_stream *stream) noexcept {
  return enter(state, "stream_wrap",
               [&](Running &running) { return running.streams.wrap(device, native, stream); });
}

weir_result stream_destroy(weir_be_state *state, weir_be_stream stream) noexcept {
  return enter(state, "stream_destroy",
               [&](Running &running) { return running.streams.destroy(stream); });
}

weir_result stream_native(weir_be_state *state, weir_be_stream stream, void **native) noexcept {
  return enter_stream(state, stream, "stream_native", [&](Running &, Stream &found) -> weir_result {
    const weir_vulkan_queue *queue = nullptr;
    WEIR_BACKEND_TRY(found.expose(&queue));
    *native = const_cast<weir_vulkan_queue *>(queue);
    return WEIR_SUCCESS;
  });
}

weir_result stream_synchronize(weir_be_state *state, weir_be_stream stream) noexcept {
  return enter_stream(state, stream, "stream_synchronize",
                      [](Running &, Stream &found) { return found.synchronize(); });
}

weir_result stream_query(weir_be_state *state, weir_be_stream stream) noexcept {
  return enter_stream(state, stream, "stream_query",
                      [](Running &, Stream &found) { return found.query(); });
}

weir_result stream_host_call(weir_be_state *state, weir_be_stream stream,
                             weir_host_function function, void *user) noexcept {
  return enter_stream(state, stream, "stream_host_call",
                      [&](Running &, Stream &found) { return found.host_call(function, user); });
}

// ---- fences

weir_result fence_record(weir_be_state *state, weir_be_stream stream,
                         weir_be_fence *fence) noexcept {
  return enter_stream(state, stream, "fence_record", [&](Running &running, Stream &found) {
    return running.fences.record(found, fence);
  });
}

weir_result stream_wait(weir_be_state *state, weir_be_stream stream, weir_be_fence fence) noexcept {
  return enter_stream(state, stream, "stream_wait", [&](Running &running, Stream &found) {
    return running.fences.wait(found, fence);
  });
}

weir_result fence_poll(weir_be_state *state, weir_be_fence fence) noexcept {
  return enter(state, "fence_poll", [&](Running &running) { return running.fences.poll(fence); });
}

weir_result fence_wait(weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) noexcept {
  return enter(state, "fence_wait",
               [&](Running &running) { return running.fences.finish(fence, timeout_ns); });
}

weir_result fence_destroy(weir_be_state *state, weir_be_fence fence) noexcept {
  return enter(state, "fence_destroy",
               [&](Running &running) { return running.fences.destroy(fence); });
}

// ---- copies

weir_result copy_async(weir_be_state *state, weir_be_stream stream,
                       const weir_be_copy *copy) noexcept {
  return enter_stream(state, stream, "copy_async", [&](Running &running, Stream &found) {
    return copy != nullptr ? running.copies.copy(found, *copy) : missing("the copy");
  });
}

weir_result copy_batch_async(weir_be_state *state, weir_be_stream stream,
                             const weir_be_copy *copies, uint32_t count) noexcept {
  return enter_stream(state, stream, "copy_batch_async", [&](Running &running, Stream &found) {
    return running.copies.copy_batch(found, copies, count);
  });
}

weir_result fill_async(weir_be_state *state, weir_be_stream stream, uint64_t address, uint8_t value,
                       uint64_t bytes) noexcept {
  return enter_stream(state, stream, "fill_async", [&](Running &running, Stream &found) {
    return running.copies.fill(found, address, value, bytes);
  });
}

weir_backend_table make_table() noexcept {
  weir_backend_table t{};
  t.struct_size = sizeof t;
  t.abi_major = WEIR_BACKEND_ABI_MAJOR;
  t.name = "vulkan";
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
  t.map_run = map_run;
  t.unmap_run = unmap_run;
  t.granule_export = granule_export;
  t.granule_import = granule_import;
  t.native_memory = native_memory;
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
  t.stream_synchronize = stream_synchronize;
  t.stream_query = stream_query;
  t.fence_record = fence_record;
  t.stream_host_call = stream_host_call;
  t.stream_wait = stream_wait;
  t.fence_poll = fence_poll;
  t.fence_wait = fence_wait;
  t.fence_destroy = fence_destroy;
  t.copy_async = copy_async;
  t.copy_batch_async = copy_batch_async;
  t.fill_async = fill_async;
  return t;
}

}  // namespace
}  // namespace weir::vulkan

extern "C" __attribute__((visibility("default"))) const weir_backend_table *weir_backend_query(
    uint32_t abi_major) {
  static const weir_backend_table table = weir::vulkan::make_table();
  return abi_major == WEIR_BACKEND_ABI_MAJOR ? &table : nullptr;
}
