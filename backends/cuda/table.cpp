// SPDX-License-Identifier: Apache-2.0
//
// The backend ABI's entries: arguments to objects, results to results. Nothing is decided here. No exception leaves an
// entry. fence_record, fence_poll and stream_check are on Weir's fastest path: beside the driver's own call they cost a
// few loads, the question whether a wrapped stream is recording a graph, and the thread's capture mode.

#include "backends/common/entry.hpp"
#include "backends/cuda/fault.hpp"
#include "backends/cuda/state.hpp"

#include <cstdio>
#include <memory>
#include <string>

namespace weir::cuda {
namespace {

weir_result missing(const char *what) noexcept {
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%s is NULL", what);
}

template <class Body>
weir_result enter(weir_be_state *state, const char *entry, Body body) noexcept {
  return common::enter(state, "cuda", entry, body);
}

/// An entry about one device.
template <class Body>
weir_result enter_device(weir_be_state *state, const char *entry, uint32_t index,
                         Body body) noexcept {
  return enter(state, entry, [&]() -> weir_result {
    Device *device = nullptr;
    WEIR_BACKEND_TRY(state->device(index, &device));
    return body(*device);
  });
}

weir_result check_capability(const Device &device, uint64_t capability, const char *lacking) {
  if (device.has(capability)) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u has no virtual memory, or %s", device.index(),
                lacking);
}

/// An entry about one stream, which the calling thread may use.
template <class Body>
weir_result enter_stream(weir_be_state *state, const char *entry, weir_be_stream stream,
                         Body body) noexcept {
  return enter(state, entry, [&]() -> weir_result {
    Stream *found = nullptr;
    WEIR_BACKEND_TRY(Streams::find(stream, &found));
    return body(*found);
  });
}

/// An entry about host memory, with a context to make it in.
template <class Body>
weir_result enter_host(weir_be_state *state, const char *entry, Body body) noexcept {
  return enter(state, entry, [&]() -> weir_result {
    abi::Context context = nullptr;
    WEIR_BACKEND_TRY(state->host_context(&context));
    return body(context);
  });
}

// ---- runtime

weir_result start(const weir_be_start *desc, weir_be_state **state, const char **reason) noexcept {
  // The sentence must outlive the call and is the library's until the next start: one a thread.
  thread_local char sentence[512];
  *reason = sentence;
  try {
    std::string why;
    auto made = std::make_unique<weir_be_state>();
    if (const weir_result result = made->open(*desc, &why); result != WEIR_SUCCESS) {
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

void stop(weir_be_state *state) noexcept { const std::unique_ptr<weir_be_state> last(state); }

const char *runtime_version(weir_be_state *state) noexcept { return state->version; }

int64_t last_error_code(weir_be_state *) noexcept { return common::last_native(); }

const char *error_text(weir_be_state *state, int64_t native) noexcept {
  return text_of(state->api, native);
}

// ---- devices

weir_result device_count(weir_be_state *state, uint32_t *count) noexcept {
  *count = static_cast<uint32_t>(state->devices.size());
  return WEIR_SUCCESS;
}

weir_result device_describe(weir_be_state *state, uint32_t device,
                            weir_be_device *description) noexcept {
  return enter_device(state, "device_describe", device, [&](Device &d) -> weir_result {
    weir_be_device full{};
    WEIR_BACKEND_TRY(d.describe(&full));
    common::give(full, description);
    return WEIR_SUCCESS;
  });
}

weir_result device_memory(weir_be_state *state, uint32_t device, uint64_t *free_bytes,
                          uint64_t *total_bytes) noexcept {
  return enter_device(state, "device_memory", device,
                      [&](Device &d) { return d.memory(free_bytes, total_bytes); });
}

weir_result link_describe(weir_be_state *state, uint32_t from, uint32_t to,
                          weir_be_link *link) noexcept {
  return enter(state, "link_describe", [&]() -> weir_result {
    Device *here = nullptr, *there = nullptr;
    if (from != WEIR_DEVICE_HOST) WEIR_BACKEND_TRY(state->device(from, &here));
    if (to != WEIR_DEVICE_HOST) WEIR_BACKEND_TRY(state->device(to, &there));
    weir_be_link full{};
    if (here == nullptr && there == nullptr) {
      full.kind = WEIR_LINK_SAME;
      full.direct = 1;
    } else {
      const bool across = here != nullptr && there != nullptr;
      full = across ? state->links.between(*here, *there)
                    : state->links.to_host(here != nullptr ? *here : *there);
    }
    common::give(full, link);
    return WEIR_SUCCESS;
  });
}

weir_result peer_enable(weir_be_state *state, uint32_t device, uint32_t peer) noexcept {
  return enter_device(state, "peer_enable", device, [&](Device &d) -> weir_result {
    Device *other = nullptr;
    WEIR_BACKEND_TRY(state->device(peer, &other));
    return d.enable_peer(*other);
  });
}

// ---- physical memory

weir_result granule_create(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                           weir_be_granule *granule) noexcept {
  return enter_device(state, "granule_create", device,
                      [&](Device &d) { return state->granules(d).create(bytes, flags, granule); });
}

weir_result granule_destroy(weir_be_state *state, uint32_t device,
                            weir_be_granule granule) noexcept {
  return enter_device(state, "granule_destroy", device,
                      [&](Device &d) { return state->granules(d).destroy(granule); });
}

weir_result range_reserve(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t alignment,
                          uint64_t *address) noexcept {
  return enter_device(state, "range_reserve", device, [&](Device &d) {
    return state->granules(d).reserve(bytes, alignment, address);
  });
}

weir_result range_free(weir_be_state *state, uint32_t device, uint64_t address,
                       uint64_t bytes) noexcept {
  return enter_device(state, "range_free", device,
                      [&](Device &d) { return state->granules(d).free(address, bytes); });
}

weir_result map(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                weir_be_granule granule, uint64_t offset, const uint32_t *peers,
                uint32_t peer_count) noexcept {
  return enter_device(state, "map", device, [&](Device &d) {
    return state->granules(d).map(address, bytes, granule, offset, peers, peer_count,
                                  state->devices);
  });
}

weir_result unmap(weir_be_state *state, uint32_t device, uint64_t address,
                  uint64_t bytes) noexcept {
  return enter_device(state, "unmap", device,
                      [&](Device &d) { return state->granules(d).unmap(address, bytes); });
}

weir_result map_run(weir_be_state *state, uint32_t device, uint64_t address,
                    const weir_be_piece *pieces, uint32_t count, const uint32_t *peers,
                    uint32_t peer_count) noexcept {
  return enter_device(state, "map_run", device, [&](Device &d) -> weir_result {
    WEIR_BACKEND_TRY(check_capability(d, WEIR_CAP_MAP_RUN, "maps no runs (map_run=0)"));
    return state->granules(d).map_run(address, pieces, count, peers, peer_count, state->devices);
  });
}

weir_result unmap_run(weir_be_state *state, uint32_t device, uint64_t address,
                      uint64_t bytes) noexcept {
  return enter_device(state, "unmap_run", device, [&](Device &d) -> weir_result {
    WEIR_BACKEND_TRY(check_capability(d, WEIR_CAP_MAP_RUN, "maps no runs (map_run=0)"));
    return state->granules(d).unmap_run(address, bytes);
  });
}

weir_result access_add(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                       const uint32_t *peers, uint32_t peer_count) noexcept {
  return enter_device(state, "access_add", device, [&](Device &d) -> weir_result {
    WEIR_BACKEND_TRY(
        check_capability(d, WEIR_CAP_ACCESS_LATER, "has no peers to add (peer=0, access_later=0)"));
    return state->granules(d).add_access(address, bytes, peers, peer_count, state->devices);
  });
}

weir_result granule_export(weir_be_state *state, uint32_t device, weir_be_granule granule,
                           int32_t *fd) noexcept {
  return enter_device(state, "granule_export", device,
                      [&](Device &d) { return state->granules(d).export_fd(granule, fd); });
}

weir_result granule_import(weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                           weir_be_granule *granule) noexcept {
  return enter_device(state, "granule_import", device,
                      [&](Device &d) { return state->granules(d).import_fd(fd, bytes, granule); });
}

weir_result granule_export_fabric(weir_be_state *state, uint32_t device, weir_be_granule granule,
                                  weir_be_fabric_handle *handle) noexcept {
  return enter_device(state, "granule_export_fabric", device,
                      [&](Device &d) { return state->granules(d).export_fabric(granule, handle); });
}

weir_result granule_import_fabric(weir_be_state *state, uint32_t device,
                                  const weir_be_fabric_handle *handle, uint64_t bytes,
                                  weir_be_granule *granule) noexcept {
  return enter_device(state, "granule_import_fabric", device, [&](Device &d) {
    return handle != nullptr ? state->granules(d).import_fabric(*handle, bytes, granule)
                             : missing("the fabric handle");
  });
}

// ---- plain and host memory

weir_result plain_allocate(weir_be_state *state, uint32_t device, uint64_t bytes,
                           uint64_t alignment, uint64_t *address) noexcept {
  return enter_device(state, "plain_allocate", device, [&](Device &d) {
    return cuda::plain_allocate(state->api, d, bytes, alignment, address);
  });
}

weir_result plain_free(weir_be_state *state, uint32_t device, uint64_t address,
                       uint64_t bytes) noexcept {
  return enter_device(state, "plain_free", device,
                      [&](Device &d) { return cuda::plain_free(state->api, d, address, bytes); });
}

weir_result host_allocate(weir_be_state *state, uint64_t bytes, void **memory) noexcept {
  return enter_host(state, "host_allocate", [&](abi::Context context) {
    return state->host.allocate(context, bytes, memory);
  });
}

weir_result host_free(weir_be_state *state, void *memory, uint64_t bytes) noexcept {
  return enter_host(state, "host_free", [&](abi::Context context) {
    return state->host.release(context, memory, bytes);
  });
}

weir_result check_register(const weir_be_state &state) noexcept {
  for (const auto &device : state.devices) {
    if (device->has(WEIR_CAP_HOST_REGISTER)) continue;
    return refuse(WEIR_ERROR_NOT_SUPPORTED,
                  "device %u can't use registered host memory, or it is off (register=0)",
                  device->index());
  }
  return WEIR_SUCCESS;
}

weir_result host_register(weir_be_state *state, void *memory, uint64_t bytes) noexcept {
  return enter_host(state, "host_register", [&](abi::Context context) -> weir_result {
    WEIR_BACKEND_TRY(check_register(*state));
    return state->host.enroll(context, memory, bytes);
  });
}

weir_result host_unregister(weir_be_state *state, void *memory, uint64_t bytes) noexcept {
  return enter_host(state, "host_unregister", [&](abi::Context context) -> weir_result {
    WEIR_BACKEND_TRY(check_register(*state));
    return state->host.dismiss(context, memory, bytes);
  });
}

// ---- streams

weir_result stream_create(weir_be_state *state, uint32_t device, uint64_t flags,
                          weir_be_stream *stream) noexcept {
  return enter_device(state, "stream_create", device, [&](Device &d) -> weir_result {
    // Copies go to the copy engines on every stream, so that one for copies alone is like any other.
    if ((flags & ~WEIR_BE_STREAM_TRANSFER) != 0)
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "stream flags %#llx", number(flags));
    return state->streams->create(d, stream);
  });
}

weir_result stream_wrap(weir_be_state *state, uint32_t device, void *native,
                        weir_be_stream *stream) noexcept {
  return enter_device(state, "stream_wrap", device,
                      [&](Device &d) { return state->streams->wrap(d, native, stream); });
}

weir_result stream_destroy(weir_be_state *state, weir_be_stream stream) noexcept {
  return enter(state, "stream_destroy", [&] { return state->streams->destroy(stream); });
}

weir_result stream_native(weir_be_state *state, weir_be_stream stream, void **native) noexcept {
  return enter_stream(state, "stream_native", stream, [&](const Stream &s) {
    s.shared.store(true, std::memory_order_relaxed);
    *native = s.native;
    return WEIR_SUCCESS;
  });
}

weir_result stream_check(weir_be_state *state, weir_be_stream stream) noexcept {
  return enter_stream(state, "stream_check", stream, [&](const Stream &s) {
    return s.shared.load(std::memory_order_relaxed) ? state->streams->check(s) : WEIR_SUCCESS;
  });
}

weir_result stream_synchronize(weir_be_state *state, weir_be_stream stream) noexcept {
  return enter_stream(state, "stream_synchronize", stream,
                      [&](const Stream &s) { return state->streams->synchronize(s); });
}

weir_result stream_query(weir_be_state *state, weir_be_stream stream) noexcept {
  return enter_stream(state, "stream_query", stream,
                      [&](const Stream &s) { return state->streams->query(s); });
}

weir_result stream_host_call(weir_be_state *state, weir_be_stream stream,
                             weir_host_function function, void *user) noexcept {
  return enter_stream(state, "stream_host_call", stream,
                      [&](const Stream &s) { return state->streams->call(s, function, user); });
}

// ---- fences

weir_result fence_record(weir_be_state *state, weir_be_stream stream,
                         weir_be_fence *fence) noexcept {
  return enter_stream(state, "fence_record", stream,
                      [&](const Stream &s) { return state->streams->record(s, fence); });
}

weir_result stream_wait(weir_be_state *state, weir_be_stream stream, weir_be_fence fence) noexcept {
  return enter_stream(state, "stream_wait", stream,
                      [&](const Stream &s) { return state->streams->wait(s, fence); });
}

weir_result fence_poll(weir_be_state *state, weir_be_fence fence) noexcept {
  return enter(state, "fence_poll", [&] { return state->streams->poll(fence); });
}

weir_result fence_wait(weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) noexcept {
  return enter(state, "fence_wait", [&] { return state->streams->wait_for(fence, timeout_ns); });
}

weir_result fence_destroy(weir_be_state *state, weir_be_fence fence) noexcept {
  return enter(state, "fence_destroy", [&] { return state->streams->destroy_fence(fence); });
}

// ---- copies

weir_result copy_async(weir_be_state *state, weir_be_stream stream,
                       const weir_be_copy *copy) noexcept {
  return enter_stream(state, "copy_async", stream, [&](const Stream &s) {
    return copy != nullptr ? state->copies->copy(s, *copy) : missing("the copy");
  });
}

weir_result copy_batch_async(weir_be_state *state, weir_be_stream stream,
                             const weir_be_copy *copies, uint32_t count) noexcept {
  return enter_stream(state, "copy_batch_async", stream,
                      [&](const Stream &s) { return state->copies->batch(s, copies, count); });
}

weir_result fill_async(weir_be_state *state, weir_be_stream stream, uint64_t address, uint8_t value,
                       uint64_t bytes) noexcept {
  return enter_stream(state, "fill_async", stream, [&](const Stream &s) {
    return state->copies->fill(s, address, value, bytes);
  });
}

const weir_backend_table table = {
    sizeof(weir_backend_table),
    WEIR_BACKEND_ABI_MAJOR,
    "cuda",
    start,
    stop,
    runtime_version,
    last_error_code,
    error_text,
    device_count,
    device_describe,
    device_memory,
    link_describe,
    granule_create,
    granule_destroy,
    range_reserve,
    range_free,
    map,
    unmap,
    granule_export,
    granule_import,
    plain_allocate,
    plain_free,
    host_allocate,
    host_free,
    host_register,
    host_unregister,
    stream_create,
    stream_wrap,
    stream_destroy,
    stream_native,
    stream_check,
    stream_synchronize,
    stream_query,
    stream_host_call,
    fence_record,
    stream_wait,
    fence_poll,
    fence_wait,
    fence_destroy,
    copy_async,
    copy_batch_async,
    fill_async,
    peer_enable,
    granule_export_fabric,
    granule_import_fabric,
    map_run,
    unmap_run,
    access_add,
    nullptr,  // native_memory: addresses are what CUDA takes
};

}  // namespace
}  // namespace weir::cuda

extern "C" __attribute__((visibility("default"))) const weir_backend_table *weir_backend_query(
    uint32_t abi_major) {
  return abi_major == WEIR_BACKEND_ABI_MAJOR ? &weir::cuda::table : nullptr;
}
