// SPDX-License-Identifier: Apache-2.0
//
// The host device model behind the backend ABI: states, handles, and entries that translate one into the
// other. Nothing is decided here that the model could decide. No exception leaves an entry. fence_record and
// fence_poll are on Weir's fastest path: they read one atomic each and must stay so.
//
// A weir_be_stream is the address of a Stream; its lowest bit is set when it only wraps a stream that the
// caller made, so that ending the wrapper leaves the stream alone.

#include "backends/host/table.hpp"

#include "backends/common/entry.hpp"
#include "backends/host/fault.hpp"
#include "backends/host/model.hpp"

#include <sys/utsname.h>

#include <cstdio>
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <system_error>

struct weir_be_state {
  explicit weir_be_state(const weir::host::Options &options) : model(options) {}
  weir::host::Model model;
  weir_log_callback log = nullptr;
  void *log_user = nullptr;
  char version[80] = "";
};

namespace weir::host {
namespace {

constexpr uintptr_t wrapped = 1;

Stream *stream_of(weir_be_stream handle) noexcept {
  return reinterpret_cast<Stream *>(reinterpret_cast<uintptr_t>(handle) & ~wrapped);
}

weir_be_stream handle_of(const void *stream, uintptr_t mark) noexcept {
  return reinterpret_cast<weir_be_stream>(reinterpret_cast<uintptr_t>(stream) | mark);
}

weir_result missing(const char *what) noexcept {
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%s is NULL", what);
}

template <class Body>
weir_result enter(weir_be_state *state, const char *entry, Body body) noexcept {
  return common::enter(state, "host", entry, [&] { return body(state->model); });
}

// ---- runtime

weir_result start(const weir_be_start *desc, weir_be_state **state, const char **reason) noexcept {
  // The sentence must outlive the call and is the library's until the next start: one a thread.
  thread_local char sentence[512];
  *reason = sentence;
  try {
    std::string why;
    Options options;
    if (const weir_result result = parse_options(desc->options, &options, &why);
        result != WEIR_SUCCESS) {
      std::snprintf(sentence, sizeof sentence, "%s", why.c_str());
      return result;
    }
    auto made = std::make_unique<weir_be_state>(options);
    made->log = desc->log;
    made->log_user = desc->log_user;
    utsname system{};
    if (uname(&system) == 0) {
      std::snprintf(made->version, sizeof made->version, "%.12s %.64s", system.sysname,
                    system.release);
    }
    if (const weir_result result = made->model.open(); result != WEIR_SUCCESS) {
      std::snprintf(sentence, sizeof sentence, "%u devices of %llu bytes cannot be made: %s",
                    options.devices, static_cast<unsigned long long>(options.memory),
                    text_of(last_native()));
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

int64_t last_error_code(weir_be_state *) noexcept { return last_native(); }

const char *error_text(weir_be_state *, int64_t native) noexcept { return text_of(native); }

// ---- devices

weir_result device_count(weir_be_state *state, uint32_t *count) noexcept {
  *count = state->model.options().devices;
  return WEIR_SUCCESS;
}

weir_result device_describe(weir_be_state *state, uint32_t device,
                            weir_be_device *description) noexcept {
  return enter(state, "device_describe", [&](Model &model) -> weir_result {
    WEIR_BACKEND_TRY(model.check_device(device));
    const Options &options = model.options();
    weir_be_device full{};
    full.numa_node = options.numa.empty() ? UINT32_MAX : options.numa[device];
    full.capabilities = model.capabilities(device);
    const auto &own = options.integrated;
    if (std::find(own.begin(), own.end(), device) != own.end())
      full.capabilities |= WEIR_CAP_INTEGRATED;
    full.memory_total = options.memory;
    full.granule = options.vmm ? options.granule : 0;
    full.granule_large = options.vmm ? options.granule_large : 0;
    if (options.names.empty() || options.names[device].empty())
      std::snprintf(full.name, sizeof full.name, "host memory %u", device);
    else
      std::snprintf(full.name, sizeof full.name, "%s", options.names[device].c_str());
    if (!options.pci.empty())
      std::snprintf(full.pci_address, sizeof full.pci_address, "%s", options.pci[device].c_str());
    // "weir-host-device", the last byte told apart by the index: the same in every process.
    std::memcpy(full.uuid, "weir-host-dev", 13);
    full.uuid[15] = static_cast<uint8_t>(device);
    common::give(full, description);
    return WEIR_SUCCESS;
  });
}

weir_result device_memory(weir_be_state *state, uint32_t device, uint64_t *free_bytes,
                          uint64_t *total_bytes) noexcept {
  return enter(state, "device_memory", [&](Model &model) -> weir_result {
    WEIR_BACKEND_TRY(model.check_device(device));
    *free_bytes = model.available(device);
    *total_bytes = model.options().memory;
    return WEIR_SUCCESS;
  });
}

weir_result link_describe(weir_be_state *state, uint32_t from, uint32_t to,
                          weir_be_link *link) noexcept {
  return enter(state, "link_describe", [&](Model &model) -> weir_result {
    if (from != WEIR_DEVICE_HOST) WEIR_BACKEND_TRY(model.check_device(from));
    if (to != WEIR_DEVICE_HOST) WEIR_BACKEND_TRY(model.check_device(to));
    const bool across = from != to && from != WEIR_DEVICE_HOST && to != WEIR_DEVICE_HOST;
    weir_be_link full{};
    full.direct = !across || model.options().peer ? 1 : 0;
    full.kind = from == to ? WEIR_LINK_SAME : full.direct != 0 ? WEIR_LINK_MEMORY : WEIR_LINK_NONE;
    full.hops = from == to ? 0 : 1;
    const PathFacts &facts = model.links().facts(from, to);
    if (from != to && facts.given) {
      full.direct = full.direct != 0 && facts.direct ? 1 : 0;
      full.kind = facts.kind;
      full.hops = facts.hops;
      full.bandwidth = facts.bandwidth;
      full.latency_ns = facts.latency_ns;
    } else if (full.direct != 0) {
      model.links().describe(from, to, &full.bandwidth, &full.latency_ns);
    }
    common::give(full, link);
    return WEIR_SUCCESS;
  });
}

weir_result peer_enable(weir_be_state *state, uint32_t device, uint32_t peer) noexcept {
  return enter(state, "peer_enable", [&](Model &model) -> weir_result {
    WEIR_BACKEND_TRY(model.check_device(device));
    WEIR_BACKEND_TRY(model.check_device(peer));
    if (!model.options().peer) return refuse(WEIR_ERROR_NOT_SUPPORTED, "peers are off (peer=0)");
    if (!model.links().facts(device, peer).direct)
      return refuse(WEIR_ERROR_NOT_SUPPORTED,
                    "device %u reaches device %u through the host only (links)", device, peer);
    return WEIR_SUCCESS;
  });
}

// ---- memory

weir_result granule_create(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                           weir_be_granule *granule) noexcept {
  return enter(state, "granule_create",
               [&](Model &m) { return m.granule_create(device, bytes, flags, granule); });
}

weir_result granule_destroy(weir_be_state *state, uint32_t device,
                            weir_be_granule granule) noexcept {
  return enter(state, "granule_destroy",
               [&](Model &m) { return m.granule_destroy(device, granule); });
}

weir_result range_reserve(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t alignment,
                          uint64_t *address) noexcept {
  return enter(state, "range_reserve",
               [&](Model &m) { return m.range_reserve(device, bytes, alignment, address); });
}

weir_result range_free(weir_be_state *state, uint32_t device, uint64_t address,
                       uint64_t bytes) noexcept {
  return enter(state, "range_free", [&](Model &m) { return m.range_free(device, address, bytes); });
}

weir_result map(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                weir_be_granule granule, uint64_t offset, const uint32_t *peers,
                uint32_t peer_count) noexcept {
  return enter(state, "map", [&](Model &m) -> weir_result {
    return m.map(device, address, bytes, granule, offset, peers, peer_count);
  });
}

weir_result unmap(weir_be_state *state, uint32_t device, uint64_t address,
                  uint64_t bytes) noexcept {
  return enter(state, "unmap", [&](Model &m) { return m.unmap(device, address, bytes); });
}

weir_result map_run(weir_be_state *state, uint32_t device, uint64_t address,
                    const weir_be_piece *pieces, uint32_t count, const uint32_t *peers,
                    uint32_t peer_count) noexcept {
  return enter(state, "map_run", [&](Model &m) {
    return m.map_run(device, address, pieces, count, peers, peer_count);
  });
}

weir_result unmap_run(weir_be_state *state, uint32_t device, uint64_t address,
                      uint64_t bytes) noexcept {
  return enter(state, "unmap_run", [&](Model &m) { return m.unmap_run(device, address, bytes); });
}

weir_result access_add(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                       const uint32_t *peers, uint32_t peer_count) noexcept {
  return enter(state, "access_add",
               [&](Model &m) { return m.access_add(device, address, bytes, peers, peer_count); });
}

weir_result granule_export(weir_be_state *state, uint32_t device, weir_be_granule granule,
                           int32_t *fd) noexcept {
  return enter(state, "granule_export",
               [&](Model &m) { return m.granule_export(device, granule, fd); });
}

weir_result granule_import(weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                           weir_be_granule *granule) noexcept {
  return enter(state, "granule_import",
               [&](Model &m) { return m.granule_import(device, fd, bytes, granule); });
}

weir_result plain_allocate(weir_be_state *state, uint32_t device, uint64_t bytes,
                           uint64_t alignment, uint64_t *address) noexcept {
  return enter(state, "plain_allocate",
               [&](Model &m) { return m.plain_allocate(device, bytes, alignment, address); });
}

weir_result plain_free(weir_be_state *state, uint32_t device, uint64_t address,
                       uint64_t bytes) noexcept {
  return enter(state, "plain_free", [&](Model &m) { return m.plain_free(device, address, bytes); });
}

weir_result host_allocate(weir_be_state *state, uint64_t bytes, void **memory) noexcept {
  return enter(state, "host_allocate", [&](Model &m) { return m.host().allocate(bytes, memory); });
}

weir_result host_free(weir_be_state *state, void *memory, uint64_t bytes) noexcept {
  return enter(state, "host_free", [&](Model &m) { return m.host().release(memory, bytes); });
}

weir_result check_register(const Model &model) noexcept {
  if (model.options().host_register) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_NOT_SUPPORTED, "registering host memory is off (register=0)");
}

weir_result host_register(weir_be_state *state, void *memory, uint64_t bytes) noexcept {
  return enter(state, "host_register", [&](Model &m) -> weir_result {
    WEIR_BACKEND_TRY(check_register(m));
    return m.host().enroll(memory, bytes);
  });
}

weir_result host_unregister(weir_be_state *state, void *memory, uint64_t bytes) noexcept {
  return enter(state, "host_unregister", [&](Model &m) -> weir_result {
    WEIR_BACKEND_TRY(check_register(m));
    return m.host().dismiss(memory, bytes);
  });
}

// ---- streams

weir_result stream_create(weir_be_state *state, uint32_t device, uint64_t flags,
                          weir_be_stream *stream) noexcept {
  return enter(state, "stream_create", [&](Model &model) -> weir_result {
    WEIR_BACKEND_TRY(model.check_device(device));
    const uint64_t known = model.options().transfer_stream ? WEIR_BE_STREAM_TRANSFER : 0;
    if ((flags & ~known) != 0) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "stream flags %#llx",
                    static_cast<unsigned long long>(flags));
    }
    const Stream *made = model.streams().open(device);
    if (made == nullptr) {
      return refuse(WEIR_ERROR_BACKEND, "all %zu streams are in use", StreamTable::capacity);
    }
    *stream = handle_of(made, 0);
    return WEIR_SUCCESS;
  });
}

weir_result stream_wrap(weir_be_state *state, uint32_t device, void *native,
                        weir_be_stream *stream) noexcept {
  return enter(state, "stream_wrap", [&](Model &model) -> weir_result {
    WEIR_BACKEND_TRY(model.check_device(device));
    if (!model.streams().is_open(native)) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%p is no stream of this backend", native);
    }
    const uint32_t home = static_cast<const Stream *>(native)->device();
    if (home != device) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "stream %p is of device %u, not %u", native, home,
                    device);
    }
    *stream = handle_of(native, wrapped);
    return WEIR_SUCCESS;
  });
}

weir_result stream_destroy(weir_be_state *state, weir_be_stream stream) noexcept {
  return enter(state, "stream_destroy", [&](Model &model) -> weir_result {
    if (stream == nullptr) return missing("the stream");
    if ((reinterpret_cast<uintptr_t>(stream) & wrapped) != 0) return WEIR_SUCCESS;
    if (!model.streams().is_open(stream_of(stream))) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%p is no open stream",
                    static_cast<void *>(stream));
    }
    model.streams().close(stream_of(stream));
    return WEIR_SUCCESS;
  });
}

weir_result stream_native(weir_be_state *, weir_be_stream stream, void **native) noexcept {
  if (stream == nullptr) return missing("the stream");
  *native = stream_of(stream);
  return WEIR_SUCCESS;
}

weir_result stream_synchronize(weir_be_state *, weir_be_stream stream) noexcept {
  if (stream == nullptr) return missing("the stream");
  Stream *each = stream_of(stream);
  each->wait(each->submitted(), UINT64_MAX);
  return WEIR_SUCCESS;
}

weir_result stream_query(weir_be_state *, weir_be_stream stream) noexcept {
  if (stream == nullptr) return missing("the stream");
  const Stream *each = stream_of(stream);
  return each->done(each->submitted()) ? WEIR_SUCCESS : WEIR_NOT_READY;
}

weir_result stream_host_call(weir_be_state *state, weir_be_stream stream,
                             weir_host_function function, void *user) noexcept {
  return enter(state, "stream_host_call", [&](Model &m) -> weir_result {
    return stream != nullptr ? m.call(*stream_of(stream), function, user) : missing("the stream");
  });
}

// ---- fences

weir_result fence_record(weir_be_state *, weir_be_stream stream, weir_be_fence *fence) noexcept {
  if (stream == nullptr) return missing("the stream");
  *fence = StreamTable::record(*stream_of(stream));
  return WEIR_SUCCESS;
}

weir_result fence_poll(weir_be_state *state, weir_be_fence fence) noexcept {
  const Stream *stream = state->model.streams().stream_of(fence);
  if (stream == nullptr) return missing("the fence");
  return stream->done(StreamTable::sequence_of(fence)) ? WEIR_SUCCESS : WEIR_NOT_READY;
}

weir_result fence_wait(weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) noexcept {
  Stream *stream = state->model.streams().stream_of(fence);
  if (stream == nullptr) return missing("the fence");
  const uint64_t sequence = StreamTable::sequence_of(fence);
  if (stream->done(sequence)) return WEIR_SUCCESS;
  if (timeout_ns == 0) return WEIR_ERROR_TIMEOUT;
  const uint64_t now = now_ns();
  const uint64_t deadline = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
  return stream->wait(sequence, deadline) ? WEIR_SUCCESS : WEIR_ERROR_TIMEOUT;
}

weir_result fence_destroy(weir_be_state *, weir_be_fence) noexcept { return WEIR_SUCCESS; }

weir_result stream_wait(weir_be_state *state, weir_be_stream stream, weir_be_fence fence) noexcept {
  return enter(state, "stream_wait", [&](Model &m) -> weir_result {
    return stream != nullptr ? m.wait(*stream_of(stream), fence) : missing("the stream");
  });
}

// ---- copies

weir_result copy_async(weir_be_state *state, weir_be_stream stream,
                       const weir_be_copy *copy) noexcept {
  return enter(state, "copy_async", [&](Model &m) -> weir_result {
    if (stream == nullptr || copy == nullptr)
      return missing(stream == nullptr ? "the stream" : "the copy");
    return m.copy(*stream_of(stream), copy, 1);
  });
}

weir_result copy_batch_async(weir_be_state *state, weir_be_stream stream,
                             const weir_be_copy *copies, uint32_t count) noexcept {
  return enter(state, "copy_batch_async", [&](Model &m) -> weir_result {
    if (!m.options().batch_copy)
      return refuse(WEIR_ERROR_NOT_SUPPORTED, "batches are off (batch_copy=0)");
    if (stream == nullptr) return missing("the stream");
    if (count == 0) return WEIR_SUCCESS;
    if (copies == nullptr) return missing("the copies");
    return m.copy(*stream_of(stream), copies, count);
  });
}

weir_result fill_async(weir_be_state *state, weir_be_stream stream, uint64_t address, uint8_t value,
                       uint64_t bytes) noexcept {
  return enter(state, "fill_async", [&](Model &m) -> weir_result {
    return stream != nullptr ? m.fill(*stream_of(stream), address, value, bytes)
                             : missing("the stream");
  });
}

weir_backend_table make_table() noexcept {
  weir_backend_table t{};
  t.struct_size = sizeof t;
  t.abi_major = WEIR_BACKEND_ABI_MAJOR;
  t.name = "host";
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
  t.access_add = access_add;
  return t;
}

}  // namespace
}  // namespace weir::host

extern "C" const weir_backend_table *weir_host_backend_query(uint32_t abi_major) {
  static const weir_backend_table table = weir::host::make_table();
  return abi_major == WEIR_BACKEND_ABI_MAJOR ? &table : nullptr;
}
